"""Processes are killed and paused, and stores stopped, while clients add events with ids.

With ``--log-cli-level=INFO``, pytest shows the counts of each run.

Every event is sent until it is answered. Then the accepted events of a key are numbered by the
count that their answers have: without a gap, none is lost, and without a repetition, none is
counted twice. Their sums are the sums of all accepted before, and no sum exceeds the limit.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from tests.service.conftest import DECLARED
from tests.support.patience import LONG
from tests.support.s3_server import S3Server
from tests.support.servers import RedisServer
from tests.support.services import Serving

logger = logging.getLogger(__name__)
MOST = 100
#: How many seconds pass until events have other keys, so that few are refused.
TURN = 2.0
#: On a busy machine, a client may repeat an event minutes later.
SETTINGS = 'snapshot_every = "300 ms"\nretry_for = "1 day"'


class Clients:
    """Threads that add events until they are answered, and every answer."""

    def __init__(self, ports: list[int], seed: int, threads: int = 4) -> None:
        self.ports, self.stops = ports, threading.Event()
        self.accepted: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self.refused = self.retries = self.repeated = 0
        self.wrong: list[str] = []
        self._lock, self._began = threading.Lock(), time.monotonic()
        self._threads = [
            threading.Thread(target=self._run, args=[Random(seed * 100 + n)])
            for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, random: Random) -> None:
        answered: list[tuple[dict[str, Any], Any]] = []
        while not self.stops.is_set():
            try:
                self._add(random, answered)
            except Exception as error:
                self.wrong.append(repr(error))
                raise

    def _add(self, random: Random, answered: list[tuple[dict[str, Any], Any]]) -> None:
        if answered and random.random() < 0.1:  # a client that did not hear its answer
            row, before = random.choice(answered[-50:])
            if self._answered(random, row) != (200, before):
                self.wrong.append(f"{row} has another answer")
            self.repeated += 1
            return
        turn = int((time.monotonic() - self._began) / TURN)
        key, amount = f"user {turn} {random.randrange(3)}", random.choice([1, 2, 3])
        row = {"user": key, "amount": amount, "id": uuid4().hex}
        status, found = self._answered(random, row)
        with self._lock:
            if status == 200:
                values = found["values"]
                number, total = values["requests_day"], values["spent_day"]
                self.accepted[key].append((number, total, amount))
                answered.append((row, found))
            elif status == 409 and found["values"]["spent_day"] > MOST:
                self.refused += 1
            else:
                self.wrong.append(f"{status}: {found}")

    def _answered(self, random: Random, row: dict[str, Any]) -> tuple[int, Any]:
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            connection = HTTPConnection("127.0.0.1", random.choice(self.ports), timeout=8)
            with suppress(OSError, HTTPException):
                headers = {"content-type": "application/json"}
                connection.request("POST", "/v1/events", json.dumps(row), headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
                if answer.status not in (429, 503, 408):
                    return answer.status, found
            connection.close()
            self.retries += 1
            time.sleep(0.05)
        return 0, "no answer"

    def stop(self) -> None:
        self.stops.set()
        for thread in self._threads:
            thread.join()

    def check(self, service: Serving) -> None:
        """Check what was accepted, and that the windows have exactly these events."""
        assert not self.wrong
        for key, events in self.accepted.items():
            total = 0
            for place, (number, counted, amount) in enumerate(sorted(events), 1):
                total += amount
                assert number == place, f"{key}: an event was lost or counted twice"
                assert counted == total
            assert total <= MOST
            found = service.add({"user": key, "amount": 0}, path="/v1/check").json["values"]
            assert (found["spent_day"], found["requests_day"]) == (total, len(events) + 1)


def declared_in(folder: Path, store: str) -> Path:
    text = DECLARED.replace("NAME", f"k{uuid4().hex[:6]}").replace("STORE", store)
    text = text.replace("SHARDS", "3").replace("SETTINGS", SETTINGS)
    text = text.replace('rate = { aggregate = "requests_minute", at_most = 6 }', "")
    path = folder / "declared.toml"
    path.write_text(text)
    return path


#: The URL of a store, and an outage of it, if there can be one.
Store = tuple[str, Callable[[Random], None] | None]


@pytest.fixture(params=["file", "redis", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "file":
        yield f"file://{tmp_path / 'pages'}", None
    elif request.param == "redis":
        redis = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")

        def kill_and_start(random: Random) -> None:
            redis.stop()
            time.sleep(random.uniform(0, 1.0))
            redis.start()

        yield f"{redis.url}?timeout=1", kill_and_start
        redis.stop()
    else:
        s3: S3Server = request.getfixturevalue("s3_server")  # a kill would delete its memory

        def freeze(random: Random) -> None:
            s3.freeze()
            time.sleep(random.uniform(0, 2.0))
            s3.thaw()

        yield s3.url(f"kills/{uuid4().hex}"), freeze


def test_a_few_kills(store: Store, tmp_path: Path) -> None:
    kill(store, tmp_path, kills=4, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_a_thousand_kills(store: Store, tmp_path: Path, part: int) -> None:
    kill(store, tmp_path, kills=50, seed=10 + part)


def kill(store: Store, folder: Path, kills: int, seed: int) -> None:
    (url, outage), random = store, Random(seed)
    path = declared_in(folder, url)
    serving = [started(path, create=True), started(path)]
    serving[0].wait_until_all_shards_are_owned()
    logs, killed = list[str](), 0
    clients = Clients([each.port for each in serving], seed)
    try:
        while killed < kills:
            time.sleep(random.uniform(0.2, 1.0))
            which = random.randrange(2)
            what = random.choice(["kill", "kill", "pause", "stop"] + ["store"] * bool(outage))
            process = serving[which].process
            if what == "pause":
                process.send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(1.0, 2.5))
                process.send_signal(signal.SIGCONT)
                continue
            killed += 1
            if what == "store" and outage is not None:
                outage(random)
                continue
            process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
            logs.append(serving[which].stop()[1])
            serving[which] = started(path)
            clients.ports[which] = serving[which].port
    finally:
        clients.stop()
        try:
            clients.check(serving[0])
        finally:
            failed = sys.exc_info()[0] is not None
            logs += [each.stop()[1] for each in serving]
            if failed:  # pytest shows what is logged
                logger.error("seed %d, %d kills; wrong: %s", seed, killed, clients.wrong)
                logger.error("%s", "\n--- the next process\n".join(logs))
            failures = "".join(log for log in logs if "Traceback" in log)
            assert not failures, failures
    accepted = sum(map(len, clients.accepted.values()))
    assert accepted > 10 * kills
    logger.info(
        "%d kills: %d accepted, %d refused, %d retries, %d repeated",
        killed, accepted, clients.refused, clients.retries, clients.repeated,
    )  # fmt: skip


def started(path: Path, create: bool = False) -> Serving:
    """A process that is started until it runs, as by a supervisor: the store may be too slow."""
    deadline = time.monotonic() + LONG
    while True:
        try:
            return Serving(path, create=create)
        except RuntimeError as error:
            if " answer" not in str(error) or time.monotonic() > deadline:
                raise


def test_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    """``test_members`` counts how soon; the benchmark ``limits`` measures it."""
    path = declared_in(tmp_path, f"file://{tmp_path / 'pages'}")
    with Serving(path, create=True) as one, Serving(path) as other:
        other.wait_until_all_shards_are_owned()
        deadline = time.monotonic() + LONG
        while len(other.get("/v1/limits").json["own_shards"]) != 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        one.process.kill()
        for key in [f"user {n}" for n in range(6)]:
            row = {"user": key, "amount": 1, "id": uuid4().hex}
            while other.add(row).status != 200:  # the forwarded request may end with its owner
                assert time.monotonic() < deadline
        assert other.get("/v1/limits").json["own_shards"] == [0, 1, 2]
