"""What the PBA paper's figures come to here: who is faster, where the thread pays, who has spikes.

Where the paper prints a number, ours agrees by the rule of ``fits.near``; where it says who is
faster, ours must be so too. A reason is given only where the rows show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from benchmarks.report.experiment import Finding, Row, Rows, distinct, points, where
from benchmarks.report.fits import crossover, near, shape, trend
from benchmarks.report.plots import dress, legend, look

#: The kinds of work that are kept distinct.
SINGLE = "single values, Python"
STREAMED = "single values, numpy"
BATCHES = "batches, numpy"
#: PBA's throughput to its peers' from this range on, up to which it grows.
FASTER, LEVEL = {"TwoStacks": 2.5, "SlickDeque": 4.0}, 2**15
#: Two curves are compared at so many of the largest ranges, as one may be off.
LAST = 3
#: Why a time that the paper has as linear is no line here.
FIXED = {"constant": "The fixed cost of a call exceeds the time for chunks of these sizes."}
#: Tables 2 and 3: max, average, deviation and median in ns, at the smaller and the larger range.
MAX = {
    "TwoStacks": ((74543, 69.21, 754.3, 60), (150024, 77.55, 1077.86, 68)),
    "SlickDeque": ((667, 81.77, 22.12, 79), (647, 83.07, 21.86, 80)),
    "SBA": ((15160, 50.39, 233.64, 46), (31031, 50.06, 331.25, 46)),
    "PBA": ((559, 53.93, 10.41, 48), (537, 46.06, 5.24, 45)),
}
MOMENTS = {
    "TwoStacks": ((365582, 337.65, 5348.91, 230), (934212, 381.1, 9999.85, 235)),
    "SlickDeque": ((13638, 385.28, 101.5, 370), (13175, 392.72, 84.86, 380)),
    "SBA": ((103716, 194.85, 1566.49, 163), (226099, 201.77, 2471.56, 164)),
    "PBA": ((12837, 164.24, 73.35, 145), (12971, 171.75, 64.59, 150)),
}

Throughputs = dict[float, dict[str, float]]
Summaries = Sequence[tuple[float, ...]]


def found_count(rows: Rows) -> list[Finding]:
    """Figures 4 and 5."""
    over_range = where(rows, figure=4)
    singles = where(over_range, kind=SINGLE)
    found = [*_shapes(singles, "range"), *_grows(where(singles, algorithm="PBA"))]
    found += [_ahead(singles, "range"), *_faster(singles, "range")]
    for kind in distinct(over_range, "kind"):
        found.append(_pays(where(over_range, kind=kind), kind))
    return [*found, *_slides(where(rows, figure=5, kind=SINGLE), "slide")]


def found_time(rows: Rows) -> list[Finding]:
    """Figure 6."""
    over_range = where(rows, over="range")
    singles = where(over_range, kind=SINGLE)
    found = [*_shapes(singles, "seconds"), _ahead(singles, "seconds")]
    found += _faster(singles, "seconds")
    for kind in distinct(over_range, "kind"):
        found.append(_share(where(over_range, kind=kind), kind))
    return [*found, *_slides(where(rows, over="slide", kind=SINGLE), "slide_ms")]


def found_thread(rows: Rows) -> list[Finding]:
    """From which range on the value at a boundary is faster with the thread, and by how much."""
    found = []
    for name in distinct(rows, "operator"):
        some = where(rows, operator=name)
        x, sba = points(where(some, algorithm="SBA"), "range", "pause_us")
        _, pba = points(where(some, algorithm="PBA"), "range", "pause_us")
        grown = shape(f"{name}: SBA's value at a boundary", x, sba, "linear", "us", FIXED)
        found += [grown, _crossed(f"{name}: PBA's value at a boundary below SBA's", x, pba, sba)]
        ratio = sba[-1] / pba[-1]
        what = f"{name}: SBA's value at a boundary to PBA's, range {x[-1]:,.0f}"
        seen = f"{ratio:.1f} times ({sba[-1]:,.0f} us to {pba[-1]:,.0f} us)"
        found.append(Finding(what, "58 times at 2^14, in Java (Table 2, the slowest)", seen))
    return found


# --- over the range -----------------------------------------------------------------------------


def throughputs(rows: Rows, x: str) -> Throughputs:
    """Million values a second by x and algorithm."""
    found: Throughputs = {}
    for row in rows:
        found.setdefault(row[x], {})[row["algorithm"]] = row["mps"]
    return found


def _shapes(rows: Rows, x: str) -> Iterator[Finding]:
    """Constant for all; linear where all is recalculated; PBA's by count is another matter."""
    for name in distinct(rows, "algorithm"):
        at, ns = points(where(rows, algorithm=name), x, "ns")
        what = f"{name}: time per value by range"
        if name == "RecalculateFromScratch":
            yield shape(what, at, ns, "linear", "ns")
        elif name != "PBA" or x != "range":
            yield shape(what, at, ns, "constant", "ns")


