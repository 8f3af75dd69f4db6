"""Published windows, read from any process.

- ``reader``: the public reader, which follows what is published
- ``cuts``: all buckets as of one committed batch: queries, events, status
- ``views``: one snapshot, of a bucket of keys or of a window without keys
- ``single``: one key as of now, without the cost of columns
- ``asynchronous``: the reader for event loops
- ``pages``: the store as a read-only store, the cache of pages, and lookups step by step

The package ``mta.publishing`` publishes windows.
"""

from mta.published.asynchronous import AsyncPublishedWindows
from mta.published.cuts import PublishedStatus
from mta.published.reader import PublishedWindows

__all__ = [
    "AsyncPublishedWindows",
    "PublishedStatus",
    "PublishedWindows",
]
