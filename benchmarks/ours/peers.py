"""Other libraries for sliding windows in Python, compared with ours in one run.

Every installed peer computes all results of a count window over the same values; the others are
listed and skipped. A peer with rolling windows computes a whole batch. A peer with the state of a
window takes values one at a time. Before they are timed, peers must return the same results as
ours.

quix-streams stores its windows, as this project does. Its sliding window of n values consists of n
windows, one started by each value. Each value is folded into all open windows, which are one JSON
document that is read and written with every value. So it gets fewer values and no large windows. It
runs without a broker: the experiment calls the window's method with a transaction of its RocksDB
store, as streams of quix-streams do for each message.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from itertools import count, product
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Rows,
    distinct,
    points,
    where,
)
from benchmarks.report.fits import shape
from benchmarks.report.plots import lines
from mta import CountWindow, Max, Mean, SampleStdDev, Sum, Window
from mta.aggregations import AbstractMonoid
from mta.algorithms import DABA
from mta.cli.console import say

EVENTS, LARGEST, TIMES = 4_000_000, 20, 3
#: The number of values in single insertions, and the largest window.
SINGLE = 200_000
#: DuckDB evaluates frames with a segment tree; one query computes all values.
MONOIDS: dict[str, AbstractMonoid] = {
    "max": Max(), "sum": Sum(), "mean": Mean(), "std": SampleStdDev(),
}  # fmt: skip

Values = np.ndarray
#: Returns all results over values, for a function's name and a window's size.
Rolling = Callable[[str, int, Values], Values]
Peers = dict[str, tuple[str, Rolling]]


def in_memory(function: str, size: int, values: Values) -> Values:
    """Run ours without a store."""
    results: Values = Window(MONOIDS[function], CountWindow(size), store=None).extend(values)
    return results


def on_disk(function: str, size: int, values: Values) -> Values:
    """Run ours with pages on local disk."""
    with TemporaryDirectory() as folder:
        window = Window(MONOIDS[function], CountWindow(size), store=f"file://{folder}")
        results: Values = window.extend(values)
        window.close()
    return results


def with_pandas(function: str, size: int, values: Values) -> Values:
    """Run pandas' compiled rolling."""
    import pandas as pd

    rolling = pd.Series(values).rolling(size, min_periods=1)
    results: Values = getattr(rolling, function)().to_numpy()
    return results


def with_polars(function: str, size: int, values: Values) -> Values:
    """Run polars' compiled rolling, with its default number of threads."""
    polars = import_module("polars")
    rolling = getattr(polars.Series(values), f"rolling_{function}")
    results: Values = rolling(size, min_samples=1).to_numpy()
    return results


def with_bottleneck(function: str, size: int, values: Values) -> Values:
    """Run bottleneck's compiled moving windows."""
    options = {"ddof": 1} if function == "std" else {}
    move = getattr(import_module("bottleneck"), f"move_{function}")
    results: Values = move(values, window=min(size, len(values)), min_count=1, **options)
    return results


def with_duckdb(function: str, size: int, values: Values) -> Values:
    """Run DuckDB's window function over a frame of rows."""
    name = {"mean": "avg", "std": "stddev_samp"}.get(function, function)
    frame = f"ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW"
    query = f"SELECT {name}(v) OVER (ORDER BY i {frame}) AS r FROM rows ORDER BY i"
    connection = import_module("duckdb").connect()
    rows = import_module("pandas").DataFrame({"i": np.arange(len(values)), "v": values})
    connection.register("rows", rows)
    found = connection.execute(query).fetchnumpy()["r"]
    connection.close()
    results: Values = np.ma.filled(found, np.nan)
    return results


def one_by_one(function: str, size: int, values: Values) -> Values:
    """Run ours with an insertion and a query per value."""
    window = Window(MONOIDS[function], CountWindow(size), store=None)

    def slide(value: float) -> Any:
        window.insert(value)
        return window.query()

    return _each(values, slide)


def one_by_one_on_disk(function: str, size: int, values: Values) -> Values:
    """Run ``one_by_one`` with pages on local disk, and a checkpoint at the end."""
    with TemporaryDirectory() as folder:
        window = Window(MONOIDS[function], CountWindow(size), store=f"file://{folder}")

        def slide(value: float) -> Any:
            window.insert(value)
            return window.query()

        results = _each(values, slide)
        window.checkpoint()
        window.close()
    return results


