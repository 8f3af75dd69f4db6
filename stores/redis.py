"""Pages in Redis: ``redis://user:password@host:6379/0?prefix=mta``, or ``rediss://`` with TLS.

A key ``group/rest`` is stored as ``prefix:{group}/rest``; the braces are Redis Cluster's hash tag,
so the pages of one group are on one node and are sent in one command.

``docs/operations.md`` describes the options, and what ``flush`` promises: by default, only that the
server has acknowledged every page. A ``maxmemory-policy`` that evicts keys loses pages; the first
connection of a process to a server checks the policy, and logs a warning.

Thread safety: any number of threads; each call takes a connection from a pool.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import methodcaller
from typing import Any

import redis
from redis import exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from .address import Credentials, Option, StoreAddress, count, switch
from .base import Capabilities, RecordPut, check_keys, check_pages
from .errors import (
    InvalidStoreURL,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    WindowStoreError,
)
from .redis_connections import (
    READ_BYTES,
    UNPARSED,
    Command,
    Connections,
    Fits,
    LoopConnection,
    OutOfStep,
    are_pages,
    is_count,
    is_counts,
    is_ok,
    is_part_of_keys,
)
from .server import OPTIONS as SERVER_OPTIONS
from .server import READ_KEYS, ServerStore

OPTIONS: dict[str, Option] = {
    **SERVER_OPTIONS,
    "prefix": str,
    "cluster": switch,
    "wait": count,
    "waitaof": switch,
}

_SCAN = 1000

_DENIED = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.NoPermissionError,
    exceptions.ReadOnlyError,
)
_PASSING = (exceptions.ClusterError, exceptions.AskError, exceptions.TryAgainError)
_BUSY = ("BUSY", "NOREPLICAS", "MISCONF")
_REFUSED = re.compile(
    # Errors that the cluster client and TLS hide in the text of a connection error.
    "CERTIFICATE|invalid username-password|Authentication required|Cluster mode is not enabled|"
    "unauthenticated"  # with multiple keys, if the server needs a password
)
_NO_DATABASE = re.compile("DB index is out of range|SELECT is not allowed")
_PIPELINE = re.compile(r"^Command # .* of pipeline caused error: ", re.DOTALL)  # contains pages

#: Puts a value under the first key if every other key has what its argument wishes: nothing ("-"),
#: anything ("*"), or the bytes after "=".
_PUT_IF = """
for i = 2, #KEYS do
  local found, wish = redis.call('GET', KEYS[i]), ARGV[i]
  local kind = string.sub(wish, 1, 1)
  if kind == '-' and found then return 0 end
  if kind == '*' and not found then return 0 end
  if kind == '=' and found ~= string.sub(wish, 2) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
_policies: dict[str, str] = {}
"""The ``maxmemory-policy`` of each server that this process has used, by address; "" if unknown."""
_log = logging.getLogger(__name__)


