"""Single events: insert, evict, query with a Python lambda, beside Two-Stacks in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from mta import CountWindow, Monoid, Window
from mta.bench.frame.beside import Figure, beside

EVENTS, WINDOW = 1_000_000, 2**20


class TwoStacks:
    """The classic queue of two stacks, as one would write it: the peer."""

    def __init__(self, identity: Any, combine: Callable[[Any, Any], Any]) -> None:
        self.identity, self.combine = identity, combine
        self.front: list[Any] = []
        self.back: list[Any] = []
        self.back_fold = identity

    def __len__(self) -> int:
        return len(self.front) + len(self.back)

    def insert(self, value: Any) -> None:
        """Push on the back; 1 combine."""
        self.back.append(value)
        self.back_fold = self.combine(self.back_fold, value)

    def evict(self) -> None:
        """Pop from the front, which is refilled from the back when it is empty."""
        if not self.front:
            fold, combine = self.identity, self.combine
            for value in reversed(self.back):
                fold = combine(value, fold)
                self.front.append(fold)
            self.back, self.back_fold = [], self.identity
        self.front.pop()

    def query(self) -> Any:
        """The fold of all; 1 combine."""
        return self.combine(self.front[-1] if self.front else self.identity, self.back_fold)


def run(size: float) -> list[Figure]:
    """Nanoseconds for an insert, an evict and a query."""
    window = int(WINDOW * min(size, 1))
    values = np.random.default_rng(1).random(window + int(EVENTS * size)).tolist()
    sides: dict[str, Callable[[], tuple[float, float]]] = {
        "Two-Stacks": lambda: two_stacks(values, window),
        "in memory": lambda: windowed(values, window, None),
        "in pages": lambda: windowed(values, window, "memory://"),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    results = set()
    for _ in range(5):
        for name, side in sides.items():
            nanoseconds, result = side()
            taken[name].append(nanoseconds)
            results.add(result)
    if len(results) != 1:
        raise AssertionError(f"the sides differ: {results}")
    peer, *ours = (median(found) for found in taken.values())
    return [
        Figure(
            f"lambda, {where}", f"{mine:.0f} ns", f"{peer:.0f} ns, Two-Stacks", mine / peer, limit
        )
        for where, mine, limit in zip(("in memory", "in pages"), ours, ("<= 1.5", ""), strict=True)
    ]


def larger(a: float, b: float) -> float:
    """The operation of both sides."""
    return a if a >= b else b


def two_stacks(values: list[float], size: int) -> tuple[float, float]:
    """Nanoseconds an event, and the last result."""
    queue, result = TwoStacks(float("-inf"), larger), 0.0
    for value in values[:size]:
        queue.insert(value)
    began = perf_counter()
    for value in values[size:]:
        queue.insert(value)
        if len(queue) > size:
            queue.evict()
        result = queue.query()
    return 1e9 * (perf_counter() - began) / (len(values) - size), result


def windowed(values: list[float], size: int, store: str | None) -> tuple[float, float]:
    """Nanoseconds an event, and the last result."""
    monoid = Monoid(identity=float("-inf"), combine=larger, name="larger")
    window, result = Window(monoid, CountWindow(size), store=store), 0.0
    for value in values[:size]:
        window.insert(value)
    began = perf_counter()
    for value in values[size:]:
        window.insert(value)
        result = window.query()
    return 1e9 * (perf_counter() - began) / (len(values) - size), result


EXPERIMENTS = (
    beside(
        "single",
        "One event at a time, beside Two-Stacks in plain Python",
        run,
        quick=0.2,
    ),
)
