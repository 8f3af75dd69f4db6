"""Repartitioned keys: each has its windows in another snapshot, and nothing else has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import Count, CountWindow, First, KeyedWindows, Max, Product, Sum, TimeWindow
from mta.errors import SnapshotMismatch
from mta.keyed import repartitioning
from mta.keyed.repartitioning import repartition
from mta.keyed.snapshot import KeyedSnapshot
from stores import MemoryStore, PageStore
from stores.testing.counting import CountingStore
from tests.support.key_by_key import KeyByKey

#: By name: what is computed, the frame, and settings; of keys with many events and with few.
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "one frame": (Max(), TimeWindow(40), {"timed": True}),
    "several": (
        Product({"sum": ("v", Sum()), "first": ("v", First()), "n": (None, Count())}),
        {"few": CountWindow(3), "long": TimeWindow(60)},
        {"promote_at": 8},
    ),
    "late": (
        Product({"peak": ("v", Max())}),
        TimeWindow(50),
        {"allowed_lateness": 5, "promote_at": 6},
    ),
    "key by key": (KeyByKey(-np.inf, max, "peak"), CountWindow(4), {}),
}
SMALL: dict[str, Any] = {"page_bytes": 128, "arity": 2, "leaf_arity": 2, "nulls": "drop_row"}


def number_of(key: bytes, count: int) -> int:
    return sum(key) % count


def fed(windows: KeyedWindows, seed: int, first: int, count: int) -> None:
    """Some events of 40 keys, of those that belong into these windows."""
    rng = np.random.default_rng(seed)
    wanted = int(windows.name[1:].partition("of")[0]), int(windows.name.partition("of")[2])
    keys = [b"k%d" % n for n in rng.zipf(1.4, count) % 40]
    mine = [at for at, key in enumerate(keys) if number_of(key, wanted[1]) == wanted[0]]
    values = rng.integers(-50, 50, count).astype(float)[mine]
    named = {"v": values} if isinstance(windows.monoid, Product) else values
    times = (first + np.arange(count))[mine]
    if mine:
        windows.extend([keys[at] for at in mine], named, times if windows._kind.timed else None)


def made(kind: str, of: int, store: PageStore) -> list[KeyedWindows]:
    monoid, frame, settings = KINDS[kind]
    found = [
        KeyedWindows(monoid, frame, store, f"w{at}of{of}", **SMALL, **settings) for at in range(of)
    ]
    for windows in found:
        for part in range(4):
            fed(windows, part, 30 * part, 30)
            windows.checkpoint()
    return found


def repartitioned(
    windows: list[KeyedWindows], store: PageStore, target: PageStore, count: int
) -> dict[int, bytes]:
    snapshots = {at: each.checkpoint() for at, each in enumerate(windows)}
    brought: list[bytes] = []

    def copy_pages(window_snapshot: bytes) -> None:
        brought.append(window_snapshot)
        if target is not store:  # the windows' own pages, whoever needs them
            pages = [key for key in [*store.keys()] if ":" in key]
            target.put_many({k: p for k, p in zip(pages, store.get_many(pages), strict=True) if p})

    found = repartition(
        snapshots,
        store,
        target,
        lambda _: range(count),
        lambda key: number_of(key, count),
        copy_pages,
    )
    assert len(brought) == sum(each.stats().standalone for each in windows)
    return found


def restored(kind: str, snapshot: bytes, at: int, of: int, store: PageStore) -> KeyedWindows:
    monoid, frame, settings = KINDS[kind]
    windows = KeyedWindows.restore(
        snapshot, store, aggregations=monoid, window=frame, **SMALL, **settings
    )
    windows.name = f"w{at}of{of}"  # of the test's own: by which events are fed
    return windows


def plainly(result: Any) -> Any:
    return result if isinstance(result, dict) else {"": result}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("before", "after", "elsewhere"), [(1, 5, False), (3, 2, True), (3, 5, False), (3, 1, True)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_key_goes_on_where_it_is_repartitioned_to(
    kind: str, before: int, after: int, elsewhere: bool, tiny: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(repartitioning, "_HELD", 500)
    monkeypatch.setattr(repartitioning, "_INLINE", 0)
    store = MemoryStore()
    target = MemoryStore() if elsewhere else store
    old = made(kind, before, store)
    snapshots = repartitioned(old, store, target, after)
    assert repartitioned(old, store, target, after) == snapshots, "to do it again gives the same"
    assert sum(
        KeyedSnapshot.decode(snapshot).counts.inserted for snapshot in snapshots.values()
    ) == sum(each.stats().inserted for each in old)
    new = [restored(kind, snapshot, at, after, target) for at, snapshot in snapshots.items()]
    for part in range(2):
        for each in new:
            each.check()
        assert sum(map(len, new)) == sum(map(len, old))
        for each in old:
            for key in [*each.keys()]:
                home = new[number_of(key, after)]
                assert plainly(home.query(key)) == plainly(each.query(key)), key
        for each in (*old, *new):  # both go on, as they share no page that one of them deletes
            fed(each, 9 + part, 120 + 30 * part, 30)
        if elsewhere:
            for each in (*old, *new):
                each.checkpoint()


def test_tables_are_read_once_and_written_once(tiny: None) -> None:
    store, target = CountingStore(MemoryStore()), CountingStore(MemoryStore())
    snapshots = {at: each.checkpoint() for at, each in enumerate(made("one frame", 2, store))}
    there = len([*store.keys()])
    before = store.counts.get.pages
    repartition(
        snapshots, store, target, lambda _: range(2), lambda k: number_of(k, 2), lambda _: None
    )
    assert 10 < store.counts.get.pages - before <= 2 * there
    kept = sum(len(page or b"") for page in target.get_many([*target.keys()]))
    assert target.counts.put.bytes == kept


def windows_of(monoid: Any, store: PageStore, key: bytes) -> bytes:
    windows = KeyedWindows(monoid, CountWindow(2), store, f"of-{key.hex()}")
    windows.extend([key], {"v": [1.0]})
    return windows.checkpoint()


def test_windows_of_different_kinds_are_not_put_together() -> None:
    store = MemoryStore()
    snapshots = {
        0: windows_of(Product({"x": ("v", Max())}), store, b"\0"),
        1: windows_of(Product({"x": ("v", Sum())}), store, b"\1"),
    }
    standalone = repartition(
        snapshots, store, store, lambda at: [at], lambda key: key[0], lambda _: None
    )
    assert [KeyedSnapshot.decode(snapshot).counts.keys for snapshot in standalone.values()] == [
        1,
        1,
    ]
    with pytest.raises(SnapshotMismatch, match="add rows to each first, or do not merge them"):
        repartition(snapshots, store, store, lambda _: [0], lambda _: 0, lambda _: None)
