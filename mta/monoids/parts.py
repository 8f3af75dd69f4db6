"""Monoids side by side, as one: a partial is a tuple of theirs (MTA paper, section 5.8).

Functions on single partials are written out part by part, as a loop over few parts takes longer
than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import add
from typing import Any

from mta.columns.schemas import Record, Row, Rows
from mta.monoids.base import AbstractMonoid, Out, Partial, same_value
from mta.monoids.columnar import larger, positive_zero, smaller
from mta.monoids.equality import Scale

#: Takes what a part reads out of the input rows (or out of one input row).
Pick = Callable[[Any], Any]


class Place:
    """The pick of one column."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, rows: Any) -> Any:
        return rows[self.at]


class Parts(AbstractMonoid[Out]):
    """Monoids side by side, each on its own pick of the input.

    ``readers`` lift rows in place of the monoids, to partials of these.
    """

    def __init__(
        self,
        parts: Sequence[tuple[AbstractMonoid, Pick]],
        readers: Sequence[AbstractMonoid] | None = None,
    ) -> None:
        self.monoids = tuple(monoid for monoid, _ in parts)
        self.readers = self.monoids if readers is None else tuple(readers)
        self.picks = tuple(pick for _, pick in parts)
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

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        parts = zip(self.readers, self.picks, strict=True)
        return tuple([monoid.lift_rows(pick(rows), count) for monoid, pick in parts])

    def fold(self, partials: Rows, count: int) -> Partial:
        return tuple([m.fold(p, count) for m, p in zip(self.monoids, partials, strict=True)])

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


def written(arguments: str, expression: str, **lists: Sequence[Any]) -> Any:
    """A function written out, part by part: a loop over few parts takes longer than they do.

    The text is made of our own words and of numbers; what users name things goes in by name.
    """
    names = {f"{name}{i}": f for name, fs in lists.items() for i, f in enumerate(fs)}
    return eval(f"lambda {arguments}: {expression}", names)


#: What takes less time than a call of it.
_IN_LINE: tuple[tuple[Callable[..., Any], str], ...] = (
    (same_value, "{0}"),
    (positive_zero, "{0} + 0.0"),
    (add, "{0} + {1}"),
    (larger, "{0} if {0} >= {1} or {0} != {0} else {1}"),
    (smaller, "{0} if {0} <= {1} or {0} != {0} else {1}"),
)


def call_text(function: Any, name: str, *arguments: str) -> str:
    """The text of a call, or in its place of what the function does.

    >>> call_text(add, "f0", "a[0]", "b[0]"), call_text(max, "f1", "a[1]", "b[1]")
    ('a[0] + b[0]', 'f1(a[1], b[1])')
    """
    known = next((text for each, text in _IN_LINE if each is function), None)
    return f"{name}({', '.join(arguments)})" if known is None else known.format(*arguments)


def _lift_of(monoid: AbstractMonoid) -> Callable[[Row], Partial]:
    """Return the ``lift`` of a part whose row is first converted to a row of its own schema.

    The row may hold numpy's numbers where the part takes Python's, or the other way round, and may
    have columns for a policy behind those of the part.
    """
    lift, inputs = monoid.lift, monoid.inputs
    if not monoid.is_columnar:
        return lift
    if isinstance(inputs, Record):
        width = len(inputs.schemas)
        return lambda row: lift(inputs.at(inputs.one(row[:width]), 0))
    return lambda row: lift(inputs.at(inputs.one(row), 0))
