"""Figures: ours beside a peer's, measured in runs that alternate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Figure:
    """One line of a result: ours, the peer's, and how they compare, or whether a limit held."""

    what: str
    ours: str
    peer: str
    ratio: float | None = None
    limit: str = ""
    held: bool | None = None


def alternate(runs: Sequence[Callable[[], object]], times: int = 3) -> list[float]:
    """The median seconds of each of some runs, taken in turns so that drift hits all alike."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, taken, strict=True):
            began = perf_counter()
            run()
            seconds.append(perf_counter() - began)
    return [median(seconds) for seconds in taken]
