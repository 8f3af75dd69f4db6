"""Bulks: what they read and write, and that the window is whole after each, and after a failure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from mta import (
    CountWindow,
    Max,
    Mean,
    Product,
    SampleStdDev,
    SessionWindow,
    Sum,
    TimeWindow,
    Window,
)
from mta.aggregations import ColumnarMonoid
from mta.algorithms import SteadyMTA
from mta.evaluators import amortized_mta as chunks
from mta.evaluators import runs
from mta.frames.base import Frame
from mta.logs.base import Aggregator
from mta.monoids.base import AbstractMonoid
from stores import MemoryStore
from stores.errors import StoreUnavailable
from stores.testing import FaultyStore
from stores.testing.counting import CountingStore
from tests.support.naive import AGGREGATORS, joined

LEAF, ARITY = 32, 16


@pytest.fixture(params=[None, 40])
def bulks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulks as they are, and small ones: windows that are longer may be shorter than a batch."""
    if request.param is not None:
        monkeypatch.setattr(chunks, "_EVENTS", request.param)
        monkeypatch.setattr(chunks, "_BYTES", 1)
        monkeypatch.setattr(runs, "_PIECE", 7)


def test_a_bulk_into_a_level_whose_beginning_was_swept() -> None:
    """Where all higher levels have left, the next one has less room than an empty one."""
    for shift in range(1, 12):
        window = Window(Max(), CountWindow(5), "memory://", "w", arity=2)
        for at in range(shift):
            window.insert(float(at))
        window.evict(len(window))
        window.checkpoint()
        window.checkpoint()
        window.checkpoint()
        assert window.extend([4.0, 3.0, 2.0, 1.0]).tolist() == [4.0] * 4
        window.check()


def counting(frame: Frame, monoid: AbstractMonoid | None = None) -> tuple[Window, Any]:
    store = CountingStore(MemoryStore())
    options = {"leaf_arity": LEAF, "arity": ARITY}
    return Window(monoid or Max(), frame, store=store, name="w", **options), store


@pytest.mark.parametrize("frame", [CountWindow(3), CountWindow(90), TimeWindow(4), TimeWindow(90)])
@pytest.mark.parametrize(
    "monoid", [Mean(), SampleStdDev(), Product({"a": ("x", Mean()), "b": ("x", Max())})]
)
@pytest.mark.parametrize("far", [1.0, 1e160, np.inf])
def test_results_do_not_depend_on_pieces(
    frame: Frame, monoid: AbstractMonoid, far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where squares overflow, which no kernel takes."""
    rng = np.random.default_rng(1)
    values, times = rng.normal(0, 1, 500), np.cumsum(rng.integers(0, 3, 500))
    values[[130, 300]] = far
    found = []
    for piece in (7, 1000):
        monkeypatch.setattr(runs, "_PIECE", piece)
        window = Window(monoid, frame, store=None, leaf_arity=LEAF)
        for rows in (slice(50), slice(50, None)):
            given = {"x": values[rows]} if isinstance(monoid, Product) else values[rows]
            part = window.extend(given, times[rows])
            found.append(list(part.values()) if isinstance(part, dict) else [part])
    for piecewise, whole in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(piecewise, whole, rtol=1e-9)


def test_a_bulk_is_written_at_once() -> None:
    window, store = counting(CountWindow(100_000))
    window.extend(np.arange(8.0 * LEAF))
    # The first leaf groups fill the level above, which is then sealed before the next bulk.
    assert store.counts.put.calls == 1
    assert store.counts.put.pages == 7


@pytest.mark.parametrize("frame", [CountWindow(5 * LEAF), TimeWindow(5 * LEAF)])
def test_what_comes_and_leaves_in_one_bulk_is_written_only_where_a_snapshot_was_taken(
    frame: Frame,
) -> None:
    counts = []
    for taken in (False, True):
        window, store = counting(frame)
        window.extend(np.zeros(10 * LEAF), np.arange(10 * LEAF))
        if taken:
            window.checkpoint()
        store.reset()
        for start in range(10, 110, 10):
            times = np.arange(start * LEAF, (start + 10) * LEAF)
            window.extend(times.astype(float), times)
            window.check()
        counts.append(store.counts.put.pages)
    # Without one the window's own five leaf groups at the end of each bulk, and some above.
    assert counts[0] <= 75
    assert 100 <= counts[1] <= 100 * (1 + 1 / ARITY) + 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", [CountWindow, TimeWindow])
@pytest.mark.parametrize("size", [LEAF, 5 * LEAF, 40 * LEAF, 300 * LEAF])
@pytest.mark.parametrize("before", [0, 3 * LEAF + 5])
def test_a_batch_longer_than_the_window_writes_the_last_window_alone(
    kind: type[CountWindow] | type[TimeWindow], size: int, before: int, bulks: None
) -> None:
    """Whatever its length, and however many levels it goes through; hardly any page is read."""
    window, store = counting(kind(size), Sum())
    count = 3 * size + 200 * LEAF + 11
    values, times = np.random.default_rng(3).random(count), np.arange(count)
    found = [window.extend(values[:before], times[:before])]
    store.reset()
    found.append(window.extend(values[before:], times[before:]))
    assert len(window) == size
    sums = np.concatenate(([0.0], np.cumsum(values)))
    fronts = np.maximum(np.arange(1, len(sums)) - size, 0)
    np.testing.assert_allclose(np.concatenate(found), sums[1:] - sums[fronts], rtol=1e-9)
    if size > max(chunks._EVENTS, 8 * LEAF):
        # What was there before leaves by bulks, which takes a window; then the last one.
        windows, least = (2, 1) if before else (1, 0)
        most = windows * size / LEAF * (1 + 2 / ARITY) + 10
        assert store.counts.put.pages <= most
        assert before or store.counts.put.calls <= most / 16 + 4
        assert store.counts.get.pages <= least * most + 1  # when the oldest event was
    window.check()
    back = Window.restore(window.checkpoint(), window.store)
    back.check()
    assert back.query() == window.query()
    window.extend(values[: 5 * LEAF], times[: 5 * LEAF] + len(times))
    window.check()
    window.structure().delete_pages()
    assert not list(window.store.keys())


def test_a_long_batch_after_all_before_it_was_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in their groups the levels stand: no page is left behind, or named without need."""
    monkeypatch.setattr(chunks, "_EVENTS", 4)
    monkeypatch.setattr(chunks, "_BYTES", 1)
    for before in range(64, 98):
        window = Window(Max(), CountWindow(20), "memory://", "w", arity=2, leaf_arity=2)
        window.extend(np.arange(before * 1.0), emit="last")
        window.evict(len(window))
        found = window.extend(-np.arange(100.0))
        assert found.tolist() == [min(0.0, 19.0 - at) for at in range(100)]
        assert window.structure().levels.swept == before
        window.check()
        window.delete_pages()
        assert not list(window.store.keys())


def test_a_batch_goes_in_at_once_where_partials_take_no_more_memory_than_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "_EVENTS", 40)
    monkeypatch.setattr(chunks, "_BYTES", 1)
    size = 10 * LEAF
    for columns, at_once in (2, True), (3, False):  # of 8 bytes, beside a value and a result
        wide = ColumnarMonoid(
            "wide",
            partials=("f8",) * columns,
            identity=(0.0,) * columns,
            lift=lambda value, columns=columns: (value,) * columns,
            ufuncs=(np.add,) * columns,
            lower=lambda partial: partial[-1],
        )
        window, store = counting(CountWindow(size), wide)
        found = window.extend(np.ones(9 * size))
        assert found.tolist() == [float(min(at, size)) for at in range(1, 9 * size + 1)]
        assert (store.counts.put.pages <= 2 * size / LEAF) == at_once


