"""Couchbase by its own client: refusals, outages, forks; where the mock cannot, the client is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from stores import (
    InvalidStoreURL,
    PageTooLarge,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    UnsupportedOperation,
    WindowStoreError,
    open_store,
)
from tests.support.couchbase_server import (
    PASSWORD_IN_URL,
    Couchbase,
    Gocaves,
    MockServer,
    mock_jar,
)
from tests.support.oracle import Stream

pytest.importorskip("couchbase")

from couchbase import exceptions
from couchbase.durability import DurabilityLevel

from stores.compression import CompressedStore
from stores.couchbase import CouchbaseStore
from tests.support.faulty import eventually
from tests.support.patience import LONG, in_time, set_deadline, short_deadline
from tests.support.servers import shown

PAGE = b"p" * 1000
HERE = "couchbase://user:hunter2@127.0.0.1:1"


def bare(url: str) -> CouchbaseStore:
    store = open_store(url, write_buffer=0, cache=0)
    assert isinstance(store, CompressedStore) and isinstance(store.store, CouchbaseStore)
    return store.store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("couchbase://", "needs a host"),
        ("couchbase://user:hunter2@host", "/bucket"),
        ("couchbase://user:hunter2@host/bucket/scope", "/bucket/scope/collection"),
        ("couchbase://user:hunter2@host/a/b/c/d", "/bucket/scope/collection"),
        ("couchbase://host/bucket", "user:password@host"),
        ("couchbase://user@host/bucket", "user:password@host"),
        ("couchbase://user:hunter2@host/bucket?durability=much", "majority"),
        ("couchbase://user:hunter2@host/bucket?network=home", "external"),
        ("couchbase://user:hunter2@host/bucket?ttl=soon", "numbers with their units"),
        ("couchbase://user:hunter2@host/bucket?verify=false", "couchbases://"),
        ("couchbases://host/bucket?cert_file=c", "give both cert_file and key_file"),
        ("couchbase://user:hunter2@host/bucket?prefix=a", "no option 'prefix'"),
    ],
)
def test_a_bad_url_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidStoreURL) as caught:
        open_store(url)
    assert says in str(caught.value)
    assert "hunter2" not in shown(caught.value)


def test_options_reach_the_client() -> None:
    store = bare(f"{HERE}/b?durability=persistToMajority&ttl=90&timeout=3&network=external")
    assert store._writing["durability"].level is DurabilityLevel.PERSIST_TO_MAJORITY
    assert store._writing["expiry"].total_seconds() == 90
    assert "expiry" not in store._removing
    assert store._options["network"] == "external"
    assert "durability" not in bare(f"{HERE}/b?durability=none")._writing


def error_of(kind: type[Exception], **reported: Any) -> Exception:
    return kind(message="user:hunter2 was here", **reported)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.AuthenticationException, StoreAccessDenied),
        (exceptions.BucketNotFoundException, InvalidStoreURL),
        (exceptions.ScopeNotFoundException, InvalidStoreURL),
        (exceptions.CollectionNotFoundException, InvalidStoreURL),
        (exceptions.InvalidArgumentException, InvalidStoreURL),
        (exceptions.FeatureUnavailableException, UnsupportedOperation),
        (exceptions.DurabilityInvalidLevelException, UnsupportedOperation),
        (exceptions.QuotaLimitedException, StoreFull),
        (exceptions.TemporaryFailException, StoreUnavailable),
        (exceptions.AmbiguousTimeoutException, StoreUnavailable),
        (exceptions.UnAmbiguousTimeoutException, StoreUnavailable),
        (exceptions.RequestCanceledException, StoreUnavailable),
        (exceptions.DurabilityImpossibleException, StoreUnavailable),
        (exceptions.DurabilitySyncWriteAmbiguousException, StoreUnavailable),
        (exceptions.DurabilitySyncWriteInProgressException, StoreUnavailable),
        (exceptions.CouchbaseException, StoreUnavailable),
    ],
)
def test_every_error_of_the_client_has_a_name(
    error: type[Exception], kind: type[WindowStoreError]
) -> None:
    made = bare("couchbase://user:hunter2@host/bucket")._named(error_of(error))
    assert type(made) is kind
    assert "couchbase://host/bucket" in str(made)
    assert "hunter2" not in str(made)


def test_a_page_larger_than_the_server_takes_is_named() -> None:
    made = bare(f"{HERE}/b")._named(error_of(exceptions.CouchbaseException, error_code=104))
    assert type(made) is PageTooLarge


def test_a_bucket_that_does_not_exist(couchbase_server: Couchbase) -> None:
    store = bare(f"{couchbase_server.url.rpartition('/')[0]}/nowhere")
    with pytest.raises((InvalidStoreURL, StoreAccessDenied)) as caught:
        store.get_many(["g/1"])
    assert "c0uch" not in shown(caught.value)


def test_nobody_is_there() -> None:
    store = bare(
        f"couchbase://user:{PASSWORD_IN_URL}@127.0.0.1:1/b?connect_timeout=0.5&timeout=0.5"
    )
    for call in (lambda: store.get_many(["g/1"]), lambda: store.put_many({"g/1": PAGE})):
        with in_time(), pytest.raises(StoreUnavailable) as caught:
            call()
        assert "c0uch" not in shown(caught.value)
    store.close()


@pytest.fixture(scope="module")
def refusing_mock() -> Iterator[MockServer]:
    """A mock that each test lets refuse for a while."""
    server = MockServer(mock_jar())
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (0x86, StoreUnavailable),  # temporary failure: the client tries until its time is up
        (0x82, StoreUnavailable),  # no memory
        (0x20, StoreAccessDenied),  # authentication error
        (0x24, StoreAccessDenied),  # no access
        (0x03, PageTooLarge),
        (0x05, StoreUnavailable),  # not stored: must not count as written
    ],
)
def test_every_status_has_a_name(
    refusing_mock: MockServer, status: int, kind: type[WindowStoreError]
) -> None:
    store = bare(f"{refusing_mock.url}?timeout=5")
    store.put_many({"g/1": PAGE})
    refusing_mock.fail(status)
    with pytest.raises(kind) as caught:
        store.put_many({"g/2": PAGE, "g/3": PAGE})
    assert "pppp" not in shown(caught.value)
    refusing_mock.fail(0, 0)
    store.put_many({"g/2": PAGE})
    assert store.get_many(["g/1", "g/2"]) == [PAGE, PAGE]
    store.close()


@pytest.mark.parametrize(
    ("option", "kind"),
    [("?durability=majority&", WindowStoreError), ("/scope/collection?", UnsupportedOperation)],
)
def test_what_the_server_does_not_have_is_an_error(
    couchbase_server: Couchbase, option: str, kind: type[Exception]
) -> None:
    if couchbase_server.real:
        pytest.skip("a real server has durability and collections")
    store = bare(f"{couchbase_server.url}{option}timeout={LONG}")
    with pytest.raises(kind) as caught:
        store.put_many({"g/1": PAGE})
    assert kind is WindowStoreError or "7.0" in str(caught.value)
    store.close()


def test_a_wrong_password_is_refused(gocaves: Gocaves) -> None:
    store = bare(f"{gocaves.url(credentials='tester:hunter2')}?timeout={LONG}")
    with pytest.raises(StoreAccessDenied, match="correct the user, password") as caught:
        store.put_many({"g/1": PAGE})
    assert "hunter2" not in shown(caught.value)


@pytest.mark.parametrize("path", ["default/mta/nowhere", "default/nowhere/pages"])
def test_a_collection_that_does_not_exist(gocaves: Gocaves, path: str) -> None:
    with bare(f"{gocaves.url(path)}?timeout=1") as store:
        with pytest.raises(InvalidStoreURL, match="create the bucket, scope or collection"):
            store.put_many({"g/1": PAGE})
        with pytest.raises(InvalidStoreURL, match="create the bucket, scope or collection"):
            store.get_many(["g/1"])


def test_collections_of_a_bucket_share_no_pages(gocaves: Gocaves) -> None:
    with bare(gocaves.url()) as inner, bare(gocaves.url("default")) as outer:
        inner.put_many({"apart/1": PAGE})
        assert outer.get_many(["apart/1"]) == [None]


def test_documents_live_as_long_as_asked(couchbase_server: Couchbase) -> None:
    short, long = (f"ttl-{os.urandom(4).hex()}/{age}" for age in ("short", "long"))
    with bare(f"{couchbase_server.url}?ttl=10000") as store:
        store.put_many({long: PAGE})
    with bare(f"{couchbase_server.url}?ttl=1") as store:
        store.put_many({short: PAGE})
        eventually(lambda: store.get_many([short, long]) == [None, PAGE])


# Keys: the mock has no range scan, so the client's answer is put in its place


def test_keys_come_from_a_range_scan() -> None:
    from couchbase.kv_range_scan import PrefixScan, RangeScan

    class Found:
        def __init__(self, name: str) -> None:
            self.id = name

    class Collection:
        def scan(self, kind: Any, options: Any) -> Any:
            assert options["ids_only"]
            asked.append(kind)
            yield from map(Found, ["g/1", "g/2"])
            if broken:
                raise exceptions.UnAmbiguousTimeoutException(message="too slow")

    asked: list[Any] = []
    broken = False
    store = bare(f"{HERE}/b")
    store._client = Collection()
    assert list(store.keys("g/")) == ["g/1", "g/2"]
    assert list(store.keys()) == ["g/1", "g/2"]
    assert [type(kind) for kind in asked] == [PrefixScan, RangeScan]
    broken = True
    with pytest.raises(StoreUnavailable):
        list(store.keys("g/"))
    store._client = None


def test_a_frozen_server(own_couchbase_mock: MockServer) -> None:
    """reliability 13: a bounded wait, a named error, and then the window equals the list."""
    url = f"{own_couchbase_mock.url}?timeout=0.4"
    store = open_store(url, write_buffer=20_000, cache=10_000, deadline=LONG)
    stream = Stream(store)
    stream.feed(600)
    with short_deadline(store, 1):
        own_couchbase_mock.freeze()
        with in_time():
            assert type(stream.feed_until_refused()) is StoreUnavailable
        assert store.pending_bytes <= 20_000  # type: ignore[attr-defined]
        own_couchbase_mock.thaw()
    stream.feed(600)
    stream.check_restored(own_couchbase_mock.url)
    store.close()


def test_a_server_that_died(own_couchbase_mock: MockServer) -> None:
    store = open_store(f"{own_couchbase_mock.url}?timeout=0.3&deadline={LONG}")
    store.put_many({"g/1": PAGE})
    store.flush()
    set_deadline(store, 0.5)
    own_couchbase_mock.stop()
    store.put_many({"g/2": PAGE})
    for call in (store.flush, lambda: store.get_many(["g/3"])):
        with in_time(), pytest.raises(StoreUnavailable):
            call()
    store.abandon()  # type: ignore[attr-defined]


@pytest.mark.parametrize("uses", [True, False])
def test_a_forked_child_ends_as_it_should(couchbase_server: Couchbase, uses: bool) -> None:
    """The whole shutdown of the interpreter, not the short cut of the conformance suite."""
    import subprocess
    import sys

    program = f"""if True:
        import os, sys
        from stores import open_store
        store = open_store({couchbase_server.url!r}, write_buffer=0, cache=0)
        store.put_many({{"fork/1": b"page"}})
        child = os.fork()
        if child == 0:
            if {uses}:
                assert store.get_many(["fork/1"]) == [b"page"]
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the child failed"
        assert store.get_many(["fork/1"]) == [b"page"]
        store.close()
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_no_connection_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    import stores.couchbase

    def connect(*_: object) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr(stores.couchbase, "Cluster", connect)
    store = bare(f"{HERE}/b")
    store.prefetch(["g/1"])
    assert store.capabilities.max_key_bytes == 250
    assert store.capabilities.max_page_bytes == 20 << 20
    store.close()
