"""The libraries that a Python user would choose, beside ours in one run.

Every peer that is installed gives every result of a count window over the same values; the others
are named and skipped. Two kinds of work: a whole batch at once, where a library has a rolling
window, and values one at a time, where it keeps a window's state. What a peer answers is compared
with ours first. quix-streams is not here: its windows run on Kafka's topics, and by time alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from mta import AbstractMonoid, CountWindow, Max, Mean, SampleStdDev, Sum, Window
from mta.in_order import DABA
from spark_integration.bench.experiment import (
    Experiment,
    Finding,
    Progress,
    Rows,
    distinct,
    points,
    where,
)
from spark_integration.bench.fits import shape
from spark_integration.bench.plots import lines
from spark_integration.cli.console import say

EVENTS, LARGEST, TIMES = 4_000_000, 20, 3
#: Values of single insertions; a window of as many at most.
SINGLE = 200_000
#: DuckDB keeps its window over frames in a segment tree of its own: one query for all values.
MONOIDS: dict[str, AbstractMonoid] = {
    "max": Max(), "sum": Sum(), "mean": Mean(), "std": SampleStdDev(),
}  # fmt: skip

Values = np.ndarray
#: All results over values, for a function's name and a window's size.
Rolling = Callable[[str, int, Values], Values]
Peers = dict[str, tuple[str, Rolling]]


def in_memory(function: str, size: int, values: Values) -> Values:
    """Ours, without a store."""
    results: Values = Window(MONOIDS[function], CountWindow(size), store=None).extend(values)
    return results


def on_disk(function: str, size: int, values: Values) -> Values:
    """Ours, with pages on local disk."""
    with TemporaryDirectory() as folder:
        window = Window(MONOIDS[function], CountWindow(size), store=f"file://{folder}")
        results: Values = window.extend(values)
        window.close()
    return results


def with_pandas(function: str, size: int, values: Values) -> Values:
    """pandas' compiled rolling."""
    import pandas as pd

    rolling = pd.Series(values).rolling(size, min_periods=1)
    results: Values = getattr(rolling, function)().to_numpy()
    return results


def with_polars(function: str, size: int, values: Values) -> Values:
    """polars' compiled rolling, in as many threads as it likes."""
    polars = import_module("polars")
    rolling = getattr(polars.Series(values), f"rolling_{function}")
    results: Values = rolling(size, min_samples=1).to_numpy()
    return results


def with_bottleneck(function: str, size: int, values: Values) -> Values:
    """bottleneck's compiled moving windows."""
    options = {"ddof": 1} if function == "std" else {}
    move = getattr(import_module("bottleneck"), f"move_{function}")
    results: Values = move(values, window=min(size, len(values)), min_count=1, **options)
    return results


def with_duckdb(function: str, size: int, values: Values) -> Values:
    """DuckDB's window function over a frame of rows."""
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
    """Ours, an insertion and a query a value."""
    window = Window(MONOIDS[function], CountWindow(size), store=None)

    def slide(value: float) -> Any:
        window.insert(value)
        return window.query()

    return _each(values, slide)


def with_daba(function: str, size: int, values: Values) -> Values:
    """DABA of this project, in memory."""
    window = DABA(MONOIDS[function])

    def slide(value: float) -> Any:
        if len(window) == size:
            window.evict()
        window.insert(value)
        return window.query()

    return _each(values, slide)


def with_river(function: str, size: int, values: Values) -> Values:
    """river's rolling statistics, which are updated value by value."""
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


def _each(values: Values, slide: Callable[[float], Any]) -> Values:
    return np.array([slide(value) for value in values.tolist()], dtype=float)


#: By name: the module that must be there, and how it is done.
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
    "ours, DABA": ("mta", with_daba),
    "river": ("river.stats", with_river),
}


def installed(peers: Peers) -> dict[str, Rolling]:
    """Those of the peers that can be imported; the others are named."""
    found = {}
    for name, (module, rolling) in peers.items():
        try:
            import_module(module)
        except ImportError:
            say(f"{name} is not installed, and skipped (pip install 'mta-windows[bench]')")
        else:
            found[name] = rolling
    return found


