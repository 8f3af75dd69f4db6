"""The MTA paper's Experiment 5: one window over 1 to 50 dimensions."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from mta import CountWindow, Product, Sum, Window
from mta.bench.frame.experiment import Experiment, Finding, Progress, Rows, distinct, points, where
from mta.bench.frame.fits import line, ratio
from mta.bench.frame.plots import lines

WINDOW, UPDATES, BATCH = 2**15, 2**16, 2**16
DIMENSIONS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 45, 50)
#: The paper's latency at one dimension, and what each more costs, in nanoseconds.
PAPER_ONE, PAPER_EACH = 4895, 411


def dimensions(size: float, progress: Progress) -> Rows:
    """Nanoseconds an update of a product of sums, one by one and in batches, pages on disk."""
    window = max(16, int(WINDOW * size))
    rows = []
    for k in progress.over(DIMENSIONS, lambda k: f"{k} dimensions"):
        for kind, measure in (("one by one", singly), ("in batches", in_batches)):
            rows.append(
                {"algorithm": kind, "dimensions": k, "window": window}
                | {"ns": 1e9 * measure(k, window, max(200, int(UPDATES * size)))}
            )
    for kind in distinct(rows, "algorithm"):
        one = where(rows, algorithm=kind, dimensions=1)[0]["ns"]
        for k in DIMENSIONS:
            row = {"algorithm": f"{kind}, as windows of their own", "dimensions": k}
            rows.append(row | {"window": window, "ns": one * k})
    return rows


def opened(k: int, window: int, folder: str) -> Window:
    """A full window of ones in each of its dimensions."""
    sums = Product({f"count_{i}": (f"count_{i}", Sum()) for i in range(k)})
    full = Window(sums, CountWindow(window), store=f"file://{folder}")
    full.extend(columns(k, window), results="last")
    return full


def columns(k: int, count: int) -> dict[str, np.ndarray]:
    """Updates, column by column."""
    return {f"count_{i}": np.ones(count) for i in range(k)}


def singly(k: int, window: int, updates: int) -> float:
    """Seconds an insertion with its result."""
    with TemporaryDirectory() as folder:
        sliding, update = opened(k, window, folder), {f"count_{i}": 1.0 for i in range(k)}
        result: Any = None
        began = process_time()
        for value in islice(cycle([update]), updates):
            sliding.insert(value)
            result = sliding.query()
        taken = process_time() - began
        sliding.close()
    if set(result.values()) != {float(window)}:
        raise AssertionError(f"{result} instead of counts of {window}")
    return taken / updates


def in_batches(k: int, window: int, updates: int) -> float:
    """Seconds an update of batches with every result."""
    with TemporaryDirectory() as folder:
        sliding, batch = opened(k, window, folder), columns(k, min(BATCH, 4 * updates))
        began = process_time()
        sliding.extend(batch)
        taken = process_time() - began
        sliding.close()
    return taken / len(batch["count_0"])


def found(rows: Rows) -> list[Finding]:
    """The line through the latencies, beside windows of their own."""
    findings = []
    for kind in ("one by one", "in batches"):
        x, y = points(where(rows, algorithm=kind), "dimensions", "ns")
        fit = line(x, y)
        findings.append(
            Finding(
                f"{kind}: latency over the dimensions",
                f"linear: {PAPER_ONE - PAPER_EACH:,} ns and {PAPER_EACH} ns a dimension",
                f"{fit.intercept:,.0f} ns and {fit.slope:,.0f} ns a dimension (R2 {fit.r2:.2f})",
                fit.r2 >= 0.9 and fit.slope > 0,
                "" if fit.r2 >= 0.9 else "The points scatter: other processes were running.",
            )
        )
        paper = 50 * PAPER_ONE / (PAPER_ONE + 49 * PAPER_EACH)
        what = f"{kind}: 50 windows of their own to one of 50 dimensions"
        why = "The work on each column outweighs what the columns share."
        findings.append(ratio(what, paper, 50 * y[0], y[-1], "ns", why))
    return findings


EXPERIMENTS = (
    Experiment(
        "mta_dimensions",
        "Many dimensions in one window",
        "MTA paper, Experiment 5, Figure 9",
        "Latency grows linearly with the dimensions, but slowly: of 4,895 ns with one, 411 are the "
        "dimension's and the rest is shared, so that 50 dimensions cost far less than 50 windows.",
        "Amortized MTA with pages on local disk, a window of 2^15, a Product of 1 to 50 sums over "
        "columns of ones (the paper's counts); once update by update, once in batches of 2^16 with "
        "every result. The processor's time.",
        dimensions,
        {"figure_9": partial(lines, x="dimensions", y="ns", labels=("dimensions", "ns an update"),
                             scales=("linear", "log"))},
        found,
        quick=0.05,
    ),
)  # fmt: skip
