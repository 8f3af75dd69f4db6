"""What an audit finds and names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Mean, Product, TimeWindow, Window
from mta.algorithms import LogMTA
from mta.audit.walk import audit, live_keys
from mta.errors import NotPageable
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from stores import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.naive import joined, pages_of
from tests.support.sampling import parts

Make = Callable[[MemoryStore], Window]


def numbers(store: MemoryStore) -> Window:
    window = Window(Mean(), CountWindow(60), store, "w", arity=3, leaf_arity=2)
    window.extend(np.arange(110.0) / 7)
    return window


def timed(store: MemoryStore) -> Window:
    product = Product({"top": ("x", Max()), "mean": ("x", Mean())})
    window = Window(product, TimeWindow(50), store, "w", arity=3, leaf_arity=2)
    window.extend({"x": np.arange(110.0) / 7}, np.arange(110.0))
    return window


def texts(store: MemoryStore) -> Window:
    window = Window(joined(), CountWindow(60), store, "w", arity=3, leaf_arity=2, aggregator=LogMTA)
    window.extend([f"{i}." for i in range(110)])
    return window


def blocks(store: MemoryStore) -> Window:
    window = Window(
        Mean(), CountWindow(60), store, "w", arity=3, leaf_arity=2, aggregator=PagedFlatFAT
    )
    window.extend(np.arange(110.0) / 7)
    return window


def holes(store: MemoryStore) -> Window:
    window = Window(
        joined(), CountWindow(60), store, "w", arity=3, leaf_arity=2,
        aggregator=PagedReactiveAggregator,
    )  # fmt: skip
    window.extend([f"{i}." for i in range(110)])
    window.structure().evict_at([window.structure().front + i for i in range(3, 55, 7)])  # type: ignore[attr-defined]
    return window


def reopened(window: Window) -> Window:
    return window.restore_like(window.checkpoint())


@pytest.fixture(params=[numbers, timed, texts, blocks, holes], ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_nothing_is_wrong_with_a_whole_window(make: Make) -> None:
    store = MemoryStore()
    window = reopened(make(store))
    found = audit(window)
    assert not found.damaged
    assert found.pages == len(list(store.keys())) == len(list(live_keys(window)))
    assert found.gone == 0
    assert set(live_keys(window)) == set(store.keys())


@pytest.mark.parametrize("part", parts(2))
def test_every_missing_or_damaged_page_is_found(make: Make, part: int) -> None:
    store = MemoryStore()
    window = reopened(make(store))
    whole = pages_of(store)
    for at, (key, data) in enumerate(whole.items()):
        damages = [None, data[:-1], data[:9] + bytes([data[9] ^ 4]) + data[10:], b""]
        for damaged in damages[(at + part) % 2 :: 2]:
            store.delete_many([key])
            if damaged is not None:
                store.put_many({key: damaged})
            level, group = (int(part) for part in key.split("/")[1:3])
            before = pages_of(store)
            found = audit(window)
            assert [(d.key, d.level, d.group) for d in found.damaged] == [(key, level, group)] or (
                damaged is None and found.gone and not found.damaged
            )
            assert found.pages + found.gone + len(found.damaged) <= len(whole)
            assert found.pages < len(whole), "a damaged page counted as whole"
            assert pages_of(store) == before, "an audit wrote something"
            store.put_many({key: data})


def test_a_page_of_another_window_or_place_is_found() -> None:
    store = MemoryStore()
    window = reopened(numbers(store))
    one, other = sorted(store.keys("w/0/"))[-2:]
    pages = pages_of(store)
    store.put_many({one: pages[other]})
    assert [(d.key, d.what) for d in audit(window).damaged] == [
        (one, "its bytes do not match its name")
    ]


def test_a_parent_that_disagrees_is_found() -> None:
    store = MemoryStore()
    window = reopened(timed(store))
    tail = window.structure().levels.tails[-1]
    monoid = window.engine.monoid
    monoid.partials.put(tail.rows, tail.count - 1, (1e9, monoid.identity[1]))
    assert [d.what for d in audit(window).damaged] == [
        "its fold is not the aggregate that its parent has"
    ]
    window = reopened(timed(MemoryStore()))
    tail = window.structure().levels.tails[-1]
    assert tail.times is not None
    tail.times[tail.count - 1] += 1
    assert "its parent says" in audit(window).damaged[0].what


def test_pages_that_a_later_checkpoint_deleted_are_gone_not_damaged(make: Make) -> None:
    store = MemoryStore()
    window = make(store)
    window.evict(12)
    window.checkpoint()
    window.evict(24)
    snapshot = window.checkpoint()
    for _ in range(2):
        window.evict(1)
        window.checkpoint()  # the second deletes, and its snapshot is lost
    window = window.restore_like(snapshot)
    found = audit(window)
    assert not found.damaged
    assert found.gone
    assert {key for key in live_keys(window) if store.get_many([key]) != [None]} == set(
        store.keys()
    )


def test_costs_and_refusals() -> None:
    counting = CountingStore(MemoryStore())
    window = Window(Max(), CountWindow(4000), counting, "w", arity=8, leaf_arity=4)
    window.extend(np.arange(8000.0))
    window = reopened(window)
    counting.reset()
    inner = sum(not key.startswith("w/0/") for key in live_keys(window))
    assert counting.reset().get.calls == inner
    pages = audit(window).pages
    assert counting.reset().get.calls < pages / 4
    with pytest.raises(NotPageable):
        audit(Window(Max(), CountWindow(4), None))
