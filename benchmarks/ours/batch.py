"""Batches: results of a count window of 2^20 over 4 million doubles, compared with pandas."""

from __future__ import annotations

import tempfile
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.report.beside import Figure, alternate, beside
from mta import CountWindow, Max, Mean, SampleStdDev, Sum, Window
from mta.aggregations import AbstractMonoid

#: A batch longer than its window writes only the last window; short batches write all events.
EVENTS, WINDOW, BATCH = 4_000_000, 2**20, 2**16
#: Monoids, pandas' names for them, and the limits of the ratios in the order of ``SIDES``.
MONOIDS: tuple[tuple[AbstractMonoid, str, tuple[str, ...]], ...] = (
    (Max(), "max", ("<= 0.9", "<= 1.2", "<= 0.4", "<= 0.6")),
    (Sum(), "sum", ("", "<= 3", "<= 0.6", "<= 1.1")),
    (Mean(), "mean", ("", "<= 3", "<= 0.6", "<= 1.1")),
    (SampleStdDev(), "std", ("", "<= 3", "<= 0.7", "<= 1.1")),
)
#: Whether pages are on disk, and whether batches are short.
SIDES = ((False, False), (True, False), (False, True), (True, True))


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event, ours in memory and with pages on local disk."""
    values = np.random.default_rng(1).normal(100, 10, int(EVENTS * size))
    window, series = int(WINDOW * min(size, 1)), pd.Series(values)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for monoid, name, limits in MONOIDS:
            check(monoid, name, values[:50_000], folder)
            ours = [
                partial(results, monoid, window, values, folder if paged else None, batch)
                for paged, short in SIDES
                for batch in [max(1, int(BATCH * size)) if short else len(values)]
            ]
            peer, *seconds = alternate([getattr(series.rolling(window), name), *ours], times=5)
            for (paged, short), mine, limit in zip(SIDES, seconds, limits, strict=True):
                place = "on local disk" if paged else "in memory"
                batches = f"batches of {BATCH:,}" if short else "one batch"
                figures.append(
                    Figure(
                        f"{name}, {place}, {batches}",
                        f"{1e9 * mine / len(values):.1f} ns",
                        f"{1e9 * peer / len(values):.1f} ns, pandas",
                        mine / peer,
                        limit,
                    )
                )
    return figures


def results(
    monoid: AbstractMonoid, size: int, values: np.ndarray, folder: str | None, batch: int
) -> list[np.ndarray]:
    """Return all results, by batch; pages on disk are durable at the end."""
    store = None if folder is None else f"file://{tempfile.mkdtemp(dir=folder)}"
    with Window(monoid, CountWindow(size), store=store) as window:
        starts = range(0, len(values), batch)
        return [window.extend(values[start : start + batch]) for start in starts]


def check(monoid: AbstractMonoid, name: str, values: np.ndarray, folder: str) -> None:
    """Require correct results."""
    expected = getattr(pd.Series(values).rolling(5_000, min_periods=1), name)()
    for paged in (None, folder):
        for batch in (len(values), 700):
            found = np.concatenate(results(monoid, 5_000, values, paged, batch))
            np.testing.assert_allclose(found, expected, rtol=1e-9, equal_nan=True)


EXPERIMENTS = (
    beside(
        "batch",
        "Batches",
        "One result per event, for 4 million doubles and a count window of 2^20. The peer, pandas, "
        "works on the whole series in memory. A batch of all events is four windows long, so only "
        "its last window is written; batches of 2^16 write every event. Time per event.",
        run,
        quick=0.5,
    ),
)
