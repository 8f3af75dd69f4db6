"""Checks of what the public classes of windows are given."""

from __future__ import annotations

from typing import Any, TypeVar

from mta.errors import UnsupportedOperation
from mta.frames.base import Frame
from mta.frames.shorthand import frame_of
from mta.logs.base import EventLog
from mta.logs.finger_tree.log import FingerTreeLog
from mta.snapshots import MAX_NAME_BYTES
from stores import PageStore, StoreLike, open_store

_Log = TypeVar("_Log", bound=FingerTreeLog)


def by_time(structure: EventLog, kind: type[_Log]) -> _Log:
    """Return the structure, which must order events by time. Raises UnsupportedOperation."""
    if isinstance(structure, kind):
        return structure
    raise in_order(structure.name)


def in_order(what: str) -> UnsupportedOperation:
    """Return the error of a retraction from windows that take events in order."""
    return UnsupportedOperation(
        f"{what} inserts events in order and evicts the oldest first: for retractions set "
        "allowed_lateness, even 0"
    )


def read_frame(size: Any) -> Frame:
    """Return a frame as ``frame_of`` does. Raises ValueError for ``ties="peers"``."""
    frame = frame_of(size)
    if frame.ties != "rows":
        raise ValueError(
            f"{frame!r} includes all events at the time of the last event, and more of them "
            "may still come: use ties='peers' in rolling and batches, which have all events; leave "
            "ties= out here"
        )
    return frame


def require_store(store: StoreLike | None) -> PageStore | None:
    """Open a store, unless it is open already. Raises TypeError and InvalidStoreURL."""
    require_kind(store, StoreLike | None, "a store is a URL, a Path, an open store, or None")
    return None if store is None else open_store(store)


def require_kind(value: Any, kind: Any, message: str) -> None:
    """Raise TypeError for a value of another kind, or for the class itself."""
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(f"{message}, and {value.__name__} is a class: write {value.__name__}()")
    if not isinstance(value, kind):
        raise TypeError(f"{message}, not {value!r}")


def check_name(name: Any) -> None:
    """Raise TypeError or ValueError for an invalid name of a window."""
    require_kind(name, str, "a window's name is text")
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a window's name is 1 to {MAX_NAME_BYTES} bytes, not {name!r}")
