"""What keyed windows cost: store calls, pages, bytes and combines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mta import Collect, Count, CountWindow, KeyedWindows, Last, Max, Product, Sum, TimeWindow
from mta.errors import LateEvent
from mta.kernels import native
from mta.keyed import leaves, lsm
from stores.base import Capabilities
from tests.support.counted import Counted
from tests.support.faulty import Logged
from tests.support.naive import pages_of
from tests.support.sampling import some


def levels(keys: Sequence[str]) -> list[int]:
    return [int(key.split("/")[1]) for key in keys]


def many(store: Logged, keys: int, **settings: Any) -> KeyedWindows:
    """Windows of many keys in one run of small pages."""
    windows = KeyedWindows(Sum("int64"), CountWindow(3), store, **settings)
    windows.extend(np.arange(keys), np.ones(keys, "i8"))
    windows.checkpoint()
    return windows


def test_a_batch_reads_the_pages_of_its_keys_and_their_indexes() -> None:
    store = Logged()
    windows = many(store, 20_000, page_bytes=300, cache_bytes=1)
    assert windows.stats().runs == 1
    leaves = sum(level == 0 for level in levels(sorted(store.keys())))
    assert leaves > 2000  # two levels of indexes
    for count in (1, 10, 200):
        store.clear_log()
        keys = np.arange(count) * 97
        windows.extend(keys, np.ones(count, "i8"))
        heights = [set(levels(keys)) for keys in store.logged("get")]
        assert heights == [{1}, {0}] or heights == [{2}, {1}, {0}]
        assert len(store.logged("get")[-1]) <= count
        assert len(store.logged("get")[0]) <= min(count, lsm.TOP)
        assert not store.logged("put") and not store.logged("delete")
    # What was read stays in memory, within the bound.
    store.clear_log()
    warm = KeyedWindows.restore(windows.checkpoint(), store, cache_bytes=2**20)
    warm.extend([1, 2, 3], [1, 1, 1])
    store.clear_log()
    warm.extend([1, 2, 3], [1, 1, 1])
    assert store.logged("get") == []


def test_a_restore_with_a_longer_lateness_reads_no_more_pages() -> None:
    store = Logged()
    windows = KeyedWindows(
        Sum("int64"), TimeWindow(60), store, allowed_lateness=0, page_bytes=300, cache_bytes=1
    )
    windows.extend(np.arange(20_000), np.ones(20_000, "i8"), np.full(20_000, 100))
    again = KeyedWindows.restore(windows.checkpoint(), store, allowed_lateness=90, cache_bytes=1)
    store.clear_log()
    again.extend([7], [1], [105])
    assert sum(map(len, store.logged("get"))) <= 4
    with pytest.raises(LateEvent):  # its window may have lost events before the restore
        again.extend([7], [1], [99])
    assert again.extend([7], [1], [100]).tolist() == [2]


def test_runs_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``get_many`` a level, and as much taken out of all at once, however many runs there are."""
    monkeypatch.setattr(lsm, "_ORDER_BITS", 4)  # so many of one order are not merged
    store = Logged()
    windows = many(store, 20_000, page_bytes=300, cache_bytes=1)
    for step in range(10):
        keys = np.arange(700) * 13 + step
        windows.extend(keys, np.ones(700, "i8"))
        windows.checkpoint()
    assert windows.stats().runs > 5
    store.clear_log()
    windows.extend([13, 26, 39], [1, 1, 1])
    assert len(store.logged("get")) <= 3
    store.clear_log()
    taken = Taken(monkeypatch)
    windows.query(list(range(50)))
    assert len(store.logged("get")) <= 3 and 0 < taken.calls <= 12


def test_a_checkpoint_writes_once_a_level_and_nothing_that_was_not_touched() -> None:
    store = Logged()
    windows = many(store, 20_000, page_bytes=1000)
    assert len(store.logged("put")) <= 3
    for count in (1, 100, 1000):
        keys = np.arange(count) * 17
        windows.extend(keys, np.ones(count, "i8"))
        store.clear_log()
        windows.checkpoint()
        assert len(store.logged("put")) <= 2
        assert store.written < 60 * count + 1000


