"""Single events in plain Python: what they need is prefetched, and written back all at once.

Nearly every event does no more than this, whatever keeps the events:

    [ x x f1 f2 f3 ... | middle ... n n n . . . ]        f: the oldest events, n: the newest
          left, lefts              right

    insert   right = combine(right, lift(value)), and the value waits in a list
    evict    left = lefts.pop(): the folds from f2, f3, ... to the middle are known already
    query    combine(left, right), once

Out of a time window events leave when somebody asks: an insertion only sees to it that what must
leave by then is prefetched. Where the order does not matter to the aggregate, late events come as
others do, unless they are older than the log's last leaf; those that are go the slow way.

Under a policy on an aggregate (``Asked``) nothing leaves while the front and that aggregate are as
they were when nothing left: an event that changes neither goes the same way, any other one asks the
policy.

So a structure says what is prefetched (``Structure.prefetched``), and when that is used up, or when
anybody looks at the structure, it receives what came and what left (``sync``). A call of numpy's
costs more than all the rest of an event; so there is one for many events. A call of Python's costs
an eighth of it; so ``positive_zero`` is inlined.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from mta.columns.codec import ALWAYS_PLAIN
from mta.columns.reading import plain
from mta.columns.schemas import Row, packed
from mta.errors import WindowBusy
from mta.folds.sliding import Events
from mta.frames.base import NEWEST, AbstractPolicy
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Aggregator, Prefetched
from mta.monoids.base import AbstractMonoid, Monoid, Partial, same_value
from mta.monoids.columnar import positive_zero
from mta.monoids.product import Product
from mta.times import MICROSECONDS, TimeUnit, to_time
from mta.windows.intake import Intake

#: So many events are prefetched at once: few at first, as somebody may look after every event.
_FEW, MANY = 16, 1024
#: The most events that go the slow way before one tries the quick one again, under a policy on an
#: aggregate that changes with every event.
_MOST_MISSES = 63
#: In place of a result that is not known; a member of an enumeration stays itself in copies.
UNKNOWN: Any = Enum("_Shown", "UNKNOWN").UNKNOWN  # type: ignore[attr-defined]
#: In place of times that are not prefetched: later than any.
_NONE = [inf]
#: Times here are doubles, with which Python is quicker than with large whole numbers: whole ones,
#: as microseconds up to the year 2041 are; others go slowly. So near to 0 a sum with ``UNIT`` has
#: no place for fractions.
SECOND, EXACT, UNIT = float(MICROSECONDS), 2.0**51, 1.5 * 2.0**52


class Owner(Protocol):
    """The engine of one window or of several, as far as single events know it."""

    busy: bool
    intake: Intake
    main: AbstractMonoid
    monoid: AbstractMonoid
    policy: AbstractPolicy
    timed: bool

    def insert(self, value: Any, time: Any) -> None:
        """Add an event in the way that serves every window, and every value."""


class WindowOwner(Owner, Protocol):
    """The engine of one window."""

    @property
    def structure(self) -> Aggregator:
        """What keeps the events, up to date."""

    def evict(self, count: Any) -> None:
        """Remove the oldest events in that way."""

    def query_at(self, at: Any, partial: bool, unit: TimeUnit | None) -> Any:
        """The result at a moment, or at each of many."""

    def current(self) -> tuple[Partial, int]:
        """The aggregate of the window, and how many events it has."""

    def __len__(self) -> int:
        """How many events the window has."""


class Asked(NamedTuple):
    """A policy on an aggregate, alone or ``|`` a count."""

    size: int
    """The most events that the window may hold."""
    total: Callable[[Partial], Any]
    """What the policy sees of the window's aggregate."""
    kept: Callable[[], Any]
    """That for which nothing leaves from this front; None where there is none."""


def busy() -> WindowBusy:
    """What a call meets while the engine serves another one."""
    return WindowBusy(
        "this window is in the middle of another call, of another thread or of its own monoid or "
        "policy; it takes one call at a time: hold a lock, or give each thread a window"
    )


