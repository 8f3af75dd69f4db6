"""Connections to one Redis server that never take one command's reply for another's.

A connection can be out of step: a reply to an earlier command, or one that nobody asked for, is
read as the reply to the next command, and so on for ever. So each reply must have the form of its
command's replies, and nothing may be left to read before a command or after its reply. Otherwise
the connection is dropped, and the command is sent again on a new one. Commands are repeated only
because repeating them is harmless (MGET, MSET, UNLINK, SCAN and the like).

An error that a server returns is trusted only if a new connection returns one too.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import redis
import redis.asyncio
from redis import exceptions

READ_BYTES = 256 << 10  # bytes per read from the socket: twice as fast as the default
_ATTEMPTS = 4
_PAUSE = 0.02

Command = Sequence[Any]
Fits = Callable[[Any], bool]
#: What clients raise for replies that they cannot parse.
UNPARSED = (ValueError, TypeError, AttributeError, LookupError)


class OutOfStep(exceptions.ConnectionError):
    """The replies are not those to the commands."""

    def __init__(self, what: str = "") -> None:
        super().__init__(f"its replies are not those to the commands{what and f' ({what})'}")


def are_pages(count: int) -> Fits:
    """Return the form of a reply to MGET."""

    def fits(reply: Any) -> bool:
        is_list = isinstance(reply, list) and len(reply) == count
        return is_list and all(page is None or type(page) is bytes for page in reply)

    return fits


def is_ok(reply: Any) -> bool:
    """Return whether a reply is that to MSET or SET, as a client or a connection returns it."""
    return reply is True or reply in (b"OK", "OK")


def is_count(reply: Any) -> bool:
    """Return whether a reply is that to UNLINK or WAIT."""
    return type(reply) is int


def is_counts(reply: Any) -> bool:
    """Return whether a reply is that to WAITAOF."""
    return isinstance(reply, list) and len(reply) == 2 and all(map(is_count, reply))


def is_part_of_keys(reply: Any) -> bool:
    """Return whether a reply is that to SCAN."""
    match reply:
        case [bytes(cursor), list(names)]:
            return cursor.isdigit() and all(type(name) is bytes for name in names)
    return False


def _is_confirmed(errors: Sequence[exceptions.RedisError]) -> bool:
    """Return whether the last error is a reply, and the one before it was one too."""
    passing = exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse
    replies = [
        isinstance(error, exceptions.AuthenticationError) or not isinstance(error, passing)
        for error in errors
    ]
    return replies[-2:] == [True, True]


def _has_more(connection: Any) -> bool:
    """Return whether there is something to read; servers close connections after some errors."""
    try:
        return bool(connection.can_read())
    except exceptions.RedisError:
        return False


class Connections:
    """The connections of a client's pool, without the pool's cost; for any number of threads."""

    def __init__(self, pool: redis.ConnectionPool) -> None:
        self._pool = pool
        self._idle: deque[Any] = deque()

    def ask(self, fits: Fits, *command: Any) -> Any:
        """Return the reply to a command; see ``ask_all``."""
        return self.ask_all([(fits, command)])[0]

    def ask_all(self, commands: Sequence[tuple[Fits, Command]]) -> list[Any]:
        """Return the replies to commands, which are sent together.

        Sends them again on a new connection if the first one was lost or out of step. Raises
        redis-py's errors.
        """
        errors: list[exceptions.RedisError] = []
        while len(errors) < _ATTEMPTS:
            if len(errors) > 1:
                time.sleep(_PAUSE * 2 ** len(errors))
            connection = self._connection(new=bool(errors))
            try:
                return self._asked(connection, commands)
            except exceptions.RedisError as error:
                errors.append(error)
            except UNPARSED as error:
                errors.append(OutOfStep(repr(error)))
            except BaseException:
                connection.disconnect()
                raise
            connection.disconnect()
            self.close()  # others are probably lost or out of step too
            if _is_confirmed(errors):
                break
        raise errors[-1]

    def _connection(self, new: bool) -> Any:
        if not new:
            with suppress(IndexError):
                return self._idle.pop()
        # Not by the pool, which would count connections that are dropped here.
        return self._pool.connection_class(**self._pool.connection_kwargs)

    def _asked(self, connection: Any, commands: Sequence[tuple[Fits, Command]]) -> list[Any]:
        if connection.can_read():  # connects if it is new
            raise OutOfStep
        if len(commands) == 1:
            connection.send_command(*commands[0][1])
        else:
            packed = connection.pack_commands([command for _, command in commands])
            connection.send_packed_command(packed)
        replies = []
        for fits, command in commands:
            try:
                reply = connection.read_response()
            except exceptions.ResponseError:
                if len(commands) == 1 and _has_more(connection):
                    raise OutOfStep("an error") from None
                raise
            if not fits(reply):
                raise OutOfStep(f"{type(reply).__name__} for {command[0]}")
            replies.append(reply)
        if connection.can_read():
            raise OutOfStep
        self._idle.append(connection)
        return replies

    def close(self) -> None:
        """Close the connections that no thread uses."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().disconnect()


class LoopConnection:
    """A connection of one event loop, which carries out one command after the other.

    The commands of a client of redis-py take several times as long in an event loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: bool, settings: Mapping[str, Any]
    ) -> None:
        # With a timeout of their own, sending and receiving would cost a task each.
        own = {"socket_timeout": None, "retry": None, "socket_read_size": READ_BYTES}
        kind = redis.asyncio.SSLConnection if tls else redis.asyncio.Connection
        self.loop, self._timeout = loop, settings["socket_timeout"]
        self._connection: Any = kind(**{**settings, **own})
        #: Tells whether something is left to read; before version 8 it had the second name.
        self._can_read = getattr(self._connection, "can_read", None) or (
            self._connection.can_read_destructive
        )
        self._turn = asyncio.Lock()

    async def ask(self, fits: Fits, *command: str) -> Any:
        """Return the reply to a command; connects again if the connection was lost before."""
        async with self._turn:
            try:
                return await self._ask(fits, command)
            except (exceptions.ConnectionError, exceptions.ResponseError) as error:
                first = error
            try:
                return await self._ask(fits, command)
            except exceptions.ResponseError:
                if isinstance(first, OutOfStep):
                    raise first from None
                raise

    async def _ask(self, fits: Fits, command: Command) -> Any:
        connection = self._connection
        try:
            async with asyncio.timeout(self._timeout):
                if connection.is_connected and await self._can_read():
                    raise OutOfStep
                await connection.send_command(*command)
                reply = await connection.read_response()
                if not fits(reply):
                    raise OutOfStep(f"{type(reply).__name__} for {command[0]}")
                if await self._can_read():
                    raise OutOfStep
                return reply
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise exceptions.TimeoutError("Timeout reading from socket") from None
        except (*UNPARSED, exceptions.InvalidResponse) as error:
            await connection.disconnect(nowait=True)
            raise OutOfStep(repr(error)) from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise

    def close(self) -> None:
        """Close the connection in its loop, if that still runs; any thread."""
        if not self.loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._connection.disconnect(nowait=True), self.loop)
