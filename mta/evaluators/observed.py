"""What policies see of a window: totals, prefixes and suffixes of what they observe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mta.frames.base import AbstractPolicy
from mta.logs.base import Aggregator, Lens
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.monoids.product import Observed


class ObservedWindow(ABC):
    """A window whose partials hold, beside its own aggregate, those that policies observe.

    ``lenses`` say where, by the policy's ``id``.
    """

    #: The window's oldest event, and the position after its newest.
    front: int
    back: int

    def __init__(self, monoid: AbstractMonoid, lenses: Mapping[int, Lens] | None = None) -> None:
        self.monoid, self._lenses = monoid, lenses or {}
        observed = isinstance(monoid, Observed)
        self._own: Lens = part_of(monoid, 0) if observed else (monoid, same_value)

    def lens(self, policy: AbstractPolicy) -> Lens:
        """How to see what a policy observes in a partial."""
        return self._lenses.get(id(policy), self._own)

    @abstractmethod
    def query(self) -> Partial:
        """The aggregate of the window."""

    @abstractmethod
    def partials(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on."""

    def total(self, policy: AbstractPolicy) -> Any:
        """The result over the whole window; costs as ``query``."""
        monoid, pick = self.lens(policy)
        return monoid.lower(pick(self.query()))

    def all_prefixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every prefix and where it ends; reads the whole window."""
        monoid, pick = self.lens(policy)
        prefix = monoid.identity
        for position, event in enumerate(self.partials(), self.front + 1):
            prefix = monoid.combine(prefix, pick(event))
            yield position, monoid.lower(prefix)

    def all_suffixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every suffix and where it begins, longest first; reads the whole window."""
        monoid, pick = self.lens(policy)
        suffix: Partial = monoid.identity
        results = []
        for event in reversed(list(self.partials())):
            suffix = monoid.combine(pick(event), suffix)
            results.append(monoid.lower(suffix))
        return enumerate(reversed(results), self.front)


class WindowView(ObservedWindow):
    """A structure of one window, for the policies that observe something in it."""

    def __init__(self, structure: Aggregator, observers: Sequence[AbstractPolicy]) -> None:
        monoid = structure.monoid
        lenses = {id(policy): part_of(monoid, i) for i, policy in enumerate(observers, 1)}
        super().__init__(monoid, lenses)
        self._structure = structure
        #: The front and the total when a policy, by its ``id``, let nothing leave.
        self._kept: dict[int, tuple[int, Any]] = {}

    @property
    def front(self) -> int:  # type: ignore[override]
        """The position of the oldest event."""
        return self._structure.front

    @property
    def back(self) -> int:  # type: ignore[override]
        """The position after the newest event."""
        return self._structure.back

    def query(self) -> Partial:
        return self._structure.query()

    def partials(self) -> Iterator[Partial]:
        return self._structure.events()

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``."""
        oldest = self._structure.oldest_time()
        if oldest is None or oldest > time:
            return self._structure.front
        return self._structure.first_after(time)

    def longest_prefix(
        self, policy: AbstractPolicy, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Where the longest prefix ends whose result is accepted; see ``frames.View``."""
        structure, asked = self._structure, None
        # Where events are kept by time, another one may be at the front by now.
        if isinstance(total, int | float | np.integer) and not structure.by_time:
            asked = structure.front, total
            if self._kept.get(id(policy)) == asked:
                return structure.front
        found = structure.longest_prefix(self.lens(policy), accepts)
        if asked is not None and found == structure.front:
            self._kept[id(policy)] = asked
        return found

    def kept_total(self, policy: AbstractPolicy) -> Any:
        """The total for which a policy lets nothing leave from this front; None if there is none.

        It is asked again where that is not known: a search.
        """
        front = self._structure.front
        if self._kept.get(id(policy), (-1, None))[0] != front and front < self.back:
            policy.cut(self, None)
        kept, total = self._kept.get(id(policy), (-1, None))
        return total if kept == front else None

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""
        return self._structure.longest_suffix(self.lens(policy), accepts)


def part_of(monoid: AbstractMonoid, index: int) -> Lens:
    """How to see the window's own aggregate (0), or one that policies observe, in a partial."""
    assert isinstance(monoid, Observed)
    return monoid.monoids[index], lambda partial: partial[index]
