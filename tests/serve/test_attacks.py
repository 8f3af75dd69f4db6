"""Clients without the token, which send much and read nothing, do not keep others from answers."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from mta.serve.connections import MAX_WAITING_BYTES, Clients
from tests.serve.conftest import KEYS, Published
from tests.support.patience import LONG, in_time
from tests.support.sampling import some
from tests.support.serving import QUERY, TOKEN, Served, path, status_line

FILE = b"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: The most that the service may grow by, in bytes: unread answers, and what they take around them.
MOST_GROWTH = 50 << 20


@pytest.fixture
def service(on_disk: Published) -> Iterator[Served]:
    with started(on_disk) as found:
        yield found


@pytest.fixture(scope="module")
def shared(on_disk: Published) -> Iterator[Served]:
    with started(on_disk) as found:
        yield found


def started(on_disk: Published) -> Served:
    options = "--host", "0.0.0.0", "--time-limit", "2 seconds", "--max-waiting", "8"
    options += "--max-connections-per-address", "100"
    return Served(on_disk.store, on_disk.name, *options, token=TOKEN)


def attack(
    stack: ExitStack, service: Served, request: bytes, connections: int, source: str
) -> None:
    """Open connections from an address, and send what the service takes of many requests."""
    data = (request * 600)[: 1 << 16]
    for _ in range(connections):
        client = socket.socket()
        stack.enter_context(closing(client))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.bind((source, 0))
        client.settimeout(LONG)
        client.connect(("127.0.0.1", service.port))
        client.setblocking(False)
        with suppress(OSError):
            client.send(data)


def memory(service: Served) -> int:
    """Return the largest resident size of the service so far, in bytes."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def assert_serves(service: Served) -> None:
    assert service.get(path(KEYS[0])).status == 200
    assert service.get("/v1/status", authorization="").status == 401
    assert service.get("/healthz", authorization="").status == 200
    assert service.get("/static/page.css", authorization="").status == 200


REQUESTS: dict[str, bytes] = {
    "files": FILE,
    "no token": b"GET /v1/windows/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "nowhere": b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "bodies": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n" + b"\r\n\r\n" * 16384,
    "one head": b"GET / HTTP/1.1\r\nHost: " + b"a" * 20_000,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_clients_that_read_nothing_stop_nobody(request_: str, source: str, service: Served) -> None:
    assert_serves(service)
    before = memory(service)
    with ExitStack() as stack, in_time():
        for _ in range(2):
            attack(stack, service, REQUESTS[request_], 80, source)
            assert_serves(service)
        assert memory(service) - before < MOST_GROWTH
        started = time.monotonic()
        _, errors = service.stop()
        assert time.monotonic() - started < 5, "SIGTERM waits for clients that do not read"
    assert len(errors) < 10_000


def test_clients_of_many_addresses_stop_nobody(on_disk: Published) -> None:
    options = "--host", "0.0.0.0", "--max-connections", "50"
    many = Served(on_disk.store, on_disk.name, *options, token=TOKEN)
    with many as service, ExitStack() as stack, in_time():
        for number in range(100):
            attack(stack, service, FILE, 1, f"127.0.1.{number}")
            if number % 20 == 0:
                assert_serves(service)
        assert_serves(service)
        assert len(os.listdir(f"/proc/{service.process.pid}/fd")) < 50 + 40


def test_a_client_that_reads_nothing_is_cut_off(shared: Served) -> None:
    with closing(shared.connect()) as client, in_time():
        client.sendall(FILE * 1000)
        time.sleep(4.5)  # twice the time limit
        read = 0
        with suppress(ConnectionResetError):
            while piece := client.recv(1 << 16):
                read += len(piece)
        assert read < 1000 * 10_000


def test_a_client_that_reads_slowly_gets_all(shared: Served) -> None:
    """Pipelined requests are answered in order, however long the client takes to read."""
    with closing(shared.connect()) as client, in_time():
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        client.sendall((FILE * 200)[:-4] + b"\r\nConnection: close\r\n\r\n")
        read, started = b"", time.monotonic()
        while piece := client.recv(1 << 15):
            read += piece
            if time.monotonic() - started < 4:
                time.sleep(0.05)
        assert read.count(b"HTTP/1.1 200 OK\r\n") == 200


def test_other_connections_of_the_same_address_stay_while_they_proceed(shared: Served) -> None:
    """A flood of new connections does not close one whose request is under way."""
    with closing(shared.connect()) as client, ExitStack() as stack, in_time():
        head = QUERY.replace("Host: localhost", f"Host: localhost\r\nAuthorization: Bearer {TOKEN}")
        body = b'{"keys": ["a"]}'
        attack(stack, shared, FILE, 90, "127.0.0.1")
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:3])
        attack(stack, shared, FILE, 90, "127.0.0.1")
        client.sendall(body[3:])
        assert b" 200 " in status_line(client)


