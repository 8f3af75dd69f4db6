"""Pages in Spark's state, over a dictionary in place of Spark's map."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest
from pyspark.errors import PySparkRuntimeError

from mta import CountWindow, Max, TimeWindow, Window
from spark_integration.runners.state_pages import StatePages, is_state_url, page_cache
from stores import (
    InvalidStoreURL,
    PageStore,
    StoreClosed,
    StoreUnavailable,
    UnsupportedOperation,
    open_store,
)
from stores.disk_cache import DiskCache
from stores.testing.conformance import PageStoreConformance

Row = tuple[bytes | bytearray]


class Map:
    """PySpark's ``MapState`` without Spark: rows of one column under keys of one column."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str], Row] = {}
        self.calls: list[str] = []
        self.down = False

    def _call(self, what: str) -> None:
        if self.down:
            raise PySparkRuntimeError("Error updating map state value: down")
        self.calls.append(what)

    def getValue(self, key: tuple[str]) -> Row | None:
        self._call("get")
        return self.rows.get(key)

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self._call("put")
        assert type(key[0]) is str
        assert type(value[0]) is bytes
        self.rows[key] = (bytearray(value[0]),)  # what Python gets back from Java may be one

    def removeKey(self, key: tuple[str]) -> None:
        self._call("remove")
        self.rows.pop(key, None)

    def keys(self) -> Iterator[tuple[str]]:
        self._call("keys")
        return iter(list(self.rows))


class TestStatePages(PageStoreConformance):
    processes = pickles = records = False  # a task's state is of one process

    @pytest.fixture(autouse=True)
    def _map(self) -> None:
        self.map, self.cached = Map(), page_cache()

    def open(self) -> PageStore:
        return StatePages(self.map, cached=self.cached)

    def raw_get(self, key: str) -> bytes | None:
        return bytes(self.map.rows[key,][0])

    def raw_delete(self, key: str) -> None:
        del self.map.rows[key,]
        self.cached.pop(key)

    def test_a_fork_may_use_the_open_store(self) -> None:
        raise SkipTest("the socket to Java is of one process")


class TestSmallStatePages(TestStatePages):
    """Pages are sent before they are flushed, and hardly any is kept."""

    def open(self) -> PageStore:
        return StatePages(self.map, write_buffer=1000, cached=page_cache(500))


class TestSharedStatePages(TestStatePages):
    """Pages are on local disk too, for other processes."""

    @pytest.fixture(autouse=True)
    def _shared(self, tmp_path: Path) -> Iterator[None]:
        self.shared = DiskCache(str(tmp_path), "spark://state", 64 << 20)
        yield
        self.shared.close()

    def open(self) -> PageStore:
        return StatePages(self.map, cached=self.cached, shared=self.shared)

    def raw_delete(self, key: str) -> None:
        super().raw_delete(key)
        self.shared.delete_many([key])


def test_a_page_is_one_call_and_one_that_came_and_went_is_not_put() -> None:
    pages = Map()
    store = StatePages(pages)
    store.put_many({"w/0/1": b"one", "w/0/2": b"two"})
    store.delete_many(["w/0/1"])
    assert store.get_many(["w/0/1", "w/0/2"]) == [None, b"two"]
    assert pages.calls == []
    store.flush()
    assert sorted(pages.calls) == ["put", "remove"]
    assert store.get_many(["w/0/2"] * 3) == [b"two"] * 3
    store.flush()
    assert len(pages.calls) == 2
    later = StatePages(pages)
    assert later.get_many(["w/0/2"] * 3) == [b"two"] * 3
    assert pages.calls[2:] == ["get"]


def test_later_tasks_of_a_worker_do_not_read_its_pages_again() -> None:
    pages, cached = Map(), page_cache()
    first = StatePages(pages, cached=cached)
    first.put_many({"w/0/1": b"one", "w/0/2": b"two"})
    first.flush()
    later = StatePages(pages, cached=cached)
    assert later.get_many(["w/0/1", "w/0/2", "w/0/3"]) == [b"one", b"two", None]
    assert pages.calls[2:] == ["get"]
    later.delete_many(["w/0/1"])
    later.flush()
    assert StatePages(pages, cached=cached).get_many(["w/0/1"]) == [None]


