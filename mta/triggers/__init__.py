"""Periodic results: triggers, and windows that give results when they are due.

- ``rules``: at which moments
- ``triggered``, ``sliced``: one window or several over events, and one over slices
- ``snapshot``: the format of their snapshots
"""
