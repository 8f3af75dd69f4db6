"""Pages and snapshots: their formats, and how they are stored and read.

- ``page``, ``snapshot``: the formats, byte by byte
- ``pager``: stores sealed groups, and deletes them
"""
