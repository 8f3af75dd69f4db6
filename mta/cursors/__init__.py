"""Cursors: windows that are fronts over events which others keep.

- ``ordered``: what may be read of events in order
- ``cursor``: what a policy sees of a window, and the front of one of several windows
- ``reach``: ranges of kept events, and how far back a window reaches
"""
