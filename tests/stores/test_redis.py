"""Real Redis servers that refuse, freeze, die, come back, fill up and forget."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mta.errors import MissingPage
from stores import (
    PageStore,
    RecordPut,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    open_store,
)
from tests.support.faulty import eventually
from tests.support.oracle import Stream
from tests.support.patience import LONG, in_time
from tests.support.proxy import Proxy
from tests.support.servers import PASSWORD_IN_URL, RedisServer, shown

redis = pytest.importorskip("redis")

PAGE = b"p" * 1000


def bare(url: str) -> PageStore:
    return open_store(url, write_buffer=0, cache=0)


def in_loop(store: PageStore) -> list[bytes | None]:
    """The page g/1 as an event loop gets it."""
    return asyncio.run(store.get_many_async(["g/1"]))


@pytest.mark.parametrize("who", ["", ":wr0ng@", "nobody:wr0ng@"])
def test_wrong_credentials(redis_with_password: RedisServer, who: str) -> None:
    store = bare(f"redis://{who}127.0.0.1:{redis_with_password.port}")
    many = [f"g/{number}" for number in range(100)]  # refused in other words than a few
    for call in (lambda: store.get_many(["g/1"]), lambda: in_loop(store), lambda: in_loop(store),
                 lambda: store.put_many({"g/1": PAGE}),
                 lambda: store.get_many(many)):  # fmt: skip
        with pytest.raises(StoreAccessDenied, match="correct the user, password") as caught:
            call()
        assert "wr0ng" not in shown(caught.value)


def test_a_user_who_may_not_write(redis_with_password: RedisServer) -> None:
    store = bare(f"redis://reader:readonly@127.0.0.1:{redis_with_password.port}")
    assert store.get_many(["g/1"]) == [None]
    with pytest.raises(StoreAccessDenied):
        store.put_many({"g/1": PAGE})
    with pytest.raises(StoreAccessDenied):
        store.delete_many(["g/1"])


@pytest.mark.parametrize(
    ("host", "says"), [("127.0.0.1:1", r"127\.0\.0\.1:1"), ("no-such-host.invalid", "no-such")]
)
def test_nobody_is_there(host: str, says: str) -> None:
    store = bare(f"redis://:{PASSWORD_IN_URL}@{host}")
    with in_time(), pytest.raises(StoreUnavailable, match=says) as caught:
        store.get_many(["g/1"])
    assert "s3cret" not in shown(caught.value)


def test_tls_needs_a_trusted_certificate(redis_tls: tuple[str, Path]) -> None:
    url, certificate = redis_tls
    with pytest.raises(StoreAccessDenied, match="certificate"):
        bare(url).get_many(["g/1"])
    assert bare(f"{url}?verify=false").get_many(["g/1"]) == [None]
    assert bare(f"{url}?ca_file={certificate}").get_many(["g/1"]) == [None]
    with pytest.raises(StoreAccessDenied, match="certificate"):
        in_loop(bare(url))
    assert in_loop(bare(f"{url}?ca_file={certificate}")) == [None]
    with pytest.raises(StoreUnavailable):
        bare(url.replace("rediss", "redis")).get_many(["g/1"])


def test_tls_and_a_password_together(
    redis_tls: tuple[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A window over it: the password is neither in the snapshot nor in logs nor in errors."""
    url, certificate = redis_tls
    caplog.set_level("DEBUG")
    secured = url.replace("//", f"//secured:{PASSWORD_IN_URL}@") + f"?ca_file={certificate}"
    with open_store(secured) as store:
        stream = Stream(store)
        stream.feed(500)
        stream.check_restored(secured)
        texts = [repr(store), repr(stream.window), caplog.text, str(stream.window.checkpoint())]
    wrong = url.replace("//", "//secured:s3cret@") + f"?ca_file={certificate}"
    with pytest.raises(StoreAccessDenied) as caught:
        bare(wrong).get_many(["g/1"])
    assert not any("s3cret" in text for text in [*texts, shown(caught.value)])


def test_a_server_that_is_no_cluster(redis_url: str) -> None:
    with pytest.raises(StoreAccessDenied, match="mode"):
        bare(f"{redis_url}?cluster=true").get_many(["g/1"])