class Meter:
    """Bytes written over bytes of events, in a long run of batches of random keys."""

    def __init__(self, keys: int, batch: int, steps: int, window: Any, **settings: Any) -> None:
        self.store, rng = Logged(), np.random.default_rng(7)
        self.snapshot = b""
        windows = KeyedWindows(Max(), window, self.store, **settings)
        self.snapshots, events, self.most_pages = 0, 0, 0
        self.largest = 0
        for now in range(steps):
            times = now + np.sort(rng.random(batch))
            windows.extend(rng.integers(0, keys, batch), rng.random(batch), times)
            self.snapshot = windows.checkpoint()
            self.largest = max(self.largest, len(self.snapshot))
            self.snapshots += len(self.snapshot)
            events += batch * 24  # a key, a value, a time
            self.most_pages = max(self.most_pages, len(sorted(self.store.keys())))
        self.windows = windows
        self.amplification = (self.store.written + self.snapshots) / events


def test_bytes_written_over_bytes_of_events() -> None:
    """As a million keys with batches of 100,000 rows, at a tenth: 3.0, with all snapshots."""
    meter = Meter(keys=100_000, batch=10_000, steps=50, window=TimeWindow(20))
    assert meter.amplification <= 5
    assert meter.largest <= 1 << 16
    # A run holds each key's events once; with all runs and those that are pending deletion, four
    # times.
    held = meter.windows.stats().run_bytes
    assert sum(map(len, pages_of(meter.store).values())) < 4 * held


@pytest.mark.parametrize("retain", some([2, 5], by_default=1))
def test_pages_stay_bounded_and_none_is_left_over(retain: int) -> None:
    sizes: dict[str, Any] = {"page_bytes": 400, "retain": retain, "promote_at": 8, "leaf_arity": 4}
    window = TimeWindow(20)
    meter = Meter(40, 50, 90, window, **sizes)
    assert meter.windows.stats().standalone > 0
    store, windows = meter.store, meter.windows
    early = Meter(40, 50, 40, window, **sizes)
    assert meter.most_pages < 1.5 * early.most_pages
    windows.check()
    windows.delete_pages()
    assert sorted(store.keys()) == []


