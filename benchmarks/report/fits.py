"""Which shape a curve has, and whether a ratio is the paper's.

The shapes are models, compared by an information criterion (Akaike's, corrected for few points):

    constant      a, or a + b/x, which settles       linear     a + b x
    logarithmic   a + b log2 x                       a power    b x^p, p between 1/4 and 3/4

Each is fitted by least squares of relative errors, which are what times have. An error below what
a measurement resolves counts as none, so that of two models that fit as well the simpler one leads.
A shape is *decided* if it fits and all others are far behind. For a constant, of which others are
extensions that can never be far behind, a growth that matters must be excluded instead. Whatever
else is untold: it neither agrees nor differs, unless the paper's own shape is far behind.

The last model is there to be distinguished from a logarithm, which it is often taken for.

>>> decide([16, 64, 256, 1024, 4096, 16384], [5.0, 7.0, 9.0, 11.0, 13.0, 15.0], "ns").shape
'logarithmic'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.report.experiment import Finding, Rows, points

#: So many sizes, and so wide a range of them, are needed to tell anything.
LEAST, RANGE = 6, 16
#: How far behind, by the criterion, a shape is excluded: e^2 = 7 times less likely.
LEAD = 4.0
#: A constant may grow by so much over all sizes, at the upper end of the interval for it.
MATERIAL = 0.25
#: No model fits where the best one is so far off, in the mean.
MISFIT = 0.15
#: What a measurement resolves, as a share: counts to their sampling, times to their noise.
RESOLUTION, TIMES = {"combines": 0.01}, 0.02
#: A ratio is the paper's within this factor, and on the same side of 1.
CLOSE = 1.25
POWERS = np.arange(0.25, 0.76, 0.05)
BETWEEN = "a power"
SETTLES = "settling at {0} {unit}"
UNDECIDED = "cannot be decided at this scale"
#: Of times that are shown for themselves.
COUNTED = "Its combines are judged instead, because they do not depend on the machine."

Numbers = Sequence[float]


@dataclass(frozen=True)
class Fit:
    """A line through points, and the share of their variance that it explains."""

    slope: float
    intercept: float
    r2: float


@dataclass(frozen=True)
class Model:
    """A shape as it fits best: in words, its relative error, and the criterion."""

    shape: str
    text: str
    error: float
    aicc: float
    steady: bool = False
    """Whether it is one number, which all others extend."""


@dataclass(frozen=True)
class Decided:
    """What is known of a curve's shape."""

    shape: str | None
    """None where it cannot be decided."""
    excluded: frozenset[str]
    seen: str


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


def logarithm(x: Numbers, y: Numbers) -> Fit:
    """The line over a logarithmic scale: y grows by the slope with each doubling of x."""
    return line(np.log2(x).tolist(), y)


def decide(x: Numbers, y: Numbers, unit: str) -> Decided:
    """The shape of y over x, as far as these points tell it."""
    if len(x) < LEAST or max(x) < RANGE * min(x):
        sizes = f"{len(x)} sizes" + (f" from {min(x):,.0f} to {max(x):,.0f}" if x else "")
        why = "too few" if len(x) < LEAST else "too close together"
        return Decided(None, frozenset(), f"{UNDECIDED}: {sizes} are {why}")
    resolution = RESOLUTION.get(unit, TIMES)
    best: dict[str, Model] = {}
    for model in _models(np.asarray(x, float), np.asarray(y, float), resolution, unit):
        if model.shape not in best or model.aicc < best[model.shape].aicc:
            best[model.shape] = model
    first, *others = sorted(best.values(), key=lambda model: model.aicc)
    behind = {model.shape: model.aicc - first.aicc for model in others}
    sizes = f"{len(x)} sizes from {min(x):,.0f} to {max(x):,.0f}"
    fitted = f"{first.text}, off by {first.error:.1%} on average; {sizes}"
    excluded = frozenset(shape for shape, gap in behind.items() if gap >= LEAD)
    if first.error > MISFIT:
        return Decided(None, frozenset(), f"{UNDECIDED}: no shape fits; the best fit is {fitted}")
    low, high = growth(x, y, unit)
    grows = ""
    if first.steady:
        excluded = frozenset(behind) if max(-low, high) < MATERIAL else frozenset()
        grows = f" ({low:+.0%} to {high:+.0%} over all sizes)"
    if len(excluded) == len(others):
        return Decided(first.shape, excluded, f"{first.shape}: {fitted}{grows}")
    rivals = " or ".join([first.shape, *sorted(set(behind) - excluded)])
    return Decided(None, excluded, f"{UNDECIDED}: {rivals}; the best fit is {fitted}{grows}")


def _models(x: np.ndarray, y: np.ndarray, resolution: float, unit: str) -> Iterator[Model]:
    """Every model, where it is one: what should grow does."""
    one, doublings = np.ones_like(x), np.log2(x)

    def model(shape: str, text: str, columns: list[np.ndarray], more: int = 0) -> Model:
        weighted = np.stack(columns, 1) / y[:, None]
        found, *_ = np.linalg.lstsq(weighted, one, rcond=None)
        square = float(np.mean((weighted @ found - 1) ** 2))
        n, k = len(x), len(columns) + more + 1  # the variance is a parameter too
        aicc = n * np.log(max(square, resolution**2)) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
        if len(found) == 2 and text != SETTLES and found[1] <= 0:
            aicc = np.inf
        said = text.format(*map(_rounded, found), unit=unit)
        return Model(shape, said, square**0.5, float(aicc), len(found) + more == 1)

    yield model("constant", "{0} {unit}", [one])
    yield model("constant", SETTLES, [one, 1 / x])
    yield model("logarithmic", "{0} {unit} plus {1} per doubling", [one, doublings])
    yield model("linear", "{0} {unit} plus {1} times x", [one, x])
    for power in POWERS:
        yield model(BETWEEN, f"{{0}} {{unit}} times x^{power:.2f}", [x**power], 1)


