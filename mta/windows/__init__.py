"""Windows: a monoid, a policy, a structure and a store behind one interface.

- ``window``: one window, what users call
- ``settings``, ``intake``, ``engine``: how it is set, what comes in, what works inside
- ``single``: single events in plain Python, of which the structure hears many at a time;
  ``native``: the same by a kernel; ``late``: late ones where the order matters
- ``revision``: what late events change
- ``shared``, ``shared_engine``, ``shared_snapshot``: multiple windows over one stream
- ``moments``: the window as of any moment
- ``display``: tables in notebooks, sizes in people's units
- ``opaque``: windows out of their snapshots alone
"""