def _grows(rows: Rows) -> Iterator[Finding]:
    """PBA's throughput grows up to a range, and then stays."""
    for below in (True, False):
        some = [r for r in rows if (r["range"] <= LEVEL if below else r["range"] >= LEVEL)]
        x, mps = points(some, "range", "mps")
        if x:
            what = f"PBA: throughput {'up to' if below else 'from'} a range of 2^15"
            yield trend(what, "grows" if below else "stays", x, mps, "million/s")


def _ahead(rows: Rows, x: str) -> Finding:
    """SBA beside the better one of its peers, at all ranges."""
    found = throughputs(rows, x).values()
    shares = [mps["SBA"] / max(mps["TwoStacks"], mps["SlickDeque"]) for mps in found]
    ahead = sum(share > 1 for share in shares)
    seen = (
        f"at {ahead} of {len(shares)} ranges; {min(shares):.2f} to {max(shares):.2f} times the "
        "better one"
    )
    agrees = ahead == len(shares)
    what = "SBA's throughput above Two-Stacks' and SlickDeque's"
    return Finding(what, "at every range", seen, agrees, "" if agrees else _counted(rows))


def _counted(rows: Rows) -> str:
    """What of a value's time is combines, of SBA and its peers, at the largest range."""
    last = {row["algorithm"]: row for row in rows}
    reported = [
        f"{name} {row['ns']:,.0f} ns ({row['combines']:.1f} combines of {row['combine_ns']:.0f} ns)"
        for name, row in last.items()
        if name in ("SBA", *FASTER)
    ]
    times = ", ".join(reported)
    return f"Time per value at the largest range: {times}. The rest is overhead of Python."


def _faster(rows: Rows, x: str) -> Iterator[Finding]:
    """PBA's throughput to that of its peers, at the largest range, and to SBA's."""
    mps = list(throughputs(rows, x).values())[-1]
    for name, paper in FASTER.items():
        ratio = mps["PBA"] / mps[name]
        agrees = near(ratio, paper)
        what = f"PBA's throughput to that of {name}, at the largest range"
        why = (
            f"PBA's throughput is {mps['PBA'] / mps['SBA']:.2f} times that of SBA, and SBA's is "
            f"{mps['SBA'] / mps[name]:.2f} times that of {name}."
        )
        yield Finding(what, f"{paper} times from 2^15 on", f"{ratio:.2f} times", agrees, why)


def _pays(rows: Rows, kind: str) -> Finding:
    """From which range on PBA's throughput is above SBA's."""
    x, sba = points(where(rows, algorithm="SBA"), "range", "ns")
    _, pba = points(where(rows, algorithm="PBA"), "range", "ns")
    return _crossed(f"PBA's throughput above SBA's, {kind}", x, pba, sba)


