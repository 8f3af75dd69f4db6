"""Describe a snapshot, verify every page that it refers to, or list every page that it keeps alive.

The audit starts at the tails and goes down (invariants 1 and 2 of ``logs.levels.queues``). It
compares each page with what its parent says about it: its digest, window, level and group. It also
checks that the page is full, that its times do not decrease and end with the parent's time, and, if
the window needs it, that its fold equals the parent's partial. The audit continues after damage. It
cannot reach the pages below a damaged inner page, and does not report them.

A snapshot names pages from ``swept`` on. Its windows need those from the front on. Earlier pages
serve earlier snapshots, and a later checkpoint may already have deleted them. So a missing earlier
page is *gone*, not damaged.

A description (``describe_snapshot``) needs neither the monoid nor a page.

    >>> from mta import CountWindow, Max, Window
    >>> window = Window(Max(), CountWindow(8), name="demo", arity=2)
    >>> _ = window.extend([1.0, 5.0, 2.0, 3.0, 4.0, 0.0, 7.0])
    >>> snapshot = window.checkpoint()
    >>> sorted(key.rpartition("/")[0] for key in live_keys(window))
    ['demo/0/0', 'demo/0/1', 'demo/0/2', 'demo/1/0']
    >>> window.store.delete_many([key for key in live_keys(window) if key.startswith("demo/1")])
    >>> [(found.level, found.group, found.what) for found in audit(window).damaged]
    [(1, 0, 'it is not in the store')]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from mta.errors import CorruptPage, CorruptSnapshot, NotPageable
from mta.logs.levels.log import LevelLog, check_tails
from mta.pages import NO_NAME, Group, Named, decode, key_of
from mta.snapshots import Snapshot, WindowState
from mta.windows.engine import Engine
from mta.windows.opaque import Opaque
from mta.windows.shared import SharedWindows
from mta.windows.window import Window
from stores import PageStore

_BATCH = 64
#: One window, or multiple windows over the same events.
Audited = Window | SharedWindows | Opaque


@dataclass(frozen=True)
class Damage:
    """A page that differs from what its parent says, and the difference."""

    key: str
    level: int
    group: int
    what: str
    first: int
    """The position of the first event below the page."""
    last: int
    needed: bool
    """Whether the window needs the page, and not only earlier snapshots."""
    windows: tuple[str, ...] | None = None
    """Which of multiple windows have some of these events; None for a single window."""
    remedy: str = "restore a copy of it, or restore an earlier snapshot and replay the events"

    def __str__(self) -> str:
        place = f"level {self.level}, group {self.group}, events {self.first:,} to {self.last:,}"
        return f"page {self.key} ({place}): {self.what}; {self._whose()}{self.remedy}"

    def _whose(self) -> str:
        if not self.needed:
            return "only earlier snapshots need it; "
        if self.windows is None:
            return ""
        if not self.windows:
            return "in no window, but retained; "
        return f"in window{'s' * (len(self.windows) > 1)} {', '.join(self.windows)}; "


@dataclass
class Audit:
    """The findings of an audit."""

    pages: int = 0
    """Pages that were read and are intact."""
    gone: int = 0
    """Missing pages of events that have left, which a later checkpoint may have deleted."""
    damaged: list[Damage] = field(default_factory=list)


def audit(window: Audited) -> Audit:
    """Verify every page that one window, or several, refer to; continue after damage.

    Reads every page once, 64 at a time, and writes nothing. Raises NotPageable without a store, and
    the errors of the store.

    Args:
        window: A window, or windows that share their events.
    """
    with np.errstate(all="ignore"):
        auditor = _Auditor(window)
        auditor.walk(window.engine.structure().pages())
        return auditor.found


def live_keys(window: Audited, own: bool = False) -> Iterator[str]:
    """Yield the key of every page that the snapshot names, including those for earlier snapshots.

    Reads each inner page once, but no leaf. Raises NotPageable without a store, and MissingPage or
    CorruptPage for an inner page, as the live pages below it are then unknown.

    Args:
        window: A window, or windows that share their events.
        own: Whether to yield only the pages that these windows need now.
    """
    engine = window.engine
    _store_of(engine)
    for named in engine.structure().named_pages(own):
        yield key_of(engine.name, named.level, named.number, named.name)


def is_garbage(window: Audited, key: str) -> bool:
    """Return whether a page that is not among ``live_keys`` can never be needed again.

    True if no writer that continues from this snapshot or a newer one can ever name the page. If
    False, such a writer may have just written it. No store call.

    Args:
        window: A window, or windows that share their events.
        key: The key of the page.
    """
    engine = window.engine
    name, _, place = key.rpartition("/")[0].partition("/")
    numbers = place.split("/")
    if name != engine.name or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return False
    return engine.structure().is_past(int(numbers[0]), int(numbers[1]))


def _store_of(engine: Engine) -> PageStore:
    if engine.store is None:
        raise NotPageable("this window is only in memory (store=None): it has no pages")
    return engine.store


class _Auditor:
    """One walk over a window's pages."""

    def __init__(self, shared: Audited) -> None:
        engine = shared.engine
        self._fronts = None if isinstance(shared, Window) else shared.fronts
        self._name, self._tree, self._store = engine.name, engine.structure(), _store_of(engine)
        self.found = Audit()

    def walk(self, pages: Iterator[Named]) -> None:
        while batch := list(islice(pages, _BATCH)):
            found = self._store.get_many([self._key(named) for named in batch])
            for named, data in zip(batch, found, strict=True):
                group = self._verify(named, data)
                if group is not None and named.level:
                    self.walk(self._tree.pages_below(named, group))

    def _key(self, named: Named) -> str:
        return key_of(self._name, named.level, named.number, named.name)

    def _verify(self, named: Named, data: bytes | None) -> Group | None:
        """Return the page as a group; None if it is unreadable."""
        if data is None and not named.needed:
            self.found.gone += named.name != NO_NAME
            return None
        group, what = self._read(named, data)
        if what is None:
            self.found.pages += 1
            return group
        windows = None
        if self._fronts is not None:
            windows = tuple(sorted(w for w, front in self._fronts.items() if front < named.end))
        self.found.damaged.append(Damage(
            self._key(named), named.level, named.number, what, named.first, named.end - 1,
            named.needed, windows,
        ))  # fmt: skip
        return group

    def _read(self, named: Named, data: bytes | None) -> tuple[Group | None, str | None]:
        """Return the group if it is readable, and a description of the damage, if any."""
        if data is None:
            return None, "it is not in the store"
        layout = self._tree.layouts[named.level]
        try:
            group = decode(data, self._name, named.level, named.number, named.name, layout)
        except CorruptPage as error:
            return None, str(error.__cause__ or error)
        return group, self._tree.difference(named, group)


