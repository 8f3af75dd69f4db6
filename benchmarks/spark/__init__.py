"""The experiments that need Spark."""
