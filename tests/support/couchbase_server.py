"""A Couchbase for the tests: a real one where there is one, else the mock of Couchbase's engineers.

In this order:

1. ``MTA_TEST_COUCHBASE_URL``: ``couchbase://user:password@host/bucket`` of a server to use.
2. Couchbase's own image (``MTA_TEST_COUCHBASE_IMAGE``, else ``couchbase:community``) in a
   container, initialised over REST, where a Docker engine has it.
3. ``CouchbaseMock`` from Maven Central (or at ``MTA_TEST_COUCHBASE_MOCK``). It speaks the real
   protocol to the real client, but keeps all in memory, knows neither collections nor durability
   nor range scans, and takes any password.

``gocaves`` is a second implementation of the protocol by the same engineers, in Go. It has
collections and checks passwords, and is built from ``gocaves/main.go`` where there is a ``go``.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.containers import container
from tests.support.go_programs import built
from tests.support.maven import jars
from tests.support.patience import LONG
from tests.support.servers import OwnServer

VERSION = "1.5.27"
USER, PASSWORD = "tester", "c0uch/pass:word@#"
PASSWORD_IN_URL = "c0uch%2Fpass%3Aword%40%23"
_CREDENTIALS = f"{USER}:{PASSWORD_IN_URL}"


@dataclass(frozen=True)
class Couchbase:
    """Where a Couchbase is, and whether it is the real thing."""

    url: str
    real: bool


class MockServer(OwnServer):
    """A ``CouchbaseMock``. It ends when this process does."""

    def __init__(self, jar: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as monitor:
            monitor.settimeout(10 * LONG)
            command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-jar", str(jar)]
            command += ["--host", "127.0.0.1", "--port", "0", "--nodes", "1", "--replicas", "0"]
            command += ["--vbuckets", "64", "--buckets", "default::couchbase", "--cccp"]
            command += ["--harakiri-monitor", f"127.0.0.1:{monitor.getsockname()[1]}"]
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            self._control, _ = monitor.accept()
        rest = b""
        while not rest.endswith(b"\0"):
            rest += self._control.recv(1)
        self._answers = self._control.makefile("rb")
        with urllib.request.urlopen(
            f"http://127.0.0.1:{int(rest[:-1])}/pools/default/buckets/default", timeout=30
        ) as answer:
            self.port = int(json.load(answer)["nodesExt"][0]["services"]["kv"])

    @property
    def url(self) -> str:
        return f"couchbase://{_CREDENTIALS}@127.0.0.1:{self.port}/default"

    def fail(self, code: int, count: int = -1) -> None:
        """Answer ``count`` operations (negative: all) with this status; ``fail(0, 0)`` ends it."""
        payload = {"code": code, "count": count, "servers": [0]}
        command = {"command": "opfail", "payload": payload}
        self._control.sendall(json.dumps(command).encode() + b"\n")
        assert json.loads(self._answers.readline())["status"] == "ok"

    def stop(self) -> None:
        super().stop()
        self._answers.close()
        self._control.close()


class Gocaves:
    """A ``gocaves`` of the tests' own, with the collection ``mta.pages``, until ``stop``."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        command = [str(program), USER, PASSWORD]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        self.host = self.process.stdout.readline().strip().removeprefix("couchbase://")

    def url(self, path: str = "default/mta/pages", credentials: str = _CREDENTIALS) -> str:
        return f"couchbase://{credentials}@{self.host}/{path}"

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def gocaves() -> Iterator[Gocaves]:
    """A ``gocaves`` that the tests of a module share."""
    pytest.importorskip("couchbase")
    server = Gocaves(built("gocaves"))
    yield server
    server.stop()


def mock_jar() -> Path:
    """The mock's jar; skips where it cannot be had."""
    given = os.environ.get("MTA_TEST_COUCHBASE_MOCK")
    if given:
        return Path(given)
    if shutil.which("java") is None:
        pytest.skip("NOT TESTED: no java on the PATH for the mock of Couchbase")
    (jar,) = jars(f"com.couchbase.mock:CouchbaseMock:{VERSION}", alone=True)
    return jar


@contextmanager
def couchbase() -> Iterator[Couchbase]:
    """The best Couchbase that can be had here."""
    given = os.environ.get("MTA_TEST_COUCHBASE_URL")
    if given:
        yield Couchbase(given, real=True)
        return
    image = os.environ.get("MTA_TEST_COUCHBASE_IMAGE", "couchbase:community")
    # A client asks the server for its ports, so they must be the same inside and outside.
    ports = [8091, 8092, 8093, 8094, 8095, 8096, 11210]
    # So there is one a machine: of several processes that run tests, the first one's.
    image = image if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" else None
    with container(image, ports={port: port for port in ports}) as host:
        if host is not None:
            initialise(host)
            url = f"couchbase://{_CREDENTIALS}@{host}/pages/mta/pages"
            yield Couchbase(url, real=True)
            return
    server = MockServer(mock_jar())
    try:
        yield Couchbase(server.url, real=False)
    finally:
        server.stop()


def initialise(host: str) -> None:
    """Make a fresh Couchbase node usable: memory, user, bucket ``pages``, collection ``mta.pages``.

    The same steps as ``docker/couchbase-init.sh``.
    """
    _rest(host, "/pools", patience=120)
    _rest(host, "/pools/default", memoryQuota="512")
    _rest(host, "/node/controller/setupServices", services="kv")
    _rest(host, "/settings/web", username=USER, password=PASSWORD, port="SAME")
    _rest(host, "/pools/default/buckets", name="pages", ramQuota="256", replicaNumber="0")
    _rest(host, "/pools/default/buckets/pages/scopes", name="mta", patience=60)
    _rest(host, "/pools/default/buckets/pages/scopes/mta/collections", name="pages", patience=60)


def _rest(host: str, path: str, *, patience: float = 10, **form: str) -> bytes:
    """POST the form (GET without one), again and again while the server is not ready."""
    data = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(f"http://{host}:8091{path}", data)
    secret = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    request.add_header("Authorization", f"Basic {secret}")
    deadline = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return bytes(answer.read())
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
