"""Keyed windows beside one window a key and beside plain lists, over random batches."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
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
    Monoid,
    Product,
    SampleStdDev,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.audit.keyed import OpaqueKeys
from mta.errors import InvalidValue, LateEvent
from mta.monoids.product import result_columns
from stores import MemoryStore
from tests.support.key_by_key import KeyByKey

#: Frames, and after each event which of a key's sorted events its window holds.
FRAMES: list[Callable[[], Any]] = [
    lambda: CountWindow(1), lambda: CountWindow(3), lambda: CountWindow(7), lambda: TimeWindow(10),
    lambda: TimeWindow(40), lambda: CountWindow(4) | TimeWindow(20),
    lambda: CountWindow(4) & TimeWindow(20),
    lambda: (CountWindow(2) | TimeWindow(5)) & TimeWindow(30),
    lambda: {"a": CountWindow(3), "b": TimeWindow(15)}, lambda: TimeWindow(20, closed="left"),
    lambda: {"a": CountWindow(3, exclude_current=True), "b": TimeWindow(9, delay=4)},
    lambda: SessionWindow(4), lambda: SessionWindow(3) | CountWindow(4),
    lambda: {"a": SessionWindow(9) & TimeWindow(12), "b": SessionWindow(2)},
    lambda: {"all": TimeWindow(60), "few": CountWindow(5) & TimeWindow(3), "one": CountWindow(1)},
]  # fmt: skip
MONOIDS: list[Callable[[], Any]] = [
    Max, Min, lambda: Sum("int64"), Mean, Count, First, Last, ArgMax, SampleStdDev, Collect,
    lambda: Product({"m": ("v", Max()), "n": Count(), "l": ("v", Last())}),
    lambda: Product({"n": Count()}),
    lambda: Monoid("", lambda a, b: a + b, lift=lambda v: f"{v:g};", name="text"),
    lambda: KeyByKey("", lambda a, b: a + b, "text", lambda v: f"{v:g};"),
    lambda: Product({"t": ("v", Monoid(0, lambda a, b: a + b, name="plain sum")), "n": Count()}),
]  # fmt: skip
KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number * 7919 - 9,
    "text": lambda number: f"key-{number}",
    "bytes": lambda number: b"k%d" % number,
    "tuple": lambda number: (number, f"x{number % 3}"),
}
#: What a plain list says of a window's values, for monoids that are so simple.
PLAIN: dict[str, Callable[[list[float]], Any]] = {
    "Max": max, "Min": min, "Count": len, "First": lambda v: v[0], "Last": lambda v: v[-1],
    "Collect": list, "text": lambda v: "".join([f"{each:g};" for each in v]),
    "Mean": lambda v: sum(v) / len(v),
}  # fmt: skip
#: Of a window without events, where that is not null.
EMPTY: dict[str, Any] = {"Count": 0, "Collect": [], "text": ""}


@dataclass
class Plan:
    """What a scenario is: drawn once, so that one line describes a failure."""

    seed: int
    rng: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.lateness: int | None = rng.choice([None, None, 0, 5, 50])
        self.frame: Any = rng.choice(FRAMES)()
        self.monoid: Any = rng.choice(MONOIDS)()
        self.kind: str = rng.choice(list(KINDS))
        self.keys: int = rng.choice([1, 3, 20])
        frames = self.frame.values() if isinstance(self.frame, dict) else [self.frame]
        self.timed = self.lateness is not None or any(p.needs_times for p in frames)
        self.invalid: str = rng.choice(["raise", "drop_row", "drop_row", "skip"])
        self.late: str = rng.choice(["drop", "drop", "raise"])
        self.settings: dict[str, Any] = {
            "arity": rng.choice([2, 3]), "leaf_arity": rng.choice([2, 4]),
            "on_late": self.late, "nulls": self.invalid,
        }  # fmt: skip
        self.retain: int = rng.choice([2, 2, 4])
        self.sizes: dict[str, Any] = {
            "promote_at": rng.choice([2, 6, 1000]), "page_bytes": rng.choice([1, 100, 16384]),
            "cache_bytes": rng.choice([1, 10**6]), "retain": self.retain,
        }  # fmt: skip
        if self.lateness is not None:
            self.sizes["allowed_lateness"] = self.lateness
        self.store = rng.choice([None, MemoryStore(), MemoryStore()])
        self.steps: int = rng.choice([5, 30])

    def begin(self) -> KeyedWindows:
        """The windows under test."""
        return KeyedWindows(self.monoid, self.frame, self.store, "w", **self.settings, **self.sizes)

    def restore(self, snapshot: bytes) -> KeyedWindows:
        """The windows of a snapshot."""
        assert self.store is not None
        settings = {**self.settings, **self.sizes}
        return KeyedWindows.restore(
            snapshot, self.store, aggregations=self.monoid, window=self.frame, **settings
        )

    def single(self) -> Any:
        """A window for one key."""
        if isinstance(self.frame, dict):
            late = {} if self.lateness is None else {"allowed_lateness": self.lateness}
            return SharedWindows(self.monoid, self.frame, None, "x", **self.settings, **late)
        settings = dict(self.settings)
        if self.lateness is not None:
            settings["allowed_lateness"] = self.lateness
        return Window(self.monoid, self.frame, None, "x", **settings)

    def values(self, values: list[float], rows: list[int] | None = None) -> Any:
        """Values as this life's monoid takes them, of some rows of a batch."""
        name = self.monoid.name
        if isinstance(self.monoid, Product):
            return {"v": np.array(values, "f8")} if self.monoid.columns else range(len(values))
        if name.startswith("Arg"):
            return np.array(values, "f8"), np.array(rows or range(len(values)), "f8")
        if name.startswith("Sum"):
            return [int(value) for value in values]
        return values

    @property
    def takes_nulls(self) -> bool:
        """Whether a NaN is a value that may come, and is dropped or refused."""
        name = self.monoid.name
        return name in ("Max", "Min", "Mean", "First", "Last") or name.startswith("SampleStd")


