"""The MTA paper's Experiment 3 and its Table 2: monoids and frames over a memory-usage stream.

The paper's own stream (62,208,000 readings, one a second for two years) is not public. Ours has as
many readings and is made to look like such a machine's: a daily and a weekly rhythm, jobs that
start every hour, grow, and end within three, a random walk within the day, and noise. Readings are
MiB in use of 128 GiB, in whole KiB. The same part of the stream is the same in every run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from cProfile import Profile
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.mta.algorithms import (
    ON_DISK,
    OVER_REDIS,
    Rule,
    Sliding,
    left_out,
    measurable,
    opened,
    with_waits,
)
from benchmarks.papers.operators import operators
from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Row,
    Rows,
    distinct,
    where,
)
from benchmarks.report.fits import ratio
from benchmarks.report.plots import grouped_bars
from mta import CountWindow, Max, Mean, SampleStdDev, Sum, Window
from mta.aggregations import AbstractMonoid, GeometricMean, LongestIncreasingRun
from mta.frames import SinceLongestRun, SinceMax

WINDOW = 2**20
#: A cell of the table is given up after so long, its mean then being of fewer updates.
SECONDS = 40.0
#: By the clock it is the median of stretches of so many updates: a machine may stand still.
STRETCH = 2**12
NAMES = (
    "Naive", "Log MTA, on disk", "Log MTA, over Redis", "Log MTA, pairs", "Two-Stacks", "DABA",
    "Amortized MTA, on disk", "Amortized MTA, over Redis", "Amortized MTA, pairs", "Amortized MTA",
)  # fmt: skip
BATCHES = "Amortized MTA, on disk, batches"
#: The paper's Table 2: local Amortized MTA beside DABA, and beside Amortized MTA in the store.
PAPER = {
    "Sum": (4163, 4288, 6253), "Mean": (4033, 4389, 6111), "G. Mean": (4183, 4795, 6198),
    "Std. Dev.": (3864, 4880, 6131), "Max": (1763, 3500, 2886), "LIS": (6476, 10027, 7350),
}  # fmt: skip
PAPER_WINDOW = 2**20
#: How many functions of Python an update calls, counted by a profiler while a window of 2^16 is
#: slid by its length (``python -m benchmarks.papers.mta.streams``).
COUNTED_IN = 2**16
CALLED = (
    "Amortized MTA", "Amortized MTA, on disk", "DABA", "Log MTA, pairs", "Amortized MTA, pairs",
)  # fmt: skip
CALLS = {
    "Sum": (3.3, 3.4, 47.0, 287.1, 194.0), "Mean": (19.4, 19.5, 52.0, 324.1, 209.5),
    "G. Mean": (19.4, 19.5, 52.0, 324.1, 209.5), "Std. Dev.": (19.4, 19.5, 52.0, 324.1, 209.5),
    "Max": (8.8, 8.9, 66.5, 114.7, 114.4), "LIS": (167.1, 178.1, 361.4, 482.4, 321.4),
}  # fmt: skip
#: The same of Max in Naive and in Two-Stacks, in a window of 2^20, as maxima are rarer there.
NAIVE_CALLS = 53.8, 50.5
COUNTED = "(counted by a profiler in a window of 2^16)"


# --- the stream ----------------------------------------------------------------------------------

DAY, HOUR = 86_400, 3_600
DAYS = 720
READINGS = DAYS * DAY
TOTAL = 131_072.0
SEED = 62_208


def memory_usage(count: int) -> np.ndarray:
    """The first so many readings, as one array."""
    days = [one for one, _ in zip(days_of_usage(), range(-(-count // DAY)), strict=False)]
    return np.concatenate(days)[:count]


def days_of_usage() -> Iterator[np.ndarray]:
    """Day by day, 86,400 readings each."""
    jobs = np.random.default_rng(SEED).gamma(1.5, 4_000, DAYS * 24 + 3)
    for day in range(DAYS):
        yield _day(day, jobs)


def _day(day: int, jobs: np.ndarray) -> np.ndarray:
    seconds = np.arange(DAY) + day * DAY
    hour, within = seconds // HOUR, (seconds % HOUR) / HOUR
    level = 40_000 + 9_000 * np.sin(2 * np.pi * seconds / DAY - 2)
    level = level + 4_000 * np.sin(2 * np.pi * seconds / (7 * DAY))
    # A job grows for an hour, stays for one, and ends in the third.
    level += jobs[hour + 3] * within + jobs[hour + 2] + jobs[hour + 1] * (within < 0.5)
    random = np.random.default_rng([SEED, day])
    walk = random.normal(0, 12, DAY).cumsum()
    walk -= walk[-1] * np.arange(DAY) / DAY  # back where it was, so that days join
    level += walk + random.normal(0, 6, DAY)
    bounded: np.ndarray = np.clip(np.round(level * 1024) / 1024, 1_000, TOTAL)
    return bounded


# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """A line of Table 2: a monoid in plain Python, its columnar form, and its frame."""

    name: str
    monoid: AbstractMonoid
    rule: Callable[[int], Rule]
    columnar: AbstractMonoid | None = None
    timed: bool = False
    """Whether a value is a pair of reading and second."""


def operations() -> list[Operation]:
    """The lines of Table 2."""
    plain = operators()
    runs = LongestIncreasingRun("i8")
    return [
        Operation("Sum", plain["Sum"].monoid, Rule, Sum()),
        Operation("Mean", plain["ArithMean"].monoid, Rule, Mean()),
        Operation("G. Mean", plain["GeoMean"].monoid, Rule, GeometricMean()),
        Operation("Std. Dev.", plain["StdDev"].monoid, Rule, SampleStdDev()),
        Operation("Max", plain["Max"].monoid, since_max, Max()),
        Operation("LIS", runs, _since_run, timed=True),
    ]


def since_max(size: int) -> Rule:
    """At most so many readings, and of these what follows the oldest maximum."""
    return Rule(size, lambda prefix, total: prefix < total, SinceMax(own=True))


def _since_run(size: int) -> Rule:
    evicts: Callable[[Any, Any], bool] = lambda prefix, total: prefix.events <= total.before  # noqa: E731
    return Rule(size, evicts, SinceLongestRun())


def table_2(size: float, progress: Progress) -> Rows:
    """The mean latency of each operation and algorithm, and of the whole stream in batches."""
    window = max(64, int(WINDOW * size))
    readings = memory_usage(2 * window).tolist()
    names = [name for name in NAMES if name in measurable()]
    cells = [(one, name) for one in operations() for name in names]

    def measure(cell: tuple[Operation, str]) -> Rows:
        one, name = cell
        values = list(zip(readings, range(len(readings)), strict=True)) if one.timed else readings
        row: Row = {"operation": one.name, "algorithm": name, "window": window}
        return [row | latency(one, name, window, values, SECONDS * max(size, 0.01))]

    def measure_batched(one: Operation) -> Rows:
        assert one.columnar is not None
        row: Row = {"operation": one.name, "algorithm": BATCHES, "window": window}
        return [row | in_batches(one.columnar, window, int(READINGS * size))]

    rows = progress.rows(cells, measure, lambda cell: f"{cell[0].name}, {cell[1]}")
    batched = [one for one in operations() if one.columnar is not None]
    rows += progress.rows(batched, measure_batched, lambda one: f"{one.name}, in batches")
    require_alike(rows)
    return rows


def latency(one: Operation, name: str, window: int, values: Sequence[Any], seconds: float) -> Row:
    """Nanoseconds of the processor's time an update, after as many as the window may hold."""
    with opened(name, one.monoid, one.rule(window)) as sliding:
        fill(sliding, one, name, values[:window])
        slide, done, marks = sliding.slide, 0, [perf_counter()]
        began, stop = process_time(), marks[0] + seconds
        for value in values[window:]:
            result = slide(value)
            done += 1
            now = perf_counter()
            if not done % STRETCH:
                marks.append(now)
            if now > stop:
                break
        taken = process_time() - began
    row = {"updates": done, "ns": 1e9 * taken / done, "last": str(result)}
    clock = np.diff(marks) / STRETCH if len(marks) > 1 else (now - marks[0]) / done
    return row | {"clock_ns": 1e9 * float(np.median(clock))}


