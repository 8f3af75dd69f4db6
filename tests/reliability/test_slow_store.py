"""A slow store behind a proxy, write buffer and head cache on: who waits, and how often.

The budget, in terms that no machine changes: at most one insert in a hundred waits for the store,
so the 99th percentile of an insert is one that does not. A stream that is no faster than the store
waits for no page at all. How long inserts take is measured by ``python -m benchmarks slow``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from mta import Window
from stores import HeadCache, PageStore, WriteBuffer, open_store
from stores.base import WrapperStore
from tests.support import oracle
from tests.support.patience import LONG
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

pytest.importorskip("redis")

SIZE, LEAF, ARITY = 2000, 8, 6
ANSWER = 0.002


class Buffer(WriteBuffer):
    """A write buffer that counts the callers it holds up."""

    held_up = 0

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        self.held_up += 1
        super()._wait_until(ready)


class Watched(WrapperStore):
    """What a window sees of its stores: pages in memory, and calls that wait."""

    store: Buffer
    found = reads = 0

    def peek(self, key: str) -> bytes | None:
        page = self.store.peek(key)
        self.found += page is not None
        return page

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.reads += 1
        return super().get_many(keys)

    @property
    def waits(self) -> int:
        """Calls that had to wait: for a page, or for room in the write buffer."""
        return self.reads + self.store.held_up


@contextmanager
def behind(server: RedisServer, cache: int) -> Iterator[tuple[Watched, PageStore]]:
    """Redis behind a network that takes its time, with and without a head cache."""
    with Proxy(server.port) as proxy:
        raw = open_store(f"redis://127.0.0.1:{proxy.port}", write_buffer=0, cache=0)
        inner = HeadCache(raw, cache) if cache else raw
        with Watched(Buffer(inner, 1 << 20)) as watched:
            proxy.answer_delay = ANSWER
            yield watched, inner
            proxy.answer_delay = 0


def filled(store: PageStore) -> Window:
    """A window whose front has begun to move."""
    window = oracle.begin(store, SIZE, ARITY, LEAF)
    window.extend(oracle.events(0, SIZE + 1), emit="last")
    return window


def insert(window: Window) -> None:
    window.insert(oracle.event(window.structure().back))


def is_busy(cache: HeadCache) -> bool:
    """Whether pages are yet to come; a page is in neither place while the thread takes it up."""
    with cache._changed:
        return bool(cache._queue or cache._flying)


def test_in_steady_state_no_insert_waits(own_redis: RedisServer) -> None:
    """The stream goes on when what was asked for is there: it finds every page it needs."""
    with behind(own_redis, 16 << 20) as (watched, cache):
        assert isinstance(cache, HeadCache)
        window = filled(watched)
        watched.reads = watched.found = 0
        events = 300 * LEAF
        for _ in range(events):
            insert(window)
            while is_busy(cache):
                time.sleep(0.0005)
        assert watched.waits == 0
        # Each leaf page once; those above tell where the leaves are, and what to delete.
        assert events // LEAF <= watched.found <= 2 * events // LEAF
        assert oracle.assert_whole(window, SIZE) == SIZE + 1 + events


class Paced(WrapperStore):
    """Answers what is asked in the background once ``LEAF`` more inserts have been made.

    So time is counted in inserts, and no busy machine can change what waits for what. Who asks in
    the foreground is answered at once, with what is on its way: that it waits is counted.
    """

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.inserts = 0
        self._inserting, self._changed = threading.current_thread(), threading.Condition()
        self._due: int | None = None
        #: Whether an insert waits, so that time passes without inserts.
        self._is_asked = False

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if threading.current_thread() is not self._inserting:
            with self._changed:
                self._due = self.inserts + LEAF
                self._changed.wait_for(self._is_time, LONG)
                self._due = None
        return super().get_many(keys)

    def _is_time(self) -> bool:
        return self._is_asked or self._due is None or self.inserts >= self._due

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Let time pass, as an insert waits."""
        with self._changed:
            self._is_asked = True
            self._changed.notify_all()
        yield
        self._is_asked = False

    @property
    def is_waiting(self) -> bool:
        """Whether a call in the background is not answered, as it is not time yet."""
        with self._changed:
            return not self._is_time()

    def tick(self) -> None:
        """An insert has been made."""
        with self._changed:
            self.inserts += 1
            self._changed.notify_all()


class Waiting(Watched):
    """Lets the time of a paced store pass while an insert waits for it."""

    paced: Paced

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self.paced.asked():
            return super().get_many(keys)


def test_the_99th_percentile_of_an_insert_does_not_wait(redis_url: str) -> None:
    """A stream that takes the time of one answer to use up a page; without a cache it waits."""
    shares = {}
    for cache_bytes in (16 << 20, 0):
        paced = Paced(open_store(redis_url, write_buffer=0, cache=0))
        cache = HeadCache(paced, cache_bytes) if cache_bytes else None
        with Waiting(Buffer(cache or paced, 1 << 20)) as watched:
            watched.paced = paced
            window = filled(watched)
            inserts, waited = 150 * LEAF, 0
            for _ in range(inserts):
                before = watched.waits
                insert(window)
                waited += watched.waits > before
                paced.tick()
                while cache and (cache._queue or cache._flying) and not paced.is_waiting:
                    time.sleep(0.0001)
            shares[cache_bytes] = waited / inserts
            assert window.query() == oracle.text(SIZE + 1 + inserts, SIZE)
            paced.inserts += LEAF * inserts
            paced.tick()
            window.delete_pages()
    with_cache, without = shares.values()
    assert with_cache <= 0.01
    assert without >= 0.9 / LEAF
