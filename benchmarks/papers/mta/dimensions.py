"""The MTA paper's Experiment 5: one window over 1 to 50 dimensions.

One by one the window slides by Listing 3's frame, as the paper's does: each update says how many
the window is to hold, and a prefix leaves while so many remain without it. In batches the window is
by count, as frames that look at values are asked after every single update.
"""

from __future__ import annotations

from itertools import cycle, islice
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Rows,
    distinct,
    points,
    where,
)
from benchmarks.report.fits import line, ratio
from benchmarks.report.plots import lines
from mta import CountWindow, Product, Sum, Window
from mta.aggregations import ColumnarMonoid
from mta.frames import CustomFrame, Frame

WINDOW, UPDATES, BATCH = 2**15, 2**16, 2**16
DIMENSIONS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 45, 50)
SINGLY, BATCHES = "one by one", "in batches"
#: The paper's latency at one dimension, and what each more costs, in nanoseconds.
PAPER_ONE, PAPER_EACH = 4895, 411


def dimensions(size: float, progress: Progress) -> Rows:
    """Nanoseconds an update of a product of sums, one by one and in batches, pages on disk."""
    window = max(16, int(WINDOW * size))
    updates, sides = max(200, int(UPDATES * size)), {SINGLY: singly, BATCHES: in_batches}
    cells = [(k, kind) for k in DIMENSIONS for kind in sides]

    def measure(cell: tuple[int, str]) -> Rows:
        k, kind = cell
        row = {"algorithm": kind, "dimensions": k, "window": window}
        return [row | {"ns": 1e9 * sides[kind](k, window, updates)}]

    rows = progress.rows(cells, measure, lambda cell: f"{cell[0]} dimensions, {cell[1]}")
    for kind in distinct(rows, "algorithm"):
        one = where(rows, algorithm=kind, dimensions=1)[0]["ns"]
        for k in DIMENSIONS:
            row = {"algorithm": f"{kind}, as windows of their own", "dimensions": k}
            rows.append(row | {"window": window, "ns": one * k})
    return rows


def listing_3() -> CustomFrame:
    """The paper's frame, on the first count and maxSize of the updates."""
    counted = ColumnarMonoid(
        "count and maxSize",
        inputs=("f8", "f8"),
        partials=("f8", "f8"),
        identity=(0.0, 0.0),
        output=("f8", "f8"),
        # No update has a size of 0: so the newest one's is known beside the identity too.
        combine=lambda a, b: (a[0] + b[0], b[1] + a[1] * (b[1] == 0)),
    )
    return CustomFrame(
        lambda old, total: bool(total[0] - old[0] >= total[1] > 0),
        on=(("count_0", "maxSize"), counted),
        name="Listing 3",
    )


def opened(k: int, window: int, frame: Frame, folder: str) -> Window:
    """A full window of ones in each of its dimensions."""
    sums = Product({f"count_{i}": (f"count_{i}", Sum()) for i in range(k)})
    full = Window(sums, frame, store=f"file://{folder}")
    full.extend(columns(k, window, window), emit="last")
    return full


def columns(k: int, count: int, size: int) -> dict[str, np.ndarray]:
    """Updates, column by column; ``size`` is how many the window is to hold."""
    return {f"count_{i}": np.ones(count) for i in range(k)} | {"maxSize": np.full(count, size)}


def singly(k: int, window: int, updates: int) -> float:
    """Seconds an insertion with its result."""
    with TemporaryDirectory() as folder:
        update = {f"count_{i}": 1.0 for i in range(k)} | {"maxSize": float(window)}
        sliding = opened(k, window, listing_3(), folder)
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
        sliding = opened(k, window, CountWindow(window), folder)
        batch = columns(k, min(BATCH, 4 * updates), window)
        began = process_time()
        sliding.extend(batch)
        taken = process_time() - began
        sliding.close()
    return taken / len(batch["count_0"])


def found(rows: Rows) -> list[Finding]:
    """The line through the latencies, beside windows of their own."""
    findings = []
    for kind in (SINGLY, BATCHES):
        x, y = points(where(rows, algorithm=kind), "dimensions", "ns")
        fit = line(x, y)
        findings.append(
            Finding(
                f"{kind}: latency by dimensions",
                f"linear: {PAPER_ONE - PAPER_EACH:,} ns plus {PAPER_EACH} ns per dimension",
                f"{fit.intercept:,.0f} ns plus {fit.slope:,.0f} ns per dimension (R2 {fit.r2:.2f})",
                fit.r2 >= 0.9 and fit.slope > 0,
            )
        )
        k = x[-1]
        paper = k * PAPER_ONE / (PAPER_ONE + (k - 1) * PAPER_EACH)
        what = f"{kind}: {k:.0f} separate windows to one of {k:.0f} dimensions"
        why = f"A further dimension takes {fit.slope / y[0]:.0%} of the time of a single one, and "
        why += f"{PAPER_EACH / PAPER_ONE:.0%} in the paper."
        findings.append(ratio(what, paper, k * y[0], y[-1], "ns", why, why))
    return findings


def draw(rows: Rows) -> Figure:
    """Both lines of each kind of work in a panel of its own, as their times are far apart."""
    some = [row | {"kind": row["algorithm"].partition(",")[0]} for row in rows]
    labels = ("dimensions", "ns an update")
    return lines(some, "dimensions", "ns", labels, panel="kind", scales=("linear", "linear"))


EXPERIMENTS = (
    Experiment(
        "mta_dimensions",
        "Many dimensions in one window",
        "MTA paper, Experiment 5, Figure 9",
        "Latency grows linearly with the number of dimensions, but slowly. One dimension takes "
        "4,895 ns: 411 ns belong to the dimension, and the rest is shared. So 50 dimensions cost "
        "far less than 50 windows.",
        "Amortized MTA with pages on local disk, a window of 2^15, and a Product of 1 to 50 sums "
        "over columns of ones (the paper's counts). One run applies updates one by one, under the "
        "frame of Listing 3. The other applies batches of 2^16 to a count window, and computes "
        "every result. Processor time.",
        dimensions,
        {"figure_9": draw},
        found,
        captions={
            "figure_9": (
                "time per update by the number of dimensions of one window, compared with as many "
                "windows of one dimension; both axes are linear. The paper's line rises slowly and "
                "stays far below the other. Compare the two slopes."
            ),
        },
        quick=0.05,
    ),
)  # fmt: skip