def fill(sliding: Sliding, one: Operation, name: str, first: Sequence[Any]) -> None:
    """Have the first readings in, as many as the window may hold."""
    if one.rule is Rule:
        sliding.begin(list(first))
    elif name == "Naive":
        sliding.fill(list(first))
    else:
        for value in first:
            sliding.slide(value)


def calls_of(one: Operation, name: str, window: int) -> float:
    """How many functions of Python an update calls, over as many updates as the window may hold."""
    readings = memory_usage(2 * window).tolist()
    values = list(zip(readings, range(len(readings)), strict=True)) if one.timed else readings
    with opened(name, one.monoid, one.rule(window)) as sliding:
        fill(sliding, one, name, values[:window])
        profile, slide = Profile(builtins=False), sliding.slide
        profile.enable()
        for value in values[window:]:
            slide(value)
        profile.disable()
    counted = sum(entry.callcount for entry in profile.getstats())
    return counted / window


def in_batches(monoid: AbstractMonoid, window: int, count: int) -> Row:
    """Nanoseconds an update of a count window over so many readings, in batches of a day."""
    taken, done, last = 0.0, 0, 0.0
    with TemporaryDirectory() as folder:
        sliding = Window(monoid, CountWindow(window), store=f"file://{folder}")
        for day in days_of_usage():
            some = day[: count - done]
            if not len(some):
                break
            began = process_time()
            last = float(sliding.extend(some)[-1])
            taken += process_time() - began
            done += len(some)
        sliding.close()
    return {"updates": done, "ns": 1e9 * taken / done, "last": str(last)}


