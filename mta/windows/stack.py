"""Stacks: suffix folds and a running prefix for single events, as in *Two-Stacks*.

    [ x x f1 f2 f3 ... | v v v v ]        f: the folds of the older events from each on
          at             right            v: newer events, which the log has not received

    insert   right = combine(right, lift(value))
    evict    at + 1, or nothing if the number follows from the number of events or the newest time
    query    combine(f[at], right)

The log supplies the first folds (``Prefetched``). When all of their events have left, the newer
events but the newest become the folds, with one combine each: the stack *turns*. So a short window
needs its log only when the log's leaf is full. Stacks turn only if events arrive in order.

``Stack`` serves any monoid, and computes a result when it is requested. ``CompiledStacks``
(``single.c``) compute each result at once: one stack for each window and each number of the
aggregate, for sums, means, maxima, minima and products of these. Both combine in the same order, so
their results have the same bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import inf
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Array, Row, Rows
from mta.kernels import native
from mta.logs.base import Lag, Prefetched, Recent
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import Product

#: The number of events for which a compiled stack has room, as in ``columns.h``.
MOST = 1024
#: Times are doubles here, because Python handles them faster than large integers. They are exact
#: for whole microseconds up to the year 2041; other times use the general path.
EXACT = 2.0**51
#: From this number of events on, columns are folded faster than one event after the other.
_COLUMN = 64
#: The code of each kind's operation in C. A partial is one number, and for a mean also a count.
_OPERATIONS = {"sum_f8": 0, "mean": 0, "max_f8": 1, "min_f8": -1}


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

    def __init__(self, folds: list[Partial], window: WindowAhead | None = None) -> None:
        #: The aggregate of the older events after each eviction; none before the first request.
        self.folds, self.asked = folds, bool(folds)
        #: The times of the next events that leave a window by time, and infinity.
        self.leaving: list[float] = [inf]
        self.size, self.spare, self.by_count, self.turns = 0.0, 0, True, False
        #: The aggregate of the new events, now and before the newest event; None if there are none.
        self.right: Partial | None = None
        self.older: Partial | None = None
        #: The newest stored events, which late events may precede; None if no event may be late.
        self.recent: Recent | None = None
        #: The events that the window will reach next, if it ends before the newest event.
        self.entering: WaitingEvents | None = None
        if window is not None:
            found = window.found
            self.right, self.recent, self.turns = found.right, found.recent, found.turns
            self.size, self.spare, self.by_count = float(window.size), window.spare, window.by_count
            if not window.by_count:
                self.leaving = [*found.leaving.astype(float).tolist(), inf]
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


# --- compiled stacks ------------------------------------------------------------------------------


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


class _Part(NamedTuple):
    """A number that a monoid aggregates."""

    alias: str
    is_mean: bool
    operation: int
    place: int
    """The column of a product's rows."""


