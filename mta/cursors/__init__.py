"""Cursors: windows that are fronts over events which others keep.

- ``ordered``: what may be read of events in order
- ``cursor``: what a policy sees of a window, and the front of one of several windows
- ``ranges``: ranges of retained events
- ``coverage``: which events a window misses
"""