class Reader:
    """Reads values of which a look tells that they are valid, and fit for pages."""

    __slots__ = ("_kinds", "_monoid", "_numbers", "_paged", "_pick", "_text", "doubles")

    def __init__(self, monoid: AbstractMonoid, paged: bool) -> None:
        self._monoid, self._paged = monoid, paged
        self._numbers = monoid.is_plain and monoid.inputs.plain
        self._pick = monoid.picks_doubles if isinstance(monoid, Product) else None
        self.learn(proven=False)

    def learn(self, proven: bool) -> None:
        """Whether it is known by now that partials can be paged; those of numbers always can."""
        kinds: frozenset[type] = self._monoid.taken_as_they_come if proven else frozenset()
        self._kinds = kinds & ALWAYS_PLAIN if self._paged else kinds
        #: Of text only some can be paged.
        self._text = str in kinds
        #: Whether a double is a row as it comes, but for a NaN.
        self.doubles = float in kinds

    def read(self, value: Any) -> Row | None:
        """A value as a row, if that takes no more than to look at it. Raises InvalidValue."""
        if self._pick is not None:
            try:
                row = self._pick(value)
            except (KeyError, TypeError, IndexError):
                return None
            if row is not None:
                return row
        if self._numbers:
            row = self._monoid.row(value)
            return row if self._monoid.is_valid(row) else None
        kind = type(value)
        if kind in self._kinds:
            return value if kind is not float or value == value else None
        return value if self._text and kind is str and value.isascii() else None


_Owner = TypeVar("_Owner", bound=Owner)


class NewEvents(Generic[_Owner]):
    """Single events that have come, and that the structure receives later; of any windows.

    What is prefetched ends at a number of events, and at a time that they must be before.
    """

    # Slots, as Python finds these faster than the attributes of a large object.
    __slots__ = (
        "_append", "_append_time", "_bound", "_double", "_held", "_intake", "_last", "_lift",
        "_lower", "_monoid", "_most", "_owner", "_reader", "_room", "_rows", "_show", "_times",
        "_usual", "combine", "identity", "is_quick",
    )  # fmt: skip

    def __init__(self, owner: _Owner, usual: bool, paged: bool) -> None:
        monoid = self._monoid = owner.monoid
        self.combine, self.identity = monoid.combine, monoid.identity
        self._owner, self._intake = owner, owner.intake
        self._lift = None if monoid.lift is same_value else monoid.lift
        numbers = monoid.is_plain and monoid.inputs.plain and owner.main.is_columnar
        bare = isinstance(monoid, Monoid) and monoid.is_bare
        #: Whether results need no numpy: numbers, dictionaries of them, or partials as they are.
        self.is_quick = numbers or bare
        #: What is done with an aggregate for a result, once; and with that for every query, so that
        #: nobody gets what another may have changed.
        self._lower: Callable[[Partial], Any] | None = None
        self._show: Callable[[Any], Any] | None = None
        if not self.is_quick:
            self._show = _shown(monoid.lower)
        elif monoid.lower is not same_value:
            self._lower = monoid.lower
            self._show = dict.copy if isinstance(owner.main, Product) else None
        self._usual = monoid.is_plain and usual
        self._reader = Reader(monoid, paged)
        #: ``float`` where a double is a row as it comes, but for a NaN.
        self._double: type[float] | None = None
        #: What has come, and is not in the structure yet.
        self._rows: list[Row] = []
        self._times: list[float] = []
        self._append, self._append_time = self._rows.append, self._times.append
        self._most = _FEW
        self._reset()

    def _reset(self) -> None:
        """Have nothing prefetched."""
        self._held = False
        self._changed()
        #: How many events may come; the newest time, and the one that they must be before.
        self._room, self._last, self._bound = 0, -inf, -inf

    def _insert_slowly(self, value: Any, time: Any) -> None:
        # What was of use until here is so again, unless this event comes in between.
        most = _FEW if self._is_waiting else self._most
        with np.errstate(all="ignore"):
            self._owner.insert(value, time)
        self._most = most
        self._reader.learn(not self._intake.unproven)
        self._double = float if self._usual and self._reader.doubles else None

    @property
    def _is_waiting(self) -> bool:
        """Whether something has come, and is not in the structure yet."""
        return bool(self._rows)

    def _may_come(self, micros: float) -> bool:
        """Whether an event of a time may come, after prefetching again."""
        return not self._is_late(micros) and self._renew() and self._last <= micros < self._bound

    def _is_late(self, micros: float) -> bool:
        newest = self._intake.newest
        return newest is not None and micros < newest

    def _renew(self) -> bool:
        """Prefetch again; whether an event can come."""
        raise NotImplementedError

    def write_back(self) -> None:
        """Let the structure have what came, and be without what left; no store call."""
        if self._held:
            with np.errstate(all="ignore"):
                self._sync()
            self._rows.clear()
            self._times.clear()
            self._most = _FEW
            self._reset()
        self._changed()

    def _changed(self) -> None:
        """Have no result any more."""
        raise NotImplementedError

    def _sync(self) -> None:
        """Let the structure have them."""
        raise NotImplementedError

    def _new(self) -> Events:
        """What has come, as columns."""
        count, times = len(self._rows), None
        if self._owner.timed:
            times = packed(self._times, "<f8").astype("<i8")
        return Events(self._monoid.inputs.gathered(self._rows), times, count)


