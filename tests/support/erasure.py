"""What erased keys leave: a search for bytes in what a store holds outside of its interface."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stores import PageStore, open_store
from stores.address import parse
from stores.base import WrapperStore

#: A number whose 8 bytes occur nowhere by chance.
SECRET = 8.125613247e-201
#: All bytes that a store holds; one that cannot list its keys is asked for those that are given.
Raw = Callable[..., bytes]


class Killed(BaseException):
    pass


class Stopping(WrapperStore):
    """Stops at the call of this number, before or after it was carried out."""

    def __init__(self, store: PageStore, number: int, after: bool) -> None:
        super().__init__(store)
        self._left, self._after = number, after
        self.stopped = False

    def call(self, call: Callable[..., Any], *args: Any) -> Any:
        self._left -= 1
        if self.stopped or (self._left < 0 and not self._after):
            self.stopped = True
            raise Killed
        found = call(*args)
        if self._left < 0:
            self.stopped = True
            raise Killed
        return found

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.call(self.store.put_many, pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        self.call(self.store.delete_many, list(keys))

    def compact(self) -> None:
        self.call(self.store.compact)


def pages_in(store: PageStore) -> bytes:
    keys = list(store.keys())
    return b"".join([*map(str.encode, keys), *(page or b"" for page in store.get_many(keys))])


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def left_of(keys: Iterable[str], raw: bytes) -> list[bytes]:
    """The bytes that keys and their values have left."""
    traces = [(key.encode(), f"told-{key}".encode(), struct.pack("<d", SECRET)) for key in keys]
    return [trace for each in traces for trace in each if trace in raw]


@contextmanager
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[str, Raw]]:
    """The address of a store of the kind that a fixture asks for, and all bytes that it holds."""
    name, kind = uuid4().hex, request.param
    if kind == "memory":
        with open_store(f"memory://{name}") as store:
            yield f"memory://{name}", lambda *_: pages_in(store)
    elif kind == "file":
        yield f"file://{folder}/pages?map_size=1GiB", lambda *_: files(folder)
    elif kind == "redis":
        import redis

        url = request.getfixturevalue("redis_url")
        with redis.Redis.from_url(url.partition("?")[0]) as client:
            yield (
                f"{url}{'&' if '?' in url else '?'}prefix={name}",
                lambda *_: b"".join(
                    key + (client.get(key) or b"") for key in client.scan_iter(match=f"*{name}*")
                ),
            )
    elif kind == "couchbase":
        url = request.getfixturevalue("couchbase_server").url
        with open_store(f"{url}?cache=0") as fresh:
            yield url, lambda keys: b"".join(page or b"" for page in fresh.get_many(sorted(keys)))
    else:
        from stores.object_store import ObjectBucket

        options = [f"cache_dir={folder}/cache"] if kind == "cached s3" else []
        url = request.getfixturevalue("s3_server").url(name, *options)
        bucket = ObjectBucket(parse(url))

        def objects(*_: Any) -> bytes:
            names = [f"{f}/{n}" for f in bucket.folders() for n, _ in bucket.names(f, "")]
            found = b"".join(each.encode() + bucket.get(each) for each in names)
            return found + files(folder / "cache")

        yield url, objects
