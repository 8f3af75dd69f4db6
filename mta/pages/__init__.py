"""The formats of pages and snapshots, and how pages are stored, read and deleted.

- ``page``, ``snapshot``: the formats, byte by byte
- ``pager``: stores, reads and deletes sealed groups
"""
