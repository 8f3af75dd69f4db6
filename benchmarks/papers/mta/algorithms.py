"""The algorithms of the MTA paper's experiments, each with its frame, from one interface.

MTA's windows search for the cut of a frame in their tree. The others ask it about the oldest
values one by one, as the paper has them do (section 5), and keep the values beside for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.papers.server import missing, redis_server
from benchmarks.report.experiment import Finding, Rows
from mta import CountWindow, Monoid
from mta.aggregations import AbstractMonoid
from mta.algorithms import (
    DABA,
    AmortizedMTA,
    FiBA,
    InOrderAggregator,
    LogMTA,
    RecalculateFromScratch,
    TwoStacks,
)
from mta.frames import CustomFrame as FrameOf
from mta.frames import Frame
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator
from mta.monoids.base import Partial
from mta.windows.window import Window

#: Whether a prefix must leave a window, from the results of both.
Evicts = Callable[[Any, Any], bool]


class Rule:
    """A window slide policy: at most so many events, and what ``evicts`` says; either or both."""

    def __init__(
        self, size: int | None = None, evicts: Evicts | None = None, also: Any = None
    ) -> None:
        self.size, self.evicts = size, evicts
        frames: list[Frame] = [] if size is None else [CountWindow(size)]
        if evicts is not None:
            frames.append(also or FrameOf(evicts, name="rule"))
        self.frame = frames[0] if len(frames) == 1 else frames[0] | frames[1]


class Sliding(Protocol):
    """A window that is slid by one value at a time."""

    def slide(self, value: Any) -> Any:
        """Insert, evict what the rule says, and answer the result."""

    def begin(self, values: list[Any]) -> None:
        """Insert values that make none leave."""

    def fill(self, values: list[Any]) -> None:
        """Slide over many without asking for results."""


class Naive(RecalculateFromScratch):
    """Recalculates when something has left, and remembers the result (section 5.2)."""

    _remembered: Partial = None

    def _insert(self, v: Partial) -> None:
        super()._insert(v)
        if self._remembered is not None:
            self._remembered = self._combine(self._remembered, v)

    def _evict(self) -> None:
        super()._evict()
        self._remembered = None

    def _query(self) -> Partial:
        if self._remembered is None:
            self._remembered = super()._query()
        return self._remembered


class Reactive(ReactiveAggregator):
    """The Reactive Aggregator as the others are asked: results are lowered."""

    def __init__(self, monoid: AbstractMonoid, capacity: int = 64) -> None:
        super().__init__(monoid, capacity, fifo=True)

    def query(self) -> Any:
        """The result."""
        return self.monoid.lower(super().query())


class OneByOne:
    """An aggregator that knows no bulk eviction, and asks a rule about its oldest values."""

    def __init__(
        self, monoid: AbstractMonoid, rule: Rule, build: Callable[[AbstractMonoid], Any]
    ) -> None:
        self.monoid, self.rule = monoid, rule
        self.window: InOrderAggregator = build(monoid)
        self.values: deque[Any] = deque()

    def slide(self, value: Any) -> Any:
        """Insert, evict, query; combines as the aggregator's, and one for each that is asked."""
        self.window.insert(value)
        self.values.append(value)
        if self.rule.size is not None and len(self.values) > self.rule.size:
            self._evict(1)
        result = self.window.query()
        leaving = self._leaving(result)
        if not leaving:
            return result
        self._evict(leaving)
        return self.window.query()

    def begin(self, values: list[Any]) -> None:
        """Insert values, and ask nothing."""
        insert = self.window.insert
        for value in values:
            insert(value)
        self.values.extend(values)
        self.window.query()

    def fill(self, values: list[Any]) -> None:
        """Slide over many."""
        for value in values:
            self.slide(value)

    def _leaving(self, total: Any) -> int:
        evicts, monoid, prefix = self.rule.evicts, self.monoid, self.monoid.identity
        if evicts is None:
            return 0
        for count, oldest in enumerate(self.values):
            prefix = monoid.combine(prefix, monoid.lift(monoid.row(oldest)))
            if not evicts(monoid.lower(prefix), total):
                return count
        return len(self.values)

    def _evict(self, count: int) -> None:
        for _ in range(count):
            self.window.evict()
            self.values.popleft()


class Searching:
    """A window of this project, whose structure finds the cut."""

    def __init__(self, monoid: AbstractMonoid, rule: Rule, timed: bool, **options: Any) -> None:
        self.window, self._timed, self._now = Window(monoid, rule.frame, **options), timed, 0

    def slide(self, value: Any) -> Any:
        """Insert, evict, query."""
        if self._timed:
            self._now += 1
            self.window.insert(value, self._now)
        else:
            self.window.insert(value)
        return self.window.query()

    def begin(self, values: list[Any]) -> None:
        """Insert values; the window asks its frame all the same."""
        self.fill(values)

    def fill(self, values: list[Any]) -> None:
        """Slide over many."""
        if not values:
            return
        if self._timed:
            times = range(self._now + 1, self._now + 1 + len(values))
            self._now += len(values)
            self.window.extend(values, list(times), emit="last")
        else:
            self.window.extend(values, emit="last")


