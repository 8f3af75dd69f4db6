"""Combines and inserts that are counted, and a monoid that shows every mistake in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import Monoid
from mta.aggregations import ColumnarMonoid
from mta.windows.engine import Engine

_PRIME, _BASE = 2_147_483_629, 131


def general_inserts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows of all single events that engines add to their logs at once from now on.

    Those are the events that need more than what is prefetched.
    """
    inserts: list[Any] = []

    def counted(accept: Callable[..., None]) -> Callable[..., None]:
        def counting(self: Any, row: Any, micros: Any) -> None:
            inserts.append(row)
            accept(self, row, micros)

        return counting

    monkeypatch.setattr(Engine, "accept", counted(Engine.accept))
    return inserts


class Counted:
    """Monoids whose combines are counted, those of whole columns row by row."""

    def __init__(self) -> None:
        self.combines = 0
        self.joined = Monoid("", self._counting(lambda a, b: a + b), name="counted joined")
        self.max = Monoid(float("-inf"), self._larger, name="counted max")
        self.columnar_hash = rolling_hash(self._counting)

    def _larger(self, left: float, right: float) -> float:
        self.combines += 1
        return left if left >= right else right

    def _counting(self, combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def counting(left: Any, right: Any) -> Any:
            columns = left if isinstance(left, tuple) else (left,)
            others = right if isinstance(right, tuple) else (right,)
            self.combines += max(np.size(c) for c in (columns[0], others[0]) if c is not None)
            return combine(left, right)

        return counting

    def cost(self, action: Callable[[], Any]) -> int:
        """How many combines an action takes."""
        before = self.combines
        action()
        return self.combines - before

    def of(self, action: Callable[[], Any], at_most: int) -> Any:
        """What an action returns, which may take so many combines."""
        before = self.combines
        result = action()
        assert self.combines - before <= at_most
        return result


def rolling_hash(counting: Callable[[Any], Any] = lambda combine: combine) -> ColumnarMonoid:
    """The hash of a text of character codes, by columns: neither commutative nor invertible here.

    A partial is the hash and the power of the base by which a text on its left is shifted.
    """

    def combine(left: Any, right: Any) -> Any:
        return (left[0] * right[1] + right[0]) % _PRIME, left[1] * right[1] % _PRIME

    return ColumnarMonoid(
        "rolling hash",
        inputs="i8",
        partials=("i8", "i8"),
        identity=(0, 1),
        output="i8",
        lift=lambda code: (code + 1, np.full_like(code, _BASE)),
        combine=counting(combine),
        lower=lambda partial: partial[0],
        empty=0,
    )


def hash_of(text: str) -> tuple[int, int]:
    """The partial of a text, one character after the other."""
    found, power = 0, 1
    for character in text:
        found = (found * _BASE + ord(character) + 1) % _PRIME
        power = power * _BASE % _PRIME
    return found, power
