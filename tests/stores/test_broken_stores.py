"""Each of these stores is broken in one way, and the conformance suite has a test that says so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
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
        #: Pages that were seen or wait, and keys, for those who keep some.
        self.kept: dict[str, bytes] = {}
        self.names: list[str] = []

    @property
    def pages(self) -> dict[str, bytes]:
        return self.memory._pages  # type: ignore[no-any-return]


class RemembersWhatWasMissing(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = dict(zip(keys, super().get_many(keys), strict=True))
        self.names += [key for key, page in found.items() if page is None]
        return [None if key in self.names else found[key] for key in keys]


class ServesDeletedPages(Broken):
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = zip(keys, super().get_many(keys), strict=True)
        self.kept |= {key: page for key, page in found if page is not None}
        return [self.kept.get(key) for key in keys]


class FailsToDeleteTwice(Broken):
    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self.pages[key]


class DeletesAfterPuts(Broken):
    """A buffer that forgets the order of a put and a delete of one key."""

    def delete_many(self, keys: Iterable[str]) -> None:
        self.names += keys

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.flush()
        return super().get_many(keys)

    def flush(self) -> None:
        super().delete_many(self.names)
        self.names = []


class StoresHalfOfABadBatch(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        for key, page in pages.items():
            super().put_many({key: page})


class WritesOnlyAtClose(Broken):
    """A buffer whose flush does nothing."""

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.kept.update(pages)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        found = super().get_many(keys)
        return [self.kept.get(key, page) for key, page in zip(keys, found, strict=True)]

    def close(self) -> None:
        super().put_many(self.kept)
        super().close()


class LosesTheBufferAtClose(WritesOnlyAtClose):
    def flush(self) -> None:
        self.store.put_many(self.kept)

    def close(self) -> None:
        self.store.close()


class WrapsThePages(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many({key: b"!" + page for key, page in pages.items()})

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [page and page[1:] for page in super().get_many(keys)]


class HidesALoss(ServesDeletedPages):
    def delete_many(self, keys: Iterable[str]) -> None:
        super().delete_many(keys := list(keys))
        for key in keys:
            self.kept.pop(key, None)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(pages)
        self.kept.update(pages)


class CannotBeClosedTwice(Broken):
    def close(self) -> None:
        self.flush()
        super().close()


class MixesThreads(Broken):
    """Reads, waits, and writes back: what another thread did meanwhile is lost."""

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        everything = dict(self.pages)
        time.sleep(0.0005)
        self.memory._pages = everything | dict(pages)


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


class PeeksAtDeletedPages(Broken):
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        super().put_many(pages)
        self.kept.update(pages)

    def peek(self, key: str) -> bytes | None:
        return self.kept.get(key)


class PeeksByAStoreCall(Broken):
    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, remote=True)

    def peek(self, key: str) -> bytes | None:
        with suppress(Exception):
            return self.store.get_many([key])[0]
        return None


class KeepsWhatWasOnItsWay(Broken):
    """A read-ahead that lands after the delete of its page."""

    coming: Mapping[str, bytes] = MappingProxyType({})

    def prefetch(self, keys: Sequence[str]) -> None:
        found = {key: self.pages[key] for key in keys if key in self.pages}
        self.coming = {**self.coming, **found}

    def peek(self, key: str) -> bytes | None:
        self.kept |= self.coming
        self.coming = {}
        return self.kept.get(key)

    def delete_many(self, keys: Iterable[str]) -> None:
        super().delete_many(keys := list(keys))
        for key in keys:
            self.kept.pop(key, None)

    def close(self) -> None:
        self.coming, self.kept = {}, {}
        super().close()


def group_of(key: str) -> str:
    return key.partition("/")[0]


#: Stores that are wrong in one function or property.
SIMPLE: dict[str, dict[str, Any]] = {
    "LosesAWrite": {
        "put_many": lambda it, pages: it.store.put_many(dict(list(pages.items())[:40]))
    },
    "SortsTheAnswer": {"get_many": lambda it, keys: it.store.get_many(sorted(keys))},
    "AnswersEachKeyOnce": {"get_many": lambda it, keys: it.store.get_many([*dict.fromkeys(keys)])},
    "LeavesOutTheMissing": {
        "get_many": lambda it, keys: [p for p in it.store.get_many(keys) if p is not None]
    },
    "NeverDeletes": {"delete_many": lambda it, keys: it.store.get_many(list(keys)) and None},
    "DeletesTheGroup": {
        "delete_many": lambda it, keys: it.store.delete_many(
            [each for key in list(keys) for each in [*it.pages] if group_of(each) == group_of(key)]
        )
    },
    "CutsTrailingZeros": {
        "put_many": lambda it, pages: it.store.put_many(
            {key: page.rstrip(b"\0") for key, page in pages.items()}
        )
    },
    "AnswersWithViews": {
        "get_many": lambda it, keys: [p and bytearray(p) for p in it.store.get_many(keys)]
    },
    "TakesEmptyForMissing": {
        "get_many": lambda it, keys: [p or None for p in it.store.get_many(keys)]
    },
    "CutsLargePages": {
        "put_many": lambda it, pages: it.store.put_many(
            {key: page[: 1 << 20] for key, page in pages.items()}
        )
    },
    "IgnoresThePrefix": {"keys": lambda it, prefix="": it.store.keys()},
    "TakesThePrefixForAPattern": {
        "keys": lambda it, prefix="": (k for k in it.store.keys("") if fnmatchcase(k, prefix + "*"))
    },
    "ListsWhileItChanges": {
        "keys": lambda it, prefix="": (key for key in it.pages if key.startswith(prefix))
    },
    "StoresAnyKey": {"put_many": lambda it, pages: it.pages.update(pages)},
    "ShowsThePassword": {"__repr__": lambda it: "Broken(redis://user:hunter2@host)"},
    "WorksWhenClosed": {"close": lambda it: it.flush()},
    "FailsOnAHint": {"prefetch": lambda it, keys: it.store.get_many(keys) and None},
    "PeeksOnlyAtGoodKeys": {"peek": lambda it, key: check_keys([key], it.capabilities)},
    "ReadsNothingAhead": {
        "capabilities": property(lambda it: replace(it.store.capabilities, read_ahead=1 << 20))
    },
    "FailsOnAnEmptyBatch": {
        "put_many": lambda it, pages: it.store.put_many({max(pages): pages[max(pages)], **pages})
    },
    "HasNoLimits": {
        "capabilities": Capabilities(
            durable=False, shared=False, max_key_bytes=64, max_page_bytes=1 << 20
        )
    },
}

#: The stores that each test of the suite catches.
CAUGHT = {
    "test_what_was_put_is_got": "LosesAWrite",
    "test_pages_come_in_the_order_of_the_keys": (
        "SortsTheAnswer AnswersEachKeyOnce LeavesOutTheMissing"
    ),
    "test_puts_and_deletes_in_any_order": (
        "RemembersWhatWasMissing FailsOnAnEmptyBatch ServesDeletedPages NeverDeletes "
        "DeletesTheGroup FailsToDeleteTwice DeletesAfterPuts"
    ),
    "test_every_byte_is_kept": "CutsTrailingZeros AnswersWithViews TakesEmptyForMissing",
    "test_pages_of_many_sizes": "CutsLargePages",
    "test_keys_by_prefix": "IgnoresThePrefix TakesThePrefixForAPattern",
    "test_keys_can_be_swept": "ListsWhileItChanges",
    "test_a_key_that_cannot_be_stored_is_refused": "StoresAnyKey",
    "test_a_page_that_is_too_large_is_refused": "StoresHalfOfABadBatch",
    "test_prefetch_is_only_a_hint": "FailsOnAHint",
    "test_a_peek_is_never_out_of_date": "PeeksAtDeletedPages",
    "test_a_peek_never_fails": "PeeksOnlyAtGoodKeys",
    "test_a_peek_makes_no_store_call": "PeeksByAStoreCall",
    "test_what_is_read_ahead_comes_into_memory": "ReadsNothingAhead",
    "test_a_page_on_its_way_does_not_outlive_its_delete": "KeepsWhatWasOnItsWay",
    "test_capabilities_and_address": "HasNoLimits",
    "test_credentials_are_not_shown": "ShowsThePassword",
    "test_flushed_pages_are_seen_by_another_connection": "WritesOnlyAtClose",
    "test_closing_keeps_the_pages": "LosesTheBufferAtClose",
    "test_pages_lie_behind_the_store_as_they_are": "WrapsThePages",
    "test_a_page_that_vanished_is_missing": "HidesALoss",
    "test_a_closed_store_says_so": "WorksWhenClosed CannotBeClosedTwice",
    "test_threads": "MixesThreads",
    "test_a_fork_may_use_the_open_store": "HoldsALockInTheFork RefusesAFork",
    "test_an_open_store_can_be_sent": "SendsItsPagesAlong LosesItsAddress",
}
CAUGHT_BY = {kind: test for test, kinds in CAUGHT.items() for kind in kinds.split()}


globals().update(
    {name: type(name, (Broken,), {"__module__": __name__} | how) for name, how in SIMPLE.items()}
)


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


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_broken_store_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stores.testing.conformance.PATIENCE", 1)
    with pytest.raises(Exception) as caught:
        getattr(suite_for(globals()[name]), CAUGHT_BY[name])()
    assert not isinstance(caught.value, SkipTest)


#: These are broken in what no other test of the suite looks at.
BY_ONE_TEST = "PeeksOnlyAtGoodKeys PeeksByAStoreCall ReadsNothingAhead KeepsWhatWasOnItsWay"


@pytest.mark.parametrize("broken", BY_ONE_TEST.split())
def test_no_other_test_would_catch_it(broken: str) -> None:
    for name in dir(PageStoreConformance):
        if name.startswith("test_") and name != CAUGHT_BY[broken]:
            with suppress(SkipTest):
                getattr(suite_for(globals()[broken]), name)()


@pytest.mark.parametrize("name", CAUGHT)
def test_the_store_under_the_broken_ones_is_right(name: str) -> None:
    getattr(suite_for(Broken), name)()
