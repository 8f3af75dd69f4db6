"""The step without Spark: against the oracle, in any order and at once; and its state."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import xxhash

from mta import CountWindow, First, Product, SessionWindow, Sum, TimeWindow
from mta.audit.keyed import OpaqueKeys
from mta.errors import InvalidTime, InvalidValue, LateEvent, MissingPage
from spark_integration.errors import CorruptState, StateMismatch
from spark_integration.plan import Plan
from spark_integration.runners import workers
from spark_integration.step.states import State
from spark_integration.step.step import Advanced, step
from stores import PageStore, open_store
from stores.memory import MemoryStore
from tests.support import forgeries
from tests.support.naive import pages_of
from tests.support.oracle import open_files
from tests.support.spark.events import (
    Fold,
    in_form,
    last_n,
    last_seconds,
    make_events,
    oracle,
    shuffled,
    spread,
)
from tests.support.spark.states import check_places, make_plan, snapshot_in


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def advance(events: pa.Table, plan: Plan, store: PageStore, batches: int) -> list[Advanced]:
    size = -(-events.num_rows // batches)
    state, done = None, []
    for i in range(batches):
        done.append(step(state, shuffled(events.slice(i * size, size), i), plan, store))
        state = done[-1].state
    return done


def gather(done: list[Advanced]) -> list[tuple[Any, ...]]:
    return in_form(pa.concat_tables(one.rows for one in done), "peak", "sum")


FOLDS: list[Fold] = [max, sum]


@pytest.mark.parametrize("keys", [1, 7, 300])
@pytest.mark.parametrize("batches", [1, 5])
@pytest.mark.parametrize(
    ("frame", "expired"),
    [(CountWindow(100), last_n(100)), (TimeWindow("10 minutes"), last_seconds(600))],
)
def test_equals_the_oracle(
    keys: int, batches: int, frame: Any, expired: Any, store: MemoryStore
) -> None:
    # Equal times must not be cut by a batch, or their order is not the oracle's.
    events = spread(make_events(2000, keys))
    done = advance(events, make_plan(window=frame), store, batches)
    assert gather(done) == oracle(events, expired, FOLDS)
    assert all(one.counts.rows_dropped == 0 for one in done)


def test_equal_times_come_in_the_order_of_their_values(store: MemoryStore) -> None:
    events = make_events(1000, 3)
    assert gather(advance(events, make_plan(), store, 1)) == oracle(events, last_n(100), FOLDS)


def test_no_rows_change_nothing(store: MemoryStore) -> None:
    events, plan = make_events(100, 5), make_plan()
    state = step(None, events, plan, store).state
    done = step(state, events.slice(0, 0), plan, store)
    assert done.state == state
    assert done.rows.num_rows == 0
    assert done.rows.column_names == [*events.column_names, "peak", "sum"]


@pytest.mark.parametrize("frame", [CountWindow(1500), TimeWindow("1500 seconds")])
def test_a_large_window_goes_on_by_itself(frame: Any, store: MemoryStore) -> None:
    """From 1024 events on its pages are its own, and a replay changes nothing."""
    plan = make_plan(window=frame)
    events = spread(make_events(3000, 1))
    few = events.take(pa.array(range(0, 3000, 100)))
    few = few.set_column(0, "device", pa.array(["d9"] * 30))
    events = pa.concat_tables([events, few]).sort_by("ts")
    done = advance(events, plan, store, 6)
    expected = last_n(1500) if isinstance(frame, CountWindow) else last_seconds(1500)
    assert gather(done) == oracle(events, expected, FOLDS)
    keyed = OpaqueKeys(snapshot_in(done[-1].state), store)
    counts = keyed.snapshot.counts
    assert (counts.keys, counts.standalone) == (2, 1)
    pages = set(store.keys())
    assert any(":" in key for key in pages)  # of a window with a name of its own
    assert keyed.audit().damaged == []
    assert set(keyed.live_keys()) <= pages
    assert step(done[-2].state, events.slice(2525), plan, store).state == done[-1].state
    assert set(store.keys()) == pages


def late_rows(events: pa.Table) -> pa.Table:
    return pa.concat_tables([events.slice(10, 2), events.slice(100)])


def test_a_late_event_stops_the_batch_and_names_the_key(store: MemoryStore) -> None:
    events, plan = spread(make_events(200, 1)), make_plan()
    state = step(None, events.slice(0, 100), plan, store).state
    with pytest.raises(LateEvent, match="key 'd0'"):
        step(state, late_rows(events), plan, store)
    # The old state still stands.
    done = step(state, events.slice(100), plan, store)
    assert in_form(done.rows, "peak", "sum") == oracle(events, last_n(100), FOLDS)[100:]


@pytest.mark.parametrize("emit", ["all", "last"])
def test_late_events_are_dropped_and_counted(emit: str, store: MemoryStore) -> None:
    events, plan = spread(make_events(200, 1)), make_plan(on_late="drop", emit=emit)
    state = step(None, events.slice(0, 100), plan, store).state
    done = step(state, late_rows(events), plan, store)
    assert done.counts.rows_dropped == 2
    expected = oracle(events, last_n(100), FOLDS)[100:]
    assert in_form(done.rows, "peak", "sum") == (expected if emit == "all" else expected[-1:])


def with_watts(events: pa.Table, watts: Sequence[float | None]) -> pa.Table:
    return events.set_column(events.column_names.index("watts"), "watts", [watts])


def test_another_plan_is_named(store: MemoryStore) -> None:
    events = make_events(10, 2)
    state = step(None, events, make_plan(), store).state
    for change in (
        {"buckets": 2},
        {"on": "other"},
        {"key_types": ("int",)},
        {"allowed_lateness": 0},
    ):
        with pytest.raises(StateMismatch):
            step(state, events, make_plan(**change), store)
    later = make_events(20, 2).slice(10)
    for change in ({"window": CountWindow(99)}, {"arity": 8}):
        assert step(state, later, make_plan(**change), store).rows.num_rows == 10


def test_a_temporary_plan_leaves_no_pages(store: MemoryStore) -> None:
    events = spread(make_events(2000, 3))
    done = step(None, events, make_plan(temporary=True), store)
    assert in_form(done.rows, "peak", "sum") == oracle(events, last_n(100), FOLDS)
    assert done.state == b""
    assert list(store.keys()) == []
    with pytest.raises(InvalidValue):
        step(
            None,
            with_watts(events, [1.0] * 1999 + [float("nan")]),
            make_plan(temporary=True),
            store,
        )
    assert list(store.keys()) == []


def readings(*rows: tuple[int, float], numbers: bool = False) -> pa.Table:
    """Readings of one device: their times as seconds, or as numbers in a column of these."""
    times = pa.array([time if numbers else time * 1_000_000 for time, _ in rows], pa.int64())
    columns = {
        "device": pa.array(["a"] * len(rows)),
        "ts": times if numbers else times.cast(pa.timestamp("us", "UTC")),
        "watts": pa.array([watts for _, watts in rows]),
    }
    return pa.table(columns)


def sums_of(plan: Plan, store: PageStore, *batches: pa.Table) -> list[list[float]]:
    """The sums of each micro-batch, with a restart after each."""
    state, found = None, []
    for rows in batches:
        done = step(state, rows, plan, store)
        state = done.state
        found.append(done.rows.column("sum").to_pylist())
    return found


def test_a_late_row_merges_the_sessions_of_earlier_micro_batches(store: MemoryStore) -> None:
    plan = make_plan(window=SessionWindow("2s"), allowed_lateness=10)
    batches = [readings((second, 1.0)) for second in (1, 3, 2, 4)]
    assert sums_of(plan, store, *batches) == [[1], [1], [2], [4]]
    together = step(None, pa.concat_tables(batches), make_plan(window=SessionWindow("2s")), store)
    assert together.rows.column("sum").to_pylist()[-1] == 4


def test_rows_of_one_time_count_in_the_order_of_their_micro_batches(store: MemoryStore) -> None:
    """In a micro-batch by their values, which is all that Spark says of their order."""
    plan = make_plan(
        monoid=Product({"sum": ("watts", Sum()), "first": ("watts", First())}),
        results={"sum": pa.float64(), "first": pa.float64()},
        allowed_lateness=10,
        emit_updates=True,
    )
    assert sums_of(plan, store, readings((1, 5.0)), readings((1, 4.0))) == [[5], [9]]
    assert sums_of(plan, store, readings((1, 5.0), (1, 4.0))) == [[4, 9]]


@pytest.mark.parametrize(("unit", "ticks"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_a_column_of_numbers_counts_its_stated_unit(
    store: MemoryStore, unit: Any, ticks: int
) -> None:
    """Rows given again have their times in it too."""
    times = [(1_700_000_000 + 60 * at) * ticks for at in (0, 1, 3, 2)]
    batches = [readings((time, 1.0), numbers=True) for time in times]
    settings: dict[str, Any] = {
        "window": TimeWindow("2m"),
        "allowed_lateness": 120,
        "emit_updates": True,
        "schema": batches[0].schema,
    }
    plan, state, last = make_plan(time_unit=unit, **settings), None, {}
    for rows in batches:
        done = step(state, rows, plan, store)
        state = done.state
        last |= dict(
            zip(
                done.rows.column("ts").to_pylist(), done.rows.column("sum").to_pylist(), strict=True
            )
        )
    assert last == dict(zip(times, [1, 2, 2, 2], strict=True))
    with pytest.raises(InvalidTime, match=f"time_unit='{unit}'"):
        step(None, batches[0], make_plan(**settings), store)


WINDOW, ARITY = 200, 4
PLAN = make_plan(window=CountWindow(WINDOW), arity=ARITY, leaf_arity=ARITY)


@pytest.mark.parametrize("attempts", [2, 4])
def test_attempts_of_one_batch_at_the_same_time_agree(tmp_path: Path, attempts: int) -> None:
    # Equal times among the events: only the canonical order makes the attempts agree.
    events = make_events(4000, 5)
    size, state, done = 400, None, []
    barrier = threading.Barrier(attempts)
    with open_store(tmp_path) as pages, ThreadPoolExecutor(attempts) as pool:

        def attempt(state: bytes | None, rows: pa.Table, seed: int) -> Advanced:
            barrier.wait()
            return step(state, shuffled(rows, seed), PLAN, pages)

        for at in range(0, events.num_rows, size):
            batch = events.slice(at, size)
            running = [pool.submit(attempt, state, batch, seed) for seed in range(attempts)]
            twins = [one.result() for one in running]
            for twin in twins[1:]:
                assert twin.state == twins[0].state
                assert gather([twin]) == gather(twins[:1])
            # Whichever attempt Spark commits.
            done.append(twins[at // size % attempts])
            state = done[-1].state
            count = check_places([snapshot_in(state)], pages, events.slice(0, at + size), WINDOW)
    assert count > 0
    assert sum(one.rows.num_rows for one in done) == events.num_rows


def test_a_late_twin_of_a_committed_batch_harms_nobody(tmp_path: Path) -> None:
    """A task that was given up runs on beside the batches after it.

    Here it fails for want of a page, or writes what the batches after it have not deleted.
    """
    events = spread(make_events(3000, 3))
    size, state, done = 150, None, []
    older: list[tuple[bytes | None, pa.Table]] = []
    with open_store(tmp_path) as pages:
        for at in range(0, events.num_rows, size):
            batch = events.slice(at, size)
            for age, (before, rows) in enumerate(reversed(older[-3:])):
                try:
                    again = step(before, shuffled(rows, at), PLAN, pages)
                    assert age > 0 or again.state == state
                except MissingPage:  # two batches late and more; its result would not be used
                    assert age > 0
            older.append((state, batch))
            done.append(step(state, batch, PLAN, pages))
            state = done[-1].state
        assert state is not None
        assert check_places([snapshot_in(state)], pages, events, WINDOW) > 0
    assert gather(done) == oracle(events, last_n(WINDOW), FOLDS)


def test_hundreds_of_batches_leave_nothing_behind(tmp_path: Path) -> None:
    batches, size, keys = 200, 50, 6
    events = spread(make_events(batches * size, keys))
    state, done, seen = None, [], []
    with open_store(tmp_path) as pages:
        for i in range(batches):
            done.append(step(state, events.slice(i * size, size), PLAN, pages))
            state = done[-1].state
            if i % 10 == 9:
                count = check_places(
                    [snapshot_in(state)], pages, events.slice(0, (i + 1) * size), WINDOW
                )
                disk = (tmp_path / "data.mdb").stat().st_size
                # A Java beside it, of other tests, is talked to when that likes.
                files = open_files(sockets=False)
                seen.append((threading.active_count(), files, disk, len(state), count))
    assert gather(done) == oracle(events, last_n(WINDOW), FOLDS)
    threads, files, disk, root, count = zip(*seen, strict=True)
    assert min(count) > 0 and min(files) > 0
    assert max(threads[10:]) <= max(threads[:10])
    assert max(files[10:]) <= max(files[:10])
    assert max(disk[10:]) <= max(disk[:10]) * 1.1
    assert max(root[10:]) <= max(root[:10]) * 1.1
    assert max(count[10:]) <= max(count[:10]) * 1.1


#: Of the pinned state, which is as of the first half of these events.
PINNED = make_plan(window=CountWindow(30))
HALVES = spread(make_events(1600, 12))


@pytest.mark.parametrize("size", [20, 100, 400])
def test_the_pinned_state_is_written_and_goes_on(size: int) -> None:
    """With its pages, byte for byte: change it only together with its version."""
    pinned, pages = msgpack.unpackb((Path(__file__).parent / "golden" / "state").read_bytes())
    store, again, written = MemoryStore(), MemoryStore(), None
    store.put_many(pages)
    for at in range(0, 800, 200):
        written = step(written, HALVES.slice(at, 200), PINNED, again).state
    assert written == pinned
    assert pages and pages_of(again) == pages_of(store)
    state, done = pinned, []
    for at in range(800, 1600, size):
        done.append(step(state, HALVES.slice(at, size), PINNED, store))
        assert step(state, HALVES.slice(at, size), PINNED, store).state == done[-1].state
        state = done[-1].state
    begin = HALVES.column("ts").cast(pa.int64())[800].as_py()
    assert gather(done) == [row for row in oracle(HALVES, last_n(30), FOLDS) if row[1] >= begin]
    assert check_places([snapshot_in(state)], store, HALVES, 30) > 0


def test_a_worker_keeps_few_stores_open(tmp_path: Path) -> None:
    urls = [f"file://{tmp_path}/{i}" for i in range(3 * workers.MOST)]
    with workers.store_of(urls[0]) as held:
        for url in urls[1:]:
            with workers.store_of(url) as store:
                store.put_many({"page": b"page"})
        held.put_many({"page": b"page"})  # a store in use stays open, however long ago it was taken
        held.flush()
        with workers.store_of(urls[0]) as same:
            assert same is held
    assert len(workers._open) == workers.MOST
    assert [*workers._open][-1] == (os.getpid(), urls[0])
    for url in urls[1:]:  # those that were closed had everything sent, and open again
        with workers.store_of(url) as store:
            assert store.get_many(["page"]) == [b"page"]
    assert len(workers._open) <= workers.MOST


FIXED = [("by", "device string")]
STATE = State(64, FIXED, b"snapshot" * 20)


def signed(body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(body) + body


def test_round_trip() -> None:
    assert State.decode(STATE.encode()) == STATE
    assert State.decode(STATE.encode()).snapshot_for(64, FIXED) == b"snapshot" * 20


def test_golden() -> None:
    """The format as it lies in checkpoints: change it only together with ``VERSION``."""
    state = State(2, [("a", "b")], b"r")
    assert state.encode().hex() == GOLDEN
    assert State.decode(bytes.fromhex(GOLDEN)) == state


GOLDEN = "da79238c0811433f95a96d74612d737061726b01029192a161a162c40172"


def test_every_truncation_and_every_flipped_bit_is_named() -> None:
    state = STATE.encode()
    for end in range(len(state)):
        with pytest.raises(CorruptState):
            State.decode(state[:end])
    for at in range(len(state) * 8):
        damaged = bytearray(state)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptState):
            State.decode(bytes(damaged))


@pytest.mark.parametrize(
    "content",
    [
        7,
        [],
        ["mta-spark"],
        ["mta-spark", "1", 64, FIXED, b"snapshot"],
        ["other", 1, 64, FIXED, b"snapshot"],
        ["mta-spark", 1, "64", FIXED, b"snapshot"],
        ["mta-spark", 1, 64, FIXED],
        ["mta-spark", 1, 64, FIXED, "snapshot"],
        ["mta-spark", 1, 64, FIXED, b"snapshot", 0],
        ["mta-spark", 1, 64, b"fixed", b"snapshot"],
        ["mta-spark", 1, 64, [["key"]], b"snapshot"],
        ["mta-spark", 1, 64, [["key", 1]], b"snapshot"],
    ],
)
def test_foreign_content_under_a_good_digest_is_named(content: object) -> None:
    with pytest.raises(CorruptState):
        State.decode(signed(msgpack.packb(content)))


def test_forged_states_are_named_or_states() -> None:
    """Any one thing changed under a good digest; the snapshot inside is not decoded here."""
    for body in forgeries.forged(msgpack.unpackb(STATE.encode()[8:])):
        data = forgeries.packed(body)
        if data is not None:
            error = forgeries.bare_error(lambda data=data: State.decode(signed(data)))
            assert error is None, data


def test_bytes_that_are_no_msgpack_are_named() -> None:
    with pytest.raises(CorruptState):
        State.decode(signed(b"\xc1"))
    with pytest.raises(CorruptState):
        State.decode(signed(b"\xdd\xff\xff\xff\xff"))  # a list of 2**32 - 1 items


def test_an_unknown_version_is_named() -> None:
    for version in (0, 2, 5):
        other = signed(msgpack.packb(["mta-spark", version, 64, FIXED, b"snapshot"]))
        with pytest.raises(StateMismatch, match=f"state format {version}, but .* knows only 1"):
            State.decode(other)


def test_other_settings_say_what_to_restore() -> None:
    with pytest.raises(StateMismatch, match="set buckets=64"):
        STATE.snapshot_for(32, FIXED)
    with pytest.raises(StateMismatch, match="restore its settings"):
        STATE.snapshot_for(64, [])
    with pytest.raises(StateMismatch, match=r"\* by \(PARTITION BY\) +device string +id bigint"):
        STATE.snapshot_for(64, [("by", "id bigint")])
