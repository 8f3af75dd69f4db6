"""Addresses: what opens, what is refused, and that nothing shows a password."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stores import (
    InvalidStoreURL,
    MissingDependency,
    StoreAccessDenied,
    StoreUnavailable,
    open_store,
    ping_store,
)
from stores.address import credentials_of, parse, size
from stores.base import PageStore
from stores.compression import CompressedStore
from stores.errors import pip_install
from stores.head_cache import HeadCache
from stores.local_disk import LocalDiskStore
from stores.memory import MemoryStore
from stores.redis import RedisStore, _policies
from stores.testing import CountingStore
from stores.write_buffer import WriteBuffer
from tests.support.patience import LONG, in_time
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer


def test_memory_is_bare() -> None:
    assert type(open_store("memory://")) is MemoryStore
    with open_store("memory://shared-name") as one, open_store("memory://shared-name") as other:
        one.put_many({"g/1": b"page"})
        assert other.get_many(["g/1"]) == [b"page"]
    with open_store("memory://Shared-Name") as another:
        assert another.get_many(["g/1"]) == [None]


def test_local_disk_has_a_buffer_and_no_cache(tmp_path: object) -> None:
    store = open_store(f"file://{tmp_path}")
    assert isinstance(store, WriteBuffer)
    assert isinstance(store.store, CompressedStore)  # which reads what others have packed
    assert isinstance(store.store.store, LocalDiskStore)


def test_redis_has_both() -> None:
    store = open_store("redis://localhost:1/0?write_buffer=1MiB&deadline=3&cache=2k&prefix=w")
    assert isinstance(store, WriteBuffer)
    assert (store._capacity, store._deadline) == (1 << 20, 3.0)
    assert isinstance(store.store, HeadCache)
    assert store.store._capacity == 2048
    assert isinstance(store.store.store, CompressedStore)
    assert isinstance(store.store.store.store, RedisStore)
    assert store.url == "redis://localhost:1/0"


def test_layers_can_be_left_out() -> None:
    url = "redis://localhost:1"
    for store in (
        open_store(url, write_buffer=0, cache=0),
        open_store(f"{url}?write_buffer=0&cache=0"),
    ):
        assert isinstance(store, CompressedStore) and isinstance(store.store, RedisStore)


def test_an_open_store_is_taken_as_it_is() -> None:
    store = MemoryStore()
    assert open_store(store) is store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "scheme://"),
        ("/data/windows", "file:///data/windows"),
        ("redis:hunter2@host", "scheme://"),
        ("couch://hunter2@host", "memory://, file://, redis://, rediss://"),
        ("file://data/windows", "file:///folder"),
        ("file://", "file:///folder"),
        ("file:///data?map_size=much", "64KiB"),
        ("file:///data?map_size=1k", "1MiB"),
        ("file:///data?ttl=3", "cache, compression, deadline, map_size, write_buffer"),
        ("file:///data?map_size", "malformed"),
        ("memory://a/b", "memory://name"),
        ("memory://a?ttl=3", "no option 'ttl'"),
        ("redis://", "needs a host"),
        ("redis://:hunter2@", "needs a host"),
        ("redis://:hunter2@host:port/0", "malformed redis://"),
        ("redis://:hunter2@[::1/0", "malformed redis://"),
        ("redis://:hunter2#x@host/0", "%XX"),
        ("redis://user:12/hunter2@host/0", "%2F"),
        ("redis://user:12?x=hunter2@host/0", "%3F"),
        ("redis://user:12#hunter2@host/0", "%23"),
        ("redis://:hunter2@host/zero", "number of a database"),
        ("redis://:hunter2@host/0?ttl=-1", "whole number"),
        ("redis://:hunter2@host/0?timeout=0", "positive"),
        ("redis://:hunter2@host/0?prefix={x}", "braces"),
        ("redis://:hunter2@host/0?cluster=maybe", "true or false"),
        ("redis://:hunter2@host/0?cluster=true&wait=1", "cluster"),
        ("redis://:hunter2@host/0?ttl=1&ttl=2", "twice"),
        ("redis://:hunter2@host/0?password=hunter2", "no option 'password'"),
        ("redis://:hunter2@host/0?deadline=hunter2x", "option 'deadline'"),
    ],
)
def test_a_bad_url_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidStoreURL) as caught:
        open_store(url)
    assert says in str(caught.value)
    if "deadline" not in url:  # the text of an option may be shown, a password may not
        assert "hunter2" not in str(caught.value)


def test_credentials_and_escapes() -> None:
    address = parse("redis://me:p%40ss@[::1]:7000/2?prefix=a%20b")
    assert (address.user, address.password, address.host) == ("me", "p@ss", "::1")
    assert (address.port, address.path, address.options) == (7000, "/2", {"prefix": "a b"})
    assert address.public == "redis://[::1]:7000/2"
    assert "p@ss" not in repr(address)


def test_sizes() -> None:
    texts = ["1", "1k", "1KiB", "2MB", "3 GiB", "1TiB"]
    assert list(map(size, texts)) == [1, 1024, 1024, 2 << 20, 3 << 30, 1 << 40]


@pytest.mark.parametrize("library", ["redis", "couchbase"])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    for module in [name for name in sys.modules if name.startswith(f"stores.{library}")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=re.escape(pip_install(library))):
        open_store(f"{library}://user:password@localhost/0")


def test_libraries_are_loaded_when_they_are_wanted() -> None:
    program = "import sys, stores; print({'redis', 'lmdb', 'couchbase'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


def test_an_unnamed_memory_store_cannot_be_sent() -> None:
    import pickle

    with pytest.raises(InvalidStoreURL, match="memory://name"):
        pickle.dumps(open_store("memory://"))


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MTA_STORE_USER", "MTA_STORE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def of(url: str) -> tuple[str | None, str | None]:
    found = credentials_of(parse(url))
    return found.user, found.password


def test_the_password_comes_from_the_url_or_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("of the file\r\n# a comment\n")
    assert of("redis://host") == (None, None)
    monkeypatch.setenv("MTA_STORE_USER", "somebody")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "of the environment")
    assert of("redis://host") == ("somebody", "of the environment")
    assert of("redis://me@host") == ("me", "of the environment")
    assert of(f"redis://me@host?password_file={file}") == ("me", "of the file")
    # Who has a password in the URL is the server's default user, not that of the environment.
    assert of("redis://:pw@host") == ("", "pw")
    assert of("redis://:@host") == ("", "")


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ("?password_file=password", InvalidStoreURL, "absolute path"),
        ("?password_file=/no/such/file", StoreAccessDenied, "No such file.*every machine"),
        ("?password_file={folder}", StoreAccessDenied, "Is a directory"),
        ("?password_file={folder}/empty", StoreAccessDenied, "empty first line"),
        ("?password_file={folder}/binary", StoreAccessDenied, "not UTF-8 text"),
    ],
)
def test_a_file_that_has_no_password(
    tmp_path: Path, options: str, kind: type[Exception], says: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(kind, match=says):
        open_store("redis://host" + options.format(folder=tmp_path))


def test_two_passwords_are_refused() -> None:
    with pytest.raises(InvalidStoreURL, match="leave one of them out") as caught:
        open_store("redis://:hunter2@host?password_file=/hunter2")
    assert "hunter2" not in str(caught.value)


def test_redis_takes_both_and_shows_neither(
    redis_with_password: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = redis_with_password.url
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    by_file = f"{url}?password_file={tmp_path / 'password'}"
    ping_store(by_file, write=True)
    with pytest.raises(StoreAccessDenied, match=r"has no password: set MTA_STORE_PASSWORD.*"
                       r"spark\.executorEnv\.MTA_STORE_PASSWORD"):  # fmt: skip
        ping_store(url)
    monkeypatch.setenv("MTA_STORE_PASSWORD", PASSWORD)
    with open_store(url) as store:
        store.ping(write=True)
        sent = pickle.dumps(store)
        assert PASSWORD.encode() not in sent and PASSWORD_IN_URL.encode() not in sent
        pickle.loads(sent).ping()
        assert PASSWORD not in repr(store) + repr(vars(store))
    with open_store(by_file) as store:
        assert PASSWORD.encode() not in pickle.dumps(store)
    monkeypatch.setenv("MTA_STORE_PASSWORD", "wr0ng")
    with pytest.raises(StoreAccessDenied, match="comes from MTA_STORE_PASSWORD") as caught:
        ping_store(url)
    assert "wr0ng" not in str(caught.value)
    monkeypatch.setenv("MTA_STORE_USER", "reader")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "readonly")
    ping_store(url)


def test_couchbase_takes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("couchbase")
    (tmp_path / "password").write_text("c0uch\n")
    url = "couchbase://me@127.0.0.1:1/bucket"
    with pytest.raises(InvalidStoreURL, match="MTA_STORE_USER and MTA_STORE_PASSWORD"):
        open_store(url)
    open_store(f"{url}?password_file={tmp_path / 'password'}")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "c0uch")
    store = open_store(url)
    assert b"c0uch" not in pickle.dumps(store)
    with pytest.raises(InvalidStoreURL, match="needs credentials"):
        open_store(url.replace("me@", ""))
    monkeypatch.setenv("MTA_STORE_USER", "me")
    open_store(url.replace("me@", ""))


def test_a_server_that_answers(redis_with_password: RedisServer, redis_cluster_url: str) -> None:
    for url in (f"redis://:{PASSWORD_IN_URL}@127.0.0.1:{redis_with_password.port}",
                redis_cluster_url):  # fmt: skip
        for write in (False, True):
            ping_store(url, write=write)
        with open_store(url) as store:
            store.ping(write=True)
            assert [*store.keys("ping")] == []
        assert _policies[store.url] == "noeviction"


@pytest.mark.parametrize("url", [
    "redis://127.0.0.1:{}", "rediss://127.0.0.1:{}", "redis://127.0.0.1:{}?cluster=true",
    "redis://127.0.0.1:{}?timeout=600&wait=1",
])  # fmt: skip
def test_a_server_that_never_answers(black_hole: int, url: str) -> None:
    with in_time(), pytest.raises(StoreUnavailable, match=r"did not answer|does not answer"):
        ping_store(url.format(black_hole), write=True)


def test_a_couchbase_that_never_answers_or_is_not_there(black_hole: int) -> None:
    pytest.importorskip("couchbase")
    for port in (black_hole, 1):
        with in_time(), pytest.raises(StoreUnavailable, match="couchbases:// with it"):
            ping_store(f"couchbase://user:{PASSWORD_IN_URL}@127.0.0.1:{port}/bucket")


def test_tls_where_there_is_none_and_none_where_there_is(
    redis_tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, certificate = redis_tls
    monkeypatch.setattr("stores.server.PING_SECONDS", LONG)  # certificates take a busy machine long
    with pytest.raises(StoreUnavailable, match="rediss:// with it"):
        ping_store(url.replace("rediss", "redis"))
    with pytest.raises(StoreAccessDenied, match="certificate"):
        ping_store(url)
    ping_store(f"{url}?ca_file={certificate}", write=True)


def test_a_ping_of_local_disk_makes_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    ping_store(folder, write=True)
    assert not (tmp_path / "not").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidStoreURL, match="not a folder"):
        ping_store(tmp_path / "file" / "below")
    open_store(folder).put_many({"g/1": b"page"})
    ping_store(folder, write=True)


def test_a_store_of_ones_own_is_pinged_by_a_read() -> None:
    counting = CountingStore(MemoryStore())
    PageStore.ping(counting, write=True)
    assert (counting.counts.get.calls, counting.counts.delete.calls) == (1, 1)
    ping_store(counting)
