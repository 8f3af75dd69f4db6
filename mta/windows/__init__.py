"""Windows: a monoid, a frame, a structure and a store behind one interface.

- ``window``, ``shared``: one window, and multiple windows over one stream: the public classes
- ``public``: what they have in common; ``checks``, ``settings``, ``intake``: what they are given
- ``engine``: the internal state of both, a log and the windows over it by name; ``saving``: what
  it writes to snapshots, and what it requires of them
- ``single``: single events, which the log receives in groups; ``stack``, ``compiled``: their folds,
  in Python and in C; ``late``: late events for operations that depend on order
- ``moments``: the window as of any moment; ``revising``: results of earlier events
- ``display``: tables in notebooks, and readable sizes
- ``opaque``: windows restored from snapshots alone
"""
