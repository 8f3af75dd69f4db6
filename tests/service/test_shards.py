"""Shards: what owners acknowledge is never lost, never counted twice, and within the limits."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from mta.errors import CorruptSnapshot, StoreUnavailable, WindowStoreError
from mta.keyed import bucket, lsm
from mta.keyed import windows as keyed
from mta.service import shard as shards
from mta.service.declaration import Declaration
from mta.service.log import LostRecords, NotCreated, NotOwner, OtherWindows, ShardLog
from stores import MemoryStore, PageStore, open_store
from stores.testing.faults import FaultyStore
from tests.service.conftest import Declare
from tests.support.s3_server import S3Server
from tests.support.sampling import some
from tests.support.services import Ledger, Owner, body, create

SECOND = 1_000_000


@pytest.fixture(params=["memory", "file", "redis", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PageStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "file":
        return open_store(f"file://{tmp_path / 'pages'}")
    if request.param == "redis":
        return open_store(request.getfixturevalue("redis_url"))
    server: S3Server = request.getfixturevalue("s3_server")
    return open_store(server.url(f"service/{uuid4().hex}"))


class Clock:
    """The server's clock, in microseconds; it may jump."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_700_000_000 * SECOND
        monkeypatch.setattr(shards, "now", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def check(ledger: Ledger, key: str, outcome: shards.Outcome, amount: int) -> None:
    """One event, at the time that the answer has, is judged as by a list."""
    found = body(outcome)
    time = round(_micros(found["time"]))
    accepted, results = ledger.judge(key, time, amount)
    assert found["values"] == results
    assert outcome.status == (200 if accepted else 409)
    if not accepted and found["fits_at"] is not None:
        fits = _micros(found["fits_at"])
        assert not ledger.is_over(ledger.results([*ledger.events[key], (fits, amount)]))
        before = ledger.results([*ledger.events[key], (fits - 1, amount)])
        assert ledger.is_over(before)


def _micros(text: str) -> int:
    from datetime import datetime

    found = datetime.fromisoformat(text)
    return int(found.timestamp()) * SECOND + found.microsecond


def run(
    owner: Owner, ledger: Ledger, random: Random, answered: dict[str, tuple[str, shards.Outcome]]
) -> None:
    """Commit some new events and some retries."""
    rows = [
        {"user": random.choice("abc"), "amount": random.choice([1, 2, 30]), "id": uuid4().hex}
        for _ in range(random.choice([1, 2, 9]))
    ]
    for row, outcome in zip(rows, owner.commit(*rows), strict=True):
        check(ledger, str(row["user"]), outcome, int(str(row["amount"])))
        if outcome.status == 200:
            answered[str(row["id"])] = str(row["user"]), outcome
    for known in random.sample([*answered], min(3, len(answered))):
        user, outcome = answered[known]
        assert owner.commit({"user": user, "amount": 1, "id": known}) == [outcome]


def compacted(owner: Owner, declared: Declaration, store: PageStore) -> Owner:
    """Compact a shard; return its owner, which is a new one if the store refuses the state.

    An object store may have a state of this number of an owner that woke up: it checks the head
    only after a put.
    """
    try:
        owner.shard.compact()
    except StoreUnavailable:
        assert "ObjectStore" in repr(store)
        return Owner(declared, store, uuid4().hex)
    return owner


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_owners_follow_each_other(
    store: PageStore, declare: Declare, clock: Clock, seed: int
) -> None:
    random, ledger, declared = Random(seed), Ledger(), declare(settings='retry_for = "9 days"')
    create(declared, store)
    answered: dict[str, tuple[str, shards.Outcome]] = {}
    owner = Owner(declared, store, "0")
    for turn in range(40):
        # The clock of another machine may be behind, and that of this one may jump.
        clock.now += random.choice([0, SECOND, 20 * SECOND, -300 * SECOND, 3600 * SECOND])
        run(owner, ledger, random, answered)
        event = random.choice(["", "", "", "compact", "die", "sleep"])
        if event == "compact":
            owner = compacted(owner, declared, store)
        elif event:
            before, owner = owner, Owner(declared, store, str(turn))
            if event == "sleep":  # it wakes up, and believes that it still owns the shard
                clock.now += 2 * SECOND
                for row in ({"user": "a", "amount": 0}, {"user": "a", "amount": 101}):
                    with pytest.raises(NotOwner):
                        before.commit(row)
                with pytest.raises(NotOwner):
                    before.shard.commit(before.read({"user": "a", "amount": 1}), add=False)
                with pytest.raises(NotOwner):
                    before.shard.compact()
    for key, events in ledger.events.items():
        found = owner.shard.windows.query(key)
        assert {f"{name}_{frame}": found[frame][name] for frame in found for name in found[frame]} \
            == ledger.results(events)  # fmt: skip


@pytest.mark.parametrize("applied", [False, True])
def test_any_call_may_fail_or_lose_its_answer(declare: Declare, applied: bool) -> None:
    """Whatever fails, the next owner has each acknowledged event once, and retries are safe."""
    number, fired = 0, True
    while fired:
        number += 1
        store, declared, ledger = FaultyStore(MemoryStore()), declare(), Ledger()
        create(declared, store)
        owner = Owner(declared, store, "first")
        store.fail(number, applied=applied)
        waiting = [{"user": "a", "amount": n, "id": str(n)} for n in range(6)]
        turn = 0
        while waiting:
            turn += 1
            assert turn < 30
            try:
                if owner is None:
                    owner = Owner(declared, store, f"owner {turn}")
                (outcome,) = owner.commit(waiting[0])
                check(ledger, "a", outcome, int(str(waiting[0]["amount"])))
                waiting.pop(0)
                if len(waiting) % 2:
                    owner.shard.compact()
            except (StoreUnavailable, NotOwner):
                owner = None  # type: ignore[assignment]
        fired = store.fired > 0
    last = Owner(declared, store.store, "last").shard.windows
    assert last.query("a")["day"] == {"spent": 15, "requests": 6}
    assert number > 10


def test_an_owner_that_wakes_up_overwrites_no_state(store: PageStore, declare: Declare) -> None:
    declared = declare()
    create(declared, store)
    asleep = Owner(declared, store, "first")
    asleep.commit({"user": "a", "amount": 1})
    owner = Owner(declared, store, "second")
    owner.commit({"user": "b", "amount": 1, "id": "x"})
    owner.shard.compact()
    with pytest.raises(NotOwner):
        asleep.shard.compact()
    assert sorted(Owner(declared, store, "third").shard.windows.keys()) == ["a", "b"]


def wipe(store: PageStore, prefix: str) -> None:
    store.delete_records(list(store.keys(prefix)))


def test_events_are_committed_between_the_parts_of_a_merge(
    store: PageStore, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "LOCAL_PAGE", 64)
    monkeypatch.setattr(keyed, "INLINE_BYTES", 0)
    monkeypatch.setattr(lsm, "pages_at_once", lambda _: 1)
    random, ledger, declared = Random(5), Ledger(), declare()
    create(declared, store)
    owner, calls = Owner(declared, store, "0"), [0]

    def add() -> None:
        rows = [{"user": f"u{random.randrange(9)}", "amount": random.choice([1, 60])}] * 2
        for row, outcome in zip(rows, owner.commit(*rows), strict=True):
            check(ledger, str(row["user"]), outcome, int(str(row["amount"])))

    def between() -> None:
        add()
        calls[0] += 1
        if calls[0] % 5 == 0:
            raise StoreUnavailable("as if killed")

    for turn in range(1, 30):
        for _ in range(3):
            add()
        try:
            owner.shard.merge(between)
            owner = compacted(owner, declared, store)
        except StoreUnavailable:
            owner = Owner(declared, store, str(turn))
    assert calls[0] > 20
    owner = Owner(declared, store, "last")
    for key, events in ledger.events.items():
        assert owner.shard.windows.query(key)["day"]["requests"] == len(events)
    add()


def test_an_emptied_store_admits_nothing(tmp_path: Path, declare: Declare) -> None:
    with open_store(f"file://{tmp_path / 'pages'}") as store:
        declared = declare()
        create(declared, store)
        owner = Owner(declared, store, "first")
        owner.commit({"user": "a", "amount": 1})
        wipe(store, "")
        with pytest.raises(NotCreated, match="emptied"):
            owner.commit({"user": "a", "amount": 1})
        with pytest.raises(NotCreated, match="--create"):
            Owner(declared, store, "second")


def test_a_store_that_lost_its_newest_writes_admits_nothing(declare: Declare) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    owner = Owner(declared, store, "first")
    for _ in range(3):
        owner.commit({"user": "a", "amount": 1})
    log = owner.shard.log
    store.delete_records([log.key("log", log.next - 1)])
    with pytest.raises(LostRecords, match="acknowledged"):
        owner.commit({"user": "a", "amount": 1})
    owner = Owner(declared, store, "second")
    for _ in range(3):
        owner.commit({"user": "a", "amount": 1})
    store.delete_records([owner.shard.log.key("log", owner.shard.log.next - 2)])
    with pytest.raises(LostRecords, match="later ones are there"):
        Owner(declared, store, "third")


@pytest.mark.parametrize("kind", ["log", "state", "ids"])
def test_damaged_records_are_named(declare: Declare, kind: str) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    owner = Owner(declared, store, "first")
    owner.commit({"user": "a", "amount": 1, "id": "x"})
    owner.shard.compact()
    owner.commit({"user": "a", "amount": 1})
    (key,) = list(store.keys(f"service:{declared.name}/{kind}/"))[-1:]
    (data,) = store.get_records([key])
    assert data is not None
    for at in range(0, len(data), 7):
        store.put_many({key: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]})
        if kind == "ids":
            break  # digests have no digest: another one is an id that nobody has
        with pytest.raises(CorruptSnapshot):
            Owner(declared, store, "second")
    store.put_many({key: data[:-1]})
    with pytest.raises(CorruptSnapshot):
        Owner(declared, store, "second")
    store.delete_records([key])
    if kind != "log":
        with pytest.raises(LostRecords):
            Owner(declared, store, "second")