def _share(rows: Rows, kind: str) -> Finding:
    """PBA's throughput to SBA's over all ranges in time, which are too alike for a crossover."""
    shares = [mps["PBA"] / mps["SBA"] for mps in throughputs(rows, "seconds").values()]
    seen = f"{min(shares):.2f} to {max(shares):.2f} times, median {median(shares):.2f} times"
    return Finding(f"PBA's throughput to SBA's, {kind}", "above 1", seen)


def _crossed(what: str, x: list[float], pba: list[float], sba: list[float]) -> Finding:
    """Whether PBA takes less than SBA at the largest x, and from which on."""
    at, ratios = crossover(x, pba, sba), [b / a for a, b in zip(pba, sba, strict=True)]
    largest, best = median(ratios[-LAST:]), int(np.argmax(ratios))
    seen = (
        f"{largest:.2f} times at the {LAST} largest ranges (median), at best {ratios[best]:.2f} "
        f"times, at {x[best]:,.0f}" + ("" if at is None else f"; from 2^{math.log2(at):.1f} on")
    )
    why = ""
    if best >= len(x) - LAST and largest <= 1:
        why = (
            f"{ratios[0]:.2f} times at {x[0]:,.0f}, {ratios[-1]:.2f} at {x[-1]:,.0f}. PBA folds "
            "the same values as SBA and also hands over chunks, less often the larger they are. "
            "It can gain only if its thread runs at the same time as the stream's thread. It "
            "cannot if both need the interpreter's lock, or without a second core."
        )
    return Finding(what, "for large ranges (above 2^10)", seen, largest > 1, why)


# --- over the slide -----------------------------------------------------------------------------


def _slides(rows: Rows, x: str) -> Iterator[Finding]:
    """Larger slides raise throughput and bring the algorithms together."""
    for name in distinct(rows, "algorithm"):
        at, mps = points(where(rows, algorithm=name), x, "mps")
        yield trend(f"{name}: throughput by slide", "grows", at, mps, "million/s")
    found = list(throughputs(rows, x).values())
    first, last = (max(mps.values()) / min(mps.values()) for mps in (found[0], found[-1]))
    seen = f"{first:.2f} times at the smallest slide, {last:.2f} at the largest"
    yield Finding("fastest to slowest", "closer with larger slides", seen, last < first)


# --- latency ------------------------------------------------------------------------------------


def found_latency(rows: Rows) -> list[Finding]:
    """Who has spikes, how large they are beside PBA's, how they grow, and the medians."""
    found = []
    for aggregation in distinct(rows, "aggregation"):
        some = where(rows, aggregation=aggregation)
        paper = MAX if aggregation.startswith("Max") else MOMENTS
        small, large = ({row["algorithm"]: row for row in where(some, range=reach)}
                        for reach in distinct(some, "range"))  # fmt: skip
        found += [_spiky(aggregation, name, large, paper[name]) for name in large]
        found += [
            _spikes(aggregation, large, paper),
            _growth(aggregation, small["TwoStacks"], large["TwoStacks"], paper["TwoStacks"]),
            _medians(aggregation, large, paper),
        ]
    return found


def _spiky(aggregation: str, name: str, rows: dict[str, Row], paper: Summaries) -> Finding:
    """Whether the deviation is above the average."""
    (_, average, deviation, _), row = paper[1], rows[name]
    theirs, ours = deviation / average, row["deviation"] / row["average"]
    seen = f"{ours:.2f} times; spikes {row['spike'] / row['median']:,.0f} times the median"
    agrees, why = (theirs > 1) == (ours > 1), ""
    if theirs > 1 >= ours:
        why = (
            f"In a window of {row['range']:,}, a spike takes as long as "
            f"{row['spike'] / row['combine_ns']:,.0f} single combines of "
            f"{row['combine_ns']:,.0f} ns."
        )
    elif not agrees and name == "PBA" and row["spike"] >= rows["SBA"]["spike"]:
        why = f"Its spikes take {_spike(row)}, and SBA's {_spike(rows['SBA'])}."
    return Finding(
        f"{aggregation}: {name}, deviation to average", f"{theirs:.2f} times", seen, agrees, why
    )


