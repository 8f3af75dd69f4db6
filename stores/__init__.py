"""Page stores: bytes by key, in memory, on local disk, or on a server.

- ``base``, ``errors``: the interface of stores, state in forked children, and the errors
- ``opening``, ``address``, ``durations``: from a URL and its credentials to a store
- ``memory``, ``local_disk`` (with ``lmdb_file``): stores on this machine, and safe files in
  shared folders
- ``redis`` (with ``redis_connections``), ``couchbase`` (both based on ``server``): stores on a
  server
- ``object_store``: stores in S3, Google Cloud Storage and Azure (based on ``pack_store``,
  ``pack_folder``, ``pack_catalog`` and ``packs``; with ``disk_cache``)
- ``write_buffer``, ``head_cache``, ``compression``: wrappers in front of a store; ``lru``: the
  cache of all of them
- ``testing``: tools for tests of stores
"""

from .base import Capabilities, PageStore, RecordPut, WrapperStore
from .errors import (
    InvalidKey,
    InvalidStoreURL,
    MissingDependency,
    PageTooLarge,
    StoreAccessDenied,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    UnsupportedOperation,
    WindowStoreError,
)
from .head_cache import HeadCache
from .memory import MemoryStore
from .opening import StoreLike, installed_stores, open_store, ping_store
from .write_buffer import WriteBuffer

__all__ = [
    "Capabilities",
    "HeadCache",
    "InvalidKey",
    "InvalidStoreURL",
    "MemoryStore",
    "MissingDependency",
    "PageStore",
    "PageTooLarge",
    "RecordPut",
    "StoreAccessDenied",
    "StoreClosed",
    "StoreDamaged",
    "StoreFull",
    "StoreLike",
    "StoreUnavailable",
    "UnsupportedOperation",
    "WindowStoreError",
    "WrapperStore",
    "WriteBuffer",
    "installed_stores",
    "open_store",
    "ping_store",
]
