"""Whatever fails or dies between two store calls, readers see one checkpoint whole, or the next."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mta import CountWindow, KeyedWindows, SharedWindows, Sum, Window, open_published
from mta.errors import MissingPage, NotPublished, PublishConflict, StoreUnavailable
from mta.publishing.batches import BatchPublisher, PublishedPart
from mta.publishing.buckets import bucket_of
from mta.publishing.publisher import unpublish
from mta.publishing.records import what_of
from stores import MemoryStore, PageStore, open_store
from stores.testing import FaultyStore

STEPS, KEYS, SIZE = 4, 40, 3


class Killed(BaseException):
    """The process ends."""


def values(step: int) -> list[int]:
    return [step * 100 + key for key in range(KEYS)]


def total(key: int, steps: int) -> int:
    return sum(values(step)[key] for step in range(max(0, steps - SIZE), steps))


class Keyed:
    """Windows by key whose pages are merged and deleted with nearly every checkpoint."""

    def __init__(self, store: PageStore, snapshot: bytes | None) -> None:
        settings: dict[str, Any] = {"page_bytes": 64, "promote_at": 1 << 20}
        if snapshot is None:
            self.windows = KeyedWindows(Sum("int64"), CountWindow(SIZE), store, "k", **settings)
        else:
            self.windows = KeyedWindows.restore(snapshot, store, **settings)
        self.windows.publish("p")

    def step(self, step: int) -> None:
        self.windows.extend(range(KEYS), values(step), emit="last")

    @staticmethod
    def check(store: PageStore) -> int:
        """Compare all keys with the steps that the snapshot has; return how many these are."""
        with open_published(store, "p") as reader:
            steps, rest = divmod(reader.status().events, KEYS)
            assert not rest
            found = reader.query(list(range(KEYS))).tolist()
        assert found == [total(key, steps) for key in range(KEYS)]
        return steps


class Single:
    """One window, or several over shared events, with pages of few events."""

    shared = False

    def __init__(self, store: PageStore, snapshot: bytes | None) -> None:
        kind: Any = SharedWindows if self.shared else Window
        frame: Any = {"a": CountWindow(SIZE * KEYS)} if self.shared else CountWindow(SIZE * KEYS)
        if snapshot is None:
            self.windows = kind(Sum("int64"), frame, store, "w", arity=4, leaf_arity=16)
        else:
            self.windows = kind.restore(snapshot, store)
        self.windows.publish("p")

    def step(self, step: int) -> None:
        done = self.windows.structure().back - step * KEYS  # where a call failed amid the batch
        self.windows.extend(values(step)[done:], emit="last")

    @classmethod
    def check(cls, store: PageStore) -> int:
        with open_published(store, "p") as reader:
            steps = reader.status().events // KEYS
            found = reader.query()
        found = found["a"] if cls.shared else found
        assert found == sum(total(key, steps) for key in range(KEYS))
        return steps


class Shared(Single):
    shared = True


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", [Keyed, Single, Shared])
@pytest.mark.parametrize("applied", [False, True], ids=["not applied", "answer lost"])
def test_each_call_fails_once_and_what_is_published_stays_whole(
    kind: Any, applied: bool, part: int
) -> None:
    for nth in count(1 + part, 4):
        inner = MemoryStore()
        store = FaultyStore(inner)
        program = kind(store, None)
        store.fail(nth, applied=applied)
        published = 0
        for step in range(STEPS):
            for act in (lambda: program.step(step), lambda: program.windows.checkpoint()):  # noqa: B023
                try:
                    act()
                except StoreUnavailable:
                    if published:
                        assert kind.check(inner) in (published, step + 1)
                    act()
            published = kind.check(inner)
            assert published == step + 1
        if not store.fired:
            break
    assert nth > 3 * STEPS


@pytest.mark.parametrize("kind", [Keyed, Single, Shared])
def test_a_kill_at_each_call_leaves_a_whole_snapshot_and_restarts_publish_again(kind: Any) -> None:
    for nth in count(1):
        inner, saved, step, done = MemoryStore(), None, 0, False
        store = FaultyStore(inner)
        store.fail(nth, error=Killed)
        published = 0
        while not done:
            try:
                program = kind(store, saved)
                while step < STEPS:
                    program.step(step)
                    snapshot = program.windows.checkpoint()
                    saved, step = snapshot, step + 1
                    published = kind.check(inner)
                    assert published == step
                done = True
            except Killed:
                if published:
                    assert kind.check(inner) in (published, step + 1)
        if not store.fired:
            break
    assert nth > 3 * STEPS


@pytest.mark.parametrize("kind", [Keyed, Single, Shared])
@pytest.mark.parametrize("first", ["published before", "nothing published"])
def test_of_two_publishers_of_one_name_the_later_one_stays(kind: Any, first: str) -> None:
    """The other is stopped before it deletes a page; readers always have whole snapshots."""
    store = MemoryStore()
    one = kind(store, None)
    snapshot = None
    if first == "published before":
        one.step(0)
        snapshot = one.windows.checkpoint()
        assert kind.check(store) == 1
    other = kind(store, snapshot)
    start = 0 if snapshot is None else 1
    for step in range(start, start + 3):
        other.step(step)
        other.windows.checkpoint()
        assert kind.check(store) == step + 1
    for _ in range(3):
        # Of the same windows, the later writer may have deleted pages that the other one needs.
        with pytest.raises((PublishConflict, MissingPage)):
            one.step(start)
            one.windows.checkpoint()
        assert kind.check(store) == start + 3
    other.step(start + 3)
    other.windows.checkpoint()
    assert kind.check(store) == start + 4
    if snapshot is None:
        with pytest.raises(PublishConflict, match="another program too"):
            one.windows.checkpoint()


def published_total(store: PageStore) -> int:
    with open_published(store, "p", refresh=None) as reader:
        found: int = reader.query("a")
    return found


def test_two_publishers_at_once_leave_readers_whole_snapshots(tmp_path: Path) -> None:
    """Each is in a process of its own, and begins before anything is published."""
    url = f"file://{tmp_path}/pages"
    ends = []
    for name in ("one", "two"):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with open_store(url) as store:
                    windows = KeyedWindows(Sum("int64"), CountWindow(50), store, name)
                    windows.publish("p")
                    for _ in range(30):
                        windows.extend(["a"] * 10, [1] * 10)
                        windows.checkpoint()
                status = 0
            except (PublishConflict, ValueError):
                status = 7
            finally:
                os._exit(status)
        ends.append(child)
    with open_store(url, write_buffer=0) as store:
        seen = set()
        while ends:
            if os.waitpid(ends[0], os.WNOHANG)[0]:
                seen.add(ends.pop(0))
            # A reader may be overtaken by more snapshots than are retained.
            with suppress(NotPublished, MissingPage):
                assert published_total(store) in range(10, 51)
        assert published_total(store) in range(10, 51)
    assert len(seen) == 2


def test_publishing_that_fails_for_long_takes_no_page_from_readers() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner)
    program = Keyed(store, None)
    program.step(0)
    program.windows.checkpoint()
    reader = open_published(inner, "p", refresh=None)

    put = store.put_many

    def refuse(pages: Any) -> None:
        if any(key.endswith("/head") for key in pages):
            raise StoreUnavailable("no head is taken")
        put(pages)

    store.put_many = refuse  # type: ignore[method-assign]
    for step in range(1, 9):
        program.step(step)
        with pytest.raises(StoreUnavailable, match="no head"):
            program.windows.checkpoint()
        assert Keyed.check(inner) == 1 and reader.query(7) == total(7, 1)
    store.put_many = put  # type: ignore[method-assign]
    program.windows.checkpoint()
    assert Keyed.check(inner) == 9


COLUMNS = [("card", "bigint")]


def of_query(retain: int = 2, buckets: int = 3, start: str | None = None) -> BatchPublisher:
    what = replace(what_of("keys", Sum("int64"), {"": CountWindow(SIZE)}), keys=COLUMNS)
    return BatchPublisher("q", what, buckets, retain, start)


class Query:
    """A query of three buckets, whose tasks may be run again, and whose driver may be late."""

    def __init__(self, store: PageStore, source: str = "query") -> None:
        self.store, self.source = store, source
        self.bucket = bucket_of(COLUMNS, 3)
        self.states: dict[int, bytes] = {}
        self.lists: dict[int, list[int]] = {}

    def task(self, batch: int, rows: dict[int, int], bucket: int) -> bytes:
        """What a bucket's task does with its rows; its new state, which Spark may commit."""
        part = PublishedPart("q", 2, self.source, batch, bucket)
        store = part.guarded(self.store)
        settings: dict[str, Any] = {"page_bytes": 64}
        monoid, frame = Sum("int64"), CountWindow(SIZE)
        state = self.states.get(bucket)
        if state is None:
            windows = KeyedWindows(monoid, frame, store, f"{self.source}.{bucket}", **settings)
        else:
            windows = KeyedWindows.restore(state, store, **settings)
        windows.extend([*rows], list(rows.values()), emit="last")
        snapshot = windows.checkpoint()
        part.write(store, snapshot)
        store.flush()
        return snapshot

    def run(self, batch: int, rows: dict[int, int], commit: bool = True) -> None:
        """Run a batch; its states stay only if it is committed."""
        of: dict[int, dict[int, int]] = {}
        for key, value in rows.items():
            of.setdefault(self.bucket(key), {})[key] = value
        after = {bucket: self.task(batch, some, bucket) for bucket, some in of.items()}
        if commit:
            self.states |= after
            for key, value in rows.items():
                self.lists.setdefault(key, []).append(value)

    def expected(self) -> dict[int, int]:
        return {key: sum(of[-SIZE:]) for key, of in self.lists.items()}


