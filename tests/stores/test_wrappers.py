"""The wrappers of ``stores.testing``: faults one by one and together, waits, and counts."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable

import pytest

from stores import MemoryStore, PageStore, StoreUnavailable
from stores.testing import Constant, CountingStore, FaultyStore, Jittered, LatencyStore, OneSlow
from stores.testing.counting import CallCount
from stores.testing.faults import OPERATIONS, Delay
from tests.support.faulty import Logged

PAGES = {f"g/{i:02d}": bytes([i]) * 10 for i in range(20)}


def test_the_nth_call_fails_once() -> None:
    store = FaultyStore(MemoryStore())
    store.fail(3)
    store.put_many({"g/1": b"a"})
    store.get_many(["g/1"])
    with pytest.raises(StoreUnavailable, match="at delete, call 3"):
        store.delete_many(["g/1"])
    assert store.fired == 1
    assert store.get_many(["g/1"]) == [b"a"], "a call that failed was applied"
    store.delete_many(["g/1"])
    assert store.get_many(["g/1"]) == [None]


def test_it_fails_for_ever_until_healed() -> None:
    store = FaultyStore(MemoryStore())
    store.fail(2, forever=True)
    store.flush()
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            store.flush()
    store.prefetch(["g/1"])  # never fails
    assert store.fired == 5
    store.heal()
    store.flush()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_can_fail(operation: str) -> None:
    store = FaultyStore(MemoryStore())
    store.fail(operations=[operation], forever=True)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get_many(["g/1"]),
        "put": lambda: store.put_many({"g/1": b"a"}),
        "delete": lambda: store.delete_many(["g/1"]),
        "keys": lambda: list(store.keys()),
        "flush": store.flush,
    }
    for name, call in calls.items():
        if name == operation:
            with pytest.raises(StoreUnavailable):
                call()
        else:
            call()


def test_the_answer_is_lost_after_the_call_was_applied() -> None:
    """reliability 14: a write that was applied but whose answer was lost."""
    store = FaultyStore(inner := MemoryStore())
    store.fail(operations=["put"], applied=True)
    with pytest.raises(StoreUnavailable):
        store.put_many(PAGES)
    assert inner.get_many(list(PAGES)) == list(PAGES.values())
    store.fail(operations=["delete"], applied=True)
    with pytest.raises(StoreUnavailable):
        store.delete_many(PAGES)
    assert list(inner.keys()) == []


def test_a_delay() -> None:
    waits: list[float] = []
    store = FaultyStore(MemoryStore(), sleep=waits.append)
    store.delay(0.5, 2)
    store.get_many(["g/1"])
    assert waits == []
    store.get_many(["g/1"])
    store.get_many(["g/1"])
    assert waits == [0.5]
    store.delay(0.1, forever=True, operations=["flush"])
    store.flush()
    store.flush()
    assert waits == [0.5, 0.1, 0.1]


def test_held_writes_are_seen_and_applied_at_a_flush() -> None:
    store = FaultyStore(inner := MemoryStore())
    store.hold()
    store.put_many(PAGES)
    store.delete_many(["g/00"])
    assert list(inner.keys()) == []
    assert store.held == 21
    assert store.get_many(["g/00", "g/01"]) == [None, PAGES["g/01"]]
    assert sorted(store.keys("g/")) == list(PAGES)[1:]
    store.flush()
    assert store.held == 0
    assert sorted(inner.keys()) == list(PAGES)[1:]


def test_writes_come_out_of_order_and_twice() -> None:
    """reliability 14: duplicated and reordered background writes."""
    inner = Logged()
    store = FaultyStore(inner)
    store.hold(20, shuffle=True, duplicates=0.5)
    store.put_many(PAGES)
    assert store.held == 0, "it was full"
    order = [key for keys in inner.logged("put") for key in keys]
    assert order != sorted(order)
    assert len(order) > len(PAGES)
    assert inner.get_many(list(PAGES)) == list(PAGES.values())


def test_writes_of_one_key_keep_their_order() -> None:
    for seed in range(20):
        inner = MemoryStore()
        store = FaultyStore(inner, seed=seed)
        store.hold(shuffle=True, duplicates=0.5)
        store.put_many(PAGES)
        store.delete_many(list(PAGES)[:10])
        store.put_many({"g/03": b"again"})
        store.flush()
        assert sorted(inner.keys()) == ["g/03", *list(PAGES)[10:]]


def test_a_crash_loses_the_unsynced_tail() -> None:
    """reliability 12: what was flushed stays, what came after is gone or, in part, there."""
    store = FaultyStore(inner := MemoryStore())
    store.hold()
    first, *rest = PAGES
    store.put_many({first: PAGES[first]})
    store.flush()
    store.put_many({key: PAGES[key] for key in rest})
    assert store.crash() == 19
    assert store.get_many([first, rest[0]]) == [PAGES[first], None]
    store.put_many({key: PAGES[key] for key in rest})
    assert store.crash(keep=4) == 15
    assert sorted(inner.keys()) == [first, *rest[:4]]


def test_a_store_that_refuses_held_writes_keeps_them() -> None:
    inner = FaultyStore(MemoryStore())
    store = FaultyStore(inner)
    store.hold()
    store.put_many(PAGES)
    inner.fail(7, operations=["put"])
    with pytest.raises(StoreUnavailable):
        store.flush()
    assert store.held == 14
    store.flush()
    assert inner.get_many(list(PAGES)) == list(PAGES.values())


def test_every_bit_can_be_flipped_and_every_length_cut() -> None:
    store = FaultyStore(MemoryStore())
    page = bytes(range(5))
    store.put_many({"g/1": page})
    seen = set()
    for bit in range(40):
        store.corrupt("g/1", flip=bit)
        (read,) = store.get_many(["g/1"])
        assert read is not None
        assert sum((a ^ b).bit_count() for a, b in zip(read, page, strict=True)) == 1
        seen.add(read)
    assert len(seen) == 40
    for length in range(5):
        store.corrupt("g/1", truncate=length)
        assert store.get_many(["g/1"]) == [page[:length]]
    store.heal()
    assert store.get_many(["g/1"]) == [page]


def test_the_kth_page_read_is_damaged_once() -> None:
    store = FaultyStore(MemoryStore())
    store.put_many(PAGES)
    store.corrupt(3, truncate=1)
    assert store.get_many(["g/01", "g/02"]) == [PAGES["g/01"], PAGES["g/02"]]
    assert store.get_many(["g/none", "g/03"]) == [None, PAGES["g/03"][:1]]
    assert store.get_many(["g/03"]) == [PAGES["g/03"]]
    assert store.fired == 1


def test_a_plan_that_makes_no_sense_is_refused() -> None:
    store = FaultyStore(MemoryStore())
    for plan in (
        lambda: store.fail(0),
        lambda: store.fail(operations=["get_many"]),
        lambda: store.fail(operations="get"),
        lambda: store.corrupt("g/1"),
        lambda: store.corrupt("g/1", flip=1, truncate=1),
    ):
        with pytest.raises(ValueError):
            plan()


def test_a_copy_has_no_plans() -> None:
    store = FaultyStore(MemoryStore("faulty-sent"))
    store.fail(forever=True)
    again = pickle.loads(pickle.dumps(store))
    again.put_many(PAGES)
    again.delete_many(PAGES)


CALLS: list[Callable[[PageStore], object]] = [
    lambda store: store.put_many({"g/1": b"page"}),
    lambda store: store.get_many(["g/1"]),
    lambda store: list(store.keys("g/")),
    lambda store: store.flush(),
    lambda store: store.delete_many(["g/1"]),
]


def waits_of(delay: Delay, calls: int, seed: int = 0) -> list[float]:
    waits: list[float] = []
    store = LatencyStore(MemoryStore(), delay, seed=seed, sleep=waits.append)
    for i in range(calls):
        CALLS[i % len(CALLS)](store)
    assert store.calls == calls
    assert store.waited == pytest.approx(sum(waits))
    return waits


def test_constant() -> None:
    assert waits_of(Constant(0.5), 10) == [0.5] * 10


def test_jittered() -> None:
    waits = waits_of(Jittered(1, 2), 200)
    assert min(waits) >= 1
    assert max(waits) <= 3
    assert max(waits) - min(waits) > 1.5
    assert waits == waits_of(Jittered(1, 2), 200)
    assert waits != waits_of(Jittered(1, 2), 200, seed=1)


def test_one_slow_in_a_hundred() -> None:
    waits = waits_of(OneSlow(0.001, 0.2), 300)
    assert waits.count(0.2) == 3
    assert waits.count(0.001) == 297
    assert waits[99] == 0.2


def test_a_hint_does_not_wait() -> None:
    waits: list[float] = []
    store = LatencyStore(MemoryStore(), Constant(1), sleep=waits.append)
    store.prefetch(["g/1"])
    assert waits == []
    assert store.capabilities.remote


def test_it_really_waits() -> None:
    store = LatencyStore(MemoryStore(), Constant(0.05))
    started = time.perf_counter()
    store.get_many(["g/1"])
    assert time.perf_counter() - started >= 0.05


def test_it_can_be_sent() -> None:
    store = LatencyStore(MemoryStore("latency-sent"), Constant(0), seed=3)
    store.put_many({"g/1": b"page"})
    again = pickle.loads(pickle.dumps(store))
    assert again.get_many(["g/1"]) == [b"page"]
    assert again.calls == 1


def test_every_operation_is_counted() -> None:
    with CountingStore(MemoryStore()) as store:
        store.put_many({"g/1": b"abc", "g/2": b"de"})
        store.get_many(["g/1", "g/9", "g/2"])
        store.delete_many(iter(["g/1"]))
        store.prefetch(["g/2", "g/3"])
        assert list(store.keys("g/")) == ["g/2"]
        store.flush()
        assert store.counts.put == CallCount(1, 2, 5)
        assert store.counts.get == CallCount(1, 3, 5)
        assert store.counts.missing == 1
        assert store.counts.delete == CallCount(1, 1, 0)
        assert store.counts.prefetch == CallCount(1, 2, 0)
        assert store.counts.keys == CallCount(1, 1, 0)
        assert store.counts.flush == CallCount(1, 0, 0)
        before = store.reset()
        assert before.put.pages == 2
        assert store.counts.put == CallCount()