def beside_peers(size: float, progress: Progress) -> Rows:
    """Nanoseconds a value of each function, window and library; the median of some runs."""
    top = max(8, LARGEST + min(0, round(np.log2(size))))
    windows = [2**exponent for exponent in range(4, top + 1, 4)]
    kinds = (("batch", installed(BATCHES), EVENTS), ("single", installed(SINGLES), SINGLE))
    cells = [(*kind, f, n) for kind in kinds for f in MONOIDS for n in windows]
    rows: Rows = []
    for kind, peers, events, function, window in progress.over(cells, _told):
        values = np.random.default_rng(1).normal(100, 10, max(1000, int(events * size)))
        for name, nanoseconds in measured(peers, function, window, values).items():
            row = {"kind": kind, "function": function, "algorithm": name, "window": window}
            rows.append(row | {"events": len(values), "ns": nanoseconds})
    return rows


def _told(cell: tuple[Any, ...]) -> str:
    return f"{cell[0]}, {cell[3]}, window {cell[4]:,}"


def measured(
    peers: dict[str, Rolling], function: str, window: int, values: Values
) -> dict[str, float]:
    """Each peer's median nanoseconds a value, in turns, once it has answered as the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = values[:2000]
        runs = {name: partial(rolling, function, window) for name, rolling in peers.items()}
        require_alike({name: run(some) for name, run in runs.items()}, f"{function}, {window}")
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(TIMES):
            for name, run in runs.items():
                began = perf_counter()
                run(values)
                taken[name].append(perf_counter() - began)
    return {name: 1e9 * median(found) / len(values) for name, found in taken.items()}


def require_alike(results: dict[str, Values], what: str) -> None:
    """What is timed must be right, the deviation of a single value aside (0, NaN or none)."""
    first, *others = results.items()
    for name, found in others:
        if not np.allclose(found[1:], first[1][1:], rtol=1e-6):
            raise AssertionError(f"{what}: {name} answers other than {first[0]}")


def found(rows: Rows) -> list[Finding]:
    """Ours beside each peer in the largest window, and everyone's shape over the window."""
    return [*_ratios(rows), *_shapes(rows)]


def _ratios(rows: Rows) -> Iterable[Finding]:
    largest = max(row["window"] for row in rows)
    for kind, ours in (("batch", "ours, pages on disk"), ("single", "ours, one by one")):
        for function in MONOIDS:
            some = where(rows, kind=kind, function=function, window=largest)
            at = {row["algorithm"]: row["ns"] for row in some}
            for name in [name for name in at if not name.startswith("ours")]:
                ratio = at[ours] / at[name]
                seen = f"{at[ours]:,.1f} ns, {ratio:.2f} times"
                what = f"{kind}, {function}, window {largest:,}: {ours}"
                yield Finding(what, f"{name}: {at[name]:,.1f} ns", seen)


def _shapes(rows: Rows) -> Iterable[Finding]:
    for name in distinct(rows, "algorithm"):
        some = where(rows, algorithm=name, function="max")
        x, y = points(some, "window", "ns")
        one = shape(f"{name}: max, time a value over the window", x, y, "constant", "ns")
        yield Finding(one.what, "no paper's", one.seen)


EXPERIMENTS = (
    Experiment(
        "peers",
        "Beside pandas, polars, bottleneck, DuckDB and river",
        "no paper's: the libraries that a Python user would choose",
        "No paper measures these. Compiled libraries with rolling windows over arrays in memory "
        "are the bar for batches, libraries that are updated value by value for streams.",
        f"Every result of a count window over {EVENTS:,} doubles in one batch, and over {SINGLE:,} "
        "one at a time, by the clock, the median of three in turns. All answer alike, which is "
        "checked first. quix-streams cannot do this job: its windows are by time, over Kafka.",
        beside_peers,
        {kind: partial(lambda rows, kind: lines(where(rows, kind=kind), "window", "ns",
                                                ("window", "ns a value"), panel="function"),
                       kind=kind)
         for kind in ("batch", "single")},
        found,
        quick=2**-5,
    ),
)  # fmt: skip
