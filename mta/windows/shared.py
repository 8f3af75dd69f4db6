"""Several windows over one stream: one structure in pages, and a front for each window.

    >>> from mta import CountWindow, Max
    >>> windows = SharedWindows(Max(), {"two": CountWindow(2), "four": CountWindow(4)}, name="demo")
    >>> results = windows.extend([1.0, 5.0, 2.0, 3.0, 4.0])
    >>> results["two"].tolist(), results["four"].tolist()
    ([1.0, 5.0, 5.0, 3.0, 4.0], [1.0, 5.0, 5.0, 5.0, 5.0])

Every event is written once and kept for as long as the longest window needs it; each window reads
the pages that its front passes (see ``cursor``). So four windows write the pages of one, and each
reads at most a page a leaf. Whatever is kept can be asked for by range, and windows may be added,
removed, and made longer or shorter at any time. One call at a time, as for ``Window``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, Unpack

import numpy as np

from mta.cursors.cursor import Cursor
from mta.cursors.reach import Reach, reach_of
from mta.cursors.view import part_of
from mta.errors import EventsGone, InvariantViolation
from mta.fiba.kept import KeptTree
from mta.levels.kept import KeepAll, KeptEvents
from mta.monoids.base import AbstractMonoid, Refold
from mta.monoids.product import Columns
from mta.pages.handle import Handle
from mta.policies.base import AbstractPolicy
from mta.windows.engine import Engine, alone, require_policy
from mta.windows.feed import Feed
from mta.windows.settings import EventSettings, Lateness, Settings, to_lateness
from mta.windows.shared_handle import MAX_NAME_BYTES, SharedHandle, WindowState
from stores import PageStore

#: After how many leaf groups events that no window needs are let go of, where no handle does it.
_TRIM_GROUPS = 32


@dataclass(frozen=True)
class SharedStats:
    """What several windows hold and have done."""

    windows: dict[str, int]
    """Events in each window."""
    kept: int
    """Events that are kept."""
    inserted: int
    """Events accepted since the beginning; also the position after the newest."""
    levels: int
    late: int
    """Events dropped because they were older than the last one."""
    invalid: int
    """Events dropped because they held a null or NaN."""


class SharedWindows:
    """The aggregate of several windows over one stream, after every event.

    ``windows`` are policies by name. ``keep``, a window by count or time, says what to keep for
    ranges and for windows to come, though no window holds it; ``timed`` keeps times though no
    policy looks at them yet. With ``lateness`` events may come that much late: they are kept in
    order of time, and a result is that of the window which ends with its event (of a window whose
    policy looks at values: with the newest). The other settings are those of ``Window``, but that
    there is no aggregator to choose.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore | None = "memory://",
        name: str = "windows",
        *,
        keep: AbstractPolicy | None = None,
        timed: bool = False,
        lateness: Lateness | None = None,
        **settings: Unpack[EventSettings],
    ) -> None:
        checked = _settings(settings, lateness)
        _check_policies(windows, keep)
        timed = timed or any(policy.needs_times for policy in [*windows.values(), keep] if policy)
        self._use(_engine(monoid, windows, store, name, timed, checked), windows, keep)

    def _use(
        self, engine: Engine, windows: Mapping[str, AbstractPolicy], keep: AbstractPolicy | None
    ) -> None:
        self.engine, self.name, self.store = engine, engine.name, engine.store
        self.monoid, self._keep = engine.main, keep
        self.feed = Feed(engine, self._trim)
        self.structure = self.feed.structure
        self._trimmed = self.structure.back
        for name, policy in windows.items():
            self.feed.cursors[name] = self._cursor(policy)

    # --- events and results -----------------------------------------------------------------------

    @alone
    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event to all windows; amortised O(1) combines a window.

        Raises InvalidValue, InvalidTime, LateEvent, or an error of the store; then nothing has
        changed.
        """
        self.feed.insert(value, time)

    @alone
    def extend(
        self, values: Any, times: Any = None, results: Literal["all", "last"] = "all"
    ) -> dict[str, Any]:
        """Add a batch of events; return each window's result after each event, or after the last.

        As ``Window.extend``. Each window adds about two whole-group combines an event and the scan
        of each leaf; once it is longer than what is still in memory, also a page read a leaf.
        """
        return self.feed.extend(values, times, results)

    @property
    def last_accepted(self) -> np.ndarray | None:
        """Which events of the last batch were accepted; None when all were."""
        return self.engine.intake.last_accepted

    @alone
    def query(self, which: str | AbstractPolicy | None = None, partial: bool = False) -> Any:
        """The result of one window, of all by name, or of a policy that is no window.

        1 combine a window. For a policy O(arity * log n) combines and at most two page reads a
        level; raises EventsGone where events have left that it asks for, unless ``partial``.
        """
        if which is None:
            return {name: self._result(cursor) for name, cursor in self.feed.cursors.items()}
        if isinstance(which, str):
            return self._result(self._window(which))
        cursor = self.feed.ready(self._cursor(which))
        if not partial and not self._reach(cursor, lateness=0).complete:
            raise EventsGone(
                f"events that {which!r} asks for have left; those from position "
                f"{cursor.front} on are kept: ask for less, or say partial=True"
            )
        return self._result(cursor)

    def _result(self, cursor: Cursor) -> Any:
        return self.engine.lowered(self.feed.ready(cursor).query(), len(cursor))

    @alone
    def range(self, after: Any, until: Any, partial: bool = False) -> Any:
        """The result of the events with after < t <= until, the monoid's ``empty`` without any.

        So ``range(now - size, now)`` is what a time window of that size holds. O(arity * log n)
        combines and at most two page reads a level. Raises InvalidTime, and EventsGone where events
        of the range have left, unless ``partial``.
        """
        return self.engine.range(after, until, partial)

    @alone
    def range_of_positions(self, start: int, stop: int, partial: bool = False) -> Any:
        """The result of the events from position ``start`` to ``stop``; costs as ``range``.

        Positions count accepted events from 0 on; the newest is at ``stats().inserted - 1``. Raises
        ValueError, and EventsGone unless ``partial``.
        """
        return self.engine.range_of_positions(start, stop, partial)

    # --- windows coming and going -----------------------------------------------------------------

    @alone
    def add(self, name: str, policy: AbstractPolicy) -> Reach:
        """A new window, over as many of the events that it asks for as are kept.

        At most a page read a level. Raises ValueError for a name that is taken, and for a policy
        that needs times or aggregates that these events are not kept with.
        """
        _check_name(name)
        if name in self.feed.cursors:
            raise ValueError(f"there is a window {name!r} already; resize it, or remove it first")
        return self._set(name, policy)

    @alone
    def resize(self, name: str, policy: AbstractPolicy) -> Reach:
        """Another policy for a window, longer or shorter, from now on; costs as ``add``.

        A longer one reaches back as far as events are kept, and says how many it lacks, also for
        the results of events that may yet come late.
        """
        self._window(name)
        return self._set(name, policy)

    def _set(self, name: str, policy: AbstractPolicy) -> Reach:
        cursor = self.feed.ready(self._cursor(policy))
        reach = self._reach(cursor, self.engine.settings.lateness or 0)
        others = {n: c.policy for n, c in self.feed.cursors.items() if n != name}
        self._check_observed([*others.values(), policy])
        self.feed.cursors[name] = cursor
        return reach

    @alone
    def remove(self, name: str) -> None:
        """Do without a window; events that only it needed leave. No store call."""
        self._window(name)
        self._check_observed([c.policy for n, c in self.feed.cursors.items() if n != name])
        del self.feed.cursors[name]

    @alone
    def reach(self, name: str) -> Reach:
        """How far back a window reaches, and how many events it lacks; at most a page a level."""
        cursor = self.feed.ready(self._window(name))
        return self._reach(cursor, self.engine.settings.lateness or 0)

    def _reach(self, cursor: Cursor, lateness: int) -> Reach:
        time = self.engine.intake.last_time if self.engine.timed else None
        return reach_of(self.structure, cursor.policy, cursor.front, cursor.back, time, lateness)

    def _cursor(self, policy: AbstractPolicy) -> Cursor:
        """A window that is not settled yet."""
        require_policy(policy)
        if policy.needs_times and not self.engine.timed:
            raise ValueError(f"{policy!r} needs times, but these events are kept without any")
        known = _observed([self.engine.policy])
        lenses = {}
        for observer, columns, monoid in policy.observers:
            place = _place(known, columns, monoid)
            if place is None:
                raise ValueError(f"{policy!r} looks at {monoid.name}, which is not kept here")
            lenses[id(observer)] = part_of(self.engine.monoid, place + 1)
        return Cursor(self.engine.monoid, policy, self.structure, lenses)

    def _check_observed(self, policies: Iterable[AbstractPolicy]) -> None:
        """What policies look at is kept with the events, so a handle is only restored with it."""
        found = _observed(policies)
        for _, columns, monoid in _observed([self.engine.policy]):
            if _place(found, columns, monoid) is None:
                raise ValueError(
                    f"no other window looks at {monoid.name}, which is kept with every event; keep "
                    "this window, or start new ones"
                )

    def _window(self, name: str) -> Cursor:
        _check_name(name)
        cursor = self.feed.cursors.get(name)
        if cursor is None:
            raise ValueError(f"no window is called {name!r}; there are {sorted(self.windows)}")
        return cursor

    # --- handles and pages ------------------------------------------------------------------------

    @alone
    def checkpoint(self, barrier: bool = True) -> bytes:
        """All windows as one handle of a few kilobytes, once all their pages are in the store.

        As ``Window.checkpoint``: save the handle before you take the next one.
        """
        self._evict()
        return self._as_handle(self.engine.checkpoint(barrier))

    @alone
    def handle(self) -> bytes:
        """As ``checkpoint``, for one who saves it with others: once that is done, ``hold``."""
        self._evict()
        return self._as_handle(self.engine.handle())

    def hold(self) -> None:
        """A handle was taken and saved: from now on its pages are kept, as ``retain`` says."""
        self.engine.hold()

    def _as_handle(self, events: bytes) -> bytes:
        states = [
            WindowState(name, (c.policy.describe(), c.policy.fingerprint), c.front)
            for name, c in self.feed.cursors.items()
        ]
        return SharedHandle(events, states).encode()

    @classmethod
    def restore(
        cls,
        handle: bytes,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore = "memory://",
        *,
        keep: AbstractPolicy | None = None,
        lateness: Lateness | None = None,
        **settings: Unpack[EventSettings],
    ) -> Self:
        """The windows that a handle describes; no store call until pages are needed.

        Raises CorruptHandle for damaged bytes, and HandleMismatch when the handle is of another
        monoid or of other windows. Later, a page a level is read for each window's front.
        """
        state = SharedHandle.decode(handle)
        _check_policies(windows, keep)
        fronts, events = state.fronts_for(windows), Handle.decode(state.events)
        checked = _settings(settings, lateness).of_handle(events)
        engine = _engine(monoid, windows, store, events.window, events.timed, checked)
        engine.restore(events)
        return cls._restored(engine, windows, keep, fronts)

    def sibling(self, handle: bytes) -> Self:
        """The windows that a handle describes, with all settings and the store of these ones."""
        state, windows = SharedHandle.decode(handle), self.windows
        fronts = state.fronts_for(windows)
        engine = self.engine.sibling(Handle.decode(state.events))
        return self._restored(engine, windows, self._keep, fronts)

    @classmethod
    def _restored(
        cls,
        engine: Engine,
        windows: Mapping[str, AbstractPolicy],
        keep: AbstractPolicy | None,
        fronts: Mapping[str, int],
    ) -> Self:
        new = object.__new__(cls)
        new._use(engine, windows, keep)
        for name, cursor in new.feed.cursors.items():
            cursor.place(fronts[name], engine.structure.back)
        return new

    def _trim(self) -> None:
        """Now and then let go of events that no window needs, where no handle does it."""
        structure = self.structure
        behind = structure.back - self._trimmed
        if structure.discards and behind >= _TRIM_GROUPS * structure.setting.leaf_arity:
            self._evict()

    def _evict(self) -> None:
        """Let go of the leaf groups that no window needs any more."""
        cursors = list(self.feed.cursors.values())
        if self._keep is not None:
            cursors.append(self._cursor(self._keep))
        events, leaf = self.structure, self.structure.setting.leaf_arity
        fronts = [events.needed_from(c.policy, self.feed.ready(c).front) for c in cursors]
        events.evict_to(min(fronts or [events.back]) // leaf * leaf)
        self._trimmed = events.back

    @alone
    def delete_pages(self) -> None:
        """Delete every page; the windows and all their handles are of no use afterwards."""
        self.structure.delete_pages()

    def close(self) -> None:
        """Let go of the store if it was opened here; pages stay."""
        self.engine.close()

    # --- looking at it ----------------------------------------------------------------------------

    @property
    def windows(self) -> dict[str, AbstractPolicy]:
        """The policy of each window."""
        return {name: cursor.policy for name, cursor in self.feed.cursors.items()}

    @property
    def fronts(self) -> dict[str, int]:
        """The position of each window's oldest event, as far as it is known without a read."""
        oldest, back = self.structure.front, self.structure.back
        return {n: c.front if c.back == back else oldest for n, c in self.feed.cursors.items()}

    @alone
    def stats(self) -> SharedStats:
        """Sizes and counts; a page a level where windows have to be settled first."""
        structure, intake = self.structure, self.engine.intake
        sizes = {name: len(self.feed.ready(cursor)) for name, cursor in self.feed.cursors.items()}
        return SharedStats(
            sizes,
            len(structure),
            structure.back,
            structure.height,
            intake.late_count,
            intake.invalid_count,
        )

    @alone
    def check(self) -> None:
        """Assert every invariant, and every window's result against a fold of its events.

        Reads all pages. Raises InvariantViolation.
        """
        self.structure.check()
        monoid = self.engine.monoid
        for name, cursor in self.feed.cursors.items():
            cursor = self.feed.ready(copy(cursor))  # what is folded here must not be kept
            found = cursor.query()
            if not self.structure.front <= cursor.front <= cursor.back:
                raise InvariantViolation(f"window {name!r} begins before the events it is of")
            fold = Refold(monoid, cursor.partials())
            if not fold.agrees(found):
                raise InvariantViolation(f"window {name!r} is {found!r} instead of {fold!r}")

    def __repr__(self) -> str:
        what, where = f"{self.monoid!r} over {self.windows!r}", self.engine.where()
        return f"<SharedWindows {self.name!r}: {what}, {self.structure.back} events in {where}>"