def test_other_workers_do_not_read_its_pages_from_java(tmp_path: Path) -> None:
    pages = Map()
    caches = [DiskCache(str(tmp_path), "spark://state", 64 << 20) for _ in range(2)]
    one, other = (StatePages(pages, shared=cache) for cache in caches)
    pages.rows["w/0/0",] = (b"zero",)
    assert one.get_many(["w/0/0", "w/0/9"]) == [b"zero", None]
    one.put_many({"w/0/1": b"one", "w/0/2": b"two"})
    one.flush()
    pages.calls.clear()
    assert other.get_many(["w/0/0", "w/0/1", "w/0/2"]) == [b"zero", b"one", b"two"]
    assert pages.calls == []
    other.delete_many(["w/0/1"])
    other.flush()
    again = StatePages(pages, shared=caches[0])
    assert again.get_many(["w/0/1", "w/0/2"]) == [None, b"two"]
    again.discard(["w/0/2"])
    pages.rows["w/0/2",] = (b"whole",)
    assert again.get_many(["w/0/2"]) == [b"whole"]
    for cache in caches:
        cache.close()


def test_waiting_pages_and_kept_ones_are_bounded() -> None:
    pages = Map()
    store = StatePages(pages, write_buffer=10_000, cached=page_cache(10_000))
    held = []
    for i in range(100):
        store.put_many({f"w/0/{i}": bytes(1000)})
        held.append(i + 1 - len(pages.rows))
    assert max(held) == 8  # of 1,200 bytes each
    store.flush()
    for i in [*range(92, 100), *range(100), *range(92, 100)]:
        store.get_many([f"w/0/{i}"])
    assert pages.calls.count("get") == 100
    store.get_many(["w/0/0"])
    assert pages.calls.count("get") == 101


def test_a_damaged_page_is_read_again() -> None:
    pages = Map()
    store = StatePages(pages)
    pages.rows["w/0/1",] = (b"damaged",)
    assert store.get_many(["w/0/1"]) == [b"damaged"]
    pages.rows["w/0/1",] = (b"whole",)
    assert store.get_many(["w/0/1"]) == [b"damaged"]
    store.discard(["w/0/1"])
    assert store.get_many(["w/0/1"]) == [b"whole"]


def test_when_sparks_state_fails_nothing_is_lost() -> None:
    pages = Map()
    store = StatePages(pages)
    store.put_many({"w/0/1": b"one"})
    pages.down = True
    with pytest.raises(StoreUnavailable, match="Spark runs it again"):
        store.flush()
    with pytest.raises(StoreUnavailable, match="down"):
        store.get_many(["w/0/2"])
    assert store.get_many(["w/0/1"]) == [b"one"]
    pages.down = False
    store.flush()
    assert pages.rows == {("w/0/1",): (b"one",)}


def test_it_belongs_to_its_task() -> None:
    store = StatePages(Map())
    with pytest.raises(UnsupportedOperation, match="belongs to one task"):
        pickle.dumps(store)
    store.close()
    with pytest.raises(StoreClosed):
        store.keys()


def test_a_window_needs_few_calls() -> None:
    """512 events a leaf: each is put, read and removed once, whatever the frame looks at."""
    for frame, times in ((CountWindow(10_000), False), (TimeWindow(10_000), True)):
        pages = Map()
        window = Window(Max(), frame, StatePages(pages), arity=64, leaf_arity=512)
        for start in range(0, 100_000, 5_000):
            events = [float(i) for i in range(start, start + 5_000)]
            window.extend(events, events if times else None)
            window.checkpoint()
        # The window, and what has left it since the oldest of the two retained snapshots.
        assert len(pages.rows) <= 10_000 // 512 + 2 * (5_000 // 512) + 4
        leaves = 100_000 // 512
        assert pages.calls.count("put") <= leaves + leaves // 64 + 1
        assert pages.calls.count("get") <= leaves + 2 * 20
        assert pages.calls.count("remove") <= leaves


def test_the_address() -> None:
    assert is_state_url("spark://state")
    assert not is_state_url("redis://state")
    for url in ("spark://other", "spark://state/", "spark://state?cache=1", "spark://u@state"):
        with pytest.raises(InvalidStoreURL, match="spark:// store is spark://state"):
            is_state_url(url)
    with pytest.raises(InvalidStoreURL):
        open_store("spark://state")  # outside of a query there is no state
