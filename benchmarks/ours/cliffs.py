"""What many keys cost with other aggregations, values and frames than a maximum of numbers.

A path that is many times slower than the usual one is a cliff: one such aggregation in a query
would slow down all others. So each is compared with the maximum of numbers over a day, in turns.
Times are those of the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report.beside import Figure, alternate, beside
from mta import (
    CalendarWindow,
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Monoid,
    Product,
    SessionWindow,
    Sum,
    TimeWindow,
    rolling,
)
from mta.frames import DeltaWindow
from mta.frames.base import Frame

EVENTS, EACH, BATCHES = 20_000, 10, 4
DAY = TimeWindow("24 hours")
#: The limits of the ratio to the usual path, and of results that are lists.
LIMIT, OF_LISTS = "<= 10", "<= 20"
Columns = Mapping[str, np.ndarray]


def run(size: float) -> list[Figure]:
    """Measure rows per second of each kind of windows, and the ratio to a maximum of numbers."""
    columns = drawn(max(1000, int(EVENTS * size)))
    check(drawn(150))
    works = {what: partial(fed, columns, *given) for what, given in KINDS.items()}
    works |= {what: partial(rolled, columns, *given) for what, given in ROLLED.items()}
    usual, *others = alternate(list(works.values()), times=5, clock=process_time)
    count = len(columns["k"])
    peer = f"{count / usual / 1e3:,.0f} k rows/s, max of numbers"
    return [
        Figure(
            what, f"{count / seconds / 1e3:,.0f} k rows/s", peer, seconds / usual,
            OF_LISTS if what.startswith(("most", "collect")) else LIMIT,
        )
        for what, seconds in zip(list(works)[1:], others, strict=True)
    ]  # fmt: skip


def drawn(count: int) -> Columns:
    """Return keys, times, and columns of numbers and text, in order of time."""
    random = np.random.default_rng(1)
    merchants = np.array([f"merchant-{number}" for number in range(5000)])
    times = np.sort(random.integers(0, 2 * 86400, count)).astype(float)
    return {
        "k": random.integers(0, count // EACH, count), "t": times, "v": random.normal(size=count),
        "n": random.integers(0, 5000, count), "m": merchants[random.integers(0, 5000, count)],
    }  # fmt: skip


def plus(left: float, right: float) -> float:
    """Return the sum: an aggregation in plain Python."""
    return left + right


def _plain() -> Monoid:
    return Monoid(identity=0.0, combine=plus, name="plus")


def _of(name: Any, *columns: str) -> Product:
    return Product({f"x{at}": (column, name) for at, column in enumerate(columns)})


#: By what is computed: the aggregation and the frame.
KINDS: dict[str, tuple[Callable[[], Product], Frame]] = {
    "max of numbers": (lambda: _of("max", "v"), DAY),
    "max, a calendar day": (
        lambda: _of("max", "v"), CalendarWindow.to_date("day", zone="Europe/Berlin"),
    ),
    "sum, sessions": (lambda: _of(Sum(), "v"), SessionWindow("30 minutes")),
    "sum, sessions or 5 rows": (
        lambda: _of(Sum(), "v"), SessionWindow("30 minutes") | CountWindow(5),
    ),
    "sum, delta of a column": (lambda: _of(Sum(), "v"), DeltaWindow(3600, "t")),
    "sum, delta and 5 rows": (lambda: _of(Sum(), "v"), DeltaWindow(3600, "t") & CountWindow(5)),
    **{
        f"{name} of {kind}": (partial(_of, name, column), DAY)
        for name in ("nunique", "mode", "most_frequent(3)", "first", "last", "max", "lag(1)")
        for kind, column in (("text", "m"), ("integers", "n"))
    },
    "collect_list of text": (lambda: _of("collect_list", "m"), DAY),
    "collect_set of text": (lambda: _of("collect_set", "m"), DAY),
    "string_agg of text": (lambda: _of("string_agg('-')", "m"), DAY),
    "max of numbers and nunique of text": (
        lambda: Product({"top": ("v", Max()), "kinds": ("m", "nunique")}), DAY,
    ),
    "a function in Python": (lambda: _of(_plain(), "v"), DAY),
    "a function in Python, 5 rows and count": (
        lambda: Product({"sum": ("v", _plain()), "n": Count()}), CountWindow(5),
    ),
}  # fmt: skip
#: By what ``rolling`` computes: the column and the name of the aggregation.
ROLLED = {
    f"rolling: {name} of {kind}": (column, name)
    for name, kind, column in (
        ("nunique", "integers", "n"), ("nunique", "text", "m"), ("last", "text", "m"),
        ("mode", "text", "m"), ("max", "text", "m"), ("median", "numbers", "v"),
    )
}  # fmt: skip


def fed(columns: Columns, make: Callable[[], Product], frame: Frame) -> list[Any]:
    """Feed all events in batches to new windows; return the results of each batch."""
    count, found = len(columns["k"]), []
    with KeyedWindows(make(), frame, "memory://cliffs", timed=True) as windows:
        for at in range(0, count, count // BATCHES):
            part = {name: column[at : at + count // BATCHES] for name, column in columns.items()}
            found.append(windows.extend(part["k"], part, part["t"]))
    return found


def rolled(columns: Columns, column: str, name: str) -> Any:
    """Return the results of ``rolling`` over the last day."""
    table = pd.DataFrame(dict(columns))
    table["t"] = pd.to_datetime(table["t"], unit="s")
    return rolling(table, by="k", on="t", window="24 hours", aggregations={"x": (column, name)})


def check(columns: Columns) -> None:
    """Require that results under many keys are those of one window per key."""
    for make, frame in KINDS.values():
        parts = fed(columns, make, frame)
        found = {name: [row for part in parts for row in part[name]] for name in parts[0]}
        kept: dict[int, KeyedWindows] = {}
        for row, key in enumerate(columns["k"].tolist()):
            if key not in kept:
                kept[key] = KeyedWindows(make(), frame, None, timed=True, promote_at=1)
            event = {name: column[row : row + 1] for name, column in columns.items()}
            alone = kept[key].extend([key], event, event["t"])
            for name, column in found.items():
                if repr(column[row]) != repr(alone[name][0]):
                    np.testing.assert_allclose(column[row], alone[name][0], rtol=1e-9)


EXPERIMENTS = (
    beside(
        "cliffs",
        "Text, lists, sessions and functions under many keys",
        "`KeyedWindows` in memory: one result per row, for keys with 10 rows each in 4 batches, "
        "over a day unless the row says otherwise; then `rolling` over one table. Each row is "
        "compared with the maximum of numbers over a day, in turns. A ratio above 10 would be a "
        "cliff: one such aggregation would slow down a query of many. Processor time.",
        run,
        quick=0.25,
    ),
)
