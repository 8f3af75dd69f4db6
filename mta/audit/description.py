"""What a handle says about its windows, without their operation and without reading a page."""

from __future__ import annotations

from dataclasses import dataclass

from mta.errors import CorruptSnapshot
from mta.levels.kept import KeptEvents
from mta.levels.pages import check_tails
from mta.pages.handle import Handle
from mta.windows.shared_handle import WindowState, shared_handle


@dataclass(frozen=True)
class SubWindow:
    """One of several windows over shared events, as their handle has it."""

    name: str
    policy: str
    events: int
    front: int
    pages: int | None
    """Pages with events of the window, and those above them; None where only pages can tell."""


@dataclass(frozen=True)
class SnapshotSummary:
    """What a handle says about its window, or about the events of its windows."""

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
    """Events dropped as too late; None where that is counted for all keys together."""
    invalid: int | None
    front_time: int | None
    last_time: int | None
    windows: tuple[SubWindow, ...] = ()
    """The windows over these events by their names, where several share them."""


def describe_snapshot(data: bytes) -> SnapshotSummary:
    """A summary of a handle of a window or of several; no store call. Raises CorruptSnapshot."""
    shared = shared_handle(data)
    handle = Handle.decode(data if shared is None else shared.events)
    states = [] if shared is None else shared.windows
    return SnapshotSummary(
        window=handle.window,
        monoid=handle.monoid[0],
        policy=", ".join(f"{w.name}={w.policy[0]}" for w in states) or handle.policy[0],
        algorithm=handle.algorithm,
        events=handle.back - handle.front,
        front=handle.front,
        back=handle.back,
        levels=handle.levels,
        pages=handle.pages,
        snapshot_bytes=len(data),
        late=handle.counts[0],
        invalid=handle.counts[1],
        front_time=handle.front_time,
        last_time=handle.last_time,
        windows=tuple(_described(state, handle) for state in states),
    )


def _described(state: WindowState, handle: Handle) -> SubWindow:
    pages = _pages_from(state.front, handle) if handle.algorithm == KeptEvents.name else None
    return SubWindow(state.name, state.policy[0], handle.back - state.front, state.front, pages)


def _pages_from(front: int, handle: Handle) -> int:
    """How many pages hold events from a position on; positions alone tell in level queues."""
    if [type(part) for part in handle.state] != [int, list, list]:
        raise CorruptSnapshot("the handle cannot be read: its state is not one of kept events")
    swept, _, tails = handle.state
    check_tails(handle, swept, tails)
    pages, span = 0, handle.leaf_arity
    for number, *_ in tails:
        pages += max(0, number - front // span)
        span *= handle.arity
    return pages
