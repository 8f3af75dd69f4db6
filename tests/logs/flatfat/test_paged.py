"""The Reactive Aggregator in pages: events taken out of the middle, before and after snapshots."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Monoid, Sum, TimeWindow, Window
from mta.audit.walk import audit
from mta.errors import CorruptSnapshot, EmptyWindow, EventsGone, InvariantViolation
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.logs.base import Aggregator
from stores import PageStore
from stores.memory import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.naive import error_of, joined, pages_of
from tests.support.random_windows.kinds import CHOSEN, COLLECTED, MIXED, NEIGHBOURS, TEXT, Kind
from tests.support.random_windows.lists import Stream
from tests.support.random_windows.windows import SingleLife
from tests.support.sampling import some

N = 1 << 16


def letters(count: int) -> list[str]:
    return [chr(97 + i % 26) for i in range(count)]


def window_of(
    store: PageStore | None, size: int = 10_000, leaf_arity: int = 4, arity: int = 3, **options: Any
) -> Window:
    return Window(
        options.pop("monoid", None) or joined(),
        CountWindow(size),
        store=store,
        leaf_arity=leaf_arity,
        arity=arity,
        aggregator=PagedReactiveAggregator,
        **options,
    )


def again(snapshot: bytes, store: PageStore) -> Window:
    return Window.restore(snapshot, store, aggregations=joined())


def tree_of(window: Window) -> PagedReactiveAggregator:
    assert isinstance(window.structure(), PagedReactiveAggregator)
    return window.structure()


def take(window: Window, text: list[str], places: list[int]) -> None:
    """Take events out of a window and out of a list; places count from the oldest event."""
    tree_of(window).evict_at([window.structure().front + place for place in places])
    for place in sorted(set(places), reverse=True):
        del text[place]
    assert window.query() == "".join(text)
    assert len(window) == len(text)


# --- against a list -----------------------------------------------------------------------------


#: Events whose order a combine checks; their numbers have gaps where others were taken out.
ORDERED = replace(NEIGHBOURS, name="ordered", monoid=lambda late: NEIGHBOURS.monoid(True))


@dataclass
class HoledStream(Stream):
    """Events, after one for each that was taken out of the middle, so that positions are right."""

    removed: int = 0

    def after(self, time: int) -> int:
        """An event that was taken out is in no range of times."""
        return max(self.removed, super().after(time))


class HoledLife(SingleLife):
    """A window out of which events are taken anywhere."""

    steps = (*SingleLife.steps, "evict_anywhere", "evict_anywhere", "evict_nothing", "compact")
    stream: HoledStream

    def __init__(self, random: random.Random, kind: Kind, aggregator: type[Aggregator]) -> None:
        super().__init__(random, kind, aggregator)
        self.stream = HoledStream(self.stream.timed, self.stream.lateness)

    def evict_anywhere(self) -> None:
        """The oldest events leave at the front; positions before others increase."""
        one, stream, events = self.one, self.stream, self.stream.events
        count = min(self.random.choice([1, 2, 12]), len(events) - one.front)
        places = self.random.sample(range(one.front, len(events)), count)
        self.note(str(places))
        tree_of(self.window).evict_at([*places, *places[:1]])
        while one.front in places:
            places.remove(one.front)
            one.front += 1
        kept = [event for at, event in enumerate(events) if at not in places]
        events[:] = events[:1] * len(places) + kept
        stream.removed += len(places)
        one.front += len(places)

    def checkpoint(self) -> None:
        super().checkpoint()
        assert self.store is None or not audit(self.window).damaged

    def evict_nothing(self) -> None:
        for position in (self.one.front - 1, len(self.stream.events), 1.0, "1", None):
            with pytest.raises(EmptyWindow if isinstance(position, int) else TypeError):
                tree_of(self.window).evict_at([position])

    def compact(self) -> None:
        tree_of(self.window).compact()
        assert tree_of(self.window).holes == 0


@pytest.mark.parametrize(
    "kind", [ORDERED, COLLECTED, TEXT, CHOSEN, MIXED], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("seed", some(range(100), by_default=2))
def test_a_window_with_holes_is_a_list(kind: Kind, seed: int) -> None:
    """Checked after each step or not: that changes no answer, and no bit of a snapshot."""
    alone, watched = (
        HoledLife(random.Random(seed), kind, PagedReactiveAggregator) for _ in range(2)
    )
    for _ in range(60):
        alone.step()
        watched.step()
        watched.watch()
        assert alone.answers == watched.answers
    for life in (alone, watched):
        life.close()


@pytest.mark.parametrize("start", [0, 1_700_000_000, -1_000_000])
def test_a_range_of_times_is_complete_without_events_from_the_middle(start: int) -> None:
    """It is the events that remain; it is refused only if one of its events left at the front."""
    window = Window(joined(), TimeWindow(100), aggregator=PagedReactiveAggregator, arity=2)
    window.extend(letters(8), range(start, start + 8))
    tree_of(window).evict_at([2, 3, 6])
    assert window.range(start - 1, start + 8) == "abefh"
    tree_of(window).evict_at([window.structure().front])
    assert window.range(start, start + 8) == "befh"
    with pytest.raises(EventsGone):
        window.range(start - 1, start + 8)
    window.evict()  # beside events that were taken out before: these are not missing
    for _ in range(2):
        assert window.range(start + 1, start + 8) == "efh"
        with pytest.raises(EventsGone):
            window.range(start, start + 8)
        tree_of(window).compact()


@pytest.mark.parametrize("store", [None, "memory://"])
@pytest.mark.parametrize("count", range(3, 20))
def test_events_that_are_moved_are_not_combined_with_their_old_slots(
    count: int, store: str | None
) -> None:
    window = Window(
        ORDERED.monoid(False), CountWindow(count), store, arity=2, leaf_arity=3,
        aggregator=PagedReactiveAggregator,
    )  # fmt: skip
    window.extend([f"{number}:" for number in range(count)])
    first = 0
    for number in range(count, 4 * count):
        tree_of(window).compact()
        assert window.query() == (first, number - 1, number - first)
        window.check()
        if store is not None and number % 2:
            window.checkpoint()
            assert audit(window).damaged == []
        window.insert(f"{number}:")
        first = number + 1 - count
        assert window.query() == (first, number, count)


# --- positions ----------------------------------------------------------------------------------


def test_positions_of_older_events_move_on_by_one() -> None:
    window = window_of(None)
    window.extend(letters(6))
    tree = tree_of(window)
    tree.evict_to(4 - 2)
    tree.evict_at([3])  # d: the picture of the module, slots 2 to 5
    assert (tree.front, tree.back, tree.holes) == (3, 6, 1)
    assert [tree.slot(position) for position in (3, 4, 5, 6)] == [2, 4, 5, 6]
    assert [tree.position(slot) for slot in (2, 3, 4, 5, 6)] == [3, 4, 4, 5, 6]
    assert tree.remembered().fold(4, 6) == "ef"
    tree.evict_at([3])  # the oldest: the front skips the hole
    assert (tree.front, tree.holes) == (4, 0)
    assert window.query() == "ef"


def test_check_notices_a_count_or_a_front_that_is_wrong() -> None:
    for damage in ("_count", "front"):
        window = window_of(None)
        window.extend(letters(9))
        tree = tree_of(window)
        tree.evict_at([4])
        window.check()
        if damage == "front":
            tree.fat.front = 4
        else:
            tree._count += 1
        with pytest.raises(InvariantViolation):
            window.check()


# --- costs --------------------------------------------------------------------------------------


def filled(store: PageStore | None, monoid: Monoid | None = None) -> tuple[Window, list[int]]:
    numbers = np.random.default_rng(8).integers(0, 1 << 30, N).tolist()
    window = window_of(store, 2 * N, 64, 8, monoid=monoid)
    window.extend(numbers, emit="last")
    return window, numbers


@pytest.mark.parametrize("spread", ["together", "apart"])
def test_evictions_out_of_the_middle_cost_log_n(spread: str) -> None:
    """m events: m (1 + ceil(log2(n/m))) combines, beside what a block costs that is opened."""
    counted = Counted()
    window, numbers = filled(None, counted.max)
    tree = tree_of(window)
    opened = 64 + 8 * tree.height  # the levels within a leaf block, and those above it
    for m in (1, 2, 5, 30, 200):
        step = 1 if spread == "together" else N // 256
        places = [1000 + i * step for i in range(m)]
        blocks = len({place // 64 for place in places}) + 1
        bound = m * (1 + math.ceil(math.log2(N / m))) + blocks * opened
        positions = [tree.front + place for place in places]
        counted.of(lambda positions=positions: tree.evict_at(positions), at_most=bound)
        for place in reversed(places):
            del numbers[place]
        counted.of(window.query, at_most=3 * opened)
        assert window.query() == max(numbers)
    # A block in memory again: only its path.
    dirty = [tree.front + 3000, tree.front + 3001, tree.front + 3002]
    tree.evict_at(dirty[:1])
    counted.of(lambda: tree.evict_at(dirty[1:2]), at_most=math.ceil(math.log2(N)) + 4 + 64 + 8)


def test_each_page_on_the_way_is_read_and_written_once() -> None:
    store = CountingStore(MemoryStore())
    window, _ = filled(store, Monoid(float("-inf"), max, name="max"))
    tree, levels = tree_of(window), window.structure().height
    window.checkpoint()
    store.reset()
    tree.evict_at([5000])
    assert store.counts.get.pages <= 2 * levels  # its path, and the front's
    assert store.counts.put.pages == 0
    tree.evict_at([5000 + i for i in (3, 5, 20)])  # near by: the same blocks
    store.reset()
    window.checkpoint()
    assert store.counts.put.pages <= 2 * levels
    assert store.counts.put.calls <= levels
    # A batch over b blocks of a level 1 block, far from each other.
    b = 40
    places = [tree.front + 10_000 + i * 64 * 8 for i in range(b)]
    store.reset()
    tree.evict_at(places)
    window.checkpoint()
    assert store.counts.put.pages <= b * 2 + b / 8 * 2 + 4 * levels
    window.check()


def test_memory_stays_bounded_however_many_blocks_change() -> None:
    window, _ = filled(MemoryStore(), Monoid(float("-inf"), max, name="max"))
    tree = tree_of(window)
    rng = random.Random(4)
    most = 0
    for _ in range(200):
        tree.evict_at([tree.front + rng.randrange(len(window)) for _ in range(3)])
        window.query()
        most = max(most, window.stats().resident_rows)
    # Five blocks a level wait at most, beside the two paths; each with the levels within.
    assert most <= (5 + 3) * 3 * (64 + 8 * tree.height)


def test_holes_are_compacted_and_their_pages_deleted() -> None:
    """A window that loses all but a few of its events, for ever: pages stay in proportion."""
    store = CountingStore(MemoryStore())
    window = window_of(store, 10_000, 4, 3)
    text: list[str] = []
    rng = random.Random(6)
    most = inserted = 0
    for _ in range(60):
        window.extend(letters(50))
        text += letters(50)
        inserted += 50
        places = rng.sample(range(len(text)), max(0, len(text) - 40))
        take(window, text, places)
        window.checkpoint()
        most = max(most, len(list(store.keys())))
    tree = tree_of(window)
    assert tree.holes <= max(len(window), 4) + 50 + 8
    # Slots of the window, and those of two snapshots before: never as many as were inserted.
    assert most <= 4 * (3 * (2 * 40 + 100) / 4)
    # A compaction writes what is left; every hole pays for it at most once.
    assert store.counts.put.pages <= 12 * inserted / 4
    window.check()


@pytest.mark.parametrize("leaf_arity", [2, 3, 5])
@pytest.mark.parametrize("count", range(4, 16))
def test_events_that_were_moved_are_searched_by_time(leaf_arity: int, count: int) -> None:
    arities: dict[str, Any] = {"arity": 2, "leaf_arity": leaf_arity}
    window = Window(
        joined(), TimeWindow(3), MemoryStore(), "w", aggregator=PagedReactiveAggregator, **arities
    )
    window.extend([f"{time}." for time in range(count)], range(count))
    tree_of(window).compact()
    found = window.extend([f"{count}.", f"{count + 1}."], [count, count + 1])
    assert list(found) == [
        "".join(f"{time}." for time in range(last - 2, last + 1)) for last in (count, count + 1)
    ]


# --- snapshots ------------------------------------------------------------------------------------


def test_replaying_from_a_snapshot_writes_the_same_pages() -> None:
    store = MemoryStore()
    window = window_of(store)
    text = letters(200)
    window.extend(text)
    snapshot = window.checkpoint()

    def go_on(window: Window) -> bytes:
        tree_of(window).evict_at([window.structure().front + i for i in (3, 50, 51, 120)])
        window.extend(letters(70))
        tree_of(window).evict_at([window.structure().front + i for i in range(0, 200, 2)])
        return window.checkpoint()

    first = go_on(window)
    pages = pages_of(store)
    assert go_on(again(snapshot, store)) == first
    assert pages_of(store) == pages


def test_a_snapshot_of_a_window_with_holes_is_small() -> None:
    window, _ = filled(MemoryStore(), Monoid(float("-inf"), max, name="max"))
    tree = tree_of(window)
    window.checkpoint()
    tree.evict_at([tree.front + 50 * i for i in range(300)])
    # The names of the pages that the snapshot before still needs, about 30 bytes each.
    assert len(window.checkpoint()) <= 8000 + 40 * 3 * 300
    window.checkpoint()
    assert len(window.checkpoint()) <= 8000


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state.__setitem__(0, state[1] + 1),
        lambda state: state.__setitem__(1, state[1] + 4),
        lambda state: state[2][3][0][4][0].append([0, 1, b"short", 0]),
        lambda state: state[2][3][0][4][0].append([-1, 1, b"n" * 16, 0]),
        lambda state: state[2][3][0][4][0].append([0, "1", b"n" * 16, 0]),
        lambda state: state[2][3][0][4][0].append([255, 1, b"n" * 16, 0]),
        lambda state: state[2][3][0][4].append([]),
    ],
)
def test_snapshots_whose_slots_or_retired_pages_cannot_be(damage: Callable[[Any], Any]) -> None:
    import msgpack
    import xxhash

    store = MemoryStore()
    window = window_of(store)
    window.extend(letters(50))
    window.checkpoint()
    tree_of(window).evict_at([5])
    fields = msgpack.unpackb(window.checkpoint()[:-16])
    damage(fields[-2])  # the last field is the recipe
    body = msgpack.packb(fields)
    with pytest.raises(CorruptSnapshot):
        again(body + xxhash.xxh3_128_digest(body), store)


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["leaf", "above"])
def test_a_combine_that_raises_takes_nothing_out(where: str) -> None:
    class Broken(RuntimeError):
        pass

    calls = [-1]

    def combine(left: str, right: str) -> str:
        calls[0] -= 1
        if calls[0] == 0:
            raise Broken
        return left + right

    fragile = Monoid("", combine, name="fragile")
    for nth in range(1, 200):
        window = window_of(MemoryStore(), monoid=fragile, leaf_arity=4, arity=2)
        text = letters(70)
        window.extend(text)
        if where == "above":
            tree_of(window).evict_at([32])  # the levels within the blocks on the way are known
            del text[32]
        calls[0] = nth
        error = error_of(
            lambda window=window: tree_of(window).evict_at([window.structure().front + 33])
        )
        calls[0] = -1
        if error is None:
            assert nth > 3
            return
        assert isinstance(error, Broken)
        assert window.query() == "".join(text)
        window.check()
        take(window, text, [33])
        window.check()
    pytest.fail("no run without a failure")


@pytest.mark.parametrize("count", [-1, 9, 1 << 62, (1 << 63) - 1])
def test_a_snapshot_whose_aggregates_count_other_events_is_refused(count: int) -> None:
    """Counts that overflow are no warning, and none of numpy's comes to the caller."""
    window = window_of(MemoryStore(), 20, 2, 2, monoid=Sum())
    window.extend([1.0] * 20)
    window.query()
    tail = window.structure().levels.tails[2]
    tail.rows[1][: tail.count] = count
    snapshot = window.checkpoint()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CorruptSnapshot, match="counts events"):
            window.restore_like(snapshot)
