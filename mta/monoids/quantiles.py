"""Exact median, quantiles and ranks of numbers; ``mta.monoids.holistic`` states their costs.

The quantile q of n sorted values is at the position h = q (n - 1), counted from 0. Between two
positions, ``interpolation`` chooses, by the names of pandas, numpy and polars: "linear" (SQL's
percentile_cont), "lower", "higher", "nearest" (the even position in a tie) or "midpoint".
"discrete" is the smallest value that is at least as large as a share q of the values
(percentile_disc).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args, overload

import numpy as np

from mta.columns.schemas import Array, Rows
from mta.monoids.base import Out, Partial, same_value
from mta.monoids.basic import Last
from mta.monoids.holistic import Holistic, SortedRuns, merged
from mta.monoids.moments import quantiles_text, read_quantiles
from mta.monoids.parts import Parts
from mta.monoids.ranges import RangeFolds, count_below, select

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint", "discrete"]
#: The rank of equal values, by the names of pandas and polars.
RankMethod = Literal["average", "min", "max"]
#: Up to this number of values, all are sorted; above it, only values near the quantile.
_FEW = 1 << 11
#: The number of values in a bracket on either side, and of runs whose positions it caches.
_NEAR, _KNOWN = 128, 256


class Quantile(Holistic[Out]):
    """Exact quantiles: a double, or a list of doubles; NaN for an empty window.

    A result costs about 2 us where windows compute results from ranges of events, and 15 to 20 us
    in a window of 10^5 events that gets a few at a time. ``KLLQuantiles`` gives approximate
    quantiles in bounded space.

    Args:
        quantiles: A number from 0 to 1, or a sequence of them for a list of results.
        interpolation: The result between two values: "linear", "lower", "higher", "nearest",
            "midpoint" or "discrete".

    >>> from mta import CountWindow, Quantile, Window
    >>> Window(Quantile(0.9), CountWindow(3)).extend([1.0, 3.0, 2.0, 9.0]).round(6).tolist()
    [1.0, 2.8, 2.8, 7.8]
    """

    @overload
    def __init__(
        self: Quantile[float], quantiles: float = 0.5, interpolation: Interpolation = "linear"
    ) -> None: ...

    @overload
    def __init__(
        self: Quantile[list[float]],
        quantiles: Sequence[float],
        interpolation: Interpolation = "linear",
    ) -> None: ...

    def __init__(
        self, quantiles: float | Sequence[float] = 0.5, interpolation: Interpolation = "linear"
    ) -> None:
        if interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise ValueError(f"interpolation is one of {known}, not {interpolation!r}")
        self.single = isinstance(quantiles, (int, float))
        self.quantiles, self.interpolation = read_quantiles(quantiles), interpolation
        nothing: Any = [math.nan] * len(self.quantiles)
        super().__init__(
            f"Quantile({quantiles_text(self.quantiles)}, {interpolation})",
            "f8",
            nothing[0] if self.single else nothing,
            "double" if self.single else "array<double>",
        )
        if self.single:
            self.outputs = Array("f8")
        #: The values around the last result of each quantile; the next one is usually among them.
        self._near: dict[float, _Bracket] = {}
        #: A number of values and the positions of its quantiles; the number rarely changes.
        self._placed: tuple[int, list[tuple[int, int, float]]] = -1, []

    def answer(self, summary: SortedRuns) -> Out:
        runs = summary.runs
        count = sum(map(len, runs))
        placed = self._placed  # another thread may replace it
        if count != placed[0]:
            places = (self._places(q, np.array([count])) for q in self.quantiles)
            placed = count, [(int(a[0]), int(b[0]), float(c[0])) for a, b, c in places]
            self._placed = placed
        found: Any = []
        for q, (low, high, part) in zip(self.quantiles, placed[1], strict=True):
            least, most = self._at(runs, q, count, low, high)
            found.append(between(float(least), float(most), part))
        answer: Out = found[0] if self.single else found
        return answer

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        values, codes, folds = self.codes(folds)
        counts = folds.stops - folds.starts
        columns = []
        for q in self.quantiles:
            low, high, part = self._places(q, np.maximum(counts, 1))
            if not len(values):
                columns.append(np.full(len(folds), np.nan))
                continue
            at = select(codes, folds.starts, folds.stops, low)
            column = np.where(counts > 0, values[np.minimum(at, len(values) - 1)], np.nan)
            some = np.flatnonzero((high > low) & (counts > 1))
            if len(some):
                ranges = folds.starts[some], folds.stops[some]
                above = values[select(codes, *ranges, high[some])]
                column[some] = between(column[some], above, part[some])
            columns.append(column)
        return columns[0] if self.single else np.stack(columns, axis=1).tolist()

    def _places(self, q: float, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the two positions around a quantile for each count, and the share between them."""
        if self.interpolation == "discrete":
            # A product that exceeds an integer only by a rounding error counts as that integer.
            at = np.maximum(np.ceil(q * counts - 1e-9), 1).astype("i8") - 1
            return at, at, np.zeros(len(counts))
        place = q * (counts - 1)
        low = np.floor(place).astype("i8")
        high, part = np.minimum(low + 1, counts - 1), place - low
        match self.interpolation:
            case "lower":
                high = low
            case "higher":
                low = high = np.where(part > 0, high, low)
            case "nearest":
                low = high = np.rint(place).astype("i8")
            case "midpoint":
                part = np.where(part > 0, 0.5, 0.0)
        return low, np.where(part > 0, high, low), part

    def _at(
        self, runs: list[np.ndarray], q: float, count: int, low: int, high: int
    ) -> tuple[float, float]:
        """Return the values at two neighboring positions of the sorted values."""
        if count <= _FEW:
            values = np.sort(np.concatenate(runs)) if len(runs) > 1 else runs[0]
            return values[low], values[high]
        near = self._near.get(q)
        found = None if near is None else near.values(runs, low, high)
        if found is None:
            found = _Bracket(*_bracket(runs, count, low, high)).values(runs, low, high)
            if found is None:  # a NaN among them
                values = merged(runs)
                return values[low], values[high]
            values, low, high = found
            first, last = max(low - _NEAR, 0), min(high + _NEAR, len(values) - 1)
            self._near[q] = _Bracket(values[first], values[last])
            return values[low], values[high]
        values, low, high = found
        return values[low], values[high]


