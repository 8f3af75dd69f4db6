"""Requests of single keys that wait for pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mta import Count, CountWindow, KeyedWindows, Product, Sum, TimeWindow, Window, open_published
from mta.errors import StoreUnavailable, UnsuitableKey
from mta.published import AsyncPublishedWindows
from stores import MemoryStore
from stores.testing import CountingStore
from tests.support.published import Server

KEYS = 5000


@pytest.fixture(scope="module")
def server() -> Server:
    store = Server()
    windows = KeyedWindows(Sum("int64"), CountWindow(5), store, name="many", page_bytes=64)
    windows.publish("many")
    windows.extend(range(KEYS), range(KEYS), emit="last")
    windows.checkpoint()
    return store


def test_requests_that_wait_share_calls_of_the_store(server: Server) -> None:
    store = CountingStore(server)

    async def ask() -> None:
        lookups = AsyncPublishedWindows(open_published(store, "many", refresh=None))
        store.reset()
        keys = range(0, KEYS, 50)
        answers = await asyncio.gather(*[lookups.query(key) for key in keys])
        assert answers == list(keys)
        assert store.reset().get.calls <= 6, "at most two for each level of the index and the pages"
        await asyncio.gather(*[lookups.query(key) for key in keys])
        assert store.reset().get.calls == 0
        await lookups.close()

    asyncio.run(ask())


@pytest.mark.parametrize("cache", [0, 1000])
def test_pages_that_do_not_stay_in_memory_are_read_by_a_thread(cache: int, server: Server) -> None:
    async def ask() -> None:
        lookups = AsyncPublishedWindows(open_published(server, "many", refresh=None, cache=cache))
        queries = [lookups.query(key) for key in range(50)]
        assert await asyncio.gather(*queries) == list(range(50))
        await lookups.close()

    asyncio.run(ask())


def test_a_request_that_ends_while_it_waits_leaves_nothing_to_read(server: Server) -> None:
    async def ask() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
        lookups = AsyncPublishedWindows(open_published(server, "many", refresh=None))
        await lookups.query(1)
        late = asyncio.create_task(lookups.query(KEYS - 1))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        await lookups.close()
        await asyncio.sleep(0.02)  # when the call that it waited for is due
        assert (late.cancelled(), errors) == (True, [])

    asyncio.run(ask())


def test_each_request_has_its_own_error(server: Server) -> None:
    async def ask() -> None:
        lookups = AsyncPublishedWindows(open_published(server, "many", refresh=None))
        queries = [lookups.query(key) for key in (1, "one", 2)]
        one, error, two = await asyncio.gather(*queries, return_exceptions=True)
        assert (one, two) == (1, 2)
        assert isinstance(error, UnsuitableKey)
        server.is_away = True
        queries = [lookups.query(key) for key in (3000, 1, 4000)]
        away, known, gone = await asyncio.gather(*queries, return_exceptions=True)
        server.is_away = False
        assert known == 1, "its pages are in memory"
        assert isinstance(away, StoreUnavailable) and isinstance(gone, StoreUnavailable)
        assert await lookups.query(3000) == 3000
        await lookups.close()

    asyncio.run(ask())


def test_a_client_that_leaves_does_not_end_what_others_wait_for(server: Server) -> None:
    async def ask() -> None:
        lookups = AsyncPublishedWindows(open_published(server, "many", refresh=None))
        first, second = [asyncio.ensure_future(lookups.query(7)) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 7
        assert first.cancelled()
        await lookups.close()

    asyncio.run(ask())


def test_a_query_reads_one_level_of_pages_at_a_time_and_none_that_are_in_memory(
    server: Server,
) -> None:
    store = CountingStore(server)

    async def ask() -> None:
        features = AsyncPublishedWindows(open_published(store, "many", refresh=None))
        store.reset()
        assert await features.query(17) == 17
        assert 1 < (calls := store.reset().get.calls) <= 5
        assert await features.query(17) == 17
        assert store.reset().get.calls == 0
        assert await features.query(17) + await features.query(KEYS - 1) == 17 + KEYS - 1
        assert store.reset().get.calls < calls
        await features.close()

    asyncio.run(ask())


def test_queries_have_the_results_of_the_reader() -> None:
    """Also of keys with a window of their own, at earlier moments, of many keys and moments."""
    store = MemoryStore()
    total = Product({"sum": ("v", Sum("int64")), "n": Count()})
    windows = KeyedWindows(total, TimeWindow("60s"), store, name="w", promote_at=8)
    windows.publish("few")
    rows = ["a"] * 20 + ["b"] * 4
    windows.extend(rows, {"v": range(24)}, range(24), emit="last")
    windows.checkpoint()
    one = Window(Sum(), CountWindow(3), store, "one")
    one.publish("one")
    one.extend([1.0, 2.0, 3.0, 4.0])
    one.checkpoint()

    async def ask() -> None:
        reader = open_published(store, "few", refresh=None)
        features = AsyncPublishedWindows(reader)
        asked: list[tuple[Any, Any]] = [
            ("a", None), ("b", None), ("c", None), ("b", 1000), ("a", 1000), ("b", 21), ("a", 5),
            (["a", "b"], None), (["a", "c"], [5, 7]), ("b", [21, 22, 23]),
        ]  # fmt: skip
        for key, at in asked:
            found = await features.query(key, at=at, partial=True)
            assert repr(found) == repr(reader.query(key, at=at, partial=True)), (key, at)
        found = await features.query("b", at=23_000, time_unit="ms")
        assert found == reader.query("b", at=23) == {"sum": 86, "n": 4}
        with pytest.raises(UnsuitableKey):
            await features.query(7)
        with pytest.raises(ValueError, match="these windows have keys"):
            await features.query()
        assert await AsyncPublishedWindows(open_published(store, "one")).query() == 9.0
        await features.close()

    asyncio.run(ask())