# --- descriptions, without reading a page ---------------------------------------------------------


@dataclass(frozen=True)
class SubWindow:
    """One of the windows in a snapshot of multiple windows."""

    name: str
    frame: str
    events: int
    front: int
    pages: int | None
    """Pages with events of the window, and their inner pages; None if unknown without pages."""


@dataclass(frozen=True)
class SnapshotSummary:
    """A summary of the window or windows in a snapshot."""

    window: str
    monoid: str
    frame: str
    algorithm: str
    events: int
    front: int
    back: int
    front_time: int | None
    last_time: int | None
    levels: int = 0
    pages: int = 0
    snapshot_bytes: int = 0
    late: int | None = None
    """Events dropped as too late; None if they are only counted for all keys together."""
    invalid: int | None = None
    ahead: int | None = None
    """Events dropped as too far ahead of the clock."""
    windows: tuple[SubWindow, ...] = ()
    """The windows by name, if multiple windows share these events."""


def describe_snapshot(data: bytes) -> SnapshotSummary:
    """Return a summary of a snapshot; no store call.

    Raises CorruptSnapshot.

    Args:
        data: What ``checkpoint`` returned.

    >>> from mta import CountWindow, Max, Window
    >>> from mta.audit import describe_snapshot
    >>> window = Window(Max(), CountWindow(3), name="described")
    >>> _ = window.extend([1.0, 5.0, 2.0, 3.0])
    >>> describe_snapshot(window.checkpoint()).events
    3
    """
    snapshot = Snapshot.decode(data)
    states = snapshot.windows if snapshot.is_shared else []
    return SnapshotSummary(
        window=snapshot.window,
        monoid=snapshot.monoid[0],
        frame=", ".join(f"{w.name}={w.frame}" if w.name else w.frame for w in snapshot.windows),
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
    return SubWindow(state.name, state.frame, snapshot.back - state.front, state.front, pages)


def _pages_from(front: int, snapshot: Snapshot) -> int:
    """Return how many pages have events from a position on, which is known for level queues."""
    if [type(part) for part in snapshot.state] != [int, list, list]:
        raise CorruptSnapshot("the snapshot cannot be read: its state is not that of an event log")
    swept, _, tails = snapshot.state
    check_tails(snapshot, swept, tails)
    pages, span = 0, 1
    for level, (number, *_) in enumerate(tails):
        span *= snapshot.sizes[level > 0]
        pages += max(0, number - front // span)
    return pages
