"""A summary of the windows in a snapshot, without their monoid and without reading a page."""

from __future__ import annotations

from dataclasses import dataclass

from mta.errors import CorruptSnapshot
from mta.logs.levels.log import LevelLog, check_tails
from mta.pages.snapshot import Snapshot
from mta.windows.shared_snapshot import WindowState, shared_snapshot


@dataclass(frozen=True)
class SubWindow:
    """One of the windows in a snapshot of multiple windows."""

    name: str
    policy: str
    events: int
    front: int
    pages: int | None
    """Pages with events of the window, and their inner pages; None if unknown without pages."""


@dataclass(frozen=True)
class SnapshotSummary:
    """A summary of the window or windows in a snapshot."""

    window: str
    monoid: str
    policy: str
    algorithm: str
    events: int
    front: int
    back: int
    levels: int
    pages: int
    snapshot_bytes: int
    late: int | None
    """Events dropped as too late; None if they are only counted for all keys together."""
    invalid: int | None
    ahead: int | None
    """Events dropped as too far ahead of the clock."""
    front_time: int | None
    last_time: int | None
    windows: tuple[SubWindow, ...] = ()
    """The windows by name, if multiple windows share these events."""


def describe_snapshot(data: bytes) -> SnapshotSummary:
    """Return a summary of a snapshot; no store call.

    Raises CorruptSnapshot.

    Args:
        data: What ``checkpoint`` returned.

    >>> from mta import CountWindow, Max, Window, describe_snapshot
    >>> window = Window(Max(), CountWindow(3), name="described")
    >>> _ = window.extend([1.0, 5.0, 2.0, 3.0])
    >>> describe_snapshot(window.checkpoint()).events
    3
    """
    shared = shared_snapshot(data)
    snapshot = Snapshot.decode(data if shared is None else shared.events)
    states = [] if shared is None else shared.windows
    return SnapshotSummary(
        window=snapshot.window,
        monoid=snapshot.monoid[0],
        policy=", ".join(f"{w.name}={w.policy[0]}" for w in states) or snapshot.policy[0],
        algorithm=snapshot.algorithm,
        events=snapshot.back - snapshot.front,
        front=snapshot.front,
        back=snapshot.back,
        levels=snapshot.levels,
        pages=snapshot.pages,
        snapshot_bytes=len(data),
        late=snapshot.counts[0],
        invalid=snapshot.counts[1],
        ahead=snapshot.counts[2],
        front_time=snapshot.front_time,
        last_time=snapshot.last_time,
        windows=tuple(_described(state, snapshot) for state in states),
    )


def _described(state: WindowState, snapshot: Snapshot) -> SubWindow:
    pages = _pages_from(state.front, snapshot) if snapshot.algorithm == LevelLog.name else None
    return SubWindow(state.name, state.policy[0], snapshot.back - state.front, state.front, pages)


def _pages_from(front: int, snapshot: Snapshot) -> int:
    """Return how many pages have events from a position on, which is known for level queues."""
    if [type(part) for part in snapshot.state] != [int, list, list]:
        raise CorruptSnapshot("the snapshot cannot be read: its state is not that of an event log")
    swept, _, tails = snapshot.state
    check_tails(snapshot, swept, tails)
    pages, span = 0, snapshot.leaf_arity
    for number, *_ in tails:
        pages += max(0, number - front // span)
        span *= snapshot.arity
    return pages
