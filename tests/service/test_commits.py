"""Commits of many requests together: each is answered as if it had come alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from random import Random
from typing import Any

import pytest

from mta.serve.answers import Problem
from mta.service import commits
from mta.service.commits import Committer, Interrupted, Job, Moved, Task
from mta.service.declaration import Declaration
from mta.service.rows import RowReader
from mta.service.shard import Outcome, Shard
from stores import MemoryStore, PageStore
from tests.service.conftest import Declare
from tests.support.services import Ledger, Owner, body, create

#: A limit that an event with an amount of 0 never exceeds.
DAILY = '[limits]\ndaily = { aggregate = "spent_day", at_most = 100 }'
Send = Callable[..., asyncio.Future[list[Outcome]]]


@contextmanager
def sender(declared: Declaration, store: PageStore | None = None) -> Iterator[Send]:
    """Yields what sends rows to a committer, in a running event loop."""
    store, reader = store or MemoryStore(), RowReader(declared)
    create(declared, store)
    shard = Owner(declared, store, "first").shard
    committer = Committer(shard, declared, lambda *_: None)

    def send(task: Task, *rows: dict[str, Any]) -> asyncio.Future[list[Outcome]]:
        job = Job(reader.of_mappings(rows), task)
        committer.add(job)
        return job.done

    try:
        yield send
    finally:
        committer.stop()
        committer.join()


def spent(found: list[Outcome]) -> list[Any]:
    return [(each.status, body(each).get("values", {}).get("spent_day")) for each in found]


def test_checks_do_not_see_each_other(declare: Declare) -> None:
    async def run() -> None:
        with sender(declare(settings='delay = "100 ms"')) as send:
            await send("add", {"user": "a", "amount": 1})
            checks = [send("check", {"user": key, "amount": 60}) for key in "aaabaaaaaaaaaba"]
            added = send("add", {"user": "a", "amount": 2}, {"user": "b", "amount": 3})
            assert spent(await added) == [(200, 3), (200, 3)]
            for found in await asyncio.gather(*checks):
                assert spent(found) in ([(200, 61)], [(200, 63)])  # before the events, or after

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_is_checked_as_it_would_be_added(declare: Declare, seed: int) -> None:
    random, ledger = Random(seed), Ledger()
    amounts = [random.choice([1, -1, 30, 200 + at]) for at in range(60)]  # in many commits
    rows = [{"user": random.choice("abc"), "amount": amount} for amount in amounts]
    expected = []
    for row in rows:
        accepted, results = ledger.judge(row["user"], 0, int(str(row["amount"])))
        expected.append((200 if accepted else 409, results["spent_day"]))

    async def run() -> None:
        with sender(declare(settings='delay = "1 ms"')) as send:
            for task in ("check", "check", "add"):
                assert spent(await send(task, *rows)) == expected

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["int", "float"])
def test_results_beyond_their_types_are_refused_alone(declare: Declare, kind: str) -> None:
    large: Any = 2**62 if kind == "int" else 1.5e308
    declared = declare(limits="", values=kind)
    amounts = [large, 1, large, 2, -large, large, large, -3, large] * 3
    rows = [{"user": key, "amount": amount} for amount in amounts for key in "ab"]
    expected, sums = [], {"a": 0, "b": 0}
    for row in rows:
        total = sums[row["user"]] + row["amount"]
        fits = abs(total) < 2**63 if kind == "int" else isfinite(total)
        sums[row["user"]] = total if fits else sums[row["user"]]
        expected.append((200, total) if fits else (422, None))
    assert len({*expected}) > 2

    async def run() -> None:
        with sender(declared) as send:
            for task in ("check", "check", "add"):
                found = await send(task, *rows)
                assert spent(found) == expected
                refused = [body(each) for each in found if each.status != 200]
                assert {each["name"] for each in refused} == {"ResultOutOfRange"}
                assert all("beyond" in each["detail"] for each in refused)

    asyncio.run(run())


def test_a_request_of_events_over_a_limit_takes_one_commit(declare: Declare) -> None:
    declared, store = declare(), MemoryStore()
    create(declared, store)
    owner, count = Owner(declared, store, "first"), 10_000
    rows = owner.read(*[{"user": key, "amount": 101 + at} for at in range(count) for key in "ab"])
    found = owner.shard.commit(rows)
    assert spent([each for each in found if each]) == [
        (409, 101 + at // 2) for at in range(2 * count)
    ]


def test_a_client_over_its_limit_delays_others_by_a_few_commits(
    declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its many events need 125 commits; they are dropped once its request has timed out."""
    monkeypatch.setattr(commits, "MOST_ROWS", 100)
    commit, calls = Shard.commit, [0]

    def counted(*given: Any, **named: Any) -> list[Outcome | None]:
        calls[0] += 1
        return commit(*given, **named)

    monkeypatch.setattr(Shard, "commit", counted)

    async def run() -> None:
        with sender(declare(settings='delay = "1 ms"', limits=DAILY)) as send:
            greedy = send("add", *[{"user": "a", "amount": each} for each in [101, 0] * 1000])
            for at in range(5):
                assert spent(await send("add", {"user": "b", "amount": 1})) == [(200, at + 1)]
            assert not greedy.done()
            greedy.cancel()

    asyncio.run(run())
    assert calls[0] < 100


def test_a_value_that_an_aggregation_cannot_read_is_refused_alone(declare: Declare) -> None:
    declared = declare(values="float", limits='bits = ["amount", "bit_or"]')
    amounts = [1.0, 2.5, 4.0, 1e300, 8.0]

    async def run() -> None:
        with sender(declared) as send:
            for task, before in (("check", 0), ("check", 0), ("add", 0), ("add", 13)):
                found = await asyncio.gather(
                    send(task, *[{"user": "a", "amount": each} for each in amounts]),
                    send(task, {"user": "b", "amount": 1.0}),
                )
                assert [each.status for each in found[0]] == [200, 400, 200, 400, 200]
                assert body(found[0][-1])["values"]["spent_day"] == before + 13
                assert body(found[0][1])["name"] == "InvalidRequest"
                assert [each.status for each in found[1]] == [200]

    asyncio.run(run())


@pytest.mark.parametrize("ids", [False, True])
def test_events_that_may_be_added_are_not_sent_again_without_ids(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, ids: bool
) -> None:
    """A request is partly judged, and waits for its next commit, when the shard is lost."""
    monkeypatch.setattr(commits, "MOST_ROWS", 100)
    store, declared = MemoryStore(), declare(settings='delay = "1 ms"', limits=DAILY)

    async def run() -> None:
        with sender(declared, store) as send:
            rows = [{"user": "a", "amount": amount} for amount in [1, *[101, 0] * 950]]
            named = [row | {"id": str(at)} for at, row in enumerate(rows)] if ids else rows
            partly = send("add", *named)
            for at in range(3):
                assert spent(await send("add", {"user": "b", "amount": 1})) == [(200, at + 1)]
            Owner(declared, store, "second")
            waiting = send("add", {"user": "b", "amount": 1})
            with pytest.raises(Interrupted if ids else Problem):
                await partly
            with pytest.raises((Moved, Problem)):
                await waiting

    asyncio.run(run())


def test_a_retry_is_checked_as_it_is_answered(declare: Declare) -> None:
    async def run() -> None:
        with sender(declare()) as send:
            row = {"user": "a", "amount": 7, "id": "x"}
            added = await send("add", row)
            first, other, again = await send("check", row, {"user": "a", "amount": 1}, row)
            assert [first] == [again] == added
            assert spent([other]) == [(200, 8)]

    asyncio.run(run())
