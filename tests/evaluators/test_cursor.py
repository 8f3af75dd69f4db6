"""Cursors over a plain list of events, and what they are made of: blocks and leaves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import Count, CountWindow, Max, Mean, Min, Product, Sum, TimeWindow, Window
from mta.errors import InvalidTime
from mta.evaluators.cursor import Cursor
from mta.evaluators.runs import results_of
from mta.folds.blocks import Blocks
from mta.folds.sliding import Events
from mta.frames import BoundWindow, CustomFrame
from mta.frames.base import Frame
from mta.kernels.native import ranks
from mta.logs import base
from mta.logs.base import Chunk, JoinedLeaf, Leaf
from mta.logs.levels.log import LeafReader, LevelLog
from mta.monoids.base import AbstractMonoid
from mta.windows.shared import SharedWindows
from tests.support.counted import Counted, rolling_hash
from tests.support.naive import Event, joined, letters, text_of, window_of

SECOND = 1_000_000


@pytest.fixture(autouse=True, scope="module", params=[1, 1024])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """How many events are searched with one read, or alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_FEW", request.param)
        patch.setattr(base, "_MANY", 4 * request.param)
        yield


class ListedEvents:
    """Ordered events in a list, in leaves of ``size``, as many together as anybody allows."""

    by_time = looks_back = True

    def __init__(self, size: int, events: list[Event] | None = None) -> None:
        self.size, self.events, self.kept_from, self.stamp = size, events or [], 0, 0

    @property
    def back(self) -> int:
        return len(self.events)

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        assert self.kept_from <= position < self.back
        if until is not None:
            upto = self.first_after(until) + 1
        first = position // self.size * self.size
        stop = -(-max(upto, position + 1) // self.size) * self.size
        values, times = zip(*self.events[first:stop], strict=True)
        return Leaf(first, list(values), np.array(times), len(values))

    def fold(self, start: int, stop: int) -> str:
        assert self.kept_from <= start <= stop <= self.back
        return text_of(self.events[start:stop])

    def settled(self, front: int) -> int:
        return self.back - min(3, (self.back - front) // 2)

    def path(self, position: int, below: int | None = None) -> tuple[()]:
        return ()

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, list[str]]:
        starts = list(range(position, back + 1, self.size))
        return np.array(starts), [self.fold(start, back) for start in starts]

    def first_after(self, time: int) -> int:
        return max(self.kept_from, bisect_right(self.events, time, key=lambda event: event[1]))

    def chunk(self, start: int, events: list[Event]) -> Chunk:
        """Events in chunk, stored or not."""
        times = np.array([time for _, time in events], dtype="i8")
        return Chunk(joined(), start, [value for value, _ in events], times, len(events))


REPORTED: list[Callable[[int], Frame]] = [
    CountWindow,
    TimeWindow,
    lambda n: CountWindow(n) | TimeWindow(2 * n),
    lambda n: CountWindow(n) & TimeWindow(n / 2),
    lambda n: (CountWindow(n) | TimeWindow(1)) & TimeWindow(0.5),
]
#: Frames on letters, and whether a window that begins with the first of some events is one.
SEARCHED: list[tuple[Callable[..., Frame], Callable[[list[Event], int], bool]]] = [
    (
        lambda n, checked: BoundWindow(letters(), at_most=n, checked=checked),
        lambda events, n: len(text_of(events)) <= n,
    ),
    (
        lambda n, checked: CustomFrame(
            lambda prefix, total: total - prefix >= n, on=letters(), name="keep", checked=checked
        ),
        lambda events, n: len(text_of(events[1:])) < n,
    ),
]
GAPS = st.sampled_from([0, 0, 1, 1, 1, 2, 30])
LETTERS = st.sampled_from(["a", "b", "cc", "ddd", ""])
EVENTS = st.lists(st.tuples(LETTERS, GAPS), min_size=1, max_size=150)
SIZES = st.sampled_from([1, 2, 3, 8])
LENGTHS = st.sampled_from([1, 2, 5, 20, 100])


def timed(drawn: list[tuple[str, int]], now: int = 0) -> list[Event]:
    """Drawn values and gaps as events."""
    times = np.cumsum([gap for _, gap in drawn]) * SECOND + now
    return [(value, int(time)) for (value, _), time in zip(drawn, times, strict=True)]


def naive_results(frame: Frame, events: list[Event], window: list[Event]) -> list[str]:
    """The result after each event; ``window`` slides along."""
    results = []
    for event in events:
        window.append(event)
        seconds = [time / SECOND for _, time in window]
        del window[: window_of(frame, seconds, seconds[-1]).start]
        results.append(text_of(window))
    return results


@settings(max_examples=100, deadline=None)
@given(
    batches=st.lists(st.tuples(EVENTS, st.sampled_from(["run", "step", "settle"])), max_size=6),
    size=SIZES,
    n=LENGTHS,
    make=st.sampled_from(REPORTED),
)
def test_a_cursor_is_a_slice(
    batches: list[tuple[list[tuple[str, int]], str]],
    size: int,
    n: int,
    make: Callable[[int], Frame],
) -> None:
    """Runs of events that are stored later, single ones that are stored already, and none of it."""
    frame, stored, window = make(n), ListedEvents(size), list[Event]()
    cursor = Cursor(joined(), frame, stored)
    for drawn, how in batches:
        events = timed(drawn, stored.events[-1][1] if stored.events else 0)
        expected = naive_results(frame, events, window)
        if how == "run":
            assert results_of(cursor, stored.chunk(stored.back, events)) == expected
            stored.events += events
        elif how == "step":
            for (value, time), result in zip(events, expected, strict=True):
                stored.events.append((value, time))
                cursor.step(value, time)
                assert cursor.query() == result
        else:
            stored.events += events
            cursor.settle(events[-1][1])
        assert cursor.query() == text_of(window)
        assert len(cursor) == len(window)


@settings(max_examples=50, deadline=None)
@given(drawn=EVENTS, size=SIZES, n=LENGTHS, kind=st.sampled_from(SEARCHED), checked=st.booleans())
def test_a_frame_on_the_aggregate_steps(
    drawn: list[tuple[str, int]], size: int, n: int, kind: Any, checked: bool
) -> None:
    """Here the frame looks at letters, which are what the cursor's own monoid counts."""
    (make, fits), stored, window = kind, ListedEvents(size), list[Event]()
    stored.fold = (
        lambda start, stop: sum(  # type: ignore[assignment,method-assign]
            len(value) for value, _ in stored.events[start:stop]
        )
    )
    cursor = Cursor(letters(), make(n, checked), stored)
    assert results_of(cursor, stored.chunk(0, timed(drawn))) is None
    for value, time in timed(drawn):
        window.append((value, time))
        del window[: next(at for at in range(len(window) + 1) if fits(window[at:], n))]
        stored.events.append((value, time))
        cursor.step(value, time)
        assert (cursor.front, len(cursor)) == (stored.back - len(window), len(window))
        assert cursor.query() == len(text_of(window))


@settings(max_examples=50, deadline=None)
@given(drawn=EVENTS, size=SIZES, n=LENGTHS, make=st.sampled_from(REPORTED), data=st.data())
def test_events_are_read_again_and_come_late(
    drawn: list[tuple[str, int]],
    size: int,
    n: int,
    make: Callable[[int], Frame],
    data: st.DataObject,
) -> None:
    """Runs that begin before the back, and after events have changed their positions."""
    frame, stored = make(n), ListedEvents(size, timed(drawn))
    cursor = Cursor(joined(), frame, stored)
    for _ in range(3):
        start = data.draw(st.integers(0, stored.back - 1))
        expected = naive_results(frame, stored.events, [])[start:]
        assert results_of(cursor, stored.chunk(start, stored.events[start:])) == expected
        assert cursor.query() == expected[-1]
        at = data.draw(st.integers(0, stored.back - 1))
        stored.events.insert(at, ("late", stored.events[at][1]))
        stored.stamp += 1


def test_a_window_reaches_no_further_than_what_is_kept() -> None:
    stored = ListedEvents(3, [(str(i), i) for i in range(8)])
    stored.kept_from = 4
    cursor = Cursor(joined(), CountWindow(6), stored)
    cursor.settle(7)
    assert cursor.query() == "4567"
    chunk = stored.chunk(8, [("8", 8), ("9", 9), ("x", 10), ("y", 11)])
    assert results_of(cursor, chunk) == ["45678", "456789", "56789x", "6789xy"]


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_fronts_pass_over_leaves(size: int) -> None:
    """Each event in chunk moves the front on by several leaves, or by none."""
    stored = ListedEvents(size, [(str(i % 10), i * SECOND // 8) for i in range(100)])
    frame, window = TimeWindow(10), list[Event]()
    naive_results(frame, stored.events, window)
    cursor = Cursor(joined(), frame, stored)
    cursor.settle(stored.events[-1][1])
    chunk = [(letter, (100 + 15 * i) * SECOND // 8) for i, letter in enumerate("abcdefgh")]
    assert results_of(cursor, stored.chunk(100, chunk)) == naive_results(frame, chunk, window)


# --- level queues by position -------------------------------------------------------------------


@pytest.mark.parametrize(("leaf_arity", "arity"), [(2, 2), (3, 2), (2, 5), (4, 3)])
@pytest.mark.parametrize("store", [None, "memory://"])
def test_a_lookup_is_a_list(store: str | None, leaf_arity: int, arity: int) -> None:
    """Every range, every time and every leaf, while the oldest events leave and are deleted."""
    events = timed([(str(i % 10), [0, 1, 1, 3][i % 4]) for i in range(90)])
    shared = SharedWindows(
        joined(), {"all": TimeWindow(1)}, store, leaf_arity=leaf_arity, arity=arity
    )
    tree = shared.engine.structure()
    assert isinstance(tree, LevelLog)
    lookup = LeafReader(tree)
    for start in range(0, 90, 15):
        values, times = zip(*events[start : start + 15], strict=True)
        shared.extend(list(values), np.array(times, "M8[us]"), emit="last")
        back = start + 15
        tree.evict_to(max(0, back - 31))
        tree.levels.sweep(tree.front)
        for position in range(tree.front, back + 1):
            before = lookup.time_before(position)
            assert before == (events[position - 1][1] if position else None)
            for stop in range(position, back + 1):
                assert lookup.fold(position, stop) == text_of(events[position:stop])
        for time in {time + late for _, time in events for late in (-1, 0)}:
            expected = bisect_right(events[:back], time, key=lambda event: event[1])
            assert lookup.first_after(time) == max(tree.front, expected)
        for position in range(tree.front, back):
            leaf = lookup.leaf(position)
            assert leaf.first <= position < leaf.stop <= back
            assert list(leaf.rows) == [value for value, _ in events[leaf.first : leaf.stop]]


def test_events_without_times_have_no_ranges_of_times() -> None:
    with pytest.raises(InvalidTime, match="have no times"):
        Window(Max(), CountWindow(3)).range(0, 1)


# --- blocks -------------------------------------------------------------------------------------

SPREAD = Product({"least": ("x", Min()), "most": ("y", Max())})
PAIR = Product({"sum": ("x", Sum()), "n": Count(), "joined": ("y", joined())})
MONOIDS: dict[str, Callable[[int], tuple[AbstractMonoid, object]]] = {
    "objects": lambda n: (joined(), [str(i % 7) for i in range(n)]),
    "one ufunc": lambda n: (Max(), np.arange(n) * 37 % 11.0),
    "twice is once": lambda n: (SPREAD, (np.arange(n) * 37 % 11.0, np.arange(n) * 41 % 13.0)),
    "two ufuncs": lambda n: (Mean(), np.arange(n) * 37 % 11.0),
    "no ufunc": lambda n: (rolling_hash(), np.arange(n) * 37 % 11),
    "product": lambda n: (PAIR, (np.arange(n) % 5.0, [str(i % 7) for i in range(n)])),
}


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(sorted(MONOIDS)),
    starts=st.lists(st.integers(0, 12), min_size=1, max_size=70),
    first=st.integers(0, 30),
    bits=st.integers(1, 4),
    steady=st.booleans(),
)
def test_blocks_fold_any_ranges(
    kind: str, starts: list[int], first: int, bits: int, steady: bool
) -> None:
    """Ranges that only move on, from one place to the next or over many."""
    count = first + len(starts)
    monoid, values = MONOIDS[kind](count)
    lifted = monoid.lift_rows(values, count)
    ends = np.arange(first, count)
    begins = np.minimum(np.cumsum([start // 4 for start in starts]), ends)
    given: range | np.ndarray = begins
    if steady:
        given = range(first - min(first, starts[0]), count - min(first, starts[0]))
        begins = np.array(given)
    found = Blocks(monoid, lifted, count, bits).folds(
        given, range(first + 1, first + 1 + len(given))
    )
    for at, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        rows = monoid.partials.cut(lifted, begin, end + 1)
        expected = monoid.fold(rows, end + 1 - begin)
        assert monoid.same(monoid.partials.at(found, at), expected), (at, begin, end)


# --- leaves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[1], [5], [5, 1], [1, 1], [4, 1, 3, 1], [2, 2]])
def test_groups_joined_are_one_leaf(counts: list[int]) -> None:
    """As those of a tree by time: a leaf and the entry behind it, of one or of several leaves."""
    monoid, size = joined(), sum(counts)
    rows, times = list("abcdefghij"[:size]), np.arange(0, 10 * size, 10)
    ends = np.cumsum([0, *counts]).tolist()
    groups = [Events(rows[a:b], times[a:b], b - a) for a, b in pairwise(ends)]
    plain, leaf = Leaf(100, rows, times, size), JoinedLeaf(monoid.inputs, 100, groups)
    assert (leaf.first, leaf.stop, leaf.count) == (100, 100 + size, size)
    for position in range(100, 100 + size):
        found = leaf.suffixes(position, "z", monoid)[: leaf.stop - position]
        assert found == plain.suffixes(position, "z", monoid)[: leaf.stop - position]
        assert found[0] == "".join(rows[position - 100 :]) + "z"
    assert list(ranks(leaf.times, times, 10)) == list(range(size))
    assert leaf.groups == groups
    assert leaf.times is not None and leaf.times.tolist() == times.tolist()
    assert list(leaf.rows) == rows
    assert leaf.before(100 + size - 1, monoid).count == size - 1


def test_what_follows_a_leaf_is_folded_once_for_many_leaves() -> None:
    """Of a wide tree; else it takes near nine combines per event."""
    counted, events, batch = Counted(), 2**13, 64
    window = Window(
        counted.max, CountWindow(4000), None, leaf_arity=2, arity=64, allowed_lateness=1
    )
    for start in range(0, events, batch):
        if start == events // 2:
            counted.combines = 0
        window.extend(np.arange(batch, dtype=float).tolist(), np.arange(start, start + batch))
    assert counted.combines <= 7 * events / 2
    window.check()