def test_a_snapshot_stays_small_at_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of very few keys make as many pages as a hundred million keys would."""
    monkeypatch.setattr(lsm, "FANOUT", 32)
    store = Logged()
    windows = KeyedWindows(
        Product({"n": Count(), "l": ("v", Last())}), CountWindow(2), store, page_bytes=500
    )
    rng = np.random.default_rng(1)
    largest = 0
    for step in range(6):
        size = 30_000 if step < 4 else 5000
        keys = np.arange(size) + step * size if step < 4 else rng.integers(0, 120_000, size)
        windows.extend(keys, {"v": np.zeros(len(keys))})
        largest = max(largest, len(windows.checkpoint()))
    assert len(windows) == 120_000
    assert largest <= 1 << 13
    assert max(levels(sorted(store.keys()))) >= 2


def test_a_snapshot_stays_small_however_much_is_pending_deletion() -> None:
    """Many snapshots kept, and many standalone windows expired at once."""
    store = Logged()
    settings: dict[str, Any] = {"retain": 256, "promote_at": 1, "page_bytes": 300, "leaf_arity": 4}
    windows = KeyedWindows(Max(), TimeWindow(50), store, "w", **settings)
    now = 0
    for _ in range(25):
        keys = np.repeat(np.arange(now, now + 60), 5)
        windows.extend(keys, np.ones(300), np.full(300, now))
        now += 30
        windows.expire(before=now)
        snapshot = windows.checkpoint()
        assert len(snapshot) <= 1 << 16
    assert windows.stats().standalone > 0
    assert 15 in levels(sorted(store.keys()))  # lists of what is pending deletion
    windows = KeyedWindows.restore(snapshot, store, **settings)
    assert len(windows.expire(before=now + 10_000)) > 0
    before = len(sorted(store.keys()))
    for _ in range(260):
        snapshot = windows.checkpoint()
        assert len(snapshot) <= 1 << 16
    assert len(sorted(store.keys())) < before / 4
    windows.check()
    windows.delete_pages()
    assert sorted(store.keys()) == []


@pytest.mark.parametrize(
    "value", ["x" * 100_000, "\N{SNOWMAN}" * 30_000, ["a"] * 10_000, b"x" * 99_000]
)
def test_large_values_do_not_stay_in_the_snapshot(value: Any) -> None:
    store = Logged()
    windows = KeyedWindows(Collect(), CountWindow(2), store, leaf_arity=2, arity=2)
    windows.extend(["a", "b", "a", "a"], [value] * 4)
    snapshot = windows.checkpoint()
    assert len(snapshot) <= 1 << 13
    again = KeyedWindows.restore(snapshot, store, aggregations=Collect(), window=CountWindow(2))
    assert again.query("a") == [value, value]


def test_one_key_with_all_rows_is_kept_as_its_window_needs() -> None:
    store = Logged()
    windows = KeyedWindows(Max(), CountWindow(3), store)
    windows.extend(np.zeros(50_000, "i8"), np.arange(50_000.0))
    assert len(windows.checkpoint()) < 1000
    assert store.written < 1000
    assert windows.query(0) == 49_999


def test_expiring_reads_what_falls_due_and_no_page_again_in_vain() -> None:
    store = Logged()
    windows = KeyedWindows(Max(), TimeWindow(100), store, page_bytes=500, cache_bytes=1)
    keys = 5000
    windows.extend(np.arange(keys), np.ones(keys), np.arange(keys) * 0.001)
    windows.checkpoint()
    # All but a few keys go on, in later runs.
    windows.extend(np.arange(keys)[5:], np.ones(keys - 5), np.full(keys - 5, 50.0))
    windows.checkpoint()
    leaves = sum(level == 0 for level in levels(sorted(store.keys())))
    store.clear_log()
    assert sorted(windows.expire(before=120).tolist()) == [0, 1, 2, 3, 4]
    looked = sum(map(len, store.logged("get")))
    assert 0 < looked <= 2 * leaves
    # No key has its newest event between: nothing is read.
    for moment in (121, 130, 149):
        windows.checkpoint()
        store.clear_log()
        assert windows.expire(before=moment).tolist() == []
        assert store.logged("get") == [] == store.logged("put")
        assert windows.earliest() == 50_000_000
    store.clear_log()
    snapshot = windows.checkpoint()
    again = KeyedWindows.restore(snapshot, store, aggregations=Max(), window=TimeWindow(100))
    assert again.expire(before=149).tolist() == []
    assert store.logged("get") == []
    assert len(again.expire(before=150)) == keys - 5
    assert again.earliest() is None


def test_combines_of_a_batch() -> None:
    """At most about 2 log2(longest window) a row."""
    counted = Counted()
    windows = KeyedWindows(counted.columnar_hash, CountWindow(16))
    rows = 4000
    for _ in range(3):
        keys = np.random.default_rng(1).integers(0, 500, rows)
        held = min(len(windows) * 16, 500 * 16)
        counted.of(lambda k=keys: windows.extend(k, np.ones(rows, "i8")), 8 * (rows + held))
        counted.of(lambda k=keys: windows.query(list(range(500))), 8 * 500 * 32)


def test_results_alone_cost_no_combines_of_rows_between() -> None:
    counted = Counted()
    windows = KeyedWindows(counted.columnar_hash, CountWindow(4))
    keys = np.repeat(np.arange(10), 1000)
    counted.of(lambda: windows.extend(keys, np.ones(10_000, "i8"), emit="last"), 40_000)


def test_keys_with_standalone_windows_write_snapshots_only_when_they_change() -> None:
    store = Logged()
    windows = KeyedWindows(
        Max(), CountWindow(50), store, promote_at=5, leaf_arity=4, arity=4, page_bytes=400
    )
    keys = np.repeat(np.arange(100), 20)
    windows.extend(keys, np.ones(2000))
    windows.checkpoint()
    assert windows.stats().standalone == 100
    windows.extend([1000], [1.0])
    store.clear_log()
    windows.checkpoint()
    assert store.written < 500


@pytest.mark.parametrize("lateness", [None, 0])
@pytest.mark.parametrize("several", [False, True])
def test_a_window_that_begins_with_many_events_has_larger_groups(
    several: bool, lateness: int | None
) -> None:
    """So a batch of it writes and reads few pages, and few events make a small snapshot."""
    late: dict[str, Any] = {} if lateness is None else {"allowed_lateness": lateness}
    frame: Any = {"a": TimeWindow(30_000), "b": TimeWindow(500)} if several else TimeWindow(30_000)
    least = 240 if lateness is None else 120
    for events in (1_100, 24 * least, 40_000):
        leaf = max(least, min(events // 8, 16 * least))
        store = Logged()
        windows = KeyedWindows(Max(), frame, store, **late)
        rng, kept = np.random.default_rng(3), np.zeros(0)
        for batch in range(2):
            values, times = rng.random(events), batch * events + np.arange(events)
            kept = np.concatenate((kept, values))
            store.clear_log()
            found = windows.extend(np.zeros(events, int), values, times)
            snapshot = windows.checkpoint()
            windows = KeyedWindows.restore(snapshot, store, **late)
            if events == 40_000:
                pages = sum(len(keys) for _, keys in store.log)
                assert pages < 2.5 * events / leaf + 30
            found = found["a"] if several else found
            first = len(kept) - events
            assert found[0] == kept[max(first - 29_999, 0) : first + 1].max()
            assert found[-1] == kept[-30_000:].max()
        structure = windows.window(0).engine.structure()
        assert structure.setting.leaf_arity == leaf
    for given in ({"leaf_arity": 64}, {"arity": 16}, {"leaf_arity": 64, "arity": 16}):
        windows = KeyedWindows(Max(), frame, Logged(), **late, **given)
        windows.extend(np.zeros(40_000, int), np.ones(40_000), np.arange(40_000))
        setting = windows.window(0).engine.structure().setting
        assert given.items() <= {"leaf_arity": setting.leaf_arity, "arity": setting.arity}.items()


class Taken:
    """How often, and how many bytes, are taken out of pages."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = self.bytes = 0

        def counted(take: Callable[..., Any], lengths: Callable[..., np.ndarray]) -> Any:
            def taken(*given: Any) -> Any:
                found = take(*given)
                if found is not None:
                    self.calls += 1
                    self.bytes += int(lengths(*given).sum())
                return found

            return taken

        def of_items(_: Any, column: Any, which: Any, firsts: Any, counts: Any) -> np.ndarray:
            return counts * (column if isinstance(column, int) else column[2][which])

        patch.setattr(leaves, "items_of", counted(native.items_of, of_items))
        patch.setattr(leaves, "numbers_of", counted(native.numbers_of, of_items))
        patch.setattr(native, "match", counted(native.match, lambda *given: 8 * given[1][0, 1]))