@pytest.mark.parametrize("kind", [CountWindow, TimeWindow])
@pytest.mark.parametrize("size", [3, LEAF, 40 * LEAF])
@pytest.mark.parametrize("before", [0, 3 * LEAF + 5, 60 * LEAF])
@pytest.mark.parametrize("taken", [False, True])
def test_what_comes_and_leaves_before_the_last_result_is_not_written(
    kind: type[CountWindow] | type[TimeWindow], size: int, before: int, taken: bool
) -> None:
    window, store = counting(kind(size), Sum())
    count = size + 500 * LEAF + 11
    values, times = np.random.default_rng(3).random(before + count), np.arange(before + count)
    window.extend(values[:before], times[:before])
    if taken:
        window.checkpoint()
    store.reset()
    found = window.extend(values[before:], times[before:], emit="last")
    assert len(window) == size
    np.testing.assert_allclose(found, values[-size:].sum(), rtol=1e-9)
    pages = size / LEAF * (1 + 2 / ARITY)
    if taken:
        assert store.counts.put.pages >= count // LEAF
    else:
        assert store.counts.put.pages <= pages + 4
        assert store.counts.put.calls <= pages / 16 + 4
        assert store.counts.get.pages == 0
    window.check()
    back = Window.restore(window.checkpoint(), window.store)
    back.check()
    assert back.query() == window.query()
    more = values[: 5 * LEAF]
    found = window.extend(more, times[: 5 * LEAF] + len(times))
    line = np.concatenate((values, more))[-size:]
    np.testing.assert_allclose(found[-1], line.sum(), rtol=1e-9)
    window.check()
    window.structure().delete_pages()
    assert not list(window.store.keys())


@pytest.mark.parametrize("frame", [CountWindow(50 * LEAF), TimeWindow(50 * LEAF)])
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("groups", [10, 100])
def test_a_bulk_reads_a_page_about_once(frame: Frame, taken: bool, groups: int) -> None:
    window, store = counting(frame)
    times = np.arange(600 * LEAF)
    window.extend(np.zeros(100 * LEAF), times[: 100 * LEAF])
    if taken:
        window.checkpoint()
    store.reset()
    for start in range(100 * LEAF, 600 * LEAF, groups * LEAF):
        stop = start + groups * LEAF
        window.extend(np.zeros(stop - start), times[start:stop])
    assert store.counts.get.pages <= 1.1 * 500 * (1 + 3 / ARITY)


