"""Equality of partials and of results: exact, except for the rounding of floats.

Folding in another order rounds differently. The difference depends on the numbers that were folded,
not on the result: 1e17 + 3 - 1e17 may be 0 or 16, both within a rounding of 1e17. A check that
folds the events of a structure again therefore records a ``Scale``: the magnitudes of the folded
numbers, for each position in the partials. NaN equals NaN, and NaT equals NaT.

    >>> same((0.1 + 0.2, "a"), (0.3, "a")), same(1, 2), same([float("nan")], [float("nan")])
    (True, False, True)
    >>> same(16.0, 3.0), same(16.0, 3.0, Scale.of(1e17) + Scale.of(3.0) + Scale.of(-1e17))
    (False, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from math import inf, isfinite
from typing import Any, Self

import numpy as np

#: The relative difference that is allowed by default, as a share of the folded magnitudes.
TOLERANCE = 1e-6
#: The relative difference per combine that is allowed for folds that add, multiply or choose.
ROUNDING = 2.0**-51
#: The absolute rounding of a combine near 0, where doubles are subnormal.
_STEP = 2.0**-1073
_NUMBERS = (int, float, np.number)
_PLAIN_NUMBERS = {int, float, np.float64, np.int64}


class Scale:
    """The magnitudes that were folded: their sum, for each number in the partials.

    Infinities and NaNs do not round and count as 0. An array in a partial counts as one number.
    """

    __slots__ = ("count", "total")

    def __init__(self, total: Sequence[Any] = (), count: int = 0) -> None:
        self.total, self.count = total, count

    @classmethod
    def of(cls, partial: Any) -> Self:
        return cls([_size(number) for number in _numbers(partial)], 1)

    @classmethod
    def of_rows(cls, rows: Any, count: int) -> Self:
        """Return the scale of rows of partials: arrays, lists, or tuples of these."""
        if isinstance(rows, tuple):
            columns = [cls.of_rows(column, count) for column in rows]
            return cls([number for column in columns for number in column.total], count)
        if isinstance(rows, np.ndarray):
            is_number = rows.dtype.kind in "iuf" and count
            return cls([_size(rows).sum(axis=0)] if is_number else (), count)
        kinds = set(map(type, rows))
        if kinds and kinds <= _PLAIN_NUMBERS:
            return cls([sum(map(_size, rows))], count)
        if kinds == {tuple} and len(set(map(len, rows))) == 1:
            return cls.of_rows(tuple(map(list, zip(*rows, strict=True))), count)
        return sum(map(cls.of, rows), start=cls())

    def __add__(self, other: Self) -> Self:
        if not self.count or not other.count:
            return self if self.count else other
        one, two = self, other
        if list(map(_shape, one.total)) != list(map(_shape, two.total)):
            one, two = one._as_one(), two._as_one()  # partials whose size varies
        total = [a + b for a, b in zip(one.total, two.total, strict=True)]
        return type(self)(total, self.count + other.count)

    def spread(self, parts: Sequence[Any]) -> list[Self]:
        """Split this scale into the scales of the parts of a partial."""
        shapes = [list(map(_shape, _numbers(part))) for part in parts]
        if list(chain.from_iterable(shapes)) != list(map(_shape, self.total)):
            return [self._as_one()] * len(shapes)  # partials whose size varies
        numbers = iter(self.total)
        return [type(self)(list(islice(numbers, len(each))), self.count) for each in shapes]

    def whole(self) -> float:
        """The sum of all magnitudes."""
        return float(sum(np.sum(number) for number in self.total))

    def widened(self) -> Self:
        """Return this scale with a small share of the whole added at each position.

        For partials in which one number depends on another, such as M2 on a mean.
        """
        little = TOLERANCE * self.whole()
        return type(self)([number + little for number in self.total], self.count)

    def _as_one(self) -> Self:
        return type(self)([self.whole()], self.count)


def same(one: Any, other: Any, scale: Scale | None = None, rounding: float = TOLERANCE) -> bool:
    """Whether two partials agree; compares tuples, lists, dictionaries and arrays part by part.

    Floats may differ by ``rounding`` times the sum of the folded magnitudes and the larger float.
    Without a scale, the magnitudes count as 1.
    """
    if isinstance(one, dict) and (not isinstance(other, dict) or one.keys() != other.keys()):
        return False
    parts, others = _parts(one), _parts(other)
    if parts is not None:
        if others is None or len(parts) != len(others):
            return False
        scales = repeat(None) if scale is None else scale.spread(parts)
        return all(map(same, parts, others, scales, repeat(rounding)))
    if _is_inexact(one) or (_is_inexact(other) and isinstance(one, _NUMBERS)):
        is_number = isinstance(other, (*_NUMBERS, np.ndarray)) and _shape(one) == _shape(other)
        slack: Any = rounding
        if scale is not None:
            size = scale.total[0] if len(scale.total) == 1 else scale.whole()
            slack = rounding * size + scale.count * _STEP
        return is_number and close(one, other, slack, rounding)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.shape(one) == np.shape(other) and bool(np.all(_equal(one, other)))
    return bool(_equal(one, other))


def close(one: Any, other: Any, slack: Any, part: float = 0.0) -> bool:
    """Whether numbers differ by at most ``slack`` plus a share ``part`` of the larger one.

    If ``slack`` is infinite, all numbers are close: one side alone may have overflowed.
    """
    if not _shape(one):
        one, other, slack = float(one), float(other), float(slack)
        if one == other or (one != one and other != other) or slack == inf:
            return True
        larger = max(abs(one), abs(other))
        return isfinite(one) and isfinite(other) and abs(one - other) <= slack + part * larger
    one, other = one.astype("f8"), other.astype("f8")
    with np.errstate(all="ignore"):
        larger = np.maximum(np.abs(one), np.abs(other))
        near = np.isfinite(larger) & (np.abs(one - other) <= slack + part * larger)
    alike = near | (one == other) | (np.isnan(one) & np.isnan(other)) | np.isposinf(slack)
    return bool(np.all(alike))


def _equal(one: Any, other: Any) -> Any:
    if isinstance(one, (np.datetime64, np.timedelta64, np.ndarray)):
        return (one == other) | ((one != one) & (other != other))
    return one is other or one == other


def is_inexact(partial: Any) -> bool:
    """Whether a partial holds floats."""
    return any(map(_is_inexact, _numbers(partial)))


def _is_inexact(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind == "f"
    return isinstance(value, float)


def _parts(value: Any) -> list[Any] | None:
    """Return the parts of a partial; None for a single value."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value, key=repr)]
    return list(value) if isinstance(value, (tuple, list)) else None


def _numbers(partial: Any) -> Iterator[Any]:
    """Yield the numbers in a partial, and arrays of numbers, from left to right."""
    parts = _parts(partial)
    if parts is not None:
        for part in parts:
            yield from _numbers(part)
    elif isinstance(partial, np.ndarray):
        if partial.dtype.kind in "iuf":
            yield partial
    elif isinstance(partial, _NUMBERS) and not isinstance(partial, (bool, np.timedelta64)):
        yield partial


def _shape(number: Any) -> tuple[int, ...]:
    return number.shape if isinstance(number, np.ndarray) else ()


def _size(number: Any) -> Any:
    """Return a magnitude, or an array of them; 0 if it is not finite or too large for a float."""
    if isinstance(number, np.ndarray):
        sizes = np.abs(number.astype("f8"))
        return np.where(np.isfinite(sizes), sizes, 0.0)
    try:
        size = abs(float(number))
    except OverflowError:  # an integer, which does not round
        return 0.0
    return size if size < inf else 0.0
