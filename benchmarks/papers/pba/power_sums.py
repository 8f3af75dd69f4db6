"""MomentSketch as the PBA paper prints it, and SlickDeque for it.

    (min, max, count, sum x, ... sum x^l, sum log x, ... sum (log x)^l)

``mta.aggregations.MomentSketch`` keeps the powers of scaled values, which do not cancel, and pays
for that with a combine of some 60 numpy calls; here it is three, and all but min and max can be
subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mta import Monoid
from mta.algorithms import SlickDeque
from mta.columns.schemas import Rows, Vector
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.triggers.sliced import Prelifted


class PowerSums(ColumnarMonoid):
    """Min, max, count and the sums of l powers of positive values and of their logarithms.

    Results are these 3 + 2l numbers.
    """

    def __init__(self, powers: int = 10) -> None:
        width = 3 + 2 * powers
        nothing = np.zeros(width)
        nothing[:2] = np.inf, -np.inf
        self._exponents = np.arange(1, powers + 1)
        super().__init__(
            f"PowerSums({powers})",
            partials=Vector("f8", width),
            identity=nothing,
            lift=self._lift,
            combine=_add_up,
            commutative=True,
        )

    def _lift(self, value: Any) -> Partial:
        x = np.asarray(value)[..., None]
        columns = (x, x, np.ones_like(x), x**self._exponents, np.log(x) ** self._exponents)
        return np.concatenate(columns, axis=-1)


def _add_up(left: Partial, right: Partial) -> Partial:
    both = left + right
    np.minimum(left[..., 0], right[..., 0], out=both[..., 0])
    np.maximum(left[..., 1], right[..., 1], out=both[..., 1])
    return both


class Partials(Prelifted):
    """A monoid over partials of another one, which are its results too."""

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.outputs, self.lower = monoid.partials, lambda partial: partial

    def lower_rows(self, partials: Rows) -> Rows:
        return partials


class SlickMoments:
    """SlickDeque for ``PowerSums``: a deque for min and one for max, the sums subtracted."""

    def __init__(self, width: int) -> None:
        self._ends = tuple(
            SlickDeque(Monoid(identity, end, name=end.__name__, selective=True))
            for identity, end in ((np.inf, min), (-np.inf, max))
        )
        sums = Monoid(np.zeros(width - 2), np.add, name="sums", inverse=np.subtract)
        self._sums = SlickDeque(sums)

    def __len__(self) -> int:
        return len(self._sums)

    def insert(self, partial: Partial) -> None:
        """Add a slice."""
        self._sums.insert(partial[2:])
        for window, end in zip(self._ends, partial[:2].tolist(), strict=True):
            window.insert(end)

    def evict(self) -> None:
        """Remove the oldest slice."""
        for window in (self._sums, *self._ends):
            window.evict()

    def query(self) -> Partial:
        """The numbers of the whole window."""
        return np.concatenate(([end.query() for end in self._ends], self._sums.query()))


def slices_of(monoid: AbstractMonoid, values: np.ndarray, size: int) -> Sequence[Partial]:
    """The partial of every so many values."""
    lifted = [monoid.lift_rows(part, size) for part in values.reshape(-1, size)]
    return [monoid.fold(rows, size) for rows in lifted]
