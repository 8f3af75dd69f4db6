"""``rolling(at=)`` compared with handwritten queries that join aggregates to rows of a table.

A million questions over a million events of 100,000 keys, on one thread. Each question is a key and
a moment, and aggregates the events of the previous six hours. The handwritten queries are

- in polars: add the questions to the events as rows without a value, apply ``rolling`` to all rows,
  and filter the questions; for sums also running sums by key, joined as of the end and the start
  (``join_asof``) and subtracted;
- in DuckDB: a join on the key and the range of times, grouped by question.

The answers of all sides must be equal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.report.beside import Figure, alternate, beside
from mta import TimeWindow, rolling

QUESTIONS, EACH = 1_000_000, 10
HOURS, DAY = 6, 86_400_000_000
FUNCTIONS = ("max", "sum")


def run(size: float) -> list[Figure]:
    """Measure nanoseconds of processor time per question, ours and each handwritten query.

    All sides run in one process; the number of polars' threads is set before its import.
    """
    count = int(QUESTIONS * size)
    command = [sys.executable, "-m", "benchmarks.ours.questions", str(count)]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures = []
    for function, seconds in json.loads(done.stdout).items():
        ours = seconds.pop("ours")
        fastest = min(seconds.values(), default=None)
        for name, peer in seconds.items():
            what = f"{function}, {count:,} questions"
            limit = "<= 1" if peer == fastest else ""
            mine, theirs = (f"{1e9 * one / count:.0f} ns" for one in (ours, peer))
            beside = f"{theirs}, {name}"
            figures.append(Figure(what, mine, beside, ours / peer, limit))
    return figures


# --- the sides ------------------------------------------------------------------------------------


def _tables(count: int) -> tuple[Any, Any]:
    """Return ``count`` events and questions, in order of time."""
    import polars as pl

    random = np.random.default_rng(7)

    def some(**more: np.ndarray) -> Any:
        times = np.sort(random.integers(0, DAY, count)).astype("M8[us]")
        return pl.DataFrame({"k": random.integers(0, count // EACH, count), "t": times, **more})

    return some(v=random.random(count)), some()


def ours(function: str, events: Any, questions: Any) -> Any:
    """Run this project's ``rolling``."""
    window = TimeWindow(f"{HOURS} hours")
    how: dict[str, Any] = {"by": "k", "on": "t", "window": window}
    return rolling(events, at=questions, aggregations={"r": ("v", function)}, **how)["r"]


def among_events(function: str, events: Any, questions: Any) -> Any:
    """Run polars' rolling over events and questions together."""
    import polars as pl

    both = pl.concat([events, questions.with_row_index("i")], how="diagonal")
    both = both.sort("t", maintain_order=True).sort("k", maintain_order=True)
    asked = getattr(pl.col("v"), function)()
    found = both.rolling("t", period=f"{HOURS}h", group_by="k").agg(asked)
    found = found.with_columns(both["i"]).filter(pl.col("i").is_not_null())
    return found.sort("i")["v"]


def running_sums(_: str, events: Any, questions: Any) -> Any:
    """Subtract running sums at the start of the window from those at its end, in polars."""
    import polars as pl

    sums = events.select("k", "t", pl.col("v").cum_sum().over("k").alias("s"))
    begins = questions.with_columns(pl.col("t") - pl.duration(hours=HOURS))
    how: dict[str, Any] = {"on": "t", "by": "k", "check_sortedness": False}
    upto, before = (asked.join_asof(sums, **how)["s"].fill_null(0) for asked in (questions, begins))
    return upto - before


def range_join(function: str, events: Any, questions: Any) -> Any:
    """Run a join on key and range in DuckDB."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("e", events.to_arrow())
        database.register("q", questions.with_row_index("i").to_arrow())
        return database.sql(
            f"select {function}(e.v) r from q left join e on e.k = q.k and e.t <= q.t and "
            f"e.t > q.t - interval {HOURS} hours group by q.i order by q.i"
        ).fetchnumpy()["r"]


Side = Callable[[str, Any, Any], Any]
PEERS: dict[str, tuple[Side, tuple[str, ...]]] = {
    "polars, rolling": (among_events, FUNCTIONS),
    "polars, join_asof of running sums": (running_sums, ("sum",)),
    "DuckDB, range join": (range_join, FUNCTIONS),
}


def measured(count: int) -> dict[str, dict[str, float]]:
    """Return the seconds of ours and of each installed peer, by function."""
    try:
        events, questions = _tables(count)
    except ModuleNotFoundError:
        return {}
    found = {}
    for function in FUNCTIONS:
        sides: dict[str, Side] = {"ours": ours}
        wanted = _plain(ours(function, events, questions))
        for name, (peer, functions) in PEERS.items():
            if function in functions:
                try:
                    answers = _plain(peer(function, events, questions))
                except ModuleNotFoundError:
                    continue
                np.testing.assert_allclose(answers, wanted, rtol=1e-9, atol=1e-9, err_msg=name)
                sides[name] = peer
        runs = [partial(side, function, events, questions) for side in sides.values()]
        found[function] = dict(zip(sides, alternate(runs, clock=process_time), strict=True))
    return found


def _plain(answers: Any) -> np.ndarray:
    """Return answers as an array, with 0 for windows without events."""
    if not isinstance(answers, np.ndarray):
        answers = answers.fill_null(0).to_numpy()
    plain: np.ndarray = np.nan_to_num(np.ma.filled(answers, 0))
    return plain


EXPERIMENTS = (
    beside(
        "questions",
        "Aggregates as of the rows of another table",
        "`rolling(events, at=questions)` for a million questions over a million events of "
        "100,000 keys. Each question is about the six hours before it. The peers compute the "
        "same result with a query written by hand, on one thread. The limit applies to the "
        "fastest of them. Processor time per question.",
        run,
        0.1,
    ),
)


if __name__ == "__main__":
    json.dump(measured(int(sys.argv[1])), sys.stdout)
