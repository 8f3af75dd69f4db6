"""Erased keys of a service: nothing of them is left in the store, and nothing else changes."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import choice, randrange, uniform
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from mta import open_published
from mta.cli import main
from mta.cli.snapshots import _gc_of_service
from mta.client import AsyncClient, Client, RequestRefused
from mta.errors import StoreUnavailable, WindowStoreError
from mta.pages import name_of
from mta.publishing.records import snapshot_key
from mta.service.declaration import RETAIN, Declaration, read_declaration
from mta.service.log import NotOwner
from mta.service.owners import create as create_windows
from mta.service.rows import Rows
from stores import MemoryStore, PageStore, open_store
from stores.testing.faults import FaultyStore
from tests.keyed.test_erase import tiny_tables
from tests.service.conftest import DECLARED
from tests.service.test_service import WRITE_TOKEN
from tests.support import erasure
from tests.support.erasure import SECRET, files, left_of, pages_in
from tests.support.patience import LONG
from tests.support.services import Owner, Serving, body, create
from tests.support.serving import TOKEN, Answer

__all__ = ["tiny_tables"]

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
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[PageStore, erasure.Raw]]:
    with erasure.place(request, tmp_path / "place") as (url, raw), open_store(url) as store:
        yield store, raw


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
    place: tuple[PageStore, erasure.Raw], tmp_path: Path, takeover: bool
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
    assert len(left_of(GONE, raw())) == 3 * len(GONE), "the search finds what there is"
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
    assert not left_of(GONE, raw())
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
        for turn in range(RETAIN):
            if turn == RETAIN - 1 and number % 2:  # the last two compactions delete what is left
                people.owner = Owner(declared, store, "third")
            people.owner.shard.compact()
        assert not left_of(GONE, pages_in(store))
        people.add(GONE)
        people.assert_right()
    assert found == {False, True}
    assert number > 5


@pytest.mark.usefixtures("tiny_tables")
@pytest.mark.parametrize("collects", [False, True])
def test_pages_of_a_killed_compaction_are_deleted(
    tmp_path: Path, collects: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the erasure of their keys, and by ``mta gc`` as far as no writer can be there."""
    number, fired, collected = 0, True, 0
    while fired:
        number += 1
        pages = open_store(f"memory://{uuid4().hex}")
        declared = read_declaration(written(tmp_path, pages.url))
        store = FaultyStore(pages)
        create(declared, store)
        people = People(declared, store)
        people.add([*PEOPLE[:8], *GONE])
        people.owner.shard.compact()
        people.add([*PEOPLE[:8], *GONE, *GONE])
        store.fail(number)
        try:
            people.owner.shard.compact()
        except (StoreUnavailable, NotOwner):
            fired = True
        else:
            fired = store.fired > 0
        store.start_over()
        people.owner = Owner(declared, store, "second")
        people.assert_right()
        people.add(PEOPLE[:8])
        people.owner.shard.compact()
        before = len([*pages.keys()])
        if collects:
            _gc_of_service(declared, delete=True, compact=True)
        collected += before - len([*pages.keys()])
        capsys.readouterr()
        people.assert_right()
        people.owner = Owner(declared, store, "third")
        people.assert_right()
        people.erase(GONE)
        for _ in range(RETAIN):
            people.owner.shard.compact()
        assert not left_of(GONE, pages_in(pages))
        people.assert_right()
    assert (collected > 0) == collects and number > 3