def _spike(row: Row) -> str:
    return f"{row['spike'] / 1e3:,.0f} us"


def _spikes(aggregation: str, rows: dict[str, Row], paper: Mapping[str, Summaries]) -> Finding:
    """SBA's spikes beside PBA's."""
    both = rows["SBA"], rows["PBA"]
    theirs = paper["SBA"][1][0] / paper["PBA"][1][0]
    ratio = both[0]["spike"] / both[1]["spike"]
    seen = f"{ratio:.1f} times ({_spike(both[0])} to {_spike(both[1])})"
    agrees, why = near(ratio, theirs), ""
    if not agrees:
        why = "Ratio of the slowest to the median: " + ", ".join(
            f"{row['algorithm']} {row['spike'] / row['median']:,.0f} (in the paper "
            f"{paper[row['algorithm']][1][0] / paper[row['algorithm']][1][3]:,.0f})"
            for row in both
        )
        why += "."
    what = f"{aggregation}: SBA's spikes to PBA's"
    return Finding(what, f"{theirs:.0f} times (of the slowest)", seen, agrees, why)


def _growth(aggregation: str, small: Row, large: Row, paper: Summaries) -> Finding:
    """Two-Stacks' spikes in a window twice as large."""
    theirs, ours = paper[1][0] / paper[0][0], large["spike"] / small["spike"]
    agrees = near(ours, theirs)
    what = f"{aggregation}: TwoStacks' spikes in a window twice as large"
    why = (
        "A spike is a flip, which combines each value of the window once, so a window twice as "
        "large takes twice as long. The paper reports the slowest computation, whatever made it "
        "slow."
    )
    return Finding(what, f"{theirs:.1f} times (of the slowest)", f"{ours:.1f} times", agrees, why)


def _medians(aggregation: str, rows: dict[str, Row], paper: Mapping[str, Summaries]) -> Finding:
    """SBA's median beside that of Two-Stacks, and what of both is combines."""
    theirs = paper["SBA"][1][3] / paper["TwoStacks"][1][3]
    ours = rows["SBA"]["median"] / rows["TwoStacks"]["median"]
    reported = [
        f"the {row['combines']:.1f} combines of {row['algorithm']} take "
        f"{row['combines'] * row['combine_ns']:,.0f} of its {row['median']:,.0f} ns"
        for row in (rows["SBA"], rows["TwoStacks"])
    ]
    agrees = near(ours, theirs)
    what = f"{aggregation}: SBA's median to TwoStacks'"
    why = f"In the median, {', and '.join(reported)}."
    return Finding(what, f"{theirs:.2f} times", f"{ours:.2f} times", agrees, why)


def draw_latency(rows: Rows) -> Figure:
    """Figure 7: the slowest window of each stretch, a column an aggregation, a row a range."""
    names = distinct(rows, "aggregation")
    algorithms = sorted(distinct(rows, "algorithm"), key=list(MAX).index)
    figure = Figure(figsize=(3.6 * len(names), 6.4))
    grid = figure.subplots(2, len(names), squeeze=False, sharey="col")
    for column, name in enumerate(names):
        some = where(rows, aggregation=name)
        for line, reach in enumerate(distinct(some, "range")):
            axes = grid[line, column]
            for row in where(some, range=reach):
                slowest = [float(text) / 1e3 for text in str(row["slowest"]).split()]
                first = row["windows"] - row["drawn"]
                at = np.linspace(first, row["windows"], len(slowest), endpoint=False)
                number = algorithms.index(row["algorithm"])
                axes.plot(at, slowest, lw=0.8, label=row["algorithm"], **look(number))
            dress(axes, ("window", "slowest of a stretch, us"), ("linear", "log"))
            axes.set_title(f"{name}, range {reach:,}")
    legend(figure)
    return figure
