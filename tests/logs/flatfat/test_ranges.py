"""Ranges over blocks: what they cost in combines and page reads, and what they have read."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Monoid, TimeWindow, Window
from mta.errors import CorruptSnapshot, EventsGone
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.frames import CustomFrame
from mta.logs.base import Aggregator
from mta.snapshots import Snapshot
from stores.memory import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.random_windows.kinds import COLLECTED, NEIGHBOURS
from tests.support.sampling import parts

SECOND = 1_000_000
BLOCKS = pytest.mark.parametrize("aggregator", [PagedFlatFAT, PagedReactiveAggregator])
SIZES = pytest.mark.parametrize(
    ("n", "leaf_arity", "arity"), [(1 << 12, 2, 2), (1 << 14, 16, 4), (1 << 15, 1024, 16)]
)


def tree_of(window: Window) -> PagedReactiveAggregator:
    assert isinstance(window.structure(), PagedReactiveAggregator)
    return window.structure()


def test_the_oldest_events_time_may_be_that_of_the_epoch() -> None:
    for first in (-1, 0, 1):
        window = Window(
            COLLECTED.monoid(True), TimeWindow(100), arity=2, aggregator=PagedReactiveAggregator
        )
        window.extend("abcdef", [first + i for i in range(6)])
        tree_of(window).evict_at([0, 2])  # one at the front, one beside it
        window.evict()
        assert window.range(first + 1, first + 9) == ("d", "e", "f")
        tree_of(window).compact()
        with pytest.raises(EventsGone):
            window.range(first, first + 9)
        assert window.range(first + 1, first + 9) == ("d", "e", "f")


@pytest.mark.parametrize("newest", ["1", 1.5, True, [1], 1 << 63, -(1 << 63) - 1, None])
def test_a_time_of_what_has_left_that_cannot_be(newest: object) -> None:
    monoid, kind = NEIGHBOURS.monoid(True), PagedReactiveAggregator
    window = Window(monoid, TimeWindow(100), MemoryStore(), "w", aggregator=kind)
    window.extend([f"{i}:" for i in range(6)], range(6))
    tree_of(window).evict_at([2])
    snapshot = Snapshot.decode(window.checkpoint())
    assert len(snapshot.state) == 3  # nothing has left: the slots tell
    window.evict(2)
    snapshot = Snapshot.decode(window.checkpoint())
    assert snapshot.state[3] == SECOND
    for state in ([*snapshot.state[:3], newest], [*snapshot.state, 0]):
        snapshot.state = state
        with pytest.raises((CorruptSnapshot, OverflowError)):
            window.restore_like(snapshot.encode())


# --- costs --------------------------------------------------------------------------------------


def numbered(combines: list[int]) -> Monoid:
    """The neighbours of ``random_windows``, their combines counted."""
    neighbours = NEIGHBOURS.monoid(False)

    def combine(left: Any, right: Any) -> Any:
        combines[0] += 1
        return neighbours.combine(left, right)

    return Monoid((), combine, neighbours.lift, name="numbered")


def log2(number: float) -> int:
    return math.ceil(math.log2(number))


@BLOCKS
@SIZES
def test_a_range_costs_log_n(
    aggregator: type[Aggregator], n: int, leaf_arity: int, arity: int
) -> None:
    """Where its blocks are prefetched; else once what it takes to fold each."""
    combines = [0]
    window = Window(
        numbered(combines), CountWindow(n), "memory://",
        arity=arity, leaf_arity=leaf_arity, aggregator=aggregator,
    )  # fmt: skip
    window.extend([f"{i}:" for i in range(n + n // 3)], emit="last")
    levels, front, back = window.structure().height, n // 3, n + n // 3
    walks = 2 * (log2(leaf_arity) + (levels - 1) * log2(arity)) + 2 * levels
    random = Random(3)
    for _ in range(30):
        start, stop = sorted(random.sample(range(front, back + 1), 2))
        for bound in (walks + 2 * (leaf_arity + (levels - 1) * arity), walks):
            combines[0] = 0
            assert window.range_by_position(start, stop) == (start, stop - 1, stop - start)
            assert 0 < combines[0] <= bound or stop - start == 1
    # A range that moves on: what its ends come to is folded once.
    combines[0] = 0
    for i in range(2 * leaf_arity):
        start, stop = front + i + n // 5, front + i + n // 2
        assert window.range_by_position(start, stop) == (start, stop - 1, stop - start)
    assert combines[0] <= 2 * leaf_arity * walks + 6 * (leaf_arity + (levels - 1) * arity)


@BLOCKS
@pytest.mark.parametrize("holes", [False, True])
def test_a_range_reads_at_most_two_pages_a_level_and_the_same_one_none(
    aggregator: type[Aggregator], holes: bool
) -> None:
    n, store = 1 << 14, CountingStore(MemoryStore())
    frame = TimeWindow(n)
    window = Window(Counted().max, frame, store, "w", leaf_arity=16, arity=4, aggregator=aggregator)
    there = np.arange(n + n // 4)
    window.extend(there.tolist(), there, emit="last")
    there = there[n // 4 :]
    if holes and aggregator is PagedReactiveAggregator:
        tree_of(window).evict_at(range(n // 3, n // 2, 3))
        there = np.delete(there, range(n // 3 - n // 4, n // 2 - n // 4, 3))
    snapshot, height = window.checkpoint(), window.structure().height
    random = Random(5)
    for _ in range(40):
        window = window.restore_like(snapshot) if random.random() < 0.5 else window
        after, until = sorted(random.sample(range(n // 4 - 1, n + n // 4), 2))
        inside = there[(after < there) & (there <= until)]
        for most in (2 * (height - 1), 0):
            store.reset()
            assert window.range(after, until) == inside.max(initial=-1) or not len(inside)
            assert store.counts.get.pages <= most
        start, stop = sorted(random.sample(range(len(there) + 1), 2))
        front = window.structure().front
        for most in (2 * (height - 1), 0):
            store.reset()
            found = window.range_by_position(front + start, front + stop)
            assert found == there[stop - 1]
            assert store.counts.get.pages <= most
    assert window.stats().resident_rows <= 6 * 3 * (16 + 4 * height)


@pytest.mark.parametrize("part", parts(3))
@BLOCKS
def test_what_a_range_has_read_stays_right_while_the_window_moves_on(
    aggregator: type[Aggregator], part: int
) -> None:
    """Blocks at the ends of the last range are sealed, changed, left behind and deleted."""
    for seed in range(part, 12, 3):
        random = Random(seed)
        window = Window(
            NEIGHBOURS.monoid(True), CustomFrame(lambda prefix, total: total[1] - prefix[1] > 60),
            "memory://", "w", arity=2, leaf_arity=3, aggregator=aggregator,
        )  # fmt: skip
        there: list[int] = []
        for number in range(150):
            window.insert(f"{number}:")
            there = [n for n in [*there, number] if number - n <= 60]
            if aggregator is PagedReactiveAggregator and len(there) > 9 and number % 7 == 0:
                place = random.randrange(1, len(there))
                tree_of(window).evict_at([window.structure().front + place])
                del there[place]
            if number % 40 == 39:
                window = window.restore_like(window.checkpoint())
            front = window.structure().front
            start = random.randrange(len(there) // 2 + 1)
            stop = random.randrange(start, len(there) + 1)
            found = window.range_by_position(front + start, front + stop)
            assert NEIGHBOURS.agrees(found, [f"{n}:" for n in there[start:stop]])
        window.check()
