"""Waits of three shapes, reported to a recorder instead of the clock."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable

import pytest

from stores import HeadCache, MemoryStore, PageStore, WriteBuffer
from stores.testing import Constant, CountingStore, Jittered, LatencyStore, OneSlow
from stores.testing.faults import Delay
from tests.support.faulty import eventually

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


def test_reading_ahead_hides_the_wait() -> None:
    """reliability 15, in kind: who prefetches waits for no round trip, and has each page once."""
    pages = {f"g/{i}": bytes([i]) * 100 for i in range(40)}
    counting = CountingStore(MemoryStore())
    counting.put_many(pages)
    waiting: list[threading.Thread] = []
    slow = LatencyStore(
        counting, Constant(1), sleep=lambda _: waiting.append(threading.current_thread())
    )
    keys = list(pages)
    with WriteBuffer(HeadCache(slow)) as store:
        for i, key in enumerate(keys):
            store.prefetch(keys[i : i + 8])
            eventually(lambda key=key: store.peek(key) is not None)
            assert store.get_many([key]) == [pages[key]]
        assert waiting
        assert threading.current_thread() not in waiting
        assert counting.counts.get.pages == len(pages)
