"""Batches with the compiled kernels, compared with pandas' compiled ``rolling``.

The experiment computes all results of count and time windows over 4 million doubles in memory. The
events are one second apart on average, so both kinds of windows have about the same number of
events. Short and long windows use different algorithms and kernels. Figures are processor times,
which other work on the machine disturbs least. For count windows, the experiment also measures
bottleneck and polars if they are installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import process_time

import numpy as np
import pandas as pd

from benchmarks.ours.peers import with_bottleneck, with_polars
from benchmarks.report.beside import Figure, alternate, beside
from mta import CountWindow, Max, Mean, SampleStdDev, Sum, TimeWindow, Window
from mta.aggregations import AbstractMonoid
from mta.frames.base import Frame
from mta.kernels import native

EVENTS, WINDOWS = 4_000_000, (2**10, 2**15, 2**20)
SHORT = 2**10
#: Monoids, pandas' names for them, and the limits for long windows with kernels.
MONOIDS: tuple[tuple[AbstractMonoid, str, str], ...] = (
    (Max(), "max", "<= 0.3"),
    (Sum(), "sum", "<= 0.5"),
    (Mean(), "mean", "<= 0.5"),
    (SampleStdDev(), "std", "<= 0.6"),
)


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event of each library."""
    random, count = np.random.default_rng(1), int(EVENTS * size)
    values = random.normal(100, 10, count)
    times = (random.exponential(1e6, count).cumsum()).astype("i8").view("M8[us]")
    figures = []
    for full in WINDOWS:
        window = max(2, int(full * min(size, 1)))
        for frame, series, length in (
            (CountWindow(window), pd.Series(values), window),
            (TimeWindow(window), pd.Series(values, times), f"{window}s"),
        ):
            at = times if isinstance(frame, TimeWindow) else None
            for monoid, name, limit in MONOIDS:
                others = {} if at is not None else peers(name, window, values)
                runs: list[Callable[[], object]] = [
                    partial(extend, monoid, frame, values, at),
                    partial(getattr(series.rolling(length), name)),
                    *others.values(),
                ]
                ours, peer, *rest = (1e9 * s / count for s in alternate(runs, clock=process_time))
                more = zip(others, rest, strict=True)
                shown = "".join(f"; {taken:.1f} ns, {other}" for other, taken in more)
                most = {SHORT: "<= 0.5", WINDOWS[-1]: limit}.get(full, "")
                if native.compiled is None:
                    most = ""
                what = f"{name}, {window:,} by {'time' if at is not None else 'count'}"
                beside = f"{peer:.1f} ns, pandas{shown}"
                figures.append(Figure(what, f"{ours:.1f} ns", beside, ours / peer, most))
    return figures


def peers(function: str, window: int, values: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return bottleneck and polars over a count window, if they are installed."""
    others = {"bottleneck": with_bottleneck, "polars": with_polars}
    return {
        name: partial(run, function, window, values)
        for name, run in others.items()
        if find_spec(name) is not None
    }


def extend(
    monoid: AbstractMonoid, frame: Frame, values: np.ndarray, times: np.ndarray | None
) -> np.ndarray:
    """Return all results, in memory."""
    results: np.ndarray = Window(monoid, frame, store=None).extend(values, times)
    return results


EXPERIMENTS = (
    beside(
        "kernels",
        "Batches with compiled kernels",
        "One result per event, for 4 million doubles in one batch, in memory. Windows by time "
        "contain about as many events as windows by count. Bottleneck keeps running sums, "
        "which are not exact. Processor time per event.",
        run,
        quick=0.05,
    ),
)
