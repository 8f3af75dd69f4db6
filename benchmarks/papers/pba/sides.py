"""The sides of the PBA paper's experiments: algorithms at work on single values and on batches.

The paper gives every algorithm the same slices, Cutty's (section 2.2): they begin where windows
begin, and a window that ends within a slice takes what is there of it. SBA and PBA slice by
themselves; ``Slices`` does it for aggregators that evict values one by one.
"""

from __future__ import annotations

import math
import timeit
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.papers.daba.experiments import evicts
from benchmarks.papers.operators import larger
from benchmarks.papers.pba.data import RATE
from mta import CountWindow, Monoid, SlicedWindow, Window
from mta.algorithms import (
    PBA,
    SBA,
    BoundaryAggregator,
    InOrderAggregator,
    RecalculateFromScratch,
    SlickDeque,
    TwoStacks,
    count_chunk_size,
)
from mta.monoids.base import AbstractMonoid
from mta.times import to_time

#: Recalculating is given up above this range, and given so many values at most.
MOST_RECALCULATED, RECALCULATED = 2**9, 100_000
#: A batch has at most so many values; what is timed is the best of so many runs.
BATCH, TIMES = 1 << 16, 3
ALGORITHMS = (TwoStacks, SlickDeque, SBA, PBA)
PLAIN_MAX = Monoid(-math.inf, larger, name="Max", selective=True)
#: Columns of values, and of times where these are needed.
Data = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """An algorithm at work: its new window, how values are put in, and what is timed."""

    algorithm: str
    make: Callable[[], Any]
    fill: Callable[[Any, Data], object]
    run: Callable[[Any, Data], Any]
    """Puts values in, and takes every result; answers the last one."""
    most: int | None = None
    """So many values at most are timed."""


# --- sides --------------------------------------------------------------------------------------


def by_rounds(reach: int, monoid: AbstractMonoid = PLAIN_MAX) -> list[Side]:
    """Evict, insert and query, at a slide of 1 (SBA and PBA evict by themselves)."""
    found = []
    for algorithm in (*ALGORITHMS, RecalculateFromScratch):
        slow = algorithm is RecalculateFromScratch
        if slow and reach > MOST_RECALCULATED:
            continue
        sized = issubclass(algorithm, BoundaryAggregator)
        make = partial(algorithm, monoid, *([reach] if sized else []))
        most = RECALCULATED // reach if slow else None
        found.append(Side(algorithm.__name__, make, insert_all, rounds, most))
    return found


def by_slices(reach: int, slide: int, monoid: AbstractMonoid = PLAIN_MAX) -> list[Side]:
    """Values by which windows of ``reach`` slide, all with Cutty's slices."""
    found = []
    for algorithm in ALGORITHMS:
        make = partial(sliding, algorithm, monoid, reach, slide)
        found.append(Side(algorithm.__name__, make, insert_all, instances))
    return found


def by_time(
    reach: int,
    slide: int,
    monoid: AbstractMonoid = PLAIN_MAX,
    algorithms: Sequence[type[InOrderAggregator]] = ALGORITHMS,
) -> list[Side]:
    """The same over time, in readings."""
    found = []
    for algorithm in algorithms:
        make = partial(sliding_in_time, algorithm, monoid, reach, slide)
        found.append(Side(algorithm.__name__, make, insert_all, instances))
    return found


def by_batches(reach: int, slide: int, monoid: AbstractMonoid) -> list[Side]:
    """Columns of numpy; where windows slide by more than 1, numpy folds the slices first.

    Only ``SlicedWindow`` folds them itself.
    """
    slices, run = reach // slide, partial(extend, slide=slide)
    makes: dict[str, Callable[[], Any]] = {
        "SBA": partial(SBA, monoid, slices),
        "PBA": partial(PBA, monoid, slices),
        "Amortized MTA": partial(Window, monoid, CountWindow(slices), store=None),
    }
    found = [Side(name, make, run, run) for name, make in makes.items()]
    if slide > 1:
        make = partial(SlicedWindow, monoid, CountWindow(reach), slide=slide, store=None)
        found.append(Side("SlicedWindow", make, extend, extend))
    return found


def sliding(
    algorithm: type[InOrderAggregator], monoid: AbstractMonoid, reach: int, slide: int
) -> Slices | BoundaryAggregator:
    """A count window, whoever slices."""
    if issubclass(algorithm, BoundaryAggregator):
        return algorithm(monoid, reach, slide)
    return Slices(algorithm(monoid), reach, slide)


def sliding_in_time(
    algorithm: type[InOrderAggregator], monoid: AbstractMonoid, reach: int, slide: int
) -> Slices | BoundaryAggregator:
    """A time window; its chunks by theorem 1, as a replay leaves no time between readings."""
    if issubclass(algorithm, BoundaryAggregator):
        chunk = count_chunk_size(reach, slide)
        return algorithm.timed(monoid, reach / RATE, slide / RATE, chunk_size=chunk)
    reading = 1_000_000 // RATE
    return Slices(algorithm(monoid), reach * reading, slide * reading, timed=True)


def insert_all(window: Any, data: Data) -> None:
    """Values one by one, without a result."""
    insert = window.insert
    for row in zip(*data, strict=True):
        insert(*row)


def rounds(window: InOrderAggregator, data: Data) -> Any:
    """A round a value."""
    evict, insert, query, result = evicts(window), window.insert, window.query, None
    for value in data[0]:
        evict()
        insert(value)
        result = query()
    return result


def instances(window: Slices | BoundaryAggregator, data: Data) -> Any:
    """Values one by one, and a result where a window ends."""
    last = deque(window.instances(*data), maxlen=1)
    return last[0][1] if last else None


