"""What the in-order aggregators share: the sliding-window aggregation (SWAG) data type.

DEBS 2017 paper ("Low-Latency Sliding-Window Aggregation in Worst-Case Constant Time", Tangwongsan,
Hirzel, Schneider), section 2.1: a first-in first-out window with *insert*, *evict* and *query*. As
there, an algorithm is only about how seldom it calls ``combine`` (⊕): values are lifted here when
they arrive, and results lowered here, so that each module holds its paper's pseudocode alone.

>>> from mta import Max
>>> from mta.in_order import DABA
>>> window = DABA(Max())
>>> for value in (2, 6, 3, 5, 3):
...     window.insert(value)
>>> window.evict()
>>> len(window), window.query()
(4, 6.0)

All of them hold the window in memory, take any interleaving of operations, are not thread-safe, and
count a null or NaN as a value (what that does, ``mta.monoids`` says). The user's functions must not
raise: after an exception out of ``combine`` the window is in no defined state.
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

#: What stands in for an aggregate that nobody has asked for.
_UNKNOWN: Any = object()


class InOrderAggregator(ABC):
    """A first-in first-out window that answers the aggregate of what is in it.

    Raises UnsuitableMonoid for a monoid without the property that the algorithm needs.
    """

    #: The algorithm's name in its paper.
    name: ClassVar[str]
    #: What the operation must be.
    requires: ClassVar[str] = "associative"

    def __init__(self, monoid: AbstractMonoid) -> None:
        if not self.suits(monoid):
            raise UnsuitableMonoid(
                f"{self.name} needs an operation that is {self.requires}, which {monoid.name} does "
                "not say it is: take Two-Stacks or DABA, or declare it"
            )
        self.monoid = monoid
        self._combine = monoid.combine
        #: How many values are in the window.
        self._size = 0
        #: The aggregate that was asked for last, until the window changes (MTA paper, section 5.1).
        self._known: Partial = _UNKNOWN
        # A deviation of one value is 0 / 0, as it should be; plain functions hardly meet numpy.
        plain_functions = isinstance(monoid, Monoid)
        self._quietly: Callable[[], AbstractContextManager[Any]] = (
            nullcontext if plain_functions else partial(np.errstate, all="ignore")
        )

    @classmethod
    def suits(cls, monoid: AbstractMonoid) -> bool:
        """Whether the algorithm can aggregate with this monoid."""
        return True

    def insert(self, value: Any) -> None:
        """Add a value at the back. Raises InvalidValue for a wrong type."""
        monoid = self.monoid
        with self._quietly():
            self._insert(monoid.lift(monoid.row(value)))
        self._size += 1
        self._known = _UNKNOWN

    def insert_partial(self, v: Partial) -> None:
        """Add an aggregate at the back, as of a slice of values; as ``insert``."""
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
        """The result over the window in order; the monoid's ``empty`` without values.

        No combine where the window is as it was when it was asked last.
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
        """The paper's insert, of a value that is lifted."""

    @abstractmethod
    def _evict(self) -> None:
        """The paper's evict, of a window that is not empty."""

    @abstractmethod
    def _query(self) -> Partial:
        """The paper's query, of a window that is not empty."""

    @abstractmethod
    def check(self) -> None:
        """Verify the paper's invariants; O(n) combines. Raises InvariantViolation."""

    # --- for checks -----------------------------------------------------------------------------

    def _fold(self, values: Iterable[Partial]) -> Refold:
        return Refold(self.monoid, values)

    def _require_prefixes(
        self, aggs: Iterable[Partial], values: Iterable[Partial], what: str
    ) -> None:
        """Each aggregate is that of the first value, the first two, ..."""
        folds = accumulate(self._fold([value]) for value in values)
        for agg, fold in zip(aggs, folds, strict=False):
            self._require_same(agg, fold, what)

    def _require_suffixes(
        self, aggs: Iterable[Partial], values: Sequence[Partial], what: str
    ) -> None:
        """Each aggregate is that from one value to the last, from the first on."""
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
        """The same where values are forgotten: what floats have rounded, nobody knows any more."""
        if not is_inexact(found):
            self._require_same(found, expected, what)

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise InvariantViolation(f"{self.name}: not so: {what}; report this as a bug")


def identical(one: Partial, other: Partial) -> bool:
    """Whether two partials are equal to the last bit, NaN being equal to NaN."""
    if isinstance(one, tuple):
        return all(map(identical, one, other))
    if isinstance(one, np.ndarray) and one.ndim:
        return bool(np.array_equal(one, other))
    if isinstance(one, (float, np.floating, np.ndarray)) and one == 0 == other:
        return math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other or (one != one and other != other))
