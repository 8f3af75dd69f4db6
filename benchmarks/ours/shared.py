"""Multiple windows over one stream, compared with the longest of them alone.

The stream has four million readings over sixty days, one every 1.3 seconds. The experiment computes
all results of windows of 5 minutes, an hour, a day and 30 days. Events arrive at a constant rate,
or at random times. With random times, windows of sums search for their front at every event, which
is most of their cost. Windows of maxima search only for fronts at which the fold changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks.report.beside import Figure, alternate, beside
from mta import CountWindow, Max, Mean, TimeWindow, Window
from mta.aggregations import AbstractMonoid
from mta.windows.shared import SharedWindows
from stores import MemoryStore, PageStore, open_store
from stores.testing.counting import CountingStore

EVENTS, DAYS = 4_000_000, 60
DAY = 86_400_000_000
WINDOWS = ("5 minutes", "1 hour", "24 hours", "30 days")
LONGEST = "30 days"
#: The number of runs of each side.
TIMES = 5

Feed = Callable[[PageStore | None, AbstractMonoid, np.ndarray, np.ndarray], object]


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event, and pages."""
    count = int(EVENTS * size)
    values = np.random.default_rng(1).normal(100, 10, count)
    gap = DAYS * DAY // EVENTS
    steady = (np.arange(count) * gap).view("M8[us]")
    gaps = np.random.default_rng(2).exponential(gap, count)
    random = np.cumsum(gaps).astype("i8").view("M8[us]")
    check(values, random)
    figures = []
    for pace, times in (("", steady), (", at random times", random)):
        for monoid in (Max(), Mean()):
            for where in ("in memory", "on local disk"):
                sides = [partial(timed, feed, where, monoid, values, times) for feed in (one, four)]
                what = f"{monoid.name.lower()}, {where}{pace}"
                figures.append(_figure(what, sides, count, "<= 2"))
    sides = [partial(timed, feed, "in memory", Max(), values, random) for feed in (separate, four)]
    what = "max, in memory, at random times, compared with four separate windows"
    figures.append(_figure(what, sides, count, "", "four separate windows"))
    for monoid in (Max(), Mean()):
        some = values[: max(count // 40, 10_000)].tolist()
        sides = [partial(one_by_one, monoid, some, together) for together in (False, True)]
        what = f"{monoid.name.lower()}, single events, compared with four separate windows"
        figures.append(_figure(what, sides, len(some), "<= 1", "four separate windows"))
    return [*figures, *pages(values, steady)]


def _figure(
    what: str,
    sides: Sequence[Callable[[], object]],
    count: int,
    limit: str,
    peer: str = f"{LONGEST} alone",
) -> Figure:
    other, together = (1e9 * seconds / count for seconds in alternate(sides, TIMES))
    ours = f"{together:.1f} ns"
    return Figure(what, ours, f"{other:.1f} ns, {peer}", together / other, limit)


def timed(
    feed: Feed, where: str, monoid: AbstractMonoid, values: np.ndarray, times: np.ndarray
) -> object:
    """Compute all results of all windows; pages on disk are durable at the end."""
    if where == "in memory":
        return feed(None, monoid, values, times)
    with tempfile.TemporaryDirectory() as folder, open_store(f"file://{folder}") as store:
        return feed(store, monoid, values, times)


def one(
    store: PageStore | None, monoid: AbstractMonoid, values: np.ndarray, times: np.ndarray
) -> object:
    """Compute only the longest window."""
    return Window(monoid, TimeWindow(LONGEST), store=store).extend(values, times)


def separate(
    store: PageStore | None, monoid: AbstractMonoid, values: np.ndarray, times: np.ndarray
) -> object:
    """Compute all windows, each over its own structure."""
    return [
        Window(monoid, TimeWindow(name), store=store, name=name[0]).extend(values, times)
        for name in WINDOWS
    ]


def four(
    store: PageStore | None, monoid: AbstractMonoid, values: np.ndarray, times: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute all windows over one structure."""
    windows = {name: TimeWindow(name) for name in WINDOWS}
    return SharedWindows(monoid, windows, store=store).extend(values, times)


def one_by_one(monoid: AbstractMonoid, values: list[float], together: bool) -> object:
    """Insert events one at a time, and compute the results of four windows by count after each."""
    frames = {str(size): CountWindow(size) for size in (10, 100, 1000, 5000)}
    windows: list[Window | SharedWindows] = (
        [SharedWindows(monoid, frames, None)]
        if together
        else [Window(monoid, frame, None) for frame in frames.values()]
    )
    found: list[object] = []
    for value in values:
        found.clear()
        for window in windows:
            window.insert(value)
            found.append(window.query())
    return found


def pages(values: np.ndarray, times: np.ndarray) -> list[Figure]:
    """Measure the pages that one window and four windows write, read and retain."""
    counts, left = [], []
    for feed in (one, four):
        store = CountingStore(MemoryStore())
        feed(store, Max(), values, times)
        counts.append((store.counts.put.pages, store.counts.get.pages))
        left.append(len(list(store.store.keys())))
    (written, read), (written_by_four, read_by_four) = counts
    reported = [
        ("pages written", written_by_four, written),
        ("pages written and read", written_by_four + read_by_four, written + read),
        ("pages in the store at the end", left[1], left[0]),
    ]
    return [
        Figure(what, f"{together:,}", f"{alone:,}", together / alone, "<= 2")
        for what, together, alone in reported
    ]


def check(values: np.ndarray, times: np.ndarray) -> None:
    """Require that each of the four windows has the results that it has alone."""
    values, times = values[:200_000], times[:200_000]  # spans several groups
    together = four(None, Max(), values, times)
    for name in WINDOWS:
        alone = Window(Max(), TimeWindow(name), store=None).extend(values, times)
        np.testing.assert_array_equal(together[name], alone)


EXPERIMENTS = (
    beside(
        "shared",
        "Multiple windows",
        "Four windows of 5 minutes, an hour, a day and 30 days over 4 million readings of 60 "
        "days. Each event has one result per window. They are compared with the window of 30 days "
        "alone. Time per event.",
        run,
        quick=0.25,
    ),
)
