"""``mta serve`` as a process of its own, and requests to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from tests.support.patience import LONG
from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
#: How a query begins; its length and its body follow.
QUERY = "POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
TOKEN = "a-token-of-32-characters-or-more"


def status_line(client: socket.socket) -> bytes:
    """The first line of an answer, in however many pieces it comes, or what came before the end."""
    answer = b""
    with suppress(ConnectionResetError):
        while b"\r\n" not in answer and (piece := client.recv(1 << 16)):
            answer += piece
    return answer.partition(b"\r\n")[0]


def path(key: str) -> str:
    """Where the windows of a key are."""
    return f"/v1/windows/{quote(key, safe='')}"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The name of the problem, "" of an answer that is none."""
        if self.headers["content-type"] != "application/problem+json":
            return ""
        found = self.json
        assert found["status"] == self.status
        assert found.keys() == {"type", "name", "title", "status", "detail"}
        return str(found["name"])


class Served:
    """A running service; leaving the context stops it."""

    def __init__(
        self, store: str | None, name: str, *options: str, token: str = "",
        host: str = "127.0.0.1",
    ) -> None:  # fmt: skip
        self.port, self.token, self.host = free_port(), token, host
        command = [sys.executable, "-m", "mta", "serve", name, "--port", str(self.port), *options]
        command += [] if store is None else ["--store", store]
        inherited = {key: value for key, value in os.environ.items() if key != "MTA_SERVE_TOKEN"}
        given = inherited | ({"MTA_SERVE_TOKEN": token} if token else {})
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=given, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.get("/healthz").status == 200:
                    return
            except OSError:
                time.sleep(0.05)
        out, errors = self.stop()
        raise RuntimeError(f"the service did not start:\n{out}\n{errors}")

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def post(self, body: Any, path: str = "/v1/query", **headers: str) -> Answer:
        """Bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, data, **{"content_type": "application/json", **headers})

    def ask(self, method: str, path: str, body: bytes | None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named.setdefault("authorization", f"Bearer {self.token}")
        connection = HTTPConnection(self.host, self.port, timeout=LONG)
        try:
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """A connection for requests that no client would send."""
        return socket.create_connection((self.host, self.port), timeout=LONG)

    def stop(self, by: int = signal.SIGTERM) -> tuple[str, str]:
        """Stop the service; what it printed."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.communicate(timeout=LONG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
