"""Keyed windows whose store fails, loses writes, or serves two at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Max, Monoid, Product, Sum, TimeWindow
from mta.audit.keyed import OpaqueKeys
from mta.errors import MissingPage, PartialBatch, StoreUnavailable
from stores import MemoryStore, PageStore, WriteBuffer
from stores.testing import FaultyStore
from tests.support.faulty import Logged
from tests.support.key_by_key import KeyByKey
from tests.support.naive import pages_of
from tests.support.sampling import REST

pytestmark = pytest.mark.usefixtures("tiny")
PLAIN = Monoid("", lambda a, b: a + b, lift=lambda v: f"{v:g};", name="plain text")
SUMMARY = KeyByKey("", lambda a, b: a + b, "text", lambda v: f"{v:g};")
#: Monoids and frames, and sizes that force promotion, merges and small pages.
SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "vectorized": (Max(), TimeWindow(30), {"promote_at": 1000, "page_bytes": 200}),
    "promoted": (Max(), TimeWindow(30), {"promote_at": 3, "page_bytes": 300}),
    "late": (Max(), TimeWindow(30), {"promote_at": 3, "page_bytes": 300, "allowed_lateness": 5}),
    **{f"corrected, {existing}": (Sum(), TimeWindow(30), {
        "promote_at": 4, "page_bytes": 200, "cache_bytes": 1, "allowed_lateness": 20,
        "on_duplicate": existing, "on_missing": "drop",
    }) for existing in ("append", "replace", "combine")},
    "plain": (PLAIN, TimeWindow(30), {"promote_at": 3, "page_bytes": 300}),
    "key by key": (SUMMARY, TimeWindow(30), {"page_bytes": 300}),
    "named": (
        Product({"m": ("v", Max())}), {"a": TimeWindow(30), "b": CountWindow(3) | TimeWindow(20)},
        {"promote_at": 4, "page_bytes": 1},
    ),
}  # fmt: skip
Batch = tuple[list[int], list[float], list[int]]
CALLS = "get", "put", "delete"


@cache
def batches(count: int, keys: int = 12, rows: int = 20) -> list[Batch]:
    """Batches in order of time, with keys that come and go."""
    rng, now, found = random.Random(3), 1000, []
    for step in range(count):
        batch: Batch = ([], [], [])
        for _ in range(rows):
            now += rng.choice([0, 0, 1])
            batch[0].append(rng.randrange(keys) + (step // 3) * 3)
            batch[1].append(float(rng.randrange(100)))
            batch[2].append(now)
        found.append(batch)
    return found


def flat(results: Any) -> Any:
    if isinstance(results, dict):
        return {name: flat(part) for name, part in results.items()}
    return results.tolist()


class Program:
    """What a user does: batches, sometimes expiry, snapshots; and when a call fails, again."""

    def __init__(self, shape: str, store: PageStore, **settings: Any) -> None:
        self.monoid, self.frame, sizes = SHAPES[shape]
        self.store, self.settings = store, {"arity": 2, "leaf_arity": 2, **sizes, **settings}
        self.windows = KeyedWindows(self.monoid, self.frame, store, "w", **self.settings)
        self.snapshots = [self.windows.checkpoint()]

    def restore(self, snapshot: bytes | None = None) -> None:
        self.windows = KeyedWindows.restore(
            snapshot or self.snapshots[-1],
            self.store,
            aggregations=self.monoid,
            window=self.frame,
            **self.settings,
        )

    def extend(self, batch: Batch) -> Any:
        """A batch into windows whose events may be taken out again."""
        keys, values, times = batch
        given: Any = {"v": np.array(values)} if isinstance(self.monoid, Product) else values
        marks = None
        if "on_missing" in self.settings:
            marks = np.array([value % 4 == 0 for value in values])
        return flat(self.windows.extend(keys, given, times, retracts=marks))

    def step(self, number: int, batch: Batch) -> Any:
        """A batch, and all that goes with it; what it gives."""
        times, found = batch[2], self.extend(batch)
        gone: list[int] = []
        if number % 3 == 2:
            gone = sorted(self.windows.expire(before=max(times)).tolist())
        self.snapshots.append(self.windows.checkpoint())
        return found, gone


@cache
def uninterrupted(shape: str, steps: int, **settings: Any) -> tuple[list[Any], Program]:
    """What a run without failures gives."""
    program = Program(shape, MemoryStore(), **settings)
    found = [program.step(number, batch) for number, batch in enumerate(batches(steps))]
    return found, program


STEPS = 7
#: In how many places of a run a call fails, in each part of them.
TRIES = 2
PARTS = range(4)


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_call_fails_in_turn_and_the_last_snapshot_goes_on(
    shape: str, done: bool, part: int
) -> None:
    expected, clean = uninterrupted(shape, STEPS)
    assert isinstance(clean.store, MemoryStore)
    for at in places_of(shape, 2 * part + done):
        memory = MemoryStore()
        store = FaultyStore(memory)
        store.fail(at, operations=CALLS, applied=done)
        program = Program(shape, store)
        for number, batch in enumerate(batches(STEPS)):
            try:
                found = program.step(number, batch)
            except StoreUnavailable:
                program.restore()
                found = program.step(number, batch)
            assert found == expected[number], (at, number)
        assert store.fired
        program.windows.check()
        if (
            "allowed_lateness" not in SHAPES[shape][2]
        ):  # a tree that was restored is written in other parts
            assert program.snapshots[-1] == clean.snapshots[-1], at
            assert pages_of(memory).items() >= pages_of(clean.store).items(), at


def places_of(shape: str, part: int) -> range:
    """Calls of a run without failures, spread over all of it; each of eight parts has others."""
    program = Program(shape, store := Logged())
    for number, batch in enumerate(batches(STEPS)):
        program.step(number, batch)
    calls = sum(operation in CALLS for operation, _ in store.log)
    stride = max(1, calls // TRIES)
    return range(1 + part * stride // 8, calls + 1, stride)


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_call_fails_in_turn_and_the_same_windows_go_on(shape: str, part: int) -> None:
    """A failed call that is tried again gives its results, or an error that says to restore."""
    expected, _ = uninterrupted(shape, STEPS)
    again = 0
    for at in places_of(shape, 2 * part):
        since = 0
        store = FaultyStore(MemoryStore())
        store.fail(at, operations=CALLS)
        program = Program(shape, store)
        for number, batch in enumerate(batches(STEPS)):
            times = batch[2]
            before = len(program.windows), program.windows.stats().inserted
            calls: list[Callable[[], Any]] = [
                lambda p=program, b=batch: p.extend(b),
                lambda p=program, n=number, t=times: (
                    sorted(p.windows.expire(before=max(t)).tolist()) if n % 3 == 2 else []
                ),
                lambda p=program: p.windows.checkpoint(),
            ]
            results = []
            for call in calls:
                try:
                    results.append(call())
                except StoreUnavailable:
                    if not results:
                        assert (len(program.windows), program.windows.stats().inserted) == before
                    results.append(call())
                    again += 1
            assert tuple(results[:2]) == expected[number], (at, number)
            program.snapshots.append(results[2])
            since += store.fired
            if not 1 <= since <= 3:
                continue  # as where none fails
            windows = program.windows
            windows.check()
            # All that the last two snapshots need is there.
            for snapshot in program.snapshots[-2:]:
                program.restore(snapshot)
                program.windows.check()
            program.windows = windows
    assert again > TRIES // 2


FAILING = ["refused", "answer lost", "refused for long"]


@pytest.mark.parametrize(
    ("shape", "fault", "part"),
    [  # by default each shape once, with one fault and at other calls than the others
        pytest.param(
            shape, fault, part, marks=[] if at == part and nth == part % len(FAILING) else [REST]
        )
        for at, shape in enumerate(SHAPES)
        for nth, fault in enumerate(FAILING)
        for part in range(8)
    ],
)
def test_a_checkpoint_that_fails_deletes_nothing_that_a_retained_snapshot_needs(
    shape: str, fault: str, part: int
) -> None:
    """Each of the last two snapshots is what it was, and in the end nothing is left over."""
    every = batches(STEPS + 3)
    main, answers = Program(shape, MemoryStore()), list[Any]()
    for number in range(STEPS - 1):
        main.step(number, every[number])
        answers.append({key: main.windows.query(key) for key in main.windows.keys()})  # noqa: SIM118
    there = pages_of(main.store)  # type: ignore[arg-type]
    for nth in count(1 + (part + len(fault)) % 8, 8):  # for each fault others come first
        memory = MemoryStore()
        memory.put_many(there)
        store = FaultyStore(memory)
        program = Program(shape, store)
        program.restore(main.snapshots[-1])
        program.extend(every[STEPS - 1])
        program.windows.expire(before=max(every[STEPS - 1][2]))
        store.fail(nth, forever=fault == "refused for long", applied=fault == "answer lost")
        for _ in range(3):
            with suppress(StoreUnavailable):
                program.windows.checkpoint()
                break
        fired, windows = store.fired, program.windows
        store.heal()
        for snapshot, answer in (
            [] if not fired else zip(main.snapshots[-2:], answers[-2:], strict=True)
        ):
            program.restore(snapshot)
            program.windows.check()
            assert {key: program.windows.query(key) for key in answer} == answer
        program.windows = windows
        for number in range(STEPS, STEPS + 3):
            program.step(number, every[number])
        program.windows.check()
        assert set(OpaqueKeys(program.snapshots[-1], memory).live_keys()) == set(memory.keys())
        if not fired:
            break
    assert nth > 3


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [each for each in SHAPES if "corrected" not in each])
@pytest.mark.parametrize("retain", [2, 4])
def test_a_replay_makes_the_same_pages(shape: str, retain: int) -> None:
    """From any snapshot that may be restored, with rows in another order: the same in all."""
    expected, every, rng = [], batches(STEPS), random.Random(5)
    main = Program(shape, MemoryStore(), retain=retain)
    for start in range(1, STEPS):
        expected.append(main.step(start - 1, every[start - 1]))
        assert isinstance(main.store, MemoryStore)
        program = Program(shape, MemoryStore(), retain=retain)
        program.store.put_many(pages_of(main.store))
        for back in range(min(retain, start + 1)):
            before = main.snapshots[: len(main.snapshots) - back]
            made = []
            for order_of in (_as_they_were, lambda batch: _shuffled(batch, rng)):
                program.snapshots = list(before)
                program.restore()
                for number in range(start - back, start):
                    order = order_of(every[number])
                    keys, values, times = ([c[row] for row in order] for c in every[number])
                    found, gone = program.step(number, (keys, values, times))
                    assert gone == expected[number][1]
                    assert _ordered(found, order) == expected[number][0]
                made.append(program.snapshots[-1])
            assert made[0] == made[1]
        program.windows.check()
        if (
            "allowed_lateness" not in SHAPES[shape][2]
        ):  # a tree that was restored is written in other parts
            assert made[0] == main.snapshots[-1]


def _as_they_were(batch: Batch) -> list[int]:
    return list(range(len(batch[0])))


def _shuffled(batch: Batch, rng: random.Random) -> list[int]:
    """Another order of rows, in which those of one key stand as they did."""
    keys = batch[0]
    mixed = rng.sample(keys, len(keys))
    rows = {key: iter([row for row, k in enumerate(keys) if k == key]) for key in keys}
    return [next(rows[key]) for key in mixed]


def _ordered(found: Any, order: list[int]) -> Any:
    if isinstance(found, dict):
        return {name: _ordered(part, order) for name, part in found.items()}
    back: list[Any] = [None] * len(order)
    for place, row in enumerate(order):
        back[row] = found[place]
    return back


@pytest.mark.parametrize("shape", SHAPES)
def test_a_zombie_harms_nothing(shape: str) -> None:
    """One goes on from an older snapshot, with other events, while the newer one works."""
    expected, _ = uninterrupted(shape, STEPS)
    program = Program(shape, MemoryStore(), retain=4)
    every = batches(STEPS)
    for number, batch in enumerate(every):
        if number % 2 and number > 1:
            zombie = Program(shape, program.store, retain=4)
            for back in (1, 2):
                zombie.restore(program.snapshots[-1 - back])
                keys, values, times = every[number - back]
                zombie.step(number, (keys[::2], values[::2], times[::2]))
                zombie.step(number + 1, every[number])
        assert program.step(number, batch) == expected[number]
        program.windows.check()
        program.restore()
        program.windows.check()


def test_writes_that_were_lost_are_named() -> None:
    """A store that says it has written, and has not: named at the next look, no wrong result."""
    missed = 0
    for lost in range(1, 12):

        class Loses(Logged):
            def put_many(self, pages: Mapping[str, bytes], at: int = lost) -> None:
                super().put_many({} if len(self.logged("put")) == at - 1 else pages)

        expected, _ = uninterrupted("promoted", STEPS)
        program = Program("promoted", Loses(), cache_bytes=1)
        try:
            for number, batch in enumerate(batches(STEPS)):
                assert program.step(number, batch) == expected[number]
                program.restore()
        except MissingPage as error:
            assert "page w" in str(error) and "is not in" in str(error)
            missed += 1
    assert missed > 5


def test_writes_behind_a_buffer_are_there_before_a_snapshot_is() -> None:
    memory = MemoryStore()
    buffer = WriteBuffer(memory)
    program = Program("promoted", buffer)
    for number, batch in enumerate(batches(STEPS)):
        program.step(number, batch)
        direct = KeyedWindows.restore(
            program.snapshots[-1],
            memory,
            aggregations=program.monoid,
            window=program.frame,
            **program.settings,
        )
        direct.check()
    buffer.close()


# --- monoids that fail ----------------------------------------------------------------------------


class Broken:
    """A combine that raises on request."""

    def __init__(self) -> None:
        self.breaks = False

    def __call__(self, left: Any, right: Any) -> Any:
        if self.breaks and "!" in left + right:
            raise ZeroDivisionError("no such thing")
        return left + right


@pytest.mark.parametrize("where", ["memory://", None])
def test_a_monoid_that_fails_in_the_middle_of_a_batch(where: str | None) -> None:
    broken = Broken()
    windows = KeyedWindows(KeyByKey("", broken, "broken"), CountWindow(3), where, leaf_arity=2)
    windows.extend(["a", "b", "c"], ["1", "2", "3"])
    order = list(windows.keys())  # that in which their windows are given events
    snapshot = windows.checkpoint() if where else b""
    bad = order[-1] if where else order[0]
    broken.breaks = True
    with pytest.raises(ZeroDivisionError):
        windows.extend(order, ["!" if key == bad else "x" for key in order])
    broken.breaks = False
    # Here the first key's window has failed, and there what the snapshot says can be had again.
    assert windows.query(["a", "b", "c"]).tolist() == ["1", "2", "3"]
    assert sorted(windows.extend(order, ["x"] * 3).tolist()) == ["1x", "2x", "3x"]
    # Of what came since there is no other copy.
    broken.breaks = True
    with pytest.raises(ZeroDivisionError) as raised:
        windows.extend(order, ["y", "y", "!"])
    assert "2 windows had received events of this batch" in raised.value.__notes__[-1]
    broken.breaks = False
    for call in (
        lambda: windows.extend(["d"], ["1"]),
        lambda: windows.query("a"),
        lambda: windows.query(["a"]),
        lambda: windows.window("a"),
        lambda: "a" in windows,
        *([windows.checkpoint] if where else []),
    ):
        with pytest.raises(PartialBatch, match="an earlier batch was only partially added"):
            call()
    if where:
        again = windows.restore_like(snapshot)
        assert again.query(["a", "b", "c"]).tolist() == ["1", "2", "3"]


def test_a_columnar_monoid_that_fails_changes_nothing() -> None:
    from mta.aggregations import CheckedSum
    from mta.errors import ResultOutOfRange

    windows = KeyedWindows(CheckedSum("int64"), CountWindow(3), promote_at=2)
    windows.extend(["a"], [2**62])
    before = windows.stats()
    with pytest.raises(ResultOutOfRange):
        windows.extend(["b", "a"], [1, 2**62])
    assert windows.stats() == before and "b" not in windows
    assert windows.extend(["b", "a"], [1, 1]).tolist() == [1, 2**62 + 1]
    windows.check()


def _refusing(left: float, right: float) -> float:
    if right == -1.0:
        raise ArithmeticError("this value is refused")
    return left + right


@pytest.mark.parametrize("keys", [("a", "b"), ("b", "a")])
def test_a_failed_batch_deletes_no_page_of_a_window_that_had_become_small(
    keys: tuple[str, str],
) -> None:
    """Whichever of the keys comes first: the first becomes small, and the other one fails."""
    store, plain = MemoryStore(), Monoid(0.0, _refusing, name="sum")
    windows = KeyedWindows(plain, TimeWindow(10), store, "w", promote_at=8, leaf_arity=4, arity=2)
    for key in keys:
        windows.extend([key] * 20, [1.0] * 20, [i / 4 for i in range(20)])
    windows.checkpoint()
    assert windows.stats().standalone == 2
    small, failing = keys
    with pytest.raises(ArithmeticError):
        windows.extend([small, failing, failing], [1.0, -1.0, -1.0], [100, 5, 6])
    for _ in range(4):
        windows.extend([failing], [0.0], [7])
        assert not OpaqueKeys(windows.checkpoint(), store).audit().damaged
    windows.check()
    assert windows.query(list(keys)).tolist() == [20.0, 20.0]