class _Bracket:
    """Two values around a quantile, and their positions in runs.

    Most runs of a window are also in the previous window, so each run is searched once.
    """

    def __init__(self, least: float, most: float) -> None:
        self._least, self._most = least, most
        #: By the id of a run: the run, the number of its values below the bracket, and the values
        #: in the bracket, None if there are none.
        self._known: dict[int, tuple[np.ndarray, int, np.ndarray | None]] = {}

    def values(
        self, runs: Sequence[np.ndarray], low: int, high: int
    ) -> tuple[np.ndarray, int, int] | None:
        """Return the sorted values in the bracket and two positions in them; None if outside."""
        below, pieces, known = 0, list[np.ndarray](), self._known
        for run in runs:
            _, less, within = known.get(id(run)) or self._search(run)
            below += less
            if within is not None:
                pieces.append(within)
        if low < below or not pieces:
            return None
        values = np.concatenate(pieces)
        if high >= below + len(values):
            return None
        values.sort()
        return values, low - below, high - below

    def _search(self, run: np.ndarray) -> tuple[np.ndarray, int, np.ndarray | None]:
        if len(self._known) >= _KNOWN:
            self._known.clear()
        if len(run) == 1:
            value = run.item()
            first, stop = int(value < self._least), int(value <= self._most)
        else:
            first, stop = (
                int(run.searchsorted(self._least)),
                int(run.searchsorted(self._most, "right")),
            )
        found = run, first, run[first:stop] if first < stop else None
        self._known[id(run)] = found
        return found