def growth(x: Numbers, y: Numbers, unit: str) -> tuple[float, float]:
    """The growth over all x as a share: an interval that holds it 19 times in 20."""
    doublings, level = np.log2(x), np.log(np.asarray(y, float))
    fit, free = logarithm(x, level.tolist()), len(x) - 2
    away = level - fit.slope * doublings - fit.intercept
    noise = max(float((away**2).sum() / free) ** 0.5, RESOLUTION.get(unit, TIMES))
    spread = float(((doublings - doublings.mean()) ** 2).sum()) ** 0.5
    reach = float(np.ptp(doublings))
    either = (2 + 4 / free) * noise * reach / spread  # at least Student's quantile
    low, high = np.expm1([fit.slope * reach - either, fit.slope * reach + either]).tolist()
    return low, high


def shape(
    what: str,
    x: Numbers,
    y: Numbers,
    expected: str,
    unit: str,
    why: Mapping[str, str] | None = None,
) -> Finding:
    """Whether y over x has the shape that the paper shows; ``why`` by the shape found instead."""
    found = decide(x, y, unit)
    agrees: bool | None = None
    if found.shape is not None or expected in found.excluded:
        agrees = found.shape == expected
    reason = (why or {}).get(found.shape or "", "") if agrees is False else ""
    return Finding(what, expected, found.seen, agrees, reason)


def shapes(
    what: str,
    rows: Rows,
    axes: tuple[str, str],
    expected: str,
    unit: str,
    why: Mapping[str, str] | None = None,
) -> list[Finding]:
    """The shapes of times and of combines, which judge alone where they are counted."""
    x, y = axes
    at, combines = points(rows, x, "combines")
    time = shape(f"{what}: time", *points(rows, x, y), expected, unit, why)
    if not any(combines):
        return [time]
    judge = shape(f"{what}: combines", at, combines, expected, "combines", why)
    return [replace(time, agrees=None, beside=COUNTED), judge]


def trend(what: str, paper: str, x: Numbers, y: Numbers, unit: str, why: str = "") -> Finding:
    """Whether y "grows", "falls" or "stays" as x grows; untold where the interval allows both."""
    if len(x) < 4:
        return Finding(what, paper, f"{UNDECIDED}: {len(x)} sizes are too few")
    low, high = growth(x, y, unit)
    holds = {"grows": low > 0, "falls": high < 0, "stays": max(-low, high) < MATERIAL}[paper]
    fails = {"grows": high < MATERIAL and low <= 0, "falls": low > -MATERIAL and high >= 0,
             "stays": low > 0 or high < 0}[paper]  # fmt: skip
    seen = f"{low:+.0%} to {high:+.0%} from {min(x):,.0f} to {max(x):,.0f}"
    agrees = True if holds else False if fails else None
    if agrees is None:
        seen = f"{UNDECIDED}: {seen}"
    return Finding(what, paper, seen, agrees, why if agrees is False else "")


def near(here: float, low: float, high: float | None = None) -> bool | None:
    """Whether a number is the paper's, or within the range that it gives.

    None where it would be, if a measurement showed on which side of 1 it is.

    >>> near(1.04, 2.4, 3.5), near(2.1, 2.4, 3.5), near(0.95, 1.1), near(1.05, 1.2)
    (False, True, False, True)
    """
    high = low if high is None else high
    if not low / CLOSE <= here <= high * CLOSE:
        return False
    same_side = not (low > 1 >= here or high < 1 <= here)
    return same_side or (None if abs(here - 1) <= TIMES else False)


def ratio(
    what: str,
    paper: float | tuple[float, float],
    ours: float,
    peer: float,
    unit: str,
    less: str = "",
    more: str = "",
) -> Finding:
    """Whether ours to a peer's is as in the paper; why, where it is less or more than that.

    ``paper`` is a number or the range that it gives, inf where it says "at least".

    >>> ratio("rounds", 2.0, 10.0, 5.5, "ns").agrees, ratio("rounds", 2.0, 10.0, 8.5, "ns").agrees
    (True, False)
    """
    low, high = paper if isinstance(paper, tuple) else (paper, paper)
    here = ours / peer
    agrees = near(here, low, high)
    seen = f"{_rounded(here)} times ({_rounded(ours)} to {_rounded(peer)} {unit})"
    if agrees is None:
        seen = f"which is faster {UNDECIDED}: {seen}"
    shown = f"{_rounded(low)} times"
    if low != high:
        shown = (
            f"at least {shown}" if np.isinf(high) else f"{_rounded(low)} to {_rounded(high)} times"
        )
    return Finding(what, shown, seen, agrees, less if here < low else more)


def _rounded(number: float) -> str:
    """Three digits, or all before the point."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{round(number, 9):.3g}"


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
