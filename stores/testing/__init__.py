"""For tests of stores: a conformance suite, and wrappers that count, delay and fail.

- ``conformance``: what every store must do, as tests to subclass
- ``counting``, ``latency``, ``faults``: the wrappers
- ``http_proxy``: what stands before an object store, and fails or is slow
"""
