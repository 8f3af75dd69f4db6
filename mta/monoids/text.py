"""First, last and extreme values of text and other objects, and lists of values.

Under many keys, results are computed from ranges of events (``mta.monoids.ranges``): by the places
of values, and for extremes by their ranks among the distinct values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from mta.columns.schemas import Coded, Datetimes, Decimals, LongDecimals, Objects, Rows
from mta.columns.texts import NULL, TextColumn
from mta.monoids.base import AbstractMonoid, Out, Partial
from mta.monoids.ranges import PLAINLY_ORDERED, RangeFolds, RangeMonoid, ranked, smallest


class _TextMonoid(RangeMonoid[Any]):
    """A monoid that chooses one of its objects, of any type; the partial of no events is None."""

    _choose: Callable[[Any, Any], Any]
    follows_column = True
    folds_ranges = False  # one combine per event costs less in a single window

    def __init__(self, kind: Coded | None = None) -> None:
        choose = type(self)._choose

        def chosen(left: Partial, right: Partial) -> Partial:
            return right if left is None else left if right is None else choose(left, right)

        super().__init__(None, chosen, name=type(self).__name__, selective=True)
        self.partials = kind or self.partials
        self._read_as(kind)

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        within = folds.without(None)
        values, full = within.lifted, within.starts < within.stops
        places = self._places(values, within.starts[full], within.stops[full])
        if places is None:
            return super().lower_ranges(folds)
        if isinstance(values, TextColumn):
            codes = np.full(len(full), NULL)
            codes[full] = values.codes[places]
            return TextColumn(codes, values.words)
        chosen = iter([values[place] for place in places.tolist()])
        return [next(chosen) if some else None for some in full.tolist()]

    def _places(self, values: Any, starts: np.ndarray, stops: np.ndarray) -> np.ndarray | None:
        """Return the place of each range's value; None to combine values."""
        raise NotImplementedError


class _TextExtreme(_TextMonoid):
    """The smallest or the largest object; the oldest wins a tie."""

    _largest: bool

    def _places(self, values: Any, starts: np.ndarray, stops: np.ndarray) -> np.ndarray | None:
        count, ranks = len(values), _ranks(values)
        if ranks is None:
            return None
        signed = -ranks if self._largest else ranks
        found: np.ndarray = smallest(signed * count + np.arange(count), starts, stops) % max(
            count, 1
        )
        return found


def _ranks(values: Any) -> np.ndarray | None:
    """Return the rank of each value, equal for equal ones; None if they have no order."""
    if isinstance(values, TextColumn):
        return values.codes
    kinds = set(map(type, values))
    if len(kinds) < 2 and kinds <= PLAINLY_ORDERED:
        return ranked(values)[1]
    try:
        if any(value != value for value in values):
            return None
        order = sorted(range(len(values)), key=values.__getitem__)
        rises = [bool(values[one] < values[other]) for one, other in pairwise(order)]
    except TypeError:
        return None
    ranks = np.zeros(len(values), np.int64)
    ranks[order[1:]] = np.cumsum(rises)
    return ranks


class MinText(_TextExtreme):
    """The smallest text, or other object that Python orders; the oldest wins a tie.

    Args:
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import MinText
    >>> list(Window(MinText(), CountWindow(2), name="MinText").extend(["b", "c", "a"]))
    ['b', 'b', 'a']
    """

    _choose = staticmethod(lambda left, right: right if right < left else left)
    _largest = False


class MaxText(_TextExtreme):
    """The largest text, or other object that Python orders; the oldest wins a tie.

    Args:
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import MaxText
    >>> list(Window(MaxText(), CountWindow(2), name="MaxText").extend(["b", "c", "a"]))
    ['b', 'c', 'c']
    """

    _choose = staticmethod(lambda left, right: right if right > left else left)
    _largest = True


class EndText(_TextMonoid):
    """The first or last object."""

    def __init__(self, skip_nulls: bool = True, kind: Coded | None = None) -> None:
        #: As for ``First`` and ``Last``.
        self.skip_nulls = skip_nulls
        super().__init__(kind)


