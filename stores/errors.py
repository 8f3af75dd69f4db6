"""The errors of stores, and the base class of all errors; each error says what to do.

The base class is here, in the lowest layer, so that ``mta`` and ``spark_integration`` can share it.
Each subclass also inherits from the built-in exception that a caller would expect. ``pip_install``
returns the command with which the message of a ``MissingDependency`` ends.
"""


class WindowStoreError(Exception):
    """The base class of every error that this project raises on purpose."""


class InvalidStoreURL(WindowStoreError, ValueError):
    """The URL of the store is invalid: correct it."""


class StoreUnavailable(WindowStoreError, ConnectionError):
    """The store did not answer in time: nothing was lost; retry when it is back."""


class StoreAccessDenied(WindowStoreError, PermissionError):
    """The store refused the credentials or the operation: correct the user, password or rights."""


class StoreFull(WindowStoreError, OSError):
    """The store is full: make room or raise its limit, then retry."""


class StoreDamaged(WindowStoreError, OSError):
    """The store's own files are damaged: restore a copy, or start with an empty folder."""


class StoreClosed(WindowStoreError, RuntimeError):
    """The store was closed: open it again."""


class InvalidKey(WindowStoreError, ValueError):
    """The key cannot be stored: it is empty, too long, or has characters outside ASCII."""


class PageTooLarge(WindowStoreError, ValueError):
    """The page is larger than the store accepts: choose a smaller arity."""


class UnsupportedOperation(WindowStoreError, NotImplementedError):
    """The operation is not supported; the message says which version or setting supports it."""


class MissingDependency(WindowStoreError, ImportError):
    """A library is not installed: install the extra that the message names."""


#: What the pip command names before the extra. The package is in no index: it is installed from the
#: folder of its source, or from the path of a wheel.
SOURCE = "."


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, for the end of an error message.

    >>> pip_install("redis")
    "pip install '.[redis]' in the project's folder (or give the path of the wheel in place of '.')"
    """
    place = f"in the project's folder (or give the path of the wheel in place of '{SOURCE}')"
    return f"pip install '{SOURCE}[{extra}]' {place}"
