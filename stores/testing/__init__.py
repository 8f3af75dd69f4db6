"""For tests of stores: a conformance suite, and wrappers that count, delay and fail."""
