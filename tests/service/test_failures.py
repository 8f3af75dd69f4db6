"""Errors that nobody expects: none is an answer of the status 500, and none makes a shard wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from mta.errors import (
    CorruptPage,
    InvalidStoreURL,
    StoreAccessDenied,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    UnsuitableKey,
)
from mta.serve.answers import Problem
from mta.service.declaration import Declaration
from mta.service.log import ShardLog
from mta.service.members import Members
from mta.service.owners import Owners
from mta.service.rows import RowReader
from mta.service.shard import Shard
from stores import MemoryStore, PageStore
from stores.base import WrapperStore
from stores.testing.faults import FaultyStore
from tests.service.conftest import Declare
from tests.support.patience import LONG
from tests.support.services import Ledger, body, create

FAST = 'takeover_after = "100 ms"\ndelay = "1 ms"\nsnapshot_every = "10 ms"'


class Panic(BaseException):
    """What libraries in Rust raise for their own mistakes."""


ERRORS: list[BaseException] = [
    *(error("on demand") for error in (
        StoreUnavailable, StoreFull, StoreAccessDenied, StoreDamaged, StoreClosed, InvalidStoreURL,
        CorruptPage, UnsuitableKey, KeyError, MemoryError, ConnectionResetError, Panic,
    )),
    RuntimeError("cannot schedule new futures after shutdown"),
]  # fmt: skip


def owners_of(declared: Declaration, *stores: PageStore) -> list[Owners]:
    some: list[Any] = [*stores]
    return [Owners(replace(declared, store=each), "127.0.0.1", LONG) for each in some]


async def answered(owners: Sequence[Owners], random: Random, row: dict[str, Any]) -> Any:
    """The outcome of an event, which is sent again until it has one."""
    async with asyncio.timeout(LONG):
        while True:
            each = random.choice(owners)
            try:
                return (await each.send(each.rows.of_mappings([row]), "add"))[0]
            except Problem as problem:
                assert problem.status == 503, problem.name
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("applied", [False, True])
def test_an_unexpected_error_is_a_503_and_loses_nothing(
    declare: Declare, applied: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two processes, of which one forwards events to the shards of the other."""
    declared, memory, random = declare(settings=FAST, shards=2), MemoryStore(), Random(3)
    create(declared, memory)
    faulty = [FaultyStore(memory) for _ in range(2)]
    ledger, fired = Ledger(), 0

    async def run() -> None:
        nonlocal fired
        owners = owners_of(declared, *faulty)
        for each in owners:
            await each.start()
        for turn in range(8 * len(ERRORS)):
            store = random.choice(faulty)
            store.fail(random.choice([1, 2, 5, 9]), error=ERRORS[turn % len(ERRORS)],
                       applied=applied)  # fmt: skip
            for _ in range(4):
                key, amount = random.choice("abcdef"), random.choice([1, 2, 40])
                row = {"user": key, "amount": amount, "id": uuid4().hex}
                outcome = await answered(owners, random, row)
                accepted, results = ledger.judge(key, 0, amount)
                assert (outcome.status == 200) == accepted
                assert body(outcome)["values"] == results
        fired = sum(store.fired for store in faulty)
        for store in faulty:
            store.heal()
        await asyncio.gather(*(each.stop() for each in owners))

    asyncio.run(run())
    assert fired > 4 * len(ERRORS)


def test_a_shard_that_failed_while_it_was_claimed_is_claimed_again(declare: Declare) -> None:
    """Although its process has its share of the shards by then."""
    declared, memory = declare(settings=FAST, shards=2), MemoryStore()
    create(declared, memory)

    async def run() -> None:
        owners = owners_of(declared, memory, memory)
        for each in owners:
            await each.start()
        while [len(each.status()["own_shards"]) for each in owners] != [1, 1]:
            await asyncio.sleep(0.01)
        (mine,), (other,) = (each.status()["own_shards"] for each in owners)
        head, lost = (ShardLog(memory, declared.name, at).read_head() for at in (mine, other))
        Shard(declared, owners[0].rows, memory, other, lost, head.owner, head.address, head.secret)
        for key in "abcdefgh":
            row = {"user": key, "amount": 1, "id": uuid4().hex}
            assert (await answered(owners, Random(1), row)).status == 200
        await asyncio.gather(*(each.stop() for each in owners))

    asyncio.run(run())


def test_connections_to_dead_owners_are_closed(declare: Declare) -> None:
    """Also the one to an owner that took a request and died before it answered."""
    declared, memory = declare(settings=FAST, shards=1), MemoryStore()
    create(declared, memory)

    async def run() -> None:
        mute = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await reader.read(1)
            mute.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        rows = RowReader(declared)
        dead = Members(memory, declared.name, "dead", LONG)
        dead.look()
        dead.beat()
        head = ShardLog(memory, declared.name, 0).read_head()
        shard = Shard(declared, rows, memory, 0, head, "dead", f"127.0.0.1:{port}", "secret")
        (owners,) = owners_of(replace(declared, takeover_after=500_000), memory)
        await owners.start()
        row = {"user": "a", "amount": 1, "id": "x"}
        asked = asyncio.create_task(answered([owners], Random(1), row))
        async with asyncio.timeout(LONG):
            await mute.wait()
            assert [*owners._links] == ["dead"]
            found = await asked  # by this process, once it has claimed the shard
            assert body(found)["values"]["spent_day"] == 1
            while owners._links:
                await asyncio.sleep(0.01)
        assert shard.log.read_head().owner != "dead"
        await owners.stop()
        server.close()

    asyncio.run(run())


class Gate(WrapperStore):
    """A store that waits before it reads the log of a shard."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    def get_records(self, keys: Sequence[str]) -> list[bytes | None]:
        if any("/log/" in key for key in keys):
            self.is_reached.set()
            assert self.is_open.wait(LONG)
        return self.store.get_records(keys)

    def close(self) -> None:
        """Do nothing: the test reads the store later."""


def test_a_process_that_stops_while_it_claims_a_shard_gives_it_up(declare: Declare) -> None:
    declared, gate = declare(settings=FAST), Gate(MemoryStore())
    create(declared, gate.store)

    async def run() -> None:
        (owners,) = owners_of(declared, gate)
        await owners.start()
        assert await asyncio.to_thread(gate.is_reached.wait, LONG)
        stopping = asyncio.create_task(owners.stop())
        await asyncio.sleep(0.05)  # it waits for the claim
        assert not stopping.done()
        gate.is_open.set()
        await stopping

    asyncio.run(run())
    assert ShardLog(gate.store, declared.name, 0).read_head().owner == ""
    assert "shard-0" not in [thread.name for thread in threading.enumerate()]
