"""Jobs and drivers that the Spark suites start in processes of their own."""