def extend(window: Any, data: Data, slide: int = 1) -> Any:
    """Values in batches."""
    values: np.ndarray = data[0]
    results: Any = None
    for start in range(0, len(values), BATCH * slide):
        batch = values[start : start + BATCH * slide]
        if slide > 1:
            batch = batch.reshape(-1, slide).max(axis=1)
        results = window.extend(batch)
    return getattr(results, "results", results)[-1]


# --- what is timed, and that it is right --------------------------------------------------------


def cut(data: Data, start: int, stop: int | None = None) -> Data:
    """The same rows of all columns."""
    return tuple(column[start:stop] for column in data)


def nanoseconds(sides: Sequence[Side], data: Data, held: int) -> dict[str, float]:
    """The best time a value of each, once a window holds the first values."""
    first, rest = cut(data, 0, held), cut(data, held)
    taken: dict[str, list[float]] = {}
    for _ in range(TIMES):
        for side in sides:
            window, some = side.make(), cut(rest, 0, side.most)
            side.fill(window, first)
            began = perf_counter()
            side.run(window, some)
            seconds = perf_counter() - began
            taken.setdefault(side.algorithm, []).append(1e9 * seconds / len(some[0]))
    return {name: min(found) for name, found in taken.items()}


def verify(sides: Sequence[Side], data: Data, held: int, piece: int) -> None:
    """What is timed must be right: all sides answer alike, piece by piece."""
    answers = {}
    for side in sides:
        window = side.make()
        side.fill(window, cut(data, 0, held))
        starts = range(held, len(data[0]) - piece + 1, piece)
        answers[side.algorithm] = [side.run(window, cut(data, at, at + piece)) for at in starts]
    first, *others = answers.items()
    for name, found in others:
        if not np.allclose(found, first[1], rtol=1e-9):
            raise AssertionError(f"{name} answers other than {first[0]}: {found} to {first[1]}")


def counting(monoid: AbstractMonoid) -> tuple[AbstractMonoid, Iterator[int]]:
    """The monoid with a combine that ticks."""
    counted, ticks, combine = copy(monoid), count(), monoid.combine

    def ticking(left: Any, right: Any) -> Any:
        next(ticks)
        return combine(left, right)

    counted.combine = ticking
    return counted, ticks


def a_combine(monoid: AbstractMonoid, left: Any, right: Any, times: int = 200) -> float:
    """Nanoseconds of one combine, the best of five loops."""
    call = partial(monoid.combine, left, right)
    return 1e9 * min(timeit.repeat(call, number=times, repeat=5)) / times


# --- slices ---------------------------------------------------------------------------------------

#: The aggregate of no values.
_NOTHING: Any = object()


class Slices:
    """A window of ``range`` that slides by ``slide`` over an aggregator that evicts one by one.

    Both are numbers of values, or with ``timed`` microseconds. Combines a value: 1 for its slice;
    a slide: what an insert, evict and query of the aggregator take, and 1 for the current slice.

    >>> from mta import Max
    >>> from mta.algorithms import TwoStacks
    >>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    >>> windows = Slices(TwoStacks(Max()), 10, 2).instances(stream)
    >>> [(end, float(result)) for end, result in windows][-3:]
    [(16, 7.0), (18, 9.0), (20, 9.0)]
    """

    def __init__(
        self, window: InOrderAggregator, range: int, slide: int, *, timed: bool = False
    ) -> None:
        self._window, self._monoid, self._timed = window, window.monoid, timed
        self.range, self.slide = range, slide
        self._now: int | None = None
        #: The oldest slice of the window, the one that is being filled, and its aggregate.
        self._front = self._current = 0
        self._slice = _NOTHING

    def insert(self, value: Any, time: Any = None) -> None:
        """Add a value; what the slide says leaves."""
        monoid = self._monoid
        v = monoid.lift(monoid.row(value))
        self._advance(self._position(time))
        self._slice = v if self._slice is _NOTHING else monoid.combine(self._slice, v)

    def query(self) -> Any:
        """The result of the slices and of what is there of the current one."""
        monoid, window = self._monoid, self._window
        agg = window._query() if len(window) else monoid.identity
        return monoid.lower(agg if self._slice is _NOTHING else monoid.combine(agg, self._slice))

    def instances(
        self, values: Iterable[Any], times: Iterable[Any] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Insert values; where each window ends, and its result, as ``SBA.instances`` does."""
        for value, time in zip(values, repeat(None) if times is None else times, strict=False):
            if self._timed and self._now is not None:
                end, stop = self._next_end(self._now), self._position(time)
                while end <= stop:
                    self._advance(end - 1)
                    yield end, self.query()
                    end += self.slide
            self.insert(value, time)
            if not self._timed:
                assert self._now is not None
                end = self._now + 1
                if self._next_end(self._now) == end:
                    yield end, self.query()

    def _position(self, time: Any) -> int:
        if self._timed:
            return to_time(time)
        return 0 if self._now is None else self._now + 1

    def _next_end(self, now: int) -> int:
        first = now + 1 if self._timed else max(now + 1, self.range)
        return first + (self.range - first) % self.slide

    def _advance(self, position: int) -> None:
        current, front = position // self.slide, (position - self.range) // self.slide + 1
        if self._now is None:
            self._front = self._current = current
        self._now = position
        window, identity = self._window, self._monoid.identity
        while self._current < current:
            window._insert(identity if self._slice is _NOTHING else self._slice)
            window._size += 1
            self._slice = _NOTHING
            self._current += 1
        while self._front < front:
            window._evict()
            window._size -= 1
            self._front += 1
