"""One micro-batch of one bucket of keys, without Spark."""
