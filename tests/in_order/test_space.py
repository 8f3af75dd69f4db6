"""How many partial aggregates each algorithm holds, counted as objects that are alive."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mta import Monoid
from mta.algorithms import (
    DABA,
    FOA,
    IOA,
    PBA,
    SBA,
    BaseIntervals,
    CachedDABA,
    DABALite,
    FlatFIT,
    RecalculateFromScratch,
    SlickDeque,
    SlideSide,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
)
from mta.in_order import chunked_queue
from mta.in_order.chunked_queue import ChunkedQueue, QueueSegment
from tests.support.in_order_windows import Tracked, cut_off, longest, tracked
from tests.support.naive import joined

#: What is alive after any operation on a window that is never larger than n.
BOUNDS: dict[type, Callable[[int], int]] = {
    RecalculateFromScratch: lambda n: n, SubtractOnEvict: lambda n: n + 1,
    TwoStacks: lambda n: 2 * n, TwoStacksLite: lambda n: n + 1, FOA: lambda n: 3 * n,
    IOA: lambda n: 3 * n, DABA: lambda n: 2 * n, CachedDABA: lambda n: 2 * n + 1,
    DABALite: lambda n: n + 2, SlideSide: lambda n: 2 * n, BaseIntervals: lambda n: 2 * n,
    FlatFIT: lambda n: n, SlickDeque: lambda n: n,
}  # fmt: skip


@contextmanager
def without_collector() -> Iterator[None]:
    """Memory comes back by counting references alone, also that of earlier tests."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("algorithm", BOUNDS, ids=lambda a: a.__name__)
def test_stored_partials(algorithm: type) -> None:
    with without_collector():
        before = Tracked.alive
        for n in (1, 2, 3, 8, 61):
            holds_no_more_than_its_bound(algorithm, n)
        gc.collect(0)  # neighbouring chunks know each other
        assert Tracked.alive == before


def holds_no_more_than_its_bound(algorithm: type, n: int) -> None:
    like: dict[type, Monoid] = {SubtractOnEvict: cut_off(), SlickDeque: longest()}
    before = Tracked.alive
    window = algorithm(tracked(like.get(algorithm, joined())))
    held = []

    def note() -> None:
        held.append(Tracked.alive - before - 1)  # the identity is the monoid's

    for size in (n, 0, n):
        while len(window) < size:
            window.insert("x")
            note()
        while len(window) > size:
            window.evict()
            note()
    for i in range(4 * n):
        window.evict()
        note()
        window.insert("x" * (1 + i * 7 % 5))
        window.query()
        note()
    # And the result that was asked for last, while nothing has changed.
    assert max(held) <= BOUNDS[algorithm](n) + 1
    if algorithm in (DABALite, TwoStacksLite, DABA, TwoStacks) and n > 3:
        assert max(held) >= BOUNDS[algorithm](n) - 1, "the bound is not a loose one"


@pytest.mark.parametrize("n", [4, 9, 64])
@pytest.mark.parametrize("algorithm", [SBA, PBA])
def test_boundary_aggregators_hold_three_chunks(algorithm: type[SBA] | type[PBA], n: int) -> None:
    held = []
    with without_collector():
        before = Tracked.alive
        window = algorithm(tracked(joined()), n)
        for i in range(6 * n):
            window.insert(f"{i % 10}")
            window.query()
            held.append(Tracked.alive - before - 1)
    # The paper's 3b + 2 once lcs is computed; here it is not written over saa, but beside it.
    settled = 3 * window.chunk_size + 2
    assert max(held) <= settled + window.chunk_size
    assert max(held[-n:]) >= n


@pytest.mark.parametrize("algorithm", [FOA, IOA])
def test_long_lists_of_cells_are_freed_without_recursion(algorithm: type) -> None:
    with without_collector():
        before = Tracked.alive
        window = algorithm(tracked(longest()))
        for _ in range(60_000):
            window.insert("x")
        assert len(window) == 60_000
        del window
        assert Tracked.alive <= before  # those of an earlier test may be freed meanwhile


class CountedSegment(QueueSegment):
    """A chunk of which it is known how many there are."""

    __slots__ = ()
    alive = 0

    def __init__(self, columns: int, size: int, previous: QueueSegment | None) -> None:
        super().__init__(columns, size, previous)
        CountedSegment.alive += 1

    def __del__(self) -> None:
        CountedSegment.alive -= 1


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_chunk_is_freed_when_its_last_element_left(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_queue, "QueueSegment", CountedSegment)
    with without_collector():
        before = CountedSegment.alive
        queue = ChunkedQueue(columns=2, chunk_size=size)
        assert CountedSegment.alive > before
        for i in range(20):
            queue.push_back(i, -i)
        for _ in range(200):
            queue.push_back(0, 0)
            queue.pop_front()
            assert CountedSegment.alive - before <= 20 // size + 2
        for _ in range(20):
            queue.pop_front()
        assert queue.begin == queue.end
        assert CountedSegment.alive - before == 1


def test_pointers_walk_both_ways_over_chunks() -> None:
    queue = ChunkedQueue(chunk_size=3)
    (items,) = queue.columns
    for i in range(10):
        queue.push_back(i)
    pointers = list(queue.span(queue.begin, queue.end))
    assert [items[p] for p in pointers] == list(range(10))
    back = queue.end
    for p in reversed(pointers):
        back = queue.before(back)
        assert back == p
    items[pointers[4]] = "four"
    assert [items[p] for p in queue.span(pointers[3], pointers[6])] == [3, "four", 5]


def test_a_chunk_holds_something() -> None:
    with pytest.raises(ValueError, match="at least 1 element, not 0"):
        ChunkedQueue(chunk_size=0)
