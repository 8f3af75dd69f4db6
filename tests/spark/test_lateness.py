"""Events that come late, across micro-batches: the step against the oracle, and a real Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mta import CountWindow, Sum, TimeWindow
from mta.errors import LateEvent
from mta.frames import BoundWindow
from mta.frames.base import Frame
from spark_integration.errors import StateMismatch
from spark_integration.plan import Plan
from spark_integration.runners.packing import METRICS
from spark_integration.step.step import Advanced, step
from stores import PageStore
from stores.memory import MemoryStore
from tests.support.sampling import some
from tests.support.spark.events import (
    SECOND,
    START,
    Event,
    Left,
    Oracle,
    in_form,
    last_n,
    last_seconds,
    rows_of,
    shuffled,
)
from tests.support.spark.idle_cases import SIZE, Stream, idle_plan, late_plan, out_of_order
from tests.support.spark.jobs import LateJob, as_found
from tests.support.spark.states import keys_of

FRAMES: list[tuple[Frame, Left]] = [
    (TimeWindow(4), last_seconds(4)),
    (CountWindow(3), last_n(3)),
    (TimeWindow(4) | CountWindow(2), lambda times: max(last_seconds(4)(times), last_n(2)(times))),
]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class Bucket:
    """One bucket of keys, batch after batch."""

    def __init__(self, plan: Plan, store: PageStore) -> None:
        self.plan, self.store = plan, store
        self.state: bytes | None = None

    def feed(self, events: Sequence[Event], seed: int = 0) -> Advanced:
        done = step(self.state, shuffled(events, seed), self.plan, self.store)
        self.state = done.state
        return done


def sorted_rows(rows: pa.Table) -> list[Any]:
    return sorted(map(tuple, rows.to_pandas().astype(str).to_numpy().tolist()))


def parted(done: Advanced) -> tuple[list[Any], list[Any]]:
    """The rows given for the first time, and those given again."""
    if "corrected" not in done.rows.column_names:
        return in_form(done.rows), []
    corrected = done.rows.column("corrected")
    new = done.rows.filter(pc.invert(corrected))
    return in_form(new), in_form(done.rows.filter(corrected))


@settings(max_examples=40)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), min_size=1, max_size=8),
        min_size=1,
        max_size=8,
    ),
    lateness=st.sampled_from([0, 2, 5, 100]),
    frame=st.sampled_from(FRAMES),
    updates=st.booleans(),
)
@pytest.mark.proves("options", "`emit_updates=True`", "vectorized", "late events")
def test_each_event_has_its_result_and_a_late_one_changes_those_after_it(
    batches: list[list[tuple[str, int]]], lateness: int, frame: tuple[Frame, Left], updates: bool
) -> None:
    store = MemoryStore()
    plan = late_plan(
        window=frame[0], emit_updates=updates, allowed_lateness=lateness, arity=2, leaf_arity=2
    )
    bucket, oracle, value = Bucket(plan, store), Oracle(frame[1], lateness), 0
    for batch in batches:
        events = []
        for key, at in batch:
            value += 1
            events.append((key, float(at), float(value)))
        expected, done = oracle.feed(events), bucket.feed(events, value)
        assert parted(done) == (expected.new, expected.again if updates else [])
        assert done.counts.rows_late == done.counts.rows_dropped == len(expected.late)


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.proves("options", '`emit="last"`', "late events")
def test_last_gives_one_row_per_key(updates: bool, store: MemoryStore) -> None:
    """Onward that of the batch's newest event, appended that of the key's newest."""
    plan = late_plan(emit="last", emit_updates=updates)
    bucket, oracle = Bucket(plan, store), Oracle(last_seconds(SIZE), 30)
    again = 0
    for part in out_of_order(400, 3, 45.0, 3, 80):
        expected, done = oracle.feed(part), bucket.feed(part)
        newest, known = {row[0]: row for row in expected.new}, oracle.newest()
        if not updates:
            assert in_form(done.rows) == sorted(newest.values())
            continue
        changed = {row[0] for row in expected.again if row == known[row[0]]}
        given, corrected = parted(done)
        assert corrected == sorted(known[device] for device in changed)
        assert given == sorted(newest[device] for device in newest.keys() - changed)
        again += len(corrected)
    assert again > 5 or not updates


def test_a_frame_that_looks_at_values_gives_the_window_as_it_is_then(store: MemoryStore) -> None:
    """At most 10 together; a late event enters the window unless it is older than all in it."""
    bucket = Bucket(late_plan(window=BoundWindow(("watts", Sum()), at_most=10)), store)
    done = bucket.feed([("a", 10, 4.0), ("a", 20, 3.0), ("a", 30, 2.0)])
    assert done.rows.column("all").to_pylist() == [[4.0], [4.0, 3.0], [4.0, 3.0, 2.0]]
    assert bucket.feed([("a", 15, 1.0)]).rows.column("all").to_pylist() == [[4.0, 1.0, 3.0, 2.0]]
    assert bucket.feed([("a", 25, 5.0)]).rows.column("all").to_pylist() == [[3.0, 5.0, 2.0]]
    assert bucket.feed([("a", 12, 9.0)]).rows.column("all").to_pylist() == [[3.0, 5.0, 2.0]]
    assert bucket.feed([("a", 40, 1.0)]).rows.column("all").to_pylist() == [[5.0, 2.0, 1.0]]
    assert bucket.feed([("a", 9, 1.0)]).counts.rows_late == 1


LATE_BATCH = [("a", 69.0, 3.0), ("a", 70.0, 4.0), ("a", 105.0, 5.0), ("b", 0.0, 6.0)]


def started(plan: Plan, store: PageStore) -> Bucket:
    bucket = Bucket(plan, store)
    bucket.feed([("a", 0.0, 1.0), ("a", 100.0, 2.0)])
    return bucket


def test_late_rows_stop_the_batch_and_say_by_how_much(store: MemoryStore) -> None:
    bucket = started(late_plan(on_late="raise"), store)
    with pytest.raises(LateEvent, match=r"by more than 30\.0 s older .*key 'a'.*larger"):
        bucket.feed(LATE_BATCH)
    assert bucket.feed(LATE_BATCH[1:]).counts.rows_late == 0


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("emit", ["all", "last"])
@pytest.mark.proves("options", '`on_late="side"`', "late events")
def test_late_rows_come_out_marked(updates: bool, emit: Any, store: MemoryStore) -> None:
    plan = late_plan(on_late="side", emit_updates=updates, emit=emit)
    done = started(plan, store).feed(LATE_BATCH)
    assert (done.counts.rows_late, done.counts.rows_dropped) == (1, 0)
    late = done.rows.filter(done.rows.column("late")).to_pylist()
    assert [(row["watts"], row["all"], row["n"]) for row in late] == [(3.0, None, None)]
    rest = done.rows.filter(pc.invert(done.rows.column("late"))).to_pylist()
    again = [2.0] * updates if emit == "all" else []
    marked = [row["watts"] for row in rest if row.get("corrected")]
    assert marked == again
    new = [row["watts"] for row in rest if not row.get("corrected")]
    assert sorted(new) == ([4.0, 5.0, 6.0] if emit == "all" else [5.0, 6.0])
    marks = ["corrected"] * updates + ["late"]
    assert done.rows.column_names == ["device", "ts", "watts", "all", "peak", "n", *marks]


def test_bad_values_beside_late_events(store: MemoryStore) -> None:
    bucket = started(late_plan(on_invalid="drop", nulls="drop_row", emit_updates=True), store)
    nan = float("nan")
    done = bucket.feed([("a", 80.0, nan), ("a", 90.0, 3.0), ("a", 110.0, nan), ("c", 1.0, nan)])
    assert (done.counts.rows_late, done.counts.rows_invalid, done.counts.rows_dropped) == (0, 3, 3)
    new, again = parted(done)
    assert [row[2:4] for row in new] == [(3.0, [3.0])]
    assert [row[2:4] for row in again] == [(2.0, [3.0, 2.0])]
    # The newest is the one at 100 s still, and no window was made for "c".
    assert bucket.feed([("a", 69.0, 4.0), ("a", 70.0, 5.0)]).counts.rows_late == 1
    assert len(keys_of(bucket.state, store)) == 1


@pytest.mark.parametrize("updates", [False, True])
def test_a_replay_in_another_order_gives_the_same_state_rows_and_pages(
    updates: bool, store: MemoryStore
) -> None:
    bucket = Bucket(late_plan(emit_updates=updates), store)
    for part in out_of_order(1000, 3, 45.0, 5, 6):
        before = bucket.state
        first = bucket.feed(part)
        pages = sorted(store.keys())
        for seed in (1, 2):
            again = step(before, shuffled(part, seed), bucket.plan, store)
            assert again.state == first.state
            assert sorted_rows(again.rows) == sorted_rows(first.rows)
            assert sorted(store.keys()) == pages
    assert len(pages) > 20


def test_the_lateness_may_change_but_not_begin_or_end(store: MemoryStore) -> None:
    events = rows_of(("a", 0, 1.0))
    for one, other in [(None, 0), (30, None), (0, None)]:
        state = step(None, events, late_plan(allowed_lateness=one), store).state
        with pytest.raises(StateMismatch):
            step(state, events, late_plan(allowed_lateness=other), store)
    assert (
        late_plan(allowed_lateness=1).fingerprint() == late_plan(allowed_lateness=2).fingerprint()
    )
    assert late_plan(allowed_lateness=None).fingerprint() == idle_plan().fingerprint()


def test_a_snapshot_takes_any_lateness_and_no_event_that_it_has_too_little_for(
    store: MemoryStore,
) -> None:
    plans = {late: late_plan(allowed_lateness=late) for late in (10, 30, 50)}
    rows = rows_of(*(("a", float(i), 1.0) for i in range(0, 1000, 10)))
    state = step(None, rows, plans[30], store).state
    done = step(state, rows_of(("a", 959, 1.0), ("a", 960, 1.0)), plans[50], store)
    assert (done.counts.rows_late, done.rows["n"].to_pylist()) == (1, [7])
    with pytest.raises(LateEvent, match="before which no event is retained"):
        step(
            state, rows_of(("a", 959, 1.0)), late_plan(allowed_lateness=50, on_late="raise"), store
        )
    done = step(state, rows_of(("a", 965, 1.0), ("a", 985, 1.0)), plans[10], store)
    assert (done.counts.rows_late, done.rows["n"].to_pylist()) == (1, [7])
    state = step(done.state, rows_of(("a", 1000, 1.0)), plans[30], store).state
    # From now on events are kept for 30 s again.
    done = step(state, rows_of(("a", 979, 1.0), ("a", 980, 1.0)), plans[30], store)
    assert (done.counts.rows_late, done.rows["n"].to_pylist()) == (1, [7])
    state = step(done.state, rows_of(("a", 1020, 1.0)), plans[30], store).state
    done = step(state, rows_of(("a", 990, 1.0)), plans[30], store)
    assert done.counts.rows_late == 0


def test_a_late_key_is_kept_for_as_much_longer(store: MemoryStore) -> None:
    plan = late_plan(idle="emit")
    state = step(None, rows_of(("a", 10, 1.0)), plan, store).state
    moment = START + (10 + SIZE) * SECOND
    end = moment + 30 * SECOND
    kept = step(state, rows_of(), plan, store, end)
    assert (len(keys_of(kept.state, store)), kept.timer, kept.rows.num_rows) == (1, end, 0)
    done = step(state, rows_of(), plan, store, end + 1)
    assert (keys_of(done.state, store), done.timer) == (set(), None)
    assert in_form(done.rows) == [("a", moment, None, [], None, 0)]
    # What is no later than allowed, by the watermark, begins again with the same result.
    again = step(done.state, rows_of(("a", 10 + SIZE, 2.0)), plan, store, end + 1)
    assert in_form(again.rows) == [("a", moment, 2.0, [2.0], 2.0, 1)]
    late = step(done.state, rows_of(("a", 9 + SIZE, 2.0)), plan, store, end + 1)
    assert (late.counts.rows_late, late.rows.num_rows) == (1, 0)


def test_a_key_that_began_again_takes_nothing_from_before(store: MemoryStore) -> None:
    plan = late_plan(idle="expire", allowed_lateness=300)
    done = step(None, rows_of(("a", 10, 1.0)), plan, store)
    done = step(done.state, rows_of(), plan, store, START + 400 * SECOND)
    assert keys_of(done.state, store) == set()
    done = step(done.state, rows_of(("a", 100, 2.0)), plan, store)
    # 40 s late is allowed, but the window at 60 s held the event of the life before.
    done = step(done.state, rows_of(("a", 60, 3.0), ("a", 75, 4.0)), plan, store)
    assert (done.counts.rows_late, [row[2:4] for row in in_form(done.rows)]) == (1, [(4.0, [4.0])])


@pytest.mark.parametrize("seed", some(range(3), by_default=1))
@pytest.mark.proves("options", "`idle`", "late events")
def test_idle_keys_with_late_events_equal_the_oracle_and_leave_nothing(seed: int) -> None:
    """Keys speak in turns, with gaps of more than a window; events come up to 30 seconds late."""
    rng, store = np.random.default_rng(seed), MemoryStore()
    events = [(f"d{i // 40 % 4}", float(i), float(i)) for i in range(800) if rng.random() < 0.8]
    order = np.argsort([t + rng.uniform(0, 30) for _, t, _ in events], kind="stable")
    stream = Stream(late_plan(idle="expire", emit_updates=True, on_late="raise"), store)
    oracle, started_again = Oracle(last_seconds(SIZE), None), 0
    for part in np.array_split(order, 100):
        batch = [events[i] for i in part]
        keys = stream.keys if stream.state else set()
        expected, done = oracle.feed(batch), stream.feed(rows_of(*batch))
        started_again += len(stream.keys - keys)
        new, again = parted(done)
        assert new == expected.new
        assert again == expected.again
        stream.idle()
    assert started_again > 6  # four keys, most of them in more than one life
    for i in range(4):
        stream.others(2000 + i)
    assert (stream.keys, stream.pending, list(store.keys())) == (set(), 0, [])


@pytest.mark.parametrize(
    ("kind", "idle"), some([("file", "keep"), ("state", "expire")], by_default=1)
)
def test_a_stream_of_late_events_with_restarts_and_replays(
    kind: str, idle: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Some rows are older than the watermark, which drops none of them."""
    job = LateJob(spark, tmp_path)
    job.store = "spark://state" if kind == "state" else job.store
    parts = out_of_order(300, 3, 40.0, 3, 4)
    parts[-1] += [("d0", 1.0, 1001.0), ("d1", 2.0, 1002.0)]  # too late
    oracle = Oracle(last_seconds(SIZE), 30)
    expected = [oracle.feed(part) for part in parts]
    job.write_batches(parts[:2])
    job.run(emit_updates=True, idle=idle)
    job.write_batches(parts[2:])
    query = job.run(emit_updates=True, idle=idle)
    assert job.found() == as_found(expected)
    assert any(batch.again for batch in expected[2:])
    late = [batch["observedMetrics"][METRICS].rows_late for batch in query.recentProgress]
    assert sum(late) == sum(len(batch.late) for batch in expected[2:]) > 0
    if idle == "keep":
        pages, again = job.pages(), max(job.batches)
        job.remove_commit(again)
        job.batches.pop(again)
        job.run(emit_updates=True)
        assert (job.found(), job.pages()) == (as_found(expected), pages)
