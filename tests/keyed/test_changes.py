"""Other windows and aggregations for a root, at random, beside plain lists of what is kept."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pytest

from mta import (
    ArgMax,
    Collect,
    Count,
    CountWindow,
    First,
    KeyedWindows,
    Last,
    Max,
    Mean,
    Min,
    Product,
    SampleStdDev,
    Sum,
    TimeWindow,
)
from mta.audit.keyed import OpaqueKeys
from mta.errors import StoreUnavailable
from mta.policies.base import AbstractPolicy, Both
from stores import MemoryStore
from stores.testing.faults import FaultyStore
from tests.keyed.lives import at, same

#: By alias: what it reads, the monoid, and what a plain list says of the values.
AGGREGATIONS: dict[str, tuple[Any, Callable[[], Any], Callable[[list[Any]], Any]]] = {
    "peak": ("a", Max, max),
    "low": ("b", Min, min),
    "mean": ("a", Mean, lambda v: sum(v) / len(v)),
    "total": ("b", Sum, sum),
    "n": (None, Count, len),
    "first": ("c", First, lambda v: v[0]),
    "last": ("b", Last, lambda v: v[-1]),
    "all": ("d", Collect, list),
    "where": (("a", "c"), ArgMax, lambda v: max(v, key=lambda pair: pair[0])[1]),
    "spread": ("c", SampleStdDev, lambda v: float(np.std(v, ddof=1)) if len(v) > 1 else np.nan),
}
POLICIES: list[Callable[[], AbstractPolicy]] = [
    lambda: CountWindow(1),
    lambda: CountWindow(3),
    lambda: CountWindow(9),
    lambda: TimeWindow(10),
    lambda: TimeWindow(40),
    lambda: TimeWindow(90),
    lambda: CountWindow(4) | TimeWindow(20),
    lambda: CountWindow(4) & TimeWindow(20),
]


@dataclass
class Event:
    """One of a key: when, in which order it came, its values, and which of these are stored."""

    time: int
    number: int
    values: dict[str, float]
    stored: set[str]


def front(policy: AbstractPolicy, times: list[int], place: int, time: int) -> int:
    """Where the window begins that ends at a place of sorted events, and at a time."""
    if isinstance(policy, Both):
        fronts = [front(side, times, place, time) for side in (policy.one, policy.other)]
        return max(fronts) if policy.any_of else min(fronts)
    if isinstance(policy, CountWindow):
        return max(0, place + 1 - policy.size)
    assert isinstance(policy, TimeWindow)
    return bisect_right(times, time - policy.size // 1_000_000)


@dataclass
class Life:
    """Windows that are changed between batches, and what each of their keys has kept."""

    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.store = MemoryStore()
        self.lateness = rng.choice([None, None, 0, 30])
        # Windows by themselves keep times only where a policy looks at them.
        self.promotes = rng.random() < 0.6
        self.whole: dict[int, list[Event]] = {}
        self.kept: dict[int, list[Event]] = {}
        self.now = self.number = self.changed = 0
        self.choose()
        self.lost = 0
        self.windows = KeyedWindows(self.product, self.policies, self.store, "w", **self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        late = {"timed": True} if self.lateness is None else {"lateness": self.lateness}
        return {
            "promote_at": self.rng.choice([2, 6]) if self.promotes else 1000,
            "page_bytes": self.rng.choice([1, 16384]),
            "leaf_arity": 2, "arity": 2, "late": "drop", **late,
        }  # fmt: skip

    def choose(self) -> None:
        """Some windows and aggregations, under aliases that may be new."""
        rng = self.rng
        self.chosen = {
            name + rng.choice(["", "", "_renamed"]): name
            for name in rng.sample(list(AGGREGATIONS), rng.choice([1, 2, 4]))
        }
        pairs = {alias: AGGREGATIONS[name][:2] for alias, name in self.chosen.items()}
        self.product = Product({a: (columns, make()) for a, (columns, make) in pairs.items()})
        single = rng.random() < 0.5
        names = [""] if single else rng.sample(["x", "y", "z"], rng.choice([1, 2]))
        timed = self.promotes and self.lateness is None
        policies = [make() for make in POLICIES]
        policies = [policy for policy in policies if policy.needs_times or not timed]
        self.named = {name: rng.choice(policies) for name in names}
        self.policies: Any = self.named[""] if single else self.named

    def change(self) -> None:
        """Go on from a root under others."""
        root, policies = self.windows.checkpoint(), list(self.named.values())
        for key, line in self.kept.items():
            times = [event.time for event in line]
            last = len(line) - 1
            starts = [front(p, times, last, times[-1]) for p in policies]
            if self.lateness:
                moment = times[-1] - self.lateness
                place = bisect_right(times, moment)
                starts += [front(p, times, place, moment) for p in policies]
            self.kept[key] = line[min(starts) :]
        columns, self.changed = set(self.product.columns), self.number
        self.choose()
        for line in self.kept.values():
            for event in line:
                event.stored &= columns
        self.windows = KeyedWindows.restore(
            root, self.product, self.policies, self.store, **self.settings
        )
        assert len(self.windows) == len(self.kept)
        if self.rng.random() < 0.5:
            self.windows = self.windows.sibling(self.windows.checkpoint())

    def batch(self) -> None:  # noqa: C901
        """Some events, whose results are what the lists say."""
        rng, rows = self.rng, []
        for _ in range(rng.choice([1, 7, 30])):
            self.now += rng.choice([0, 1, 5])
            moment = self.now - (rng.choice([0, 3, 25]) if self.lateness else 0)
            key = rng.randrange(5)
            newest = max((e.time for e in self.kept.get(key, [])), default=-999)
            rows.append((key, max(moment, newest if self.lateness is None else 0)))
        rows.sort(key=lambda row: row[1])  # late across batches alone
        values = {c: [float(rng.randrange(50)) for _ in rows] for c in "abcd"}
        floors = {key: line[-1].time - (self.lateness or 0) for key, line in self.kept.items()}
        events = []
        for row, (key, moment) in enumerate(rows):
            number = self.number = self.number + 1
            stored = set(self.product.columns)
            of_row = {c: values[c][row] for c in values}
            events.append(Event(moment, number, of_row, stored))
            if moment >= floors.get(key, moment):
                for lines in (self.kept, self.whole):
                    line = lines.setdefault(key, [])
                    place = bisect_right([(e.time, e.number) for e in line], (moment, number))
                    line.insert(place, events[-1])
        found = self.windows.extend([key for key, _ in rows], values, [t for _, t in rows])
        accepted = self.windows.last_accepted
        taken = [i for i in range(len(rows)) if accepted is None or accepted[i]]
        late = [moment < floors.get(key, moment) for key, moment in rows]
        assert taken == [i for i, is_late in enumerate(late) if not is_late]
        lacking = {(each.window, each.aggregation): each for each in self.windows.lacking()}
        for row, i in enumerate(taken):
            for window in self.named:
                results = found[window] if window else found
                for alias in self.chosen:
                    own = self.expected(self.kept, rows[i][0], events[i], window, alias)
                    got = at(results[alias], row)
                    assert same(got, own), (self.seed, window, alias, got, own)
                    whole = self.expected(self.whole, rows[i][0], events[i], window, alias, True)
                    lack = lacking.get((window, alias))
                    if lack is not None and not self.is_whole(lack, rows[i][0], events[i]):
                        self.lost += not same(got, whole)
                        continue
                    assert same(got, whole), (self.seed, window, alias, lack, got, whole)
        key = rows[taken[-1]][0] if taken else None
        if key is not None:
            for window in self.named:
                own = {a: self.expected(self.kept, key, None, window, a) for a in self.chosen}
                got = self.windows.query(key)
                assert same(got[window] if window else got, own), self.seed

    def is_whole(self, lack: Any, key: int, event: Event) -> bool:
        by_time = lack.moment is not None and np.datetime64(event.time, "s") >= lack.moment
        line = self.whole[key]
        newest = line[: line.index(event) + 1][-(lack.events or 0) :]
        since = all(each.number > self.changed for each in newest)
        return by_time or (lack.events is not None and len(newest) == lack.events and since)

    def expected(
        self,
        lines: dict[int, list[Event]],
        key: int,
        event: Event | None,
        window: str,
        alias: str,
        anyway: bool = False,
    ) -> Any:
        line = lines[key]
        place = len(line) - 1 if event is None else line.index(event)
        times = [each.time for each in line]
        held = line[front(self.named[window], times, place, times[place]) : place + 1]
        columns, make, plain = AGGREGATIONS[self.chosen[alias]]
        names = [columns] if isinstance(columns, str) else list(columns or ())
        there = [e for e in held if anyway or e.stored.issuperset(names)]
        found = [tuple(e.values[n] for n in names) for e in there]
        empty = make().empty
        return plain([f[0] if len(f) == 1 else f for f in found]) if found else empty

    def run(self) -> int:
        for _ in range(4):
            for _ in range(self.rng.choice([1, 4])):
                self.batch()
                if self.rng.random() < 0.4:
                    self.windows = self.windows.sibling(self.windows.checkpoint())
                    self.windows.check()
            self.change()
        self.batch()
        return self.lost


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("tiny")
def test_changed_windows_go_on_from_what_is_kept(seed: int) -> None:
    Life(seed).run()


def test_results_are_lacking_for_as_long_as_is_said() -> None:
    """Not of no life, and not for ever: what was said to be lacking was."""
    assert sum(Life(seed).run() for seed in range(5)) > 20


def meters() -> tuple[KeyedWindows, MemoryStore]:
    """An hour's maximum of ``a`` for two keys, one of them with a window by itself."""
    store = MemoryStore()
    product = Product({"peak": ("a", Max()), "last": ("a", Last())})
    made = KeyedWindows(product, TimeWindow("1 hour"), store, promote_at=50, leaf_arity=8)
    times = np.arange(0, 7200, 20)
    made.extend(["many"] * 360, {"a": np.arange(360.0)[::-1]}, times)
    made.extend(["few"] * 12, {"a": np.arange(12.0)[::-1]}, times[::30])
    return made, store