def with_daba(function: str, size: int, values: Values) -> Values:
    """Run this project's DABA, in memory."""
    window = DABA(MONOIDS[function])

    def slide(value: float) -> Any:
        if len(window) == size:
            window.evict()
        window.insert(value)
        return window.query()

    return _each(values, slide)


def with_river(function: str, size: int, values: Values) -> Values:
    """Run river's rolling statistics, which are updated value by value."""
    stats, utils = import_module("river.stats"), import_module("river.utils")
    if function == "max":
        window = stats.RollingMax(size)
    else:
        of = {"sum": stats.Sum, "mean": stats.Mean, "std": stats.Var}[function]
        window = utils.Rolling(of(), window_size=size)

    def slide(value: float) -> Any:
        window.update(value)
        return window.get()

    results = _each(values, slide)
    return np.sqrt(results) if function == "std" else results


def with_quix_streams(function: str, size: int, values: Values) -> Values:
    """Run quix-streams' sliding count window over its RocksDB store, with a final commit."""
    windows = import_module("quixstreams.dataframe.windows")
    stores = import_module("quixstreams.state.rocksdb.windowed.store")
    if function == "std":
        aggregation = windows.Reduce(reducer=_with_moments_of, initializer=lambda v: (1, v, 0.0))
    else:
        aggregation = getattr(windows, function.capitalize())()
    window = windows.SlidingCountWindowDefinition(count=size, dataframe=None).agg(value=aggregation)
    times = count()
    with (
        TemporaryDirectory() as folder,
        stores.WindowedRocksDBStore("w", "values", folder) as store,
        store.assign_partition(0).begin() as transaction,
    ):

        def slide(value: float) -> Any:
            # The first open window is the longest: it has the last ``size`` values.
            opened, _ = window.process_window(value, b"key", next(times), None, transaction)
            result = opened[0][1]["value"]
            return _deviation(*result) if function == "std" else result

        return _each(values, slide)


def _with_moments_of(moments: tuple[int, float, float], value: float) -> tuple[int, float, float]:
    """Return count, mean and sum of squared differences with one more value (Welford)."""
    number, mean, squares = moments
    step = value - mean
    mean += step / (number + 1)
    return number + 1, mean, squares + step * (value - mean)


def _deviation(number: int, mean: float, squares: float) -> float:
    return float(np.sqrt(squares / (number - 1))) if number > 1 else float("nan")


def _each(values: Values, slide: Callable[[float], Any]) -> Values:
    return np.array([slide(value) for value in values.tolist()], dtype=float)


#: For each name, the module that must be installed, and the function.
BATCHES: Peers = {
    "ours, in memory": ("mta", in_memory),
    "ours, pages on disk": ("mta", on_disk),
    "pandas": ("pandas", with_pandas),
    "polars": ("polars", with_polars),
    "bottleneck": ("bottleneck", with_bottleneck),
    "DuckDB": ("duckdb", with_duckdb),
}
SINGLES: Peers = {
    "ours, one by one": ("mta", one_by_one),
    "ours, one by one, on disk": ("mta", one_by_one_on_disk),
    "ours, DABA": ("mta", with_daba),
    "river": ("river.stats", with_river),
    "quix-streams": ("quixstreams.dataframe.windows", with_quix_streams),
}
#: The side of ours that peers are compared with; peers with a store have another.
OURS = {"batch": "ours, pages on disk", "single": "ours, one by one"}
IN_STORE = {"quix-streams": "ours, one by one, on disk"}


class Limit(NamedTuple):
    """The most values and the largest window of a peer whose cost per value is O(window)."""

    values: int
    window: int


LIMITS = {"quix-streams": Limit(values=768, window=256)}


def installed(peers: Peers) -> dict[str, Rolling]:
    """Return the peers that can be imported; print the others."""
    found = {}
    for name, (module, rolling) in peers.items():
        try:
            with warnings.catch_warnings(record=True):  # ignore deprecations in peers
                import_module(module)
        except ImportError:
            say(f"{name} is not installed, and skipped (pip install 'mta-windows[bench]')")
        else:
            found[name] = rolling
    return found


