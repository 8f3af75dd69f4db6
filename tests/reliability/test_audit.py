"""What an audit finds, names and repairs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from signal import SIGKILL
from time import sleep
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, LogMTA, Max, Mean, Product, TimeWindow, Window
from mta.audit.walk import audit, live_keys
from mta.errors import MissingPage, NotPageable
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from stores import MemoryStore, open_store
from stores.testing.counting import CountingStore
from tests.support.oracle import joined, pages_of
from tests.support.sampling import parts, some

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
def test_every_missing_or_damaged_page_is_found_and_inner_ones_are_repaired(
    make: Make, part: int
) -> None:
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
            assert [(d.key, d.level, d.group) for d in found.left] == [(key, level, group)] or (
                damaged is None and found.gone and not found.damaged
            )
            assert found.pages + found.gone + len(found.damaged) <= len(whole)
            assert found.pages < len(whole), "a damaged page counted as whole"
            assert pages_of(store) == before, "an audit without repair wrote something"
            if (
                level
                and found.damaged
                and found.damaged[0].first >= window.structure().levels.swept
            ):
                found = audit(window, repair=True)
                assert [d.key for d in found.repaired] == [key]
                assert not found.left
                assert pages_of(store) == whole
            elif found.damaged:
                again = audit(window, repair=True)
                if again.repaired:  # all leaves of a group at the front may still be there
                    assert level and pages_of(store) == whole
                else:
                    assert [d.key for d in again.left] == [key]
                    assert re.search("in no other page|cannot be rebuilt", str(again.left[0]))
            store.put_many({key: data})


def test_all_inner_pages_are_rebuilt_from_the_leaves_beside_leftovers(make: Make) -> None:
    """Leftovers of a failed writer beside the right pages change nothing."""
    store = MemoryStore()
    window = reopened(make(store))
    whole = pages_of(store)
    for key in list(store.keys("w/0/"))[::5]:
        window_name, level, group, _ = key.split("/")
        store.put_many({f"{window_name}/{level}/{group}/{'00' * 15}01": whole[key]})
    inner = [key for key in whole if not key.startswith("w/0/")]
    store.delete_many(inner)
    with pytest.raises(MissingPage):
        list(live_keys(window))
    found = audit(window, repair=True)
    assert all(damage.first < window.structure().levels.swept for damage in found.left)
    assert audit(window).damaged == [replace(d, outcome="not repaired") for d in found.left]
    repaired = {damage.key: whole[damage.key] for damage in found.repaired}
    assert repaired
    assert repaired.items() <= pages_of(store).items()


@pytest.mark.parametrize("seed", some(range(12), by_default=2))
def test_a_repair_that_is_killed_at_any_time_is_done_again(tmp_path: Path, seed: int) -> None:
    """No page is worse than before, and the last repair leaves none to repair."""
    rng, url = Random(seed), f"file://{tmp_path}/pages"
    with open_store(url, write_buffer=0) as store:
        window = Window(Mean(), CountWindow(1500), store, "w", arity=3, leaf_arity=2)
        window.extend(np.arange(3000.0) / 7)
        snapshot, expected = window.checkpoint(), window.query()
        inner = [key for key in live_keys(window) if key.split("/")[1] != "0"]
        damaged = {key: rng.randbytes(40) for key in rng.sample(inner, len(inner) // 3)}
        copy = MemoryStore()
        copy.put_many(dict(zip(store.keys(), store.get_many(list(store.keys())), strict=True)))
        copy.put_many(damaged)
        alone = Window.restore(snapshot, Mean(), CountWindow(1500), copy)
        for page in audit(alone, repair=True).left:  # the front has partly passed them
            del damaged[page.key]
        store.put_many(damaged)
        whole = set(store.keys()) - damaged.keys()
        pages = dict(zip(whole, store.get_many(list(whole)), strict=True))
    left: list[int] = []
    for turn in range(6):
        child = os.fork()
        if child == 0:
            with open_store(url, write_buffer=rng.choice([0, 1 << 20])) as store:
                found = Window.restore(snapshot, Mean(), CountWindow(1500), store)
                audit(found, repair=True)
                os._exit(0)
        if turn < 5:
            sleep(rng.random() * 0.3)
            with suppress(ProcessLookupError):
                os.kill(child, SIGKILL)
        os.waitpid(child, 0)
        with open_store(url, write_buffer=0) as store:
            stored = dict(zip(damaged, store.get_many(list(damaged)), strict=True))
            left.append(sum(stored[key] == page for key, page in damaged.items()))
            assert dict(zip(whole, store.get_many(list(whole)), strict=True)) == pages
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    with open_store(url) as store:
        found = Window.restore(snapshot, Mean(), CountWindow(1500), store)
        assert audit(found).damaged == []
        assert found.query() == expected


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
