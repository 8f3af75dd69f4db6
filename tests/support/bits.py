"""Results to the last bit, and the values that are hard to get right to it."""

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
