"""A Redis in a container that is paused and killed, as an orchestrator or a full machine does."""

from __future__ import annotations

import pytest

from stores import StoreUnavailable, open_store
from tests.support.patience import LONG, in_time, short_deadline
from tests.support.servers import RedisContainer

PAGES = {f"g/{i}": bytes([i]) * 2000 for i in range(100)}


def test_a_paused_container(redis_container: RedisContainer) -> None:
    """reliability 13: a frozen server costs a bounded wait, then nothing is missing."""
    store = open_store(f"{redis_container.url}?deadline={LONG}&timeout=0.5")
    first, *rest = PAGES
    store.put_many({first: PAGES[first]})
    with short_deadline(store, 1):
        redis_container.container.pause()
        store.put_many({key: PAGES[key] for key in rest})
        with in_time(), pytest.raises(StoreUnavailable, match="held"):
            store.flush()
        redis_container.container.unpause()
    store.flush()
    assert store.get_many(list(PAGES)) == list(PAGES.values())
    store.close()


def test_a_killed_container_comes_back_with_its_pages(redis_container: RedisContainer) -> None:
    """reliability 13: with an append-only file no flushed page is lost; the rest is sent again."""
    store = open_store(f"{redis_container.url}?deadline={LONG}&timeout=5")
    half = dict(list(PAGES.items())[:50])
    store.put_many(half)
    store.flush()
    redis_container.container.kill()
    store.put_many(PAGES)
    redis_container.container.start()
    store.flush()
    with open_store(redis_container.url, write_buffer=0, cache=0) as other:
        assert other.get_many(list(PAGES)) == list(PAGES.values())
    store.close()
