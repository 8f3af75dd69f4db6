"""Every aggregator of the project in one matrix: the same events, the same oracle.

The oracle is a list and a fold with concatenation, which is neither commutative nor invertible;
what needs an inverse or a selective operation gets one in which order still matters. In-memory and
paged aggregators, those by order of arrival and those by time, all insert at the back, evict at the
front, singly and in bulk, and are asked and checked after each step. The suites of the single
algorithms go further; this one says that they are exchangeable.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import pytest

from mta import (
    AbstractMonoid,
    AmortizedMTA,
    CountWindow,
    FiBA,
    LogMTA,
    Monoid,
    SteadyMTA,
    Window,
)
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.in_order import ALL, BoundaryAggregator, InOrderAggregator
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator
from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.fingers import after_time
from tests.support.random_windows.kinds import NEIGHBOURS
from tests.support.sampling import some

HUGE = 10**9


class Contender(Protocol):
    """What the matrix asks of each."""

    def insert(self, value: str) -> None: ...

    def evict(self, count: int) -> None: ...

    def query(self) -> Any: ...

    def __len__(self) -> int: ...

    def check(self) -> None: ...


class Ranging(Contender, Protocol):
    """One that also answers ranges; positions count from its oldest event."""

    def range(self, start: int, stop: int) -> Any: ...


class InMemory:
    """An in-order aggregator, or the Reactive Aggregator."""

    def __init__(self, aggregator: Any) -> None:
        self._aggregator = aggregator
        self.insert, self.query = aggregator.insert, aggregator.query
        self.check = aggregator.check

    def evict(self, count: int) -> None:
        for _ in range(count):
            self._aggregator.evict()

    def __len__(self) -> int:
        return len(self._aggregator)


class ByTime:
    """A tree by time, fed in order of time."""

    def __init__(self, tree: Tree) -> None:
        self._tree, self._first, self._last = tree, 0, 0
        self.query, self.check = tree.query, tree.check

    def insert(self, value: str) -> None:
        self._tree.insert(self._last, value)
        self._last += 1

    def evict(self, count: int) -> None:
        for _ in range(count):
            assert self._tree.evict(self._first)
            self._first += 1

    def range(self, start: int, stop: int) -> Any:
        assert isinstance(self._tree, FingerTree)
        cuts = (after_time(self._first + end - 1) for end in (start, stop))
        return self._tree.fold_between(*cuts)

    def __len__(self) -> int:
        return len(self._tree)


class Paged:
    """A window that evicts only on request; it is reopened from time to time."""

    def __init__(self, monoid: AbstractMonoid, aggregator: type[Aggregator], store: bool) -> None:
        self._window = Window(
            monoid, CountWindow(HUGE), "memory://" if store else None,
            arity=2, leaf_arity=3, aggregator=aggregator,
        )  # fmt: skip
        self._steps = 0

    def insert(self, value: str) -> None:
        self._window.insert(value)
        self._reopen()

    def evict(self, count: int) -> None:
        self._window.evict(count)
        self._reopen()

    def _reopen(self) -> None:
        self._steps += 1
        if self._window.store is not None and self._steps % 23 == 0:
            self._window = self._window.restore_like(self._window.checkpoint())

    def query(self) -> Any:
        return self._window.query()

    def range(self, start: int, stop: int) -> Any:
        front = self._window.stats().inserted - len(self._window)
        return self._window.range_by_position(front + start, front + stop)

    def check(self) -> None:
        self._window.check()

    def __len__(self) -> int:
        return len(self._window)


def monoid_for(algorithm: type[InOrderAggregator]) -> Monoid:
    """Concatenation, or what comes nearest to it of what an algorithm takes."""
    candidates = [
        Monoid("", lambda a, b: a + b, name="joined"),
        Monoid("", lambda a, b: a + b, name="cut off", inverse=lambda a, b: a[len(b) :]),
        Monoid("", lambda a, b: a if len(a) >= len(b) else b, name="longest", selective=True),
    ]
    return next(monoid for monoid in candidates if algorithm.suits(monoid))


JOINED = Monoid("", lambda a, b: a + b, name="joined")
PAGED: list[type[Aggregator]] = [
    AmortizedMTA, SteadyMTA, LogMTA, FiBA, PagedFlatFAT, PagedReactiveAggregator,
]  # fmt: skip
CONTENDERS: dict[str, tuple[Monoid, Callable[[Monoid], Contender]]] = {
    algorithm.__name__: (
        monoid_for(algorithm),
        lambda monoid, algorithm=algorithm: InMemory(algorithm(monoid)),
    )
    for algorithm in ALL
    if not issubclass(algorithm, BoundaryAggregator)  # they slide by themselves: tests/in_order
}
CONTENDERS["ReactiveAggregator"] = (JOINED, lambda m: InMemory(ReactiveAggregator(m, 4)))
RANGING: dict[str, Callable[[Monoid], Ranging]] = {
    "FingerTree": lambda monoid: ByTime(FingerTree(monoid)),
}
RANGING |= {
    f"{aggregator.__name__} {where}": lambda monoid, aggregator=aggregator, where=where: Paged(
        monoid, aggregator, where == "in pages"
    )
    for aggregator in PAGED
    for where in ("in memory", "in pages")
}
CONTENDERS["Tree"] = (JOINED, lambda monoid: ByTime(Tree(monoid)))
CONTENDERS |= {name: (JOINED, make) for name, make in RANGING.items()}


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("seed", some(range(4), by_default=1))
def test_every_aggregator_is_a_list_and_a_fold(name: str, seed: int) -> None:
    monoid, make = CONTENDERS[name]
    random, contender = Random(seed), make(monoid)
    values: list[str] = []
    for step in range(160):
        what = random.random()
        if what < 0.55 or not values:
            value = chr(97 + step % 26) * random.choice([1, 1, 2])
            contender.insert(value)
            values.append(value)
        else:
            most = len(values) if what > 0.97 else min(3, len(values))
            count = random.randint(1, most)
            contender.evict(count)
            del values[:count]
        assert contender.query() == monoid.fold(values, len(values)), step
        assert len(contender) == len(values)
        if step % 5 == 0:
            contender.check()


#: Not the Reactive Aggregator in memory: as in its paper, nodes above the end of the slots combine
#: the newest values with the oldest ones behind them, and are not asked while they do.
IN_ORDER = [
    name
    for name, (monoid, _) in CONTENDERS.items()
    if monoid.name == JOINED.name and name != "ReactiveAggregator"
]


@pytest.mark.parametrize("name", IN_ORDER)
@pytest.mark.parametrize("seed", some(range(4), by_default=1))
def test_every_aggregator_combines_neighbours_alone(name: str, seed: int) -> None:
    """In order too; and its check does."""
    random = Random(seed)
    contender = CONTENDERS[name][1](NEIGHBOURS.monoid(False))
    first = last = 0
    for _ in range(120):
        if random.random() < 0.6 or first == last:
            contender.insert(f"{last}:")
            last += 1
        else:
            count = random.randint(1, random.choice([1, 3, last - first]))
            count = min(count, last - first)
            contender.evict(count)
            first += count
        expected = (first, last - 1, last - first) if first < last else ()
        assert contender.query() == expected
        contender.check()


@pytest.mark.parametrize("name", RANGING)
@pytest.mark.parametrize("seed", some(range(4), by_default=1))
def test_every_range_is_a_fold_of_neighbours(name: str, seed: int) -> None:
    """Also right after a window was reopened, and of events that are not sealed yet."""
    random, contender = Random(seed), RANGING[name](NEIGHBOURS.monoid(False))
    values: list[str] = []
    for step in range(160):
        if random.random() < 0.6 or not values:
            values.append(f"{step}:" if not values else f"{int(values[-1][:-1]) + 1}:")
            contender.insert(values[-1])
        else:
            count = random.randint(1, random.choice([1, 3, len(values)]))
            count = min(count, len(values) - 1)
            contender.evict(count)
            del values[:count]
        for _ in range(4):
            start = random.randint(0, len(values))
            stop = random.choice([len(values), random.randint(start, len(values))])
            assert NEIGHBOURS.agrees(contender.range(start, stop), values[start:stop]), step


def test_no_aggregator_is_missing() -> None:
    """What the package offers is here, or slides by itself and has a matrix of its own."""
    named = {name.split()[0] for name in CONTENDERS}
    offered = {kind.__name__ for kind in (*ALL, *PAGED, ReactiveAggregator, Tree, FingerTree)}
    assert offered - named == {"SBA", "PBA"}
