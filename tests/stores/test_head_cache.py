"""The head cache: bounded, never stale, and a prefetch saves the reader a fetch."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from stores import StoreUnavailable, WrapperStore
from stores.head_cache import _QUEUE, HeadCache
from stores.memory import MemoryStore
from stores.write_buffer import WriteBuffer
from tests.support.faulty import Gated, eventually
from tests.support.patience import LONG, in_time

PAGE = b"p" * 1000
PAGES = {f"g/{i}": bytes([i]) * 1000 for i in range(40)}


@pytest.fixture
def store() -> Gated:
    store = Gated(MemoryStore())
    store.store.put_many(PAGES)
    return store


@pytest.fixture
def cache(store: Gated) -> Iterator[HeadCache]:
    cache = HeadCache(store, 100_000)
    yield cache
    store.gate.set()
    cache.close()


def test_a_page_is_fetched_once(store: Gated, cache: HeadCache) -> None:
    for _ in range(3):
        assert cache.get_many(["g/1", "g/2", "g/1"]) == [PAGES["g/1"], PAGES["g/2"], PAGES["g/1"]]
    assert store.logged("get") == [["g/1", "g/2"]]
    cache.get_many(["g/2", "g/3"])
    assert store.logged("get")[1:] == [["g/3"]]


def test_a_missing_page_is_asked_for_again(store: Gated, cache: HeadCache) -> None:
    assert cache.get_many(["g/none"]) == cache.get_many(["g/none"]) == [None]
    assert len(store.logged("get")) == 2


def test_the_bound_holds_and_the_oldest_go(store: Gated) -> None:
    cache = HeadCache(store, 5000)
    for key in PAGES:
        cache.get_many(["g/0", key])
        assert cache.cached_bytes <= 5000
    assert [key for key in PAGES if cache.peek(key)] == ["g/0", "g/37", "g/38", "g/39"]


def test_a_page_larger_than_the_cache_is_not_kept(store: Gated) -> None:
    cache = HeadCache(store, 500)
    assert cache.get_many(["g/1"]) == [PAGES["g/1"]]
    assert cache.cached_bytes == 0


def test_prefetch_saves_the_fetch(store: Gated, cache: HeadCache) -> None:
    cache.prefetch(["g/1", "g/2", "g/3"])
    eventually(lambda: cache.cached_bytes > 3000)
    assert store.logged("get") == [["g/1", "g/2", "g/3"]]
    cache.get_many(["g/3", "g/1"])
    assert len(store.logged("get")) == 1


def test_a_fetch_takes_a_quarter_of_the_cache_at_most(store: Gated) -> None:
    cache = HeadCache(store, 40_000)
    cache.prefetch(["g/none"])
    cache.prefetch(list(PAGES))
    eventually(lambda: len(cache._pages) > 30 and not cache._queue and not cache._flying)
    sizes = [len(keys) for keys in store.logged("get")]
    assert sum(sizes) == 41
    assert max(sizes) <= 16  # before it knows the size of a page
    assert sizes[-2:] in ([10, 5], [10, 4])
    assert cache.cached_bytes <= 40_000
    cache.close()


def test_what_is_in_memory_is_peeked_at_without_a_call(store: Gated, cache: HeadCache) -> None:
    assert cache.peek("g/1") is None
    cache.get_many(["g/1"])
    assert cache.peek("g/1") == WrapperStore(cache).peek("g/1") == PAGES["g/1"]
    cache.delete_many(["g/1"])
    assert cache.peek("g/1") is None
    assert len(store.logged("get")) == 1
    assert cache.capabilities.read_ahead == 25_000
    assert store.capabilities.read_ahead == 0


def test_a_reader_joins_a_fetch_under_way(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)
    threading.Timer(0.05, store.gate.set).start()
    assert cache.get_many(["g/1", "g/2"]) == [PAGES["g/1"], PAGES["g/2"]]
    assert sorted(store.logged("get")) == [["g/1"], ["g/2"]]


def test_a_reader_takes_over_what_is_only_queued(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)
    cache.prefetch(["g/2"])
    threading.Timer(0.05, store.gate.set).start()
    assert cache.get_many(["g/2"]) == [PAGES["g/2"]]
    eventually(lambda: not cache._flying)
    assert sorted(store.logged("get")) == [["g/1"], ["g/2"]]


def test_prefetch_neither_blocks_nor_fails(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    with in_time():
        for _ in range(100):
            cache.prefetch([f"g/{i}" for i in range(5000)])
    assert len(cache._queue) <= _QUEUE
    store.error = StoreUnavailable("gone")
    store.gate.set()
    eventually(lambda: not cache._queue and not cache._flying)
    with pytest.raises(StoreUnavailable):
        cache.get_many(["g/1"])
    store.error = None
    assert cache.get_many(["g/1"]) == [PAGES["g/1"]]


def test_a_failed_fetch_is_repeated_by_the_reader(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    store.error = StoreUnavailable("a blip")
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)

    def heal() -> None:
        store.gate.set()
        eventually(lambda: not cache._flying or store.attempts > 1)
        store.error = None

    threading.Timer(0.02, heal).start()
    try:
        assert cache.get_many(["g/1"]) == [PAGES["g/1"]]
    except StoreUnavailable:  # the reader's own fetch met the end of the blip
        assert store.attempts == 2


@pytest.mark.parametrize("change", ["put", "delete"])
def test_a_fetch_that_a_change_overtook_is_not_kept(
    store: Gated, cache: HeadCache, change: str
) -> None:
    original, began, go_on = store.store.get_many, threading.Event(), threading.Event()

    def slow(keys: list[str]) -> list[bytes | None]:
        found = original(keys)
        began.set()
        go_on.wait(LONG)
        return found

    store.store.get_many = slow  # type: ignore[method-assign, assignment]
    cache.prefetch(["g/1"])
    assert began.wait(LONG)
    if change == "delete":
        cache.delete_many(["g/1"])
    else:
        cache.put_many({"g/1": b"new"})
    go_on.set()
    assert cache.get_many(["g/1"]) == [None if change == "delete" else b"new"]


def test_many_threads_see_no_stale_page() -> None:
    store = MemoryStore()
    cache = HeadCache(store, 20_000)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        dice = random.Random(number)
        mine = [f"g/{number}/{i}" for i in range(10)]
        model: dict[str, bytes] = {}
        try:
            for _ in range(400):
                keys = dice.sample(mine, 3)
                match dice.randrange(4):
                    case 0:
                        pages = {key: dice.randbytes(200) for key in keys}
                        cache.put_many(pages)
                        model |= pages
                    case 1:
                        cache.delete_many(keys)
                        for key in keys:
                            model.pop(key, None)
                    case 2:
                        cache.prefetch(mine)
                    case _:
                        assert cache.get_many(keys) == [model.get(key) for key in keys]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert 0 < cache.cached_bytes <= 20_000
    cache.close()


def test_the_thread_ends(store: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.head_cache._IDLE", 0.02)
    before = threading.active_count()
    cache = HeadCache(store, 100_000)
    for key in ("g/1", "g/2"):
        cache.prefetch([key])
        eventually(lambda key=key: cache.peek(key))  # type: ignore[misc]
        eventually(lambda: threading.active_count() == before)
    cache.prefetch(["g/3"])
    cache.close()
    assert threading.active_count() == before


def test_what_is_wanted_while_it_is_on_its_way_to_the_store_is_never_read(
    store: Gated, cache: HeadCache
) -> None:
    """The write buffer offers it, so that nobody waits for a page that has just been written."""
    with WriteBuffer(cache, 1 << 20) as buffer:
        buffer.put_many({"g/new": PAGE, "g/other": PAGE})
        buffer.prefetch(["g/new"])
        buffer.flush()
        assert (buffer.peek("g/new"), buffer.peek("g/other")) == (PAGE, None)
        buffer.put_many({"g/new": PAGE * 2})
        buffer.flush()
        assert buffer.get_many(["g/new"]) == [PAGE * 2]
        buffer.prefetch(["g/other"])
        buffer.delete_many(["g/new", "g/other"])
        buffer.flush()
        assert buffer.get_many(["g/new", "g/other"]) == [None, None]
    assert store.logged("get")[0] in (["g/new"], ["g/other"])
