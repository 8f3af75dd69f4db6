"""Limits per key over HTTP, and the same by sorted sets in a Lua script in Redis.

``mta serve --config`` has two workers, and keeps a sum and a count over a minute, a day and 30 days
of each key, on local disk and in Redis. Before it starts, each key has 20 events of the last 30
days. Single events come at a fixed rate: each is due at a given moment, even if earlier events
were not answered, and its time counts from that moment. Batches have 100 events. Then a worker is
killed, and after that the whole service, which is started again; the times are those until the
keys of all shards are answered. ``cpu_us`` and ``clients_cpu_us`` are the processor times of the
service and of its clients per event: the service has only what its clients leave of the machine.

The rival is what gateways write by hand: a sorted set per key with an event per member, and a
script that removes what left the window, sums what is in it, and adds the event within the limit.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from selectors import SelectSelector
from socket import create_server
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep, time
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.server import redis_server
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows
from benchmarks.report.plots import grouped_bars
from mta import KeyedWindows, Product, TimeWindow
from mta.service.declaration import RETAIN, read_declaration
from mta.service.log import ShardLog
from mta.service.owners import create
from mta.service.rows import RowReader
from mta.service.shard import Shard
from stores import open_store

KEYS, EVENTS, RATE, CLIENTS, SECONDS, AT_ONCE, SHARDS = 1_000_000, 20, 1500, 32, 20, 100, 2
#: The number of events in the window of one key, and of questions about it.
LARGE, ASKED = 100_000, 20
#: How many keys the sorted sets have, of which the memory per event is that of all.
RIVAL_KEYS = 20_000
_DAY = 86_400
_RESTARTS = ("a worker is killed", "all are killed and started")
_DECLARED = """
name = "bench"
store = "{store}"
shards = 2
keys = {{ user = "int" }}
values = {{ amount = "float" }}
[frames]
minute = "1 minute"
day = "1 day"
month = "30 days"
[aggregations]
spent = ["amount", "sum"]
requests = "count"
[limits]
daily = {{ aggregate = "spent_day", at_most = 1e9 }}
"""
_SCRIPT = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
local total = tonumber(ARGV[3])
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  total = total + tonumber(string.match(member, '^[^:]+'))
end
if total > tonumber(ARGV[5]) then return {0, tostring(total)} end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[3] .. ':' .. ARGV[4])
return {1, tostring(total)}
"""


def limits(size: float, progress: Progress) -> Rows:
    """Measure the service on both stores, and the script in Redis."""
    cells = ["local disk", "Redis", "one key in Redis"]
    return progress.rows(cells, lambda cell: _measured(cell, size), str)


def _measured(cell: str, size: float) -> Rows:
    keys = max(2000, int(KEYS * size))
    with _store(cell) as store:
        if cell == "one key in Redis":
            return _windows(store, max(int(LARGE * size), 10_000))
        rows = [{"how": "memory", **_filled(store, keys)}]
        rows += _served(store, keys, max(SECONDS * size, 4.0))
        if cell == "Redis":
            rows.append({"how": "memory of sorted sets", **_sets(store, min(keys, RIVAL_KEYS))})
        return [{"store": cell, **row} for row in rows]


@contextmanager
def _store(cell: str) -> Iterator[str]:
    if cell == "local disk":
        with TemporaryDirectory() as folder:
            yield f"file://{folder}/pages"
    else:
        with redis_server() as store:
            yield store


