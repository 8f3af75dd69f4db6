"""Page stores: bytes by key, in memory, on local disk, or on a server.

>>> from stores import open_store
>>> with open_store("memory://") as store:
...     store.put_many({"window/0/1": b"a page"})
...     store.get_many(["window/0/1", "window/0/2"])
[b'a page', None]
"""

from .base import Capabilities, PageStore
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
from .opening import open_store

__all__ = [
    "Capabilities",
    "InvalidKey",
    "InvalidStoreURL",
    "MissingDependency",
    "PageStore",
    "PageTooLarge",
    "StoreAccessDenied",
    "StoreClosed",
    "StoreDamaged",
    "StoreFull",
    "StoreUnavailable",
    "UnsupportedOperation",
    "WindowStoreError",
    "open_store",
]
