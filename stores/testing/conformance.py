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
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from unittest import SkipTest
from uuid import uuid4

from stores.base import PageStore
from stores.errors import InvalidKey, PageTooLarge, StoreClosed, UnsupportedOperation

PATIENCE = 30
"""Seconds before a child process counts as hung, or a page as never read ahead."""


class PageStoreConformance:
    """Subclass it and override ``open``."""

    reopens = True
    """Pages survive ``close`` and are seen by a second ``open()``."""
    processes = True
    """Another process sees the pages after ``flush``."""
    pickles = True
    """An open store can be sent to another process."""
    lists = True
    """The server can list its keys; where it cannot, ``keys`` raises ``UnsupportedOperation``."""
    secrets: tuple[str, ...] = ()
    """User names and passwords that must not be shown."""

    def open(self) -> PageStore:
        """A store on the pages of this test."""
        raise NotImplementedError

    def raw_get(self, key: str) -> bytes | None:
        """The page as it lies behind the store."""
        raise SkipTest("no raw access")

    def raw_delete(self, key: str) -> None:
        """Take the page away behind the store's back."""
        raise SkipTest("no raw access")

    def assert_keys(self, store: PageStore, prefix: str, expected: Iterable[str]) -> None:
        """The store lists exactly these keys, if it lists any."""
        if self.lists:
            assert sorted(store.keys(prefix)) == sorted(expected)

    @property
    def group(self) -> str:
        """A key group of this test's own."""
        return self.__dict__.setdefault("_group", f"test-{uuid4().hex[:12]}")  # type: ignore[no-any-return]

    def pages(self, number: int, size: int = 100) -> dict[str, bytes]:
        """Pages that differ, in no sorted order of keys."""
        order = sorted(range(number), key=lambda i: (i * 7919) % 1009)
        return {f"{self.group}/{i:04d}": bytes([i % 256]) * size for i in order}

    # Round trips

    def test_what_was_put_is_got(self) -> None:
        pages = self.pages(50)
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            for key, page in pages.items():
                assert store.get_many([key]) == [page]

    def test_pages_come_in_the_order_of_the_keys(self) -> None:
        pages = self.pages(20)
        with self.open() as store:
            store.put_many(pages)
            for keys in (sorted(pages), sorted(pages, reverse=True), list(pages)):
                assert store.get_many(keys) == [pages[key] for key in keys]

    def test_a_key_may_be_asked_twice(self) -> None:
        (key, page), (other, second) = self.pages(2).items()
        with self.open() as store:
            store.put_many({key: page, other: second})
            assert store.get_many([key, other, key]) == [page, second, page]

    def test_a_missing_page_is_none(self) -> None:
        pages = self.pages(2)
        first, last = pages
        with self.open() as store:
            store.put_many(pages)
            asked = [f"{self.group}/no", first, f"{self.group}/none", last]
            assert store.get_many(asked) == [None, pages[first], None, pages[last]]

    def test_a_missing_page_can_appear(self) -> None:
        key = f"{self.group}/late"
        with self.open() as store:
            assert store.get_many([key]) == [None]
            store.put_many({key: b"here"})
            assert store.get_many([key]) == [b"here"]

    def test_empty_batches_do_nothing(self) -> None:
        with self.open() as store:
            store.put_many({})
            store.delete_many([])
            store.prefetch([])
            assert store.get_many([]) == []

    def test_a_page_can_be_put_again(self) -> None:
        pages = self.pages(5)
        with self.open() as store:
            store.put_many(pages)
            store.put_many(pages)
            store.flush()
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            self.assert_keys(store, f"{self.group}/", pages)

    def test_every_byte_is_kept(self) -> None:
        every = bytes(range(256))
        pages = {
            f"{self.group}/{i}": page
            for i, page in enumerate([every, every[::-1], b"\0", b"\0\0a\0", b"\xff\xfe", b"\r\n"])
        }
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            found = store.get_many(list(pages))
            assert found == list(pages.values())
            assert all(type(page) is bytes for page in found)

    def test_an_empty_page_is_a_page(self) -> None:
        key = f"{self.group}/empty"
        with self.open() as store:
            store.put_many({key: b""})
            store.flush()
            assert store.get_many([key]) == [b""]

    def test_pages_of_many_sizes(self) -> None:
        sizes = [1, 4079, 4080, 4081, 4096, 65_535, 65_536, 1 << 20, 4 << 20]
        with self.open() as store:
            limit = store.capabilities.max_page_bytes
            pages = {f"{self.group}/{n}": os.urandom(n) for n in sizes if n <= limit}
            if limit <= 64 << 20:
                pages[f"{self.group}/limit"] = os.urandom(limit)
            store.put_many(pages)
            store.flush()
            assert store.get_many(list(pages)) == list(pages.values())

    def test_a_large_batch(self) -> None:
        pages = self.pages(3000, size=2000)
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(list(pages)) == list(pages.values())
            self.assert_keys(store, self.group, pages)
            store.delete_many(pages)
            self.assert_keys(store, self.group, [])

    # Deletes

    def test_a_deleted_page_is_gone(self) -> None:
        pages = self.pages(10)
        gone = list(pages)[:5]
        with self.open() as store:
            store.put_many(pages)
            assert store.get_many(gone) == [pages[key] for key in gone]
            store.delete_many(iter(gone))
            assert store.get_many(gone) == [None] * 5
            store.flush()
            assert store.get_many(gone) == [None] * 5
            self.assert_keys(store, f"{self.group}/", set(pages) - set(gone))
            assert store.get_many(list(pages)[5:]) == list(pages.values())[5:]

    def test_deleting_again_is_harmless(self) -> None:
        pages = self.pages(3)
        with self.open() as store:
            store.delete_many(pages)
            store.put_many(pages)
            store.delete_many(pages)
            store.delete_many(pages)
            store.flush()
            assert store.get_many(list(pages)) == [None] * 3

    def test_the_last_of_put_and_delete_counts(self) -> None:
        key, page = f"{self.group}/x", b"page"
        with self.open() as store:
            for _ in range(20):
                store.put_many({key: page})
                store.delete_many([key])
            assert store.get_many([key]) == [None]
            store.put_many({key: page})
            store.flush()
            store.delete_many([key])
            store.put_many({key: page})
            assert store.get_many([key]) == [page]
            store.flush()
            assert store.get_many([key]) == [page]

    # Keys

    def test_a_store_lists_its_keys_or_says_that_it_cannot(self) -> None:
        with self.open() as store:
            if self.lists:
                assert list(store.keys(self.group)) == []
                return
            with raises(UnsupportedOperation):
                list(store.keys(self.group))

    def test_keys_by_prefix(self) -> None:
        if not self.lists:
            raise SkipTest("the server cannot list its keys")
        group = self.group
        keys = [f"{group}/0/a", f"{group}/0/b", f"{group}/1/a", f"{group}x/0/a"]
        with self.open() as store:
            store.put_many(dict.fromkeys(keys, b"page"))
            assert sorted(store.keys(f"{group}/0/")) == keys[:2]
            assert sorted(store.keys(f"{group}/")) == keys[:3]
            assert sorted(store.keys(group)) == sorted(keys)
            assert list(store.keys(f"{group}/2")) == []
            assert set(keys) <= set(store.keys())

    def test_keys_of_odd_characters(self) -> None:
        odd = [
            f"{self.group}/{text}" for text in ("*", "?", "[a]", "a b", "{t}", "\\", "%2F", "a/b/")
        ]
        odd += [f"{self.group}-{text}/x" for text in ("{", "}", "{}", "*", "a:b")]
        odd += [f"{self.group}-no-slash"]
        pages = {key: key.encode() for key in odd}
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            assert store.get_many(odd) == list(pages.values())
            if not self.lists:
                return
            for key in odd:
                assert key in list(store.keys(key))
            assert sorted(store.keys(f"{self.group}/*")) == [f"{self.group}/*"]
            assert sorted(store.keys(self.group)) == sorted(odd)

    def test_keys_can_be_swept(self) -> None:
        if not self.lists:
            raise SkipTest("the server cannot list its keys")
        pages = self.pages(1100, size=10)
        with self.open() as store:
            store.put_many(pages)
            store.flush()
            for key in store.keys(f"{self.group}/"):
                store.delete_many([key])
            assert list(store.keys(f"{self.group}/")) == []

    def test_the_longest_key(self) -> None:
        with self.open() as store:
            limit = store.capabilities.max_key_bytes
            longest = f"{self.group}/".ljust(limit, "k")
            store.put_many({longest: b"page"})
            store.flush()
            assert store.get_many([longest]) == [b"page"]

    def test_a_key_that_cannot_be_stored_is_refused(self) -> None:
        good = f"{self.group}/good"
        with self.open() as store:
            too_long = f"{self.group}/".ljust(store.capabilities.max_key_bytes + 1, "k")
            for bad in ("", too_long, f"{self.group}/ü", f"{self.group}/\u2028"):
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
        with self.open() as store:
            store.put_many(pages)
            store.flush()
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
        (key,) = self.pages(1)
        store = self.open()
        too_long = f"{self.group}/".ljust(store.capabilities.max_key_bytes + 1, "k")
        for bad in ("", too_long, f"{self.group}/ü"):
            assert store.peek(bad) is None
        store.put_many(self.pages(1))
        store.flush()
        assert store.get_many([key]) == [self.pages(1)[key]]
        store.close()
        assert store.peek(key) is None, "a closed store has nothing at hand"

    def test_a_peek_makes_no_store_call(self) -> None:
        if not self.reopens:
            raise SkipTest("pages belong to one connection")
        pages = self.pages(3)
        with self.open() as store, self.open() as other:
            if not store.capabilities.remote:
                raise SkipTest("a page here needs no call to be at hand")
            store.put_many(pages)
            store.flush()
            assert [other.peek(key) for key in pages] == [None] * 3, "only the server can know"
            assert other.get_many(list(pages)) == list(pages.values()), "a peek is no answer"

    def test_what_is_read_ahead_comes_to_hand(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            if store.capabilities.read_ahead < len(page):
                raise SkipTest("the store does not read ahead")
            store.put_many({key: page})
            store.flush()
            assert comes_to_hand(store, key), "a prefetched page never came to hand"
            assert store.peek(key) == page and type(store.peek(key)) is bytes
            assert store.get_many([key]) == [page]

    def test_a_page_on_its_way_does_not_outlive_its_delete(self) -> None:
        ((key, page),) = self.pages(1).items()
        with self.open() as store:
            for turn in range(50):
                store.put_many({key: page})
                store.flush()
                store.prefetch([key])
                time.sleep(0.0002 * (turn % 5))  # under way, or landed
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


class _Huge(bytes):
    """A page that says it has a length that no test could hold."""

    def __len__(self) -> int:
        return 1 << 40


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """What happens inside must raise this; AssertionError otherwise. It spares users pytest."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def comes_to_hand(store: PageStore, key: str) -> bool:
    """Whether a page is at hand some time after it was prefetched."""
    deadline = time.monotonic() + PATIENCE
    while store.peek(key) is None and time.monotonic() < deadline:
        store.prefetch([key])
        time.sleep(0.001)
    return store.peek(key) is not None


def in_children(works: list[Callable[[], None]]) -> None:
    """Do each piece of work in a fork of this process, all at once; they must all succeed."""
    if not hasattr(os, "fork"):
        raise SkipTest("this system cannot fork")
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)  # a child that hangs dies
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0] * len(works), f"children failed or hung: {statuses}"
