"""What every page store must do, as tests to subclass.

    class TestMyStore(PageStoreConformance):
        def open(self):
            return MyStore(...)

pytest collects the class. Each test opens the store by ``open()``, some of them twice, and both
must see the same pages; keys begin with a group of the test's own, so that a server can be shared.
The attributes say what does not apply, and the ``raw`` hooks let the tests look behind the store.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from unittest import SkipTest

from stores.errors import StoreClosed
from stores.testing.conformance_hooks import in_children, raises
from stores.testing.conformance_pages import PageTests


class PageStoreConformance(PageTests):
    """Subclass it and override ``open``."""

    # Durability

    def test_flushed_pages_are_seen_by_another_connection(self) -> None:
        if not self.reopens:
            raise SkipTest("pages belong to one connection")
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

    def test_closing_keeps_the_pages(self) -> None:
        if not self.reopens:
            raise SkipTest("pages belong to one connection")
        pages = self.pages(10)
        store = self.open()
        store.put_many(pages)
        store.close()
        with self.open() as again:
            assert again.get_many(list(pages)) == list(pages.values())

    def test_pages_lie_behind_the_store_as_they_are(self) -> None:
        pages = self.pages(5)
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            assert [self.raw_get(key) for key in pages] == list(pages.values())

    def test_a_page_that_vanished_is_missing(self) -> None:
        pages = self.pages(5)
        lost, *kept = pages
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            self.raw_delete(lost)
            assert store.get_many([lost, *kept]) == [None, *(pages[key] for key in kept)]

    # Closing

    def test_a_closed_store_says_so(self) -> None:
        pages = self.pages(1)
        store = self.open()
        store.put_many(pages)
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get_many(list(pages)),
            lambda: store.put_many(pages),
            lambda: store.delete_many(pages),
            lambda: list(store.keys(self.group)),
            store.flush,
        ]
        for call in calls:
            with raises(StoreClosed):
                call()
        store.prefetch(list(pages))  # never fails

    def test_leaving_the_context_closes(self) -> None:
        with self.open() as store:
            store.put_many(self.pages(1))
        with raises(StoreClosed):
            store.put_many(self.pages(1))

    # Threads, processes

    def test_threads(self) -> None:
        errors: list[BaseException] = []
        with self.open() as store:
            shared = self.pages(20)

            def work(number: int) -> None:
                try:
                    for turn in range(30):
                        mine = {
                            f"{self.group}/{number}/{turn}/{i}": os.urandom(99) for i in range(4)
                        }
                        store.put_many(mine)
                        store.put_many(shared)
                        assert store.get_many(list(mine)) == list(mine.values())
                        store.delete_many(list(mine)[:2])
                        store.prefetch(list(mine))
                        assert store.get_many(list(mine)) == [None, None, *list(mine.values())[2:]]
                        assert [store.peek(key) for key in list(mine)[:2]] == [None, None]
                        assert all(store.peek(key) in (None, shared[key]) for key in shared)
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=work, args=[i]) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors, errors
            store.flush()
            assert store.get_many(list(shared)) == list(shared.values())
            if self.lists:
                assert sum(1 for _ in store.keys(f"{self.group}/")) == 20 + 6 * 30 * 2

    def test_processes_write_at_once(self) -> None:
        if not self.processes:
            raise SkipTest("pages belong to one process")
        with self.open() as store:
            store.put_many({f"{self.group}/parent": b"page"})

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
        with self.open() as store:
            store.put_many(pages)
            store.flush()
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
                for _ in range(5):
                    in_children([child])
            finally:
                stop.set()
                busy.join()
            assert store.get_many(list(pages)) == list(pages.values())
            if self.processes:
                assert store.get_many([f"{self.group}/child"]) == [b"of a fork"]

    def test_an_open_store_can_be_sent(self) -> None:
        if not self.pickles:
            raise SkipTest("the store belongs to one process")
        pages = self.pages(10, size=10_000)
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            sent = pickle.dumps(store)
            assert len(sent) < 10_000, "pages were sent along"
            with pickle.loads(sent) as received:
                assert received.url == store.url
                assert received.capabilities == store.capabilities
                assert received.get_many(list(pages)) == list(pages.values())
                received.delete_many(pages)
            assert store.get_many(list(pages)) == [None] * 10
