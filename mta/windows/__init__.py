"""Windows: a monoid, a policy, a structure and a store behind one interface.

- ``window``: one window, the public class
- ``settings``, ``intake``, ``engine``: its settings, the checks of input, its internal state
- ``single``: single events in plain Python, which the log receives many at a time;
  ``native``: the same with a compiled kernel; ``late``: late events, where the order matters
- ``shared``, ``shared_engine``, ``shared_snapshot``: multiple windows over one stream
- ``moments``: the window as of any moment
- ``display``: tables in notebooks, sizes in readable units
- ``opaque``: windows read from snapshots alone
"""