def test_published_snapshots_that_no_head_names_are_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As two processes leave them that publish at the same moment."""
    name = uuid4().hex
    pages = open_store(f"memory://{name}")
    path = written(tmp_path, f"memory://{name}")
    declared = read_declaration(path)
    create_windows(declared)
    people = People(declared, pages)
    people.add([*PEOPLE, *GONE])
    state = people.owner.shard.compact()
    left = snapshot_key(declared.name, 0, name_of(state + b"x"))
    pages.put_many({left: state})
    assert main(["gc", "--config", str(path), "--delete"]) == 0
    assert "unneeded  1 page" in capsys.readouterr().out
    assert left not in set(pages.keys())
    current = snapshot_key(declared.name, 0, name_of(state))
    pages.put_many({current: state})  # about to be named by the head
    assert main(["gc", "--config", str(path), "--delete"]) == 0
    assert current in set(pages.keys())
    people.assert_right()
    for wrong in (["gc"], ["gc", "--config", str(path), "--name", "x"],
                  ["gc", "--config", str(path), "--store", "memory://"],
                  ["gc", "--config", str(tmp_path / "none")]):  # fmt: skip
        assert main(wrong) == 2


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
    pytest.importorskip("httpx", reason="NOT TESTED: mta.client.Client: pip install '.[client]'")
    from asyncio import run

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


# --- processes ------------------------------------------------------------------------------------


class Sender:
    """Sends requests to one of several processes until they are answered."""

    def __init__(self, ports: list[int]) -> None:
        self.ports, self.retries = ports, 0

    def post(self, path: str, given: Any) -> Any:
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            connection = HTTPConnection("127.0.0.1", choice(self.ports), timeout=8)
            with suppress(OSError, HTTPException):
                headers = {"content-type": "application/json"}
                connection.request("POST", path, json.dumps(given), headers)
                answer = connection.getresponse()
                found = answer.read()
                if answer.status == 200:
                    return json.loads(found)
                assert answer.status in (408, 429, 503), found
            connection.close()
            self.retries += 1
            time.sleep(0.05)
        raise AssertionError("no answer")


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_processes_are_killed_while_they_erase(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kill(request, tmp_path, kind, kills=2)
    assert "deleted" in capsys.readouterr().out


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["file", "redis", "s3"])
def test_processes_are_killed_many_times_while_they_erase(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    kill(request, tmp_path, kind, kills=50)


def kill(request: pytest.FixtureRequest, folder: Path, kind: str, kills: int) -> None:
    url, raw = home_of(request, folder, kind)
    path = written(folder, url, 'snapshot_every = "100 ms"', shards=2)
    serving = [Serving(path, create=True), Serving(path)]
    sender, lists = Sender([each.port for each in serving]), defaultdict[str, list[str]](list)
    others = [key for key in PEOPLE if key not in GONE]
    number, killed = 0, 0
    try:
        serving[0].wait_until_all_shards_are_owned()
        for _ in range(kills):
            rows = []
            for person in [*others, *GONE]:
                number += 1
                secret = person in GONE
                note = f"told-{person}" if secret else f"note {number}"
                lists[person].append(note)
                rows.append({"user": person, "amount": SECRET if secret else 0.0, "note": note,
                             "id": f"id {number}"})  # fmt: skip
            sender.post("/v1/events", rows)
            erasing = Thread(target=sender.post, args=["/v1/erase", {"keys": GONE}])
            erasing.start()
            time.sleep(choice([0.0, uniform(0, 0.02), uniform(0, 0.5)]))
            which = randrange(2)
            serving[which].process.kill()
            killed += 1
            serving[which].stop()
            serving[which] = Serving(path)
            sender.ports[which] = serving[which].port
            erasing.join()
            rows = [{"user": key, "amount": 0.0, "note": "check"} for key in PEOPLE]
            for row, answer in zip(rows, sender.post("/v1/check", rows)["results"], strict=True):
                expected = 0 if row["user"] in GONE else len(lists[row["user"]])
                assert answer["values"]["requests_day"] == expected + 1, row
        assert killed == kills
        if kind != "file":  # whose folder both processes have open
            deadline = time.monotonic() + LONG
            while left := left_of(GONE, raw(read_declaration(path).name)):
                assert time.monotonic() < deadline, left
                time.sleep(0.2)
        time.sleep(0.1 * (RETAIN + 4))
    finally:
        for each in serving:
            each.stop()
    assert main(["gc", "--config", str(path), "--delete", "--compact"]) == 0
    assert not left_of(GONE, raw(read_declaration(path).name))
    with Serving(path) as again:
        sender = Sender([again.port])
        rows = [{"user": key, "amount": 0.0, "note": "check"} for key in PEOPLE]
        for row, answer in zip(rows, sender.post("/v1/check", rows)["results"], strict=True):
            expected = 0 if row["user"] in GONE else len(lists[row["user"]])
            assert answer["values"]["requests_day"] == expected + 1


def home_of(request: pytest.FixtureRequest, folder: Path, kind: str) -> tuple[str, Any]:
    """The address of a store, and a function that returns all bytes that it has of a name."""
    if kind == "file":
        return f"file://{folder / 'pages'}?map_size=1GiB", lambda _: files(folder / "pages")
    if kind == "redis":
        import redis

        url = request.getfixturevalue("redis_url")
        client = redis.Redis.from_url(url.partition("?")[0])
        return url, lambda name: b"".join(
            key + (client.get(key) or b"") for key in client.scan_iter(match=f"*{name}*")
        )
    from stores.address import parse
    from stores.object_store import ObjectBucket

    url = request.getfixturevalue("s3_server").url(uuid4().hex)
    bucket = ObjectBucket(parse(url))

    def objects(_: str) -> bytes:
        found = b""
        for name in [f"{f}/{n}" for f in bucket.folders() for n, _ in bucket.names(f, "")]:
            with suppress(WindowStoreError, FileNotFoundError):  # deleted since it was listed
                found += name.encode() + bucket.get(name)
        return found

    return url, objects
