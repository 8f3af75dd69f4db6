"""A ``redis-server`` of a measurement's own, in place of the paper's store on other machines.

It is the program on the PATH, started on a free port of this machine with a password of its own: so
no other database can be taken for it, and it can be taken for none.
"""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from time import monotonic, sleep

PROGRAM = "redis-server"
#: It is given up where it does not answer by then, in seconds.
PATIENCE = 20.0
_PR_SET_PDEATHSIG = 1


def missing() -> str | None:
    """What is missing for a server; None where nothing is."""
    if shutil.which(PROGRAM) is None:
        return f"no {PROGRAM} on the PATH"
    return None if find_spec("redis") else "the package redis is not installed"


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of an empty server that goes with this process at the latest.

    It keeps nothing on disk. Raises OSError where it does not come up.
    """
    password, port = secrets.token_hex(16), _free_port()
    with TemporaryDirectory() as folder:
        settings = (
            f"port {port}", "bind 127.0.0.1", f"requirepass {password}", f"dir {folder}", 'save ""',
            "loglevel warning",
        )  # fmt: skip
        server = subprocess.Popen(
            [PROGRAM, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        try:
            assert server.stdin is not None
            with (
                server.stdin as settings_in
            ):  # not on the command line, where all could read the password
                settings_in.write("\n".join(settings).encode())
            _await(server, port)
            yield f"redis://:{password}@127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = monotonic() + PATIENCE
    while server.poll() is None and monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        sleep(0.01)
    raise OSError(f"{PROGRAM} did not come up on port {port} within {PATIENCE:.0f} s")