class SingleEvents(NewEvents[WindowOwner]):
    """The single events of one window, between those who call it and its structure.

    ``insert``, ``evict`` and ``query`` are what they call, so all is inlined there.
    """

    __slots__ = (
        "_asked", "_at", "_by_count", "_end", "_kept", "_late_from", "_leaving", "_left", "_lefts",
        "_misses", "_right", "_shown", "_size", "_skip", "_spare", "_structure",
    )  # fmt: skip

    def __init__(
        self, owner: WindowOwner, structure: Aggregator, paged: bool, asked: Asked | None = None
    ) -> None:
        self._structure, policy = structure, owner.policy
        #: A policy on an aggregate, and what that is for as long as nothing leaves.
        self._asked, self._kept = asked, None
        #: How often in a row it was another one, and how many events are not to try.
        self._misses = self._skip = 0
        self._by_count = asked is not None or type(policy) is CountWindow
        self._size: float = 0
        if asked is not None:
            self._size = asked.size
        elif isinstance(policy, CountWindow):
            self._size = policy.size
        elif isinstance(policy, TimeWindow):
            self._size = float(policy.lifetime)
        #: The result, if it is known.
        self._shown: Any = UNKNOWN
        usual = asked is not None or type(policy) in (CountWindow, TimeWindow)
        usual = usual and policy.end == NEWEST
        super().__init__(owner, usual, paged)

    def _reset(self) -> None:
        super()._reset()
        #: The two aggregates.
        self._left: Partial = self.identity
        self._right: Partial = self.identity
        #: How many events have left since these lists were made, as far as anybody asked; and how
        #: many may.
        self._at = self._end = 0
        #: ``left`` after each eviction; the times of the events that leave, and of the one after.
        self._lefts: list[Partial] = []
        self._leaving: list[float] = _NONE
        #: How many events may come before any leaves by count.
        self._spare = 0
        #: The time from which on events may come in any order.
        self._late_from = inf

    def _changed(self) -> None:
        self._shown = UNKNOWN

    @property
    def of_policy(self) -> Callable[..., None]:
        """The ``insert`` that suits the window's policy."""
        if self._owner.timed:
            return self.insert_timed
        return self.insert if self._asked is None else self.insert_asked

    # --- what is called -------------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event of a window without times, and evict what its policy says."""
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
            if row is None or not (self._spare or self._at < self._end or self._renew()):
                self._insert_slowly(value, time)
                return
            combine, lift, right = self.combine, self._lift, self._right
            self._right = combine(right, row if lift is None else lift(row))
            if self._spare:
                self._spare -= 1
            else:
                at = self._at
                self._left = self._lefts[at]
                self._at = at + 1
            append = self._append
            append(row)
            self._shown = UNKNOWN
        finally:
            owner.busy = False

    def insert_asked(self, value: Any, time: Any = None) -> None:
        """As ``insert``, under a policy on an aggregate; 1 combine more, which is the query's."""
        owner, asked = self._owner, self._asked
        if owner.busy:
            raise busy()
        owner.busy = True
        row: Row | None
        try:
            assert asked is not None
            if value.__class__ is self._double and value == value:
                row = value
            else:
                row = self._reader.read(value)
            if self._skip:
                self._skip -= 1
            else:
                if row is not None and (self._spare or self._renew()):
                    combine, lift = self.combine, self._lift
                    right = combine(self._right, row if lift is None else lift(row))
                    fold = combine(self._left, right)
                    if asked.total(fold) == self._kept:
                        self._right = right
                        self._spare -= 1
                        self._append(row)
                        lower = self._lower
                        self._shown = fold if lower is None else lower(fold)
                        self._misses = 0
                        return
                self._misses, self._skip = min(2 * self._misses + 1, _MOST_MISSES), self._misses
            self._insert_slowly(value, time)
        finally:
            owner.busy = False

    def insert_timed(self, value: Any, time: Any = None) -> None:
        """As ``insert``, of a window with times; what leaves by them does so when asked for."""
        owner = self._owner
        if owner.busy:
            raise busy()
        owner.busy = True
        row: Row | None
        try:
            is_double = value.__class__ is self._double and value == value
            row = value if is_double else self._reader.read(value)
            if time.__class__ is float:
                micros = (time * SECOND + UNIT) - UNIT  # rounds, half to even
            else:
                micros = -inf if row is None or time is None else float(to_time(time))
            if row is None or not (self._last <= micros < self._bound or self._may_come(micros)):
                self._insert_slowly(value, time)
                return
            combine, lift, right = self.combine, self._lift, self._right
            append, append_time = self._append, self._append_time
            self._right = combine(right, row if lift is None else lift(row))
            if self._by_count:
                if self._spare:
                    self._spare -= 1
                else:
                    self._left = self._lefts[self._at]
                    self._at += 1
            append(row)
            append_time(micros)
            if micros > self._last:
                self._intake.newest = self._last = micros
            room = self._room = self._room - 1
            if not room:
                self._bound = -inf
            self._shown = UNKNOWN
        finally:
            owner.busy = False

    def evict(self, n: int = 1) -> None:
        """Remove the oldest events. Raises EmptyWindow."""
        owner = self._owner
        if owner.busy:
            raise busy()
        owner.busy = True
        try:
            if n.__class__ is not int or n != 1 or not self._has_lefts():
                with np.errstate(all="ignore"):
                    owner.evict(n)
                return
            self._at = at = self._gone() + 1
            self._left = self._lefts[at - 1]
            self._spare += self._by_count
            self._shown = UNKNOWN
        finally:
            owner.busy = False

    def _query_at(self, at: Any, partial: bool, unit: TimeUnit | None) -> Any:
        owner = self._owner
        before, owner.busy = owner.busy, True
        try:
            with np.errstate(all="ignore"):
                return owner.query_at(at, partial, unit)
        finally:
            owner.busy = before

    def query(
        self, at: Any = None, partial: bool = False, time_unit: TimeUnit | None = None,
        alone: bool = False,
    ) -> Any:  # fmt: skip
        """The result over the window; 1 combine, none where nothing has changed.

        At a moment, or at each of many, as ``Window.query``. ``alone`` says that the caller has
        the window to itself.
        """
        owner = self._owner
        if owner.busy and not alone:
            raise busy()
        if at is not None:
            return self._query_at(at, partial, time_unit)
        shown = self._shown
        if shown is UNKNOWN:
            if self._held:
                if not self._by_count and self._leaving[self._at] <= self._last - self._size:
                    self._pass()
                combine, left, right = self.combine, self._left, self._right
                fold = left if right is self.identity else combine(left, right)
            else:
                with np.errstate(all="ignore"):
                    fold, count = self._owner.current()
                    if not count:
                        return self._monoid.empty
            lower, shown = self._lower, fold
            if lower is positive_zero:
                shown = fold + 0.0
            elif lower is not None:
                shown = lower(fold)
            self._shown = shown
        show = self._show
        return shown if show is None else show(shown)

    def _pass(self) -> None:
        """Move on past the events that are too old by now."""
        at = self._at + 1  # one leaves, most often, for one that comes
        if self._leaving[at] <= self._last - self._size:
            at = self._gone()
        self._at, self._left = at, self._lefts[at - 1]

    def __len__(self) -> int:
        if not self._held:
            return len(self._owner)
        return len(self._structure) + len(self._rows) - self._gone()

    # --- what is prefetched
    # ------------------------------------------------------------------------

    def _gone(self) -> int:
        """How many events have left by now of those that may."""
        if self._by_count:
            return self._at
        return bisect_right(self._leaving, self._last - self._size, self._at)

    def _has_lefts(self) -> bool:
        """Whether an eviction is prefetched; not where late events may read what leaves by itself.

        For what somebody evicts they may not.
        """
        if self._intake.allowed_lateness:
            return False
        return self._gone() < self._end or (self._renew() and self._end > 0)

    def _may_come(self, micros: float) -> bool:
        if not self._is_late(micros):
            return super()._may_come(micros)
        if not self._may_be_late(micros):
            return False
        return micros < self._bound or (self._renew() and self._late_from <= micros < self._bound)

    def _may_be_late(self, micros: float) -> bool:
        """Whether an event may come in among others that wait, though it is older than some."""
        newest, lateness = self._intake.newest, self._intake.allowed_lateness or 0
        return newest is not None and max(self._late_from, newest - lateness) <= micros

    def _renew(self) -> bool:
        most = min(2 * self._most, MANY)
        structure = self._owner.structure  # which has all that came by now
        self._most = most
        if self._asked is not None:
            # Whatever moves the front must ask the policy.
            self._kept, lefts = self._asked.kept(), 0
            if self._kept is None:
                return False
        else:
            lefts = most
        with np.errstate(all="ignore"):
            found = structure.prefetched(lefts) if self._usual else None
        if found is None:
            return False
        self._held = True
        self._left, self._right, self._late_from = found.left, found.right, found.late_from
        self._room, self._end = min(found.room, most), found.evictions
        if self._by_count:
            self._spare = min(self._room, int(self._size) - len(self._structure))
            # One for each event that makes another leave, and no more.
            self._end = min(self._end, self._room - self._spare)
            self._room = self._spare + self._end
        if not self._room or (self._owner.timed and not self._set_times(found.leaving)):
            return False
        self._have(found)
        return True

    def _set_times(self, leaving: np.ndarray) -> bool:
        """Up to when events may come, by the times that are prefetched; whether any may."""
        last = self._intake.newest
        if last is None or not -EXACT < last < EXACT:
            return False
        self._last = float(last)
        if self._by_count:
            self._bound = EXACT
        elif len(leaving):
            first, end = float(leaving[0]), float(leaving[-1])
            if max(-EXACT, last - self._size) < first and end < EXACT:
                self._bound = min(EXACT, end + self._size)
        return self._bound > -inf

    def _have(self, found: Prefetched) -> None:
        """Have what is prefetched as lists, in which Python is quick."""
        self._lefts = self._monoid.partials.listed(found.lefts)
        if not self._by_count:
            self._leaving = found.leaving.astype(float).tolist()

    def _sync(self) -> None:
        gone = self._gone()
        if self._rows or gone:
            left = self._lefts[gone - 1] if gone else self._left
            self._structure.sync(self._new(), gone, left, self._right)


def _shown(lower: Callable[[Partial], Any]) -> Callable[[Partial], Any]:
    """How an aggregate is shown, where a result is no plain number."""
    return lambda fold: plain(lower(fold))