def found(rows: Rows) -> list[Finding]:
    """Who is fastest, what a store costs, and what the frames of Max and LIS save."""
    rows = with_waits(rows, "ns")
    table = {(row["operation"], row["algorithm"]): row["ns"] for row in rows}
    findings = left_out(distinct(rows, "algorithm"))
    for name, (local, daba, stored) in PAPER.items():
        ours = table[name, "Amortized MTA"]
        in_memory, on_disk, of_daba, of_log, of_pairs = CALLS[name]
        less = f"An update calls {in_memory} Python functions, and {of_daba} in DABA {COUNTED}."
        if in_memory >= of_daba:  # then calls are no reason
            less = ""
        what = f"{name}: Amortized MTA in memory to DABA"
        findings.append(ratio(what, local / daba, ours, table[name, "DABA"], "ns", less))
        for peer in (f"Amortized MTA{ON_DISK}", f"Amortized MTA{OVER_REDIS}"):
            if (name, peer) not in table:
                continue
            why = (
                f"A store adds {table[name, peer] - ours:,.0f} ns per update here, and "
                f"{stored - local:,} ns in the paper. Here it is called only once per leaf group: "
                f"an update calls {on_disk} Python functions, and {in_memory} in memory {COUNTED}."
            )
            what = f"{name}: Amortized MTA in memory to {peer}"
            findings.append(ratio(what, local / stored, ours, table[name, peer], "ns", why, why))
        pairs = table[name, "Log MTA, pairs"], table[name, "Amortized MTA, pairs"]
        what = f"{name}: Log MTA to Amortized MTA, both with pairs"
        why = (
            f"An update calls {of_log} Python functions in Log MTA and {of_pairs} in Amortized "
            f"MTA {COUNTED}: {of_log / of_pairs:.1f} times as many."
        )
        findings.append(ratio(what, (2.4, 3.5), *pairs, "ns", why))
    return [*findings, *_frames(table, rows[0]["window"])]