@pytest.fixture
def evicting(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that throws pages away, with users who may ask for its settings in part or not."""
    users = {"full": "+@all", "noconfig": "+@all -config", "noinfo": "+@all -info",
             "neither": "+@all -config -info"}  # fmt: skip
    options = [text for name, rights in users.items()
               for text in ("--user", name, "on", f">{name}", "~*", *rights.split())]  # fmt: skip
    server = RedisServer(
        tmp_path, "--maxmemory-policy", "allkeys-lru", "--maxmemory", "64mb", *options
    )
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("user", "policy", "ttl", "warns", "says"),
    [
        ("full", "allkeys-lru", "", True, "maxmemory-policy allkeys-lru has probably evicted it"),
        ("noconfig", "allkeys-random", "", True, "has probably evicted it: set noeviction"),
        ("noinfo", "allkeys-lru", "", True, "has probably evicted it: set noeviction"),
        ("neither", "allkeys-lru", "", False, "it is unknown whether.*maxmemory-policy"),
        ("full", "volatile-lru", "", False, None),
        ("full", "volatile-lru", "?ttl=600", True, "expire after 600 seconds; .*volatile-lru has"),
        ("full", "noeviction", "", False, None),
        ("full", "noeviction", "?ttl=600", False, "expire after 600 seconds$"),
        ("full", "noeviction", "?ttl=1%20hour", False, "expire after 3600 seconds$"),
    ],
)
def test_a_server_that_evicts_is_warned_of_and_named_where_a_page_is_missing(
    evicting: RedisServer,
    caplog: pytest.LogCaptureFixture,
    user: str,
    policy: str,
    ttl: str,
    warns: bool,
    says: str | None,
) -> None:
    with redis.Redis(port=evicting.port) as client:
        client.config_set("maxmemory-policy", policy)
    url = f"redis://{user}:{user}@127.0.0.1:{evicting.port}{ttl}"
    for _ in range(2):  # the second time it is known in this process
        with open_store(url) as store:
            assert store.get_many(["g/1"]) == [None]
    warnings = [each for each in caplog.messages if "CONFIG SET maxmemory-policy" in each]
    assert len(warnings) == warns
    error = str(MissingPage.of("g/1", store := open_store(url)))
    store.close()
    assert re.search(says, error) if says else error.endswith("whose pages are all there")


def test_a_window_whose_pages_were_evicted_says_so(evicting: RedisServer) -> None:
    with open_store(evicting.url) as store:
        stream = Stream(store)
        stream.feed(2000)
        store.flush()
        with redis.Redis(port=evicting.port) as client:
            client.flushall()
        with pytest.raises(MissingPage, match="allkeys-lru has probably evicted it"):
            stream.check_restored(evicting.url)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("LOADING Redis is loading the dataset in memory", StoreUnavailable),
        ("BUSY Redis is busy running a script", StoreUnavailable),
        ("MISCONF Redis is configured to save, but cannot", StoreUnavailable),
        ("CLUSTERDOWN The cluster is down", StoreUnavailable),
        ("TRYAGAIN Multiple keys request during rehashing of slot", StoreUnavailable),
        ("MASTERDOWN Link with MASTER is down", StoreUnavailable),
        ("READONLY You can't write against a read only replica", StoreAccessDenied),
        ("NOPERM this user has no permissions", StoreAccessDenied),
        ("NOAUTH Authentication required", StoreAccessDenied),
        ("WRONGPASS invalid username-password pair", StoreAccessDenied),
        ("OOM command not allowed when used memory > 'maxmemory'", StoreFull),
        ("WRONGTYPE Operation against a key holding the wrong kind", StoreAccessDenied),
    ],
)
@pytest.mark.parametrize("ttl", ["", "ttl=60"])
def test_every_answer_has_a_name(
    answer: str, kind: type[Exception], ttl: str, own_redis: RedisServer
) -> None:
    with Proxy(own_redis.port) as proxy:
        store = bare(f"redis://127.0.0.1:{proxy.port}?{ttl}")
        store.get_many(["g/1"])
        proxy.changed = lambda data: data.replace(b"+OK", f"-{answer}".encode())
        with pytest.raises(kind) as caught:
            store.put_many({"g/1": PAGE})
        assert "pppp" not in str(caught.value)
        proxy.changed = bytes
        store.put_many({"g/1": PAGE})
        store.close()


#: Replies that nobody asked for: of other forms, of the same form, of no form, and errors.
STRAYS = [
    b"+OK\r\n", b"+PONG\r\n", b":5\r\n", b":1\r\n", b":0\r\n", b"$5\r\nstray\r\n", b"$-1\r\n",
    b"*-1\r\n", b"*0\r\n", b"*1\r\n$5\r\nstray\r\n", b"*2\r\n$5\r\nstray\r\n$-1\r\n",
    b"*1\r\n:7\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n",
    b"*2\r\n:1\r\n:1\r\n",
    b"-ERR stray\r\n", b"-WRONGTYPE stray\r\n", b"-OOM stray\r\n", b"-NOAUTH stray\r\n",
    b"stray\r\n", b":x\r\n", b"$x\r\n", b"*x\r\n", b"\0", b"*1\r\n*1\r\n+x\r\n",
]  # fmt: skip


def arrived(store: Any) -> bool:
    """Whether each connection of threads has something to read."""
    return all(each.can_read() for each in [*store.store._to_server._idle])


@pytest.mark.parametrize("ttl", ["", "&ttl=600"])
@pytest.mark.parametrize("when", ["before a reply", "after a reply", "between commands"])
def test_replies_out_of_step_are_read_by_nobody(
    own_redis: RedisServer, when: str, ttl: str
) -> None:
    """The connection is dropped, and the command sent again, from a thread and from a loop."""
    pages = {f"g/{i}": bytes([i]) * 100 for i in range(1, 4)}
    put = RecordPut("g/record", b"record", {"g/none": False})

    async def in_loop() -> list[bytes | None]:
        await asyncio.sleep(0.001)  # a loop reads what comes while it turns
        return await store.get_many_async(["g/2"])

    with Proxy(own_redis.port) as proxy, asyncio.Runner() as loop:
        store = bare(f"redis://127.0.0.1:{proxy.port}?timeout=2{ttl}")
        calls: list[tuple[Callable[[], Any], Any]] = [
            (lambda: store.put_many(pages), None),
            (lambda: store.get_many(["g/1"]), [pages["g/1"]]),
            (lambda: store.get_many([*pages]), [*pages.values()]),
            (lambda: loop.run(in_loop()), [pages["g/2"]]),
            (lambda: store.delete_many(["h/1"]), None),
            (lambda: store.get_many(["h/1"]), [None]),
            (lambda: sorted({*store.keys("g/")} - {"g/record"}), sorted(pages)),
            (lambda: store.put_records([put, put]), [True, True]),
        ]
        store.put_many(pages)
        for at, stray in enumerate(STRAYS):
            for call, expected in calls[at % 2 :: 2]:
                strays = deque([stray])

                def changed(data: bytes, strays: deque[bytes] = strays) -> bytes:
                    stray = strays.popleft() if strays else b""
                    return stray + data if when == "before a reply" else data + stray

                if when == "between commands":
                    proxy.say(stray)
                    eventually(lambda: arrived(store))
                else:
                    proxy.changed = changed
                assert call() == expected, stray
                proxy.changed = bytes
        store.close()


def test_a_server_that_is_out_of_step_for_ever_is_not_available(own_redis: RedisServer) -> None:
    with (
        Proxy(own_redis.port) as proxy,
        asyncio.Runner() as loop,
        bare(f"redis://127.0.0.1:{proxy.port}?timeout=2") as store,
    ):
        store.put_many({"g/1": PAGE})
        proxy.changed = lambda data: b":5\r\n" + data
        calls: list[Callable[[], Any]] = [
            lambda: store.get_many(["g/1"]), lambda: store.put_many({"g/1": PAGE}),
            lambda: store.delete_many(["g/2"]), lambda: list(store.keys()),
            lambda: loop.run(store.get_many_async(["g/1"])),
        ]  # fmt: skip
        for call in calls:
            # A reply to the library's own commands may come where the store's is expected.
            with pytest.raises((StoreUnavailable, StoreAccessDenied)):
                call()
        proxy.changed = bytes
        assert store.get_many(["g/1"]) == [PAGE]


def test_connections_that_are_dropped_are_not_counted(own_redis: RedisServer) -> None:
    """A pool of the library refuses more than a hundred."""
    with (
        Proxy(own_redis.port) as proxy,
        bare(f"redis://127.0.0.1:{proxy.port}?timeout=2") as store,
    ):
        for _ in range(120):
            store.put_many({"g/1": PAGE})
            proxy.reset_all()
            assert store.get_many(["g/1"]) == [PAGE]
        assert proxy.connections > 120


def test_a_full_server_refuses_and_takes_on_when_there_is_room(own_redis: RedisServer) -> None:
    store = open_store(own_redis.url, cache=0, write_buffer=50_000)
    store.put_many({"g/0": PAGE})
    store.flush()
    with redis.Redis(port=own_redis.port) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull, match="maxmemory"):
            for i in range(1000):
                store.put_many({f"g/{i}": PAGE})
        with pytest.raises(StoreFull):
            bare(f"{own_redis.url}?ttl=60").put_many({"g/ttl": PAGE})
        client.config_set("maxmemory", 0)
    store.flush()
    assert store.get_many([f"g/{n}" for n in range(i)]) == [PAGE] * i
    store.close()


def test_a_frozen_server(own_redis: RedisServer) -> None:
    patient, store = bare(own_redis.url), bare(f"{own_redis.url}?timeout=0.2")
    patient.put_many({"g/1": PAGE})
    own_redis.freeze()
    with in_time(), pytest.raises(StoreUnavailable):
        store.get_many(["g/1"])
    own_redis.thaw()
    assert patient.get_many(["g/1"]) == [PAGE]


def test_an_event_loop_waits_for_no_server_and_connects_again(own_redis: RedisServer) -> None:
    store = bare(f"{own_redis.url}?timeout=0.2")
    store.put_many({"g/1": PAGE})

    async def get() -> bool:
        """Whether the page is got, before the loop could turn without an answer."""
        return await store.get_many_async(["g/1"]) == [PAGE]

    async def ask() -> None:
        assert await get()
        own_redis.freeze()
        answers = await asyncio.gather(get(), get(), return_exceptions=True)
        assert [type(each) for each in answers] == [StoreUnavailable] * 2
        own_redis.thaw()
        assert await get(), "the late reply to an earlier command is no reply to this one"
        waiting = asyncio.ensure_future(get())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await store.get_many_async(["g/2"]) == [None], "nor that of a cancelled one"
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await get()
        own_redis.start()
        store.put_many({"g/1": PAGE})
        assert await get()
        own_redis.stop()
        own_redis.start()  # the connection is lost while nothing is asked
        store.put_many({"g/1": PAGE})
        assert await get()
        store.close()

    asyncio.run(ask())


def test_a_killed_server_that_comes_back(own_redis: RedisServer) -> None:
    store = open_store(f"{own_redis.url}?deadline={LONG}&write_buffer=20000")
    accepted: list[int] = []

    def put() -> None:
        for i in range(100):
            store.put_many({f"g/{i}": PAGE})
            accepted.append(i)

    writer = threading.Thread(target=put)
    own_redis.stop()
    writer.start()
    eventually(lambda: len(accepted) > 10)
    time.sleep(0.1)
    assert len(accepted) < 100, "it must wait for room"
    own_redis.start()
    writer.join(LONG)
    store.flush()
    assert store.get_many([f"g/{i}" for i in range(100)]) == [PAGE] * 100
    own_redis.stop()
    own_redis.start()  # what it has acknowledged is in its append-only file
    assert bare(own_redis.url).get_many([f"g/{i}" for i in range(100)]) == [PAGE] * 100
    store.close()


def test_names_are_ready_for_a_cluster(redis_url: str) -> None:
    group = uuid4().hex
    with bare(f"{redis_url}?prefix=mine") as store, redis.Redis.from_url(redis_url) as client:
        store.put_many({f"{group}/0/a": PAGE, f"{group}": PAGE})
        names = sorted(client.scan_iter(match=f"*{group}*"))
        assert names == sorted([f"mine:{{{group}}}/0/a".encode(), f"mine:{{{group}}}".encode()])
        assert sorted(store.keys(group)) == [group, f"{group}/0/a"]
        assert list(bare(redis_url).keys(group)) == []


def test_pages_live_as_long_as_asked(redis_url: str) -> None:
    key = f"{uuid4().hex}/0"
    name = f"mta:{{{key[:32]}}}/0"
    with redis.Redis.from_url(redis_url) as client:
        bare(redis_url).put_many({key: PAGE})
        assert client.ttl(name) == -1
        bare(f"{redis_url}?ttl=100").put_many({key: PAGE})
        assert 90 < client.ttl(name) <= 100


def test_flush_waits_for_replicas(own_redis: RedisServer, tmp_path: Path) -> None:
    store = bare(f"{own_redis.url}?wait=1&timeout=0.5")
    bare(own_redis.url).put_many({"g/1": PAGE})
    with pytest.raises(StoreUnavailable, match="replicas"):
        store.flush()
    (tmp_path / "replica").mkdir()
    options = ["--replicaof", "127.0.0.1", str(own_redis.port), "--repl-diskless-sync-delay", "0"]
    with redis.Redis(port=own_redis.port) as client:
        client.config_set("repl-diskless-sync-delay", 0)
        replica = RedisServer(tmp_path / "replica", *options)
        try:
            eventually(lambda: client.set("x", 1) and client.execute_command("WAIT", 1, 200))
            # It is there, but how soon it answers is the machine's affair.
            patient = bare(f"{own_redis.url}?wait=1&timeout={LONG}")
            patient.put_many({"g/2": PAGE})
            patient.flush()
            assert bare(replica.url).get_many(["g/1", "g/2"]) == [PAGE, PAGE]
        finally:
            replica.stop()


def test_many_pages_travel_in_few_commands(own_redis: RedisServer) -> None:
    pages = {f"{uuid4().hex}/0": PAGE for _ in range(500)}
    with bare(own_redis.url) as store, redis.Redis.from_url(own_redis.url) as client:
        before = client.info("stats")["total_commands_processed"]
        store.put_many(pages)
        assert store.get_many(list(pages)) == [PAGE] * 500
        store.delete_many(pages)
        assert client.info("stats")["total_commands_processed"] - before < 30