@pytest.mark.parametrize("page_bytes", [1 << 12, 1 << 16])
@pytest.mark.parametrize("text", [False, True])
def test_a_batch_takes_out_of_pages_what_is_of_its_keys(
    page_bytes: int, text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All hashes and heads; of each touched key and run 16 bytes per event and a few more.

    How often Python asks does not follow from how many pages there are.
    """
    store, keys, each = Logged(), 5_000, 20
    names = np.array([f"key {at}" for at in range(keys)], object) if text else np.arange(keys)
    windows = KeyedWindows(Max(), TimeWindow(10**6), store, page_bytes=page_bytes, cache_bytes=1)
    for now in range(each):
        windows.extend(names, np.ones(keys), np.full(keys, now))
    windows.checkpoint()
    windows.extend(names, np.ones(keys), np.full(keys, each))
    windows.checkpoint()
    taken = Taken(monkeypatch)
    for count in (50, 500):
        taken.calls = taken.bytes = 0
        store.clear_log()
        some = names[np.arange(count) * (keys // count)]
        windows.query(list(some))
        pages = len(store.logged("get")[-1])
        assert pages > 20
        assert taken.bytes <= 2 * 8 * keys + 400 * pages + count * (each * 16 + 60)
        assert taken.calls <= 20


class Remote(Logged):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, remote=True)


def test_pages_are_smaller_where_each_byte_goes_over_a_network() -> None:
    largest = []
    for store in (Logged(), Remote()):
        many(store, 20_000)
        pages = store.get_many([key for key in sorted(store.keys()) if levels([key]) == [0]])
        largest.append(max(len(page) for page in pages if page is not None))
    assert 3 * largest[1] < largest[0] <= 1 << 18 and largest[1] <= 1 << 14
