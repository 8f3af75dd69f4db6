"""Idle keys: expired, their pages deleted, their last result out exactly once."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mta import CountWindow, Sum, TimeWindow, Window
from mta.audit import describe_snapshot
from mta.audit.walk import audit
from mta.errors import LateEvent
from mta.frames import BoundWindow
from spark_integration import sliding_aggregate
from spark_integration.step.step import step
from stores.errors import StoreUnavailable
from stores.memory import MemoryStore
from stores.testing import FaultyStore
from tests.support.faulty import Logged
from tests.support.sampling import REST, some
from tests.support.spark.events import SECOND, START, in_form, naive, rows_of
from tests.support.spark.idle_cases import SIZE, Stream, bursts, idle_plan, turns, windows_in
from tests.support.spark.jobs import IdleJob, of_rows
from tests.support.spark.states import keys_of, pending_of, snapshots_of

LONG = 100 * SIZE


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def page_keys(store: MemoryStore) -> list[str]:
    return sorted(store.keys())


def test_lifetimes() -> None:
    hour, day, few = TimeWindow("1 hour"), TimeWindow("1 day"), CountWindow(5)
    bound = BoundWindow(("watts", Sum()), at_most=5)
    assert (hour.lifetime, few.lifetime, bound.lifetime) == (3600 * SECOND, None, None)
    assert (hour | few).lifetime == (few | hour).lifetime == (hour | day).lifetime == hour.lifetime
    assert (hour & day).lifetime == day.lifetime
    assert (hour & few).lifetime is (few | bound).lifetime is None
    assert ((hour & day) | few).lifetime == day.lifetime


def test_a_window_is_empty_when_the_watermark_is_past_its_newest_event_by_its_length(
    store: MemoryStore,
) -> None:
    plan = idle_plan()
    state = step(None, rows_of(("a", 0.5, 1.0)), plan, store).state
    end = START + SECOND // 2 + SIZE * SECOND
    for watermark in (None, 5, end - 1, end):
        kept = step(state, rows_of(), plan, store, watermark)
        assert (len(keys_of(kept.state, store)), kept.rows.num_rows, kept.timer) == (1, 0, end)
    done = step(state, rows_of(), plan, store, end + 1)
    assert (keys_of(done.state, store), done.timer) == (set(), None)
    assert in_form(done.rows) == [("a", end, None, [], None, 0)]


def test_the_timer_is_the_earliest_key_s(store: MemoryStore) -> None:
    stream = Stream(idle_plan(), store)
    stream.feed(rows_of(("b", 5, 1.0), ("a", 3, 1.0), ("c", 9, 1.0)))
    assert stream.timer == START + (3 + SIZE) * SECOND
    stream.feed(rows_of(("a", 10, 1.0)))
    assert stream.timer == START + (5 + SIZE) * SECOND
    assert stream.others(5 + SIZE) is None
    assert stream.others(5.001 + SIZE) is not None
    assert stream.timer == START + (9 + SIZE) * SECOND


def test_keep_expires_nothing(store: MemoryStore) -> None:
    plan = idle_plan(idle="keep")
    state = step(None, rows_of(("a", 0, 1.0)), plan, store).state
    done = step(state, rows_of(), plan, store, START + LONG * SECOND)
    assert keys_of(done.state, store) == keys_of(state, store)
    # A query to come may forget them: the bucket is called again within a window's length.
    assert done.timer == START + (LONG + SIZE) * SECOND
    gone = step(done.state, rows_of(), idle_plan(), store, START + 2 * LONG * SECOND)
    assert (keys_of(gone.state, store), gone.rows.num_rows) == (set(), 1)


@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 8), min_size=1),
    delay=st.sampled_from([0.0, 2.0]),
    retain=st.sampled_from([2, 3]),
)
def test_equals_the_oracle_at_every_tie(
    steps: list[tuple[str, int]], cuts: list[int], delay: float, retain: int
) -> None:
    """Gaps of just the window's length, equal times, batches that cut between them."""
    seconds = np.cumsum([after for _, after in steps]).tolist()
    rows = [(key, at, i) for i, ((key, _), at) in enumerate(zip(steps, seconds, strict=True))]
    store, size, at = MemoryStore(), 5, 0
    plan = idle_plan(window=TimeWindow(size), arity=2, leaf_arity=2, retain=retain)
    stream = Stream(plan, store, delay)
    for cut in cycle(cuts):
        stream.feed(rows_of(*rows[at : at + cut]))
        stream.idle()
        at += cut
        if at >= len(rows):
            break
    until = seconds[-1] - delay
    assert stream.results == naive(rows_of(*rows), until, size)
    for i in range(retain + 1):
        stream.others(LONG + i)
    assert stream.results == naive(rows_of(*rows), LONG, size)
    assert (stream.keys, stream.pending, page_keys(store)) == (set(), 0, [])


