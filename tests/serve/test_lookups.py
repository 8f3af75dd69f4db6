"""Requests of single keys that wait for pages."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("starlette", reason="NOT TESTED: mta serve, as the extra serve is missing")

from mta import CountWindow, KeyedWindows, Sum, open_published
from mta.errors import StoreUnavailable, UnsuitableKey
from mta.serve.lookups import Lookups
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
        lookups = Lookups(open_published(store, "many", refresh=None))
        store.reset()
        keys = range(0, KEYS, 50)
        answers = await asyncio.gather(*[lookups.query(key, None, False) for key in keys])
        assert [each["value"] for each in answers] == list(keys)
        assert store.reset().get.calls <= 6, "at most two for each level of the index and the pages"
        await asyncio.gather(*[lookups.query(key, None, False) for key in keys])
        assert store.reset().get.calls == 0
        await lookups.close()

    asyncio.run(ask())


@pytest.mark.parametrize("cache", [0, 1000])
def test_pages_that_do_not_stay_in_memory_are_read_by_a_thread(cache: int, server: Server) -> None:
    async def ask() -> None:
        lookups = Lookups(open_published(server, "many", refresh=None, cache=cache))
        queries = [lookups.query(key, None, False) for key in range(50)]
        assert [each["value"] for each in await asyncio.gather(*queries)] == list(range(50))
        await lookups.close()

    asyncio.run(ask())


def test_a_request_that_ends_while_it_waits_leaves_nothing_to_read(server: Server) -> None:
    async def ask() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
        lookups = Lookups(open_published(server, "many", refresh=None))
        await lookups.query(1, None, False)
        late = asyncio.create_task(lookups.query(KEYS - 1, None, False))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        await lookups.close()
        await asyncio.sleep(0.02)  # when the call that it waited for is due
        assert (late.cancelled(), errors) == (True, [])

    asyncio.run(ask())


def test_each_request_has_its_own_error(server: Server) -> None:
    async def ask() -> None:
        lookups = Lookups(open_published(server, "many", refresh=None))
        queries = [lookups.query(key, None, False) for key in (1, "one", 2)]
        one, error, two = await asyncio.gather(*queries, return_exceptions=True)
        assert (one, two) == ({"value": 1}, {"value": 2})
        assert isinstance(error, UnsuitableKey)
        server.is_away = True
        queries = [lookups.query(key, None, False) for key in (3000, 1, 4000)]
        away, known, gone = await asyncio.gather(*queries, return_exceptions=True)
        server.is_away = False
        assert known == {"value": 1}, "its pages are in memory"
        assert isinstance(away, StoreUnavailable) and isinstance(gone, StoreUnavailable)
        assert await lookups.query(3000, None, False) == {"value": 3000}
        await lookups.close()

    asyncio.run(ask())


def test_a_client_that_leaves_does_not_end_what_others_wait_for(server: Server) -> None:
    async def ask() -> None:
        lookups = Lookups(open_published(server, "many", refresh=None))
        first, second = [asyncio.ensure_future(lookups.query(7, None, False)) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        assert await second == {"value": 7}
        assert first.cancelled()
        await lookups.close()

    asyncio.run(ask())
