"""When two partials, or two results, are the same: exactly, but for the rounding of floats.

Folding in another order rounds in another way, so floating-point numbers are compared up to
``TOLERANCE``; everything else must be equal. A NaN is the same as a NaN, a NaT as a NaT.

    >>> same((0.1 + 0.2, "a"), (0.3, "a")), same(1, 2), same([float("nan")], [float("nan")])
    (True, False, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Relative; that of a double is 1e-16, which cancellation may cost ten digits.
TOLERANCE = 1e-6
_NUMBERS = (int, float, np.number, np.ndarray)


def same(one: Any, other: Any, scales: Sequence[Any] = ()) -> bool:
    """Whether two partials agree; tuples, lists, dictionaries and arrays part by part.

    ``scales`` are partials of the same form that both sides were made of: where they are larger
    than the sides, numbers have cancelled, and may differ by a rounding of the larger ones. Without
    them a difference of ``TOLERANCE`` itself is always allowed.
    """
    if isinstance(one, dict):
        alike = isinstance(other, dict) and one.keys() == other.keys()
        return alike and all(same(one[k], other[k], _under(scales, k)) for k in one)
    if isinstance(one, (tuple, list)):
        if not isinstance(other, (tuple, list)) or len(one) != len(other):
            return False
        scales = [s for s in scales if isinstance(s, (tuple, list)) and len(s) == len(one)]
        pairs = enumerate(zip(one, other, strict=True))
        return all(same(a, b, [scale[i] for scale in scales]) for i, (a, b) in pairs)
    if _is_inexact(one) or (_is_inexact(other) and isinstance(one, _NUMBERS)):
        return isinstance(other, _NUMBERS) and _close(one, other, scales)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.shape(one) == np.shape(other) and bool(np.all(_equal(one, other)))
    return bool(_equal(one, other))


def _equal(one: Any, other: Any) -> Any:
    if isinstance(one, (np.datetime64, np.timedelta64, np.ndarray)):
        return (one == other) | ((one != one) & (other != other))
    return one is other or one == other


def _is_inexact(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind == "f"
    return isinstance(value, float)


def _close(one: Any, other: Any, scales: Sequence[Any]) -> bool:
    if np.shape(one) != np.shape(other):
        return False
    slack: Any = np.full(np.shape(one), 1.0 if not scales else 0.0)
    for scale in scales:
        if isinstance(scale, _NUMBERS) and np.shape(scale) == np.shape(one):
            size = np.abs(np.asarray(scale, "f8"))
            slack = np.maximum(slack, np.where(np.isfinite(size), size, 0.0))
    return bool(np.isclose(one, other, TOLERANCE, TOLERANCE * slack, equal_nan=True).all())


def _under(scales: Sequence[Any], key: Any) -> list[Any]:
    return [scale[key] for scale in scales if isinstance(scale, dict) and key in scale]