def test_windows_that_were_declared_otherwise_are_refused_by_name(declare: Declare) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    other = declare(settings='time = "ts"', name=declared.name)
    with pytest.raises(OtherWindows, match=declared.name):
        Owner(other, store, "first")


def test_retries_are_recognized_for_as_long_as_declared(declare: Declare, clock: Clock) -> None:
    store = MemoryStore()
    declared = declare(settings='retry_for = "1 minute"\nsnapshot_every = "10 seconds"')
    create(declared, store)
    owner = Owner(declared, store, "first")
    row = {"user": "a", "amount": 1, "id": "x"}
    (first,) = owner.commit(row)
    sizes = []
    for turn in range(12):
        clock.now += 10 * SECOND
        owner.shard.compact()
        if turn < 6:
            assert owner.commit(row) == [first]
        owner.commit({"user": f"user {turn}", "amount": 1, "id": str(turn)})
        owner = Owner(declared, store, str(turn))
        sizes.append(len(owner.shard._retries))
    assert max(sizes) <= 10
    assert sizes[-1] <= 9
    assert len(list(store.keys(f"service:{declared.name}/answers/"))) <= 9
    clock.now += 60 * SECOND
    assert owner.commit(row)[0] != first  # it may be counted again


def test_an_id_belongs_to_a_key_and_a_time(declare: Declare) -> None:
    store, declared = MemoryStore(), declare(settings='time = "ts"')
    create(declared, store)
    owner = Owner(declared, store, "first")
    rows: list[dict[str, Any]] = [
        {"user": "a", "amount": 1, "ts": 5, "id": "x"},
        {"user": "b", "amount": 1, "ts": 5, "id": "x"},
        {"user": "a", "amount": 1, "ts": 6, "id": "x"},
        {"user": "a", "amount": 9, "ts": 6, "id": "x"},
        {"user": "a", "amount": 1, "ts": 5, "id": "x"},
    ]
    found = [body(each)["values"]["requests_day"] for each in owner.commit(*rows)]
    assert found == [1, 1, 2, 2, 1]
    (late,) = owner.commit({"user": "a", "amount": 1, "ts": 4})
    assert late.status == 422
    assert body(late)["name"] == "LateEvent"
    (ahead,) = owner.commit({"user": "a", "amount": 1, "ts": "2999-01-01"})
    assert body(ahead)["name"] == "AheadEvent"


