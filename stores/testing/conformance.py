"""What every page store must do, as a class of tests to subclass.

    class TestMyStore(PageStoreConformance):
        def open(self):
            return MyStore(...)

pytest collects the class. Each test opens the store by ``open()``. Some tests open it twice, and
both stores must see the same pages. The keys of each test begin with a unique group, so that tests
can share a server. The attributes say which tests do not apply, and the ``raw`` hooks give the
tests direct access to the stored pages.
"""

from __future__ import annotations

import asyncio
import faulthandler
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from random import Random
from typing import Any
from unittest import SkipTest, TestCase
from uuid import uuid4

from stores.base import PageStore, RecordPut
from stores.errors import InvalidKey, PageTooLarge, StoreClosed, UnsupportedOperation

PATIENCE = 30
"""Seconds after which a child process counts as hung, or a page as never read ahead."""


class PageStoreConformance:
    """The tests; subclass it and override ``open``."""

    reopens = True
    """Whether pages survive ``close`` and a second ``open()`` sees them."""
    processes = True
    """Whether another process sees the pages after ``flush``."""
    pickles = True
    """Whether an open store can be sent to another process."""
    lists = True
    """Whether the server can list its keys; otherwise ``keys`` raises ``UnsupportedOperation``."""
    records = True
    """Whether the store has conditional puts."""
    atomic = True
    """Whether the server checks a condition and puts a record in one step."""
    sees_deletes = True
    """Whether a page that another process deletes is gone here, even if just put by this one."""
    turns = 30
    """How often each of six threads writes, reads and deletes some pages. Other tests that repeat
    an action are longer or shorter in proportion."""
    forks = 5
    """How many processes are forked, one after the other, while a thread uses the store."""
    secrets: tuple[str, ...] = ()
    """User names and passwords that must not be shown."""

    def open(self) -> PageStore:
        """Return a store with the pages of this test."""
        raise NotImplementedError

    def raw_get(self, key: str) -> bytes | None:
        """Return the bytes that are stored for a key, without the store."""
        raise SkipTest("no raw access")

    def raw_delete(self, key: str) -> None:
        """Delete the stored bytes of a key, without the store."""
        raise SkipTest("no raw access")

    @contextmanager
    def holding(self, pages: Mapping[str, bytes], flushed: bool = True) -> Iterator[PageStore]:
        """Yield an open store that has these pages."""
        with self.open() as store:
            store.put_many(pages)
            if flushed:
                store.flush()
            yield store

    def assert_keys(self, store: PageStore, prefix: str, expected: Iterable[str]) -> None:
        """Assert that the store lists exactly these keys, if it can list keys."""
        if self.lists:
            assert sorted(store.keys(prefix)) == sorted(expected)

    @property
    def group(self) -> str:
        """Return the key group of this test."""
        return self.__dict__.setdefault("_group", f"test-{uuid4().hex[:12]}")  # type: ignore[no-any-return]

    def pages(self, number: int, size: int = 100) -> dict[str, bytes]:
        """Return different pages, whose keys are not sorted."""
        order = sorted(range(number), key=lambda i: (i * 7919) % 1009)
        return {f"{self.group}/{i:04d}": bytes([i % 256]) * size for i in order}

    def too_long(self, store: PageStore) -> str:
        """Return a key with one more character than the store accepts."""
        return f"{self.group}/".ljust(store.capabilities.max_key_bytes + 1, "k")

    # Round trips

    def test_what_was_put_is_got(self) -> None:
        pages = self.pages(50)
        with self.holding(pages, flushed=False) as store:
            assert store.get_many(list(pages)) == list(pages.values())
            for key, page in pages.items():
                assert store.get_many([key]) == [page]

    def test_pages_come_in_the_order_of_the_keys(self) -> None:
        pages = self.pages(20)
        first, last, *_ = pages
        missing = [f"{self.group}/no", first, f"{self.group}/none", last]
        with self.holding(pages, flushed=False) as store:
            for keys in (sorted(pages), sorted(pages, reverse=True), [first, last, first], missing):
                assert store.get_many(keys) == [pages.get(key) for key in keys]

    def test_pages_can_be_looked_at(self) -> None:
        """``view_many`` shows the pages of ``get_many`` in one call, and passes errors on."""
        pages = self.pages(20)
        first, last, *_ = pages
        missing = [f"{self.group}/no", first, f"{self.group}/none", last]

        def copied(found: list[Any]) -> list[bytes | None]:
            return [None if page is None else bytes(page) for page in found]

        def failing(found: list[Any]) -> None:
            raise ArithmeticError(len(found))

        for flushed in (True, False):
            with self.holding(pages, flushed) as store:
                for keys in (sorted(pages), [first, last, first], missing, []):
                    assert store.view_many(keys, copied) == store.get_many(keys)
                with raises(ArithmeticError) as caught:
                    store.view_many([first, last], failing)
                assert caught.exception.args == (2,)
                store.put_many({f"{self.group}/more": b"more"})
                keys = [*pages, f"{self.group}/more"]
                assert store.view_many(keys, copied) == [*pages.values(), b"more"]

    def test_event_loops_get_the_same_pages(self) -> None:
        pages = self.pages(300)
        keys = [*pages, f"{self.group}/none", min(pages)]

        async def get(store: PageStore) -> None:
            calls = [store.get_many_async(some) for some in (keys, keys[:3], keys[-2:])]
            every, three, two = await asyncio.gather(*calls)
            assert every == [pages.get(key) for key in keys]
            assert (three, two) == (every[:3], every[-2:])

        with self.holding(pages, flushed=False) as store:
            for _ in range(2):
                asyncio.run(get(store))

    def test_puts_and_deletes_in_any_order(self) -> None:
        """The store behaves like a dictionary, whatever was put, deleted and flushed before."""
        random, pages, there = Random(7), self.pages(8), dict[str, bytes]()
        with self.open() as store:
            for turn in range(10 * self.turns):
                some = random.sample(list(pages), random.randrange(5))
                if random.random() < 0.5:
                    store.put_many({key: pages[key] for key in some})
                    there |= {key: pages[key] for key in some}
                else:
                    store.delete_many(iter(some))
                    there = {key: page for key, page in there.items() if key not in some}
                if turn % 5 == 0:
                    store.flush()
                if turn % 3 == 0:
                    asked = random.sample(list(pages), random.randrange(5))
                    assert store.get_many(asked) == [there.get(key) for key in asked]
            self.assert_keys(store, f"{self.group}/", there)

    def test_every_byte_is_kept(self) -> None:
        every = bytes(range(256))
        odd = [every, every[::-1], b"", b"\0", b"\0\0a\0", b"\xff\xfe", b"\r\n"]
        pages = {f"{self.group}/{i}": page for i, page in enumerate(odd)}
        with self.holding(pages) as store:
            found = store.get_many(list(pages))
            assert found == list(pages.values())
            assert all(type(page) is bytes for page in found)

    def test_pages_of_many_sizes(self) -> None:
        sizes = [1, 4079, 4080, 4081, 4096, 65_535, 65_536, 1 << 20, 4 << 20]
        with self.open() as store:
            limit = store.capabilities.max_page_bytes
            pages = {f"{self.group}/{n}": os.urandom(n) for n in sizes if n <= limit}
            if limit <= 64 << 20:
                pages[f"{self.group}/limit"] = os.urandom(limit)
            store.put_many(pages)
            store.flush()
            found = store.get_many(list(pages))
            # Megabytes that differ take seconds to be shown.
            assert [page and len(page) for page in found] == [len(page) for page in pages.values()]
            assert found == list(pages.values())

    def test_a_large_batch(self) -> None:
        pages = self.pages(3000, size=2000)
        with self.holding(pages, flushed=False) as store:
            assert store.get_many(list(pages)) == list(pages.values())
            self.assert_keys(store, self.group, pages)
            store.delete_many(pages)
            self.assert_keys(store, self.group, [])

    # Keys

    def test_a_store_lists_its_keys_or_says_that_it_cannot(self) -> None:
        with self.open() as store:
            if self.lists:
                assert list(store.keys(self.group)) == []
                return
            with raises(UnsupportedOperation):
                list(store.keys(self.group))

    def test_records_are_put_on_conditions(self) -> None:
        need(self.records, "this store has no conditional puts")
        head, log = f"{self.group}/head", f"{self.group}/log/1"
        with self.open() as store, self.open() as other:
            first = [RecordPut(head, b"1", {head: False})]
            assert store.put_records(first) == [True]
            if not self.reopens:
                other = store
            assert other.put_records(first) == [False]
            assert other.put_records([RecordPut(head, b"2", {head: b"0"})]) == [False]
            assert other.get_records([head, log]) == [b"1", None]
            event = RecordPut(log, b"event", {log: False, head: b"1"})
            another = RecordPut(f"{self.group}/log/0", b"", {head: b"1", log: False})
            assert other.put_records([event])[0]
            assert other.put_records([another, event]) == [False, False]
            assert other.put_records([RecordPut(head, b"2\0\xff", {head: True})]) == [True]
            assert store.get_records([log, head]) == [b"event", b"2\0\xff"]
            assert store.put_records([RecordPut(head, b"3", {head: b"2\0\xff"})]) == [True]
            stale = RecordPut(f"{self.group}/log/2", b"late", {head: b"2\0\xff"})
            assert store.put_records([stale]) == [False]
            assert store.put_records([RecordPut(head, b"4", {})]) == [True]
            store.delete_records([log, head])
            assert other.get_records([head, log]) == [None, None]
            with raises(InvalidKey):
                store.put_records([RecordPut("a/1", b"", {"b/1": True})])

    def test_one_of_many_puts_of_a_record_wins(self) -> None:
        need(self.records and self.atomic, "this store has no atomic conditional puts")
        key = f"{self.group}/count"
        with self.open() as store:
            store.put_records([RecordPut(key, b"0", {})])

            def add(number: int) -> None:
                done = 0
                while done < 5:
                    (before,) = store.get_records([key])
                    assert before is not None
                    after = str(int(before) + 1).encode()
                    done += store.put_records([RecordPut(key, after, {key: before})])[0]

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(add, range(4)))
            assert store.get_records([key]) == [b"20"]

    def test_keys_by_prefix(self) -> None:
        odd = ("*", "?", "[a]", "a b", "{t}", "\\", "%2F", "a/b/", "0/a", "0/b", "1/a")
        keys = [f"{self.group}/{text}" for text in odd]
        keys += [f"{self.group}{text}/x" for text in ("-{", "-}", "-{}", "-*", "-a:b", "x/0")]
        keys += [f"{self.group}-no-slash"]
        pages = {key: key.encode() for key in keys}
        prefixes = (*keys, self.group, *(f"{self.group}/{text}" for text in ("", "0/", "2")))
        with self.holding(pages) as store:
            assert store.get_many(keys) == list(pages.values())
            for prefix in prefixes:
                self.assert_keys(store, prefix, (key for key in keys if key.startswith(prefix)))
            if self.lists:
                assert set(keys) <= set(store.keys())

    def test_keys_can_be_swept(self) -> None:
        need(self.lists, "the server cannot list its keys")
        pages = self.pages(1100, size=10)
        with self.holding(pages) as store:
            keys = iter(store.keys(f"{self.group}/"))
            while some := list(islice(keys, 20)):  # while the others are being listed
                store.delete_many(some)
            assert list(store.keys(f"{self.group}/")) == []

    def test_the_longest_key(self) -> None:
        with self.open() as store:
            longest = self.too_long(store)[:-1]
            store.put_many({longest: b"page"})
            store.flush()
            assert store.get_many([longest]) == [b"page"]

    def test_a_key_that_cannot_be_stored_is_refused(self) -> None:
        good = f"{self.group}/good"
        with self.open() as store:
            for bad in ("", self.too_long(store), f"{self.group}/ü", f"{self.group}/\u2028"):
                with raises(InvalidKey):
                    store.put_many({good: b"page", bad: b"page"})
                with raises(InvalidKey):
                    store.get_many([good, bad])
                with raises(InvalidKey):
                    store.delete_many([bad])
            assert store.get_many([good]) == [None], "a refused batch was stored in part"

    def test_a_page_that_is_too_large_is_refused(self) -> None:
        good = f"{self.group}/good"
        with self.open() as store:
            with raises(PageTooLarge):
                store.put_many({good: b"page", f"{self.group}/huge": _Huge()})
            assert store.get_many([good]) == [None], "a refused batch was stored in part"

    # Hints, limits, addresses

    def test_prefetch_is_only_a_hint(self) -> None:
        pages = self.pages(40)
        keys = list(pages)
        with self.holding(pages) as store:
            for i, key in enumerate(keys):
                store.prefetch([*keys[i : i + 3], f"{self.group}/none", ""])
                assert store.get_many([key]) == [pages[key]]
            store.prefetch(keys * 50)
            store.delete_many(keys)
            assert store.get_many(keys) == [None] * len(keys)

    def test_a_peek_is_never_out_of_date(self) -> None:
        pages = self.pages(5)
        with self.open() as store:
            assert [store.peek(key) for key in pages] == [None] * 5
            store.put_many(pages)
            store.prefetch(list(pages))
            assert store.get_many(list(pages)) == list(pages.values())
            for key, page in pages.items():
                assert store.peek(key) in (None, page)
            store.delete_many(list(pages))
            assert [store.peek(key) for key in pages] == [None] * 5

    def test_a_peek_never_fails(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.holding({key: page}) as store:
            for bad in ("", self.too_long(store), f"{self.group}/ü"):
                assert store.peek(bad) is None
            assert store.get_many([key]) == [page]
        assert store.peek(key) is None, "a closed store has nothing in memory"

    def test_a_peek_makes_no_store_call(self) -> None:
        need(self.reopens, "pages belong to one connection")
        pages = self.pages(3)
        with self.open() as store, self.open() as other:
            need(store.capabilities.remote, "a page here needs no call to be in memory")
            store.put_many(pages)
            store.flush()
            assert [other.peek(key) for key in pages] == [None] * 3, "only the server can know"
            assert other.get_many(list(pages)) == list(pages.values()), "a peek is no answer"

    def test_what_is_read_ahead_comes_into_memory(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            need(store.capabilities.read_ahead >= len(page), "the store does not read ahead")
            store.put_many({key: page})
            store.flush()
            deadline = time.monotonic() + PATIENCE
            while store.peek(key) is None and time.monotonic() < deadline:
                store.prefetch([key])
                time.sleep(0.001)
            assert store.peek(key) == page, "a prefetched page never came into memory"
            assert type(store.peek(key)) is bytes
            assert store.get_many([key]) == [page]

    def test_a_page_on_its_way_does_not_outlive_its_delete(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            for turn in range(2 * self.turns):
                store.put_many({key: page})
                store.flush()
                store.prefetch([key])
                time.sleep(0.0002 * (turn % 5))  # still being fetched, or already cached
                store.delete_many([key])
                for _ in range(5):
                    assert store.peek(key) is None
                    assert store.get_many([key]) == [None]
                    time.sleep(0.0002)

    def test_capabilities_and_address(self) -> None:
        with self.open() as store:
            assert store.capabilities == store.capabilities
            assert store.capabilities.max_key_bytes >= 200, "too short for the keys of windows"
            assert store.capabilities.max_page_bytes >= 1 << 16
            assert "://" in store.url
            assert isinstance(store.origin, str)

    def test_a_ping_changes_nothing(self) -> None:
        with self.open() as store:
            page = {f"{self.group}/1": b"page"}
            store.put_many(page)
            store.flush()  # the first put creates a store
            store.ping()
            store.ping(write=True)
            assert store.get_many([*page, "ping/ping"]) == [b"page", None]
            assert isinstance(store.explain_missing(), str)

    def test_credentials_are_not_shown(self) -> None:
        with self.open() as store:
            shown = [store.url, repr(store), str(store)]
            try:
                store.get_many([""])
            except InvalidKey:
                shown.append(traceback.format_exc())
        try:
            store.put_many({f"{self.group}/x": b""})
        except StoreClosed:
            shown.append(traceback.format_exc())
        for secret in self.secrets:
            assert not any(secret in text for text in shown)

    # Durability

    def test_flushed_pages_are_seen_by_another_connection(self) -> None:
        need(self.reopens, "pages belong to one connection")
        pages = self.pages(10)
        with self.open() as store, self.open() as other:
            store.put_many(pages)
            store.flush()
            assert other.get_many(list(pages)) == list(pages.values())
            store.delete_many(list(pages)[:5])
            store.flush()
            with self.open() as third:
                assert third.get_many(list(pages)[:5]) == [None] * 5
                assert third.get_many(list(pages)[5:]) == list(pages.values())[5:]

    def test_compaction_changes_no_page(self) -> None:
        need(self.reopens, "pages belong to one connection")
        kept = self.pages(20)
        gone = [kept.popitem() for _ in range(5)]
        with self.open() as store, self.open() as other:
            store.put_many({**kept, **dict(gone)})
            store.delete_many([key for key, _ in gone])
            store.flush()
            store.compact()
            for each in (store, other):
                assert each.get_many([*kept]) == [*kept.values()]
            assert store.get_many([key for key, _ in gone]) == [None] * 5
            store.put_many(dict(gone))
            assert store.get_many([key for key, _ in gone]) == [page for _, page in gone]

    def test_closing_keeps_the_pages(self) -> None:
        need(self.reopens, "pages belong to one connection")
        pages = self.pages(10)
        with self.holding(pages, flushed=False):
            pass
        with self.open() as again:
            assert again.get_many(list(pages)) == list(pages.values())

    def test_pages_lie_behind_the_store_as_they_are(self) -> None:
        pages = self.pages(5)
        with self.holding(pages):
            assert [self.raw_get(key) for key in pages] == list(pages.values())

    def test_a_page_that_vanished_is_missing(self) -> None:
        pages = self.pages(5)
        lost, *kept = pages
        with self.holding(pages) as store:
            self.raw_delete(lost)
            assert store.get_many([lost, *kept]) == [None, *(pages[key] for key in kept)]

    # Closing

    def test_a_closed_store_says_so(self) -> None:
        pages = self.pages(1)
        with self.holding(pages, flushed=False) as store:
            pass
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get_many(list(pages)),
            lambda: asyncio.run(store.get_many_async(list(pages))),
            lambda: store.put_many(pages),
            lambda: store.delete_many(pages),
            lambda: list(store.keys(self.group)),
            store.ping,
            store.flush,
        ]
        for call in calls:
            with raises(StoreClosed):
                call()
        store.prefetch(list(pages))  # never fails

    # Threads, processes

    def test_threads(self) -> None:
        with self.open() as store:
            shared = self.pages(20)

            def work(number: int) -> None:
                for turn in range(self.turns):
                    mine = {f"{self.group}/{number}/{turn}/{i}": os.urandom(99) for i in range(4)}
                    gone = list(mine)[:2]
                    store.put_many(mine)
                    store.put_many(shared)
                    assert store.get_many(list(mine)) == list(mine.values())
                    store.delete_many(gone)
                    store.prefetch(list(mine))
                    assert store.get_many(list(mine)) == [None, None, *list(mine.values())[2:]]
                    assert [store.peek(key) for key in gone] == [None, None]
                    assert all(store.peek(key) in (None, shared[key]) for key in shared)

            with ThreadPoolExecutor(6) as pool:
                list(pool.map(work, range(6)))
            store.flush()
            assert store.get_many(list(shared)) == list(shared.values())
            if self.lists:
                assert sum(1 for _ in store.keys(f"{self.group}/")) == 20 + 6 * self.turns * 2

    def test_processes_write_at_once(self) -> None:
        need(self.processes, "pages belong to one process")
        with self.holding({f"{self.group}/parent": b"page"}, flushed=False) as store:

            def work(number: int) -> None:
                with self.open() as mine:
                    for i in range(20):
                        mine.put_many({f"{self.group}/{number}/{i}": bytes([number, i])})

            in_children([lambda n=n: work(n) for n in range(3)])  # type: ignore[misc]
            keys = [f"{self.group}/{n}/{i}" for n in range(3) for i in range(20)]
            assert store.get_many(keys) == [bytes([n, i]) for n in range(3) for i in range(20)]
            assert store.get_many([f"{self.group}/parent"]) == [b"page"]

    def test_a_fork_may_use_the_open_store(self) -> None:
        pages = self.pages(10)
        stop = threading.Event()
        with self.holding(pages) as store:
            assert store.get_many(list(pages)) == list(pages.values())

            def keep_busy() -> None:
                while not stop.is_set():
                    store.put_many({f"{self.group}/busy": b"b" * 5000})
                    store.get_many(list(pages))
                    time.sleep(0)

            def child() -> None:
                assert store.get_many(list(pages)) == list(pages.values())
                store.put_many({f"{self.group}/child": b"of a fork"})
                store.prefetch(list(pages))
                assert all(store.peek(key) in (None, pages[key]) for key in pages)
                store.flush()
                assert store.get_many([f"{self.group}/child"]) == [b"of a fork"]

            busy = threading.Thread(target=keep_busy)
            busy.start()
            try:
                for _ in range(self.forks):
                    in_children([child])
            finally:
                stop.set()
                busy.join()
            assert store.get_many(list(pages)) == list(pages.values())
            if self.processes:
                assert store.get_many([f"{self.group}/child"]) == [b"of a fork"]

    def test_an_open_store_can_be_sent(self) -> None:
        need(self.pickles, "the store belongs to one process")
        pages = self.pages(10, size=10_000)
        with self.holding(pages) as store:
            with sent(store) as received:
                assert received.url == store.url
                assert received.capabilities == store.capabilities
                assert received.get_many(list(pages)) == list(pages.values())
                received.delete_many(pages)
            if self.sees_deletes:
                assert store.get_many(list(pages)) == [None] * 10
            with self.open() as another:
                assert another.get_many(list(pages)) == [None] * 10


class _Huge(bytes):
    """A page that claims a length that no test could keep in memory."""

    def __len__(self) -> int:
        return 1 << 40


def need(met: bool, why_not: str) -> None:
    """Skip a test, with the reason, if the store does not meet its requirement."""
    if not met:
        raise SkipTest(why_not)


#: Fails unless its block raises an error; with it, the tests do not need pytest.
raises = TestCase().assertRaises


def sent(store: PageStore) -> PageStore:
    """Return the store as another process would receive it, which must not include pages."""
    data = ForkingPickler.dumps(store)
    assert len(data) < 10_000, "pages were sent along"
    received: PageStore = ForkingPickler.loads(data)
    return received


def in_children(works: list[Callable[[], None]]) -> None:
    """Do each piece of work in a fork of this process, in parallel; all of them must succeed."""
    need(hasattr(os, "fork"), "this system cannot fork")

    def saying_where_it_hangs(work: Callable[[], None]) -> None:
        faulthandler.dump_traceback_later(0.9 * PATIENCE, file=2)
        work()

    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=saying_where_it_hangs, args=[work]) for work in works]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE)
        child.kill()  # if it hangs
        child.join()
    statuses = [child.exitcode for child in children]
    assert statuses == [0] * len(works), f"children failed or hung: {statuses}"