class CompiledStacks:
    """The compiled stacks of windows. All of them accept an event, or none does."""

    __slots__ = ("_is_product", "_keys", "_names", "_parts", "_pool", "_stacks")

    def __init__(self, parts: Sequence[_Part], is_product: bool) -> None:
        self._parts, self._is_product = tuple(parts), is_product
        #: The stacks of each window that was loaded once, one per part.
        self._pool: dict[str, tuple[Any, ...]] = {}
        #: The names of the loaded windows, and their stacks.
        self._names: list[str] = []
        self._stacks: tuple[Any, ...] = ()
        #: The key of each stack: the window, the part, or both.
        self._keys: tuple[Any, ...] = ()

    @classmethod
    def of(cls, monoid: AbstractMonoid) -> CompiledStacks | None:
        """Return lanes without windows, or None if no compiled stack supports the monoid."""
        if native.compiled is None:
            return None
        if not isinstance(monoid, Product):
            part = _part_of(monoid)
            return None if part is None else cls([part], False)
        if monoid.picks_doubles is None:
            return None
        parts = [part for each in monoid.monoids if (part := _part_of(each)) is not None]
        if not parts or len(parts) < len(monoid.monoids):
            return None
        names = zip(parts, monoid.aliases, monoid.places, strict=True)
        return cls([part._replace(alias=alias, place=at) for part, alias, at in names], True)

    @property
    def has_memory(self) -> bool:
        """Whether any stack was loaded."""
        return bool(self._pool)

    def load(self, windows: Mapping[str, WindowAhead], limits: Acceptance) -> None:
        """Load the prefetched data of windows; from then on, ``event`` adds events."""
        self._names = list(windows)
        for name, window in windows.items():
            if name not in self._pool:
                self._pool[name] = tuple([native.compiled.Stack() for _ in self._parts])
            found = window.found
            columns: Sequence[Rows] = found.folds if self._is_product else [found.folds]
            rights = found.right if self._is_product else [found.right]
            pairs = zip(self._parts, self._pool[name], columns, rights, strict=True)
            for part, stack, folds, right in pairs:
                _load(part, stack, window, limits, folds, right)
        self._stacks = tuple([stack for name in windows for stack in self._pool[name]])
        self._keys = tuple(self._names)
        if self._is_product:
            aliases, is_only = [part.alias for part in self._parts], len(windows) == 1
            self._keys = tuple(aliases if is_only else product(windows, aliases))

    @property
    def only(self) -> Callable[[Any, float], Any] | None:
        """The function of the only stack that adds a double and returns the result, if any."""
        is_only = len(self._names) == 1 and not self._is_product
        return self._stacks[0].event if is_only else None

    def event(self, row: Row, time: float) -> Any:
        """Add an event; return the result of the only window, or the results by window and part.

        None, with nothing changed, if it cannot be added.
        """
        found = native.compiled.events(self._stacks, row, time, self._keys)
        if found is None or len(self._names) > 1 or self._is_product:
            return found
        return found[self._names[0]]

    def keyed(self, results: Sequence[Any]) -> dict[Any, Any]:
        """Return the results of multiple windows as ``event`` does."""
        if self._is_product:
            results = [number for each in results for number in each.values()]
        return dict(zip(self._keys, results, strict=True))

    def results(self, shown: dict[Any, Any]) -> dict[str, Any]:
        """Return results of multiple windows that ``event`` has returned, as new dictionaries."""
        if not self._is_product:
            return shown.copy()
        found: dict[str, Any] = {name: {} for name in self._names}
        for (name, alias), number in shown.items():
            found[name][alias] = number
        return found

    @property
    def came(self) -> int:
        """The number of events that arrived."""
        stack = self._stacks[0]
        count: int = stack.count - stack.waiting
        return count

    def evict(self) -> bool:
        """Evict the oldest event of the only window if another fold follows; return whether."""
        return all(stack.evict() for stack in self._stacks)

    def values(self) -> Rows:
        """Return the values of the events that arrived."""
        firsts = zip(self._parts, self._stacks, strict=False)  # those of the first window
        columns = {part.place: np.frombuffer(stack.column(False), "<f8") for part, stack in firsts}
        return tuple([columns[at] for at in sorted(columns)]) if self._is_product else columns[0]

    def times(self) -> np.ndarray:
        """Return the times of the events that arrived, in order of arrival."""
        return np.frombuffer(self._stacks[0].column(True), "<f8")

    def moved(self) -> Iterator[tuple[str, Movement]]:
        """Yield how each window has changed."""
        for name in self._names:
            stacks = self._pool[name]
            yield name, Movement(stacks[0].entered, stacks[0].left, self._rights(stacks))

    def aggregates(self) -> Iterator[tuple[Partial | None, Partial]]:
        """Yield the aggregates of each window's older events, None without any, and newer ones."""
        for stacks in (self._pool[name] for name in self._names):
            lefts = [
                (stack.fold(), float(stack.length - stack.newer)) if part.is_mean else stack.fold()
                for part, stack in zip(self._parts, stacks, strict=True)
            ]
            has_older = stacks[0].fold() is not None
            older = tuple(lefts) if self._is_product else lefts[0]
            yield older if has_older else None, self._rights(stacks)

    def _rights(self, stacks: Sequence[Any]) -> Partial:
        rights = [
            (stack.right, float(stack.newer)) if part.is_mean else stack.right
            for part, stack in zip(self._parts, stacks, strict=True)
        ]
        return tuple(rights) if self._is_product else rights[0]


def _part_of(monoid: AbstractMonoid) -> _Part | None:
    if not isinstance(monoid, ColumnarMonoid) or not monoid.kernel_lowers or monoid.kernel is None:
        return None
    kind, inputs = monoid.kernel.kind, monoid.inputs
    takes_doubles = isinstance(inputs, Array) and inputs.dtype == np.dtype("<f8")
    if kind not in _OPERATIONS or not takes_doubles:
        return None
    return _Part("", kind == "mean", _OPERATIONS[kind], 0)


def _load(
    part: _Part, stack: Any, window: WindowAhead, limits: Acceptance, folds: Rows, right: Partial
) -> None:
    found, lag, by_count = window.found, window.found.lag, window.by_count
    stack.newer, stack.place = 0, part.place
    if part.is_mean:
        folds, (right, stack.newer) = folds[0], (right[0], int(right[1]))
    stack.operation, stack.is_mean, stack.right = part.operation, part.is_mean, right
    stack.by_count, stack.turns, stack.length = by_count, found.turns, window.length
    stack.spare, stack.age = (window.spare, 0.0) if by_count else (0, float(window.size))
    stack.most = limits.room
    stack.last, stack.bound = limits.last, limits.bound
    stack.floor, stack.lateness = limits.late_from, limits.lateness
    values = times = np.empty(0)
    stack.delay, stack.rows = 0.0, 0
    if lag is not None:
        stack.delay, stack.rows, size = float(lag.delay), lag.rows, lag.waiting.size
        rows, waiting = lag.waiting.rows, lag.waiting.times
        values = rows[part.place] if isinstance(rows, tuple) else rows
        times = np.full(size, -inf) if waiting is None else waiting.astype("<f8")
    leaving = np.empty(0) if by_count else found.leaving.astype("<f8")
    stack.load(np.ascontiguousarray(folds), leaving, np.ascontiguousarray(values), times)
