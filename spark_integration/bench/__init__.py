"""``mta bench``: the figures of the README, each measured beside a peer in the same run.

One experiment a module. Every figure is a ratio, as machines differ and drift; the limit beside it
is what the project holds itself to. Ours and the peer's runs alternate, and medians are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from time import perf_counter

from spark_integration.cli.console import say, table

EXPERIMENTS = {
    "batch": "a batch with every result, in memory and on local disk, beside pandas",
    "single": "one event at a time, beside Two-Stacks in plain Python",
    "slow": "a store that answers in 2 ms, beside one that answers at once",
    "in_order": "the in-memory algorithms beside each other: throughput, latency, break-even",
    "fiba": "FiBA beside the classic B-tree and in-order algorithms, out of order and in order",
    "memory": "resident memory, handles, page reads at 2^25 events",
    "late": "FiBA with late events, beside Amortized MTA, and its memory at 2^24 events",
    "spark": "rows a second through Spark, beside a trivial step and Spark's own window",
}


@dataclass(frozen=True)
class Figure:
    """One line of a result: ours, the peer's, and how they compare."""

    what: str
    ours: str
    peer: str
    ratio: float | None = None
    limit: str = ""


def bench(names: Sequence[str], size: float) -> None:
    """Run the named experiments, all of them by default, and print both sides of each figure.

    ``size`` scales the number of events, 1 being what the README's figures are made with.
    """
    for name in names or EXPERIMENTS:
        say(f"== {name}: {EXPERIMENTS[name]}")
        figures = import_module(f"spark_integration.bench.{name}").run(size)
        rows = [
            (f.what, f.ours, f.peer, "" if f.ratio is None else f"{f.ratio:.2f}", f.limit)
            for f in figures
        ]
        say(table(("", "ours", "peer", "ratio", "limit"), rows))
        say()


def alternate(runs: Sequence[Callable[[], object]], times: int = 3) -> list[float]:
    """The median seconds of each of some runs, taken in turns so that drift hits all alike."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, taken, strict=True):
            began = perf_counter()
            run()
            seconds.append(perf_counter() - began)
    return [median(seconds) for seconds in taken]
