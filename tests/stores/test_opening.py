"""URLs: what opens, what is refused, and that no message repeats a password."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stores import InvalidStoreURL, MissingDependency, open_store
from stores.address import parse, size
from stores.compression import CompressedStore
from stores.errors import pip_install
from stores.head_cache import HeadCache
from stores.local_disk import LocalDiskStore
from stores.memory import MemoryStore
from stores.redis import RedisStore
from stores.write_buffer import WriteBuffer


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
