"""Windows: a monoid, a frame, a structure and a store behind one interface.

- ``window``: one window, the public class
- ``settings``, ``intake``, ``engine``: its settings, the checks of input, its internal state
- ``single``: single events, which the log receives in groups; ``stack``: their folds, in Python and
  compiled; ``late``: late events for operations that depend on order
- ``shared``, ``shared_engine``: multiple windows over one stream
- ``moments``: the window as of any moment
- ``display``: tables in notebooks, and readable sizes
- ``opaque``: windows restored from snapshots alone
"""