def test_rows_that_are_due_at_once_go_before_the_expiry(store: MemoryStore) -> None:
    """A key that lags: its row is older than the watermark, and younger than its window's end."""
    stream = Stream(idle_plan(), store)
    stream.feed(rows_of(("a", 0, 1.0)))
    assert stream.others(SIZE - 1) is None
    stream.newest = START + 3 * SIZE * SECOND
    done = stream.feed(rows_of(("a", SIZE - 1, 2.0)))
    end = START + (2 * SIZE - 1) * SECOND
    assert in_form(done.rows) == [
        ("a", START + (SIZE - 1) * SECOND, 2.0, [1.0, 2.0], 2.0, 2),
        ("a", end, None, [], None, 0),
    ]
    assert not stream.keys


@pytest.mark.parametrize("batches", [3, 30])
def test_last_gives_one_row_per_key_and_batch(batches: int, store: MemoryStore) -> None:
    events = bursts(300, 8, seed=3)
    stream = Stream(idle_plan(emit="last"), store, delay=40.0)
    stream.run(events, batches)
    stream.others(LONG)
    whole = {row[:2]: row for row in naive(events, until=LONG)}
    for done in stream.done:
        rows = in_form(done.rows)
        assert len({row[0] for row in rows}) == len(rows)
        assert all(whole[row[:2]] == row for row in rows)
    assert {row[0] for row in in_form(stream.done[-1].rows)} <= {row[0] for row in whole}
    lasts = {row[0]: row for row in stream.results}
    assert all(row[2] is None for row in lasts.values())
    assert lasts.keys() == {row[0] for row in whole}


def test_keys_of_every_type_come_back(store: MemoryStore) -> None:
    zone = pa.timestamp("us", "Asia/Tokyo")
    keys = {
        "whole": pa.array([-5], pa.int16()),
        "real": pa.array([-0.0], pa.float32()),
        "text": pa.array(["dévice"]),
        "bytes": pa.array([b"\x00\xff"]),
        "flag": pa.array([True]),
        "day": pa.array([date(1969, 7, 20)]),
        "moment": pa.array([1], zone),
        "wall": pa.array([datetime(2024, 1, 2, 3)], pa.timestamp("us")),
        "money": pa.array([Decimal("-1.50")], pa.decimal128(10, 2)),
        "span": pa.array([7], pa.duration("us")),
    }
    rest = {"ts": pa.array([START], pa.timestamp("us", "UTC")), "watts": [1.0]}
    rows = pa.table({**keys, **rest})
    columns = tuple(rows.column_names)
    types = tuple(str(array.type) for array in keys.values())
    plan = idle_plan(by=tuple(keys), key_types=types, columns=columns, schema=rows.schema)
    state = step(None, rows, plan, store).state
    done = step(state, rows.slice(0, 0), plan, store, START + LONG * SECOND).rows
    assert done.select(list(keys)).equals(rows.select(list(keys)))
    assert done.column("ts").to_pylist()[0].timestamp() * SECOND == START + SIZE * SECOND
    assert done.column("watts").null_count == 1


def test_all_tables_have_one_schema(store: MemoryStore) -> None:
    """Spark reads the results of a task as one stream: rows of idle keys must not differ."""
    fields = [
        pa.field("device", pa.string(), nullable=False),
        pa.field("ts", pa.timestamp("us", "Asia/Tokyo"), nullable=False),
        pa.field("watts", pa.float64(), nullable=False),
    ]
    rows = rows_of(("a", 0, 1.0)).cast(pa.schema(fields))
    first = step(None, rows, idle_plan(on_late="side"), store)
    last = step(first.state, rows_of(), idle_plan(on_late="side"), store, START + LONG * SECOND)
    assert (first.rows.num_rows, last.rows.num_rows) == (1, 1)
    assert first.rows.schema == last.rows.schema


