"""Periodic results: triggers, and windows that give results when they are due.

- ``rules``: at which moments
- ``triggered``, ``sliced``: a window over events, and one over slices
- ``snapshot``: the format of their snapshots
"""
