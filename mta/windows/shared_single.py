"""Single events of multiple windows: as ``single``, with a front for each window.

    [ x x f1 f2 f3 ... | n n n . . . ]      f: the oldest events of a window, n: those that came

A cursor knows the folds from f1, f2, ... to where the new events begin. So an event is lifted once,
combined once for each window, and waits in a list. How far a window's front is by then follows from
how many events have come, or from the newest time: nobody looks for it before its result is wanted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import inf
from typing import Any, Protocol

import numpy as np

from mta.columns.schemas import Row
from mta.evaluators.cursor import Cursor
from mta.frames.base import NEWEST
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import LevelLog
from mta.monoids.base import Partial
from mta.times import TimeUnit, to_time
from mta.windows.single import EXACT, MANY, SECOND, UNIT, UNKNOWN, NewEvents, Owner, busy


class SharedOwner(Owner, Protocol):
    """The engine of multiple windows, as far as single events know it."""

    def query(self, which: Any, partial: bool, at: Any, unit: TimeUnit | None) -> Any:
        """Results in the way that serves every window."""


class Ahead:
    """The prefetched fronts that one window comes to, and the folds from them."""

    __slots__ = (
        "_at", "_leaving", "_size", "_spare", "bound", "cursor", "lefts", "name", "place", "room",
    )  # fmt: skip

    def __init__(self, name: str, place: int, cursor: Cursor, last: float, most: int) -> None:
        self.name, self.place, self.cursor, policy = name, place, cursor, cursor.policy
        assert isinstance(policy, CountWindow | TimeWindow)
        #: The aggregate of what was there, after each eviction; without any nobody has asked yet.
        folds, _, times = cursor.prefetched(most)
        self.lefts = cursor.monoid.partials.listed(folds)
        #: How many events may come, and the time that they must be before.
        self.room, self.bound = most, EXACT
        #: How many events may come before any leaves by count; the times of those that leave.
        self._spare = 0
        self._leaving: list[float] = []
        #: How many have left, as far as anybody asked.
        self._at, self._size = 0, 0.0
        if isinstance(policy, CountWindow):
            self._spare = policy.size - len(cursor)
            if self.lefts:
                self.room = min(most, self._spare + len(self.lefts) - 1)
            return
        self._size = float(policy.lifetime)
        leaving = self._leaving = times[: len(self.lefts) or None].astype(float).tolist()
        if leaving and max(-EXACT, last - self._size) < leaving[0] and leaving[-1] < EXACT:
            self.bound = min(EXACT, leaving[-1] + self._size)
        else:
            self.room = 0

    def gone(self, count: int, last: float) -> int:
        """How many events have left when so many have come, the newest at a time."""
        leaving = self._leaving
        if not leaving:
            gone = count - self._spare
            return gone if gone > 0 else 0
        at, until = self._at, last - self._size
        if leaving[at] <= until:
            at += 1  # one leaves, most often, for one that comes
            if leaving[at] <= until:
                at = bisect_right(leaving, until, at)
            self._at = at
        return at


class SharedSingles(NewEvents[SharedOwner]):
    """The single events of multiple windows, between those who call them and what keeps events."""

    __slots__ = ("_ahead", "_is_whole", "_rights", "_shown", "_structure", "cursors", "is_known")

    def __init__(
        self, owner: SharedOwner, structure: LevelLog | FingerTreeLog, paged: bool
    ) -> None:
        self._structure = structure
        #: Each window, by its name.
        self.cursors: dict[str, Cursor] = {}
        #: What is known of results, by name.
        self._shown: dict[str, Any] = {}
        super().__init__(owner, owner.monoid is owner.main, paged)

    def _reset(self) -> None:
        super()._reset()
        #: The windows that stand where the stored events end, by name.
        self._ahead: dict[str, Ahead] = {}
        #: Whether these are all windows, and each one's folds are known.
        self._is_whole = False
        #: The aggregate of what has come since a window's folds were made, for each of them that
        #: has some; None where nothing has come.
        self._rights: list[Partial | None] = []

    def _changed(self) -> None:
        self.is_known = False

    # --- what is called -------------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event to all windows."""
        owner = self._owner
        if owner.busy:
            raise busy()
        owner.busy = True
        row: Row | None
        try:
            if value.__class__ is self._double and value == value:
                row = value
            else:
                row = self._reader.read(value)
            if not owner.timed:
                micros = 0.0
            elif time.__class__ is float:
                micros = (time * SECOND + UNIT) - UNIT  # rounds, half to even
            else:
                micros = -inf if row is None or time is None else float(to_time(time))
            if row is None or not (self._last <= micros < self._bound or self._may_come(micros)):
                self._insert_slowly(value, time)
                return
            combine, lift = self.combine, self._lift
            new = row if lift is None else lift(row)
            rights = [new if right is None else combine(right, new) for right in self._rights]
            self._rights = rights
            self._append(row)
            if owner.timed:
                self._append_time(micros)
                self._intake.newest = self._last = micros
            room = self._room = self._room - 1
            if not room:
                self._bound = -inf
            self.is_known = False
        finally:
            owner.busy = False

    def query(
        self, which: Any = None, partial: bool = False, at: Any = None,
        time_unit: TimeUnit | None = None,
    ) -> Any:  # fmt: skip
        """The result of one window, of all, or of a policy; see ``SharedWindows.query``."""
        owner = self._owner
        if owner.busy:
            raise busy()
        if at is None:
            found = self.found(which)
            if found is not UNKNOWN:
                return found
        owner.busy = True
        try:
            with np.errstate(all="ignore"):
                return owner.query(which, partial, at, time_unit)
        finally:
            owner.busy = False

    def found(self, which: Any) -> Any:
        """What ``query`` answers, as far as it is prefetched; else UNKNOWN."""
        shown, show = self._shown, self._show
        if not self.is_known:
            shown.clear()
            self.is_known = True
        if which is None:
            if not self._is_whole:
                return UNKNOWN
            if not shown:
                self._find(self._ahead.values())
            elif len(shown) < len(self._ahead):
                self._find(one for name, one in self._ahead.items() if name not in shown)
                shown = self._shown = {name: shown[name] for name in self._ahead}
            return shown.copy() if show is None else {n: show(one) for n, one in shown.items()}
        if which.__class__ is not str or not (ahead := self._ahead.get(which)) or not ahead.lefts:
            return UNKNOWN
        if which not in shown:
            self._find([ahead])
        return shown[which] if show is None else show(shown[which])

    # --- what is prefetched
    # ------------------------------------------------------------------------

    def _find(self, some: Iterable[Ahead]) -> None:
        """Note the results of some windows; 1 combine each."""
        count, last, rights = len(self._rows), self._last, self._rights
        combine, lower, shown = self.combine, self._lower, self._shown
        for ahead in some:
            fold, right = ahead.lefts[ahead.gone(count, last)], rights[ahead.place]
            if right is not None:
                fold = combine(fold, right)
            shown[ahead.name] = fold if lower is None else lower(fold)

    def _renew(self) -> bool:
        most = min(2 * self._most, MANY)
        self.write_back()
        self._most = most
        structure, newest = self._structure, self._intake.newest
        if not self._usual:
            return False
        # One that is behind, or whose frame is, is put in its place when somebody looks at it.
        ready = {
            name: cursor
            for name, cursor in self.cursors.items()
            if cursor.back == structure.back and cursor.policy.end == NEWEST
        }
        room = min(structure.spare, most)
        last = 0.0 if newest is None or not self._owner.timed else float(newest)
        is_usual = all(type(c.policy) in (CountWindow, TimeWindow) for c in ready.values())
        if not (is_usual and room and -EXACT < last < EXACT):
            return False
        self._held, self._last = True, last
        for name, cursor in ready.items():
            ahead = self._ahead[name] = Ahead(name, len(self._rights), cursor, last, room)
            if ahead.lefts:
                self._rights.append(cursor.grown)
        found = self._ahead.values()
        self._is_whole = len(found) == len(self.cursors) and all(one.lefts for one in found)
        self._room = min([room, *(one.room for one in found)])
        if self._room:
            self._bound = min([EXACT, *(one.bound for one in found)])
        return self._room > 0

    def _sync(self) -> None:
        if self._rows:
            new = self._new()
            self._structure.take_in(new)
            for ahead in self._ahead.values():
                gone = ahead.gone(new.size, self._last)
                right = self._rights[ahead.place] if ahead.lefts else None
                ahead.cursor.sync(new.size, gone, right)
