"""Clients that send slowly, much or nonsense change no windows, and keep nobody from answers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from mta.errors import UnsuitableKey
from mta.service.rows import RowReader
from tests.service.conftest import Declare
from tests.service.test_service import WRITE_TOKEN, declared_in
from tests.support.patience import LONG, in_time
from tests.support.services import Serving
from tests.support.serving import TOKEN

HEAD = (
    "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {WRITE_TOKEN}\r\n"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    path = declared_in(tmp_path_factory.mktemp("attacks"))
    text = path.read_text().replace('amount = "int"', 'amount = "int", weight = "float"')
    path.write_text(
        text.replace('requests = "count"', 'requests = "count"\nlast = ["weight", "last"]')
    )
    options = "--time-limit", "2 seconds", "--max-body", "64KiB"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTA_SERVE_WRITE_TOKEN", WRITE_TOKEN)
        with Serving(path, *options, create=True, token=TOKEN) as found:
            found.wait_until_all_shards_are_owned()
            yield found


def spent(service: Serving, user: str) -> int:
    row = {"user": user, "amount": 0, "weight": 0.0}
    found: int = service.add(row, path="/v1/check").json["values"]["spent_day"]
    return found


def add(service: Serving, user: str, amount: int = 1) -> int:
    row = {"user": user, "amount": amount, "weight": 1.0}
    return service.add(row, authorization=f"Bearer {WRITE_TOKEN}").status


def connected(stack: ExitStack, service: Serving) -> socket.socket:
    return stack.enter_context(closing(service.connect()))


def request(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"{HEAD}Content-Length: {size}\r\n\r\n".encode() + body


def event(user: str, number: int) -> bytes:
    row = {"user": user, "amount": 1, "weight": 0.5, "id": str(number)}
    return request(json.dumps(row).encode())


def answers(client: socket.socket, count: int) -> list[bytes]:
    """The first lines of as many answers; fewer if the server closes the connection."""
    found, deadline = b"", time.monotonic() + LONG
    while found.count(b"HTTP/1.1 ") < count and time.monotonic() < deadline:
        if not (data := client.recv(1 << 16)):
            break
        found += data
    return [part.split(b"\r\n")[0] for part in found.split(b"HTTP/1.1 ")[1:]]


def test_slow_writers_end_and_others_are_answered(service: Serving) -> None:
    with ExitStack() as stack:
        slow = [connected(stack, service) for _ in range(60)]
        for at, client in enumerate(slow):
            client.sendall(request(b'{"user": "slow", "amou', 1000) if at % 2 else HEAD.encode())
        with in_time():
            assert add(service, "others") == 200
        assert answers(slow[1], 1) == [b"408 Request Timeout"]
        assert answers(slow[0], 1) in ([], [b"408 Request Timeout"])
    assert spent(service, "slow") == 0


def test_a_body_without_an_end_is_refused(service: Serving) -> None:
    with ExitStack() as stack:
        named = connected(stack, service)
        named.sendall(request(b"[", 1 << 40))
        chunked = connected(stack, service)
        chunked.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        piece = b'{"user": "huge", "amount": 1, "weight": 1},' * 100
        try:
            for _ in range(200):
                chunked.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        except OSError:
            pass  # the server has closed the connection
        else:
            assert answers(chunked, 1) == [b"413 Request Entity Too Large"]
        assert answers(named, 1)[0][:3] in (b"408", b"413")
    assert spent(service, "huge") == 0


def test_pipelined_events_are_answered_in_order_and_count_once(service: Serving) -> None:
    with ExitStack() as stack:
        client = connected(stack, service)
        client.sendall(b"".join(event("pipe", number % 4) for number in range(40)))
        assert answers(client, 40) == [b"200 OK"] * 40
    assert spent(service, "pipe") == 4


def test_an_event_of_a_client_that_hangs_up_counts_at_most_once(service: Serving) -> None:
    for number in range(20):
        with ExitStack() as stack:
            connected(stack, service).sendall(event("gone", number // 2))
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        assert spent(service, "gone") <= 6  # the limit of requests per minute
        time.sleep(0.1)


def test_wrong_tokens_change_nothing(service: Serving) -> None:
    row = {"user": "token", "amount": 1, "weight": 1.0}
    for token in ("", TOKEN, WRITE_TOKEN[:-1], WRITE_TOKEN + "x", "\N{SNOWMAN}".encode().hex()):
        for path in ("/v1/events", "/v1/erase"):
            found = service.add(row, path=path, authorization=f"Bearer {token}")
            assert (found.status, found.problem) == (401, "Unauthorized")
    assert spent(service, "token") == 0


@pytest.mark.parametrize("name", ["amount", "weight"])
@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "1e999", "1" * 400, '"1"', "null", "true", "[1]",
     "[" * 5000 + "]" * 5000, '{"a":' * 2000 + "1" + "}" * 2000, "0x10", "1_0", "9" * 5000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_no_number_is_refused(service: Serving, name: str, text: str) -> None:
    other = "weight" if name == "amount" else "amount"
    body = f'[{{"user": "odd", "{name}": {text}, "{other}": 1}}]'.encode()
    found = service.post(body, "/v1/events", authorization=f"Bearer {WRITE_TOKEN}")
    assert (found.status, found.problem) == (400, "InvalidRequest")
    assert len(found.body) < 1000
    assert spent(service, "odd") == 0


@pytest.mark.parametrize("key", ["x" * 1025, "\N{SNOWMAN}" * 342, "\N{SNOWMAN}" * 1024])
def test_a_key_of_too_many_bytes_is_refused_alone(service: Serving, key: str) -> None:
    row = {"user": key, "amount": 1, "weight": 1.0}
    token = f"Bearer {WRITE_TOKEN}"
    for given, path in ((row, "/v1/events"), (row, "/v1/check"), ({"keys": [key]}, "/v1/erase")):
        headers = {} if path == "/v1/check" else {"authorization": token}
        found = service.post(given, path, **headers)
        assert (found.status, found.problem) == (400, "UnsuitableKey")
    longest = {**row, "user": "\N{SNOWMAN}" * 341}
    assert service.post([longest] * 2, "/v1/events", authorization=token).status == 200


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, 2**64])
def test_an_integer_key_of_more_than_64_bits_is_refused(declare: Declare, key: int) -> None:
    reader = RowReader(replace(declare(), keys=(("user", "bigint"),)))
    assert reader.plain(2**63 - 1) == 2**63 - 1
    with pytest.raises(UnsuitableKey):
        reader.plain(key)


def test_numbers_at_their_bounds_are_taken(service: Serving) -> None:
    for weight in ("1.7976931348623157e308", "5e-324", "-0.0", "12345678901234567890"):
        body = f'{{"user": "bounds", "amount": 0, "weight": {weight}}}'.encode()
        found = service.post(body, "/v1/events", authorization=f"Bearer {WRITE_TOKEN}")
        assert found.json["values"]["last_day"] == float(weight)
    for amount in (2**63 - 1, -(2**63)):
        body = f'{{"user": "bounds {amount}", "amount": {amount}, "weight": 0}}'.encode()
        found = service.post(body, "/v1/events", authorization=f"Bearer {WRITE_TOKEN}")
        assert found.json["values"]["spent_day"] == amount
        assert found.status == (409 if amount > 0 else 200)