def test_what_reads_stored_columns_goes_on_from_what_is_kept() -> None:
    made, store = meters()
    root = made.checkpoint()
    assert made.stats().apart == 1
    other = Product({"low": ("a", Min()), "n": Count(), "all": ("a", Collect())})
    found = KeyedWindows.restore(root, other, TimeWindow("1 hour"), store, promote_at=50)
    assert found.lacking() == []
    assert found.query("few") == {"low": 0.0, "n": 6, "all": [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]}
    assert found.query("many")["n"] == 180
    # A shorter window needs nothing that is not there; what it does without is gone.
    short = KeyedWindows.restore(found.checkpoint(), other, TimeWindow("10 minutes"), store)
    assert short.query("many")["n"] == 30 and short.lacking() == []
    assert short.stats().apart == 2 and KeyedWindows.restore(
        root, made.monoid, made.policy, store
    ).query("few") == {"peak": 5.0, "last": 0.0}


def test_what_is_lacking_is_said() -> None:
    made, store = meters()
    product = Product({"peak": ("a", Max()), "low": ("b", Min())})
    windows = {"hour": TimeWindow("1 hour"), "day": TimeWindow("1 day"), "ten": CountWindow(10)}
    found = KeyedWindows.restore(made.checkpoint(), product, windows, store, promote_at=50)
    at = np.datetime64(7180 * 10**6, "us")
    hour, day = np.timedelta64(3600, "s"), np.timedelta64(86400, "s")
    said = {(each.window, each.aggregation): each for each in found.lacking()}
    assert {name: (each.moment, each.events) for name, each in said.items()} == {
        ("hour", "low"): (at + hour, None),
        ("day", "peak"): (at - hour + day, None), ("day", "low"): (at + day, None),
        ("ten", "peak"): (None, 4), ("ten", "low"): (None, 10),
    }  # fmt: skip
    assert found.query("many")["hour"]["peak"] == 179.0
    assert np.isnan(found.query("many")["hour"]["low"])
    again = KeyedWindows.restore(found.checkpoint(), product, windows, store)
    assert again.lacking() == found.lacking()


