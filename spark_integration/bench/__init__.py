"""``mta bench``: the papers' experiments at this machine's scale, and our figures beside peers.

An experiment measures rows, which become a CSV file, plots, findings and a section of one report
(``experiment``, ``running``, ``report``). Where ours is compared with a peer, a figure is a ratio,
as machines differ and drift: the runs alternate, and medians are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

#: The experiments by name, in the report's order, and the module of each.
EXPERIMENTS = {
    "mta_latency": "mta_latency",
    "mta_bulk": "mta_latency",
    "mta_streams": "mta_streams",
    "mta_memory": "mta_memory",
    "mta_dimensions": "mta_dimensions",
    "ra_break_even": "reactive",
    "ra_throughput": "reactive",
    "ra_update": "reactive",
    "ra_tumbling": "reactive",
    "ra_resize": "reactive",
    "ra_granularity": "reactive",
    "daba_throughput": "in_order",
    "daba_latency": "in_order",
    "daba_break_even": "in_order_break_even",
    "pba_count": "boundaries",
    "pba_time": "boundaries",
    "pba_thread": "boundaries",
    "pba_latency": "boundary_latency",
    "pba_engine": "engine",
    "fiba_distance": "fiba",
    "fiba_in_order": "fiba",
    "fiba_sharing": "fiba",
    "batch": "batch",
    "single": "single",
    "slow": "slow",
    "memory": "memory",
    "late": "late",
    "shared": "shared",
    "peers": "peers",
    "spark": "spark",
    "state_40mb": "state",
    "state_1gb": "state",
    "state_keys": "state",
}


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
