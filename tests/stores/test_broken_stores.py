"""Each of these stores is broken in one way, and the conformance suite has a test that says so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any
from unittest import SkipTest
from uuid import uuid4

import pytest

from stores.base import Capabilities, PageStore, WrapperStore, check_keys
from stores.errors import StoreClosed
from stores.memory import MemoryStore
from stores.testing.conformance import PageStoreConformance


class Broken(WrapperStore):
    """Right in everything that a subclass does not break."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.memory: Any = store

    @property
    def pages(self) -> dict[str, bytes]:
        return self.memory._pages  # type: ignore[no-any-return]


class LosesAWrite(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(dict(list(pages.items())[:40]))


class SortsTheAnswer(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return super().get_many(sorted(keys))


class AnswersEachKeyOnce(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return super().get_many(list(dict.fromkeys(keys)))


class LeavesOutTheMissing(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [page for page in super().get_many(keys) if page is not None]


class RemembersWhatWasMissing(Broken):
    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.missing: set[str] = set()

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = super().get_many(keys)
        self.missing |= {key for key, page in zip(keys, found, strict=True) if page is None}
        return [
            None if key in self.missing else page for key, page in zip(keys, found, strict=True)
        ]


class ServesDeletedPages(Broken):
    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.cache: dict[str, bytes] = {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        for key, page in zip(keys, super().get_many(keys), strict=True):
            if page is not None:
                self.cache[key] = page
        return [self.cache.get(key) for key in keys]


class NeverDeletes(Broken):
    def delete_many(self, keys: Iterable[str]) -> None:
        super().get_many(list(keys))


class DeletesTheGroup(Broken):
    def delete_many(self, keys: Iterable[str]) -> None:
        groups = {key.partition("/")[0] for key in keys}
        super().delete_many([key for key in self.pages if key.partition("/")[0] in groups])


class FailsToDeleteTwice(Broken):
    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self.pages[key]


class DeletesAfterPuts(Broken):
    """A buffer that forgets the order of a put and a delete of one key."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.late: list[str] = []

    def delete_many(self, keys: Iterable[str]) -> None:
        self.late += keys

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.flush()
        return super().get_many(keys)

    def flush(self) -> None:
        super().delete_many(self.late)
        self.late = []


class CutsTrailingZeros(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many({key: page.rstrip(b"\0") for key, page in pages.items()})


class AnswersWithViews(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = super().get_many(keys)
        return [None if page is None else bytearray(page) for page in found]  # type: ignore[misc]


class TakesEmptyForMissing(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [page or None for page in super().get_many(keys)]


class CutsLargePages(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many({key: page[: 1 << 20] for key, page in pages.items()})


class IgnoresThePrefix(Broken):
    def keys(self, prefix: str = "") -> Iterator[str]:
        return super().keys()


class TakesThePrefixForAPattern(Broken):
    def keys(self, prefix: str = "") -> Iterator[str]:
        return (key for key in self.store.keys("") if fnmatchcase(key, prefix + "*"))


class ListsWhileItChanges(Broken):
    def keys(self, prefix: str = "") -> Iterator[str]:
        return (key for key in self.pages if key.startswith(prefix))


class StoresAnyKey(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.pages.update(pages)


class StoresHalfOfABadBatch(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        for key, page in pages.items():
            super().put_many({key: page})


class ShowsThePassword(Broken):
    def __repr__(self) -> str:
        return "Broken(redis://user:hunter2@host)"


class WritesOnlyAtClose(Broken):
    """A buffer whose flush does nothing."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.waiting: dict[str, bytes] = {}

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.waiting.update(pages)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = super().get_many(keys)
        return [self.waiting.get(key, page) for key, page in zip(keys, found, strict=True)]

    def close(self) -> None:
        super().put_many(self.waiting)
        super().close()


class LosesTheBufferAtClose(WritesOnlyAtClose):
    def flush(self) -> None:
        self.store.put_many(self.waiting)

    def close(self) -> None:
        self.store.close()


class WrapsThePages(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many({key: b"!" + page for key, page in pages.items()})

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [page and page[1:] for page in super().get_many(keys)]


class HidesALoss(ServesDeletedPages):
    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        super().delete_many(keys)
        for key in keys:
            self.cache.pop(key, None)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(pages)
        self.cache.update(pages)


class WorksWhenClosed(Broken):
    def close(self) -> None:
        self.flush()


class CannotBeClosedTwice(Broken):
    def close(self) -> None:
        self.flush()
        super().close()


class MixesThreads(Broken):
    """Reads, waits, and writes back: what another thread did meanwhile is lost."""

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        everything = dict(self.pages)
        time.sleep(0.0005)
        everything.update(pages)
        self.memory._pages = everything


class HoldsALockInTheFork(Broken):
    """A lock that another thread holds at the fork is never released in the child."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.lock = threading.Lock()

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self.lock:
            time.sleep(0.002)
            return super().get_many(keys)


class RefusesAFork(Broken):
    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.process = os.getpid()

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if os.getpid() != self.process:
            raise StoreClosed("opened in another process")
        return super().get_many(keys)


class SendsItsPagesAlong(Broken):
    def __reduce__(self) -> tuple[Any, ...]:
        return _with_pages, (type(self), self.memory._name, dict(self.pages))


def _with_pages(kind: type[Broken], name: str, pages: dict[str, bytes]) -> Broken:
    store = kind(MemoryStore(name))
    store.put_many(pages)
    return store


class LosesItsAddress(Broken):
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (MemoryStore("another"),)


class FailsOnAHint(Broken):
    def prefetch(self, keys: Sequence[str]) -> None:
        self.store.get_many(keys)


class PeeksAtDeletedPages(Broken):
    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.seen: dict[str, bytes] = {}

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(pages)
        self.seen.update(pages)

    def peek(self, key: str) -> bytes | None:
        return self.seen.get(key)


class PeeksOnlyAtGoodKeys(Broken):
    def peek(self, key: str) -> bytes | None:
        check_keys([key], self.capabilities)
        return None


class PeeksByAStoreCall(Broken):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, remote=True)

    def peek(self, key: str) -> bytes | None:
        with suppress(Exception):
            return self.store.get_many([key])[0]
        return None


class ReadsNothingAhead(Broken):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, read_ahead=1 << 20)


class KeepsWhatWasOnItsWay(Broken):
    """A read-ahead that lands after the delete of its page."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.coming: dict[str, bytes] = {}
        self.cache: dict[str, bytes] = {}

    def prefetch(self, keys: Sequence[str]) -> None:
        self.coming.update({key: self.pages[key] for key in keys if key in self.pages})

    def peek(self, key: str) -> bytes | None:
        self.cache.update(self.coming)
        self.coming = {}
        return self.cache.get(key)

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        super().delete_many(keys)
        for key in keys:
            self.cache.pop(key, None)

    def close(self) -> None:
        self.coming, self.cache = {}, {}
        super().close()


class FailsOnAnEmptyBatch(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many({max(pages): pages[max(pages)], **pages})


class HasNoLimits(Broken):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, shared=False, max_key_bytes=64, max_page_bytes=1 << 20)


CAUGHT_BY = {
    LosesAWrite: "test_what_was_put_is_got",
    SortsTheAnswer: "test_pages_come_in_the_order_of_the_keys",
    AnswersEachKeyOnce: "test_pages_come_in_the_order_of_the_keys",
    LeavesOutTheMissing: "test_pages_come_in_the_order_of_the_keys",
    RemembersWhatWasMissing: "test_puts_and_deletes_in_any_order",
    FailsOnAnEmptyBatch: "test_puts_and_deletes_in_any_order",
    ServesDeletedPages: "test_puts_and_deletes_in_any_order",
    NeverDeletes: "test_puts_and_deletes_in_any_order",
    DeletesTheGroup: "test_puts_and_deletes_in_any_order",
    FailsToDeleteTwice: "test_puts_and_deletes_in_any_order",
    DeletesAfterPuts: "test_puts_and_deletes_in_any_order",
    CutsTrailingZeros: "test_every_byte_is_kept",
    AnswersWithViews: "test_every_byte_is_kept",
    TakesEmptyForMissing: "test_every_byte_is_kept",
    CutsLargePages: "test_pages_of_many_sizes",
    IgnoresThePrefix: "test_keys_by_prefix",
    TakesThePrefixForAPattern: "test_keys_by_prefix",
    ListsWhileItChanges: "test_keys_can_be_swept",
    StoresAnyKey: "test_a_key_that_cannot_be_stored_is_refused",
    StoresHalfOfABadBatch: "test_a_page_that_is_too_large_is_refused",
    FailsOnAHint: "test_prefetch_is_only_a_hint",
    PeeksAtDeletedPages: "test_a_peek_is_never_out_of_date",
    PeeksOnlyAtGoodKeys: "test_a_peek_never_fails",
    PeeksByAStoreCall: "test_a_peek_makes_no_store_call",
    ReadsNothingAhead: "test_what_is_read_ahead_comes_into_memory",
    KeepsWhatWasOnItsWay: "test_a_page_on_its_way_does_not_outlive_its_delete",
    HasNoLimits: "test_capabilities_and_address",
    ShowsThePassword: "test_credentials_are_not_shown",
    WritesOnlyAtClose: "test_flushed_pages_are_seen_by_another_connection",
    LosesTheBufferAtClose: "test_closing_keeps_the_pages",
    WrapsThePages: "test_pages_lie_behind_the_store_as_they_are",
    HidesALoss: "test_a_page_that_vanished_is_missing",
    WorksWhenClosed: "test_a_closed_store_says_so",
    CannotBeClosedTwice: "test_a_closed_store_says_so",
    MixesThreads: "test_threads",
    HoldsALockInTheFork: "test_a_fork_may_use_the_open_store",
    RefusesAFork: "test_a_fork_may_use_the_open_store",
    SendsItsPagesAlong: "test_an_open_store_can_be_sent",
    LosesItsAddress: "test_an_open_store_can_be_sent",
}


def suite_for(kind: type[Broken]) -> PageStoreConformance:
    name = uuid4().hex

    class Suite(PageStoreConformance):
        processes = False
        secrets = ("hunter2",)

        def open(self) -> PageStore:
            return kind(MemoryStore(name))

        def raw_get(self, key: str) -> bytes | None:
            return MemoryStore(name)._pages[key]

        def raw_delete(self, key: str) -> None:
            del MemoryStore(name)._pages[key]

    return Suite()


@pytest.mark.parametrize("kind", CAUGHT_BY, ids=lambda kind: kind.__name__)
def test_a_broken_store_is_caught(
    kind: type[Broken], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stores.testing.conformance.PATIENCE", 1)
    with pytest.raises(Exception) as caught:
        getattr(suite_for(kind), CAUGHT_BY[kind])()
    assert not isinstance(caught.value, SkipTest)


#: These are broken in what no other test of the suite looks at.
BY_ONE_TEST = (PeeksOnlyAtGoodKeys, PeeksByAStoreCall, ReadsNothingAhead, KeepsWhatWasOnItsWay)


@pytest.mark.parametrize("kind", BY_ONE_TEST, ids=lambda kind: kind.__name__)
def test_no_other_test_would_catch_it(kind: type[Broken]) -> None:
    for name in dir(PageStoreConformance):
        if name.startswith("test_") and name != CAUGHT_BY[kind]:
            with suppress(SkipTest):
                getattr(suite_for(kind), name)()


@pytest.mark.parametrize("name", sorted(set(CAUGHT_BY.values())))
def test_the_store_under_the_broken_ones_is_right(name: str) -> None:
    getattr(suite_for(Broken), name)()
