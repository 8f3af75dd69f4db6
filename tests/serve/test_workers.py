"""Several workers, new snapshots, a store that is away, and an end without losses."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.serve.conftest import KEYS, LAST, Published
from tests.support.faulty import eventually
from tests.support.patience import LONG
from tests.support.servers import RedisServer, own_redis
from tests.support.serving import QUERY, Served, path, status_line

__all__ = ["own_redis"]


def children(process: int) -> set[int]:
    """The worker processes of a service."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == process and "spawn_main" in command:
            found.add(int(folder.name))
    return found


def test_workers_share_the_port_and_their_counts(on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, "--workers", "2") as service:
        assert len(children(service.process.pid)) == 2
        for _ in range(40):
            assert service.get(path(KEYS[0])).status == 200
        line = 'mta_serve_requests_total{path="/v1/windows/{key}",status="200"} 40.0'
        assert line in service.get("/metrics").body.decode()
        workers = children(service.process.pid)
        os.kill(min(workers), signal.SIGKILL)
        eventually(lambda: len(children(service.process.pid) - {min(workers)}) == 2)
        assert service.get(path(KEYS[0])).status == 200
    assert not children(service.process.pid)


def test_workers_end_with_the_process_that_started_them(on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, "--workers", "2") as service:
        workers = children(service.process.pid)
        assert len(workers) == 2
        service.process.kill()
        eventually(lambda: not any(map(_runs, workers)))
        with pytest.raises(OSError):
            service.get("/healthz")


def _runs(process: int) -> bool:
    """Whether a process runs, and does not only wait for its parent to learn that it ended."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_no_request_fails_while_snapshots_change(on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, "--refresh", "5 ms") as service:
        batches, failed, done = set(), [], threading.Event()

        def ask() -> None:
            while not done.is_set():
                answer = service.get(path(KEYS[1]))
                if answer.status != 200:
                    failed.append(answer)
                batches.add(answer.json["values"]["total_hour"])

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        for batch in range(20):
            on_disk.add([(KEYS[1], LAST + batch, 1)])
        done.set()
        for client in clients:
            client.join()
        assert not failed
        assert len(batches) > 1


def test_a_request_under_way_ends_before_the_service(on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, "--time-limit", "30 seconds") as service:
        body = json.dumps({"keys": KEYS, "at": LAST}).encode()
        with closing(service.connect()) as client:
            client.sendall(f"{QUERY}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
            while not _is_waiting(service):
                time.sleep(0.01)
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            client.sendall(body[10:])
            assert status_line(client).endswith(b" 200 OK")
        service.process.wait(LONG)
        with pytest.raises(OSError):
            service.get("/healthz")


def _is_waiting(service: Served) -> bool:
    """Whether the service has answered a request that came after the other one."""
    return service.get("/healthz").status == 200


def test_it_goes_on_while_the_store_is_away(own_redis: RedisServer) -> None:
    pytest.importorskip("redis")
    published = Published(f"{own_redis.url}?timeout=0.3")
    options = "--refresh", "50 ms", "--time-limit", "20 seconds"
    with Served(published.store, published.name, *options) as service:
        before = service.get(path(KEYS[0])).json
        own_redis.stop()
        eventually(lambda: not service.get("/v1/status").json["store_answers"])
        assert service.get(path(KEYS[0])).json == before  # its pages are in memory
        assert service.get("/healthz").status == 200
        own_redis.start()
        eventually(lambda: service.get("/v1/status").json["store_answers"])
        published.add([("back", LAST, 42)])
        eventually(lambda: service.get("/v1/windows/back").json["values"]["total_hour"] == 42)


def test_many_clients_get_their_own_answers(on_disk: Published) -> None:
    """Requests that wait together share a call of the reader, not their results or errors."""
    with Served(on_disk.store, on_disk.name) as service:
        expected = {
            f"{path(key)}?at={at}": on_disk.lists.query(key, at=at)["total_hour"]
            for key in KEYS for at in range(LAST, LAST - 40, -10)
        }  # fmt: skip
        wrong: list[object] = []

        def ask(seed: int) -> None:
            for number in range(12):
                asked = [*expected][(seed * 7 + number * 5) % len(expected)]
                if number % 9 == seed % 9:
                    answer = service.get(f"{path(KEYS[0])}?at=-99999999")
                    if answer.status not in (200, 410):
                        wrong.append(answer)
                answer = service.get(asked)
                if answer.status != 200 or answer.json["values"]["total_hour"] != expected[asked]:
                    wrong.append((asked, answer))

        clients = [threading.Thread(target=ask, args=[seed]) for seed in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert not wrong
