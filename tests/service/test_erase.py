"""Erased keys of a service: nothing of them is left in the store, and nothing else changes."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mta import AsyncClient, Client, RequestRefused, open_published
from mta.errors import StoreUnavailable
from mta.service.declaration import RETAIN, Declaration, read_declaration
from mta.service.log import NotOwner
from mta.service.rows import Rows
from stores import MemoryStore, PageStore, open_store
from stores.testing.faults import FaultyStore
from tests.keyed.test_erase import SECRET, files, left_of, pages_in
from tests.service.conftest import DECLARED
from tests.service.test_service import WRITE_TOKEN
from tests.support.patience import LONG
from tests.support.services import Owner, body, create
from tests.support.serving import TOKEN, Answer

PEOPLE = [f"person-{number:03}" for number in range(30)]
GONE = PEOPLE[3:6]


def written(folder: Path, store: str, settings: str = "", shards: int = 1) -> Path:
    text = DECLARED.replace("NAME", f"e{uuid4().hex[:8]}").replace("STORE", store)
    text = text.replace("SETTINGS", settings).replace("SHARDS", str(shards))
    text = text.replace('amount = "int"', 'amount = "float", note = "text"')
    text = text.replace("requests =", 'said = ["note", "last"]\nrequests =')
    text = text.replace("at_most = 6 ", "at_most = 600 ")
    path = folder / f"{uuid4().hex[:6]}.toml"
    path.write_text(text)
    return path


@pytest.fixture(params=["memory", "file", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[PageStore, Any]]:
    """A store, and a function that returns all bytes that it holds of a name."""
    if request.param == "memory":
        memory = MemoryStore()
        yield memory, lambda _: pages_in(memory)
    elif request.param == "file":
        with open_store(f"file://{tmp_path / 'pages'}?map_size=1GiB") as disk:
            yield disk, lambda _: files(tmp_path / "pages")
    else:
        import redis

        url = request.getfixturevalue("redis_url")
        client = redis.Redis.from_url(url.partition("?")[0])
        with open_store(url) as remote:
            yield (
                remote,
                lambda name: b"".join(
                    key + (client.get(key) or b"") for key in client.scan_iter(match=f"*{name}*")
                ),
            )


class People:
    """Events of some people in a shard, which are also in plain lists."""

    def __init__(self, declared: Declaration, store: PageStore) -> None:
        self.declared, self.store, self.number = declared, store, 0
        self.lists: defaultdict[str, list[str]] = defaultdict(list)
        self.answers: dict[str, tuple[dict[str, Any], Any]] = {}
        self.owner = Owner(declared, store, "first")

    def add(self, some: list[str]) -> None:
        for person in some:
            self.number += 1
            secret = person in GONE
            note = f"told-{person}" if secret else f"note {self.number}"
            row = {"user": person, "amount": SECRET if secret else 0.0, "note": note,
                   "id": f"id {self.number}"}  # fmt: skip
            (outcome,) = self.owner.commit(row)
            self.lists[person].append(note)
            assert body(outcome)["values"]["requests_day"] == len(self.lists[person])
            self.answers[person] = row, outcome

    def erase(self, keys: list[str]) -> None:
        self.owner.shard.erase(Rows.of_keys([*keys]))
        for key in keys:
            self.lists.pop(key, None)

    def assert_right(self) -> None:
        windows = self.owner.shard.windows
        assert sorted(windows.keys()) == sorted(self.lists)
        windows.check()
        for person, notes in self.lists.items():
            found = windows.query(person)["day"]
            assert (found["said"], found["requests"]) == (notes[-1], len(notes))
            row, outcome = self.answers[person]
            assert self.owner.commit(row) == [outcome], "retries get the first answer"


@pytest.mark.parametrize("takeover", [False, True])
def test_nothing_of_a_key_is_left_in_the_store(
    place: tuple[PageStore, Any], tmp_path: Path, takeover: bool
) -> None:
    store, raw = place
    declared = read_declaration(written(tmp_path, "memory://"))
    create(declared, store)
    people = People(declared, store)
    for turn in range(3):
        people.add([*PEOPLE, *GONE])
        people.owner.shard.compact()
        people.add(GONE[::-1])
        if takeover:  # the last record of the log is of an earlier owner
            people.owner.shard.compact()
            people.owner = Owner(declared, store, f"owner {turn}")
    assert len(left_of(GONE, raw(declared.name))) == 3 * len(GONE), "the search finds what there is"
    people.erase([*GONE, GONE[0], "nobody"])
    people.assert_right()
    records = b"".join(
        data or b"" for data in store.get_records(list(store.keys(f"service:{declared.name}/")))
    )
    assert not left_of(GONE, records), "the log, the state and the answers have nothing at once"
    for turn in range(RETAIN):
        assert people.owner.shard.needs_compaction
        if takeover and turn == 2:
            people.owner = Owner(declared, store, "another")
        people.owner.shard.compact()
    assert not people.owner.shard.needs_compaction
    assert not left_of(GONE, raw(declared.name))
    row, first = people.answers[GONE[0]]
    (again,) = people.owner.commit(row)  # an erased key begins again, also with a known id
    assert body(again)["values"]["requests_day"] == 1 < body(first)["values"]["requests_day"]


@pytest.mark.parametrize("applied", [False, True])
def test_a_kill_at_any_call_leaves_it_done_or_not_done(tmp_path: Path, applied: bool) -> None:
    number, fired, found = 0, True, set[bool]()
    declared = read_declaration(written(tmp_path, "memory://"))
    while fired:
        number += 1
        store = FaultyStore(MemoryStore())
        create(declared, store)
        people = People(declared, store)
        for _ in range(2):
            people.add([*PEOPLE[:8], *GONE])
            people.owner.shard.compact()
        people.add(PEOPLE[:6])
        store.fail(number, applied=applied)
        try:
            people.owner.shard.erase(Rows.of_keys([*GONE]))
            people.owner.shard.compact()
        except (StoreUnavailable, NotOwner):
            fired = True
        else:
            fired = store.fired > 0
        store.start_over()
        people.owner = Owner(declared, store, "second")
        windows = people.owner.shard.windows
        left = {key in windows for key in GONE}
        assert len(left) == 1, "all keys of a request are erased, or none"
        found |= left
        if left == {True}:
            people.assert_right()
        people.erase(GONE)
        people.assert_right()
        keys = list(store.keys(f"service:{declared.name}/"))
        assert not left_of(GONE, b"".join(data or b"" for data in store.get_records(keys)))
        people.add(GONE)
        people.assert_right()
    assert found == {False, True}
    assert number > 5


def test_the_log_that_a_killed_owner_did_not_delete_is_deleted(tmp_path: Path) -> None:
    """The deletion after a new state, and a new owner's repetition of it, fail."""
    store = FaultyStore(MemoryStore())
    declared = read_declaration(written(tmp_path, "memory://"))
    create(declared, store)
    people = People(declared, store)
    people.add([*PEOPLE, *GONE])
    people.owner.shard.compact()
    people.add(GONE)
    store.fail(operations=("delete",))
    with pytest.raises(StoreUnavailable):
        people.erase(GONE)
    assert people.owner.shard.is_erasing, "the new state was named before"
    store.fail(operations=("delete",))
    with pytest.raises(StoreUnavailable):
        Owner(declared, store, "second")
    assert left_of(GONE, pages_in(store))
    people.owner = Owner(declared, store, "third")
    for key in GONE:
        people.lists.pop(key, None)
    people.assert_right()
    keys = list(store.keys(f"service:{declared.name}/"))
    assert not left_of(GONE, b"".join(data or b"" for data in store.get_records(keys)))


