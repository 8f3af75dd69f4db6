"""What a policy sees of a window: results of the aggregates it observes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mta.monoids.base import Partial
from mta.monoids.product import Observed
from mta.pages.structure import Aggregator, Lens, part_of
from mta.policies.base import AbstractPolicy


class WindowView:
    """The view of a tree for the policies that observe something in it."""

    def __init__(self, tree: Aggregator, observers: Sequence[AbstractPolicy]) -> None:
        self._tree = tree
        monoid = tree.monoid
        self._own: Lens = (monoid, lambda partial: partial)
        self._lenses: dict[int, Lens] = {}
        if isinstance(monoid, Observed):
            self._own = part_of(monoid, 0)
            for i, policy in enumerate(observers):
                self._lenses[id(policy)] = part_of(monoid, i + 1)

    def _lens(self, policy: AbstractPolicy) -> Lens:
        return self._lenses.get(id(policy), self._own)

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self._tree.back

    def total(self, policy: AbstractPolicy) -> Any:
        """The result over the whole window; 1 combine."""
        monoid, pick = self._lens(policy)
        return monoid.lower(pick(self._tree.query()))

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``."""
        oldest = self._tree.oldest_time()
        if oldest is None or oldest > time:
            return self._tree.front
        return self._tree.first_after(time)

    def longest_prefix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest prefix ends whose result is accepted."""
        return self._tree.longest_prefix(self._lens(policy), accepts)

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""
        return self._tree.longest_suffix(self._lens(policy), accepts)

    def all_prefixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every prefix and where it ends; reads the whole window."""
        monoid, pick = self._lens(policy)
        prefix = monoid.identity
        for position, event in enumerate(self._tree.events(), self._tree.front + 1):
            prefix = monoid.combine(prefix, pick(event))
            yield position, monoid.lower(prefix)

    def all_suffixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every suffix and where it begins, longest first; reads the whole window."""
        monoid, pick = self._lens(policy)
        suffix: Partial = monoid.identity
        results = []
        for event in reversed(list(self._tree.events())):
            suffix = monoid.combine(pick(event), suffix)
            results.append(monoid.lower(suffix))
        return enumerate(reversed(results), self._tree.front)
