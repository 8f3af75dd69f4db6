"""Events on their way between the processes that serve the same windows.

A frame is a msgpack array:

    request    [number, secret, shard, task, rows]    rows = [keys, times, values, digests]
    answer     [number, outcomes]                     array of [status, body, what]
               [number, name, detail]                 a problem, Moved or Interrupted

The secret is in the head of the shard: who can read the store may forward. A connection carries
many requests at a time.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import msgpack

from mta.serve.answers import Problem, problem_of
from mta.service.commits import Interrupted, Moved, Task
from mta.service.rows import Rows
from mta.service.shard import Outcome

logger = logging.getLogger(__name__)
#: The longest frame.
_MOST_BYTES = 64 << 20
#: How many seconds a connection may take.
_CONNECT = 1.0
#: How many bytes are read together.
_AT_ONCE = 1 << 16
#: What a connection that breaks, or is no connection of ours, raises.
_BROKEN = (OSError, ValueError, TypeError, msgpack.UnpackException)
_ERRORS: dict[str, type[Exception]] = {each.__name__: each for each in (Moved, Interrupted)}
Judge = Callable[[int, Rows, Task], asyncio.Future[list[Outcome]]]


def expire(future: asyncio.Future[Any], seconds: float) -> None:
    """Let a future raise TimeoutError after some seconds."""

    def end() -> None:
        if not future.done():
            future.set_exception(TimeoutError())

    timer = future.get_loop().call_later(seconds, end)
    future.add_done_callback(lambda _: timer.cancel())


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[list[Any]]:
    unpacker = msgpack.Unpacker(max_buffer_size=_MOST_BYTES)
    while data := await reader.read(_AT_ONCE):
        unpacker.feed(data)
        for frame in unpacker:
            yield frame


class Receiver:
    """Takes forwarded events; ``judge`` returns their outcomes, or raises Moved or Problem."""

    def __init__(self, secret: str, judge: Judge) -> None:
        self._secret, self._judge = secret.encode(), judge
        self._server: asyncio.Server | None = None
        self._pending = set[asyncio.Future[list[Outcome]]]()

    async def start(self, host: str) -> int:
        """Start listening; return the port."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for number, secret, *request in _frames(reader):
                if not hmac.compare_digest(str(secret).encode(), self._secret):
                    raise ConnectionError("the secret is wrong")
                self._take(writer, number, *request)
        except _BROKEN as error:
            logger.warning("a connection from another process ended: %s", error)
        finally:
            writer.close()

    def _take(
        self, writer: asyncio.StreamWriter, number: int, shard: int, task: Task, rows: Any
    ) -> None:
        try:
            future = self._judge(shard, Rows(*rows), task)
        except Exception as error:
            writer.write(msgpack.packb([number, *_named(error)]))
        else:
            self._pending.add(future)
            future.add_done_callback(partial(self._answer, writer, number))

    def _answer(
        self, writer: asyncio.StreamWriter, number: int, future: asyncio.Future[list[Outcome]]
    ) -> None:
        self._pending.discard(future)
        error = future.exception()
        answer = [future.result()] if error is None else _named(error)
        if not writer.is_closing():  # uvloop raises an error for such writes
            writer.write(msgpack.packb([number, *answer]))

    async def stop(self) -> None:
        """Answer what was received, and stop."""
        if self._server is not None:
            self._server.close()
        if self._pending:
            await asyncio.wait(self._pending)


def _named(error: BaseException) -> tuple[str, str]:
    """Return the name of an error for the process that has forwarded the events, and its text."""
    if isinstance(error, TimeoutError):
        error = Interrupted()
    if isinstance(error, Moved | Interrupted):
        return type(error).__name__, ""
    assert isinstance(error, Exception)
    problem = problem_of(error)
    return problem.name, problem.detail


class Link:
    """A connection to another process, made on first use, and again after it broke."""

    def __init__(self, address: str, secret: str) -> None:
        self.address, self._secret = address, secret
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def send(self, shard: int, rows: Rows, task: Task, seconds: float) -> list[Outcome]:
        """Return the outcomes of events. Raises Moved, Interrupted, Problem and TimeoutError."""
        writer = await self._connected()
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        expire(future, seconds)
        writer.write(msgpack.packb([number, self._secret, shard, task, rows.pack()]))
        try:
            found = await future
        finally:
            self._waiting.pop(number, None)
        if len(found) == 1:
            return [Outcome(*each) for each in found[0]]
        name, detail = found
        if name in _ERRORS:
            raise _ERRORS[name]
        problem = Problem(name, detail)
        if problem.status in (429, 503):
            problem.headers["retry-after"] = "1"
        raise problem

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None or self._writer.is_closing():
                host, _, port = self.address.rpartition(":")
                try:
                    async with asyncio.timeout(_CONNECT):
                        reader, self._writer = await asyncio.open_connection(host, int(port))
                except (OSError, TimeoutError, ValueError):
                    raise Moved from None
                self._task = asyncio.create_task(self._listen(reader, self._writer))
            return self._writer

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(*_BROKEN):
            async for number, *answer in _frames(reader):
                if (future := self._waiting.get(number)) is not None and not future.done():
                    future.set_result(answer)
        self.close(writer)

    def close(self, writer: asyncio.StreamWriter | None = None) -> None:
        """Close a connection, by default the current one; its requests raise Interrupted."""
        if (writer := writer or self._writer) is not None:
            writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Interrupted())
