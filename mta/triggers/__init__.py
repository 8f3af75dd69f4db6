"""Periodic results: triggers, and windows that give results when they are due.

- ``rules``: at which moments
- ``triggered``, ``sliced``: a window over events, with the format of snapshots; one over slices
"""
