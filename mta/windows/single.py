"""Single events in plain Python: what they need is taken up beforehand, and put back all at once.

Nearly every event does no more than this, whatever keeps the events:

    [ x x f1 f2 f3 ... | middle ... n n n . . . ]        f: the oldest events, n: the newest
          left, lefts              right

    insert   right = combine(right, lift(value)), and the value waits in a list
    evict    left = lefts.pop(): the folds from f2, f3, ... to the middle are known already
    query    combine(left, right), once

Under a policy on an aggregate (``Asked``) nothing leaves while the front and that aggregate are as
they were when nothing left: an event that changes neither goes the same way, any other one asks the
policy.

So a structure says what is at hand (``Structure.at_hand``), and when that is used up, or when
anybody looks at the structure, it is told what came and what left (``catch_up``). A call of numpy's
costs more than all the rest of an event; so there is one for many events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from mta.columns.codec import ALWAYS_PLAIN
from mta.columns.reading import plain
from mta.columns.schemas import Row
from mta.errors import WindowBusy
from mta.folds.sliding import Events
from mta.monoids.base import AbstractMonoid, Monoid, Partial, same_value
from mta.monoids.product import Product
from mta.pages.structure import Aggregator, AtHand
from mta.policies.base import AbstractPolicy
from mta.policies.windows import CountWindow, TimeWindow
from mta.times import MICROSECONDS, to_time
from mta.windows.intake import Intake

#: So many events are taken up at once: few at first, as somebody may look after every event.
_FEW, _MANY = 16, 1024
#: The most events that go the slow way before one tries the quick one again, under a policy on an
#: aggregate that changes with every event.
_MOST_MISSES = 63
#: In place of times that are not at hand: not later than any.
_NONE = [-inf, -inf]
#: Times here are doubles, with which Python is quicker than with large whole numbers: whole ones,
#: as microseconds up to the year 2041 are; others go slowly. So near to 0 a sum with ``_UNIT`` has
#: no place for fractions.
_MICROSECONDS, _EXACT, _UNIT = float(MICROSECONDS), 2.0**51, 1.5 * 2.0**52
_EARLIEST, _LATEST = -_EXACT / _MICROSECONDS, _EXACT / _MICROSECONDS


class Owner(Protocol):
    """The engine of a window, as far as single events know it."""

    busy: bool
    intake: Intake
    main: AbstractMonoid
    monoid: AbstractMonoid
    policy: AbstractPolicy
    timed: bool

    def insert(self, value: Any, time: Any) -> None:
        """Add an event in the way that serves every window, and every value."""

    def evict(self, count: Any) -> None:
        """Remove the oldest events in that way."""


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
            for number in row:
                if number.__class__ is not float or number != number:
                    break
            else:
                return row
        if self._numbers:
            row = self._monoid.row(value)
            return row if self._monoid.is_valid(row) else None
        kind = type(value)
        if kind in self._kinds:
            return value if kind is not float or value == value else None
        return value if self._text and kind is str and value.isascii() else None


class Slide:
    """The two aggregates of a window, and what its oldest events need to leave it."""

    # Slots, as Python finds these faster than the attributes of a large object.
    __slots__ = (
        "at", "by_count", "combine", "end", "identity", "is_known", "leaving", "left",
        "lefts", "right", "size", "spare",
    )  # fmt: skip

    def __init__(self, monoid: AbstractMonoid, policy: AbstractPolicy) -> None:
        self.combine, self.identity = monoid.combine, monoid.identity
        self.by_count = type(policy) is CountWindow
        self.size: float = 0
        if isinstance(policy, CountWindow | TimeWindow):
            self.size = policy.size if self.by_count else float(policy.size)
        self.forget()

    def forget(self) -> None:
        """Have nothing at hand."""
        self.left: Partial = self.identity
        self.right: Partial = self.identity
        #: How many events have left since these lists were made, and how many may.
        self.at = self.end = 0
        #: ``left`` after each eviction; the times of the events that leave, and of the one after.
        self.lefts: list[Partial] = []
        self.leaving: list[float] = _NONE
        #: How many events may come before any leaves by count.
        self.spare = 0
        #: Whether the result is known.
        self.is_known = False

    def take(self, found: AtHand, room: int, events: int) -> bool:
        """Take up what is at hand for so many events, in a window of so many.

        Answers whether an event may come.
        """
        self.left, self.right, self.lefts, times, _ = found
        self.at, self.end, self.is_known = 0, len(self.lefts), False
        if self.by_count:
            self.spare = min(room, int(self.size) - events)
            # One for each event that makes another leave, and no more.
            self.end = min(self.end, room - self.spare)
            return self.spare + self.end > 0
        self.leaving = [*map(float, times), *_NONE]
        return bool(times) and times[0] > -_EXACT and times[-1] < _EXACT

    def leave(self, until: float) -> int:
        """How many events are not later than a time; -1 where that is not at hand."""
        gone, known = bisect_right(self.leaving, until, self.at, self.end + 1), self.end + 1
        return gone - self.at if gone < known else -1


class SingleEvents(Slide):
    """The single events of one window, between those who call it and its structure.

    ``insert``, ``evict`` and ``query`` are what they call, so all stands in line there.
    """

    __slots__ = (
        "_append",
        "_append_time",
        "_asked",
        "_doubles",
        "_held",
        "_intake",
        "_kept",
        "_last",
        "_lift",
        "_lower",
        "_misses",
        "_monoid",
        "_most",
        "_owner",
        "_reader",
        "_room",
        "_rows",
        "_show",
        "_shown",
        "_skip",
        "_structure",
        "_times",
        "_usual",
        "is_quick",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, structure: Aggregator, paged: bool, asked: Asked | None = None
    ) -> None:
        monoid = self._monoid = owner.monoid
        super().__init__(monoid, owner.policy)
        #: A policy on an aggregate, and what that is for as long as nothing leaves.
        self._asked, self._kept = asked, None
        #: How often in a row it was another one, and how many events are not to try.
        self._misses = self._skip = 0
        if asked is not None:
            self.by_count, self.size = True, asked.size
        self._owner, self._structure, self._intake = owner, structure, owner.intake
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
        is_usual = asked is not None or type(owner.policy) in (CountWindow, TimeWindow)
        self._usual = monoid.is_plain and is_usual
        self._reader = Reader(monoid, paged)
        self._doubles = False
        #: What has come, and is not in the structure yet; and how many more may come.
        self._rows: list[Row] = []
        self._times: list[float] = []
        self._append, self._append_time = self._rows.append, self._times.append
        self._room, self._most, self._held = 0, _FEW, False
        #: The newest time.
        self._last = inf
        self._shown: Any = None

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
            if value.__class__ is float and self._doubles and value == value:
                row = value
            else:
                row = self._reader.read(value)
            if row is None or not (self.spare or self.at < self.end or self._renew()):
                self._insert_slowly(value, time)
                return
            combine, lift, append = self.combine, self._lift, self._append
            self.right = combine(self.right, row if lift is None else lift(row))
            if self.spare:
                self.spare -= 1
            else:
                at = self.at
                self.left = self.lefts[at]
                self.at = at + 1
            append(row)
            self.is_known = False
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
            if value.__class__ is float and self._doubles and value == value:
                row = value
            else:
                row = self._reader.read(value)
            if self._skip:
                self._skip -= 1
            else:
                if row is not None and (self.spare or self._renew()):
                    combine, lift = self.combine, self._lift
                    right = combine(self.right, row if lift is None else lift(row))
                    fold = combine(self.left, right)
                    if asked.total(fold) == self._kept:
                        self.right = right
                        self.spare -= 1
                        self._append(row)
                        lower = self._lower
                        self._shown = fold if lower is None else lower(fold)
                        self.is_known, self._misses = True, 0
                        return
                self._misses, self._skip = min(2 * self._misses + 1, _MOST_MISSES), self._misses
            self._insert_slowly(value, time)
        finally:
            owner.busy = False

    def insert_timed(self, value: Any, time: Any = None) -> None:
        """As ``insert``, of a window with times."""
        owner = self._owner
        if owner.busy:
            raise busy()
        owner.busy = True
        row: Row | None
        try:
            if value.__class__ is float and self._doubles and value == value:
                row = value
            else:
                row = self._reader.read(value)
            if time.__class__ is float and _EARLIEST < time < _LATEST:
                micros = (time * _MICROSECONDS + _UNIT) - _UNIT  # rounds, half to even
            else:
                micros = -inf if time is None else float(to_time(time))
            if not self._held:
                self._renew()
            if row is None or not self._last <= micros < _EXACT:
                self._insert_slowly(value, time)
                return
            at = self.at
            if self.by_count:
                leave = 0 if self.spare else 1
                if leave and at == self.end:
                    leave = -1 if not self._renew() else 0 if self.spare else 1
                    at = self.at
            else:
                leaving, until = self.leaving, micros - self.size
                leave = 0
                if not leaving[at] > until or not self._room:
                    leave = 1 if self._room and leaving[at + 1] > until else self._leave(until)
                    at = self.at
            if leave < 0:
                self._insert_slowly(value, time)
                return
            combine, lift = self.combine, self._lift
            self.right = combine(self.right, row if lift is None else lift(row))
            if leave:
                at += leave
                self.left, self.at = self.lefts[at - 1], at
            elif self.by_count:
                self.spare -= 1
            append, append_time = self._append, self._append_time
            append(row)
            append_time(micros)
            self._room -= 1
            self._last = micros
            self._intake.last_time = int(micros)
            self.is_known = False
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
            self.left = self.lefts[self.at]
            self.at += 1
            self.spare += self.by_count
            self.is_known = False
        finally:
            owner.busy = False

    def query(self, alone: bool = False) -> Any:
        """The result over the window; 1 combine, none where nothing has changed.

        ``alone`` says that the caller has the window to itself.
        """
        owner = self._owner
        if owner.busy and not alone:
            raise busy()
        if not self.is_known:
            if self._held:
                combine, right = self.combine, self.right
                fold = self.left if right is self.identity else combine(self.left, right)
            elif self._structure.front == self._structure.back:
                return self._monoid.empty
            else:
                with np.errstate(all="ignore"):
                    fold = self._structure.query()
            lower = self._lower
            self._shown = fold if lower is None else lower(fold)
            self.is_known = True
        show = self._show
        return self._shown if show is None else show(self._shown)

    def __len__(self) -> int:
        return len(self._structure) + len(self._rows) - self.at

    # --- what is at hand ------------------------------------------------------------------------

    def _insert_slowly(self, value: Any, time: Any) -> None:
        with np.errstate(all="ignore"):
            self._owner.insert(value, time)
        self._reader.learn(not self._intake.unproven)
        self._doubles = self._usual and self._reader.doubles

    def _has_lefts(self) -> bool:
        """Whether an eviction is at hand."""
        return self.at < self.end or (self._renew() and self.end > 0)

    def _leave(self, until: float) -> int:
        """As ``leave``; first anew from what is at hand by now, where that is used up."""
        gone = self.leave(until) if self._room else -1
        if gone < 0 and self._renew():
            gone = self.leave(until)
        return gone

    def _renew(self) -> bool:
        """Take up anew what is at hand; whether an event can come."""
        most = min(2 * self._most, _MANY)
        self.put_back()
        self._most = most
        if self._asked is not None:
            # Whatever moves the front must ask the policy.
            self._kept, lefts = self._asked.kept(), 0
            if self._kept is None:
                return False
        else:
            lefts = most
        with np.errstate(all="ignore"):
            found = self._structure.at_hand(lefts) if self._usual else None
        if found is None:
            return False
        last = self._intake.last_time
        self._last = inf if last is None or not -_EXACT < last < _EXACT else float(last)
        self._held, self._room = True, min(found.room, most)
        return self.take(found, self._room, len(self._structure)) and self._room > 0

    def put_back(self) -> None:
        """Let the structure have what came, and be without what left; no store call."""
        if self._held:
            count, gone = len(self._rows), self.at
            if count or gone:
                rows = self._monoid.inputs.gathered(self._rows)
                times = np.array(self._times, "<i8") if self._owner.timed else None
                new = Events(rows, times, count)
                with np.errstate(all="ignore"):
                    self._structure.catch_up(new, gone, self.left, self.right)
                self._rows.clear()
                self._times.clear()
            self._held = False
            self._room, self._most, self._last = 0, _FEW, inf
            self.forget()
        self.is_known = False


def _shown(lower: Callable[[Partial], Any]) -> Callable[[Partial], Any]:
    """How an aggregate is shown, where a result is no plain number."""
    return lambda fold: plain(lower(fold))