def read_all(store: PageStore, keys: list[int]) -> list[int]:
    with open_published(store, "q") as reader:
        found: list[int] = reader.query(keys).tolist()
        return found


def test_batches_are_read_once_they_are_committed_whatever_ran_before() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(30))
    for batch in range(12):
        some = [key for key in keys if batch == 0 or key % 5 == batch % 5]
        rows = {key: 10 * batch + key for key in some}
        before = list(query.expected().values())
        query.run(batch, dict.fromkeys(some, -1), commit=False)  # an attempt that failed
        if batch:
            assert read_all(store, keys) == before
        query.run(batch, rows)
        publisher.committed(store, "query", batch)
        assert publisher.committed(store, "another", batch) is None
        assert read_all(store, keys) == [query.expected()[key] for key in keys]
    left = list(store.keys("publish:q/"))
    assert not [key for key in left if "/written/" in key]
    assert unpublish(store, "q") == len(left)


@pytest.mark.parametrize("late", [3, 40])
def test_a_driver_that_is_late_publishes_all_batches_since(late: int) -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(30))
    query.run(0, {key: key for key in keys})
    publisher.committed(store, "query", 0)
    first = query.expected()
    for batch in range(1, late):
        query.run(batch, dict.fromkeys(keys[batch % 7 :: 3], batch))
        # Its pages stay, though newer batches have written all of them again.
        assert read_all(store, keys) == [first[key] for key in keys]
    publisher.committed(store, "query", late - 1)
    assert read_all(store, keys) == [query.expected()[key] for key in keys]


