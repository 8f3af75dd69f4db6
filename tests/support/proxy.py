"""A TCP proxy that misbehaves on demand: it stands where the network is."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self


class Proxy:
    """Forwards connections to a port of this machine, as well as ``mode`` lets it.

    ``mode`` is ``open``, ``refuse`` (connections are closed at once, those that were open are
    reset), or ``black hole`` (bytes are taken and go nowhere). Set by ``go``.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.mode = "open"
        self.answer_delay = 0.0
        self.reset_after: int | None = None
        #: After how many answers all connections are reset, again and again.
        self.answers_between_resets: int | None = None
        #: What becomes of the bytes of an answer.
        self.changed: Callable[[bytes], bytes] = bytes
        self._answers = 0
        self.connections = 0
        self.resets = 0
        self._open: set[socket.socket] = set()
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._opened.set()
        self._spawn(self._accept)

    def go(self, mode: str) -> None:
        """Change the mode; what hangs in a black hole is released when it opens again."""
        self.mode = mode
        if mode == "black hole":
            self._opened.clear()
        else:
            self._opened.set()
        if mode == "refuse":
            self.reset_all()

    def reset_in_the_middle(self, answered: int) -> None:
        """Reset the connection that carries the byte number ``answered`` of an answer from now."""
        with self._lock:
            self.reset_after = answered

    def say(self, data: bytes) -> None:
        """Send bytes that nobody asked for to all clients."""
        with self._lock:
            for client in self._clients:
                with contextlib.suppress(OSError):  # it has just left
                    client.sendall(data)

    def reset_all(self) -> None:
        """Reset every connection that is open."""
        with self._lock:
            open_, self._open = self._open, set()
        for end in open_:
            _reset(end)

    def _spawn(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, name="proxy", daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.mode == "refuse":
                _reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
                self._clients.add(client)
            self._spawn(self._forward, client, server, False)
            self._spawn(self._forward, server, client, True)

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._opened.wait()
                if answers:
                    time.sleep(self.answer_delay)
                    if self._is_due_for_reset():
                        self.reset_all()
                        break
                    data, cut = self._cut(data)
                    if cut:
                        sink.sendall(data)
                        self.resets += 1
                        break
                sink.sendall(self.changed(data) if answers else data)
        with self._lock:
            self._open -= {source, sink}
            self._clients -= {source, sink}
        _reset(source)
        _reset(sink)

    def _is_due_for_reset(self) -> bool:
        """Count an answer; whether all connections end now."""
        with self._lock:
            self._answers += 1
            due = self.answers_between_resets
            if due is None or self._answers < due:
                return False
            self._answers = 0
            self.resets += 1
            return True

    def _cut(self, data: bytes) -> tuple[bytes, bool]:
        """What of an answer may pass, and whether the connection ends there."""
        with self._lock:
            if self.reset_after is None:
                return data, False
            if len(data) <= self.reset_after:
                self.reset_after -= len(data)
                return data, False
            passed, self.reset_after = data[: self.reset_after], None
            return passed, True

    def close(self) -> None:
        self.go("refuse")
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _reset(end: socket.socket) -> None:
    """Close with a reset instead of a farewell."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)  # wakes the thread that reads from it
    with contextlib.suppress(OSError):
        end.close()