def _settings(given: EventSettings, lateness: Lateness | None) -> Settings:
    """The settings of the events: by level queues, or by a tree where they may come late."""
    checked = Settings.read(EventSettings, given)
    if lateness is None:
        return replace(checked, aggregator=KeptEvents)
    return replace(checked, aggregator=KeptTree, lateness=to_lateness(lateness, KeptTree))


def _check_policies(windows: Mapping[str, AbstractPolicy], keep: AbstractPolicy | None) -> None:
    """Raises TypeError and ValueError for what cannot be windows of one stream."""
    if not isinstance(windows, Mapping):
        raise TypeError(f"windows are policies by name, as a dictionary, not {windows!r}")
    for name, policy in windows.items():
        _check_name(name)
        require_policy(policy)
    if keep is not None and not (isinstance(keep, AbstractPolicy) and keep.positional):
        raise ValueError(f"keep= takes a window by count or time, not {keep!r}")


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a window's name is text, not {name!r}")
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a window's name is 1 to {MAX_NAME_BYTES} bytes, not {name!r}")


def _engine(
    monoid: AbstractMonoid,
    windows: Mapping[str, AbstractPolicy],
    store: str | PageStore | None,
    name: str,
    timed: bool,
    settings: Settings,
) -> Engine:
    """The engine of the events, which evicts nothing by itself."""
    timed = timed or settings.aggregator.by_time
    return Engine(monoid, KeepAll(timed, _observed(windows.values())), store, name, settings)


Observer = tuple[AbstractPolicy, Columns, AbstractMonoid]


def _observed(policies: Iterable[AbstractPolicy]) -> tuple[Observer, ...]:
    """What policies look at, each aggregate once, in an order that does not depend on theirs."""
    found = {
        (repr(columns), observer.fingerprint): (policy, columns, observer)
        for each in policies
        for policy, columns, observer in each.observers
    }
    return tuple(found[key] for key in sorted(found))


def _place(observed: tuple[Observer, ...], columns: Columns, monoid: AbstractMonoid) -> int | None:
    """Which of the aggregates that policies look at this is."""
    for place, (_, known, observer) in enumerate(observed):
        if repr(known) == repr(columns) and observer.fingerprint == monoid.fingerprint:
            return place
    return None
