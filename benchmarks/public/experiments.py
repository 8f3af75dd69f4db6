"""Public benchmarks in plain Python, on one core: rows a second.

Each result is checked against plain lists over the first rows of its stream before it is timed.
``benchmarks.spark.public`` has the same streams on Spark.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.public.streams import (
    HOP,
    LENGTH,
    MINUTE,
    SECOND,
    START,
    Bids,
    Records,
    bids,
    concurrent,
    readings,
    records,
)
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows
from benchmarks.report.plots import bars
from mta import KeyedWindows, Max, SharedWindows, Sum, TimeWindow

BIDS, RECORDS, READINGS = 4_000_000, 4_000_000, 2_000_000
WINDOWS = (1, 10, 100, 1000)
#: So many rows are compared with plain lists; a batch has so many; a figure is of so many runs.
CHECKED, BATCH, TIMES = 3_000, 100_000, 3
TEN_SECONDS = TimeWindow(LENGTH // SECOND)

Hottest = tuple[int, list[int], int]
"""A boundary, the auctions with most bids in the ten seconds before it, and how many these are."""


# --- Nexmark's query 5 ----------------------------------------------------------------------------


def hot_items(stream: Bids) -> Iterator[Hottest]:
    """The auctions with most bids in ten seconds, every two: query 5.

    A hop's bids are counted by auction; a window over these counts has an entry a hop for each
    auction that it may hold, 0 where there was no bid.
    """
    windows = KeyedWindows(Sum("int64"), TEN_SECONDS, store=None)
    held: dict[int, int] = {}
    last = int(stream.times[-1])
    for boundary in range(START + HOP, last + 1, HOP):
        auctions, counts = np.unique(
            stream.between(boundary - HOP, boundary).auctions, return_counts=True
        )
        held = {key: until for key, until in held.items() if until > boundary}
        new = dict.fromkeys(auctions.tolist(), boundary + LENGTH)
        quiet = [key for key in held if key not in new]
        held |= new
        keys = np.concatenate((auctions, np.array(quiet, "i8")))
        values = np.concatenate((counts, np.zeros(len(quiet), "i8")))
        found = windows.extend(keys, values, np.full(len(keys), boundary).view("M8[us]"))
        most = int(found.max())
        yield boundary, sorted(keys[found == most].tolist()), most


def hot_items_of_lists(stream: Bids) -> Iterator[Hottest]:
    """The same of plain lists."""
    pairs = list(zip(stream.times.tolist(), stream.auctions.tolist(), strict=True))
    for boundary in range(START + HOP, pairs[-1][0] + 1, HOP):
        counts = Counter(a for time, a in pairs if boundary - LENGTH <= time < boundary)
        most = max(counts.values())
        yield boundary, sorted(a for a, count in counts.items() if count == most), most


def exact_counts(stream: Bids) -> np.ndarray:
    """After every bid, the bids of its auction in the ten seconds that end with it.

    This is query 5's aggregation exact at every event; its maximum over auctions has no window.
    """
    windows, parts = KeyedWindows(Sum("int64"), TEN_SECONDS, store=None), []
    for at in range(0, len(stream), BATCH):
        keys, times = stream.auctions[at : at + BATCH], stream.times[at : at + BATCH]
        parts.append(windows.extend(keys, np.ones(len(keys), "i8"), times.view("M8[us]")))
    return np.concatenate(parts)


def exact_counts_of_lists(stream: Bids) -> list[int]:
    """The same of plain lists."""
    times, auctions = stream.times.tolist(), stream.auctions.tolist()
    return [
        sum(a == auction and other > now - LENGTH
            for a, other in zip(auctions[: at + 1], times[: at + 1], strict=True))
        for at, (auction, now) in enumerate(zip(auctions, times, strict=True))
    ]  # fmt: skip


def nexmark(size: float, progress: Progress) -> Rows:
    """Bids a second of query 5, hopping and exact."""
    stream = bids(max(CHECKED, int(BIDS * size)))
    first = Bids(stream.auctions[:CHECKED], stream.times[:CHECKED])
    if exact_counts(first).tolist() != exact_counts_of_lists(first):
        raise AssertionError("the exact counts are other than those of plain lists")
    spread = Bids(first.auctions, START + np.arange(CHECKED) * (4 * LENGTH // CHECKED))
    if list(hot_items(spread)) != list(hot_items_of_lists(spread)):
        raise AssertionError("the hot items are other than those of plain lists")
    sides: dict[str, Callable[[], object]] = {
        "query 5, hop 10 s by 2 s": lambda: list(hot_items(stream)),
        "query 5's counts, exact after every bid": lambda: exact_counts(stream),
    }
    reported = progress.over(list(sides))
    return [row("Nexmark", name, len(stream), timed(sides[name])) for name in reported]


# --- ShuffleBench ---------------------------------------------------------------------------------


def peaks(stream: Records, url: str | None) -> np.ndarray:
    """After every record, its consumer's largest value of a minute; a checkpoint a batch."""
    parts = []
    with KeyedWindows(Max(), MINUTE, store=url, name="shuffle") as windows:
        for at in range(0, len(stream.times), BATCH):
            some = slice(at, at + BATCH)
            times = stream.times[some].view("M8[us]")
            parts.append(windows.extend(stream.consumers[some], stream.values[some], times))
            if url is not None:
                windows.checkpoint()
    return np.concatenate(parts)