@pytest.mark.parametrize("retain", [2, 3, 5])
def test_pages_go_when_no_retained_state_needs_them(retain: int, store: MemoryStore) -> None:
    stream = Stream(idle_plan(retain=retain), store)
    stream.feed(rows_of(*(("a", i / 4, 1.0) for i in range(100)), ("b", 24, 1.0)))
    stream.feed(rows_of(("b", 2 * SIZE, 2.0)))
    before = len(stream.calls)
    stream.feed(rows_of(("b", 2 * SIZE + 1, 2.0)))  # the call that forgets "a"
    assert stream.keys == {"b"}
    [of_a] = pending_of(stream.state)
    pages = [key for key in page_keys(store) if key.startswith(f"{of_a}/")]
    assert len(pages) == 30
    for call in range(retain):  # the last of them may fail, and then as many states still serve
        assert stream.pending == 1
        assert [key for key in page_keys(store) if key.startswith(f"{of_a}/")] == pages
        # A state from before still serves: Spark may go back there, and do all of it again.
        state = stream.calls[before][0]
        assert keys_of(state, store) == {"a", "b"}
        restored(state, stream, store)
        assert in_form(stream.replay(before, call).rows) == in_form(stream.done[before].rows)
        stream.feed(rows_of(("b", 2 * SIZE + 2 + call, 2.0)))
    assert stream.pending == 0
    assert of_a.rpartition(":")[2] not in windows_in(page_keys(store))


def restored(state: bytes | None, stream: Stream, store: MemoryStore) -> list[Window]:
    """The windows of a state, every page of them verified."""
    one = Window(stream.plan.monoid, stream.plan.options.window, store)
    windows = [one.restore_like(each) for each in snapshots_of(state, store).values()]
    for window in windows:
        found = audit(window)
        assert not found.damaged, found.damaged
        window.check()
    return windows


def test_the_next_look_is_at_the_watermark_s_next_move(store: MemoryStore) -> None:
    stream = Stream(idle_plan(idle="expire"), store)
    stream.feed(rows_of(*(("a", i / 4, 1.0) for i in range(100))))
    assert stream.others(LONG) is not None
    assert (stream.keys, stream.pending) == (set(), 1)
    assert stream.idle() is None  # nothing moves, nothing is called
    for later in (0.001, 0.002):
        assert stream.pending == 1
        assert stream.others(LONG + later) is not None
    assert (stream.pending, page_keys(store), stream.timer) == (0, [], None)


@pytest.mark.parametrize(("retain", "seed"), [(2, 0), (4, 1)])
def test_replays_change_nothing_and_no_live_page_is_ever_deleted(
    retain: int, seed: int, store: MemoryStore
) -> None:
    events = turns(500, 4, seed)
    stream = Stream(idle_plan(retain=retain), store)
    restarts, keys = 0, dict[str, bytes]()
    for at in range(0, 500, 25):
        for call in (partial(stream.feed, events.slice(at, 25)), stream.idle):
            done = call()
            if done is None:
                continue
            pages = page_keys(store)
            again = stream.replay(len(stream.calls) - 1, seed)
            assert again.state == done.state
            assert in_form(again.rows) == in_form(done.rows)
            assert page_keys(store) == pages
            restored(stream.state, stream, store)
            window_snapshots = snapshots_of(stream.state, store)
            keys |= {
                describe_snapshot(window_snapshot).window: key
                for key, window_snapshot in window_snapshots.items()
            }
            pending = pending_of(stream.calls[-1][0] or done.state)
            waiting = set(map(keys.get, pending))
            restarts += len(waiting & window_snapshots.keys())
    assert restarts > 9  # keys that began again while pages of their earlier life were there
    assert stream.results == naive(events, until=(stream.watermark - START) / SECOND)
    for i in range(retain + 1):
        stream.others(LONG + i)
    assert (stream.keys, stream.pending, page_keys(store)) == (set(), 0, [])


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("applied", [False, True], ids=["refused", "answer lost"])
def test_a_step_that_fails_deletes_nothing_that_a_retained_state_needs(
    applied: bool, part: int
) -> None:
    """Spark may go back to each of the last ``retain`` states that were committed."""
    events = turns(400, 4, 1)
    for nth in count(1 + part, 2):
        pages = MemoryStore()
        store = FaultyStore(pages)
        stream = Stream(idle_plan(retain=2), store)
        for at in range(0, 300, 50):
            stream.feed(events.slice(at, 50))
            stream.idle()
        committed = [stream.calls[-1][0], stream.state]
        store.fail(nth, applied=applied)
        with suppress(StoreUnavailable):
            step(stream.state, events.slice(300, 50), stream.plan, store, stream.watermark)
        fired = store.fired
        store.heal()
        for state in committed:
            assert restored(state, stream, pages)
        stream.feed(events.slice(300, 50))
        for i in range(4):
            stream.others(LONG + i)
        assert (stream.keys, stream.pending, page_keys(pages)) == (set(), 0, [])
        if not fired:
            break
    assert nth > 9


