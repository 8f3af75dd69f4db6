"""reliability 13 and 14: windows over a real Redis behind a network that fails.

Each fault is met by a window in mid-stream. While it lasts, memory is bounded, an event is refused
with a named error within the deadline, and no event is lost; when it is over, the window goes on,
and equals a plain list of the events that it accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from stores import (
    HeadCache,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    WriteBuffer,
    open_store,
)
from stores.compression import CompressedStore
from stores.redis import RedisStore
from stores.testing import FaultyStore
from tests.support.oracle import Stream
from tests.support.patience import LONG, in_time, short_deadline
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

redis = pytest.importorskip("redis")

#: While a fault lasts; before and after it nothing is in a hurry.
DEADLINE = 0.6
#: Of a call that hangs; one that is answered later on a busy machine is made again.
TIMEOUT = 0.25
BUFFER = 20_000


@dataclass
class Network:
    """A Redis behind a proxy, and a window's stream over it."""

    server: RedisServer
    proxy: Proxy
    stream: Stream
    buffer: WriteBuffer

    def admin(self, *command: object) -> None:
        with redis.Redis(port=self.server.port) as client:
            client.execute_command(*command)


@pytest.fixture
def network(own_redis: RedisServer) -> Iterator[Network]:
    with Proxy(own_redis.port) as proxy:
        store = open_store(
            f"redis://127.0.0.1:{proxy.port}?timeout={TIMEOUT}",
            write_buffer=BUFFER,
            cache=10_000,
            deadline=LONG,
        )
        assert isinstance(store, WriteBuffer)
        yield Network(own_redis, proxy, Stream(store), store)
        store.abandon()


def outage(net: Network) -> Callable[[], None]:
    net.proxy.go("refuse")
    return lambda: net.proxy.go("open")


def black_hole(net: Network) -> Callable[[], None]:
    net.proxy.go("black hole")
    return lambda: net.proxy.go("open")


def frozen(net: Network) -> Callable[[], None]:
    net.server.freeze()
    return net.server.thaw


def killed(net: Network) -> Callable[[], None]:
    net.server.stop()
    return net.server.start


def out_of_memory(net: Network) -> Callable[[], None]:
    net.admin("CONFIG", "SET", "maxmemory", 1)
    return lambda: net.admin("CONFIG", "SET", "maxmemory", 0)


def read_only(net: Network) -> Callable[[], None]:
    net.admin("REPLICAOF", "127.0.0.1", 1)
    return lambda: net.admin("REPLICAOF", "NO", "ONE")


def password_changed(net: Network) -> Callable[[], None]:
    net.admin("CONFIG", "SET", "requirepass", "other")
    net.proxy.reset_all()  # connections that are open stay logged in

    def back() -> None:
        with redis.Redis(port=net.server.port, password="other") as client:
            client.config_set("requirepass", "")

    return back


FAULTS = [
    (outage, StoreUnavailable),
    (black_hole, StoreUnavailable),
    (frozen, StoreUnavailable),
    (killed, StoreUnavailable),
    (out_of_memory, StoreFull),
    (read_only, StoreAccessDenied),
    (password_changed, StoreAccessDenied),
]


@pytest.mark.parametrize(("fault", "kind"), FAULTS)
def test_a_window_outlives_a_fault(
    network: Network, fault: Callable[[Network], Callable[[], None]], kind: type[Exception]
) -> None:
    stream, buffer = network.stream, network.buffer
    stream.feed(1000)
    before, threads = stream.fed, len([t for t in threading.enumerate() if t.name != "proxy"])
    # A refusal is no matter of time; the deadline is for answers that do not come.
    with short_deadline(buffer, DEADLINE if kind is StoreUnavailable else LONG):
        end = fault(network)
        for _ in range(2):
            with in_time():
                error = stream.feed_until_refused()
            assert type(error) is kind, error
            assert buffer.pending_bytes <= BUFFER
        assert stream.fed - before < 5000, "events were accepted without bound"
        assert len([t for t in threading.enumerate() if t.name != "proxy"]) <= threads + 2
        end()
    stream.feed(700)
    stream.check_restored(network.server.url)


def test_a_checkpoint_during_an_outage(network: Network) -> None:
    """The barrier raises by the deadline, and is passed when the store is back."""
    network.stream.feed(500)
    with short_deadline(network.buffer, DEADLINE):
        network.proxy.go("black hole")
        network.buffer.put_many({"other/1": b"a page that is not in the store yet"})
        with in_time(), pytest.raises(StoreUnavailable):
            network.stream.window.checkpoint()
        network.proxy.go("open")
    network.stream.check_restored(network.server.url)


@pytest.mark.parametrize("answered", [0, 1, 4, 60, 700])
def test_a_reset_in_the_middle_of_an_answer(network: Network, answered: int) -> None:
    """The call is made again: a write whose answer was lost is applied twice, and harms nobody."""
    for _ in range(5):
        network.proxy.reset_in_the_middle(answered)
        network.stream.feed(200)
    assert network.proxy.resets
    network.stream.check_restored(network.server.url)


def test_a_flapping_network(own_redis: RedisServer) -> None:
    """All connections are reset after every few answers: progress in between, nothing lost."""
    with Proxy(own_redis.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}?timeout=1&deadline={LONG}"
        with open_store(url, write_buffer=BUFFER, cache=10_000) as store:
            stream = Stream(store)
            proxy.answers_between_resets = 15
            stream.feed(1500)
            assert proxy.resets >= 5
            proxy.answers_between_resets = None
            stream.check_restored(own_redis.url)


def test_reordered_and_duplicated_writes(redis_url: str) -> None:
    """reliability 14: the store applies background writes late, in any order, some twice."""
    raw = open_store(redis_url, write_buffer=0, cache=0)
    assert isinstance(raw, CompressedStore) and isinstance(raw.store, RedisStore)
    faulty = FaultyStore(raw, seed=5)
    faulty.hold(20, shuffle=True, duplicates=0.4)
    stream = Stream(WriteBuffer(HeadCache(faulty, 10_000), 5_000, LONG))
    stream.feed(3000)
    stream.check_restored(redis_url)


@pytest.mark.parametrize("operation", ["put", "delete", "get", "flush"])
def test_every_third_answer_is_lost(redis_url: str, operation: str) -> None:
    """reliability 14: the calls are applied, their answers never come, they are made again."""
    faulty = FaultyStore(open_store(redis_url, write_buffer=0, cache=0))
    stream = Stream(WriteBuffer(HeadCache(faulty, 10_000), 5_000, deadline=LONG))
    for _ in range(8):
        faulty.fail(3, operations=[operation], applied=True)
        stream.feed(150)
        stream.window.checkpoint()
    assert faulty.fired >= 2
    stream.check_restored(redis_url)


def test_tls_mismatch(own_redis: RedisServer) -> None:
    """A client that talks TLS to a server that does not: refused by the deadline, nothing held."""
    url = own_redis.url.replace("redis", "rediss")
    store = open_store(f"{url}?timeout={TIMEOUT}&deadline={DEADLINE}", write_buffer=BUFFER)
    stream = Stream(store)
    with in_time():
        error = stream.feed_until_refused()
    assert isinstance(error, StoreUnavailable | StoreAccessDenied)
    assert isinstance(store, WriteBuffer)
    assert store.pending_bytes <= BUFFER
    store.abandon()
