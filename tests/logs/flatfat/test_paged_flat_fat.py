"""FlatFAT in pages: its blocks, and what it may cost in combines, store calls and memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Monoid, Window
from mta.aggregations import ColumnarMonoid
from mta.errors import InvariantViolation
from mta.evaluators.flatfat import PagedFlatFAT
from stores.memory import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.naive import joined, pages_of

N = 1 << 18
SIZES = pytest.mark.parametrize(
    ("n", "leaf_arity", "arity"),
    [(1 << 12, 2, 2), (1 << 14, 16, 4), (1 << 14, 256, 16), (1 << 15, 128, 128)],
)


def values(count: int) -> np.ndarray:
    return np.random.default_rng(7).random(count)


def tree_of(window: Window) -> PagedFlatFAT:
    assert isinstance(window.structure(), PagedFlatFAT)
    return window.structure()


def filled(monoid: Monoid | ColumnarMonoid, n: int, leaf_arity: int, arity: int) -> Window:
    """A full window in memory, whose front has moved off the beginning."""
    sizes: Any = {"leaf_arity": leaf_arity, "arity": arity}
    window = Window(monoid, CountWindow(n), store=None, aggregator=PagedFlatFAT, **sizes)
    window.extend(np.random.default_rng(7).integers(0, 1000, n + n // 3).tolist(), emit="last")
    return window


def log2(number: int) -> int:
    return math.ceil(math.log2(number))


def height(n: int, leaf_arity: int, arity: int) -> int:
    return math.ceil(math.log(max(n // leaf_arity, 2), arity)) + 1


# --- the structure ------------------------------------------------------------------------------


def small(count: int, size: int = 100) -> Window:
    window = Window(
        joined(), CountWindow(size), arity=4, leaf_arity=4, aggregator=PagedFlatFAT, name="small"
    )
    window.extend([chr(97 + i % 26) for i in range(count)])
    return window


def test_the_picture_of_the_module() -> None:
    """Both hot paths are in memory, and nothing else; the root is an open block."""
    window = small(35, 30)
    tree = tree_of(window)
    window.insert("!")
    window.evict(5)
    assert (tree.front, tree.back) == (11, 36)
    in_memory = sorted((block.level, block.number) for block in tree.blocks.resident)
    # The front is in leaf 2, below 1/0 and the root; open are leaf 8, the last of which 1/1 has
    # not heard yet, that block itself, and the root.
    assert in_memory == [(0, 2), (0, 8), (1, 0), (1, 1), (2, 0)]
    window.check()


def test_a_page_holds_the_lowest_row_of_its_block_alone() -> None:
    pages = pages_of(small(100).store)  # type: ignore[arg-type]
    plain = Window(joined(), CountWindow(100), arity=4, leaf_arity=4, name="small")
    plain.extend([chr(97 + i % 26) for i in range(100)])
    assert pages == pages_of(plain.store)  # type: ignore[arg-type]


def test_growing_and_shrinking_writes_no_page_again() -> None:
    """Where the paper copies the buffer, a root block becomes an element of a new one."""
    store = CountingStore(MemoryStore())
    window = Window(
        Max(), CountWindow(N), store=store, arity=4, leaf_arity=4, aggregator=PagedFlatFAT
    )
    heights = []
    for count in (3, 4, 60, 300, 5000):
        window.extend(values(count))
        heights.append(window.structure().height)
    assert heights == sorted(set(heights))
    written = store.reset().put.pages
    assert written <= 5367 / 4 * (1 + 1 / 3)
    window.checkpoint()
    for left in (4000, 300, 20, 1):
        window.evict(len(window) - left)
        window.check()
    assert store.counts.put.pages == 0
    for _ in range(2):
        window.checkpoint()
        assert window.structure().height == heights[-1]  # retained snapshots need the root
    window.checkpoint()
    assert window.structure().height < heights[-1]
    assert store.counts.put.pages == 0


def test_check_finds_a_block_that_is_not_what_it_should_be() -> None:
    window = small(90, 77)
    window.check()
    tree_of(window).blocks.tail(1).group.rows[0] = "!"
    with pytest.raises(InvariantViolation):
        window.check()


# --- combines -----------------------------------------------------------------------------------


@SIZES
def test_an_event_costs_log_leaf_arity(n: int, leaf_arity: int, arity: int) -> None:
    """Insert, evict and query; a new leaf block costs its own levels, and the paths, once."""
    counted = Counted()
    window = filled(counted.max, n, leaf_arity, arity)
    stretch = values(max(2000, 4 * leaf_arity)).tolist()
    levels = height(n, leaf_arity, arity)
    opened = 3 * leaf_arity + 4 * arity + 2 * levels * (log2(arity) + 1)
    before = counted.combines
    for value in stretch:
        counted.of(lambda value=value: (window.insert(value), window.query()), at_most=opened + 60)
    total = counted.combines - before
    blocks = len(stretch) / leaf_arity + 2
    walks = 3 * log2(leaf_arity) + 4
    assert total <= len(stretch) * walks + blocks * opened
    assert total >= len(stretch)  # it was counted


@SIZES
def test_an_eviction_costs_no_combine_and_a_query_after_it_log_n(
    n: int, leaf_arity: int, arity: int
) -> None:
    counted = Counted()
    window = filled(counted.max, n, leaf_arity, arity)
    levels = height(n, leaf_arity, arity)
    for count in (1, n // 2, 1, n // 4, 3):
        counted.of(lambda count=count: window.evict(count), at_most=0)
        # At most the levels within the blocks of the front path are new, then two walks a level.
        fresh = leaf_arity + levels * arity
        counted.of(window.query, at_most=2 * fresh + 2 * levels * (log2(arity) + 1) + 60)
        counted.of(window.query, at_most=2)


@pytest.mark.parametrize("columnar", [False, True])
def test_new_events_are_propagated_together(columnar: bool) -> None:
    """m events between two queries take m (1 + ceil(log2(a/m))) combines in a leaf block of a."""
    counted, leaf = Counted(), 1024
    monoid: Any = counted.columnar_hash if columnar else counted.max
    window = Window(
        monoid, CountWindow(N), store=None, leaf_arity=leaf, arity=4, aggregator=PagedFlatFAT
    )
    tree = window.structure()
    rows, count = monoid.rows(list(range(leaf)))
    done = tree.extend(rows, None, 0, 100)
    tree.query()
    for m in (1, 2, 3, 7, 16, 100, 500):
        counted.of(lambda i=done, m=m: tree.extend(rows, None, i, i + m), at_most=0)
        done += m
        bound = m * (1 + math.ceil(math.log2(leaf / m)))
        counted.of(tree.query, at_most=bound + 2 * log2(leaf))
        counted.of(tree.query, at_most=2 * log2(leaf))
    assert done < leaf == count


def test_a_batch_costs_a_few_combines_an_event() -> None:
    counted = Counted()
    window = filled(counted.max, 1 << 15, 256, 16)
    batch = list(range(1 << 13))
    counted.of(lambda: window.extend(batch), at_most=5 * len(batch))
    # Batches that end within blocks scan none of them twice.
    for start in range(0, len(batch), 37):
        part = batch[start : start + 37]
        counted.of(lambda part=part: window.extend(part), at_most=5 * 37 + 4 * 256)
    before = counted.combines
    for start in range(0, len(batch), 37):
        window.extend(batch[start : start + 37])
    assert counted.combines - before <= 6 * len(batch)
    # Without evictions, and where the whole window is in the open block.
    recent = Window(counted.max, CountWindow(1 << 16), store=None, aggregator=PagedFlatFAT)
    counted.of(lambda: recent.extend(batch), at_most=3 * len(batch))
    short = Window(counted.max, CountWindow(1000), store=None, aggregator=PagedFlatFAT)
    counted.of(lambda: short.extend(batch), at_most=6 * len(batch))


# --- store calls and memory -----------------------------------------------------------------------