class FirstText(EndText):
    """The oldest text or other object in the window.

    Args:
        skip_nulls: As for ``First``.
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import FirstText
    >>> list(Window(FirstText(), CountWindow(2), name="FirstText").extend(["b", "c", "a"]))
    ['b', 'b', 'c']
    """

    _choose = staticmethod(lambda left, right: left)

    def _places(self, values: Any, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        return starts


class LastText(EndText):
    """The newest text or other object in the window.

    Args:
        skip_nulls: As for ``Last``.
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import LastText
    >>> list(Window(LastText(), CountWindow(2), name="LastText").extend(["b", "c", "a"]))
    ['b', 'c', 'a']
    """

    _choose = staticmethod(lambda left, right: right)

    def _places(self, values: Any, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        return stops - 1


class ListMonoid(RangeMonoid[Out]):
    """A monoid whose partial is a tuple of values, of which a result is made by ``listed``."""

    folds_ranges = False  # a combine of a few objects costs less in a window of one key

    def __init__(
        self,
        joined: Callable[[Partial, Partial], Partial],
        listed: Callable[[Sequence[Any]], Out],
        name: str,
    ) -> None:
        super().__init__((), joined, _alone, listed, name)
        self._listed, self.partials = listed, Objects(tuple)

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        within, listed = folds.without(self.identity), self._listed
        values = list(chain.from_iterable(within.lifted))
        pairs = zip(within.starts.tolist(), within.stops.tolist(), strict=True)
        return [listed(values[start:stop]) for start, stop in pairs]


def _alone(value: Any) -> Partial:
    return (value,)


def joined_all(left: Partial, right: Partial) -> Partial:
    """Join the values of two partials."""
    return left + right


def joined_once(left: Partial, right: Partial) -> Partial:
    """Join the values of two partials, each of them once."""
    return tuple(dict.fromkeys(left + right))


def _listed(values: Sequence[Any]) -> list[Any]:
    return list(values)


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


class _Values(ListMonoid[list[Any]]):
    """A list of values, which pages store as integers if they cannot store the values."""

    never_null = True
    _joined: Callable[[Partial, Partial], Partial]
    _made: Callable[[Sequence[Any]], list[Any]]

    def __init__(self, kind: Coded | None = None) -> None:
        cls = type(self)
        super().__init__(cls._joined, cls._made, cls.__name__)
        self._follows = kind is None
        if kind is not None:
            self._read_as(kind, lambda values: [kind.shown(value) for value in values])

    def of_types(self, *types: Any) -> AbstractMonoid:
        kind = _coded(types[0]) if self._follows else None
        return self if kind is None else type(self)(kind)


def _coded(kind: Any) -> Coded | None:
    """Return the type of values that pages can store only as integers; None for others."""
    if isinstance(kind, Decimals):
        return LongDecimals(kind.places)
    if isinstance(kind, str) and kind[0] in "mM":
        return Datetimes(kind)
    return kind if isinstance(kind, Coded) else None


class Collect(_Values):
    """All values of the window as a list, oldest first; a result costs O(n).

    Args:
        kind: ``LongDecimals(places)`` for decimals, or ``Datetimes(unit)`` for datetimes.

    >>> from mta import CountWindow, Collect, Window
    >>> list(Window(Collect(), CountWindow(2), name="Collect").extend([1, 1, 2]))
    [[1], [1, 1], [1, 2]]
    """

    _joined, _made = staticmethod(joined_all), staticmethod(_listed)


class CollectDistinct(_Values):
    """The distinct values of the window as a list, in order of first appearance.

    A result costs O(distinct values); use it for windows with few of them. Under many keys, it
    costs O(n).

    Args:
        kind: ``LongDecimals(places)`` for decimals, or ``Datetimes(unit)`` for datetimes.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import CollectDistinct
    >>> list(Window(CollectDistinct(), CountWindow(2), name="CollectDistinct").extend([1, 1, 2]))
    [[1], [1], [1, 2]]
    """

    _joined, _made = staticmethod(joined_once), staticmethod(_distinct)
