"""Stacks: suffix folds and a running prefix for single events, as in *Two-Stacks*.

    [ x x f1 f2 f3 ... | v v v v ]        f: the folds of the older events from each on
          at             right            v: newer events, which the log has not received

    insert   right = combine(right, lift(value))
    evict    at + 1, or nothing if the number follows from the number of events or the newest time
    query    combine(f[at], right)

The log supplies the first folds (``Prefetched``). When all of their events have left, the newer
events but the newest become the folds, with one combine each: the stack *turns*. So a short window
needs its log only when the log's leaf is full. Stacks turn only if events arrive in order.

``PlainStacks`` have the stacks of all windows over a log, and the events that the log has not
received. They serve any monoid, and compute a result when it is requested.
``compiled.CompiledStacks`` do the same for sums, means, maxima, minima and products of these, and
compute each result at once. Both combine in the same order, so their results have the same bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate, pairwise, takewhile
from math import inf
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Row, Rows, packed
from mta.evaluators.observed import Searched
from mta.logs.base import Lag, Prefetched, Recent
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.windows.intake import busy
from mta.windows.late import LateEvents

#: The number of events for which a compiled stack has room, as in ``columns.h``.
MOST = 1024
#: Times are doubles here, because Python handles them faster than large integers. They are exact
#: for whole microseconds up to the year 2041; other times use the general path.
EXACT = 2.0**51
#: From this number of events on, columns are folded faster than one event after the other.
_COLUMN = 64

#: Marks an unknown result; an enumeration member stays identical in copies.
UNKNOWN: Any = Enum("_Shown", "UNKNOWN").UNKNOWN  # type: ignore[attr-defined]


class Movement(NamedTuple):
    """How a window has changed as single events arrived."""

    came: int
    """How many events have entered its frame."""
    left: int
    """How many events have left its frame."""
    right: Partial
    """The aggregate of the events that entered; None if there are none or ``combine`` fails.

    Unknown if all events of the prefetched folds have left.
    """


class WindowAhead(NamedTuple):
    """The prefetched data of one window by count or time."""

    size: int
    """The size, in events or in microseconds."""
    by_count: bool
    length: int
    """The number of events in the window."""
    found: Prefetched

    def room(self, most: int) -> int:
        """Return how many of ``most`` events can arrive before prefetched folds are used up."""
        if not self.by_count or self.found.turns or not self.found.size:
            return most
        return min(most, self.spare + self.found.size - 1)

    @property
    def spare(self) -> int:
        """How many events can arrive before a window by count evicts any."""
        return self.size - self.length

    def bound(self, last: float) -> float:
        """Return the time that events must precede; ``last`` is the newest time."""
        leaving, lag, most = self.found.leaving, self.found.lag, EXACT
        if lag is not None and not lag.is_all:
            times = lag.waiting.times
            most = -inf if times is None else min(most, float(times[-1]) + lag.delay)
        if self.by_count:
            return most
        if not len(leaving):
            return -inf
        first, end = float(leaving[0]), float(leaving[-1])
        known = max(-EXACT, last - self.size) < first and end < EXACT
        return min(most, most if self.found.turns else end + self.size) if known else -inf


class Acceptance(NamedTuple):
    """What all windows over a log have in common. Times are in whole microseconds."""

    room: int
    """How many events can arrive."""
    last: float
    """The newest time."""
    bound: float
    """Events must be before this time."""
    late_from: float
    """From this time on, events can be older than the newest event."""
    lateness: float
    """The largest difference by which they can be older."""

    def accepts(self, count: int, time: float, last: float, timed: bool) -> bool:
        """Return whether an event can be added after ``count`` others, the newest at ``last``."""
        if count >= self.room or not timed:
            return count < self.room
        is_late = self.late_from <= time and last - self.lateness <= time
        return time < self.bound and (last <= time or is_late)


#: Accepts no event.
NOTHING = Acceptance(0, -inf, -inf, inf, 0.0)


class WaitingEvents:
    """The stored events that a frame will reach next, if it ends before the newest event.

    After them, the frame reaches the new events, which all windows share.
    """

    __slots__ = ("came", "count", "delay", "rows", "times", "values")

    def __init__(self, lag: Lag, values: list[Row]) -> None:
        self.delay, self.rows = float(lag.delay), lag.rows
        self.values, self.count, times = values, len(values), lag.waiting.times
        self.times = [] if times is None else times.astype(float).tolist()
        #: How many events have entered the frame, of the stored and the new events.
        self.came = 0

    def entered(self, new: int, new_times: Sequence[float], last: float) -> int:
        """Return how many events are now in the frame, after ``new`` events."""
        at, stored, delay = self.came, self.count, self.delay
        stop = stored + new - self.rows
        if not delay:  # no time is later than the newest time
            return max(at, stop)
        times, until = self.times, last - delay
        while at < min(stop, stored) and times[at] <= until:
            at += 1
        if at >= stored:
            while at < stop and new_times[at - stored] <= until:
                at += 1
        return at


class Stack:
    """The stack of one window, as lists, which Python reads faster than arrays."""

    __slots__ = (
        "asked", "at", "by_count", "entering", "folds", "leaving", "left", "next", "older",
        "recent", "right", "seen", "shown", "size", "spare", "turned", "turns",
    )  # fmt: skip

    def __init__(self, folds: list[Partial], window: WindowAhead) -> None:
        #: The aggregate of the older events after each eviction; none before the first request.
        self.folds, self.asked = folds, bool(folds)
        found = window.found
        self.size, self.spare, self.by_count = float(window.size), window.spare, window.by_count
        #: The times of the next events that leave a window by time, and infinity.
        self.leaving: list[float] = [inf]
        if not window.by_count:
            self.leaving = [*found.leaving.astype(float).tolist(), inf]
        self.turns = found.turns
        #: The aggregate of the new events, now and before the newest event; None if there are none.
        self.right: Partial | None = found.right
        self.older: Partial | None = None
        #: The newest stored events, which late events may precede; None if no event may be late.
        self.recent: Recent | None = found.recent
        #: The events that the window will reach next, if it ends before the newest event.
        self.entering: WaitingEvents | None = None
        #: How many events of the folds had left at the last request, and how many had left before
        #: the stack last turned, with as many new events then.
        self.at = self.left = self.turned = 0
        #: The next window that events enter on arrival.
        self.next: Stack | None = None
        #: The result after ``seen`` events.
        self.shown, self.seen = None, -1

    def gone(self, count: int, last: float) -> int:
        """Return how many events of the folds have left after ``count`` new ones, up to ``last``.

        Greater than the number of folds if the stack must turn.
        """
        if self.by_count:
            return max(count - self.spare, self.at)
        return bisect_right(self.leaving, last - self.size, self.at)

    def turned_by(
        self, new: Partial, micros: float, rows: list[Row], times: Sequence[float],
        monoid: AbstractMonoid,
    ) -> Callable[[], None] | None:  # fmt: skip
        """Return a call that turns the stack as an event arrives; None if it need not turn.

        ``rows`` and ``times`` are those of all earlier new events. One combine for each new event
        that remains.
        """
        count, folds = len(rows), len(self.folds)
        if self.by_count:
            first = self.turned + max(count + 1 - self.spare, self.at) - folds
        else:
            first = bisect_right(times, micros - self.size, self.turned)
        if first <= self.turned:
            return None
        after = _suffixes(monoid, rows[first:])

        def turn() -> None:
            self.folds, self.right, self.leaving = after, new, [*times[first:], inf]
            self.left += folds + first - self.turned
            self.at, self.turned, self.spare, self.seen = 0, count, count + 1, -1

        return turn

    def limits(self, times: Sequence[float], last: float) -> tuple[float, float]:
        """Return after how many events, and from which time on, the stack may have to turn."""
        if not self.turns:
            return inf, inf
        if self.by_count:
            return self.spare + len(self.folds), inf
        return inf, (times[self.turned] if len(times) > self.turned else last) + self.size


def _suffixes(monoid: AbstractMonoid, rows: list[Row]) -> list[Partial]:
    """Return the fold from each row to the last one; one combine each."""
    if monoid.is_columnar and len(rows) >= _COLUMN:
        partials = monoid.partials
        lifted = monoid.lift_rows(monoid.inputs.gathered(rows), len(rows))
        folds = monoid.suffixes(lifted, len(rows), monoid.identity)
        return partials.listed(folds, len(rows) + 1)[:-1]
    combine, lift = monoid.combine, monoid.lift
    lifted = rows if lift is same_value else [lift(row) for row in rows]
    folds = accumulate(reversed(lifted), lambda right, left: combine(left, right))
    return list(folds)[::-1]


class PlainStacks:
    """The stacks of all windows over a log, and the events that the log has not received.

    ``asked`` is what a frame on an aggregate observes. Then events are added one by one, and only
    while nothing is evicted.
    """

    # Python finds slots faster than the attributes of a large object.
    __slots__ = (
        "_accepted", "_append", "_append_time", "_asked", "_bound", "_combine", "_first", "_last",
        "_late", "_lift", "_live", "_lower", "_monoid", "_owner", "_reader", "_room", "_rows",
        "_show", "_timed", "_times", "_turns", "double", "kept", "only", "windows",
    )  # fmt: skip

    def __init__(
        self, owner: Any, reader: Any, lower: Callable[[Partial], Any] | None,
        show: Callable[[Any], Any] | None, asked: Searched | None,
    ) -> None:  # fmt: skip
        self._owner, self._reader, self._timed = owner, reader, owner.timed
        monoid = self._monoid = owner.monoid
        self._combine, self._lower, self._show = monoid.combine, lower, show
        self._lift = None if monoid.lift is same_value else monoid.lift
        #: ``float`` if a double is a valid row, unless it is NaN.
        self.double: type[float] | None = None
        #: The observed value for which nothing is evicted.
        self._asked, self.kept = asked, None
        #: The events that arrived.
        self._rows: list[Row] = []
        self._times: list[float] = []
        self._append, self._append_time = self._rows.append, self._times.append
        self.clear()

    def clear(self) -> None:
        """Discard everything; no event can be added."""
        self._rows.clear()
        self._times.clear()
        self.windows: dict[str, Stack] = {}
        #: The window, if there is only one.
        self.only: Stack | None = None
        #: The windows that events enter on arrival. Each also has a reference to the next one,
        #: because Python follows references faster than a list.
        self._live: list[Stack] = []
        self._first: Stack | None = None
        self._accepted = NOTHING
        #: How many events can arrive, and the time that they must precede, before a stack turns;
        #: the newest time.
        self._room, self._last, self._bound = 0.0, -inf, -inf
        #: Whether a stack may turn.
        self._turns = False
        #: The folds that late events change, after the first late event if order matters.
        self._late: LateEvents | None = None

    def load(self, windows: Mapping[str, WindowAhead], accepted: Acceptance) -> None:
        """Load the prefetched data of windows; from then on, events can be added."""
        listed, inputs = self._monoid.partials.listed, self._monoid.inputs
        for name, window in windows.items():
            stack = Stack(listed(window.found.folds, window.found.size), window)
            if (lag := window.found.lag) is not None:
                values = inputs.listed(lag.waiting.rows, lag.waiting.size)
                stack.entering = WaitingEvents(lag, values)
            self.windows[name] = stack
        self._live = [w for w in self.windows.values() if w.asked and w.entering is None]
        self._first = self._live[0] if self._live else None
        for live, following in pairwise(self._live):
            live.next = following
        self.only = self.windows.get("")
        self._turns = any(window.turns for window in self._live)
        self._accepted, self._last = accepted, accepted.last
        self._room, self._bound = accepted.room, accepted.bound
        if self._turns:
            self._limit()

    # --- events in ------------------------------------------------------------------------------

    def event(self, value: Any, micros: float) -> Any:
        """Add an event to all windows; see ``SingleEvents.event``."""
        if len(self._rows) >= self._room:
            return None
        if self._timed and not self._last <= micros < self._bound:
            return None
        row: Row | None
        if value.__class__ is self.double and value == value:
            row = value
        elif (row := self._reader.read(value)) is None:
            return None
        combine, window = self._combine, self._first
        owner, new = self._owner, row
        owner.busy = True
        try:
            if self._lift is not None:
                new = self._lift(row)
            while window is not None:
                right = window.right
                window.right = new if right is None else combine(right, new)
                window.older, window = right, window.next
        except BaseException as error:
            self._undo(window, error)
            return None
        finally:
            owner.busy = False
        self._append(row)
        if self._timed:
            self._append_time(micros)
            self._last = micros
        return UNKNOWN

    def _undo(self, failed: Stack | None, error: BaseException) -> None:
        """Remove an event from the windows before the window whose combine failed.

        The general path then raises the same error again. Raises an interruption, such as
        KeyboardInterrupt, immediately.
        """
        if failed is not None:
            for window in takewhile(lambda each: each is not failed, self._live):
                window.right = window.older
        if not isinstance(error, Exception):
            raise error

    def add(self, row: Row, micros: float) -> Any:
        """Add an event, among the newest events if it is late; return UNKNOWN.

        Returns None, with nothing changed, if prefetching again may help; False if the event needs
        the general path, which raises the error if something failed.
        """
        if not self._accepted.accepts(len(self._rows), micros, self._last, self._timed):
            return None
        try:
            new = row if self._lift is None else self._lift(row)
            if self._asked is not None:
                if not self._stays(new, self._asked):
                    return False
            else:
                self._take(new, micros)
        except Exception:
            return False
        self._append(row)
        if self._timed:
            self._append_time(micros)
            self._last = max(micros, self._last)
        if self._turns:
            self._limit()
        return UNKNOWN

    def _take(self, new: Partial, micros: float) -> None:
        combine, windows = self._combine, self._live
        if self._timed and micros < self._last and not self._monoid.commutative and windows:
            if self._late is None:  # at most one page read per level
                recents = [window.recent for window in windows if window.recent is not None]
                before = [recent.before() for recent in recents]
                self._late = LateEvents(self._monoid, recents[0].events, before)
            known = [window.right for window in windows]
            rights = self._late.insert(new, micros, self._rows, self._times, known)
        else:
            rights = [new if w.right is None else combine(w.right, new) for w in windows]
        turns = self._turned_by(new, micros) if self._turns else []
        for window, right in zip(windows, rights, strict=True):
            window.right = right
        for turn in turns:
            turn()

    def _stays(self, new: Partial, asked: Searched) -> bool:
        """Add an event if it evicts nothing under a frame on an aggregate; return whether it did.

        Nothing is evicted while the front and the observed value are the same as when nothing was
        evicted. The combine for this check also serves the query.
        """
        window, combine = self.only, self._combine
        assert window is not None
        right = new if window.right is None else combine(window.right, new)
        fold = combine(window.folds[0], right)
        if asked.total(fold) != self.kept:
            return False
        window.right = right
        window.shown = fold if self._lower is None else self._lower(fold)
        window.seen = len(self._rows) + 1
        return True

    def _turned_by(self, new: Partial, micros: float) -> list[Callable[[], None]]:
        """Return calls that turn the stacks whose folds are used up as an event arrives."""
        count, turning = len(self._rows), list[Stack]()
        for window in self._live:
            if window.turns and window.gone(count + 1, micros) >= len(window.folds):
                turning.append(window)
        arguments = new, micros, self._rows, self._times, self._monoid
        found = [window.turned_by(*arguments) for window in turning]
        return [turn for turn in found if turn is not None]

    def _limit(self) -> None:
        """Set the limits of ``event``, up to which no stack turns."""
        limits = [window.limits(self._times, self._last) for window in self._live]
        self._room = min([self._accepted.room, *(limit for limit, _ in limits)])
        self._bound = min([self._accepted.bound, *(limit for _, limit in limits)])

    # --- results --------------------------------------------------------------------------------

    def result(self, window: Stack | None = None) -> Any:
        """Return the result of a window, by default the only one. 1 combine, none if known."""
        if window is None:
            window = self.only
            assert window is not None
            if self._owner.busy:
                raise busy(self._owner)
        count = len(self._rows)
        if window.seen == count:
            shown = window.shown
        else:
            if window.entering is not None:
                self._enter(window, window.entering)
            at, leaving, right, folds = window.at, window.leaving, window.right, window.folds
            if not window.by_count:
                until = self._last - window.size
                while leaving[at] <= until:  # usually one event leaves per arrival
                    at += 1
                window.at = at
            elif (gone := count - window.spare) > at:
                at = gone
            if at == len(folds):
                shown = right
            else:
                shown = folds[at] if right is None else self._combine(folds[at], right)
            if self._lower is not None:
                shown = self._lower(shown)
            window.shown, window.seen = shown, count
        return shown if self._show is None else self._show(shown)

    def _enter(self, window: Stack, entering: WaitingEvents) -> None:
        """Add to a frame the events that are now old enough."""
        rows, stored, lift, right = self._rows, entering.count, self._lift, window.right
        stop = entering.entered(len(rows), self._times, self._last)
        for at in range(entering.came, stop):
            row = entering.values[at] if at < stored else rows[at - stored]
            new = row if lift is None else lift(row)
            right = new if right is None else self._combine(right, new)
        window.right, entering.came = right, stop

    # --- events out -----------------------------------------------------------------------------

    def evict(self) -> bool:
        """Evict the oldest event of the only window if another fold follows; return whether."""
        window = self.only
        assert window is not None
        gone = window.gone(len(self._rows), self._last)
        if gone >= len(window.folds) - 1:
            return False
        window.at, window.seen = gone + 1, -1
        return True

    @property
    def came(self) -> int:
        """The number of events that arrived."""
        return len(self._rows)

    def events(self) -> tuple[Rows, np.ndarray]:
        """Return the values and the times of the events that arrived, in order of arrival."""
        return self._monoid.inputs.gathered(self._rows), packed(self._times, "<f8")

    def moved(self) -> Iterator[tuple[str, Movement]]:
        """Yield how each window has changed until now."""
        for name, window in self.windows.items():
            came, entering, right = len(self._rows), window.entering, window.right
            left = window.left + window.gone(came, self._last)
            if entering is not None:
                try:
                    self._enter(window, entering)
                    came, right = entering.came, window.right
                except Exception:  # a request for the result raises the error
                    came, right = entering.entered(came, self._times, self._last), None
            yield name, Movement(came, left, right)
