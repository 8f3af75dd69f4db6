"""Several windows over one stream: one structure in pages, and a front for each window.

    >>> from mta import CountWindow, Max
    >>> windows = SharedWindows(Max(), {"two": CountWindow(2), "four": CountWindow(4)}, name="demo")
    >>> results = windows.extend([1.0, 5.0, 2.0, 3.0, 4.0])
    >>> results["two"].tolist(), results["four"].tolist()
    ([1.0, 5.0, 5.0, 3.0, 4.0], [1.0, 5.0, 5.0, 5.0, 5.0])

Every event is written once and kept for as long as the longest window needs it; each window reads
the pages that its front passes (see ``cursor``). So four windows write the pages of one, and each
reads at most a page a leaf. Whatever is kept can be asked for by range, and windows may be added,
removed, and made longer or shorter at any time. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self, cast

import numpy as np

from mta.columns.reading import plain
from mta.cursors.cursor import Cursor
from mta.cursors.reach import Reach, fold_between, fold_positions, reach_of
from mta.errors import EventsGone, InvalidTime, InvariantViolation
from mta.fiba.kept import KeptTree
from mta.levels.kept import KeepAll, KeptEvents
from mta.monoids.base import AbstractMonoid, Partial, Refold
from mta.monoids.product import Columns
from mta.pages.handle import Handle
from mta.policies.base import AbstractPolicy
from mta.times import to_time
from mta.windows.feed import Feed
from mta.windows.intake import Invalid, Late
from mta.windows.shared_handle import MAX_NAME_BYTES, SharedHandle, WindowState
from mta.windows.view import part_of
from mta.windows.window import Window
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
    policy looks at values: with the newest). Everything else is as for ``Window``.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore | None = "memory://",
        name: str = "windows",
        arity: int | None = None,
        leaf_arity: int | None = None,
        late: Late = "error",
        invalid: Invalid = "error",
        retain: int = 2,
        keep: AbstractPolicy | None = None,
        timed: bool = False,
        lateness: float | str | timedelta | None = None,
    ) -> None:
        by_time = lateness is not None
        timed = by_time or timed
        timed = timed or any(policy.needs_times for policy in [*windows.values(), keep] if policy)
        kept = KeepAll(timed, _observed(windows.values()))
        #: The events, as a window that evicts nothing by itself (for ``audit`` and the like).
        self.events = Window(
            monoid, kept, store, name, arity, leaf_arity,
            KeptTree if by_time else KeptEvents, late, invalid, retain, lateness or 0,
        )  # fmt: skip
        self._begin(windows, keep)

    def _begin(self, windows: Mapping[str, AbstractPolicy], keep: AbstractPolicy | None) -> None:
        if keep is not None and not keep.positional:
            raise ValueError(f"keep= takes a window by count or time, not {keep!r}")
        self.monoid, self._keep = self.events.monoid, keep
        #: The windows as they take in events (for ``shared_due``).
        self.feed = Feed(self.events, self._trim)
        self._tree = self.feed.structure
        self._trimmed = self._tree.back
        for name, policy in windows.items():
            if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
                raise ValueError(f"a window's name is 1 to {MAX_NAME_BYTES} bytes, not {name!r}")
            self.feed.cursors[name] = self._cursor(policy)

    # --- events and results -----------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event to all windows; amortised O(1) combines a window.

        Raises InvalidValue, InvalidTime, LateEvent, or an error of the store; then nothing has
        changed.
        """
        self.feed.insert(value, time)

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
        return self.events.last_accepted

    def query(self, which: str | AbstractPolicy | None = None, partial: bool = False) -> Any:
        """The result of one window, of all by name, or of a policy that is no window.

        1 combine a window. For a policy O(arity * log n) combines and at most two page reads a
        level; raises EventsGone where events have left that it asks for, unless ``partial``.
        """
        with np.errstate(all="ignore"):
            if which is None:
                return {name: self._result(cursor) for name, cursor in self.feed.cursors.items()}
            if isinstance(which, str):
                cursor = self._window(which)
            else:
                cursor = self.feed.ready(self._cursor(which))
                if not partial and not self._reach(cursor).complete:
                    raise EventsGone(
                        f"events that {which!r} asks for have left; those from position "
                        f"{cursor.front} on are kept: ask for less, or say partial=True"
                    )
            return self._result(cursor)

    def _result(self, cursor: Cursor) -> Any:
        return self._lowered(self.feed.ready(cursor).query(), len(cursor))

    def range(self, after: Any, until: Any, partial: bool = False) -> Any:
        """The result of the events with after < t <= until, the monoid's ``empty`` without any.

        So ``range(now - size, now)`` is what a time window of that size holds. O(arity * log n)
        combines and at most two page reads a level. Raises InvalidTime, and EventsGone where events
        of the range have left, unless ``partial``.
        """
        if not self.events.timed:
            raise InvalidTime("these events have no times: ask for positions, or set timed=True")
        with np.errstate(all="ignore"):
            found = fold_between(self._tree, to_time(after), to_time(until), partial)
            return self._lowered(*found)

    def range_of_positions(self, start: int, stop: int, partial: bool = False) -> Any:
        """The result of the events from position ``start`` to ``stop``; costs as ``range``.

        Positions count accepted events from 0 on; the newest is at ``stats().inserted - 1``. Raises
        ValueError, and EventsGone unless ``partial``.
        """
        with np.errstate(all="ignore"):
            return self._lowered(*fold_positions(self._tree, start, stop, partial))

    def _lowered(self, fold: Partial, count: int) -> Any:
        return plain(self.monoid.lower(fold)) if count else self.monoid.empty

    # --- windows coming and going -----------------------------------------------------------------

    def add(self, name: str, policy: AbstractPolicy) -> Reach:
        """A new window, over as many of the events that it asks for as are kept.

        At most a page read a level. Raises ValueError for a name that is taken, and for a policy
        that needs times or aggregates that these events are not kept with.
        """
        if name in self.feed.cursors:
            raise ValueError(f"there is a window {name!r} already; resize it, or remove it first")
        return self._set(name, policy)

    def resize(self, name: str, policy: AbstractPolicy) -> Reach:
        """Another policy for a window, longer or shorter, from now on; costs as ``add``.

        A longer one reaches back as far as events are kept, and says how many it lacks.
        """
        self._window(name)
        return self._set(name, policy)

    def _set(self, name: str, policy: AbstractPolicy) -> Reach:
        with np.errstate(all="ignore"):
            cursor = self.feed.ready(self._cursor(policy))
            reach = self._reach(cursor)
        others = {n: c.policy for n, c in self.feed.cursors.items() if n != name}
        self._check_observed([*others.values(), policy])
        self.feed.cursors[name] = cursor
        return reach

    def remove(self, name: str) -> None:
        """Do without a window; events that only it needed leave. No store call."""
        self._window(name)
        self._check_observed([c.policy for n, c in self.feed.cursors.items() if n != name])
        del self.feed.cursors[name]

    def reach(self, name: str) -> Reach:
        """How far back a window reaches, and how many events it lacks; at most a page a level."""
        return self._reach(self.feed.ready(self._window(name)))

    def _reach(self, cursor: Cursor) -> Reach:
        time = self.events.intake.last_time if self.events.timed else None
        return reach_of(self._tree, cursor.policy, cursor.front, cursor.back, time)

    def _cursor(self, policy: AbstractPolicy) -> Cursor:
        """A window that is not settled yet."""
        if policy.needs_times and not self.events.timed:
            raise ValueError(f"{policy!r} needs times, but these events are kept without any")
        known = _observed([self.events.policy])
        lenses = {}
        for observer, columns, monoid in policy.observers:
            place = _place(known, columns, monoid)
            if place is None:
                raise ValueError(f"{policy!r} looks at {monoid.name}, which is not kept here")
            lenses[id(observer)] = part_of(cast(Any, self.monoid), place + 1)
        return Cursor(self.monoid, policy, self._tree, lenses)

    def _check_observed(self, policies: Iterable[AbstractPolicy]) -> None:
        """What policies look at is kept with the events, so a handle is only restored with it."""
        found = _observed(policies)
        for _, columns, monoid in _observed([self.events.policy]):
            if _place(found, columns, monoid) is None:
                raise ValueError(
                    f"no other window looks at {monoid.name}, which is kept with every event; keep "
                    "this window, or start new ones"
                )

    def _window(self, name: str) -> Cursor:
        cursor = self.feed.cursors.get(name)
        if cursor is None:
            raise ValueError(f"no window is called {name!r}; there are {sorted(self.windows)}")
        return cursor

    # --- handles and pages ------------------------------------------------------------------------

    def checkpoint(self, barrier: bool = True) -> bytes:
        """All windows as one handle of a few kilobytes, once all their pages are in the store.

        As ``Window.checkpoint``: save the handle before you take the next one.
        """
        with np.errstate(all="ignore"):
            self._evict()
        events = self.events.checkpoint(barrier)
        states = [
            WindowState(name, (c.policy.describe(), c.policy.fingerprint), c.front)
            for name, c in self.feed.cursors.items()
        ]
        return SharedHandle(events, states).encode()

    def hold(self) -> None:
        """Keep all pages of what is now, as though a handle had been taken."""
        self.events.hold()

    @classmethod
    def restore(
        cls,
        handle: bytes,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore = "memory://",
        late: Late = "error",
        invalid: Invalid = "error",
        retain: int = 2,
        keep: AbstractPolicy | None = None,
        lateness: float | str | timedelta | None = None,
    ) -> Self:
        """The windows that a handle describes; no store call until pages are needed.

        Raises CorruptHandle for damaged bytes, and HandleMismatch when the handle is of another
        monoid or of other windows. Later, a page a level is read for each window's front.
        """
        state = SharedHandle.decode(handle)
        events = Handle.decode(state.events)
        sizes = events.arity, events.leaf_arity
        new = cls(
            monoid, windows, store, events.window, *sizes,
            late, invalid, retain, keep, events.timed, lateness,
        )  # fmt: skip
        new.events = new.events.sibling(state.events)
        new._take_up(state, windows)
        return new

    def sibling(self, handle: bytes) -> Self:
        """The windows that a handle describes, with all settings and the store of these ones."""
        state = SharedHandle.decode(handle)
        new = object.__new__(type(self))
        new.events, new._keep = self.events.sibling(state.events), self._keep
        new._take_up(state, {name: cursor.policy for name, cursor in self.feed.cursors.items()})
        return new

    def _take_up(self, state: SharedHandle, windows: Mapping[str, AbstractPolicy]) -> None:
        fronts = state.fronts_for(windows)
        self._begin(windows, self._keep)
        for name, cursor in self.feed.cursors.items():
            cursor.place(fronts[name], self._tree.back)

    def _trim(self) -> None:
        """Now and then let go of events that no window needs, where no handle does it."""
        behind = self._tree.back - self._trimmed
        if self._tree.discards and behind >= _TRIM_GROUPS * self._tree.setting.leaf_arity:
            self._evict()

    def _evict(self) -> None:
        """Let go of the leaf groups that no window needs any more."""
        cursors = list(self.feed.cursors.values())
        if self._keep is not None:
            cursors.append(self._cursor(self._keep))
        tree, leaf = self._tree, self._tree.setting.leaf_arity
        fronts = [tree.needed_from(c.policy, self.feed.ready(c).front) for c in cursors]
        tree.evict_to(min(fronts or [tree.back]) // leaf * leaf)
        self._trimmed = self._tree.back

    def delete_pages(self) -> None:
        """Delete every page; the windows and all their handles are of no use afterwards."""
        self.events.delete_pages()

    def close(self) -> None:
        """Let go of the store if it was opened here; pages stay."""
        self.events.close()

    # --- looking at it ----------------------------------------------------------------------------

    @property
    def windows(self) -> dict[str, AbstractPolicy]:
        """The policy of each window."""
        return {name: cursor.policy for name, cursor in self.feed.cursors.items()}

    @property
    def fronts(self) -> dict[str, int]:
        """The position of each window's oldest event, as far as it is known without a read."""
        oldest, back = self._tree.front, self._tree.back
        return {n: c.front if c.back == back else oldest for n, c in self.feed.cursors.items()}

    def stats(self) -> SharedStats:
        """Sizes and counts; a page a level where windows have to be settled first."""
        whole = self.events.stats()
        sizes = {name: len(self.feed.ready(cursor)) for name, cursor in self.feed.cursors.items()}
        return SharedStats(
            sizes, whole.events, whole.inserted, whole.levels, whole.late, whole.invalid
        )

    def check(self) -> None:
        """Assert every invariant, and every window's result against a fold of its events.

        Reads all pages. Raises InvariantViolation.
        """
        with np.errstate(all="ignore"):
            self.events.check()
            for name, cursor in self.feed.cursors.items():
                found = self.feed.ready(cursor).query()
                if not self._tree.front <= cursor.front <= cursor.back:
                    raise InvariantViolation(f"window {name!r} begins before the events it is of")
                fold = Refold(self.monoid, cursor.partials())
                if not fold.agrees(found):
                    raise InvariantViolation(f"window {name!r} is {found!r} instead of {fold!r}")

    def __repr__(self) -> str:
        where = "memory" if self.events.store is None else self.events.store.url
        what = f"{self.events.results_of!r} over {self.windows!r}"
        return f"<SharedWindows {self.events.name!r}: {what}, {self._tree.back} events in {where}>"


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
