"""Pages and handles: their formats, and what keeps and reads them.

- ``page``, ``handle``: the formats, byte by byte
- ``pager``: where sealed groups go
- ``structure``: what a window asks of what keeps its events
"""