@pytest.mark.sample(1)
@pytest.mark.parametrize("store", [None, "memory://"])
@pytest.mark.parametrize("size", [LEAF // 2, 5 * LEAF, 40 * LEAF])
@pytest.mark.parametrize("kind", [CountWindow, TimeWindow])
def test_what_was_given_may_be_changed_afterwards(
    kind: type[CountWindow] | type[TimeWindow], size: int, store: str | None, bulks: None
) -> None:
    """Columns are the caller's again once a call has ended, whatever of them is still in memory."""
    random = np.random.default_rng(5)
    settings: dict[str, Any] = {"leaf_arity": LEAF, "arity": ARITY}
    window, like = (Window(Sum(), kind(size), store, **settings) for _ in range(2))
    for batch in range(12):
        count = int(random.integers(1, 20 * LEAF))
        values, times = random.random(count), batch * 100 * LEAF + np.arange(count) * 2
        given = values.copy(), times.astype("M8[s]")
        found = window.extend(*given)
        for column in given:
            column.view("i8")[:] = -1
        assert found.tolist() == like.extend(values, times.astype("M8[s]")).tolist()
        window.check()
        left = int(random.integers(0, len(window)))
        if left:
            window.evict(left), like.evict(left)
        assert window.query() == like.query()


def test_leaves_that_a_pause_skips_are_not_read() -> None:
    window, store = counting(TimeWindow(200 * LEAF))
    window.extend(np.zeros(150 * LEAF), np.arange(150 * LEAF))
    store.reset()
    later = np.arange(150 * LEAF, 160 * LEAF)
    later[5 * LEAF :] += 150 * LEAF  # most of the window leaves at once
    window.extend(np.zeros(10 * LEAF), later)
    assert len(window) == 50 * LEAF
    assert store.counts.get.pages <= 20
    window.check()


@pytest.mark.sample(1)
@pytest.mark.parametrize("frame", [CountWindow(900), TimeWindow(900), CountWindow(9000)])
@pytest.mark.parametrize("call", ["get", "put"])
def test_a_store_that_fails_in_a_bulk(frame: Frame, call: str, bulks: None) -> None:
    """As many events are in as the error says, and the window goes on from there."""
    rng = np.random.default_rng(1)
    values, times = rng.normal(size=13_000), np.arange(13_000)
    good = Window(Sum(), frame, store=None, name="w", leaf_arity=LEAF, arity=ARITY)
    expected = good.extend(values, times)
    store = FaultyStore(MemoryStore())
    window = Window(Sum(), frame, store, "w", leaf_arity=LEAF, arity=ARITY)
    done, failures = 0, 0
    while done < len(values):
        store.fail(int(rng.integers(1, 7)), operations=[call])
        count = int(rng.choice([10, 700, 5000]))
        stop, before = min(done + count, len(values)), window.stats().inserted
        wanted: Any = rng.choice(["all", "all", "all", "last"])
        try:
            found = window.extend(values[done:stop], times[done:stop], wanted)
        except StoreUnavailable as error:
            failures += 1
            taken = window.stats().inserted - before
            count = stop - done
            assert error.__notes__ == [f"{taken} of {count} events of the batch were accepted"]
            done += taken
            store.heal()
            if done:
                assert window.query() == pytest.approx(expected[done - 1], rel=1e-6, abs=1e-9)
        else:
            known = expected[done if wanted == "all" else stop - 1 : stop]
            np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-9)
            done = stop
        store.heal()
        window.check()
    assert failures > 3


@pytest.mark.parametrize("frame", [CountWindow(9), TimeWindow(9), SessionWindow(5)], ids=repr)
@pytest.mark.parametrize("aggregator", [*AGGREGATORS, SteadyMTA])
def test_results_after_events_whose_results_nobody_wanted(
    aggregator: type[Aggregator], frame: Frame
) -> None:
    """The folds of a batch do not miss the events that come between it and the next one."""
    takes: dict[str, Callable[[Window, list[str], list[int]], Any]] = {
        "last": lambda window, values, times: window.extend(values, times, emit="last"),
        "one by one": lambda window, values, times: [*map(window.insert, values, times)],
        "all": lambda window, values, times: window.extend(values, times),
    }
    for (name, take), leaf_arity, before, between in product(
        takes.items(), (2, 8), (1, 4, 11), (1, 2, 6)
    ):
        window = Window(
            joined(), frame, None, arity=2, leaf_arity=leaf_arity, aggregator=aggregator
        )
        events, stops = [f"{at}." for at in range(before + between + 5)], [0, before, before + 3]
        stops += [before + 3 + between, len(events)]
        for turn, (start, stop) in enumerate(pairwise(stops)):
            times = list(range(start, stop))
            if turn == 2:
                take(window, events[start:stop], times)
                continue
            size = len(events) if isinstance(frame, SessionWindow) else 9
            expected = ["".join(events[max(0, at + 1 - size) : at + 1]) for at in times]
            assert list(window.extend(events[start:stop], times)) == expected, f"after {name}"
