"""Batches: every result of a count window of 2^20 over 4 million doubles, beside pandas."""

from __future__ import annotations

import tempfile
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.report.beside import Figure, alternate, beside
from mta import AbstractMonoid, CountWindow, Max, Mean, SampleStdDev, Sum, Window

#: A batch longer than its window writes the last window alone; short ones write all their events.
EVENTS, WINDOW, BATCH = 4_000_000, 2**20, 2**16
#: Monoid, pandas' name for it, and the limit of the ratio on disk.
MONOIDS: tuple[tuple[AbstractMonoid, str, str], ...] = (
    (Max(), "max", "<= 1.2"),
    (Sum(), "sum", "<= 3"),
    (Mean(), "mean", "<= 3"),
    (SampleStdDev(), "std", "<= 3"),
)


def run(size: float) -> list[Figure]:
    """Nanoseconds per event, ours in memory and with pages on local disk."""
    values = np.random.default_rng(1).normal(100, 10, int(EVENTS * size))
    window, series = int(WINDOW * min(size, 1)), pd.Series(values)
    figures = []
    for monoid, name, limit in MONOIDS:
        check(monoid, name, values[:50_000])
        seconds = alternate(
            [
                partial(getattr(series.rolling(window), name)),
                partial(in_memory, monoid, window, values),
                partial(on_disk, monoid, window, values),
                partial(on_disk, monoid, window, values, max(1, int(BATCH * size))),
            ],
            times=5,
        )
        peer, memory, disk, short = (1e9 * s / len(values) for s in seconds)
        beside = f"{peer:.1f} ns, pandas"
        held = "<= 0.9" if name == "max" else ""
        figures += [
            Figure(
                f"{name}, in memory, one batch", f"{memory:.1f} ns", beside, memory / peer, held
            ),
            Figure(
                f"{name}, on local disk, one batch", f"{disk:.1f} ns", beside, disk / peer, limit
            ),
            Figure(
                f"{name}, on local disk, batches of {BATCH:,}",
                f"{short:.1f} ns",
                beside,
                short / peer,
            ),
        ]
    return figures


def in_memory(monoid: AbstractMonoid, size: int, values: np.ndarray) -> np.ndarray:
    """Every result, groups kept in memory."""
    results: np.ndarray = Window(monoid, CountWindow(size), store=None).extend(values)
    return results


def on_disk(
    monoid: AbstractMonoid, size: int, values: np.ndarray, batch: int | None = None
) -> np.ndarray:
    """Every result, pages on local disk, and the pages durable at the end."""
    batch = batch or len(values)
    with tempfile.TemporaryDirectory() as folder:
        window = Window(monoid, CountWindow(size), store=f"file://{folder}")
        starts = range(0, len(values), batch)
        results = [window.extend(values[start : start + batch]) for start in starts]
        window.close()
    return results[0] if len(results) == 1 else np.concatenate(results)


def check(monoid: AbstractMonoid, name: str, values: np.ndarray) -> None:
    """What is timed must be right."""
    expected = getattr(pd.Series(values).rolling(5_000, min_periods=1), name)()
    for batch in (None, 700):
        found = on_disk(monoid, 5_000, values, batch)
        np.testing.assert_allclose(found, expected, rtol=1e-9, equal_nan=True)


EXPERIMENTS = (
    beside(
        "batch",
        "Batches",
        "One result per event, for 4 million doubles and a count window of 2^20; pandas works "
        "on the whole series in memory. A batch of all events is four windows long, so only "
        "its last window is written; batches of 2^16 write every event. Time per event.",
        run,
        quick=0.5,
    ),
)
