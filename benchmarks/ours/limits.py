"""Limits per key over HTTP, and the same by sorted sets in a Lua script in Redis.

``mta serve --config`` has two workers, and keeps a sum and a count over a minute, a day and 30 days
of each key in Redis. Single events come at a fixed rate: each is due at a given moment, even if
earlier events were not answered, and its time counts from that moment. Batches have 100 events.

The rival is what gateways write by hand: a sorted set per key with an event per member, and a
script that removes what left the window, sums what is in it, and adds the event within the limit.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from socket import create_server
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, time
from typing import Any
from urllib.request import urlopen

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.server import redis_server
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows
from benchmarks.report.plots import grouped_bars
from mta import KeyedWindows, Product, TimeWindow
from stores import open_store

KEYS, RATE, CLIENTS, SECONDS, AT_ONCE = 100_000, 1500, 32, 10, 100
#: The number of events in the window of one key, and of questions about it.
LARGE, ASKED = 100_000, 20
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
    """Measure the service, and one key with many events, and the same by the script."""
    return progress.rows([max(1000, int(KEYS * size))], _measured, lambda keys: f"{keys:,} keys")


def _measured(keys: int) -> Rows:
    share = keys / KEYS
    with redis_server() as store:
        rows = _served(store, keys, max(SECONDS * share, 4.0))
        return rows + _windows(store, max(int(LARGE * share), 10_000))


def _served(store: str, keys: int, seconds: float) -> Rows:
    with TemporaryDirectory() as folder, create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        path = Path(folder, "limits.toml")
        path.write_text(_DECLARED.format(store=store))
        free.close()
        command = [sys.executable, "-m", "mta", "serve", "--config", str(path), "--create"]
        service = subprocess.Popen([*command, "--port", str(port), "--workers", "2", "--quiet"])
        try:
            _wait(service, port)
            rows: Rows = []
            for rate in (RATE, 0):
                client = [sys.executable, "-m", __spec__.name, str(port), str(keys), str(rate)]
                done = subprocess.run(
                    [*client, str(seconds)], capture_output=True, text=True, check=True
                )
                rows.append(json.loads(done.stdout))
            return rows
        finally:
            service.terminate()
            service.wait()


def _wait(service: subprocess.Popen[bytes], port: int) -> None:
    while service.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/v1/limits", timeout=10) as answer:
                if "" not in json.load(answer)["owners"]:
                    return
        except OSError:
            pass
        sleep(0.1)
    raise RuntimeError("mta serve has ended")


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
        {"how": "window of one key", "events": events, "ms": own, "bytes": round(own_bytes, 1)},
        {"how": "sorted set of one key", "events": events, "ms": rival,
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


async def _client(port: int, bodies: list[bytes], due: float, pause: float) -> list[float]:
    """Return seconds per request over a connection; ``pause`` is the interval, 0 for none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    spent = []
    for body in bodies:
        if pause:
            await asyncio.sleep(max(0.0, due - perf_counter()))
        began = due if pause else perf_counter()
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].split()[0]))
        spent.append(perf_counter() - began)
        due += pause
    writer.close()
    return spent


def _bodies(random: np.random.Generator, keys: int, count: int, at_once: int) -> list[bytes]:
    found = []
    for _ in range(count):
        users = random.integers(0, keys, at_once).tolist()
        rows = [{"user": user, "amount": 1.0} for user in users]
        found.append(json.dumps(rows if at_once > 1 else rows[0]).encode())
    return found


async def _clients(port: int, keys: int, rate: int, seconds: float) -> Row:
    random = np.random.default_rng(3)
    clients = CLIENTS if rate else 8
    pause, at_once = (clients / rate, 1) if rate else (0.0, AT_ONCE)
    count = int(rate * seconds) // clients if rate else int(4 * seconds)

    async def send(count: int, pause: float) -> list[list[float]]:
        sent = [_bodies(random, keys, count, at_once) for _ in range(clients)]
        begin = perf_counter() + 0.01
        calls = [
            _client(port, bodies, begin + pause * at / clients, pause)
            for at, bodies in enumerate(sent)
        ]
        return await asyncio.gather(*calls)

    await send(count // 4 + 1, 0.0)
    began = perf_counter()
    spent = np.concatenate(await send(count, pause))
    elapsed = perf_counter() - began
    p50, p99, p999 = np.percentile(spent, [50, 99, 99.9]) * 1e3
    how = f"single events, {rate:,} a second" if rate else f"batches of {AT_ONCE}"
    return {
        "how": how, "p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "p99.9_ms": round(p999, 2),
        "per_second": round(len(spent) * at_once / elapsed),
    }  # fmt: skip


def draw(rows: Rows) -> Figure:
    """Draw the percentiles of single events and of batches."""
    points = [
        {"how": row["how"], "what": what, "ms": row[column]}
        for row in rows
        for column, what in (("p50_ms", "median"), ("p99_ms", "99th percentile"))
        if row.get(column) not in (None, "")
    ]
    return grouped_bars(points, "how", "what", "ms", "ms")


def found(rows: Rows) -> list[Finding]:
    """Return the findings with the limits of the service."""
    by = {row["how"]: row for row in rows}
    single, batches = by[f"single events, {RATE:,} a second"], by[f"batches of {AT_ONCE}"]
    own, rival = by["window of one key"], by["sorted set of one key"]
    at_most = (
        ("single events, median, ms", 5, single["p50_ms"]),
        ("single events, 99th percentile, ms", 25, single["p99_ms"]),
        ("single events, 99.9th percentile, ms", 50, single["p99.9_ms"]),
        ("us per event in batches of 100", 33.3, round(1e6 / batches["per_second"], 1)),
        ("an event into a large window, times the sorted set", 1, own["ms"] / rival["ms"]),
        ("bytes of an event, times the sorted set", 1, own["bytes"] / rival["bytes"]),
    )
    return [
        Finding(what, f"at most {most:g}", f"{seen:.3g}", seen <= most)
        for what, most, seen in at_most
    ]


EXPERIMENTS = (
    Experiment(
        "limits", "Limits per key",
        "our own",
        "Exact sliding limits cost less memory and time than a sorted set per key.",
        f"A sum and a count over three windows of {KEYS:,} keys, with a limit, over HTTP with two "
        f"workers and Redis on the same host; and one key with {LARGE:,} events.",
        limits, {"limits": draw}, found, quick=0.1,
        captions={"limits": "Lower is better."},
    ),
)  # fmt: skip


if __name__ == "__main__":
    port_, keys_, rate_ = map(int, sys.argv[1:4])
    json.dump(asyncio.run(_clients(port_, keys_, rate_, float(sys.argv[4]))), sys.stdout)
