"""Results to the last bit or to a rounding, and the values that are hard to get right to it."""

from __future__ import annotations

from typing import Any

import numpy as np

#: NaN of both signs, zeros of both signs, infinities, denormals, and what is largest.
HARD = [
    float("nan"), -float("nan"), 0.0, -0.0, float("inf"), -float("inf"), 5e-324, -5e-324,
    2.2250738585072014e-308, 1e300, -1e300, 1.7976931348623157e308, 1.0, -1.0, 0.1, 1e17,
]  # fmt: skip


def bits(found: Any) -> Any:
    """Columns as their bytes; all NaN are one, and so are both zeros."""
    if isinstance(found, dict):
        return {name: bits(column) for name, column in found.items()}
    if isinstance(found, tuple):
        return tuple(map(bits, found))
    column = np.asarray(found)
    if column.dtype.kind == "f":
        column = np.where(np.isnan(column), np.nan, column + 0.0)
    return column.dtype.kind, column.tobytes()


class Near:
    """Results that equal others up to the rounding of sums of such values.

    >>> Near(0.1 + 0.2, [1.0]) == Near(0.3, [1.0]), Near(0.4, [1.0]) == Near(0.3, [1.0])
    (True, False)
    """

    def __init__(self, found: Any, values: Any) -> None:
        self.found = found
        sizes = np.abs(np.asarray(values, "f8"))
        self.off = 1e-12 * float(sizes[np.isfinite(sizes)].max(initial=1.0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Near) and self._same(self.found, other.found)

    def __repr__(self) -> str:
        return repr(self.found)

    def _same(self, one: Any, other: Any) -> bool:
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(self._same(one[k], other[k]) for k in one)
        if isinstance(one, tuple):
            return len(one) == len(other) and all(map(self._same, one, other))
        a, b = np.asarray(one), np.asarray(other)
        if a.dtype.kind != "f":
            return bits(a) == bits(b)
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=self.off, equal_nan=True)
