"""Clients' connections, and their limits in time, size and number.

uvicorn reads requests and writes answers without such limits. Here, each connection

- has ``MAX_HEAD`` bytes and ``patience`` seconds for the head of a request, which is the path and
  the headers. The same number of bytes limits whatever else comes between two bytes of a body, such
  as trailers;
- handles one request after the other: the bytes that follow a request wait until its answer is
  written, and no more bytes are read meanwhile. Clients that send a request at a time come first;
- must read ``LEAST_READ`` bytes of its answers, or all, within ``patience`` seconds.

``Clients`` limits how many connections there are, from one address and in total, and how many bytes
wait for all clients together (``MAX_WAITING_BYTES``). Beyond a limit, it closes the connection that
has waited longest for its client, of the address with the most. So new clients always connect,
and clients that do not proceed make room for them. A connection is not closed while an answer to
it is computed.

An answer to a client that has disconnected is dropped; otherwise uvloop would raise an error, which
uvicorn would log. The head of an answer is sent together with its body, as each system call that
sends takes about as long as the rest of a small answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger(__name__)
#: The maximum number of bytes of a request before its body.
MAX_HEAD = 1 << 15
#: The fewest bytes of its answers that a client reads within the time limit.
LEAST_READ = 1 << 14
#: The maximum number of bytes that a worker keeps for clients: unread answers, later requests.
MAX_WAITING_BYTES = 64 << 20
#: How many unsent bytes of a connection stop its next request.
_FULL = 1 << 14
#: How many bytes are parsed together: they are the beginning of few requests.
_PIECE = 1 << 9
#: How many connections with further requests go on in each iteration of the event loop, which
#: accepts one new connection.
_TURNS = 8
#: How many seconds a client may stop reading while the service stops.
_LAST_PATIENCE = 1.0
#: Addresses of one site: the usual size of a network of IPv6.
_SITE_BITS = 64


class _Transport:
    """A transport that joins two writes into one, and drops writes once it is closed."""

    def __init__(
        self, transport: Any, loop: asyncio.AbstractEventLoop, left: Callable[[], None]
    ) -> None:
        self._transport, self._loop = transport, loop
        self._first = b""
        #: Called after writes that leave bytes to send.
        self._left = left
        #: How many bytes were written so far.
        self.written = 0

    def write(self, data: bytes) -> None:
        """Send the data together with the next write, at the latest in the next loop iteration."""
        if self._first:
            self._first += data
            self._send()
        elif data:
            self._first = data
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        data, self._first = self._first, b""
        if data and not self._transport.is_closing():
            self.written += len(data)
            self._transport.write(data)
            if self._transport.get_write_buffer_size():
                self._left()

    def close(self) -> None:
        """Send what waits, and close."""
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """A client's connection; the configuration has ``patience`` and ``clients``."""

    config: Any
    transport: Any
    #: The site of the client.
    site = ""
    #: When the current request began, if no earlier ones wait; when the client last read an answer.
    since = 0.0
    _patience = 0.0
    #: Bytes of requests that wait for earlier requests.
    _later = b""
    #: The number of bytes since the last byte of a body, or since the request before.
    _overhead = 0
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        joining: Any = _Transport(transport, self.loop, self._wait_for_reading)
        super().connection_made(joining)
        transport.set_write_buffer_limits(high=_FULL)
        self._patience = self.config.patience
        self.since = self.loop.time()
        self.site = _site_of(self.client[0] if self.client else "")
        self._wait_for_head()
        self.config.clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._later = b""
        self._unset_head_timer()
        self._unset_read_timer()
        self.config.clients.remove(self)
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Return whether every request that has arrived is answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits(self) -> bool:
        """Return whether more than an answer is due: a request, its rest, or reading of answers."""
        return self.is_idle or self.cycle.more_body or self.weight > 0

    @property
    def weight(self) -> int:
        """Return how many bytes are kept for the client."""
        return self._unsent + len(self._later)

    @property
    def _unsent(self) -> int:
        return int(self.transport.get_write_buffer_size())

    # --- requests ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.is_idle and not self._later and self._head_timer is None:
            self.since = self.loop.time()
        self._later += data
        self._parse()
        if self._later:
            self.flow.pause_reading()
            self.config.clients.weigh(self)

    def _parse(self) -> None:
        """Parse as much as may be handled now."""
        data, at = self._later, 0
        while at < len(data) and self._takes_more:
            if self.is_idle and self._head_timer is None:
                self._wait_for_head()
            piece = data[at : at + _PIECE]
            at += _PIECE
            self._overhead += len(piece)
            super().data_received(piece)
            if self._overhead > MAX_HEAD:
                self.transport.abort()
        self._later = data[at:]

    @property
    def _takes_more(self) -> bool:
        is_free = self.is_idle or self.cycle.more_body
        blocked = self.pipeline or self.flow.write_paused or self.transport.is_closing()
        return is_free and not blocked

    def _unsupported_upgrade_warning(self) -> None:
        """Answer without a warning: clients of HTTP/2 offer an upgrade with each request."""

    def on_url(self, url: bytes) -> None:
        if b"#" in url:  # would answer for another key: what follows is no part of the path
            raise ValueError("a path has no fragment")
        super().on_url(url)

    def on_headers_complete(self) -> None:
        self._overhead = 0
        self._unset_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._overhead = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self._later:
            self.since = self.loop.time()
        super().on_response_complete()
        self._await_turn()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._await_turn()

    def _await_turn(self) -> None:
        if self._later:
            self.config.clients.queue(self)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Handle what waited, and read on; earlier answers are written."""
        self._parse()
        if self._later:
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            self.flow.resume_reading()

    def _wait_for_head(self) -> None:
        self._overhead = 0
        self._head_timer = self.loop.call_later(self._patience, self.transport.abort)

    def _unset_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    # --- answers ----------------------------------------------------------------------------------

    def _wait_for_reading(self) -> None:
        """Wait until the client reads its answers; called when bytes are left to send."""
        if self._read_timer is None:
            has_read = self.transport.written - self._unsent
            self._read_timer = self.loop.call_later(
                self._patience, self._require_reading, has_read + LEAST_READ
            )
        self.config.clients.weigh(self)

    def _require_reading(self, least: int) -> None:
        """Go on waiting if the client has read at least as many bytes in total, else close."""
        self._read_timer = None
        unsent = self._unsent
        if unsent and self.transport.written - unsent < least:
            self.transport.abort()
        elif unsent:
            self.since = self.loop.time()
            self._wait_for_reading()

    def _unset_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def shutdown(self) -> None:
        """Close after the answer to the current request; further requests are dropped."""
        self._later = b""
        self._patience = min(self._patience, _LAST_PATIENCE)
        if self._read_timer is not None:
            self._unset_read_timer()
            self._wait_for_reading()
        super().shutdown()


class Clients:
    """The connections of a worker."""

    def __init__(self, most: int, most_of_site: int) -> None:
        self._most, self._most_of_site = most, most_of_site
        self._of_site: dict[str, set[Connection]] = {}
        self._count = 0
        #: Connections for which bytes may be kept.
        self._heavy: set[Connection] = set()
        #: Connections with further requests.
        self._turns: deque[Connection] = deque()

    def queue(self, connection: Connection) -> None:
        """Let a connection go on with its next request, after those that waited before it."""
        if not self._turns:
            connection.loop.call_soon(self._give_turns, connection.loop)
        self._turns.append(connection)

    def _give_turns(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(_TURNS, len(self._turns))):
            self._turns.popleft().go_on()
        if self._turns:
            loop.call_soon(self._give_turns, loop)

    def add(self, connection: Connection) -> None:
        """Add a new connection; beyond a limit, close the one that has waited longest."""
        site = self._of_site.setdefault(connection.site, set())
        site.add(connection)
        self._count += 1
        if len(site) > self._most_of_site:
            logger.warning("more than %d connections from one address", self._most_of_site)
            self._close_one_of(site)
        elif self._count > self._most:
            logger.warning("more than %d connections", self._most)
            largest = max(self._of_site.values(), key=lambda each: len(each))
            self._close_one_of(largest, connection)

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is known."""
        self._heavy.discard(connection)
        site = self._of_site.get(connection.site, set())
        if connection in site:
            site.remove(connection)
            self._count -= 1
            if not site:
                del self._of_site[connection.site]

    def weigh(self, connection: Connection) -> None:
        """Note that bytes are kept for a connection; if they are too many, close the slowest."""
        self._heavy.add(connection)
        weights = {each: each.weight for each in self._heavy}
        self._heavy = {each for each, weight in weights.items() if weight}
        total = sum(weights.values())
        while total > MAX_WAITING_BYTES and len(self._heavy) > 1:
            logger.warning("clients do not read their answers: %d bytes wait", total)
            total -= weights[self._close_one_of(self._heavy)]

    def _close_one_of(self, crowd: Iterable[Connection], *others: Connection) -> Connection:
        """Close the connection that has waited longest for its client."""
        waiting = [each for each in crowd if each.waits] or others or crowd
        found = min(waiting, key=lambda each: each.since)
        self.remove(found)
        found.transport.abort()
        return found


def _site_of(host: str) -> str:
    """Return an address of IPv4, or the network of an address of IPv6.

    >>> _site_of("2001:db8:1:2:3::4"), _site_of("::ffff:127.0.0.1")
    ('2001:db8:1:2::/64', '127.0.0.1')
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, _SITE_BITS), strict=False))
    return str(address)
