"""Multiple windows over one stream: pages, reads and combines, counted."""

from __future__ import annotations

import numpy as np
import pytest

import mta.windows.engine
from mta import CountWindow, Max, TimeWindow
from mta.windows.shared import SharedWindows
from stores import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.faulty import Logged
from tests.support.naive import pages_of
from tests.support.shared_windows import ARITY, FOUR, LEAF, N, counted_windows, values


def test_four_windows_write_the_pages_of_one_and_keep_those_of_the_longest() -> None:
    four, shared = counted_windows(FOUR)
    four.extend(values(N))
    four.checkpoint()
    one, store = counted_windows({"month": FOUR["month"]})
    one.extend(values(N))
    one.checkpoint()
    assert shared.counts.put.pages == store.counts.put.pages
    assert shared.counts.put.bytes == pytest.approx(store.counts.put.bytes, rel=0.01)
    assert len(pages_of(shared)) <= len(pages_of(store)) + 2 * 3  # one more a level at either end


def test_a_window_reads_a_page_a_leaf_once_it_is_longer_than_what_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mta.logs.levels.log._RECENT_BYTES", 8 * 8 * LEAF)  # eight leaf groups
    monkeypatch.setattr("mta.logs.levels.log._FETCHED_BYTES", 1)
    monkeypatch.setattr("mta.logs.base._CHUNK", 2 * LEAF)
    half, leaves = N // 2, N // 2 // LEAF
    for frames in [{name: frame} for name, frame in FOUR.items()] + [FOUR]:
        store = Logged()
        windows = SharedWindows(Max(), frames, store=store, leaf_arity=LEAF, arity=ARITY)
        windows.extend(values(half))
        store.clear_log()
        windows.extend(values(half))
        longer = [frame for frame in frames.values() if frame.size > 7 * LEAF]
        read = [key.split("/")[1] == "0" for keys in store.logged("get") for key in keys]
        assert (leaves - 1) * len(longer) <= sum(read) <= (leaves + 1) * len(longer)
        # One for every eight leaves that are deleted, and as many for each window to fold.
        assert len(read) - sum(read) <= (1 + len(frames)) * (leaves // ARITY + 8)


def test_ranges_and_windows_by_time_read_at_most_two_pages_a_level() -> None:
    store = CountingStore(MemoryStore())
    frames = {"day": TimeWindow(5_000)}
    windows = SharedWindows(
        Max(), frames, store=store, leaf_arity=LEAF, arity=ARITY, retain_for=TimeWindow(N)
    )
    windows.extend(values(N), np.arange(N), emit="last")
    levels = windows.stats().levels
    snapshot = windows.checkpoint()
    for after, until in [(-1, N), (3_000, 3_100), (5_000, 15_000)]:
        windows = SharedWindows.restore(snapshot, store, aggregations=Max(), window=frames)
        store.reset()
        assert windows.range(after, until) == values(N)[after + 1 : until + 1].max()
        assert store.counts.get.pages <= 4 * (levels - 1)  # two searches and a fold
        store.reset()
        assert windows.query(TimeWindow(777)) == values(N)[-777:].max()
        assert store.counts.get.pages <= 4 * (levels - 1)


@pytest.mark.parametrize(("leaf_arity", "arity"), [(2, 2), (4, 2), (4, 16)])
def test_the_number_of_combines_does_not_grow_with_the_levels(leaf_arity: int, arity: int) -> None:
    """In a tree of up to twelve levels, of which each leaf needs the fold of what follows it."""
    counted, count = Counted(), 4096
    windows = SharedWindows(
        counted.max, {"a": CountWindow(count)}, store=None, leaf_arity=leaf_arity, arity=arity
    )
    windows.extend(values(2 * count).tolist(), emit="last")
    counted.combines = 0
    for value in values(count).tolist():
        windows.insert(value)
        windows.query()
    assert counted.combines <= 7 * count
    counted.combines = 0
    for start in range(0, count, 16):
        windows.extend(values(count)[start : start + 16].tolist())
    assert counted.combines <= 7 * count


def test_each_window_takes_a_constant_number_of_combines() -> None:
    """In batches and one by one: about three an event and window, whatever the window's length."""
    counted = Counted()
    for sizes in [(50,), (5_000,), (50, 500, 5_000, 9_000)]:
        frames = {str(size): CountWindow(size) for size in sizes}
        windows = SharedWindows(counted.max, frames, store=None, leaf_arity=256, arity=16)
        windows.extend(values(10_000).tolist(), emit="last")
        assert counted.combines <= 2 * 10_000
        counted.combines = 0
        windows.extend(values(10_000).tolist())
        assert counted.combines <= (2.5 + 3.5 * len(sizes)) * 10_000
        counted.combines = 0
        for value in values(3_000).tolist():
            windows.insert(value)
            windows.query()
        assert counted.combines <= (2 + 6 * len(sizes)) * 3_000
        counted.combines = 0


@pytest.mark.parametrize("names", ["one", "one other"])
def test_a_batch_with_few_late_events_costs_little_more_than_one_in_order(names: str) -> None:
    """The folds of earlier events stay, and only the newest events are folded again."""
    in_order, late = (combines_of_batches(names.split(), share) for share in (0.0, 0.05))
    assert late < 1.6 * in_order


def combines_of_batches(names: list[str], share: float) -> int:
    """The combines of batches, of which a share of the events is up to 100 places late."""
    counted, rng, size, count = Counted(), np.random.default_rng(1), 500, 8_000
    frames = dict(zip(names, [TimeWindow(6_000), TimeWindow(2_000)], strict=False))
    windows = SharedWindows(
        counted.max, frames, leaf_arity=1_000, arity=8, allowed_lateness=100, timed=True
    )
    windows.extend(np.zeros(count), np.arange(count))
    before, times = counted.combines, count + np.arange(count)
    times -= np.where(rng.random(count) < share, rng.integers(1, 101, count), 0)
    for start in range(0, count, size):
        windows.extend(np.zeros(size), times[start : start + size])
    return counted.combines - before


def test_another_window_adds_its_name_frame_and_front_to_the_snapshot() -> None:
    one, _ = counted_windows({"month": FOUR["month"]})
    four, _ = counted_windows(FOUR)
    for windows in (one, four):
        windows.extend(values(N), emit="last")
    assert len(four.checkpoint()) <= len(one.checkpoint()) + 3 * 64


def test_pages_leave_with_the_longest_window(monkeypatch: pytest.MonkeyPatch) -> None:
    for checkpoints in (False, True):
        windows, store = counted_windows(FOUR)
        for start in range(0, 4 * N, 1_000):
            windows.extend(values(1_000) + start)
            if checkpoints:
                windows.checkpoint()
        needed = FOUR["month"].size / LEAF * 1.2
        spare = 10 if checkpoints else 2 * mta.windows.engine._TRIM_GROUPS + 8
        assert needed - 10 <= len(pages_of(store)) <= needed + 2 * 1_000 / LEAF + spare
    windows.remove("month")
    for _ in range(3):
        windows.checkpoint()
    assert len(pages_of(store)) <= FOUR["day"].size / LEAF * 1.2 + 10
    windows.delete_pages()
    assert not pages_of(store)
