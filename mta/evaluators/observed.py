"""What frames can observe of a window: totals, prefixes and suffixes of aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import maxsize
from typing import Any

import numpy as np

from mta.frames.base import Both, Frame
from mta.frames.bounds import CustomFrame
from mta.frames.windows import CountWindow
from mta.logs.base import Aggregator, Leaf, Lens, OrderedEvents, Remembered, lifted_events
from mta.logs.ranges import leaves_from
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.monoids.product import Columns, Observed


class Searched:
    """A frame on an aggregate, alone or ``|`` a count."""

    def __init__(self, window: ObservedEvents, frame: Frame, size: int) -> None:
        self._window, self._frame = window, frame
        #: The maximum number of events in the window.
        self.size = size
        monoid, self._pick = window.lens(frame)
        self._lower = monoid.lower

    def total(self, fold: Partial) -> Any:
        """Return what the frame observes, given the window's aggregate."""
        return self._lower(self._pick(fold))

    def stays(self) -> Any:
        """Return the value for which nothing is evicted at the current front, or None."""
        return self._window.kept_total(self._frame)


class ObservedEvents(ABC):
    """A window over ordered events: its aggregates, and the ranges of it that frames search.

    Its partials contain its aggregate, then the aggregates that frames observe. ``lenses`` extract
    the latter, by the frame's ``id``.
    """

    #: The positions of the window's oldest event, after its newest event, and after the newest
    #: event that was processed. The last two are equal unless the frame ``lags``.
    front: int
    end: int
    back: int

    def __init__(
        self, monoid: AbstractMonoid, frame: Frame, events: OrderedEvents,
        lenses: Mapping[int, Lens] | None = None,
    ) -> None:  # fmt: skip
        self.monoid, self.frame, self.events, self._lenses = monoid, frame, events, lenses or {}
        observed = isinstance(monoid, Observed)
        self._own: Lens = part_of(monoid, 0) if observed else (monoid, same_value)
        #: The front and the total for which a frame, by its ``id``, last evicted nothing.
        self._kept: dict[int, tuple[int, Any]] = {}
        #: The log if this is its only window, which the log can then search.
        self.own_log: Aggregator | None = None

    def lens(self, frame: Frame) -> Lens:
        """Return how to extract the aggregate that a frame observes from a partial."""
        return self._lenses.get(id(frame), self._own)

    @abstractmethod
    def query(self) -> Partial:
        """Return the aggregate of the window."""

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether events were added or removed since the frame was last applied."""

    @abstractmethod
    def settle(self, time: int | None) -> None:
        """Apply the frame at the newest event, or at a later moment."""

    def total(self, frame: Frame) -> Any:
        """Return the result over the whole window; costs as much as ``query``."""
        monoid, pick = self.lens(frame)
        return monoid.lower(pick(self.query()))

    def longest_prefix(
        self, frame: Frame, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Return where the longest accepted prefix ends; see ``frames.View``."""
        asked = None
        if isinstance(total, int | float | np.integer) and not self.events.by_time:
            asked = self.front, total
            if self._kept.get(id(frame)) == asked:
                return self.front
        found = self.prefix_accepted(self.lens(frame), accepts)
        if asked is not None and found == self.front:
            self._kept[id(frame)] = asked
        return found

    def longest_suffix(self, frame: Frame, accepts: Callable[[Any], bool]) -> int:
        """Return where the longest accepted suffix starts; see ``frames.View``."""
        return self.suffix_accepted(self.lens(frame), accepts)

    def searched(self, timed: bool) -> Searched | None:
        """Return the frame if it is one on an aggregate, alone or ``|`` a count; else None."""
        frame, size = self.frame, maxsize
        if isinstance(frame, Both) and frame.any_of:
            for count, other in ((frame.one, frame.other), (frame.other, frame.one)):
                if type(count) is CountWindow:
                    frame, size = other, count.size
        is_searched = isinstance(frame, CustomFrame) and frame.is_searched and not timed
        return Searched(self, frame, size) if is_searched else None

    def kept_total(self, frame: Frame) -> Any:
        """Return a total for which a frame evicts nothing from this front; None if there is none.

        If no total is known, applies the frame, which searches the window.
        """
        if self.is_behind:
            self.settle(None)
        if self._kept.get(id(frame), (-1, None))[0] != self.front and self.front < self.end:
            frame.cut(self, None)
        kept, total = self._kept.get(id(frame), (-1, None))
        return total if kept == self.front else None

    def all_prefixes(self, frame: Frame) -> Iterable[tuple[int, Any]]:
        """Yield the result of every prefix and its end; reads the whole window."""
        monoid, pick = self.lens(frame)
        prefix = monoid.identity
        for position, event in enumerate(self.partials(), self.front + 1):
            prefix = monoid.combine(prefix, pick(event))
            yield position, monoid.lower(prefix)

    def all_suffixes(self, frame: Frame) -> Iterable[tuple[int, Any]]:
        """Yield the result of every suffix and its start, longest first; reads the whole window."""
        monoid, pick = self.lens(frame)
        suffix: Partial = monoid.identity
        results = []
        for event in reversed(list(self.partials())):
            suffix = monoid.combine(pick(event), suffix)
            results.append(monoid.lower(suffix))
        return enumerate(reversed(results), self.front)

    @abstractmethod
    def look_at_leaf(self) -> Leaf:
        """Read the leaf of the front, with its times; at most one page read per level."""

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than ``time``, from the front on."""
        if self.front == self.end:
            return self.front
        log = self.own_log
        if log is not None and log.front == self.front:  # knows the oldest time of a snapshot
            oldest = log.oldest_time()
            is_later = oldest is None or oldest > time
            return self.front if is_later else self.events.first_after(time)
        leaf = self.look_at_leaf()
        assert leaf.times is not None
        if leaf.times[self.front - leaf.first] > time:
            return self.front
        if leaf.times[-1] > time:
            return leaf.first + int(leaf.times.searchsorted(time, side="right"))
        return max(leaf.stop, self.events.first_after(time))

    def prefix_accepted(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Search with O(log n) folds of ranges, or as a log of this window does."""
        if (log := self.own_log) is not None:
            return log.longest_prefix(lens, accepts)
        monoid, pick = lens
        prefix, position, step, growing = monoid.identity, self.front, 1, True
        while step:
            end = position + step
            if end <= self.end:
                longer = monoid.combine(prefix, pick(self.events.fold(position, end)))
                if accepts(monoid.lower(longer)):
                    prefix, position = longer, end
                    step *= 1 + growing
                    continue
            growing = False
            step //= 2
        return position

    def suffix_accepted(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Search with O(log n) folds of ranges, or as a log of this window does."""
        if (log := self.own_log) is not None:
            return log.longest_suffix(lens, accepts)
        monoid, pick = lens

        def refused(position: int) -> bool:
            fold = self.query() if position == self.front else self.events.fold(position, self.end)
            return not accepts(monoid.lower(pick(fold)))

        if self.front == self.end or not refused(self.front):
            return self.front
        low, step = self.front, 1
        while low + step < self.end and refused(low + step):
            low, step = low + step, 2 * step
        high = min(low + step, self.end)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if refused(middle) else (low, middle)
        return high

    def partials(self) -> Iterator[Partial]:
        """Yield every event of the window, lifted, oldest first; reads every leaf once."""
        leaves = leaves_from(self.events, self.front, self.monoid.inputs, self.end)
        return lifted_events(leaves, self.monoid)


def lenses_of(monoid: AbstractMonoid, observers: Sequence[Frame]) -> dict[int, Lens]:
    """Return how to extract each observer's aggregate from a partial, by the observer's ``id``."""
    return {id(frame): part_of(monoid, i) for i, frame in enumerate(observers, 1)}


def lenses_of_frame(monoid: AbstractMonoid, frame: Frame) -> dict[int, Lens]:
    """Return how to extract what the parts of one frame observe."""
    return lenses_of(monoid, [observer for observer, _, _ in frame.observers])


def lens_in(monoid: AbstractMonoid, frame: Frame) -> Lens:
    """Return how to extract the aggregate that a frame observes, which the monoid includes."""
    assert isinstance(monoid, Observed)
    (_, _, observer), *_ = frame.observers
    known = [each.fingerprint for each in monoid.monoids[1:]]
    return part_of(monoid, known.index(observer.fingerprint) + 1)


def total_before(
    events: Remembered, stop: int, lens: Callable[[Frame], Lens]
) -> Callable[[Frame], Any]:
    """Return what frames observe in all retained events before a position; see ``Positions``."""

    def total(frame: Frame) -> Any:
        monoid, pick = lens(frame)
        return monoid.lower(pick(events.fold(events.kept_from, stop)))

    return total


def part_of(monoid: AbstractMonoid, index: int) -> Lens:
    """Return how to extract the window's aggregate (0), or an observed one, from a partial."""
    assert isinstance(monoid, Observed)
    return monoid.monoids[index], lambda partial: partial[index]


#: A frame, the columns that it observes, and the aggregate of these.
Observer = tuple[Frame, Columns, AbstractMonoid]


def key_of_observer(observer: Observer) -> tuple[str, bytes]:
    """Return the key that observers of the same aggregate share."""
    _, columns, monoid = observer
    return repr(columns), monoid.fingerprint


def observed_by(frames: Iterable[Frame]) -> tuple[Observer, ...]:
    """Return what frames observe, each aggregate once, in an order that is always the same."""
    found = {key_of_observer(observer): observer for each in frames for observer in each.observers}
    return tuple(found[key] for key in sorted(found))
