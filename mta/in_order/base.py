"""The common base of in-order aggregators: the sliding-window aggregation (SWAG) data type.

DEBS 2017 paper ("Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time", Tangwongsan,
Hirzel, Schneider), section 2.1: a first-in first-out window with *insert*, *evict* and *query*.
Algorithms differ in how often they call ``combine`` (⊕). The base class lifts values when they
arrive, and lowers results, so the module of an algorithm contains only its paper's pseudocode.

>>> from mta import Max
>>> from mta.algorithms import DABA
>>> window = DABA(Max())
>>> for value in (2, 6, 3, 5, 3):
...     window.insert(value)
>>> window.evict()
>>> len(window), window.query()
(4, 6.0)

All aggregators have their window in memory, support any order of operations, and are not
thread-safe. They count a null or NaN as a value (see ``mta.monoids``). The user's functions must
not raise: after an exception in ``combine``, the state of the window is undefined.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from mta.columns.reading import plain
from mta.errors import EmptyWindow, InvariantViolation, UnsuitableMonoid
from mta.monoids.base import AbstractMonoid, Monoid, Partial, Refold
from mta.monoids.equality import is_inexact

#: Stands for an aggregate that was not computed yet.
_UNKNOWN: Any = object()


class InOrderAggregator(ABC):
    """A first-in first-out window that returns the aggregate of its values.

    Raises UnsuitableMonoid for a monoid without the property that the algorithm needs.
    """

    #: The algorithm's name in its paper.
    name: ClassVar[str]
    #: The property that the operation must have.
    requires: ClassVar[str] = "associative"

    def __init__(self, monoid: AbstractMonoid) -> None:
        if not self.suits(monoid):
            raise UnsuitableMonoid(
                f"{self.name} needs an operation that is {self.requires}, but {monoid.name} does "
                "not declare this: use Two-Stacks or DABA, or declare it"
            )
        self.monoid = monoid
        self._combine = monoid.combine
        #: The number of values in the window.
        self._size = 0
        #: The result of the last query, until the window changes (MTA paper, section 5.1).
        self._known: Partial = _UNKNOWN
        # A deviation of one value is 0 / 0, which is correct. Plain functions rarely use numpy.
        plain_functions = isinstance(monoid, Monoid)
        self._quietly: Callable[[], AbstractContextManager[Any]] = (
            nullcontext if plain_functions else partial(np.errstate, all="ignore")
        )

    @classmethod
    def suits(cls, monoid: AbstractMonoid) -> bool:
        """Return whether the algorithm supports this monoid."""
        return True

    def insert(self, value: Any) -> None:
        """Add a value at the back. Raises InvalidValue for a wrong type."""
        monoid = self.monoid
        with self._quietly():
            self._insert(monoid.lift(monoid.row(value)))
        self._size += 1
        self._known = _UNKNOWN

    def insert_partial(self, v: Partial) -> None:
        """Add an aggregate at the back, such as that of a slice of values; see ``insert``."""
        with self._quietly():
            self._insert(v)
        self._size += 1
        self._known = _UNKNOWN

    def evict(self) -> None:
        """Remove the oldest value. Raises EmptyWindow."""
        if not self._size:
            raise EmptyWindow("cannot evict from a window without values")
        with self._quietly():
            self._evict()
        self._size -= 1
        self._known = _UNKNOWN

    def query(self) -> Any:
        """Return the result over the window, in order; the monoid's ``empty`` without values.

        No combine if the window has not changed since the last query.
        """
        monoid = self.monoid
        if not self._size:
            return monoid.empty
        with self._quietly():
            if self._known is _UNKNOWN:
                self._known = self._query()
            return plain(monoid.lower(self._known))

    def __len__(self) -> int:
        return self._size

    @abstractmethod
    def _insert(self, v: Partial) -> None:
        """Insert a lifted value, as in the paper."""

    @abstractmethod
    def _evict(self) -> None:
        """Evict from a window that is not empty, as in the paper."""

    @abstractmethod
    def _query(self) -> Partial:
        """Query a window that is not empty, as in the paper."""

    @abstractmethod
    def check(self) -> None:
        """Verify the paper's invariants; O(n) combines. Raises InvariantViolation."""

    # --- for checks -----------------------------------------------------------------------------

    def _fold(self, values: Iterable[Partial]) -> Refold:
        return Refold(self.monoid, values)

    def _require_prefixes(
        self, aggs: Iterable[Partial], values: Iterable[Partial], what: str
    ) -> None:
        """Require the aggregates of the first value, the first two, and so on."""
        folds = accumulate(self._fold([value]) for value in values)
        for agg, fold in zip(aggs, folds, strict=False):
            self._require_same(agg, fold, what)

    def _require_suffixes(
        self, aggs: Iterable[Partial], values: Sequence[Partial], what: str
    ) -> None:
        """Require the aggregates from each value to the last."""
        turned = accumulate(
            (self._fold([value]) for value in reversed(values)), lambda folds, one: one + folds
        )
        for agg, fold in zip(aggs, reversed(list(turned)), strict=False):
            self._require_same(agg, fold, what)

    def _require_same(self, found: Partial, expected: Refold, what: str) -> None:
        if not expected.agrees(found):
            raise InvariantViolation(
                f"{self.name}: {what} is {found!r} instead of {expected!r}; report this as a bug"
            )

    def _require_exact(self, found: Partial, expected: Refold, what: str) -> None:
        """Require an exact result; skip floats, whose rounding depends on values that have left."""
        if not is_inexact(found):
            self._require_same(found, expected, what)

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise InvariantViolation(f"{self.name}: violated: {what}; report this as a bug")


def identical(one: Partial, other: Partial) -> bool:
    """Return whether two partials are bit-identical; NaN equals NaN."""
    if isinstance(one, tuple):
        return all(map(identical, one, other))
    if isinstance(one, np.ndarray) and one.ndim:
        return bool(np.array_equal(one, other))
    if isinstance(one, (float, np.floating, np.ndarray)) and one == 0 == other:
        return math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other or (one != one and other != other))