def beside_peers(size: float, progress: Progress) -> Rows:
    """Measure nanoseconds per value by function, window and library; medians of runs."""
    top = max(8, LARGEST + min(0, round(np.log2(size))))
    windows = [2**exponent for exponent in range(4, top + 1, 4)]
    kinds = (("batch", installed(BATCHES), EVENTS), ("single", installed(SINGLES), SINGLE))
    cells = [(*kind, f, n) for kind in kinds for f in MONOIDS for n in windows]
    rows: Rows = []
    for kind, peers, events, function, window in progress.over(cells, _reported):
        values = np.random.default_rng(1).normal(100, 10, max(1000, int(events * size)))
        for name, nanoseconds in measured(peers, function, window, values).items():
            row = {"kind": kind, "function": function, "algorithm": name, "window": window}
            number = len(given(name, values))
            rows.append(row | {"events": number, "ns": nanoseconds})
    return rows


def given(name: str, values: Values) -> Values:
    """Return the values for a side."""
    return values[: LIMITS[name].values] if name in LIMITS else values


def _reported(cell: tuple[Any, ...]) -> str:
    return f"{cell[0]}, {cell[3]}, window {cell[4]:,}"


def measured(
    peers: dict[str, Rolling], function: str, window: int, values: Values
) -> dict[str, float]:
    """Return each peer's median nanoseconds per value, in turns, after comparing results.

    Leaves out peers that do not support a window of this size.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = {
            name: partial(rolling, function, window)
            for name, rolling in peers.items()
            if name not in LIMITS or window <= LIMITS[name].window
        }
        some = {name: run(given(name, values[:2000])) for name, run in runs.items()}
        require_alike(some, f"{function}, {window}")
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(TIMES):
            for name, run in runs.items():
                began = perf_counter()
                run(given(name, values))
                taken[name].append(perf_counter() - began)
    return {name: 1e9 * median(all_) / len(given(name, values)) for name, all_ in taken.items()}


def require_alike(results: dict[str, Values], what: str) -> None:
    """Require equal results, except for the deviation of a single value (0, NaN or none)."""
    first, *others = results.items()
    for name, found in others:
        if not np.allclose(found[1:], first[1][1 : len(found)], rtol=1e-6):
            raise AssertionError(f"{what}: {name} answers other than {first[0]}")


def found(rows: Rows) -> list[Finding]:
    """Compare ours with each peer in its largest window, and all shapes over the window."""
    return [*_ratios(rows), *_shapes(rows)]


def _ratios(rows: Rows) -> Iterable[Finding]:
    for kind in OURS:
        peers = [n for n in distinct(where(rows, kind=kind), "algorithm") if "ours" not in n]
        for function, name in product(MONOIDS, peers):
            some = where(rows, kind=kind, function=function)
            theirs = max(where(some, algorithm=name), key=lambda row: int(row["window"]))
            side, window = IN_STORE.get(name, OURS[kind]), theirs["window"]
            (ours,) = where(some, algorithm=side, window=window)
            seen = f"{ours['ns']:,.1f} ns, {ours['ns'] / theirs['ns']:.3g} times"
            what = f"{kind}, {function}, window {window:,}: {side}"
            yield Finding(what, f"{name}: {theirs['ns']:,.1f} ns", seen)


def _shapes(rows: Rows) -> Iterable[Finding]:
    for name in distinct(rows, "algorithm"):
        some = where(rows, algorithm=name, function="max")
        x, y = points(some, "window", "ns")
        one = shape(f"{name}: max, time a value over the window", x, y, "constant", "ns")
        yield Finding(one.what, "no paper's", one.seen)


EXPERIMENTS = (
    Experiment(
        "peers",
        "Other libraries",
        "no paper's: the libraries that a Python user would choose",
        "No paper measures these. For batches, the standard is compiled libraries with rolling "
        "windows over arrays in memory; for streams, libraries that are updated value by value.",
        f"Every result of a count window, over {EVENTS:,} doubles in one batch and over {SINGLE:,} "
        "one at a time. Elapsed time, the median of three runs that take turns. All libraries are "
        "first checked to give the same results. Quix Streams, whose windows are in RocksDB, runs "
        f"without Kafka, with {LIMITS['quix-streams'].values:,} values and windows of up to "
        f"{LIMITS['quix-streams'].window}: it folds each value into as many partial aggregates as "
        "the window has values, and writes all of them. It is compared with mta-windows on disk.",
        beside_peers,
        {kind: partial(lambda rows, kind: lines(where(rows, kind=kind), "window", "ns",
                                                ("window", "ns a value"), panel="function"),
                       kind=kind)
         for kind in ("batch", "single")},
        found,
        quick=2**-5,
    ),
)  # fmt: skip