def test_each_call_of_the_driver_fails_and_the_next_batch_makes_up_for_it() -> None:
    for nth in count(1):
        inner, publisher = MemoryStore(), of_query()
        store, query, keys = FaultyStore(inner), Query(inner), list(range(12))
        query.run(0, {key: key for key in keys})
        publisher.committed(inner, "query", 0)
        store.fail(nth)
        seen = query.expected()
        for batch in range(1, 5):
            query.run(batch, dict.fromkeys(keys[batch % 2 :: 2], batch))
            try:
                publisher.committed(store, "query", batch)
            except StoreUnavailable:
                assert read_all(inner, keys) in (
                    list(seen.values()),
                    list(query.expected().values()),
                )
                continue
            seen = query.expected()
            assert read_all(inner, keys) == [seen[key] for key in keys]
        if not store.fired:
            break
    assert nth > 8


def test_a_task_of_an_earlier_attempt_changes_nothing_that_is_published() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(12))
    query.run(0, {key: key for key in keys})
    publisher.committed(store, "query", 0)
    zombie = dict(query.states)
    query.run(1, dict.fromkeys(keys, 1))
    publisher.committed(store, "query", 1)
    now, query.states = query.states, zombie
    query.run(1, dict.fromkeys(keys, 99), commit=False)  # wakes up after the commit
    query.states = now
    assert read_all(store, keys) == [query.expected()[key] for key in keys]
    query.run(2, {keys[0]: 2})
    publisher.committed(store, "query", 2)
    assert read_all(store, keys) == [query.expected()[key] for key in keys]


def test_a_query_that_is_rolled_back_publishes_what_it_is_now() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(12))
    states, lists = {}, {}
    for batch in range(3):
        query.run(batch, dict.fromkeys(keys, batch))
        publisher.committed(store, "query", batch)
        states[batch], lists[batch] = dict(query.states), {k: [*v] for k, v in query.lists.items()}
    query.states, query.lists = states[1], lists[1]
    query.run(2, {keys[0]: 50})
    publisher.committed(store, "query", 2)
    assert read_all(store, keys) == [query.expected()[key] for key in keys]


def test_buckets_of_which_nothing_is_published_yet_are_named() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(12))
    query.run(0, {key: key for key in keys})
    for key in list(store.keys("publish:")):
        store.delete_many([key])  # as though it had not published then
    query.run(1, {keys[0]: 7})
    publisher.committed(store, "query", 1)
    with open_published(store, "q") as reader:
        assert reader.query(keys[0]) == 7 and reader.status().unpublished_buckets == 2
        other = next(k for k in keys if query.bucket(k) != query.bucket(0))
        with pytest.raises(NotPublished, match="has had no rows since"):
            reader.query(other)