class Median(Quantile[float]):
    """The exact median; for an even number of values, the mean of the middle two.

    >>> from mta import CountWindow, Median, Window
    >>> Window(Median(), CountWindow(3)).extend([1.0, 3.0, 2.0, 9.0]).tolist()
    [1.0, 2.0, 2.0, 3.0]
    """

    def __init__(self) -> None:
        super().__init__(0.5)


def between(low: Any, high: Any, part: Any) -> Any:
    """Return the value a share of the way between two values, which may be infinite."""
    if isinstance(part, float):
        if part == 0 or low == high:
            return low
        return low / 2 + high / 2 if part == 0.5 else low + (high - low) * part
    found = np.where(part == 0.5, low / 2 + high / 2, low + (high - low) * part)
    return np.where((part == 0) | (low == high), low, found)


def _bracket(runs: Sequence[np.ndarray], count: int, low: int, high: int) -> tuple[float, float]:
    """Return two values around both positions, from every ``step``-th value of each run.

    Between (i + 1) * step and (i + 1 + runs) * step values are at most sample[i].
    """
    step = max(1, count // _FEW)
    sample = np.sort(np.concatenate([run[step - 1 :: step] for run in runs]))
    first = (low + 1) // step - len(runs) - 1
    last = (high + 1) // step + 1
    return (
        sample[first] if first >= 0 else -math.inf,
        sample[last] if last < len(sample) else math.inf,
    )


class _AllValues(Holistic[None]):
    """All values of a window, without a result."""

    def __init__(self) -> None:
        super().__init__("Values", "f8")

    def answer(self, summary: SortedRuns) -> None:
        return None


class Rank(Parts[float]):
    """The rank of the newest value in the window, starting at 1; NaN for an empty window.

    Args:
        method: The rank of equal values: the "average", "min" or "max" of their ranks.
        descending: Whether the largest value has rank 1.
        pct: Whether ranks are divided by the number of values.

    >>> from mta import CountWindow, Window
    >>> Window(Rank(), CountWindow(3), name="r").extend([5.0, 7.0, 5.0, 6.0]).tolist()
    [1.0, 2.0, 1.5, 2.0]
    """

    def __init__(
        self, method: RankMethod = "average", descending: bool = False, pct: bool = False
    ) -> None:
        if method not in get_args(RankMethod):
            raise ValueError(f"method is one of {', '.join(get_args(RankMethod))}, not {method!r}")
        self.method, self.descending, self.pct = method, descending, pct
        self._values, newest = _AllValues(), Last("f8")
        super().__init__([(self._values, same_value), (newest, same_value)])
        self._judges = ((newest, same_value),)
        self.name = f"Rank({method}, descending={descending}, pct={pct})"
        self.inputs, self.outputs, self.empty = newest.inputs, Array("f8"), math.nan

    def lower(self, partial: Partial) -> float:
        if partial[0] is None:
            return math.nan
        runs, newest = self._values.summary(partial[0]).runs, float(partial[1][0])
        below, upto = (
            sum(int(run.searchsorted(newest, side)) for run in runs) for side in ("left", "right")
        )
        return float(self._rank(below, upto, sum(map(len, runs))))

    def lower_rows(self, partials: Rows) -> Rows:
        folds, (newest, _) = partials
        if not isinstance(folds, RangeFolds):
            pairs = zip(folds, newest, strict=True)
            return np.array([self.lower((fold, (value, True))) for fold, value in pairs], "f8")
        values, codes, folds = self._values.codes(folds)
        at = values.searchsorted(newest)
        below, upto = (count_below(codes, folds.starts, folds.stops, at + more) for more in (0, 1))
        return self._rank(below, upto, folds.stops - folds.starts)

    def _rank(self, below: Any, upto: Any, count: Any) -> Any:
        """Return the rank of a value, from the counts of values below it and of values up to it."""
        if self.descending:
            below, upto = count - upto, count - below
        match self.method:
            case "min":
                rank = below + 1.0
            case "max":
                rank = upto + 0.0
            case _:
                rank = (below + 1 + upto) / 2
        return rank / count if self.pct else rank