def test_hundreds_of_short_lived_keys_leave_nothing_behind(store: MemoryStore) -> None:
    """Three new keys a batch, each for 20 seconds: what is kept follows the keys that are alive."""
    stream = Stream(idle_plan(idle="expire", retain=3), store)
    sizes = []
    for batch in range(70):
        stream.feed(
            rows_of(*((f"{batch}-{i % 3}", 20 * batch + i / 3, float(i)) for i in range(60)))
        )
        stream.idle()
        sizes.append((len(page_keys(store)), len(stream.state or b""), len(stream.keys)))
    assert sum(done.rows.num_rows for done in stream.done) == 70 * 60
    for found in zip(*sizes, strict=True):
        assert max(found[20:]) <= max(found[:20]) * 1.01
    alive = 3 * (1 + SIZE // 20)
    assert max(keys for _, _, keys in sizes) <= alive
    assert max(pages for pages, _, _ in sizes) <= 2 * alive * 6  # of 20 events in groups of 4


def test_deletions_are_flushed_with_the_step(store: MemoryStore) -> None:
    """An unflushed one may be lost with its worker, and no later step knows of it."""
    stream = Stream(idle_plan(), logged := Logged(store))
    stream.feed(rows_of(*(("a", i / 9, 1.0) for i in range(300))))
    stream.others(LONG)
    stream.others(LONG + 1)
    logged.clear_log()
    stream.others(2 * LONG)
    calls = [operation for operation, _ in logged.log if operation in ("delete", "flush")]
    assert calls[0] == "delete"
    assert calls[-1] == "flush"


def forgetful(store: MemoryStore, **changes: Any) -> Stream:
    """A stream that has expired "a", which was last heard of at 10 s, and knows "b"."""
    stream = Stream(idle_plan(**changes), store)
    stream.feed(rows_of(("a", 10, 1.0), ("b", 100, 2.0)))
    stream.feed(rows_of(("b", 101, 3.0)))
    assert stream.keys == {"b"}
    return stream


def test_rows_older_than_what_was_expired_are_late(store: MemoryStore) -> None:
    stream = forgetful(store)
    with pytest.raises(LateEvent, match=r"keys may have expired.* key 'a'.*delay of the watermark"):
        stream.feed(rows_of(("a", 10 + SIZE - 0.001, 5.0)))
    with pytest.raises(LateEvent, match=r"keys may have expired.* key 'c'"):
        stream.feed(rows_of(("c", 10 + SIZE - 0.001, 5.0)))
    done = stream.feed(rows_of(("a", 10 + SIZE, 5.0), ("c", 10 + SIZE, 6.0)))
    assert [row[3] for row in in_form(done.rows)] == [[5.0], [6.0]]


def test_keys_expired_together_count_by_the_latest(store: MemoryStore) -> None:
    stream = Stream(idle_plan(), store)
    stream.feed(rows_of(("a", 10, 1.0), ("c", 30, 2.0), ("d", 20, 3.0), ("b", 200, 4.0)))
    stream.feed(rows_of(("b", 201, 5.0)))
    assert stream.keys == {"b"}
    with pytest.raises(LateEvent, match="key 'c'"):
        stream.feed(rows_of(("c", 30 + SIZE - 1, 6.0)))
    stream.feed(rows_of(("c", 30 + SIZE, 6.0)))


def test_rows_not_older_than_the_watermark_are_never_late_for_idle_keys(store: MemoryStore) -> None:
    events = bursts(400, 30, seed=5)
    stream = Stream(idle_plan(), store, delay=10.0)
    rng = np.random.default_rng(5)
    at = 0
    while at < events.num_rows:  # rows come up to ten seconds late, in batches of their own order
        batch = events.slice(at, 11)
        stream.feed(batch.take(pa.array(rng.permutation(batch.num_rows))))
        stream.idle()
        at += 11
    assert sum(done.counts.rows_late for done in stream.done) == 0
    assert stream.results == naive(events, until=(stream.watermark - START) / SECOND)


@pytest.mark.parametrize("emit", ["all", "last"])
def test_late_rows_of_a_step_come_out_marked(emit: str, store: MemoryStore) -> None:
    stream = forgetful(store, on_late="side", emit=emit)
    done = stream.feed(
        rows_of(("a", 11, 5.0), ("b", 99, 6.0), ("b", 100.5, 7.0), ("b", 102, 8.0), ("c", 80, 9.0))
    )
    assert (done.counts.rows_late, done.counts.rows_invalid, done.counts.rows_dropped) == (3, 0, 0)
    assert done.rows.column_names[-1] == "late"
    late = done.rows.filter(done.rows.column("late"))
    assert sorted(late.column("watts").to_pylist()) == [5.0, 6.0, 7.0]
    assert all(late.column(alias).null_count == 3 for alias in stream.plan.results)
    rest = in_form(done.rows.filter(pc.invert(done.rows.column("late"))))
    assert [row[2:4] for row in rest] == [(8.0, [2.0, 3.0, 8.0]), (9.0, [9.0])]


def test_late_and_invalid_rows_are_counted_separately(store: MemoryStore) -> None:
    stream = forgetful(store, on_late="side", on_invalid="drop", nulls="drop_row")
    rows = rows_of(("b", 99, 6.0), ("b", 102, float("nan")), ("b", 103, 8.0), ("b", 104, 1.0))
    without_time = rows.slice(3).set_column(1, "ts", pa.nulls(1, rows.schema.field("ts").type))
    done = stream.feed(pa.concat_tables([rows.slice(0, 3), without_time]))
    assert (done.counts.rows_late, done.counts.rows_invalid, done.counts.rows_dropped) == (1, 2, 2)
    assert done.counts == (4, 2, 1, 2, 0, 0, 0)
    assert done.rows.num_rows == 2


def test_a_batch_query_gives_the_moments_between_its_events(store: MemoryStore) -> None:
    events = bursts(300, 6, seed=9)
    done = step(None, events, idle_plan(temporary=True, on_late="side"), store)
    assert in_form(done.rows.drop_columns(["late"])) == naive(events, until=0)
    assert done.rows.column("late").to_pylist() == [False] * done.rows.num_rows
    assert (page_keys(store), done.state) == ([], b"")


@pytest.fixture(params=some(["file", "state"], by_default=1))
def job(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> IdleJob:
    job = IdleJob(spark, tmp_path)
    job.store = "spark://state" if request.param == "state" else job.store
    return job


def totals(query: StreamingQuery) -> dict[str, int]:
    """What all batches of a run have counted."""
    counted = [batch["observedMetrics"]["sliding_aggregate"] for batch in query.recentProgress]
    return {name: sum(row[name] for row in counted) for name in of_rows(counted[0].asDict())}


@pytest.mark.proves("options", "`idle`", "key by key")
def test_a_key_that_stops_goes_with_its_pages(job: IdleJob) -> None:
    """d0 speaks for 25 seconds, others go on for three minutes, in files of 50 seconds."""
    first, rest = turns(25, 1, seed=1), bursts(175, 1, seed=2)
    later = pa.array(rest.column("ts").cast(pa.int64()).to_numpy() + 25 * SECOND)
    rest = rest.set_column(0, "device", pa.array(["d1", "d2", "d3"] * 58 + ["d1"]))
    rest = rest.set_column(1, "ts", later.cast(pa.timestamp("us", "UTC")))
    events = pa.concat_tables([first, rest])
    job.write(events, files=4)
    seen: list[set[str]] = []
    job.run(sink=lambda _: seen.append(windows_in(job.pages())))
    assert job.found() == naive(events, until=199)
    (emptied,) = (number for number, rows in job.batches.items() if any(r.n == 0 for r in rows))
    # The file up to 99 s moves the watermark past 84 s, so the next batch forgets d0.
    assert emptied == 2
    of_d0 = xxhash.xxh3_128_hexdigest(b"d0")
    assert all(of_d0 in names for names in seen[1:emptied])
    assert not any(of_d0 in names for names in seen[emptied + 2 :])
    assert len(seen) > emptied + 2
    assert job.keys() == {"d1", "d2", "d3"}


def test_restarts_and_replays_give_every_row_once(job: IdleJob) -> None:
    """Batches are run twice: those with rows, and those that the watermark alone brings."""
    events = turns(300, 4, seed=3)
    two_back = {"retain": 3}
    job.write(events, files=2)
    job.run(**two_back)
    data, last = sorted(job.batches)[-2:]
    assert any(row.n == 0 for row in job.batches[last])
    assert not any(row.watts for row in job.batches[last])
    results, pages = job.found(), job.pages()
    assert results == naive(events, until=299)
    for again in ([last], [data, last]):
        for number in again:
            job.batches.pop(number)
            job.remove_commit(number)
        if data in again:
            job.delete_offsets(last)
        job.run(**two_back)
        assert sorted(job.batches)[-2:] == [data, last]
        assert (job.found(), job.pages()) == (results, pages)
    # And at last nobody speaks any more but one.
    job.write(rows_of(*(("z", 1000 + i, 1.0) for i in range(4))), files=4)
    job.run(**two_back)
    assert job.keys() == {"z"}
    of_z = xxhash.xxh3_128_hexdigest(b"z")
    assert {name for name in windows_in(job.pages()) if len(name) == len(of_z)} <= {of_z}


@REST
def test_another_zone_and_columns_that_cannot_be_null(job: IdleJob) -> None:
    events = turns(150, 4, seed=6)
    job.write(events, files=3)
    zone = job.spark.conf.get("spark.sql.session.timeZone")
    job.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = job.source().withColumn("site", F.lit("here"))
        frame = frame.withColumn("watts", F.coalesce("watts", F.lit(0.0)))
        assert not frame.schema["site"].nullable
        results = sliding_aggregate(frame, carry=["site"], **job.settings())
        assert results.schema["site"].nullable
        assert results.schema["watts"].nullable
        job.run_frame(results)
    finally:
        job.spark.conf.set("spark.sql.session.timeZone", zone)
    assert job.found() == naive(events, until=149)
    rows = [row for batch in job.batches.values() for row in batch]
    assert {row.site for row in rows if row.n} == {"here"}
    assert {row.site for row in rows if not row.n} == {None}


@REST
def test_events_before_1970_are_never_idle(job: IdleJob) -> None:
    """Spark's watermark cannot be there."""
    events = turns(100, 2, seed=7)
    early = events.column("ts").cast(pa.int64()).to_numpy() - START - 10**6 * SECOND
    job.write(events.set_column(1, "ts", pa.array(early).cast(pa.timestamp("us", "UTC"))), files=2)
    job.run()
    assert [row[2:] for row in job.found()] == [row[2:] for row in naive(events, until=None)]
    assert job.keys() == {"d0", "d1"}


@pytest.mark.parametrize("idle", some(["expire", "keep"], by_default=1))
@pytest.mark.proves("options", '`on_late="side"`', "key by key")
def test_late_rows_come_out_beside_the_results(job: IdleJob, idle: str) -> None:
    on_time = [rows_of(("a", 10, 1.0), ("b", 20, 2.0)), rows_of(("a", 30, 3.0), ("b", 130, 4.0))]
    late = rows_of(("a", 9, 5.0), ("b", 19, 6.0))
    job.write(on_time[0])
    job.write(pa.concat_tables([on_time[1], late]))
    query = job.run(on_late="side", idle=idle)
    assert job.found(marked=False) == naive(pa.concat_tables(on_time), until=None)
    assert [row[2:] for row in job.found(marked=True)] == [
        (5.0, None, None, None),
        (6.0, None, None, None),
    ]
    counts = {
        "rows_read": 6,
        "rows_dropped": 0,
        "rows_late": 2,
        "rows_invalid": 0,
        "rows_missing": 0,
        "rows_incomplete": 0,
        "rows_ahead": 0,
    }
    assert totals(query) == counts
    assert job.keys() == ({"a", "b"} if idle == "keep" else {"b"})
    # "a" was last heard of at 30 s: its window, if it was not expired, was empty from 90 s on.
    job.write(rows_of(("a", 80, 7.0)))
    job.run(on_late="side", idle=idle)
    assert len(job.found(marked=True)) == (2 if idle == "keep" else 3)
