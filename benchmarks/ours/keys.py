"""Many keys: ``KeyedWindows`` compared with libraries with grouped windows, and over a store.

In memory, each side computes the maximum of an hour for every event of every key, over the same
columns in order of time. polars runs on one thread. It is faster for rows in order of keys, so it
is also compared on these.

On local disk, a stream of batches fills and slides the windows (``key_counts``). The experiment
counts bytes written per byte of events, pages read, and the size of the snapshot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.ours.key_counts import BATCH, ROOT, stream
from benchmarks.report.beside import Figure, alternate, beside
from mta import KeyedWindows, Max, TimeWindow

KEYS, EACH = 100_000, 10
HOUR = 3600
STORED = 1_000_000
#: The order of rows, the peers measured with it, and the limit of the ratio to each.
_LIMITS = {"time": {"polars": "<= 4", "pandas": "<= 0.2", "duckdb": ""}, "keys": {"polars": "<= 1"}}

_ORDERS = {"time": "time", "keys": "keys, then time"}
_LIBRARIES = {"polars": "polars", "pandas": "pandas", "duckdb": "DuckDB"}


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per row in memory, and the costs of a stream over local disk."""
    keys = int(KEYS * size)
    figures = []
    for order, limits in _LIMITS.items():
        columns = _columns(keys, order)
        ours = _seconds(partial(_extend, columns))
        each = f"{_each(ours, keys):.0f} ns"
        for name, limit in limits.items():
            peer = _of_peer(name, keys, order)
            if peer is not None:
                what = f"one row in memory, in order of {_ORDERS[order]}"
                taken = f"{_each(peer, keys):.0f} ns, {_LIBRARIES[name]}"
                figures.append(Figure(what, each, taken, ours / peer, limit))
    stored, batch = int(STORED * size), int(BATCH * size)
    few, many = (stream(keys, batch) for keys in (stored // 10, stored))
    return [
        *figures,
        Figure(
            f"a batch of {batch:,} rows with {stored:,} keys on local disk",
            f"{many['batch_ms']:.0f} ms", f"{few['batch_ms']:.0f} ms, {stored // 10:,} keys",
            many["batch_ms"] / few["batch_ms"], "<= 1.3",
        ),
        _most("bytes written per byte of events", many["written"], 5),
        Figure("pages read per row", f"{many['read']:.2f}", ""),
        _most("size of a snapshot, KiB", many["snapshot"] / 1024, ROOT / 1024),
        _most(f"anonymous memory added by {stored:,} keys, MiB", many["memory_mib"], 128),
    ]  # fmt: skip


def _most(what: str, found: float, most: float) -> Figure:
    return Figure(what, f"{found:.1f}", "", limit=f"{most:g}", held=found <= most)


def _each(seconds: float, keys: int) -> float:
    return seconds / (keys * EACH) * 1e9


def _seconds(work: Callable[[], object]) -> float:
    return alternate([work])[0]


# --- in memory ------------------------------------------------------------------------------------


def _columns(keys: int, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys, values and times of events, ordered by "time", or by "keys" and time."""
    random, count = np.random.default_rng(1), keys * EACH
    times = np.sort(random.integers(0, EACH * 1000, count)).astype("M8[s]").astype("M8[us]")
    codes, values = random.integers(0, keys, count), random.random(count)
    if order == "time":
        return codes, values, times
    by_key = np.argsort(codes, kind="stable")
    return codes[by_key], values[by_key], times[by_key]


def _extend(columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
    return KeyedWindows(Max(), TimeWindow(HOUR), store=None).extend(*columns)


def _with_polars(columns: tuple[np.ndarray, ...]) -> Any:
    import polars

    frame = polars.DataFrame(dict(zip("kvt", columns, strict=True)))
    rolling = frame.rolling(index_column="t", period=f"{HOUR}s", group_by="k")
    return rolling.agg(polars.col("v").max())


def _with_pandas(columns: tuple[np.ndarray, ...]) -> Any:
    import pandas

    frame = pandas.DataFrame(dict(zip("kvt", columns, strict=True))).set_index("t")
    return frame.groupby("k")["v"].rolling(f"{HOUR}s").max()


def _with_duckdb(columns: tuple[np.ndarray, ...]) -> Any:
    import pyarrow

    duckdb = import_module("duckdb")
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("events", pyarrow.table(dict(zip("kvt", columns, strict=True))))
        return database.sql(
            "select max(v) over (partition by k order by t range between "
            f"interval {HOUR - 1} seconds preceding and current row) from events"
        ).fetchnumpy()


_PEERS = {"polars": _with_polars, "pandas": _with_pandas, "duckdb": _with_duckdb}


def _of_peer(name: str, keys: int, order: str) -> float | None:
    """Return the median seconds of a peer in a separate process; None if not installed."""
    command = [sys.executable, "-m", "benchmarks.ours.keys", name, str(keys), order]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: float | None = json.loads(done.stdout)
    return found


def _peer_alone(name: str, keys: int, order: str) -> float | None:
    columns, work = _columns(keys, order), _PEERS[name]
    try:
        return _seconds(lambda: work(columns))
    except ModuleNotFoundError:
        return None


EXPERIMENTS = (
    beside(
        "keys",
        "Many keys of a table",
        "First, a table in memory: the maximum of the last hour for each of a million rows of "
        "100,000 keys, with each library on one thread. Then, a stream of a million keys with "
        "pages on local disk.",
        run,
        0.1,
    ),
)


if __name__ == "__main__":
    json.dump(_peer_alone(sys.argv[1], int(sys.argv[2]), sys.argv[3]), sys.stdout)
