"""Shapes from fitted slopes: constant, logarithmic, linear, and where two curves cross.

Times are fitted twice by least squares. On two logarithmic scales the slope is the power of the
window that they grow with: 0 is constant, 1 linear; a logarithm lies between, the closer to 0 the
larger the window and the fixed cost. On a linear over a logarithmic scale the slope is what each
doubling adds, which for a logarithm is always the same.

>>> power([1, 2, 4, 8], [5.0, 10.0, 20.0, 40.0]).slope
1.0
>>> logarithm([1, 2, 4, 8], [3.0, 5.0, 7.0, 9.0]).slope
2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mta.bench.frame.experiment import Finding

#: The powers that a shape may show in times, which caches and other processes bend.
RANGES = {"constant": (-0.15, 0.15), "logarithmic": (0.02, 0.5), "linear": (0.8, 1.25)}
#: Up to this power a constant may grow; up to its range it may scatter, with no trend so clear.
FLAT, TREND = 0.05, 0.9
#: To how many of the largest x what should be linear is fitted.
LAST = 4
#: A ratio agrees with the paper's within this factor, and on the same side of 1; within the smaller
#: factor of 1 two sides are alike, and on either side.
SAME_ORDER, ALIKE = 3.0, 1.15

Numbers = Sequence[float]


@dataclass(frozen=True)
class Fit:
    """A line through points, and the share of their variance that it explains."""

    slope: float
    intercept: float
    r2: float


def line(x: Numbers, y: Numbers) -> Fit:
    """The least-squares line; NaN with fewer than two different x."""
    if len(set(x)) < 2:
        return Fit(np.nan, np.nan, np.nan)
    a, b = np.asarray(x, float), np.asarray(y, float)
    slope, intercept = np.polyfit(a, b, 1)
    spread = float(((b - b.mean()) ** 2).sum())
    left = float(((b - slope * a - intercept) ** 2).sum())
    r2 = 1 - left / spread if spread else 1.0
    return Fit(round(float(slope), 9), round(float(intercept), 9), r2)


def power(x: Numbers, y: Numbers) -> Fit:
    """The line on two logarithmic scales: y ~ x^slope."""
    return line(np.log2(x).tolist(), np.log2(y).tolist())


def logarithm(x: Numbers, y: Numbers) -> Fit:
    """The line over a logarithmic scale: y grows by the slope with each doubling of x."""
    return line(np.log2(x).tolist(), y)


def shape(what: str, x: Numbers, y: Numbers, expected: str, unit: str, why: str = "") -> Finding:
    """Whether y over x has the shape that the paper shows, with the fitted numbers."""
    low, high = RANGES[expected]
    if expected == "linear":  # before, the fixed cost of a call hides the slope
        x, y = x[-LAST:], y[-LAST:]
    grown, doubling = power(x, y), logarithm(x, y)
    seen = (
        f"x^{grown.slope:.2f} (R2 {grown.r2:.2f}); {doubling.slope:+.3g} {unit} a doubling "
        f"(R2 {doubling.r2:.2f}); x from {min(x, default=0):,.0f} to {max(x, default=0):,.0f}"
    )
    if np.isnan(grown.slope):
        return Finding(what, expected, "too few points to fit", None)
    agrees = low <= grown.slope <= high
    if expected == "constant" and abs(grown.slope) > FLAT:
        agrees = agrees and doubling.r2 < TREND  # scattered, and not grown step by step
    return Finding(what, expected, seen, agrees, "" if agrees else why)


def ratio(
    what: str,
    paper: float | tuple[float, float],
    ours: float,
    peer: float,
    unit: str,
    why: str = "",
) -> Finding:
    """Whether ours to a peer's is as in the paper: on the same side of 1, and of the same order.

    ``paper`` is a number or the range that it gives, inf where it says "at least".

    >>> ratio("rounds", 2.0, 10.0, 8.0, "ns").agrees, ratio("rounds", 2.0, 10.0, 11.0, "ns").agrees
    (True, True)
    >>> ratio("rounds", 2.0, 10.0, 20.0, "ns").agrees, ratio("rounds", 2.0, 9.0, 1.0, "ns").agrees
    (False, False)
    """
    low, high = paper if isinstance(paper, tuple) else (paper, paper)
    here = ours / peer
    agrees = low / SAME_ORDER <= here <= high * SAME_ORDER
    agrees &= here > 1 / ALIKE or low < 1
    agrees &= here < ALIKE or high > 1
    seen = f"{_times(here)} times ({_times(ours)} to {_times(peer)} {unit})"
    shown = f"{_times(low)} times"
    if low != high:
        shown = f"at least {shown}" if np.isinf(high) else f"{_times(low)} to {_times(high)} times"
    return Finding(what, shown, seen, agrees, "" if agrees else why)


def _times(number: float) -> str:
    """Three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def crossover(x: Numbers, one: Numbers, other: Numbers) -> float | None:
    """From which x on ``one`` stays below ``other``; between points by the logarithms' lines.

    None where it is not below at the end.

    >>> crossover([1, 2, 4], [4.0, 4.0, 4.0], [2.0, 4.0, 8.0])
    2.0
    """
    gaps = np.log2(one) - np.log2(other)
    if gaps[-1] >= 0:
        return None
    behind = np.flatnonzero(gaps >= 0)
    if not len(behind):
        return float(x[0])
    at = int(behind[-1])
    share = gaps[at] / (gaps[at] - gaps[at + 1])
    return float(x[at] * (x[at + 1] / x[at]) ** share)