def same(one: Any, other: Any) -> bool:
    """Whether two results are the same, bit for bit; of what is rounded, as near as may be."""
    one, other = flat(one), flat(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float) and not one.is_integer():
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def flat(result: Any) -> Any:
    """A result as plain values that compare; a NaN equals a NaN."""
    if isinstance(result, dict):
        return {name: flat(part) for name, part in result.items()}
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, list):
        return [flat(each) for each in result]
    if isinstance(result, float):
        return "nan" if result != result else result
    return result


def at(results: Any, place: int) -> Any:
    """One row of a batch's results."""
    if isinstance(results, dict):
        return {name: at(part, place) for name, part in results.items()}
    return results[place]


class Life:
    """Random batches into keyed windows and into what says what they should be."""

    def __init__(self, seed: int) -> None:
        self.plan = plan = Plan(seed)
        self.windows = plan.begin()
        #: What each call has brought, by key, so that windows can be made again as they were.
        self.calls: list[tuple[int, Any, list[int] | None]] = []
        self.single: dict[int, Any] = {}
        self.snapshots: list[tuple[bytes, int]] = []
        self.furthest = 0
        #: Whether a snapshot was given up, whose pages may be left over.
        self.strayed = False
        self.time = 1000

    def run(self) -> None:
        """All of it."""
        plan, rng = self.plan, self.plan.rng
        for _ in range(plan.steps):
            self.step()
            if rng.random() < 0.5:
                self.ask()
            if rng.random() < 0.3:
                self.windows.check()
            if plan.store is not None and rng.random() < 0.5:
                self.snapshots.append((self.windows.checkpoint(), len(self.calls)))
                live = OpaqueKeys(self.snapshots[-1][0], plan.store)
                assert self.strayed or {*live.live_keys()} == {*plan.store.keys()}, plan
                if rng.random() < 0.1:
                    assert not live.audit().damaged, plan
                self.furthest = max(self.furthest, len(self.snapshots))
                if rng.random() < 0.5:
                    self.restore(rng.choice([1, 1, 1, 2, plan.retain]))
        self.windows.check()
        live = {KINDS[plan.kind](key) for key in self.single if self.length(key)}
        assert set(self.windows.keys()) == live
        assert len(self.windows) == len(live)
        if plan.store is not None:
            self.windows.checkpoint()
            self.windows.delete_pages()
            assert self.left_over() == []

    def left_over(self) -> list[str]:
        """Pages that nothing names; those of snapshots that were given up are not looked at."""
        store = self.plan.store
        assert store is not None
        return [] if self.strayed else sorted(store.keys())

    def restore(self, back: int) -> None:
        """Go on from one of the last snapshots, and have all events since given up."""
        # What the furthest snapshot there ever was keeps: those that it comes after, and itself.
        back = max(
            1,
            min(back, len(self.snapshots), self.plan.retain + len(self.snapshots) - self.furthest),
        )
        snapshot, calls = self.snapshots[-back]
        del self.snapshots[len(self.snapshots) - back + 1 :]
        self.strayed |= back > 1
        self.windows = self.plan.restore(snapshot)
        del self.calls[calls:]
        self.single = {}
        for key, given, times in self.calls:
            self.feed(key, given, times)

    def length(self, key: int) -> int:
        """How many events of a key were ever accepted."""
        return int(self.single[key].engine.structure().back)

    def feed(self, key: int, given: Any, times: list[int] | None) -> tuple[Any, Any]:
        """One key's events into its own window: results, and which were accepted if not all."""
        window = self.single.setdefault(key, self.plan.single())
        return window.extend(given, times), window.last_accepted

    def draw(self) -> tuple[list[int], list[float], list[int] | None]:
        """A batch: keys, values, times."""
        plan, rng = self.plan, self.plan.rng
        count = rng.choice([0, 1, 2, 5, 40])
        keys = [rng.randrange(plan.keys) for _ in range(count)]
        times = []
        for _ in keys:
            self.time += rng.choice([0, 0, 1, 3])
            may = plan.lateness is not None or rng.random() < 0.1
            times.append(self.time - (rng.choice([0, 0, 0, 1, 4, 30]) if may else 0))
        values = [float(rng.randrange(10)) for _ in keys]
        if plan.takes_nulls:
            values = [v if rng.random() < 0.97 else float("nan") for v in values]
        return keys, values, times if plan.timed else None

    def step(self) -> None:
        """A batch into both."""
        plan = self.plan
        keys, values, times = self.draw()
        names = [KINDS[plan.kind](key) for key in keys]
        last = plan.rng.random() < 0.2
        found: Any
        try:
            given = plan.values(values)
            found = self.windows.extend(names, given, times, emit="last" if last else "all")
        except (LateEvent, InvalidValue) as error:
            self.refused(error, keys, values, times)
            return
        accepted = self.windows.last_accepted
        if accepted is None:
            accepted = np.ones(len(keys), bool)
        places = np.cumsum(accepted) - 1
        ends = {}
        for key in dict.fromkeys(keys):
            rows = [row for row, other in enumerate(keys) if other == key]
            part = [values[row] for row in rows]
            moments = None if times is None else [times[row] for row in rows]
            own, mask = self.feed(key, plan.values(part, rows), moments)
            mask = np.ones(len(rows), bool) if mask is None else mask
            assert accepted[rows].tolist() == mask.tolist(), (plan, key)
            self.calls.append((key, plan.values(part, rows), moments))
            good = [row for row, ok in zip(rows, mask, strict=True) if ok]
            if good:
                window = self.single[key]
                named = isinstance(plan.frame, dict)
                ends[names[rows[0]]] = (
                    result_columns({name: window.query(name) for name in plan.frame})
                    if named
                    else window.query()
                )
            if last:
                continue
            for number, row in enumerate(good):
                assert same(at(found, int(places[row])), at(own, number)), (plan, row)
        if last:
            got = {key: at(found.results, n) for n, key in enumerate(found.keys.tolist())}
            assert same(got, ends), plan

    def refused(
        self, error: Exception, keys: list[int], values: list[float], times: list[int] | None
    ) -> None:
        """A batch was refused: so does the window of one of its keys, and nothing has changed."""
        plan = self.plan
        is_late = isinstance(error, LateEvent)
        assert (plan.late if is_late else plan.invalid) == "raise", (plan, error)
        if not is_late:
            assert any(value != value for value in values)
            return
        for key in dict.fromkeys(keys):
            rows = [row for row, other in enumerate(keys) if other == key]
            copy = plan.single()
            for other, part, moments in self.calls:
                if other == key:
                    copy.extend(part, moments)
            part = [values[row] for row in rows]
            try:
                assert times is not None
                copy.extend(plan.values(part), [times[row] for row in rows])
            except LateEvent:
                assert repr(KINDS[plan.kind](key)) in str(error) or len(set(keys)) > 1
                return
        pytest.fail(f"no window of its own refuses this batch: {plan}: {error}")

    def ask(self) -> None:
        """Queries, and a window alone."""
        plan, rng = self.plan, self.plan.rng
        key = rng.randrange(plan.keys)
        name = KINDS[plan.kind](key)
        found = self.windows.query(name)
        many = self.windows.query([name, KINDS[plan.kind](10**6), name])
        assert flat(at(many, 0)) == flat(at(many, 2)) and same(at(many, 0), found), plan
        if key not in self.single or not self.length(key):
            assert name not in self.windows
            with pytest.raises(KeyError):
                self.windows.window(name)
            assert flat(found) == flat(at(many, 1)), plan
            return
        window = self.single[key]
        named = isinstance(plan.frame, dict)
        own = {name: window.query(name) for name in plan.frame} if named else window.query()
        assert same(found, own), (plan, key)
        assert name in self.windows
        alone = self.windows.window(name)
        of_it = {name: alone.query(name) for name in plan.frame} if named else alone.query()
        assert same(of_it, own), (plan, key)
