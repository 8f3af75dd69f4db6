"""Published windows, read from any process.

- ``reader``: the public reader, which follows what is published
- ``cuts``: all buckets as of one committed batch: queries, events, status
- ``views``: one snapshot, of a bucket of keys or of a window without keys
- ``single``: one key as of now, without the cost of columns
- ``lookups``: the lookup of one key step by step, for event loops
- ``pages``: the store as a read-only store, and the cache of pages

The package ``mta.publishing`` publishes windows.
"""

from mta.published.cuts import PublishedStatus
from mta.published.lookups import NotCached
from mta.published.reader import PublishedWindows, open_published
from mta.publishing.publisher import published_names, unpublish

__all__ = [
    "NotCached",
    "PublishedStatus",
    "PublishedWindows",
    "open_published",
    "published_names",
    "unpublish",
]
