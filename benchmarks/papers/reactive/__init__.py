"""The experiments of the Reactive Aggregator paper."""