def test_erase_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx", reason="NOT TESTED: mta.Client: pip install '.[client]'")
    from asyncio import run

    from tests.support.services import Serving

    monkeypatch.setenv("MTA_SERVE_WRITE_TOKEN", WRITE_TOKEN)
    pages = f"file://{tmp_path / 'pages'}?map_size=1GiB"
    path = written(tmp_path, pages, 'snapshot_every = "100 ms"', shards=3)
    writer = {"authorization": f"Bearer {WRITE_TOKEN}"}
    with (
        Serving(path, create=True, token=TOKEN) as service,
        Serving(path, token=TOKEN) as other,
        Client(other.url, token=WRITE_TOKEN) as client,
    ):
        service.wait_until_all_shards_are_owned()
        rows = [
            {"user": key, "amount": SECRET if key in GONE else 1.0, "note": f"told-{key}"}
            for key in PEOPLE
        ]
        assert all(each.accepted for each in client.add(rows))
        erase: dict[str, Any] = {"keys": GONE}
        assert service.post(erase, "/v1/erase").problem == "Unauthorized"
        for wrong, name in (
            ({}, "InvalidRequest"), ({"keys": []}, "InvalidRequest"),
            ({"keys": GONE, "at": 3}, "InvalidRequest"), ({"keys": [7]}, "UnsuitableKey"),
            ({"keys": ["a"] * 20_000}, "TooManyKeys"),
        ):  # fmt: skip
            assert service.post(wrong, "/v1/erase", **writer).problem == name
        with pytest.raises(RequestRefused, match="UnsuitableKey"):
            client.erase(7)
        done: Answer = service.post(erase, "/v1/erase", **writer)
        assert (done.status, done.json) == (200, {"erased": len(GONE)})
        client.erase([GONE[0], "nobody"])
        client.erase([])

        async def again() -> None:
            async with AsyncClient(service.url, token=WRITE_TOKEN) as each:
                await each.erase(GONE[1])

        run(again())
        wanted = [0 if key in GONE else 1 for key in PEOPLE]
        deadline = time.monotonic() + LONG
        with open_published(pages, read_declaration(path).name, refresh="10 ms") as reader:
            published: list[int] = []
            while published != wanted:  # each shard publishes its state when it is compacted
                assert time.monotonic() < deadline, published
                requests = reader.query(PEOPLE)["requests_day"]
                published = [0 if each != each else int(each) for each in requests]
        other.stop()
        while left_of(GONE, files(tmp_path / "pages")):
            assert time.monotonic() < deadline, left_of(GONE, files(tmp_path / "pages"))
            time.sleep(0.2)
        assert json.loads(service.post(rows[3], "/v1/events", **writer).body)["values"][
            "requests_day"
        ] == 1  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ('{ user = "int" }', [{"user": 7}, {"user": 8}]),
        ('{ user = "date" }', [{"user": "2026-01-31"}, {"user": "2026-02-01"}]),
        ('{ user = "text", at = "int" }', [{"user": "a", "at": 1}, {"user": "a", "at": 2}]),
    ],
)
def test_keys_of_all_types(tmp_path: Path, keys: str, rows: list[dict[str, Any]]) -> None:
    path = written(tmp_path, "memory://")
    path.write_text(path.read_text().replace('{ user = "text" }', keys))
    declared, store = read_declaration(path), MemoryStore()
    create(declared, store)
    owner = Owner(declared, store, "first")
    events = [{**row, "amount": 1.0, "note": "", "id": "x"} for row in rows]
    for turn in range(3):
        before = owner.commit(*events)
        assert [body(each)["values"]["requests_day"] for each in before] == [1, 1]
        if turn:
            owner.shard.compact()
            owner = Owner(declared, store, f"owner {turn}")
        gone = owner.read(events[0], events[0]).keys
        owner.shard.erase(Rows.of_keys(gone))
        assert len(owner.shard.windows) == 1
        again = owner.commit(*events)
        assert again[1] == before[1]
        assert body(again[0])["values"]["requests_day"] == 1
        owner.shard.erase(Rows.of_keys(owner.read(*events).keys))
        assert len(owner.shard.windows) == 0