HEAD_STATES: dict[str, bytes] = {
    "first": b"",
    "after an answer": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "behind unread answers": FILE * 600,
    "after a refused body": b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "after an upgrade": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "behind a body": b"POST /v1/query HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
}
ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "a header": (b"GET / HTTP/1.1\r\nX: ", b"x" * 65536),
    "headers": (b"GET / HTTP/1.1\r\n", b"X: x\r\n" * 10_000),
    "a path": (b"GET /", b"x" * 65536),
    "lines": (b"", b"\r\n" * 30_000),
    "trailers": (
        b"POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"X: x\r\n" * 10_000,
    ),
    "a trailer": (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"x" * 65536,
    ),
    "an extension": (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;",
        b"x" * 65536,
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("endless", ENDLESS)
@pytest.mark.parametrize("state", HEAD_STATES)
def test_an_endless_head_is_cut_off_in_every_state(
    state: str, endless: str, shared: Served
) -> None:
    start, more = ENDLESS[endless]
    with closing(shared.connect()) as client, in_time():
        client.settimeout(2.5)
        sent = 0
        with suppress(OSError):
            client.sendall(HEAD_STATES[state] + start)
            while sent < 90 << 20:
                client.sendall(more)
                sent += len(more)
        assert sent < 24 << 20  # what fits into the buffers of the system
    assert memory(shared) < 200 << 20
    assert_serves(shared)


def test_a_client_that_sends_a_body_a_byte_at_a_time_keeps_no_place(shared: Served) -> None:
    """The token is checked before a request takes a place."""
    with ExitStack() as stack, in_time():
        head = f"{QUERY}Content-Length: 1000\r\n\r\n{{".encode()
        attack(stack, shared, head, 60, "127.0.0.1")
        assert_serves(shared)


class Held:
    """A connection for which bytes are kept."""

    def __init__(self, since: float, weight: int, waits: bool = True) -> None:
        self.since, self.weight, self.waits, self.site = since, weight, waits, "127.0.0.1"
        self.transport, self.is_open = self, True

    def abort(self) -> None:
        self.is_open = False


@pytest.mark.parametrize("seed", some(range(10), by_default=2))
def test_bytes_that_are_kept_for_clients_are_bounded(seed: int) -> None:
    drawn, clients = random.Random(seed), Clients(most=1000, most_of_site=1000)
    held = [Held(drawn.random(), drawn.randrange(1 << 22)) for _ in range(100)]
    for each in held:
        clients.add(each)  # type: ignore[arg-type]
        clients.weigh(each)  # type: ignore[arg-type]
    left = [each for each in held if each.is_open]
    assert MAX_WAITING_BYTES / 2 < sum(each.weight for each in left) <= MAX_WAITING_BYTES
    alone = Held(2.0, 2 * MAX_WAITING_BYTES)
    clients.add(alone)  # type: ignore[arg-type]
    clients.weigh(alone)  # type: ignore[arg-type]
    assert [each for each in [*held, alone] if each.is_open] == [alone]


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    clients = Clients(most=5, most_of_site=3)
    first, busy, third = Held(1.0, 0), Held(0.0, 0, waits=False), Held(2.0, 0)
    others = [Held(0.5, 0) for _ in range(2)]
    for number, other in enumerate(others):
        other.site = f"127.0.0.{number + 2}"
    for each in (first, busy, third, *others, new := Held(3.0, 0)):
        clients.add(each)  # type: ignore[arg-type]
    assert not first.is_open, "the address has more connections than it may have"
    clients.remove(first)  # type: ignore[arg-type]
    for number in range(2):
        another = Held(4.0, 0)
        another.site = f"127.0.1.{number}"
        clients.add(another)  # type: ignore[arg-type]
        assert another.is_open
    assert (third.is_open, new.is_open, busy.is_open) == (False, False, True)
    clients = Clients(most=2, most_of_site=3)
    three = [Held(0.0, 0, waits=False), Held(0.0, 0, waits=False), Held(1.0, 0)]
    three[2].site = "127.0.0.2"
    for each in three:
        clients.add(each)  # type: ignore[arg-type]
    assert [each.is_open for each in three] == [True, True, False], "all others are answered"