def _filled(store: str, keys: int) -> Row:
    """Create the windows with events of each key; return the memory in Redis."""
    before, events, start = used_bytes(store), keys * EVENTS, int(time()) - 29 * _DAY
    with TemporaryDirectory() as folder:
        path = Path(folder, "limits.toml")
        path.write_text(_DECLARED.format(store=store))
        declared = read_declaration(path)
    create(declared)
    reader, every = RowReader(declared), np.arange(keys)
    shards = np.fromiter(map(reader.shard_of, every.tolist()), np.int64, keys)
    with open_store(store) as pages:
        for number in range(declared.shards):
            head = ShardLog(pages, declared.name, number).read_head()
            shard = Shard(declared, reader, pages, number, head, "filler", "", "")
            mine = every[shards == number]
            for turn in range(EVENTS):
                for part in np.array_split(mine, -(-len(mine) // 100_000)):
                    shard.newest = (start + turn * _DAY) * 1_000_000
                    times = np.full(len(part), shard.newest).astype("M8[us]")
                    shard.windows.extend(part, {"amount": np.ones(len(part))}, times, emit="last")
                shard.compact()
            # One merges, and as many snapshots later its old pages are deleted.
            for _ in range(1 + RETAIN):
                shard.compact()
            shard.log.release()
        pages.flush()
    return {"events": events, "bytes": round((used_bytes(store) - before) / events, 1)}


def used_bytes(store: str) -> int:
    """Return the bytes that a store takes in memory or on disk."""
    if store.startswith("file:"):
        folder = Path(store.removeprefix("file://"))
        return sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file())
    import redis

    return int(redis.Redis.from_url(store).info("memory")["used_memory"])


def _sets(store: str, keys: int) -> Row:
    """Return the memory of sorted sets with as many events of each key."""
    import redis

    client, before = redis.Redis.from_url(store), used_bytes(store)
    start = int(time()) - 29 * _DAY
    for key in range(keys):
        client.zadd(f"rival:{key}", {f"1:{at}": start + at * _DAY for at in range(EVENTS)})
    return {
        "events": keys * EVENTS,
        "bytes": round((used_bytes(store) - before) / keys / EVENTS, 1),
    }


def _served(store: str, keys: int, seconds: float) -> Rows:
    with TemporaryDirectory() as folder, create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        path = Path(folder, "limits.toml")
        path.write_text(_DECLARED.format(store=store))
        free.close()

        # An installed package has its bytecode; without it, a start compiles for a second.
        compiled = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

        def start() -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "mta", "serve", "--config", str(path)]
            options = ["--port", str(port), "--workers", "2", "--quiet"]
            return subprocess.Popen([*command, *options], start_new_session=True, env=compiled)

        service = start()
        try:
            _wait(service, port)
            rows: Rows = []
            for rate in (RATE, 0):
                before, client = _cpu(service.pid), [sys.executable, "-m", __spec__.name]
                done = subprocess.run(
                    [*client, str(port), str(keys), str(rate), str(seconds)],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                row = json.loads(done.stdout)
                cpu = (_cpu(service.pid) - before) / row.pop("events") * 1e6
                rows.append(row | {"cpu_us": round(cpu, 1)})
            owner = max(_workers(service.pid), key=_cpu)
            os.kill(owner, signal.SIGKILL)
            rows.append({"how": _RESTARTS[0], "seconds": _until_answered(port)})
            os.killpg(service.pid, signal.SIGKILL)
            service.wait()
            service = start()
            rows.append({"how": _RESTARTS[1], "seconds": _until_answered(port)})
            return rows
        finally:
            service.terminate()
            service.wait()


def _workers(pid: int) -> list[int]:
    """Return the worker processes of a service."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(each) for each in listed
        if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]  # fmt: skip


def _cpu(pid: int) -> float:
    """Return the processor time of a process and those that it started, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu(int(child)) for child in children)


def _until_answered(port: int) -> float:
    """Return the seconds until events of all shards are answered."""
    began, left = perf_counter(), [*range(8)]  # some of each shard
    while left and perf_counter() - began < 60:
        body = json.dumps({"user": left[-1], "amount": 1.0, "id": f"{began} {left[-1]}"}).encode()
        request = Request(f"http://127.0.0.1:{port}/v1/events", body)
        request.add_header("content-type", "application/json")
        try:
            with urlopen(request, timeout=10):
                left.pop()
        except OSError:
            sleep(0.01)
    return round(perf_counter() - began, 2)


