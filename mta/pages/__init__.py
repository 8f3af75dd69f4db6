"""Pages and snapshots: their formats, and what keeps and reads them.

- ``page``, ``snapshot``: the formats, byte by byte
- ``pager``: where sealed groups go, and when they are deleted
"""