def peaks_of_lists(stream: Records, count: int) -> list[float]:
    """The same of plain lists, for the first records."""
    rows = list(zip(stream.consumers[:count].tolist(), stream.values[:count].tolist(),
                    stream.times[:count].tolist(), strict=True))  # fmt: skip
    return [
        max(v for k, v, t in rows[: at + 1] if k == key and t > now - 60 * SECOND)
        for at, (key, _, now) in enumerate(rows)
    ]


def shuffle(size: float, progress: Progress) -> Rows:
    """Records a second of a million consumers."""
    consumers = max(1_000, int(1_000_000 * min(1, 10 * size)))
    stream = records(max(CHECKED, int(RECORDS * size)), consumers)
    if peaks(stream, None)[:CHECKED].tolist() != peaks_of_lists(stream, CHECKED):
        raise AssertionError("the peaks are other than those of plain lists")
    rows = []
    for where in progress.over(["in memory", "pages on local disk"]):

        def side(on_disk: bool = where != "in memory") -> object:
            with tempfile.TemporaryDirectory() as folder:
                return peaks(stream, f"file://{folder}" if on_disk else None)

        name = f"{consumers:,} consumers by Zipf, max of a minute, {where}"
        rows.append(row("ShuffleBench", name, len(stream.times), timed(side)))
    return rows


# --- Scotty ---------------------------------------------------------------------------------------


def all_windows(values: np.ndarray, times: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """After every reading, the sums of so many concurrent windows.

    Scotty's windows tumble, and answer once; these answer at every reading.
    """
    windows = SharedWindows(Sum("int64"), concurrent(count), store=None)
    return windows.extend(values, times.view("M8[us]"))


def scotty(size: float, progress: Progress) -> Rows:
    """Readings a second of more and more concurrent windows."""
    rows = []
    for count in progress.over(WINDOWS, "{} windows".format):
        most = max(10, count)  # a window's result a reading is an array
        values, times = readings(max(CHECKED, int(READINGS * size * 10 / most)))
        whole = np.round(values * 1000).astype("i8")
        found = all_windows(whole[:CHECKED], times[:CHECKED], count)
        for name, frame in concurrent(count).items():
            fronts = np.searchsorted(times[:CHECKED], times[:CHECKED] - frame.size, "right")
            sums = np.concatenate(([0], whole[:CHECKED].cumsum()))
            np.testing.assert_array_equal(found[name], sums[1:] - sums[fronts])
        name = f"{count:,} window{'s' * (count > 1)} of 1 to 20 s, sums after every reading"
        taken = timed(partial(all_windows, whole, times, count))
        rows.append(row("Scotty", name, len(values), taken))
    return rows


# --- what all share -------------------------------------------------------------------------------


def timed(side: Callable[..., object]) -> float:
    """The median seconds of a few runs."""
    taken = []
    for _ in range(TIMES):
        began = perf_counter()
        side()
        taken.append(perf_counter() - began)
    return median(taken)


def row(benchmark: str, name: str, count: int, seconds: float, cores: int = 1) -> Row:
    """A row of the table."""
    each: dict[str, Any] = {"benchmark": benchmark, "what": name, "rows": count, "cores": cores}
    return each | {"seconds": seconds, "rows_a_second_and_core": count / seconds / cores}


def draw(rows: Rows) -> Figure:
    """Rows a second and core as bars."""
    names = [f"{one['benchmark']}: {one['what']}" for one in rows]
    values = [one["rows_a_second_and_core"] / 1e3 for one in rows]
    return bars(names, values, "thousand rows/s per core")


def found(rows: Rows) -> list[Finding]:
    """Each figure; the benchmarks' own results are of other machines, so nothing is compared."""
    return [
        Finding(
            f"{one['benchmark']}: {one['what']}, {one['rows']:,} rows", "",
            f"{one['rows_a_second_and_core'] / 1e3:,.0f} k rows/s per core",
        )
        for one in rows
    ]  # fmt: skip


SETTING = (
    "One core and one process. The median of three runs; the results are first checked against "
    "plain lists."
)

EXPERIMENTS = (
    Experiment(
        "public_nexmark", "Nexmark, query 5",
        "Nexmark, query 5 (hot items)",
        "The auctions with the most bids in the last ten seconds, every two seconds. Published "
        "figures are of clusters.",
        f'{SETTING} {BIDS:,} bids at 10,000 events per second. "Hopping" first counts the bids '
        'of each hop. "Exact" gives, for each bid, the count of its auction in the ten seconds '
        "that end with the bid.",
        nexmark, {"rows": draw}, found, quick=0.1,
    ),
    Experiment(
        "public_shuffle", "ShuffleBench",
        "ShuffleBench, ICPE 2024",
        "Records are distributed to a million consumers, each with a small state. Published "
        "figures are of clusters.",
        f"{SETTING} {RECORDS:,} records in batches of {BATCH:,}. Where pages are on disk, each "
        "batch ends with a checkpoint.",
        shuffle, {"rows": draw}, found, quick=0.1,
    ),
    Experiment(
        "public_scotty", "Scotty, many concurrent windows",
        "General stream slicing, EDBT 2019, evaluation",
        "Throughput hardly depends on the number of concurrent windows, because they share slices "
        "and give results once per slice.",
        f"{SETTING} {READINGS:,} readings, or fewer with more windows. Every window gives a result "
        "for every reading, which is more than Scotty does, so the work grows with the windows.",
        scotty, {"rows": draw}, found, quick=0.1,
    ),
)  # fmt: skip