def _wait(service: subprocess.Popen[bytes], port: int) -> None:
    """Wait until all shards have owners, of both workers."""
    for _ in range(600):
        if service.poll() is not None:
            break
        try:
            with urlopen(f"http://127.0.0.1:{port}/v1/limits", timeout=10) as answer:
                owners = json.load(answer)["owners"]
                if "" not in owners and len({*owners}) == len(owners):
                    return
        except OSError:
            pass
        sleep(0.1)
    raise RuntimeError("mta serve has ended, or does not divide its shards")


def _windows(store: str, events: int) -> Rows:
    """Measure one key with many events: time for an event with a check, and memory per event."""
    import redis

    client = redis.Redis.from_url(store)
    script, now = client.register_script(_SCRIPT), int(time())
    before = client.info("memory")["used_memory"]
    for start in range(0, events, 1000):
        members = {f"1:{at}": now - events + at for at in range(start, start + 1000)}
        client.zadd("rival", members)
    rival_bytes = (client.info("memory")["used_memory"] - before) / events
    rival = _median(lambda at: script(["rival"], [now + at, 10**9, 1, f"x{at}", 1e12]))
    before = client.info("memory")["used_memory"]
    frames = {"minute": TimeWindow("1 minute"), "day": TimeWindow("1 day")}
    spent = Product({"spent": ("amount", "sum"), "requests": "count"})
    with open_store(store) as pages:
        windows = KeyedWindows(spent, frames | {"month": TimeWindow("30 days")}, pages, "one")
        for start in range(0, events, 10_000):
            times = np.arange(now - events + start, now - events + start + 10_000)
            windows.extend([0] * 10_000, {"amount": np.ones(10_000)}, times, emit="last")
        windows.checkpoint()
        own_bytes = (client.info("memory")["used_memory"] - before) / events
        own = _median(lambda at: windows.extend([0], {"amount": [1.0]}, [now + at]))
    return [
        {"store": "Redis", "how": "window of one key", "events": events, "ms": own,
         "bytes": round(own_bytes, 1)},
        {"store": "Redis", "how": "sorted set of one key", "events": events, "ms": rival,
         "bytes": round(rival_bytes, 1)},
    ]  # fmt: skip


def _median(call: Callable[[int], Any]) -> float:
    spent = []
    for at in range(ASKED):
        began = perf_counter()
        call(at)
        spent.append(perf_counter() - began)
    return round(float(np.median(spent)) * 1e3, 3)


# --- the clients' process -------------------------------------------------------------------------


class _Client(asyncio.Protocol):
    """Sends requests over a connection, one after the other; ``spent`` has the seconds of each.

    With a pause, a request is due that long after the one before, and its time counts from then on,
    also while it waits for an earlier answer.
    """

    _HEAD = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    def __init__(self, bodies: list[bytes], due: float, pause: float) -> None:
        self._requests = iter(
            [self._HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
        )
        self._due, self._pause = due, pause
        self._answer, self.spent = b"", list[float]()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        wait = self._due - perf_counter() if self._pause else 0.0
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._send)
        else:
            self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._began = self._due if self._pause else perf_counter()
        self._due += self._pause
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length: ")[2].split()[0]):
            return
        assert head.startswith(b"HTTP/1.1 200 "), self._answer
        self._answer = b""
        self.spent.append(perf_counter() - self._began)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self.done.set_result(None)


async def _client(port: int, bodies: list[bytes], due: float, pause: float) -> list[float]:
    """Return the seconds of each request over a connection; ``pause`` is 0 for none."""
    _, client = await asyncio.get_running_loop().create_connection(
        lambda: _Client(bodies, due, pause), "127.0.0.1", port
    )
    await client.done
    assert len(client.spent) == len(bodies)
    return client.spent


def _bodies(random: np.random.Generator, keys: int, count: int, at_once: int) -> list[bytes]:
    found = []
    for _ in range(count):
        users = random.integers(0, keys, at_once).tolist()
        rows = [{"user": user, "amount": 1.0} for user in users]
        found.append(json.dumps(rows if at_once > 1 else rows[0]).encode())
    return found


