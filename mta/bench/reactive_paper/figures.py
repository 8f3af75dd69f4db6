"""What the Reactive Aggregator's experiments find, and the plots that only they have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mta.bench.frame.break_even import judged
from mta.bench.frame.experiment import Finding, Row, Rows, distinct, points, where
from mta.bench.frame.fits import FLAT, logarithm, power, ratio, shape
from mta.bench.frame.plots import dress, grouped_bars, legend, look

#: Table 3: break-even and 10 times faster; None is never.
TABLE_3: dict[str, tuple[int | None, int | None]] = {
    "Count": (None, None), "Sum": (370, 5200), "Sum<Double>": (290, 5200), "Max": (260, 5200),
    "Max<Double>": (130, 3600), "ArithmeticMean": (10, 900), "MinCount": (200, 4480),
    "SampleStdDev": (10, 700), "PopulationStdDev": (10, 700), "ArgMax": (130, 2770),
    "ArgMax<Double>": (250, 5810), "Collect": (None, None),
}  # fmt: skip
#: Figure 6 in the paper's words: RA to ISS on small windows and at 1,024.
FIGURE_6: dict[str, tuple[float, tuple[float, float]]] = {
    "Max": (0.9, (2.5, 3.0)), "SampleStdDev": (0.95, (10.0, math.inf)),
}  # fmt: skip
SMALL, LARGE = 8, 1024
#: A measured cost closely matches its fitted line within this share of it.
CLOSE = 0.15
#: In smaller windows what a walk or a resize costs whatever it does is most of a change, as in the
#: paper's Figure 10.
LARGE_ENOUGH = 64
GROWS = ("m = 1", "m = 4", "m = 64")


def one_of(rows: Rows, **wanted: Any) -> Row:
    """The one row that is wanted."""
    (row,) = where(rows, **wanted)
    return row


# --- Table 3 ------------------------------------------------------------------------------------


def found_break_even(rows: Rows) -> list[Finding]:
    """Table 3, entry by entry, and whether costly functions break even sooner."""
    found = []
    for place, times in enumerate((1, 10)):
        for operator, windows in TABLE_3.items():
            row = one_of(rows, operator=operator, times=times)
            what = f"{operator}: faster" if times == 1 else f"{operator}: 10 times faster"
            found.append(judged(what, windows[place], row, _why(rows, operator, place)))
    return [*found, _sooner(rows)]


def _why(rows: Rows, operator: str, place: int) -> str:
    """What recalculating a value costs beside Sum's, here, and in the paper as far as it tells."""
    ours, total = (one_of(rows, operator=name, times=1)["value_ns"] for name in (operator, "Sum"))
    told = f"Recalculating costs {ours:,.0f} ns a value, {ours / total:.1f} times that of Sum"
    paper, sums = TABLE_3[operator][place], TABLE_3["Sum"][place]
    if paper is None or sums is None:
        return f"{told}."
    return f"{told}; in the paper it pays {sums / paper:.1f} times as soon as for Sum."


def _sooner(rows: Rows) -> Finding:
    """By ranks, as neither side need be linear."""
    some = [row for row in where(rows, times=1) if row["window"] is not None]
    cost, even = ([row[key] for row in some] for key in ("value_ns", "window"))
    what, paper = "the costlier the function, the sooner", "in general"
    if len(some) < 3:
        return Finding(what, paper, "too few that break even")
    found = float(np.corrcoef(_ranks(cost), _ranks(even))[0, 1])
    return Finding(what, paper, f"rank correlation {found:.2f}", found < -0.5)