def test_an_event_too_large_for_a_sum_is_refused_alone(declare: Declare) -> None:
    store, declared = MemoryStore(), declare(limits="")
    create(declared, store)
    owner = Owner(declared, store, "first")
    large = {"user": "a", "amount": 2**62}
    rows = [large, {"user": "b", "amount": 1}, large, {"user": "a", "amount": 2}] * 2
    names = [body(each).get("name") for each in owner.commit(*rows)]
    too_large = "ResultOutOfRange"
    assert names == [None, None, too_large, None, too_large, None, too_large, None]
    (again,) = Owner(declared, store, "second").commit({"user": "a", "amount": 1})
    assert body(again)["values"]["spent_day"] == 2**62 + 5


def test_the_moment_of_a_refused_amount_is_not_given_for_a_slightly_larger_one(
    declare: Declare,
) -> None:
    """The first fits when one of two earlier events has left; the other, only when both have."""
    limits = '[limits]\ndaily = { aggregate = "spent_day", at_most = 10 }\n'
    store, declared = MemoryStore(), declare(values="float", limits=limits, settings='time = "ts"')
    create(declared, store)
    amounts = [(3.0, "00:00"), (3.0, "01:00"), (7.0, "02:00"), (7.000000001, "02:00")]
    rows = [{"user": "a", "amount": n, "ts": f"2024-05-01T{at}:00Z"} for n, at in amounts]
    found = [body(each).get("fits_at") for each in Owner(declared, store, "first").commit(*rows)]
    assert found == [None, None, "2024-05-02T00:00:00Z", None]


