"""Single events: insert, evict, query, compared with Two-Stacks in plain Python with a lambda."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from math import inf
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report.beside import Figure, beside
from mta import CountWindow, Max, Mean, Monoid, Product, SharedWindows, Sum, TimeWindow, Window
from mta.aggregations import AbstractMonoid
from mta.algorithms import FiBA
from mta.kernels import native

EVENTS, WINDOW = 1_000_000, 2**20
#: The allowed lateness and the lateness of late events in seconds, and their share.
LATENESS, LATE_BY, LATE_SHARE = 3600, 100, 0.05


class TwoStacks:
    """The peer: the classic queue of two stacks, in simple Python."""

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
        """Pop from the front; refill an empty front from the back."""
        if not self.front:
            fold, combine = self.identity, self.combine
            for value in reversed(self.back):
                fold = combine(value, fold)
                self.front.append(fold)
            self.back, self.back_fold = [], self.identity
        self.front.pop()

    def query(self) -> Any:
        """Return the fold of all values; 1 combine."""
        return self.combine(self.front[-1] if self.front else self.identity, self.back_fold)


class TimedTwoStacks(TwoStacks):
    """Two stacks with the time of each value, for time windows."""

    def __init__(self, identity: Any, combine: Callable[[Any, Any], Any]) -> None:
        super().__init__(identity, combine)
        self.times: deque[float] = deque()

    def insert_at(self, value: Any, time: float) -> None:
        self.times.append(time)
        self.insert(value)

    def evict_until(self, time: float) -> None:
        times = self.times
        while times and times[0] <= time:
            times.popleft()
            self.evict()


class Limit(NamedTuple):
    """The limit of a side: a ratio to its peer, or nanoseconds."""

    ratio: float | None = None
    most: float | None = None


class Side(NamedTuple):
    """A way to process events."""

    taken: Callable[[], float]
    limit: Limit = Limit()


def run(size: float) -> list[Figure]:
    """Measure nanoseconds for an insert, an evict and a query."""
    size_of, values = int(WINDOW * min(size, 1)), np.random.default_rng(1)
    numbers = values.random(size_of + int(EVENTS * size)).tolist()
    rows = [{"x": number} for number in numbers]
    sides = {
        "Two-Stacks": Side(lambda: two_stacks(numbers, size_of)),
        "Two-Stacks, by time": Side(lambda: two_stacks_by_time(numbers, size_of)),
        **ours(numbers, rows, size_of),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(5):
        for name, side in sides.items():
            taken[name].append(side.taken())
    found = {name: median(times) for name, times in taken.items()}
    figures = []
    for name, (_, (ratio, most)) in sides.items():
        if name.startswith("Two-Stacks"):
            continue
        peer = "Two-Stacks, by time" if "by time" in name else "Two-Stacks"
        beside, times = f"{found[peer]:.0f} ns, {peer}", found[name] / found[peer]
        limit = f"<= {ratio:g}" if ratio else f"<= {most:,.0f} ns" if most else ""
        held = found[name] <= most if most else None
        figures.append(Figure(name, f"{found[name]:.0f} ns", beside, times, limit, held))
    return figures


def ours(numbers: list[float], rows: list[Any], size: int) -> dict[str, Side]:
    """Return our sides; built-in monoids have limits only with the compiled kernels."""
    plain = Monoid(identity=-inf, combine=larger, name="larger")
    both = Product({"most": ("x", Max()), "sum": ("x", Sum())})
    sides = {
        "lambda, in memory": Side(lambda: windowed(plain, numbers, size, None), Limit(1.5)),
        "lambda, in pages": Side(lambda: windowed(plain, numbers, size, "memory://")),
    }
    ways: list[tuple[str, Callable[[], float], Limit]] = [
        ("Max", lambda: on_disk(Max(), numbers, size), Limit(1)),
        ("Max, by time", lambda: on_disk(Max(), numbers, size, TimeWindow), Limit(1)),
        ("Mean", lambda: on_disk(Mean(), numbers, size), Limit(most=1500)),
        ("Product of two", lambda: on_disk(both, rows, size), Limit(most=2000)),
        (
            "Max, FiBA",
            lambda: on_disk(Max(), numbers, size, CountWindow, aggregator=FiBA),
            Limit(most=8000),
        ),
    ]
    for name, side, limit in ways:
        held = limit if native.compiled is not None else Limit()
        sides[f"{name}, on local disk"] = Side(side, held)
    return sides | {
        "Max, by time, FiBA with an hour of allowed lateness, on local disk": Side(
            lambda: late(numbers, size, 0.0)
        ),
        "the same, by time, 5 % of the events up to 100 places late": Side(
            lambda: late(numbers, size, LATE_SHARE)
        ),
        "Max, four windows in SharedWindows, on local disk": Side(
            lambda: four_on_disk(numbers, size, CountWindow)
        ),
        "Max, four windows in SharedWindows, by time, on local disk": Side(
            lambda: four_on_disk(numbers, size, TimeWindow)
        ),
    }


def larger(a: float, b: float) -> float:
    """Return the larger number; the operation of both sides."""
    return a if a >= b else b


def two_stacks(values: list[float], size: int) -> float:
    """Return nanoseconds per event."""
    queue, result = TwoStacks(-inf, larger), 0.0
    for value in values[:size]:
        queue.insert(value)
    began = perf_counter()
    for value in values[size:]:
        queue.insert(value)
        if len(queue) > size:
            queue.evict()
        result = queue.query()
    seconds = perf_counter() - began
    require(result == max(values[-size:]))
    return 1e9 * seconds / (len(values) - size)


def two_stacks_by_time(values: list[float], size: int) -> float:
    """Return nanoseconds per event, with an event every second."""
    queue, result = TimedTwoStacks(-inf, larger), 0.0
    for at, value in enumerate(values[:size]):
        queue.insert_at(value, float(at))
    time = float(size)
    began = perf_counter()
    for value in values[size:]:
        queue.insert_at(value, time)
        queue.evict_until(time - size)
        result = queue.query()
        time += 1.0
    seconds = perf_counter() - began
    require(result == max(values[-size:]))
    return 1e9 * seconds / (len(values) - size)


def on_disk(
    monoid: AbstractMonoid, values: list[Any], size: int, kind: Any = CountWindow, **settings: Any
) -> float:
    """Return nanoseconds per event, with pages on local disk."""
    with tempfile.TemporaryDirectory() as folder:
        return windowed(monoid, values, size, f"file://{folder}", kind, **settings)


def windowed(
    monoid: AbstractMonoid,
    values: list[Any],
    size: int,
    store: str | None,
    kind: Any = CountWindow,
    **settings: Any,
) -> float:
    """Return nanoseconds per event; with times, there is an event every second."""
    window = Window(monoid, kind(size), store=store, **settings)
    nanoseconds, result = fed(window, values, size)
    if not isinstance(monoid, Mean | Product):
        require(result == max(values[-size:]))
    return nanoseconds


def late(values: list[float], size: int, share: float) -> float:
    """Return nanoseconds per event with a share of late events, and pages on local disk.

    An event in order arrives every second. With late events, the stream has a tenth of the length.
    """
    if share:
        values = values[: size + (len(values) - size) // 10]
    random = np.random.default_rng(2)
    behind = (random.random(len(values)) < share) * random.integers(1, LATE_BY, len(values))
    behind[:size] = 0
    times: list[float] = (np.arange(float(len(values))) - behind).tolist()
    with tempfile.TemporaryDirectory() as folder:
        window = Window(Max(), TimeWindow(size), f"file://{folder}", allowed_lateness=LATENESS)
        nanoseconds, result = fed(window, values, size, times)
    oldest = max(times) - size
    require(result == max(value for value, at in zip(values, times, strict=True) if at > oldest))
    return nanoseconds


def four_on_disk(values: list[float], size: int, kind: Any) -> float:
    """Return nanoseconds per event for four shared windows, with pages on local disk."""
    sizes = [size >> half for half in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        frames = {str(size): kind(size) for size in sizes}
        nanoseconds, results = fed(
            SharedWindows(Max(), frames, store=f"file://{folder}"), values, size
        )
    require(results == {str(size): max(values[-size:]) for size in sizes})
    return nanoseconds


def fed(
    window: Window | SharedWindows, values: list[Any], size: int, times: list[float] | None = None
) -> tuple[float, Any]:
    """Return nanoseconds per event after the first ``size``, and the last result.

    An event arrives every second, unless times are given. Closes the window.
    """
    timed, times = window.engine.timed, times or np.arange(float(len(values))).tolist()
    for value, time in zip(values[:size], times, strict=False):
        window.insert(value, time)
    insert, query, result = window.insert, window.query, None
    began = perf_counter()
    if timed:
        for value, time in zip(values[size:], times[size:], strict=False):
            insert(value, time)
            result = query()
    else:
        for value in values[size:]:
            insert(value)
            result = query()
    seconds = perf_counter() - began
    window.close()
    return 1e9 * seconds / (len(values) - size), result


def require(agrees: bool) -> None:
    """Require correct results."""
    if not agrees:
        raise AssertionError("the last result is not the largest value of the window")


EXPERIMENTS = (
    beside(
        "single",
        "Single events",
        "Insert, evict and query one event at a time, in a window of 2^20 events. Compared with "
        "Two-Stacks in plain Python with a lambda, in memory. Time per event.",
        run,
        quick=0.2,
    ),
)
