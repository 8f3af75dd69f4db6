"""The cost per column of 2, 10 and 50 aggregations in a window, compared with one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.report.beside import Figure, beside
from mta import CountWindow, Product, Sum, Window
from mta.aggregations import AbstractMonoid

EVENTS, WINDOW, BATCH = 2**19, 2**20, 2**15
COLUMNS = (2, 10, 50)


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event and column, with pages on local disk."""
    window, events = int(WINDOW * min(size, 1)), int(EVENTS * size)
    values = np.random.default_rng(1).random((max(COLUMNS), window + events))
    sides: dict[int, Callable[[], float]] = {
        columns: partial(taken, values[:columns], window) for columns in (1, *COLUMNS)
    }
    found: dict[int, list[float]] = {columns: [] for columns in sides}
    for _ in range(3):
        for columns, side in sides.items():
            found[columns].append(side())
    one, *more = (median(seconds) for seconds in found.values())
    return [
        Figure(
            f"{columns} sums, per column",
            f"{mine:.1f} ns",
            f"{one:.1f} ns, one sum alone",
            mine / one,
            "<= 1.5",
        )
        for columns, mine in zip(COLUMNS, more, strict=True)
    ]


def taken(values: np.ndarray, size: int) -> float:
    """Return nanoseconds per event and column of a full window; one column has no Product."""
    columns = {f"c{i}": column for i, column in enumerate(values)}
    monoid: AbstractMonoid = Sum()
    if len(values) > 1:
        monoid = Product({f"sum of {name}": (name, Sum()) for name in columns})

    def batch(start: int, stop: int) -> object:
        if len(values) == 1:
            return values[0, start:stop]
        return {name: column[start:stop] for name, column in columns.items()}

    with tempfile.TemporaryDirectory() as folder:
        window = Window(monoid, CountWindow(size), store=f"file://{folder}")
        window.extend(batch(0, size), emit="last")
        count = values.shape[1]
        began = perf_counter()
        for start in range(size, count, BATCH):
            window.extend(batch(start, min(start + BATCH, count)))
        seconds = perf_counter() - began
        window.close()
    return float(1e9 * seconds / (count - size) / len(values))


EXPERIMENTS = (
    beside(
        "dimensions",
        "Many aggregations in one window",
        "A `Product` of sums over one column each, in a full window of 2^20 events on local "
        "disk, in batches of 32,768. Time per event and column, compared with a single sum.",
        run,
        quick=0.25,
    ),
)
