"""The commands that need no Spark."""