def test_what_is_checked_is_not_added(declare: Declare) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    owner = Owner(declared, store, "first")
    for _ in range(3):
        rows = owner.read(*[{"user": "a", "amount": 60}] * 2)
        found = owner.shard.commit(rows, add=False)
        assert [each.status for each in found if each is not None] == [200, 409]
    assert len(owner.shard.windows) == 0


def test_the_log_and_the_states_are_deleted(declare: Declare) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    sizes = []
    for turn in range(12):
        owner = Owner(declared, store, str(turn))
        for n in range(20):
            owner.commit({"user": f"u{turn} {n}", "amount": 1})
            if n % 5 == 4:
                owner.shard.compact()
        sizes.append(len(list(store.keys(f"service:{declared.name}/"))))
    assert sizes[-1] - sizes[5] <= 2 * 6  # a fence for each owner, and the record before it


def test_a_shard_that_was_created_keeps_its_events(declare: Declare) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    owner = Owner(declared, store, "first")
    owner.commit({"user": "a", "amount": 1})
    assert not ShardLog(store, declared.name, 0).create(declared.fingerprint)
    assert Owner(declared, store, "second").shard.windows.query("a")["day"]["spent"] == 1


def test_old_events_are_exact_or_refused(declare: Declare, clock: Clock) -> None:
    """Each key is sent with its history, one after the other, while the state is compacted."""
    store, declared, ledger = MemoryStore(), declare(settings='time = "ts"'), Ledger()
    create(declared, store)
    owner, refused, newest = Owner(declared, store, "first"), 0, -1e9
    for turn, start in enumerate((-9e8, 1e9, 1e9 - 80_000, 1e9 + 86_400, 1e9 - 200_000, 1.6e9)):
        for step in range(8):
            key, at = f"user {turn}", start + step * 20_000
            (found,) = owner.commit({"user": key, "amount": 40, "ts": at})
            if found.status == 422:
                assert body(found)["name"] == "LateEvent"
                assert at <= newest - 86_400 - 3_600
                refused += 1
            else:
                check(ledger, key, found, 40)
                newest = max(newest, at)
            owner.shard.compact()
            if step % 3 == 0:
                owner = Owner(declared, store, f"{turn} {step}")
    assert refused > 5
    assert sorted(owner.shard.windows.keys()) == ["user 5"]


def test_idle_keys_are_deleted(declare: Declare, clock: Clock) -> None:
    store, declared = MemoryStore(), declare()
    create(declared, store)
    owner = Owner(declared, store, "first")
    owner.commit({"user": "a", "amount": 1})
    owner.shard.compact()
    clock.now += 2 * 86_400 * SECOND
    owner.commit({"user": "b", "amount": 1})
    owner.shard.compact()
    assert sorted(owner.shard.windows.keys()) == ["b"]
    assert isinstance(declared, Declaration)
    assert issubclass(NotOwner, WindowStoreError)
