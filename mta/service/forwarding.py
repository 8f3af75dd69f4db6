"""Events on their way between the processes that serve the same windows.

A frame is its length as 4 bytes, big-endian, and msgpack:

    request    [number, secret, shard, task, rows]    rows = [keys, times, values, digests]
    answer     [number, outcomes]                     array of [status, body]
               [number, name, detail]                 a problem, Moved or Interrupted

The secret is in the head of the shard: who can read the store may forward. A connection carries
many requests at a time.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
_ERRORS: dict[str, type[Exception]] = {each.__name__: each for each in (Moved, Interrupted)}
Judge = Callable[[int, Rows, Task], Awaitable[list[Outcome]]]


async def _read(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > _MOST_BYTES:
        raise ConnectionError("a frame is too long")
    return msgpack.unpackb(await reader.readexactly(size))


def _frame(content: Any) -> bytes:
    data: bytes = msgpack.packb(content)
    return len(data).to_bytes(4, "big") + data


class Receiver:
    """Takes forwarded events; ``judge`` judges them, or raises Moved, Interrupted or Problem."""

    def __init__(self, secret: str, judge: Judge) -> None:
        self._secret, self._judge = secret.encode(), judge
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str) -> int:
        """Start listening; return the port."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                number, secret, *request = await _read(reader)
                if not hmac.compare_digest(str(secret).encode(), self._secret):
                    raise ConnectionError("the secret is wrong")
                task = asyncio.create_task(self._answer(writer, number, *request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, EOFError, ValueError, TypeError, msgpack.UnpackException) as error:
            if not isinstance(error, EOFError):
                logger.warning("a connection from another process ended: %s", error)
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, number: int, shard: int, task: Task, rows: Any
    ) -> None:
        answer: list[Any]
        try:
            outcomes = await self._judge(shard, Rows(*rows), task)
            answer = [number, [[*each] for each in outcomes]]
        except (Moved, Interrupted) as error:
            answer = [number, type(error).__name__, ""]
        except Exception as error:
            problem = problem_of(error)
            answer = [number, problem.name, problem.detail]
        if writer.is_closing():  # the other process has ended; uvloop raises an error for writes
            return
        writer.write(_frame(answer))
        with suppress(OSError):
            await writer.drain()

    async def stop(self) -> None:
        """Answer what was received, and stop."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Link:
    """A connection to another process, made on first use, and again after it broke."""

    def __init__(self, address: str, secret: str) -> None:
        self.address, self._secret = address, secret
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def send(self, shard: int, rows: Rows, task: Task) -> list[Outcome]:
        """Return the outcomes of events. Raises Moved, Interrupted and Problem."""
        writer = await self._connected()
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        writer.write(_frame([number, self._secret, shard, task, rows.pack()]))
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
        with suppress(OSError, EOFError, ValueError, TypeError, msgpack.UnpackException):
            while True:
                number, *answer = await _read(reader)
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