async def _clients(port: int, keys: int, rate: int, seconds: float) -> Row:
    random, worked = np.random.default_rng(3), process_time()
    clients = CLIENTS if rate else 8
    pause, at_once = (clients / rate, 1) if rate else (0.0, AT_ONCE)
    count = int(rate * seconds) // clients if rate else int(20 * seconds)

    async def send(count: int, pause: float) -> list[list[float]]:
        sent = [_bodies(random, keys, count, at_once) for _ in range(clients)]
        begin = perf_counter() + 0.01
        calls = [
            _client(port, bodies, begin + pause * at / clients, pause)
            for at, bodies in enumerate(sent)
        ]
        return await asyncio.gather(*calls)

    warm = count // 4 + 1
    await send(warm, pause)
    began = perf_counter()
    spent = np.concatenate(await send(count, pause))
    elapsed = perf_counter() - began
    p50, p99, p999 = np.percentile(spent, [50, 99, 99.9]) * 1e3
    how = f"single events, {rate:,} a second" if rate else f"batches of {AT_ONCE}"
    events = (count + warm) * clients * at_once
    return {
        "how": how, "p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "p99.9_ms": round(p999, 2),
        "per_second": round(len(spent) * at_once / elapsed),
        "events": events,
        "clients_cpu_us": round((process_time() - worked) / events * 1e6, 1),
    }  # fmt: skip


def draw(rows: Rows) -> Figure:
    """Draw the percentiles of single events and of batches."""
    points = [
        {"how": f"{row['store']}, {row['how']}", "what": what, "ms": row[column]}
        for row in rows
        for column, what in (("p50_ms", "median"), ("p99_ms", "99th percentile"))
        if row.get(column) not in (None, "")
    ]
    return grouped_bars(points, "how", "what", "ms", "ms")


def found(rows: Rows) -> list[Finding]:
    """Return the findings with the limits of the service."""
    by = {(row["store"], row["how"]): row for row in rows}
    at_most: list[tuple[str, float, float]] = []
    for store in ("Redis", "local disk"):
        single = by[store, f"single events, {RATE:,} a second"]
        batches = by[store, f"batches of {AT_ONCE}"]
        restarts = [by[store, f"{how}"] for how in _RESTARTS]
        at_most += [
            (f"{store}: single events, median, ms", 5, single["p50_ms"]),
            (f"{store}: single events, 99th percentile, ms", 25, single["p99_ms"]),
            (f"{store}: single events, 99.9th percentile, ms", 50, single["p99.9_ms"]),
            (f"{store}: us per event in batches of 100", 33.3, 1e6 / batches["per_second"]),
            *((f"{store}: {row['how']}, seconds", 2, row["seconds"]) for row in restarts),
        ]
    own, rival = by["Redis", "window of one key"], by["Redis", "sorted set of one key"]
    many, sets = by["Redis", "memory"], by["Redis", "memory of sorted sets"]
    at_most += [
        ("an event into a large window, times the sorted set", 1, own["ms"] / rival["ms"]),
        ("bytes of an event there, times the sorted set", 1, own["bytes"] / rival["bytes"]),
        (f"bytes of an event of {EVENTS}, times sorted sets", 1, many["bytes"] / sets["bytes"]),
    ]
    return [
        Finding(what, f"at most {most:g}", f"{seen:.3g}", seen <= most)
        for what, most, seen in at_most
    ]


EXPERIMENTS = (
    Experiment(
        "limits", "Limits per key",
        "our own",
        "Exact sliding limits cost less memory and time than a sorted set per key.",
        f"A sum and a count over three windows of {KEYS:,} keys with {EVENTS} events each, with a "
        "limit, over HTTP with two workers, on local disk and in Redis. Clients and Redis run on "
        f"the same machine. Then one key with {LARGE:,} events.",
        limits, {"limits": draw}, found, quick=0.02,
        captions={"limits": "Lower is better."},
    ),
)  # fmt: skip


if __name__ == "__main__":
    port_, keys_, rate_ = map(int, sys.argv[1:4])
    # Waits of ``select`` are precise; those of ``epoll`` are whole milliseconds.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(SelectSelector())) as runner:
        json.dump(runner.run(_clients(port_, keys_, rate_, float(sys.argv[4]))), sys.stdout)
