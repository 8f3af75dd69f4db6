"""Budgets, not times: combines, store calls, pages and bytes, each bounded and counted.

In windows of up to 2^18 events, and a few of 2^20; of fewer where small groups make as many levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, PagedFlatFAT
from mta.frames import BoundWindow, CustomFrame, Frame
from stores.memory import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.naive import AGGREGATORS, pages_of
from tests.support.sampling import some

N = 1 << 18


def values(count: int) -> np.ndarray:
    return np.random.default_rng(7).random(count)


def levels(n: int, arity: int) -> int:
    return math.ceil(math.log(n, arity)) + 1


#: (n, arity of leaf groups, arity above): small groups in smaller windows, as filling takes long.
SIZES = pytest.mark.parametrize(
    ("n", "leaf_arity", "arity"), [(1 << 13, 2, 2), (N, 1024, 2), (1 << 16, 16, 16), (N, 256, 256)]
)


def filled(counted: Counted, n: int, leaf_arity: int, arity: int, aggregator: type) -> Window:
    """A full window in memory, whose front has moved off the beginning."""
    window = Window(
        counted.max,
        CountWindow(n),
        store=None,
        leaf_arity=leaf_arity,
        arity=arity,
        aggregator=aggregator,
    )
    window.extend(values(n + n // 3).tolist(), emit="last")
    return window


def path_length(n: int, leaf_arity: int, arity: int) -> int:
    """The elements of one group a level."""
    return leaf_arity + arity * levels(n // leaf_arity, arity)


# --- combines -----------------------------------------------------------------------------------


@SIZES
def test_amortized_mta_takes_a_constant_number_of_combines(
    n: int, leaf_arity: int, arity: int
) -> None:
    counted = Counted()
    window = filled(counted, n, leaf_arity, arity, AmortizedMTA)
    stretch = values(max(2500, 8 * leaf_arity)).tolist()
    total = worst = 0
    for value in stretch:
        before = counted.combines
        window.insert(value)  # and evicts one
        window.query()
        cost = counted.combines - before
        total += cost
        worst = max(worst, cost)
    assert len(window) == n
    assert 2 * len(stretch) <= total <= 7 * len(stretch)
    assert worst <= 2 * path_length(n, leaf_arity, arity)
    evicts_in_bulk_within_budget(counted, window, n, leaf_arity, arity)


@SIZES
def test_log_mta_takes_log_n(n: int, leaf_arity: int, arity: int) -> None:
    counted = Counted()
    window = filled(counted, n, leaf_arity, arity, LogMTA)
    bound = 3 * path_length(n, leaf_arity, arity)
    for value in values(300).tolist():
        assert counted.cost(lambda value=value: (window.insert(value), window.query())) <= bound
    assert counted.cost(window.query) == 0
    evicts_in_bulk_within_budget(counted, window, n, leaf_arity, arity)


def evicts_in_bulk_within_budget(
    counted: Counted, window: Window, n: int, leaf_arity: int, arity: int
) -> None:
    bound = 3 * path_length(n, leaf_arity, arity)
    assert counted.cost(lambda: window.evict(n // 2)) <= bound
    assert counted.cost(lambda: window.evict(n // 3)) <= bound
    assert len(window) == n - n // 2 - n // 3


@pytest.mark.sample(1)
@pytest.mark.parametrize("at_most", [10**9, 4096, 3000])
@pytest.mark.parametrize(
    ("leaf_arity", "arity"), [(2, 2), (3, 3), (4, 4), (2, 16), (16, 2), (16, 16), (256, 16)]
)
def test_amortized_mta_takes_what_its_head_says(leaf_arity: int, arity: int, at_most: int) -> None:
    """Insertions alone, and slides of full windows that begin at a border of groups or within."""
    counted, steps = Counted(), 1 << 13
    window = Window(
        counted.max, CountWindow(at_most), store=None, leaf_arity=leaf_arity, arity=arity
    )
    window.extend(values(1 << 13).tolist(), emit="last")
    window.insert(0.5)
    insert = 1 + 1 + 1 / leaf_arity
    evict = (1 + 1 / (leaf_arity * (arity - 1))) * (at_most < steps)
    more = counted.cost(lambda: [window.insert(value) for value in values(steps).tolist()])
    levels, height = window.structure().levels, window.structure().height
    path = leaf_arity + arity * height
    grow = path / levels.spans[levels.top(window.structure().front)]
    refold = min(1, height / leaf_arity)
    assert insert + evict - 1 <= more / steps <= insert + refold + grow + evict + 0.05
    if (leaf_arity, arity) == (2, 2):
        assert insert + refold + evict == (5.0 if evict else 3.5)


def test_a_whole_window_passes_at_a_constant_number_of_combines() -> None:
    """From the first event to the last eviction, including every rebuilding of the stack."""
    for arity, n in [(2, 1 << 6), (2, 1 << 11), (3, 3**6), (16, 1 << 10)]:
        counted = Counted()
        window = Window(counted.max, CountWindow(n), store=None, arity=arity)
        steps = 4 * n
        for value in values(steps).tolist():
            window.insert(value)
        assert counted.combines <= 6 * steps
        before = counted.combines
        for _ in range(n):
            window.evict()
        assert counted.combines - before <= 4 * n


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [1, 10, 1500])
@pytest.mark.parametrize("late", [None, 0])
def test_a_batch_takes_a_constant_number_of_combines_wherever_frames_end(
    size: int, late: int | None
) -> None:
    """Of long windows; folds stay from batch to batch."""
    costs, times, steps = [], np.arange(4_000.0), 1500
    for frame in (TimeWindow(1000), TimeWindow(1000, closed="left"), TimeWindow(1000, delay=350)):
        counted = Counted()
        window = Window(
            counted.max, frame, store=None, leaf_arity=32, arity=8, allowed_lateness=late
        )
        window.extend(values(2_500), times[:2_500])
        before = counted.combines
        for at in range(2_500, 2_500 + steps, size):
            window.extend(values(size), times[at : at + size])
        costs.append((counted.combines - before) / steps)
    assert max(costs) <= 8
    assert max(costs) <= costs[0] + 0.8


@pytest.mark.sample(1)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    ("n", "leaf_arity", "arity"), [(1 << 13, 2, 2), (1 << 16, 16, 16), (N, 256, 256)]
)
def test_a_frame_that_evicts_half_the_window_takes_log_n(
    n: int, leaf_arity: int, arity: int, aggregator: type
) -> None:
    """Questions to the frame, and combines, when one event evicts half of the window."""
    counted, asked = Counted(), [0]

    def evicts(prefix: float, total: float) -> bool:
        asked[0] += 1
        return total - prefix >= n

    window = Window(
        counted.max,
        CustomFrame(evicts),
        store=None,
        leaf_arity=leaf_arity,
        arity=arity,
        aggregator=aggregator,
    )
    done, rising = 0, [float(i) for i in range(n)]
    times = np.zeros(n, "<i8") if aggregator.by_time else None
    while done < n:  # past the frame, which would keep all of these
        done += window.structure().extend(rising, times, done, n)
    assert len(window) == n
    asked[0] = 0
    cost = counted.cost(lambda: window.insert(1.5 * n))
    assert len(window) == n // 2  # of 0, 1, ... those up to n / 2 have left
    height = levels(n // leaf_arity, arity) + 1
    assert cost <= 6 * path_length(n, leaf_arity, arity)
    assert asked[0] <= 3 * height + math.log2(leaf_arity) + height * (1 + math.log2(arity))


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


# --- the store ----------------------------------------------------------------------------------


def counting_window(
    leaf_arity: int, arity: int, frame: Any = None, **options: Any
) -> tuple[Window, CountingStore]:
    store = CountingStore(MemoryStore())
    window = Window(
        Max(), frame or CountWindow(N), store=store, leaf_arity=leaf_arity, arity=arity, **options
    )
    return window, store


@pytest.mark.sample(1)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    ("leaf_arity", "arity", "height", "by_time"), [(32, 16, 4, 3), (64, 64, 3, 3), (8, 4, 7, 6)]
)
def test_bulk_eviction_reads_at_most_a_page_a_level(
    leaf_arity: int, arity: int, height: int, by_time: int, aggregator: type
) -> None:
    """By time leaves are twice as full."""
    n = 1 << 15
    window, store = counting_window(leaf_arity, arity, aggregator=aggregator)
    window.extend(values(n), emit="last")
    height = by_time if aggregator.by_time else height
    assert window.stats().levels == height
    most = height - 1
    if window.structure().by_time:
        window.checkpoint()  # whatever was to be written is
    for count in (n // 2 + 1, n // 4 - 5, n // 85):
        store.reset()
        window.evict(count)
        assert store.counts.get.pages <= most
        assert store.counts.put.calls == 0 or aggregator.by_time
    window.check()


#: Frames whose cut is searched for, in a window of about so many events of values and times 0, 1,
#: 2, ...; where two are asked, their cuts lie a few events apart.
HELD = 1 << 11
SEARCHED: dict[str, Callable[[], Frame]] = {
    "time": lambda: TimeWindow(HELD),
    "frame": lambda: CustomFrame(lambda prefix, total: total - prefix >= HELD, name="span"),
    "count or time": lambda: CountWindow(HELD) | TimeWindow(HELD + 5),
    "time or frame": lambda: SEARCHED["time"]() | SEARCHED["frame"](),
    "time and frame": lambda: TimeWindow(HELD + 5) & SEARCHED["frame"](),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("which", SEARCHED)
def test_a_cut_is_searched_and_made_with_one_read_a_page(which: str, aggregator: type) -> None:
    """One event after the other on a store without a cache, then one that evicts half of all."""
    leaf_arity, arity = 32, 16
    window, store = counting_window(leaf_arity, arity, SEARCHED[which](), aggregator=aggregator)
    done, steps = HELD + 999, 1024
    start = np.arange(done)
    window.extend(start.astype(float), start, emit="last")
    window.checkpoint()
    for number in range(done, done + 2 * leaf_arity):
        window.insert(float(number), number)
    store.reset()
    for number in range(done + 2 * leaf_arity, done + 2 * leaf_arity + steps):
        window.insert(float(number), number)
    held = len(window)
    assert HELD <= held <= HELD + 5
    # What a batch brings by time fills leaves; a frame on an aggregate is asked event by event.
    is_full = aggregator.by_time and which in ("time", "count or time")
    leaves = steps / leaf_arity / (2 if is_full else 1)
    assert leaves - 1 <= store.counts.get.pages <= 1.1 * leaves
    store.reset()
    window.insert(float(number + held // 2), number + held // 2)
    assert abs(len(window) - held // 2) <= 6
    most = window.stats().levels - 1
    # Two cuts may lie in two leaves.
    assert store.counts.get.pages <= most + (which in ("time or frame", "time and frame"))
    window.check()


@pytest.mark.parametrize(
    ("aggregator", "wanted"),
    [(AmortizedMTA, "all"), (AmortizedMTA, "last"), (PagedFlatFAT, "all")],
)
def test_a_group_is_written_once_and_read_about_once(aggregator: type, wanted: Any) -> None:
    leaf_arity, arity = 512, 64
    window, store = counting_window(leaf_arity, arity, aggregator=aggregator)
    window.extend(values(N), emit=wanted)
    groups = N / leaf_arity
    assert store.counts.put.calls <= groups
    assert groups - 2 <= store.counts.put.pages <= groups * (1 + 2 / arity) + 2
    assert store.counts.get.pages == 0  # nothing has left yet
    store.reset()
    window.extend(values(N // 4), emit=wanted)
    moved = N / 4 / leaf_arity
    assert store.counts.put.calls <= moved + 1
    # To slide reads each page once; deleting what has left reads the pages above the leaves.
    assert store.counts.get.pages <= moved * (1 + 3 / arity) + 10
    # The leaves of a parent are read together, as many as stay in memory.
    assert store.counts.get.calls <= moved / arity + 10 or aggregator is PagedFlatFAT


def test_leaves_that_a_batch_of_fiba_passes_are_read_together() -> None:
    """Once each; and with one store call those of a parent. Of events in order leaves are full."""
    window, store = counting_window(32, 16, CountWindow(1 << 14), aggregator=FiBA)
    window.extend(values(3 << 13))
    window.checkpoint()
    store.reset()
    window.extend(values(1 << 14))
    leaves = (1 << 14) / 64
    assert leaves - 1 <= store.counts.get.pages <= 1.1 * leaves  # the last one may be in memory
    assert store.counts.get.calls <= store.counts.get.pages / 5
    window.check()


def test_single_events_write_once_a_group() -> None:
    window, store = counting_window(128, 16, CountWindow(10_000))
    for value in values(20_000).tolist():
        window.insert(value)
    assert store.counts.put.calls <= 20_000 / 128
    assert store.counts.get.pages <= 10_000 / 128 * (1 + 3 / 16) + 10


def test_no_store_call_while_a_window_fits_in_its_tail() -> None:
    window, store = counting_window(64, 8, CountWindow(1000))
    for value in values(64).tolist():
        window.insert(value)
    Window.restore(window.checkpoint(), store, aggregations=Max(), window=CountWindow(1000)).query()
    counts = store.counts
    assert (counts.put.calls, counts.get.calls, counts.delete.calls) == (0, 0, 0)


@pytest.mark.parametrize("aggregator", [AmortizedMTA, PagedFlatFAT])
def test_restore_reads_a_handful_of_pages(aggregator: type) -> None:
    window, store = counting_window(512, 64, aggregator=aggregator)
    window.extend(values(N + 77_777), emit="last")
    snapshot = window.checkpoint()
    expected = window.query()
    store.reset()
    again = Window.restore(snapshot, store)
    assert again.query() == expected
    assert store.counts.get.pages == 0
    again.insert(0.5)
    assert again.query() == max(expected, 0.5)
    assert store.counts.get.pages <= again.stats().levels
    assert store.counts.put.pages == 0


@pytest.mark.parametrize(("aggregator", "held"), [(AmortizedMTA, 1), (PagedFlatFAT, 3)])
def test_resident_rows_are_logarithmic(aggregator: type, held: int) -> None:
    """Blocks of FlatFAT hold the levels within them too."""
    for leaf_arity, arity in [(64, 4), (256, 16), (512, 256)]:
        window, _ = counting_window(leaf_arity, arity, aggregator=aggregator)
        most = 0
        for _ in range(12):
            window.extend(values(N // 8 + 999), emit="last")
            window.insert(0.25)
            window.query()
            most = max(most, window.stats().resident_rows)
        assert most <= 2 * held * (leaf_arity + arity * levels(N // leaf_arity, arity)) + 2


@pytest.mark.parametrize("n", some([1 << 20, N, 1 << 22], by_default=1))
def test_a_snapshot_takes_at_most_128_kib_at_the_defaults(n: int) -> None:
    for frame in (CountWindow(n), TimeWindow(n)):
        window = Window(Max(), frame, store="memory://")
        times = np.arange(n + n // 3).astype("M8[s]").astype("M8[us]")
        sizes = []
        # The tail of events, the largest part, is fullest just before it is sealed.
        nearly = window.structure().levels.leaf_arity - 1
        for end in (n, n + n // 3 - nearly, n + n // 3):
            start = window.stats().inserted
            window.extend(values(end - start), times[start:end], emit="last")
            sizes.append(len(window.checkpoint()))
        room = window.structure().room() - 1
        more = times[-1] + np.arange(1, room + 1).astype("m8[s]")
        window.extend(values(room), more, emit="last")
        sizes.append(len(window.checkpoint()))
        assert max(sizes) <= 128 << 10


def test_a_snapshot_takes_at_most_8_kib_with_small_groups() -> None:
    store = MemoryStore()
    window = Window(Max(), TimeWindow("3 days"), store=store, leaf_arity=128, arity=32)
    seconds = np.arange(N + N // 3).astype("M8[s]").astype("M8[us]")
    largest = 0
    for start in range(0, len(seconds), 25_033):
        stop = min(start + 25_033, len(seconds))
        window.extend(values(stop - start), seconds[start:stop], emit="last")
        largest = max(largest, len(window.checkpoint()))
    assert len(window) == 3 * 86400
    assert 1000 < largest <= 8 << 10


# --- deletion -----------------------------------------------------------------------------------


def test_all_pages_of_a_restored_window_can_be_deleted() -> None:
    window, store = counting_window(16, 4, CountWindow(500))
    window.extend(values(1900))
    window.checkpoint()
    window.extend(values(333))
    again = Window.restore(window.checkpoint(), store, aggregations=Max(), window=CountWindow(500))
    again.extend(values(1234))
    again.checkpoint()
    other = Window(Max(), CountWindow(50), store=store, name="other", arity=4)
    other.extend(values(100))
    again.delete_pages()
    assert {key.split("/")[0] for key in list(store.keys())} == {"other"}
    other.check()


@pytest.mark.sample
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    "frame", [CountWindow(700), TimeWindow("900 s"), BoundWindow(Sum(), at_most=300)], ids=repr
)
def test_replaying_writes_the_same_pages(frame: Frame, aggregator: type) -> None:
    """A batch that is done again from its snapshot puts nothing new; in order, in any pieces."""
    late = {"allowed_lateness": 9} if aggregator.by_time else {}
    window, store = counting_window(16, 4, frame, aggregator=aggregator, **late)
    seconds, data = np.arange(2400) - 7 * (np.arange(2400) % 5 == 3) * bool(late), values(2400)
    window.extend(data[:1200], seconds[:1200])
    snapshot = window.checkpoint()
    window.extend(data[1200:], seconds[1200:], emit="last" if late else "all")
    result, pages = window.query(), set(pages_of(store))
    if (
        aggregator.by_time
    ):  # a tree that was restored is written in other parts, but always in these
        again, other = window.restore_like(snapshot), window.restore_like(snapshot)
        for each in (again, other):
            each.extend(data[1200:], seconds[1200:], emit="last")
        assert again.checkpoint() == other.checkpoint() and again.query() == result
        return
    for wanted, piece in (("all", 333), ("last", 1), ("last", 1200)):
        again = window.restore_like(snapshot)
        for start in range(1200, 2400, piece):
            part = slice(start, start + piece)
            again.extend(data[part], seconds[part], emit=wanted)  # type: ignore[arg-type]
        assert again.query() == result
        assert set(pages_of(store)) <= pages