def _ranks(values: list[float]) -> list[float]:
    """Places in order, equal values sharing theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def draw_break_even(rows: Rows) -> Figure:
    """Table 3 as bars, here and in the paper; none where RA never pays."""
    names = {1: "faster", 10: "10 times faster"}
    bars = [
        {"operator": row["operator"], "bar": f"{names[row['times']]}, {where_}", "window": window}
        for row in rows
        for where_, window in (
            ("here", row["window"]),
            ("paper", TABLE_3[row["operator"]][row["times"] == 10]),
        )
    ]
    shown = [bar for bar in bars if bar["window"] is not None]
    figure = grouped_bars(shown, "operator", "bar", "window", "window")
    figure.axes[0].tick_params(axis="x", labelrotation=20)
    return figure


# --- Figures 6 and 8 ----------------------------------------------------------------------------


def found_throughput(rows: Rows) -> list[Finding]:
    """The shapes of both, and RA to ISS in small and in large windows."""
    found = []
    for operator, (slow, fast) in FIGURE_6.items():
        for name, expected in (("RA", "logarithmic"), ("ISS", "linear")):
            some = where(rows, operator=operator, algorithm=name)
            x, y = points([row for row in some if row["window"] >= SMALL], "window", "ns")
            found.append(shape(f"{name}: {operator}, time a tuple", x, y, expected, "ns"))
        for window, paper in ((SMALL, slow), (LARGE, fast)):
            both = {row["algorithm"]: row for row in where(rows, operator=operator, window=window)}
            if len(both) < 2:
                continue
            ra, iss = both["RA"], both["ISS"]
            why = (
                f"A change takes RA {ra['ns']:,.0f} ns and ISS {iss['ns']:,.0f} ns. The paper's "
                "throughput has the engine's own time on both sides, which brings them together."
            )
            what = f"{operator}: throughput of RA to ISS at window {window:,}"
            found.append(ratio(what, paper, 1e3 * ra["mps"], 1e3 * iss["mps"], "thousand/s", why))
    return found


def found_tumbling(rows: Rows) -> list[Finding]:
    """The shapes, and the two sides beside each other in the largest window."""
    found, largest = [], max(row["window"] for row in rows)
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        for name in distinct(rows, "algorithm"):
            x, y = points(where(some, algorithm=name), "window", "us")
            found.append(shape(f"{name}: {operator}, time a window", x, y, "linear", "us"))
        iss = one_of(some, algorithm="ISS", window=largest)
        for name in ("RA", "RA, in bulk"):
            ra = one_of(some, algorithm=name, window=largest)
            what = f"{operator}: {name} to ISS, window {largest:,}"
            why = _bookkeeping(some, name)
            found.append(ratio(what, 1.0, ra["us"], iss["us"], "us", why))
    return found


def _bookkeeping(rows: Rows, name: str) -> str:
    """What differs, where the combines do not."""
    counted = [row for row in where(rows, algorithm=name) if row["combines"] is not None]
    largest = max(row["window"] for row in counted)
    both = {
        row["algorithm"]: row
        for row in where(rows, window=largest)
        if row["algorithm"] in (name, "ISS")
    }
    ra, iss = both[name], both["ISS"]
    return (
        f"At window {largest:,} RA makes {ra['combines']:.2f} combines a tuple and ISS "
        f"{iss['combines']:.2f}; the rest of RA's {ra['ns_a_tuple']:,.0f} ns a tuple beside "
        f"{iss['ns_a_tuple']:,.0f} is keeping slots and walking over them, in Python."
    )


# --- Figure 7 -----------------------------------------------------------------------------------


def found_update(rows: Rows) -> list[Finding]:
    """Logarithms: the shape, how far the fitted line is, and combines."""
    found = []
    for operator in distinct(rows, "operator"):
        for slots in distinct(rows, "slots"):
            some = where(rows, operator=operator, slots=slots)
            what = f"{operator}, {slots}"
            x, y = points(some, "window", "us")
            found.append(shape(f"{what}: time a (1,1)-change", x, y, "logarithmic", "us"))
            found.append(_close(f"{what}: farthest from the fitted logarithm", x, y))
            found.append(_steps(what, *points(some, "window", "combines")))
    return found


def _close(what: str, x: list[float], y: list[float]) -> Finding:
    """Whether no measured point is far from the line, as one beyond a knee would be."""
    fit = logarithm(x, y)
    away = [
        b / (fit.slope * math.log2(a) + fit.intercept) - 1 for a, b in zip(x, y, strict=True)
    ]  # fmt: skip
    at = int(np.argmax(np.abs(away)))
    seen = f"{100 * away[at]:+.0f} % at window {x[at]:,.0f}"
    agrees = abs(away[at]) <= CLOSE
    why = "" if agrees else _knee(x, y)
    return Finding(what, f"closely matched, taken as {100 * CLOSE:.0f} %", seen, agrees, why)


def _knee(x: list[float], y: list[float]) -> str:
    """What the first and the last half of the windows add with each doubling."""
    half = len(x) // 2
    first, last = logarithm(x[: half + 1], y[: half + 1]), logarithm(x[half:], y[half:])
    return (
        f"A doubling adds {first.slope:.2f} us to window {x[half]:,.0f} and {last.slope:.2f} us "
        "beyond; the combines, which a machine has no part in, stay on their line."
    )


def _steps(what: str, x: list[float], y: list[float]) -> Finding:
    """Counted combines: one or two paths to the root, and the walks of an inverted buffer."""
    fit = logarithm(x, y)
    seen = f"{fit.slope:.2f} a doubling (R2 {fit.r2:.3f}), {y[-1]:.1f} at window {x[-1]:,.0f}"
    agrees = 0.9 <= fit.slope <= 4.1 and fit.r2 > 0.99
    paper = "a logarithm of 1 to 4 a doubling: up to two paths and two walks"
    return Finding(f"{what}: combines a (1,1)-change", paper, seen, agrees)


def draw_update(rows: Rows, y: str, label: str, fitted: bool = False) -> Figure:
    """A value over the window, and beside it the logarithm that fits best."""
    panels = distinct(rows, "operator")
    figure = Figure(figsize=(4.2 * len(panels), 4.4))
    for axes, operator in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for number, slots in enumerate(distinct(rows, "slots")):
            x, found = points(where(rows, operator=operator, slots=slots), "window", y)
            axes.plot(x, found, marker=".", label=slots, **look(number))
            if fitted:
                fit = logarithm(x, found)
                line = [fit.slope * math.log2(a) + fit.intercept for a in x]
                colour = look(number)["color"]
                axes.plot(x, line, ls=":", lw=1, color=colour, label=f"{slots}, best fit to log")
        axes.set_title(operator)
        dress(axes, ("window", label), ("log", "linear"))
    top = max(axes.get_ylim()[1] for axes in figure.axes)
    for axes in figure.axes:
        axes.set_ylim(top=top)
    legend(figure)
    return figure


# --- Figure 9 -----------------------------------------------------------------------------------


def found_resize(rows: Rows) -> list[Finding]:
    """Amortised: oscillating to fixed, the shapes, and what one resize costs."""
    found, largest = [], max(row["window"] for row in rows)
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        osc = where(some, capacity="osc.")
        large = [row for row in osc if row["window"] >= LARGE_ENOUGH]
        for key, unit in (("us", "us"), ("combines", "combines")):
            x, y = points(large, "window", key)
            what = f"{operator}: {'time' if key == 'us' else key} a tuple, oscillating"
            found.append(shape(what, x, y, "logarithmic", unit))
        x, y = points(osc, "window", "doubling_us")
        found.append(shape(f"{operator}: one resize from n to 2n", x, y, "linear", "us"))
        at = {row["capacity"]: row for row in where(some, window=largest)}
        what = f"{operator}: oscillating to fixed, n = {largest:,}"
        why = _resizing(at["osc."], at["fixed"])
        found.append(ratio(what, (0.5, 1.0), at["osc."]["us"], at["fixed"]["us"], "us", why))
    return found


def _resizing(osc: Row, fixed: Row) -> str:
    """Where the time goes that combines and resizes do not take."""
    step, full = (osc["us"] - osc["resizing_us"]) / osc["combines"], fixed["us"] / fixed["combines"]
    return (
        f"Resizes included, oscillating makes {osc['combines']:.1f} combines a tuple, fixed "
        f"{fixed['combines']:.1f}; resizing takes {osc['resizing_us']:.1f} of its {osc['us']:.1f} "
        f"us. The rest is {step:.2f} us a combine beside {full:.2f}: where slots are free, each "
        "step to the root must tell what is in use."
    )


# --- Figure 10 ----------------------------------------------------------------------------------


def found_granularity(rows: Rows) -> list[Finding]:
    """The shapes over large enough windows, in time and in combines."""
    found = []
    for change in distinct(rows, "change"):
        some = [
            row
            for row in where(rows, change=change)
            if row["window"] >= max(LARGE_ENOUGH, 4 * row["m"] if change in GROWS else 0)
        ]
        expected = "logarithmic" if change in GROWS else "constant"
        for key, unit in (("us", "us"), ("combines", "combines")):
            what = f"{change}: {'time' if key == 'us' else key} a tuple"
            one = shape(what, *points(some, "window", key), expected, unit)
            found.append(_hardly(one, *points(some, "window", key), max(r["m"] for r in some)))
    return found


def _hardly(one: Finding, x: list[float], y: list[float], m: int) -> Finding:
    """A logarithm that is shared by m tuples is as good where it is too little to be told."""
    shared = one.paper == "logarithmic" and m > 1
    if not shared or one.agrees is not False or abs(power(x, y).slope) > FLAT:
        return one
    why = f"A combine a doubling is shared by {m} tuples, which is hardly told from a constant."
    return Finding(one.what, one.paper, one.seen, True, why)
