"""Erased keys: nothing of them is left in any store, and nothing else changes.

The oracle is a plain list of each key's newest values, and a search for bytes (``erasure``).
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mta import Collect, CountWindow, KeyedWindows, Last, Max, Product, TimeWindow, open_published
from mta.audit.keyed import OpaqueKeys
from mta.errors import UnsuitableKey
from mta.keyed import leaves, lsm, windows
from mta.keyed.keys import hash_and_bytes
from mta.monoids.text import LastText
from stores import MemoryStore, PageStore, open_store
from stores.base import WrapperStore
from stores.errors import StoreUnavailable
from stores.testing import FaultyStore
from tests.support import erasure
from tests.support.erasure import SECRET, Killed, Stopping, left_of, pages_in
from tests.support.faulty import Logged

SIZE = 12
SETTINGS: dict[str, Any] = {"page_bytes": 400, "promote_at": 25, "leaf_arity": 4, "arity": 2}


@pytest.fixture(params=["memory", "file", "redis", "couchbase", "s3", "cached s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, erasure.Raw]]:
    with erasure.place(request, tmp_path) as found:
        yield found


class Life:
    """Windows of some keys, whose values are also in plain lists."""

    KEYS: tuple[Any, ...] = tuple(f"person-{number:03}" for number in range(40))

    def __init__(self, store: PageStore, name: str, publish: bool = False, **settings: Any) -> None:
        self.lists: defaultdict[Any, list[tuple[float, str]]] = defaultdict(list)
        monoid = Product(
            {"peak": ("watts", Max()), "last": ("note", LastText()), "all": ("watts", Collect())}
        )
        self.windows = KeyedWindows(
            monoid, {"few": CountWindow(SIZE), "day": TimeWindow(10_000)}, store, name,
            **SETTINGS, **settings,
        )  # fmt: skip
        self.number = 0
        if publish:
            self.windows.publish(name)

    def add(self, some: Iterable[Any], secret: Iterable[Any] = (), times: int = 1) -> None:
        """Add events, those of secret keys with values that can be searched for."""
        secret = set(secret)
        keys, values, notes = [], [], []
        for _ in range(times):
            for key in some:
                self.number += 1
                keys.append(key)
                values.append(SECRET if key in secret else float(self.number))
                notes.append(f"told-{key}" if key in secret else f"note {self.number}")
        moments = [self.number - len(keys) + at for at in range(len(keys))]
        self.windows.extend(keys, {"watts": values, "note": notes}, moments)
        for key, value, note in zip(keys, values, notes, strict=True):
            self.lists[key].append((value, note))

    def assert_right(self, erased: Iterable[Any] = ()) -> None:
        for key in erased:
            self.lists.pop(key, None)
        assert sorted(self.windows.keys()) == sorted(self.lists)
        assert len(self.windows) == len(self.lists)
        self.windows.check()
        for key, events in self.lists.items():
            found = self.windows.query(key)["few"]
            assert found["peak"] == max(v for v, _ in events[-SIZE:])
            assert found["last"] == events[-1][1]
            assert list(found["all"]) == [v for v, _ in events[-SIZE:]]


def written(store: Logged) -> set[str]:
    return {key for keys in store.logged("put") for key in keys}


@pytest.mark.parametrize("publish", [False, True])
def test_nothing_of_a_key_is_left_in_the_store(
    place: tuple[str, erasure.Raw], publish: bool
) -> None:
    address, raw_of = place
    gone = [*Life.KEYS[3:6], "standalone", "idle"]
    with Logged(open_store(address)) as store:
        life, retain = Life(store, f"w{uuid4().hex[:8]}", publish, retain=3), 3
        for _ in range(6):
            life.add([*Life.KEYS, "standalone"], gone, times=2)
            life.add(["standalone"], gone, times=20)
            life.windows.checkpoint()
        assert life.windows.stats().standalone >= 1
        life.add(["idle"], gone)
        life.windows.checkpoint()
        assert len(left_of(gone, raw_of(written(store)))) >= 2 * len(gone), (
            "the search finds what there is"
        )
        assert life.windows.erase(gone) == len(gone)
        assert life.windows.erase(gone) == 0
        assert all(key not in life.windows for key in gone)
        life.assert_right(erased=gone)
        others = [key for key in Life.KEYS if key not in gone]
        for _ in range(1 + retain):
            life.add(others)
            life.windows.checkpoint()
        assert not left_of(gone, raw_of(written(store)))
        life.assert_right()
        if publish:
            with open_published(store, life.windows.name) as reader:
                assert reader.query(others)["peak_few"].tolist() == [
                    max(value for value, _ in life.lists[key][-SIZE:]) for key in others
                ]
        life.add(gone)  # an erased key begins again
        life.assert_right()
        assert life.windows.query(gone[0])["few"]["all"] == [life.lists[gone[0]][0][0]]
        life.windows.delete_pages()


@pytest.fixture
def tiny_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "INLINE_BYTES", 0)
    monkeypatch.setattr(lsm, "TOP", 2)
    monkeypatch.setattr(lsm, "FANOUT", 3)
    monkeypatch.setattr(leaves, "ROOM", 150)
    monkeypatch.setattr(leaves, "_LIST_BYTES", 80)


@pytest.mark.usefixtures("tiny_tables")
@pytest.mark.parametrize("after", [False, True])
def test_an_erasure_that_was_killed_is_finished_by_later_checkpoints(after: bool) -> None:
    people = Life.KEYS[:9]
    gone = [*people[3:5], "standalone"]
    for number in count():
        pages = MemoryStore()
        life = Life(pages, "w")
        for _ in range(2):
            life.add(people, gone)
            life.add(["standalone"], gone, times=14)
            saved = life.windows.checkpoint()
        stopping = Stopping(pages, number, after)
        life.windows = KeyedWindows.restore(saved, stopping, **SETTINGS)
        is_saved = False
        try:
            life.windows.erase(gone)
            for _ in range(3):
                saved = life.windows.checkpoint()
                is_saved = True
        except Killed:
            pass
        life.windows = KeyedWindows.restore(saved, pages, **SETTINGS)
        if not is_saved:  # the snapshot is from before: as with any change since, it is made again
            assert gone[0] in life.windows
            life.windows.erase(gone)
        life.assert_right(erased=gone)
        others = [key for key in people if key not in gone]
        for _ in range(3):
            life.add(others)
            saved = life.windows.checkpoint()
        live = set(OpaqueKeys(saved, pages).live_keys())
        pages.delete_many(set(pages.keys()) - live)  # as mta gc does
        assert not left_of(gone, pages_in(pages) + saved)
        life.assert_right()
        if not stopping.stopped:
            break
    assert number > 10


def test_a_failed_call_erases_nothing() -> None:
    for nth in range(1, 20):
        store = FaultyStore(MemoryStore())
        life = Life(store, "w")
        for _ in range(4):
            life.add(Life.KEYS, times=3)
            life.windows.checkpoint()
        store.fail(nth, forever=True, operations=["put"])
        try:
            life.windows.erase(list(Life.KEYS[:4]))
        except StoreUnavailable:
            life.assert_right()
            store.heal()
            for _ in range(4):
                life.windows.checkpoint()
            life.windows.erase(list(Life.KEYS[:4]))
        life.assert_right(erased=Life.KEYS[:4])
        if not store.fired:
            break
    assert nth > 2


def test_integer_keys_leave_no_hash_that_says_what_they_were() -> None:
    store = MemoryStore()
    windows = KeyedWindows(Max(), CountWindow(3), store, "w", page_bytes=1)
    keys = [number * 7919 for number in range(1, 200)]
    for _ in range(3):
        windows.extend(keys, [1.0] * len(keys))
        windows.checkpoint()
    gone = keys[::7]
    windows.erase(gone)
    for _ in range(3):
        saved = windows.checkpoint()
    raw = saved + pages_in(store)
    hashes = [struct.pack("<Q", hash_and_bytes(key, "int")[0]) for key in gone]
    assert struct.pack("<Q", hash_and_bytes(keys[1], "int")[0]) in raw
    assert not [each for each in hashes if each in raw]


@pytest.mark.parametrize("store", [None, "memory://"])
def test_keys_of_windows_in_memory_are_erased(store: Any) -> None:
    windows = KeyedWindows(Last(), CountWindow(3), store, promote_at=5)
    assert windows.erase("nobody") == 0
    windows.extend(["a"] * 9 + ["b"], range(10))
    assert windows.erase(["a", "nobody"]) == 1
    assert list(windows.keys()) == ["b"] and len(windows) == 1
    assert windows.erase("b") == 1 and not len(windows)
    assert windows.extend(["a"], [4.0]).tolist() == [4.0]
    with pytest.raises(UnsuitableKey):
        windows.erase(5)


def test_an_erased_key_was_expired_before() -> None:
    """Events of expired keys, and the snapshots of their windows, are pages pending deletion."""
    store = MemoryStore()
    windows = KeyedWindows(
        Product({"n": ("note", LastText())}), TimeWindow(10), store, "w", promote_at=4, retain=2
    )
    windows.publish("w")
    windows.extend(["large"] * 9 + ["small", "b"], {"note": ["told-x"] * 10 + ["b"]}, [1] * 11)
    windows.checkpoint()
    windows.extend(["b"], {"note": ["b"]}, [50])
    assert sorted(windows.expire(50)) == ["large", "small"]
    assert windows.erase(["large", "small"]) == 0
    for _ in range(3):
        windows.checkpoint()
    raw = pages_in(store)
    assert b"told-x" not in raw and b"large" not in raw and b"small" not in raw
    assert windows.query("b")["n"] == "b"


def test_a_store_that_cannot_be_compacted_now_is_compacted_later() -> None:
    class Busy(WrapperStore):
        asked = 0

        def compact(self) -> None:
            self.asked += 1
            if self.asked < 3:
                raise StoreUnavailable("another process has it open")

    store = Busy(MemoryStore())
    windows = KeyedWindows(Max(), CountWindow(3), store, "w")
    windows.extend(["a", "b"], [1.0, 2.0])
    windows.checkpoint()
    windows.erase("a")
    for _ in range(3):
        saved = windows.checkpoint()
    assert store.asked == 1
    again = windows.restore_like(saved)
    for _ in range(4):
        again.checkpoint()
    assert store.asked == 3
