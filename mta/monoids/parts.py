"""Several monoids as one: a partial is a tuple of their partials (MTA paper, section 5.8).

Functions on single partials are generated with one expression per part, as a loop over a few parts
would take longer than the parts themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import add
from typing import Any

import numpy as np

from mta.columns.schemas import Record, Row, Rows
from mta.monoids.base import AbstractMonoid, Out, Partial, any_of, same_value
from mta.monoids.columnar import larger, positive_zero, smaller
from mta.monoids.equality import Scale

#: Selects a part's columns from the input rows, or from one input row.
Pick = Callable[[Any], Any]


class Place:
    """A ``Pick`` of one column."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, rows: Any) -> Any:
        return rows[self.at]


class Parts(AbstractMonoid[Out]):
    """Several monoids, each reading its own columns.

    ``readers`` lift rows instead of the monoids, to the monoids' partials.
    """

    def __init__(
        self,
        parts: Sequence[tuple[AbstractMonoid, Pick]],
        readers: Sequence[AbstractMonoid] | None = None,
    ) -> None:
        self.monoids = tuple(monoid for monoid, _ in parts)
        self.readers = self.monoids if readers is None else tuple(readers)
        self.picks = tuple(pick for _, pick in parts)
        #: The parts that validate events.
        self._judges = tuple(parts)
        self.identity = tuple(monoid.identity for monoid in self.monoids)
        self.partials = Record([monoid.partials for monoid in self.monoids])
        self.is_columnar = all(monoid.is_columnar for monoid in self.monoids)
        self.folds_ranges = any(monoid.folds_ranges for monoid in self.monoids)
        self.commutative = all(monoid.commutative for monoid in self.monoids)
        self.is_plain = all(monoid.is_plain for monoid in self.monoids)
        lifts = [m.lift if self.is_plain else _lift_of(m) for m in self.readers]
        every = range(len(self.monoids))
        taken = [
            f"row[{pick.at}]" if isinstance(pick, Place) else f"pick{i}(row)"
            for i, pick in enumerate(self.picks)
        ]
        lifted = [call_text(lifts[i], f"lift{i}", taken[i]) for i in every]
        self.lift = written("row", f"({','.join(lifted)},)", lift=lifts, pick=self.picks)
        combines = [monoid.combine for monoid in self.monoids]
        pairs = [call_text(combines[i], f"f{i}", f"a[{i}]", f"b[{i}]") for i in every]
        self.combine = written("a, b", f"({','.join(pairs)},)", f=combines)
        if all(monoid.inverse for monoid in self.monoids):
            inverses = [monoid.inverse for monoid in self.monoids if monoid.inverse]
            self.inverse = lambda whole, part: tuple(
                f(a, b) for f, a, b in zip(inverses, whole, part, strict=True)
            )

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.name, *(monoid.fingerprint for monoid in self.monoids))

    def is_valid(self, row: Row) -> bool:
        return all(monoid.is_valid(pick(row)) for monoid, pick in self._judges)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return any_of([monoid.invalid(pick(rows), count) for monoid, pick in self._judges])

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        parts = zip(self.readers, self.picks, strict=True)
        return tuple([monoid.lift_rows(pick(rows), count) for monoid, pick in parts])

    def fold(self, partials: Rows, count: int) -> Partial:
        return tuple([m.fold(p, count) for m, p in zip(self.monoids, partials, strict=True)])

    def folds(self, partials: Rows, count: int, size: int) -> Rows:
        parts = zip(self.monoids, partials, strict=True)
        return tuple([monoid.folds(p, count, size) for monoid, p in parts])

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        parts = zip(self.monoids, partials, left, strict=True)
        return tuple([monoid.prefixes(p, count, side) for monoid, p, side in parts])

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        parts = zip(self.monoids, partials, right, strict=True)
        return tuple([monoid.suffixes(p, count, side) for monoid, p, side in parts])

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        parts = zip(self.monoids, left, right, strict=True)
        return tuple([monoid.combine_rows(a, b, count) for monoid, a, b in parts])

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        scales = repeat(None) if scale is None else scale.spread(one)
        parts = zip(self.monoids, one, other, scales, strict=False)
        return all(monoid.same(a, b, part) for monoid, a, b, part in parts)


def units_of(monoid: AbstractMonoid) -> list[AbstractMonoid]:
    """Return the monoids that a monoid consists of, down to those without parts."""
    if not isinstance(monoid, Parts):
        return [monoid]
    return [unit for part in monoid.monoids for unit in units_of(part)]


def written(arguments: str, expression: str, **lists: Sequence[Any]) -> Any:
    """Generate a function from an expression, with the functions in ``lists`` as names.

    The expression contains only fixed names and numbers; users' names are passed as values.
    """
    names = {f"{name}{i}": f for name, fs in lists.items() for i, f in enumerate(fs)}
    return eval(f"lambda {arguments}: {expression}", names)


#: Functions that take less time than a call.
_IN_LINE: tuple[tuple[Callable[..., Any], str], ...] = (
    (same_value, "{0}"),
    (positive_zero, "{0} + 0.0"),
    (add, "{0} + {1}"),
    (larger, "{0} if {0} >= {1} or {0} != {0} else {1}"),
    (smaller, "{0} if {0} <= {1} or {0} != {0} else {1}"),
)


def call_text(function: Any, name: str, *arguments: str) -> str:
    """Return the source of a call, or of the function's inlined body.

    >>> call_text(add, "f0", "a[0]", "b[0]"), call_text(max, "f1", "a[1]", "b[1]")
    ('a[0] + b[0]', 'f1(a[1], b[1])')
    """
    known = next((text for each, text in _IN_LINE if each is function), None)
    return f"{name}({', '.join(arguments)})" if known is None else known.format(*arguments)


def _lift_of(monoid: AbstractMonoid) -> Callable[[Row], Partial]:
    """Return a part's ``lift``, which first converts its row to the part's schema.

    The row may hold numpy numbers for a part that takes Python numbers, or the reverse. It may also
    have columns for a frame after the part's columns.
    """
    lift, inputs = monoid.lift, monoid.inputs
    if not monoid.is_columnar:
        return lift
    if isinstance(inputs, Record):
        width = len(inputs.schemas)
        return lambda row: lift(inputs.at(inputs.one(row[:width]), 0))
    return lambda row: lift(inputs.at(inputs.one(row), 0))