def _frames(table: dict[tuple[str, str], float], window: int) -> list[Finding]:
    others = median(table["Max", name] for name in NAMES[1:] if ("Max", name) in table)
    share = window / PAPER_WINDOW  # recalculating is linear in the window
    linear = f"Naive is linear in the window, which is {share:.2g} times as large as the paper's."
    calls = (
        f"An update calls {NAIVE_CALLS[0]} Python functions in Naive, which remembers its result "
        f"until an event leaves, and {NAIVE_CALLS[1]} in Two-Stacks (counted by a profiler in a "
        "window of 2^20). In Python, both cost about the same."
    )
    value, paper = table["Sum", "Naive"] / window, 86_000 * PAPER["Sum"][1] / PAPER_WINDOW
    fewer = f"Naive takes {value:,.1f} ns per value here, and {paper:,.0f} ns in the paper."
    what = "Sum: Naive to DABA" + ("" if share == 1 else f" (the paper's ratio times {share:.2g})")
    return [
        ratio(
            "Max: Naive to the median of the others", 0.6, table["Max", "Naive"], others, "ns",
            less="" if share == 1 else linear, more=calls,
        ),
        ratio(what, 86_000 * share, table["Sum", "Naive"], table["Sum", "DABA"], "ns", fewer),
    ]  # fmt: skip


def require_alike(rows: Rows) -> None:
    """What is timed must be right: after the same updates all algorithms answer the same."""
    for one in operations():
        some = [row for row in where(rows, operation=one.name) if row["algorithm"] != BATCHES]
        most = max(row["updates"] for row in some)
        last = [str(row["last"]) for row in some if row["updates"] == most]
        if not _close(last):
            raise AssertionError(f"{one.name} after {most} updates: the algorithms differ: {last}")


def _close(texts: list[str]) -> bool:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return len(set(texts)) == 1
    return max(numbers) - min(numbers) <= 1e-9 * max(map(abs, numbers))


def draw_table_2(rows: Rows) -> Figure:
    """The table as bars, those with a store on the network by the clock."""
    return grouped_bars(with_waits(rows, "ns"), "operation", "algorithm", "ns", "ns an update")


EXPERIMENTS = (
    Experiment(
        "mta_streams",
        "Monoids and frames over two years of memory usage",
        "MTA paper, Experiment 3, Table 2",
        "All operations are fastest in Amortized MTA in memory, and DABA is close behind. Max and "
        "LIS evict in bulk everything older than the maximum or the run. This halves their time "
        "compared with DABA, and makes Naive the second fastest for Max. Log MTA takes 2.5 to 3 "
        "times as long. Keeping the data in the store takes half as long again.",
        f"The stream is generated, because the paper's is not public: {READINGS:,} readings, one "
        "per second for two years. The first readings fill a window of 2^20. It then slides over "
        "as many readings again, one by one, or until the time of a cell is used up (the CSV file "
        'has the number of updates). "Batches" runs the whole stream (at a smaller size, that '
        "share of it) through count windows, one day at a time. The frames of Max and LIS depend "
        "on the window's result, as in the paper. LIS is the longest run of increasing neighbors. "
        "Redis runs on the same machine, and is measured by elapsed time.",
        table_2,
        {"table_2": draw_table_2},
        found,
        captions={
            "table_2": (
                "nanoseconds per update for each operation and algorithm, on a logarithmic axis. "
                "In the paper, Amortized MTA in memory is the lowest bar of each group, and DABA "
                "the next. Naive is five orders of magnitude higher, except for Max and LIS, whose "
                "frames evict many events at once."
            ),
        },
        quick=2**-9,
        columns=("operation", "algorithm", "window", "updates", "ns"),
    ),
)  # fmt: skip


def count_calls() -> Iterator[str]:
    """What CALLS and NAIVE_CALLS have, counted again for some ten minutes, line by line."""
    for one in operations():
        for name in CALLED:
            yield f"{one.name}, {name}: {calls_of(one, name, COUNTED_IN):.1f}\n"
        if one.rule is since_max:
            for name in ("Naive", "Two-Stacks"):
                yield f"{one.name}, {name}: {calls_of(one, name, WINDOW):.1f}\n"


if __name__ == "__main__":
    sys.stdout.writelines(count_calls())
