"""Real Redis servers for the tests: started on a free port, stopped at the end.

The shared one is, in this order, the one that ``MTA_TEST_REDIS_URL`` names (its other keys are left
alone), a container where a Docker engine has an image (see ``containers.py``), or a
``redis-server`` on the PATH; else the tests that need it are skipped, and say so. Servers that are
frozen, killed, or configured for one test are of the tests' own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom

import pytest

from tests.support.containers import container, redis_image
from tests.support.patience import LONG

PASSWORD = "s3cret/pass:word@#"
PASSWORD_IN_URL = "s3cret%2Fpass%3Aword%40%23"


def free_port() -> int:
    """One below those that systems give to clients: nobody takes it while its server is away."""
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class OwnServer:
    """A server of the tests' own, which can be frozen, killed and started again."""

    command: list[str]
    log: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + LONG
        while not self.answers():
            alive = time.monotonic() < deadline and self.process.poll() is None
            assert alive, f"{self.command[0]} did not start:\n{self.log.read_text()[-2000:]}"
            time.sleep(0.02)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class RedisServer(OwnServer):
    """A ``redis-server``."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(
                "NOT TESTED: no redis-server on the PATH. "
                "Install it (apt-get install redis-server) or set MTA_TEST_REDIS_URL"
            )
        self.port = free_port()
        self.log = folder / "redis.log"
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.command += ["--dir", str(folder), *arguments]
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"


def wait_for_redis(host: str, port: int) -> None:
    """Until it answers: the port is open as soon as a container is, Redis a bit later."""
    deadline = time.monotonic() + LONG
    while True:
        with suppress(OSError), socket.create_connection((host, port), timeout=1) as probe:
            probe.sendall(b"PING\r\n")
            if probe.recv(5) == b"+PONG":
                return
        assert time.monotonic() < deadline, "Redis in the container does not answer"
        time.sleep(0.05)


@contextmanager
def in_container() -> Iterator[str | None]:
    """A Redis in a container, None where no Docker engine has an image."""
    port = free_port()
    command = f"redis-server --port {port} --bind 0.0.0.0 --protected-mode no --save ''"
    with container(redis_image(), command, {port: port}) as host:
        if host is not None:
            wait_for_redis(host, port)
        yield None if host is None else f"redis://{host}:{port}"


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis without a password."""
    given = os.environ.get("MTA_TEST_REDIS_URL")
    if given:
        yield given
        return
    with in_container() as inside:
        if inside is not None:
            yield inside
            return
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def redis_with_password(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis that asks for PASSWORD, and has a user ``reader`` who may not write."""
    folder = tmp_path_factory.mktemp("redis-password")
    server = RedisServer(
        folder, "--requirepass", PASSWORD, "--user", "reader", "on", ">readonly", "~*", "+@read"
    )
    yield server
    server.stop()


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port where connections are accepted and nothing is ever answered."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield listening.getsockname()[1]


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for one test, to be stopped and started; an append-only file keeps its pages."""
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one node: it refuses commands across slots, as every cluster does."""
    options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    server = RedisServer(tmp_path_factory.mktemp("redis-cluster"), *options)
    redis = pytest.importorskip("redis")
    with redis.Redis(port=server.port) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            time.sleep(0.02)
    yield f"{server.url}?cluster=true"
    server.stop()


@pytest.fixture(scope="session")
def redis_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Redis with TLS, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("redis-tls")
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: no openssl on the PATH to make a certificate with")
    certificate, key = folder / "server.crt", folder / "server.key"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    make += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(make.split(), check=True, capture_output=True)
    port = free_port()
    options = f"--tls-port {port} --tls-cert-file {certificate} --tls-key-file {key}"
    # The default user needs no password here, this one does.
    user = ["--user", "secured", "on", f">{PASSWORD}", "~*", "+@all"]
    server = RedisServer(folder, *options.split(), "--tls-auth-clients", "no", *user)
    yield f"rediss://127.0.0.1:{port}", certificate
    server.stop()


def shown(error: BaseException) -> str:
    """Everything that a log would show of an error."""
    return "".join(traceback.format_exception(error))
