"""An aggregation whose windows go key by key, however simple it is: its partials are summaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from mta.columns import codec
from mta.monoids.summary import SummaryMonoid


class Values(list[Any]):
    """The values of some events, oldest first."""


class KeyByKey(SummaryMonoid[Any]):
    """Combine values in order, as ``Monoid(identity, combine, lift)`` does, but as a summary.

    >>> from mta import CountWindow, KeyedWindows
    >>> joined = KeyedWindows(KeyByKey("", lambda a, b: a + b, "joined"), CountWindow(2))
    >>> joined.extend(["a", "a", "a"], ["x", "y", "z"]).tolist(), joined.stats().vectorized
    (['x', 'xy', 'yz'], False)
    """

    def __init__(
        self,
        identity: Any,
        combine: Callable[[Any, Any], Any],
        name: str,
        lift: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        super().__init__(name, 64, empty=identity)
        self._first, self._join, self._lifted = identity, combine, lift
        self.commutative = False

    def new(self) -> Values:
        return Values()

    def is_summary(self, partial: Any) -> bool:
        return type(partial) is Values

    def add(self, summary: Values, values: Any) -> None:
        summary += map(self._lifted, values)

    def merge(self, summary: Values, other: Values) -> Values:
        return Values(summary + other)

    def answer(self, summary: Values) -> Any:
        return reduce(self._join, summary, self._first)

    def agree(self, one: Values, other: Values) -> bool:
        return one == other

    def to_bytes(self, summary: Values) -> bytes:
        return codec.pack(list(summary))

    def from_bytes(self, data: bytes) -> Values:
        return Values(codec.unpack(data))


def lists() -> KeyByKey:
    """Return ``Collect`` of doubles whose windows go key by key."""
    found = KeyByKey([], list.__add__, "list", lambda value: [value])
    found.never_null, found.result_type = True, "array<double>"
    return found