class RedisStore(ServerStore):
    """Pages in one Redis server or cluster."""

    example = "host:6379/0"
    schemes = ("redis", "rediss")
    capabilities = Capabilities(
        durable=True, shared=True, max_key_bytes=1024, max_page_bytes=512 << 20, remote=True
    )
    failures = (exceptions.RedisError, exceptions.RedisClusterException, OSError, *UNPARSED)
    failure_after_close = ValueError  # I/O on a closed file

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        options = address.parsed(OPTIONS)
        self._prefix: str = options.get("prefix", "mta")
        self._ttl: int = options.get("ttl", 0)
        self._cluster: bool = options.get("cluster", False)
        self._replicas: int = options.get("wait", 0)
        self._wait_for_disk: bool = options.get("waitaof", False)
        self._timeout: float = options.get("timeout", 5.0)
        self._tls = address.scheme == "rediss"
        self._settings = _client_settings(address, options, self._credentials)
        if re.search(r"[{}]", self._prefix) or not self._prefix.isascii():
            raise InvalidStoreURL(f"{self.url}: prefix must be ASCII without braces")
        if self._cluster and (self._replicas or self._wait_for_disk or self._settings.get("db")):
            raise InvalidStoreURL(f"{self.url}: a cluster has one database and no wait or waitaof")

    def flush(self) -> None:
        """Wait for replicas or the server's disk if the options say so; otherwise no store call.

        Raises ``StoreUnavailable`` after the timeout.
        """
        super().flush()
        if self._replicas:
            self._wait("WAIT", self._replicas)
        if self._wait_for_disk:
            self._wait("WAITAOF", 1, self._replicas)

    def explain_missing(self) -> str:
        """Return whether pages expire, or are or may be evicted; one store call."""
        causes = [super().explain_missing()]
        try:
            policy = self._run(self._policy_of)
        except WindowStoreError:
            return causes[0]
        if not policy:
            causes.append(
                "it is unknown whether the server evicts pages, because this user may run neither "
                "INFO memory nor CONFIG GET: check the server's maxmemory-policy"
            )
        elif self._evicts(policy):
            causes.append(
                f"the server's maxmemory-policy {policy} has probably evicted it: set noeviction"
            )
        return "; ".join(filter(None, causes))

    def _look_at(self, client: Any) -> None:
        known = self.url in _policies
        policy = self._policy_of(client)
        if not known and self._evicts(policy):
            _log.warning(
                "%s has the maxmemory-policy %s, which evicts pages that windows need when the "
                "server's memory is full: set it to noeviction (CONFIG SET maxmemory-policy "
                "noeviction, and in the server's configuration)", self.url, policy,
            )  # fmt: skip

    def _policy_of(self, client: Any) -> str:
        """Return the server's ``maxmemory-policy``, requested once per process and address."""
        if self.url not in _policies:
            _policies[self.url] = _reported_policy(client)
        return _policies[self.url]

    def _evicts(self, policy: str) -> bool:
        """Return whether this policy may evict pages."""
        return policy.startswith("allkeys-") or (policy.startswith("volatile-") and self._ttl > 0)

    def start_over(self) -> None:
        super().start_over()
        self._to_server: Connections | None = None
        self._in_loop: LoopConnection | None = None

    def close(self) -> None:
        super().close()
        with self._lock:
            connection, self._in_loop = self._in_loop, None
        if connection is not None:
            connection.close()

    def _disconnect(self, client: Any) -> None:
        client.close()
        if self._to_server is not None:
            self._to_server.close()
        if not self._cluster:
            client.connection_pool.disconnect()  # close() does not close a pool that was passed in

    def _get(self, client: Any, keys: list[str]) -> list[bytes | None]:
        names = [*map(self._name, keys)]
        pages: list[bytes | None]
        if self._cluster:
            pages = _checked(are_pages(len(names)), client.mget(names))
        else:
            pages = self._connections(client).ask(are_pages(len(names)), "MGET", *names)
        return pages

    def _connections(self, client: Any) -> Connections:
        """Return the connections to a server that is no cluster."""
        if self._to_server is None:
            self._to_server = Connections(client.connection_pool)
        return self._to_server

    async def get_many_async(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages as ``get_many`` does, over one connection for each event loop."""
        if self._cluster:
            return await super().get_many_async(keys)
        check_keys(keys, self.capabilities)
        found: dict[str, bytes | None] = {}
        try:
            connection = self._connection_in_loop()
            for batch in self._batches(dict.fromkeys(keys), READ_KEYS):
                pages = await connection.ask(are_pages(len(batch)), "MGET", *map(self._name, batch))
                found.update(zip(batch, pages, strict=True))
            return [found[key] for key in keys]
        except self.failures as error:
            if isinstance(error, WindowStoreError):
                raise
            named = self._named(error)
        raise named from None

    def _connection_in_loop(self) -> LoopConnection:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._check_open()
            known = self._in_loop
            if known is None or known.loop is not loop:
                if known is not None:
                    known.close()
                known = self._in_loop = LoopConnection(loop, self._tls, self._settings)
        return known

    def _put(self, client: Any, pages: dict[str, bytes]) -> None:
        named = {self._name(key): page for key, page in pages.items()}
        commands: list[list[Any]] = [["MSET", *chain.from_iterable(named.items())]]
        if self._ttl:
            commands = [["SET", name, page, "EX", self._ttl] for name, page in named.items()]
        if not self._cluster:
            self._connections(client).ask_all([(is_ok, command) for command in commands])
        elif self._ttl:
            pipeline = client.pipeline()
            for command in commands:
                pipeline.execute_command(*command)
            _checked(lambda replies: all(map(is_ok, replies)), pipeline.execute())
        else:
            _checked(is_ok, client.mset(named))

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        """Put each record by a script; all are sent together."""
        check_pages({put.key: put.data for put in puts}, self.capabilities)
        commands = [("EVAL", *self._script(put)) for put in puts]

        def put_all(client: Any) -> list[Any]:
            if self._cluster:  # whose pipelines have no scripts
                return [_checked(is_count, client.execute_command(*each)) for each in commands]
            return self._connections(client).ask_all([(is_count, each) for each in commands])

        done = self._run(put_all) if puts else []
        if self._replicas or self._wait_for_disk:
            self.flush()
        return [each == 1 for each in done]

    def _script(self, put: RecordPut) -> list[Any]:
        names = [self._name(key) for key in (put.key, *put.expected)]
        return [_PUT_IF, len(names), *names, put.data, *map(_wish, put.expected.values())]

    def _delete(self, client: Any, keys: list[str]) -> None:
        names = [*map(self._name, keys)]
        if self._cluster:
            _checked(is_count, client.unlink(*names))
        else:
            self._connections(client).ask(is_count, "UNLINK", *names)

    def _wait(self, command: str, *numbers: int) -> None:
        # WAIT covers only the writes of its own connection, and earlier pages used other ones. But
        # replication is in order, so waiting for a write that is made now covers all of them.
        milliseconds = int(self._timeout * 800)  # less than the socket's timeout
        commands: list[tuple[Fits, Command]] = [
            (is_ok, ["SET", f"{self._prefix}:flush", b"", "EX", 60]),
            (is_count if len(numbers) == 1 else is_counts, [command, *numbers, milliseconds]),
        ]
        reply = self._run(lambda client: self._connections(client).ask_all(commands))[1]
        done = reply if isinstance(reply, list) else [reply]
        if any(got < wanted for got, wanted in zip(done, numbers, strict=True)):
            raise StoreUnavailable(
                f"{self.url}: {command} {numbers} reached {done} in {milliseconds} ms: "
                "check the replicas and the append-only file, then retry"
            )

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every stored key that starts with ``prefix``; visits all keys, a thousand per call.

        A key may be repeated while the server resizes its tables.
        """
        group, slash, rest = prefix.partition("/")
        start = f"{self._prefix}:{{{group}" + (f"}}/{rest}" if slash else "")
        pattern = re.sub(r"([*?\[\]\\^])", r"\\\1", start) + "*"
        for name in self._in_cluster(pattern) if self._cluster else self._in_server(pattern):
            key = self._key(name)
            if key.startswith(prefix):
                yield key

    def _in_server(self, pattern: str) -> Iterator[bytes]:
        cursor = b"0"
        while True:
            command = "SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN
            cursor, names = self._run(
                lambda client, command: self._connections(client).ask(is_part_of_keys, *command),
                command,
            )
            yield from names
            if cursor == b"0":
                return

    def _in_cluster(self, pattern: str) -> Iterator[bytes]:
        names = self._run(methodcaller("scan_iter", match=pattern, count=_SCAN))
        while (name := self._run(lambda _: next(names, None))) is not None:
            yield name

    def _name(self, key: str) -> str:
        group, slash, rest = key.partition("/")
        return f"{self._prefix}:{{{group}}}{slash}{rest}"

    def _key(self, name: bytes) -> str:
        tag, slash, rest = name.decode()[len(self._prefix) + 1 :].partition("/")
        return f"{tag[1:-1]}{slash}{rest}"

    def _together(self, keys: Iterable[str]) -> Iterable[Iterable[str]]:
        """Return the keys by slot, if the server is a cluster."""
        if not self._cluster:
            return [keys]
        slots: dict[int, list[str]] = {}
        for key in keys:
            slot = self._run(methodcaller("keyslot", self._name(key)))
            slots.setdefault(slot, []).append(key)
        return slots.values()

    def _connect(self) -> Any:
        if self._cluster:
            return redis.RedisCluster(ssl=self._tls, **self._settings)
        kind = redis.SSLConnection if self._tls else redis.Connection
        pool = redis.ConnectionPool(kind, socket_read_size=READ_BYTES, **self._settings)
        return redis.Redis(connection_pool=pool)

    def _named(self, error: Exception) -> WindowStoreError:
        if isinstance(error, UNPARSED) and not isinstance(error, exceptions.RedisError):
            error = OutOfStep(repr(error))
        text = self._credentials.redacted(_PIPELINE.sub("", str(error)))
        if isinstance(error, _DENIED) or _REFUSED.search(text):
            return StoreAccessDenied(
                f"{self.url} refused ({text}): correct the user, password, rights, certificate or "
                f"mode{self._credentials.advice}"
            )
        if _NO_DATABASE.search(text):
            return InvalidStoreURL(
                f"{self.url}: the server has no such database ({text}): correct the number at the "
                "end of the URL, or raise 'databases' in the server's configuration"
            )
        if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM"):
            return StoreFull(f"{self.url} is full ({text}): raise maxmemory, or delete pages")
        passing = isinstance(error, _PASSING) or text.startswith(_BUSY)
        if isinstance(error, exceptions.ResponseError) and not passing:
            return StoreAccessDenied(
                f"{self.url} refused the command ({text}): check the server's settings"
            )
        return StoreUnavailable(f"{self.url} does not answer ({text}): retry when it is back")


def _wish(expected: bytes | bool) -> bytes:
    """Return what a put expects of a key, for the script."""
    if isinstance(expected, bool):
        return b"*" if expected else b"-"
    return b"=" + expected


def _checked(fits: Fits, reply: Any) -> Any:
    """Return the reply to a command of a cluster's client. Raises OutOfStep."""
    if not fits(reply):
        raise OutOfStep
    return reply


def _reported_policy(client: Any) -> str:
    """Return the policy, "" if it is unknown: clouds refuse CONFIG, and INFO may not contain it."""
    for ask, section, name in (
        (client.info, "memory", "maxmemory_policy"),
        (client.config_get, "maxmemory-policy", "maxmemory-policy"),
    ):
        with suppress(exceptions.ResponseError):
            if policy := ask(section).get(name):
                return str(policy)
    return ""


#: Returns the store at an address. Raises ``InvalidStoreURL`` if it names no server.
from_address = RedisStore


def _client_settings(
    address: StoreAddress, options: Mapping[str, Any], credentials: Credentials
) -> dict[str, Any]:
    database = address.path.strip("/")
    if database and not database.isdecimal():
        raise InvalidStoreURL(
            f"{address.public}: the path must be the number of a database, such as /0"
        )
    timeout = options.get("timeout", 5.0)
    settings: dict[str, Any] = {
        "host": address.host,
        "port": address.port or 6379,
        "username": credentials.user or None,
        "password": credentials.password or None,
        "socket_timeout": timeout,
        "socket_connect_timeout": options.get("connect_timeout", min(timeout, 5.0)),
        "socket_keepalive": True,
        "protocol": 2,
        "retry": Retry(ExponentialBackoff(cap=0.2, base=0.02), 2),
    }
    if database and database != "0":
        settings["db"] = int(database)
    if address.scheme == "rediss":
        settings |= {
            "ssl_ca_certs": options.get("ca_file"),
            "ssl_certfile": options.get("cert_file"),
            "ssl_keyfile": options.get("key_file"),
            "ssl_cert_reqs": "required" if options.get("verify", True) else "none",
            "ssl_check_hostname": options.get("verify", True),
        }
    return settings