def test_pages_of_before_are_deleted_with_the_roots_that_name_them() -> None:
    made, store = meters()
    for size in ("2 hours", "1 hour", "30 minutes"):
        made = KeyedWindows.restore(
            made.checkpoint(), made.monoid, TimeWindow(size), store, promote_at=50
        )
        made.check()
    for moment in range(4):
        made.extend(["few"], {"a": [1.0]}, [7300 + moment])
        made.checkpoint()
    live = {*OpaqueKeys(made.checkpoint(), store).live_keys()}
    assert {*store.keys()} == live
    made.delete_pages()
    assert {*store.keys()} == set()


def test_a_store_that_fails_leaves_the_root_as_it_was() -> None:
    made, store = meters()
    root = made.checkpoint()
    wanted = made.monoid, TimeWindow("2 hours")
    failing = FaultyStore(store)
    for nth in count(1):
        failing.fail(nth)
        try:
            KeyedWindows.restore(root, *wanted, failing, promote_at=50).checkpoint()
        except StoreUnavailable:
            continue
        break
    assert nth > 5
    before = KeyedWindows.restore(root, made.monoid, made.policy, store)
    assert before.query("many") == made.query("many")
    one, two = (KeyedWindows.restore(root, *wanted, store, promote_at=50) for _ in range(2))
    assert one.checkpoint() == two.checkpoint()


def test_numbers_are_read_as_other_numbers_and_objects_are_not() -> None:
    store = MemoryStore()
    made = KeyedWindows(Product({"n": ("a", Sum("int64"))}), CountWindow(3), store)
    made.extend([1, 1], {"a": [4, 5]})
    mixed = Product({"mean": ("a", Mean()), "all": ("a", Collect())})
    found = KeyedWindows.restore(made.checkpoint(), mixed, CountWindow(3), store)
    assert found.query(1) == {"mean": 4.5, "all": [4, 5]} and not found.lacking()
    lists = KeyedWindows.restore(
        found.checkpoint(), Product({"all": ("a", Collect())}), CountWindow(3), store
    )
    back = KeyedWindows.restore(
        lists.checkpoint(), Product({"peak": ("a", Max())}), CountWindow(3), store
    )
    assert [each.events for each in back.lacking()] == [3]
    assert back.extend([1, 1], {"a": [-1.0, -2.0]})["peak"].tolist() == [-1.0, -1.0]
