"""Requests of single keys to ``mta serve``, at a fixed rate and at the highest rate.

The service has one worker. The clients run in a separate process, each with one connection. At a
fixed rate, each request is due at a given moment, even if earlier requests were not answered. Its
time counts from that moment, so a pause of the service affects every request that it delays.
``cpu_us`` is the worker's processor time per request.
``python -m benchmarks.ours.serving_http URL NAME KEYS`` measures published windows.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from os import sysconf
from socket import create_server
from time import perf_counter, sleep
from urllib.request import urlopen

import numpy as np

from benchmarks.report.experiment import Row, Rows

#: Requests per second, connections, and seconds of each measurement.
RATE, CLIENTS, SECONDS = 1000, 16, 10
#: The number of requests before the measurement.
WARM = 1600


def requests(store: str, name: str, keys: int) -> Rows:
    """Measure a row at the fixed rate, and one at the highest rate; keys are 0 to ``keys``."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mta", "serve", name, "--store", store, "--port", str(port)]
    service = subprocess.Popen([*command, "--quiet"])
    try:
        _wait(service, port)
        rows: Rows = []
        for rate in (RATE, 0):
            before = _processor_seconds(service.pid)
            client = [sys.executable, "-m", __spec__.name, "--client", str(port), str(keys)]
            done = subprocess.run([*client, str(rate)], capture_output=True, text=True, check=True)
            row: Row = json.loads(done.stdout)
            spent = _processor_seconds(service.pid) - before
            row["cpu_us"] = round(1e6 * spent / row.pop("requests"))
            rows.append(row)
        return rows
    finally:
        service.terminate()
        service.wait()


def paced(rate: int) -> str:
    """Return the name of the row of a rate."""
    return f"HTTP, {rate:,} a second" if rate else "HTTP, as fast as it answers"


def _wait(service: subprocess.Popen[bytes], port: int) -> None:
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10).close()
            return
        except OSError:
            if service.poll() is not None:
                raise RuntimeError("mta serve has ended") from None
            sleep(0.05)


def _processor_seconds(process: int) -> float:
    with open(f"/proc/{process}/stat") as file:
        times = file.read().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / sysconf("SC_CLK_TCK")


# --- the clients' process -------------------------------------------------------------------------


async def _client(port: int, keys: list[int], due: float, pause: float) -> list[float]:
    """Return seconds per request over a connection; ``pause`` is the interval, 0 for none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    spent = []
    for key in keys:
        if pause:
            await asyncio.sleep(max(0.0, due - perf_counter()))
        began = due if pause else perf_counter()
        writer.write(b"GET /v1/windows/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % key)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        spent.append(perf_counter() - began)
        due += pause
    writer.close()
    return spent


async def _clients(port: int, keys: int, rate: int) -> Row:
    random = np.random.default_rng(3)
    count, pause = (rate or RATE) * SECONDS // CLIENTS, CLIENTS / rate if rate else 0.0

    async def ask(each: int, pause: float) -> list[list[float]]:
        begin, clients = perf_counter() + 0.01, range(CLIENTS)
        asked = [random.integers(0, keys, each).tolist() for _ in clients]
        due = [begin + pause * at / CLIENTS for at in clients]
        calls = [_client(port, asked[at], due[at], pause) for at in clients]
        return await asyncio.gather(*calls)

    await ask(WARM // CLIENTS, 0.0)
    began = perf_counter()
    spent = np.concatenate(await ask(count, pause))
    seconds = perf_counter() - began
    p50, p99 = np.percentile(spent, [50, 99]) * 1e6
    return {
        "how": paced(rate), "p50_us": round(p50, 1), "p99_us": round(p99, 1),
        "per_second": round(len(spent) / seconds), "requests": len(spent) + WARM,
    }  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--client":
        port_, keys_, rate_ = map(int, sys.argv[2:])
        json.dump(asyncio.run(_clients(port_, keys_, rate_)), sys.stdout)
    else:
        for row in requests(sys.argv[1], sys.argv[2], int(sys.argv[3])):
            sys.stdout.write(f"{row}\n")
