"""A ping names what is wrong with an address, a password or a server, before any work begins."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import (
    InvalidStoreURL,
    MemoryStore,
    StoreAccessDenied,
    StoreUnavailable,
    open_store,
    ping_store,
)
from stores.base import PageStore
from stores.redis import _policies
from stores.testing import CountingStore
from tests.support.patience import LONG, in_time
from tests.support.servers import PASSWORD_IN_URL, RedisServer


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port where connections are taken and nothing is ever answered."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield listening.getsockname()[1]


def test_a_server_that_answers(redis_with_password: RedisServer, redis_cluster_url: str) -> None:
    for url in (f"redis://:{PASSWORD_IN_URL}@127.0.0.1:{redis_with_password.port}",
                redis_cluster_url):  # fmt: skip
        for write in (False, True):
            ping_store(url, write=write)
        with open_store(url) as store:
            store.ping(write=True)
            assert [*store.keys("ping")] == []
        assert _policies[store.url] == "noeviction"


@pytest.mark.parametrize("write", [False, True])
def test_a_wrong_password(redis_with_password: RedisServer, write: bool) -> None:
    for who in ("", ":wr0ng@", "nobody:wr0ng@"):
        with pytest.raises(StoreAccessDenied, match="correct the user, password") as caught:
            ping_store(f"redis://{who}127.0.0.1:{redis_with_password.port}", write=write)
        assert "wr0ng" not in str(caught.value)


def test_who_may_not_write_is_warned_only_where_it_matters(
    redis_with_password: RedisServer,
) -> None:
    url = f"redis://reader:readonly@127.0.0.1:{redis_with_password.port}"
    ping_store(url)
    with pytest.raises(StoreAccessDenied, match="rights"):
        ping_store(url, write=True)


def test_a_database_that_is_not_there(redis_with_password: RedisServer) -> None:
    url = f"redis://:{PASSWORD_IN_URL}@127.0.0.1:{redis_with_password.port}/99"
    with pytest.raises(InvalidStoreURL, match=r"no such database .*correct the number"):
        ping_store(url)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis://no-such-host.invalid"])
def test_nobody_is_there(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"start the server, or correct the host, port"):
        ping_store(url)


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


@pytest.mark.parametrize("url", ["redis:/host", "redis://host:port", "redis://host/none", "rds://h",
                                 "file:relative", "redis://host?deadline=soon"])  # fmt: skip
def test_a_malformed_url(url: str) -> None:
    with pytest.raises(InvalidStoreURL):
        ping_store(url)


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
