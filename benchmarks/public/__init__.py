"""Public benchmarks of stream engines: Nexmark's query 5, ShuffleBench, Scotty."""