#: Makes a window of a monoid under a rule, with pages in a store if it has any.
Make = Callable[[AbstractMonoid, Rule, str | None], Sliding]


def _one_by_one(build: Callable[[AbstractMonoid], Any]) -> Make:
    return lambda monoid, rule, store: OneByOne(monoid, rule, build)


def _searching(kind: type[Aggregator], arity: int | None = None) -> Make:
    def make(monoid: AbstractMonoid, rule: Rule, store: str | None) -> Sliding:
        timed = kind is FiBA
        return Searching(monoid, rule, timed, store=store, aggregator=kind, arity=arity)

    return make


#: Ends of the names of those whose pages are in a store.
ON_DISK, OVER_REDIS = ", on disk", ", over Redis"


#: "Pairs" is the paper's own structure, of arity 2; without a word, groups of the default size.
#: FiBA's nodes are small, as in its paper: in large leaves a search for a cut folds many values.
ALGORITHMS: dict[str, Make] = {
    "Naive": _one_by_one(Naive),
    "Two-Stacks": _one_by_one(TwoStacks),
    "DABA": _one_by_one(DABA),
    "RA": _one_by_one(Reactive),
    "FiBA": _searching(FiBA, arity=8),
    "Log MTA, pairs": _searching(LogMTA, arity=2),
    f"Log MTA{ON_DISK}": _searching(LogMTA, arity=16),
    f"Log MTA{OVER_REDIS}": _searching(LogMTA, arity=16),
    "Amortized MTA, pairs": _searching(AmortizedMTA, arity=2),
    "Amortized MTA": _searching(AmortizedMTA),
    f"Amortized MTA{ON_DISK}": _searching(AmortizedMTA),
    f"Amortized MTA{OVER_REDIS}": _searching(AmortizedMTA),
}


def measurable() -> list[str]:
    """The algorithms whose stores there are."""
    redis = missing() is None
    return [name for name in ALGORITHMS if redis or not name.endswith(OVER_REDIS)]


def left_out(measured: Collection[str]) -> list[Finding]:
    """What these are not, and why."""
    return [
        Finding(name, "a store on other machines", f"not measured: {missing() or 'not yet'}")
        for name in ALGORITHMS
        if name.endswith(OVER_REDIS) and name not in measured
    ]


@contextmanager
def opened(name: str, monoid: AbstractMonoid, rule: Rule) -> Iterator[Sliding]:
    """A window of one of the algorithms, its pages gone afterwards."""
    with ExitStack() as held:
        store = None
        if name.endswith(ON_DISK):
            store = f"file://{held.enter_context(TemporaryDirectory())}"
        elif name.endswith(OVER_REDIS):
            store = held.enter_context(redis_server())
        window = ALGORITHMS[name](monoid, rule, store)
        if isinstance(window, Searching):
            held.callback(window.window.close)
        yield window


def with_waits(rows: Rows, time: str) -> Rows:
    """Times by the clock where a store on the network is waited for, which no processor sees."""
    clock = f"clock_{time}"
    return [
        row | {time: row[clock]} if row["algorithm"].endswith(OVER_REDIS) else row for row in rows
    ]


class Counter:
    """Counts the combines of a monoid."""

    def __init__(self, monoid: Monoid) -> None:
        self.count, inner = 0, monoid.combine

        def combine(a: Any, b: Any) -> Any:
            self.count += 1
            return inner(a, b)

        self.monoid = Monoid(
            monoid.identity, combine, monoid.lift, monoid.lower, monoid.name,
            commutative=monoid.commutative, empty=monoid.empty,
        )  # fmt: skip

    def read(self) -> int:
        """Combines so far."""
        return self.count


def listing_2() -> Monoid:
    """The paper's monoid: how many updates, and the newest one's maxSize (Listing 2).

    As printed, combining with a neutral element on the right would lose the size; it does not here.
    """
    return Monoid((0, 0), lambda a, b: (a[0] + b[0], b[1] or a[1]), name="count and maxSize")


def listing_3() -> Rule:
    """The paper's frame: a prefix leaves while maxSize updates stay without it (Listing 3)."""
    return Rule(evicts=lambda old, total: total[0] - old[0] >= total[1] > 0)


def updates(size: int, count: int) -> list[tuple[int, int]]:
    """Updates of the experiments' stream."""
    return list(islice(iter(lambda: (1, size), None), count))
