"""What frames can observe of a window: totals, prefixes and suffixes of aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mta.frames.base import Frame
from mta.logs.base import Leaf, Lens, OrderedEvents, Remembered, lifted_events
from mta.logs.ranges import leaves_from
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.monoids.product import Columns, Observed


class ObservedWindow(ABC):
    """A window whose partials contain its aggregate, then the aggregates that frames observe.

    ``lenses`` extract the latter, by the frame's ``id``.
    """

    #: The position of the window's oldest event, and the position after its newest.
    front: int
    back: int

    def __init__(self, monoid: AbstractMonoid, lenses: Mapping[int, Lens] | None = None) -> None:
        self.monoid, self._lenses = monoid, lenses or {}
        observed = isinstance(monoid, Observed)
        self._own: Lens = part_of(monoid, 0) if observed else (monoid, same_value)

    def lens(self, frame: Frame) -> Lens:
        """Return how to extract the aggregate that a frame observes from a partial."""
        return self._lenses.get(id(frame), self._own)

    @abstractmethod
    def query(self) -> Partial:
        """Return the aggregate of the window."""

    @abstractmethod
    def partials(self) -> Iterator[Partial]:
        """Yield every event of the window, lifted, oldest first."""

    def total(self, frame: Frame) -> Any:
        """Return the result over the whole window; costs as much as ``query``."""
        monoid, pick = self.lens(frame)
        return monoid.lower(pick(self.query()))

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


class ObservedEvents(ObservedWindow):
    """A window over ordered events: the ranges of them that frames search."""

    def __init__(
        self, monoid: AbstractMonoid, events: OrderedEvents, lenses: Mapping[int, Lens] | None
    ) -> None:
        super().__init__(monoid, lenses)
        self.events = events

    @abstractmethod
    def look_at_leaf(self) -> Leaf:
        """Read the leaf of the front, with its times; at most one page read per level."""

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than ``time``, from the front on."""
        if self.front == self.back:
            return self.front
        leaf = self.look_at_leaf()
        assert leaf.times is not None
        if leaf.times[self.front - leaf.first] > time:
            return self.front
        if leaf.times[-1] > time:
            return leaf.first + int(leaf.times.searchsorted(time, side="right"))
        return max(leaf.stop, self.events.first_after(time))

    def longest_prefix(
        self, frame: Frame, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Return where the longest accepted prefix ends; O(log n) folds of ranges."""
        monoid, pick = self.lens(frame)
        prefix, position, step, growing = monoid.identity, self.front, 1, True
        while step:
            end = position + step
            if end <= self.back:
                longer = monoid.combine(prefix, pick(self.events.fold(position, end)))
                if accepts(monoid.lower(longer)):
                    prefix, position = longer, end
                    step *= 1 + growing
                    continue
            growing = False
            step //= 2
        return position

    def longest_suffix(self, frame: Frame, accepts: Callable[[Any], bool]) -> int:
        """Return where the longest accepted suffix starts; O(log n) folds of ranges."""
        monoid, pick = self.lens(frame)

        def refused(position: int) -> bool:
            fold = self.query() if position == self.front else self.events.fold(position, self.back)
            return not accepts(monoid.lower(pick(fold)))

        if self.front == self.back or not refused(self.front):
            return self.front
        low, step = self.front, 1
        while low + step < self.back and refused(low + step):
            low, step = low + step, 2 * step
        high = min(low + step, self.back)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if refused(middle) else (low, middle)
        return high

    def partials(self) -> Iterator[Partial]:
        """Yield every event of the window, lifted, oldest first; reads every leaf once."""
        leaves = leaves_from(self.events, self.front, self.monoid.inputs, self.back)
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
