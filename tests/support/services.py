"""What an unlimited list says about events, and owners of a shard in this process."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from mta.service.declaration import Declaration
from mta.service.log import ShardLog
from mta.service.rows import RowReader, Rows
from mta.service.shard import Outcome, Shard
from stores import PageStore
from tests.support.patience import LONG
from tests.support.serving import Answer, Served

MINUTE, DAY = 60_000_000, 86_400_000_000
LIMITS = {"daily": ("spent_day", 100), "rate": ("requests_minute", 6)}


class Ledger:
    """Every acknowledged event of each key in a list: its time in microseconds, and its amount."""

    def __init__(self) -> None:
        self.events: dict[Any, list[tuple[int, int]]] = defaultdict(list)

    def results(self, events: list[tuple[int, int]]) -> dict[str, int]:
        """The aggregates after the last of some events."""
        now = events[-1][0]
        found = {}
        for name, length in (("minute", MINUTE), ("day", DAY)):
            inside = [amount for time, amount in events if now - length < time <= now]
            found |= {f"spent_{name}": sum(inside), f"requests_{name}": len(inside)}
        return found

    def is_over(self, results: dict[str, int]) -> bool:
        return any(results[column] > most for column, most in LIMITS.values())

    def judge(self, key: Any, time: int, amount: int) -> tuple[bool, dict[str, int]]:
        """Add an event unless it is over a limit: whether it is not, and the aggregates with it."""
        results = self.results([*self.events[key], (time, amount)])
        if not self.is_over(results):
            self.events[key].append((time, amount))
        return not self.is_over(results), results


class Owner:
    """A shard that was claimed in this process."""

    def __init__(
        self, declared: Declaration, store: PageStore, owner: str, number: int = 0
    ) -> None:
        self.rows = RowReader(declared)
        head = ShardLog(store, declared.name, 0).read_head()
        self.shard = Shard(declared, self.rows, store, 0, head, owner, "", "")

    def read(self, *given: dict[str, Any]) -> Rows:
        return self.rows.of_mappings(given)

    def commit(self, *given: dict[str, Any]) -> list[Outcome]:
        """Commit rows, until none is deferred."""
        rows, outcomes = self.read(*given), dict[int, Outcome]()
        waiting = list(range(len(rows)))
        while waiting:
            for at, found in zip(waiting, self.shard.commit(rows.take(waiting)), strict=True):
                if found is not None:
                    outcomes[at] = found
            waiting = [at for at in waiting if at not in outcomes]
        return [outcomes[at] for at in range(len(rows))]


def body(outcome: Outcome) -> Any:
    return json.loads(outcome.body)


def create(declared: Declaration, store: PageStore) -> None:
    for number in range(declared.shards):
        assert ShardLog(store, declared.name, number).create(declared.fingerprint)


class Serving(Served):
    """A process that serves declared windows."""

    def __init__(self, path: Path, *options: str, create: bool = False, token: str = "") -> None:
        extra = ("--create",) if create else ()
        super().__init__(None, f"--config={path}", *extra, *options, token=token)

    def add(self, *rows: dict[str, Any], path: str = "/v1/events", **headers: str) -> Answer:
        """One row as an object, several as an array.

        Like a client's, a request has ids and is repeated: on a busy machine, a process may seem
        dead for a moment, and its shards move.
        """
        given = [{"id": uuid4().hex, **row} for row in rows] if path == "/v1/events" else [*rows]
        deadline = time.monotonic() + LONG
        while True:
            found = self.post(given[0] if len(given) == 1 else given, path, **headers)
            passes = found.status in (429, 503) and found.problem != "LostRecords"
            if not passes or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def wait_until_all_shards_are_owned(self) -> None:
        deadline = time.monotonic() + LONG
        while "" in self.get("/v1/limits").json["owners"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
