"""Requests that mean harm get a named problem, soon, and the service goes on."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import quote

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Last
from tests.serve.conftest import KEYS, Published
from tests.support.faulty import eventually
from tests.support.patience import in_time
from tests.support.serving import QUERY, Served, status_line


@pytest.fixture(scope="module")
def service(on_disk: Published) -> Iterator[Served]:
    options = "--max-keys", "100", "--max-body", "64KiB", "--time-limit", "1 second"
    with Served(on_disk.store, on_disk.name, *options) as found:
        yield found
        assert found.get("/v1/status").status == 200


BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "InvalidRequest"),
    "no JSON": (b"{keys: 1}", "InvalidRequest"),
    "bad UTF-8": (b'{"keys": ["\xff\xfe"]}', "InvalidRequest"),
    "lone surrogate": (rb'{"keys": ["\ud800"]}', "InvalidRequest"),
    "no object": (b"[1]", "InvalidRequest"),
    "deep array": (b'{"keys": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "InvalidRequest"),
    "deep key": (b'{"keys": [' + b"[" * 200 + b"]" * 200 + b"]}", "UnsuitableKey"),
    "a deeper key": (b'{"keys": [' + b"[" * 1000 + b"]" * 1000 + b"]}", "UnsuitableKey"),
    "a deep moment": (b'{"keys": ["a"], "at": ' + b"[" * 1000 + b"]" * 1000 + b"}", "InvalidTime"),
    "a deep object as moment": (
        b'{"keys": ["a"], "at": ' + b'{"a":' * 1000 + b"1" + b"}" * 1001,
        "InvalidTime",
    ),
    "many lists": (b'{"keys": [' + b"[]," * 20_000 + b"[]]}", "TooManyKeys"),
    "deep object": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "InvalidRequest"),
    "no keys": (b"{}", "InvalidRequest"),
    "empty keys": (b'{"keys": []}', "InvalidRequest"),
    "keys of text": (b'{"keys": "card"}', "InvalidRequest"),
    "another type": (b'{"keys": [7]}', "UnsuitableKey"),
    "null": (b'{"keys": [null]}', "UnsuitableKey"),
    "long key": (json.dumps({"keys": ["k" * 2000]}).encode(), "UnsuitableKey"),
    "long key of few characters": (json.dumps({"keys": ["ü" * 1000]}).encode(), "UnsuitableKey"),
    "NaN": (b'{"keys": ["a"], "at": NaN}', "InvalidRequest"),
    "NaN as text": (b'{"keys": ["a"], "at": "NaN"}', "InvalidTime"),
    "Infinity": (b'{"keys": ["a"], "at": 1e999}', "InvalidRequest"),
    "a moment far away": (b'{"keys": ["a"], "at": 1e300}', "InvalidTime"),
    "a long whole number": (b'{"keys": ["a"], "at": ' + b"9" * 400 + b"}", "InvalidRequest"),
    "milliseconds": (b'{"keys": ["a"], "at": 1764165600000}', "InvalidTime"),
    "year 0": (b'{"keys": ["a"], "at": "0000-01-01"}', "InvalidTime"),
    "an end of time": (b'{"keys": ["a"], "at": "0001-01-01T00:00+14:00"}', "InvalidTime"),
    "true": (b'{"keys": ["a"], "at": true}', "InvalidTime"),
    "too few moments": (b'{"keys": ["a", "b"], "at": [1]}', "InvalidRequest"),
    "nested moments": (b'{"keys": ["a"], "at": [[1]]}', "InvalidTime"),
    "an unknown field": (b'{"keys": ["a"], "At": 1}', "InvalidRequest"),
    "partial": (b'{"keys": ["a"], "partial": 1}', "InvalidRequest"),
    "too many keys": (json.dumps({"keys": ["a"] * 101}).encode(), "TooManyKeys"),
    "a large body": (b'{"keys": ["' + b"a" * 100_000 + b'"]}', "BodyTooLarge"),
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies(body: str, service: Served) -> None:
    data, problem = BODIES[body]
    with in_time():
        assert service.post(data).problem == problem


PATHS: dict[str, str] = {
    "/v1/windows/%ff": "UnsuitableKey",
    "/v1/windows/a%ED%A0%80": "UnsuitableKey",
    f"/v1/windows/{'k' * 5000}": "UnsuitableKey",
    "/v1/windows/a?at=": "InvalidTime",
    "/v1/windows/a?at=NaN": "InvalidTime",
    "/v1/windows/a?at=inf": "InvalidTime",
    "/v1/windows/a?at=1e5": "InvalidTime",
    "/v1/windows/a?at=1970-01-01T00:00+01:00": "InvalidTime",
    "/v1/windows/a?at=99999999999999": "InvalidTime",
    f"/v1/windows/a?at={'9' * 5000}": "InvalidTime",
    "/v1/windows/a?at=1e999990": "InvalidTime",
    "/v1/windows/a?at=0000-01-01": "InvalidTime",
    "/v1/windows/a?at=10000-01-01": "InvalidTime",
    "/v1/window%73/a": "NotFound",
    "/v1%2fwindows/a": "NotFound",
    "/v1/%77indows/a": "NotFound",
    "/v1/event%73/a": "NotFound",
    "/v1/windows%2Fa": "NotFound",
    "/v1/windows/a?at=1&at=2": "InvalidRequest",
    "/v1/windows/a?partial=yes": "InvalidRequest",
    "/v1/windows/a?__proto__=1": "InvalidRequest",
    "/v1/events/a?limit=0": "InvalidRequest",
    "/v1/events/a?limit=-1": "InvalidRequest",
    "/v1/events/a?limit=10001": "InvalidRequest",
    "/v1/events/a?limit=1e3": "InvalidRequest",
    "/v1/status?key=1": "InvalidRequest",
    "/v1/windows": "UnsuitableKey",
    "/v1/query": "MethodNotAllowed",
    "/v1/": "NotFound",
    "/static/../settings.py": "NotFound",
    "/static/..%2fsettings.py": "NotFound",
    "/static/%2e%2e/%2e%2e/settings.py": "NotFound",
    "//etc/passwd": "NotFound",
    "/docs/../../etc/passwd": "NotFound",
}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path[:40])
def test_paths(path: str, service: Served) -> None:
    with in_time():
        assert service.get(path).problem == PATHS[path]


MOMENTS = [
    "0001-01-01", "0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59Z", "9999-12-31",
    "9999-12-31T23:59:59.999999", "9998-12-31T23:59:59.5", "-62135596800", "99999999999",
    "-9999999999.999999999", "now",
]  # fmt: skip


@pytest.mark.parametrize("at", MOMENTS)
def test_moments_at_the_ends_of_time(at: str, service: Served) -> None:
    """Every moment is answered, and the answer can be sent as a request again."""
    key = quote(KEYS[0], safe="")
    answer = service.get(f"/v1/windows/{key}?at={at}&partial=true")
    assert answer.status == 200, answer.body
    again = service.get(f"/v1/windows/{key}?at={quote(answer.json['at'])}&partial=true")
    if int(answer.json["at"].partition("-")[0] or 0) > 0:
        assert again.json == answer.json
    many = service.post({"keys": [KEYS[0]], "at": at, "partial": True})
    row = {name: column[0] for name, column in many.json["columns"].items()}
    assert at == "now" or row == answer.json["values"]


def test_times_of_events_at_the_ends_of_time(folder: str) -> None:
    years = [-140_000, -1, 0, 1, 1969, 9998, 9999, 10_000, 140_000]
    times = np.array([np.datetime64(year - 1970, "Y") for year in years]).astype("M8[us]")
    windows = KeyedWindows(Last("datetime64[us]"), CountWindow(20), folder, name="w", timed=True)
    windows.publish("ends")
    windows.extend(["a"] * len(times), times, times)
    windows.checkpoint()
    with Served(folder, "ends") as service:
        answer = service.get("/v1/events/a").json
        assert answer["times"] == [f"{time}Z" for time in times.astype("M8[s]")]
        assert answer["times"] == answer["columns"]["value"]
        assert service.get("/v1/windows/a").json["values"]["value"] == answer["times"][-1]
        assert service.post({"keys": ["a", "b"]}).json["columns"]["value"][0] == answer["times"][-1]


def test_a_fragment_is_no_part_of_a_path(service: Served) -> None:
    with closing(service.connect()) as client, in_time():
        client.sendall(b"GET /v1/windows/a#b HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 400 " in status_line(client)


def test_a_path_as_key_is_a_key(service: Served) -> None:
    for key in ("../../etc/passwd", "a\nb", "\n", "a?b#c", "<script>", " ", "\x00", "%2F"):
        assert service.get(f"/v1/windows/{quote(key, safe='')}").json["key"] == key


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_is_written(method: str, service: Served) -> None:
    answer = service.ask(method, "/v1/windows/a", b"{}")
    assert answer.problem == "MethodNotAllowed"
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_of_another_site_is_no_query(kind: str, service: Served) -> None:
    assert service.post({"keys": ["a"]}, content_type=kind).problem == "UnsupportedMediaType"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x"])
def test_a_compressed_body_is_refused(encoding: str, service: Served) -> None:
    """Ten megabytes in a few kilobytes, and those compressed again."""
    bomb = gzip.compress(gzip.compress(b'{"keys": ["' + b"a" * 10_000_000 + b'"]}'))
    answer = service.post(bomb, content_encoding=encoding)
    assert answer.problem == "UnsupportedMediaType"
    assert "Content-Encoding" in answer.json["detail"]
    assert service.post({"keys": ["a"]}, content_encoding="identity").status == 200


def test_a_slow_body_is_not_waited_for(service: Served) -> None:
    with closing(service.connect()) as client, in_time():
        client.sendall(f"{QUERY}Content-Length: 1000\r\n\r\n{{".encode())
        assert b" 408 " in status_line(client)


def test_a_slow_head_is_not_waited_for(service: Served) -> None:
    with closing(service.connect()) as client, in_time():
        client.sendall(b"GET /v1/status HTTP/1.1\r\nHost: local")
        assert client.recv(1 << 16) == b""


def test_a_second_request_is_timed_too(service: Served) -> None:
    with closing(service.connect()) as client, in_time():
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):  # it may come in pieces
            answer += (piece := client.recv(1 << 16))
            assert piece, answer
        client.sendall(b"GET /hea")
        assert client.recv(1 << 16) == b""


def test_a_chunked_body_is_measured_too(service: Served) -> None:
    with closing(service.connect()) as client, in_time():
        client.sendall(f"{QUERY}Transfer-Encoding: chunked\r\n\r\n".encode())
        with suppress(OSError):
            for _ in range(1000):
                client.sendall(b"400\r\n" + b"a" * 1024 + b"\r\n")
        assert b" 413 " in status_line(client)


def test_clients_that_leave_do_no_harm(service: Served) -> None:
    body = json.dumps({"keys": KEYS}).encode()
    for end in (20, len(QUERY) + 60):
        for _ in range(20):
            with closing(service.connect()) as client:
                request = f"{QUERY}Content-Length: {len(body)}\r\n\r\n".encode() + body
                client.sendall(request[:end])
    assert service.post({"keys": KEYS}).status == 200


def test_clients_that_do_not_wait_for_answers_are_no_errors(on_disk: Published) -> None:
    service = Served(on_disk.store, on_disk.name)
    for _ in range(100):
        with closing(service.connect()) as client:
            client.sendall(b"GET /v1/windows/a HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            client.recv(1)
    assert service.get("/healthz").status == 200
    assert service.stop()[1] == ""


def test_noise_is_no_request(service: Served) -> None:
    for noise in (
        b"\x16\x03\x01\x02\x00\x01",
        b"\x00" * 4096,
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 99,
    ):
        with closing(service.connect()) as client:
            client.sendall(noise)
            client.shutdown(socket.SHUT_WR)
            assert b" 200 " not in status_line(client)


def test_more_requests_than_may_wait_are_refused_at_once(on_disk: Published) -> None:
    options = "--max-waiting", "8", "--time-limit", "30 seconds"
    with Served(on_disk.store, on_disk.name, *options) as service:
        waiting = [service.connect() for _ in range(8)]
        for client in waiting:
            client.sendall(f"{QUERY}Content-Length: 1000\r\n\r\n{{".encode())
        eventually(lambda: service.get("/v1/status").problem == "Overloaded")
        for client in waiting:
            client.close()
        eventually(lambda: service.get("/v1/status").status == 200)
