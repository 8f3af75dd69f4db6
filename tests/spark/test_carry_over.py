"""States of earlier programs: those of handles go on by columns, those of roots as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from mta import CountWindow, FiBA, Max, Product, Sum, TimeWindow, Window
from mta.errors import LateEvent
from spark_integration.errors import StateMismatch
from spark_integration.plan import Plan
from spark_integration.step.states import Bucket, Saved, read_handles, read_root
from spark_integration.step.step import Advanced, step
from stores import MemoryStore, PageStore
from tests.spark.test_step import FOLDS, distinct_times, in_form
from tests.support.spark.events import SECOND, START, last_n, make_events, oracle
from tests.support.spark.late_streams import late_plan
from tests.support.spark.places import check_places
from tests.support.spark.plans import make_plan
from tests.support.spark.saved import encode_handles
from tests.support.spark.silences import rows_of

GOLDEN = Path(__file__).parent / "golden"
WINDOW = 30
PLAN = make_plan(window=CountWindow(WINDOW))
EVENTS = distinct_times(make_events(1600, 12))
#: The checkpoints are as of these; a state of handles is of windows of 4 events a page.
BEFORE = 800


def read(name: str) -> tuple[bytes, MemoryStore]:
    """A state of some version, and the pages that were there with it."""
    state, pages = msgpack.unpackb((GOLDEN / name).read_bytes())
    store = MemoryStore()
    store.put_many(pages)
    return state, store


def begun(plan: Plan, store: PageStore) -> bytes:
    """The state after the events before, in four batches."""
    state = None
    for at in range(0, BEFORE, 200):
        state = step(state, EVENTS.slice(at, 200), plan, store).state
    assert state is not None
    return state


def pages_of(store: PageStore) -> dict[str, bytes | None]:
    keys = sorted(store.keys())
    return dict(zip(keys, store.get_many(keys), strict=True))


def go_on(state: bytes, store: PageStore, size: int) -> list[Advanced]:
    """The rest of the events, which give what the oracle says."""
    done: list[Advanced] = []
    for at in range(BEFORE, EVENTS.num_rows, size):
        done.append(step(state, EVENTS.slice(at, size), PLAN, store))
        again = step(state, EVENTS.slice(at, size), PLAN, store)
        assert again.state == done[-1].state
        state = done[-1].state
    begin = EVENTS.column("ts").cast(pa.int64())[BEFORE].as_py()
    expected = [row for row in oracle(EVENTS, last_n(WINDOW), FOLDS) if row[1] >= begin]
    assert sorted(row for one in done for row in in_form(one.rows)) == expected
    return done


@pytest.mark.parametrize("size", [20, 400])
def test_a_state_of_handles_goes_on_by_columns(size: int) -> None:
    """Written by the program that went key by key; every key stays the window that it was."""
    state, store = read("state-3")
    assert len(read_handles(state)) == 12 and read_root(state) is None
    done = go_on(state, store, size)
    assert all(read_root(one.state) is not None for one in done)
    with pytest.raises(StateMismatch, match="buckets=1"):
        step(state, EVENTS, make_plan(window=CountWindow(WINDOW), buckets=2), store)
    with pytest.raises(StateMismatch, match="restore these settings"):
        step(state, EVENTS, make_plan(window=CountWindow(WINDOW + 1)), store)


def test_the_state_of_today_is_read_by_the_programs_to_come() -> None:
    """Pinned with its pages, byte for byte: change it only together with its version."""
    state, store = read("state-5-of-pages-2")
    assert read_root(state) is not None
    again = MemoryStore()
    assert begun(PLAN, again) == state
    assert pages_of(again) == pages_of(store)
    assert len(pages_of(store)) > 0
    done = go_on(state, store, 100)
    assert check_places([done[-1].state], store, EVENTS, WINDOW) > 0


def test_a_state_with_pages_of_version_1_goes_on() -> None:
    state, store = read("state-5")
    done = go_on(state, store, 100)
    assert check_places([done[-1].state], store, EVENTS, WINDOW) > 0


def test_a_state_that_says_less_of_its_settings_goes_on() -> None:
    """Of version 4: it is of one plan, which may be changed once the state is written anew."""
    state, store = read("state-4")
    with pytest.raises(StateMismatch, match="did not note which: restore these settings"):
        step(state, EVENTS, make_plan(window=CountWindow(WINDOW + 1)), store)
    go_on(state, store, 100)
    state, store = read("state-4")
    done = step(state, EVENTS.slice(BEFORE, 100), PLAN, store)
    step(done.state, EVENTS.slice(900, 10), make_plan(window=CountWindow(WINDOW + 1)), store)


# --- how late events may be -----------------------------------------------------------------------

SUMS: dict[str, Any] = {
    "window": TimeWindow(60),
    "monoid": Product({"peak": ("watts", Max()), "sum": ("watts", Sum())}),
    "results": {"peak": pa.float64(), "sum": pa.float64()},
}


def sums(done: Advanced) -> list[float]:
    found: list[float] = done.rows.column("sum").to_pylist()
    return found


def state_before(last: int, floor: int | None, plan: Plan, store: PageStore) -> bytes:
    """A state of handles with a key "a" that had an event of 1 each 10 s up to one at ``last``."""
    window = Window(
        plan.monoid, plan.window, store, "a", aggregator=FiBA, lateness=10, arity=4, leaf_arity=4
    )
    times = START + np.arange(0, last + 10, 10) * SECOND
    window.extend({"watts": np.ones(len(times))}, times.view("M8[us]"))
    at = int(times[-1])
    saved = Saved(at, window.checkpoint(), None if floor is None else START + floor * SECOND)
    return encode_handles(Bucket({msgpack.packb(["a"]): saved}), plan.buckets, plan.fingerprint())


def test_handles_that_know_of_events_gone_take_nothing_from_before() -> None:
    """A greater lateness had been set shortly before: some events that it needs had left."""
    store, plan = MemoryStore(), late_plan(**SUMS, allowed_lateness=50)
    state = state_before(990, 980, plan, store)
    # 980 is allowed as before; 970 would be by the greater lateness, but its window is gone.
    done = step(state, rows_of(("a", 979, 1.0), ("a", 980, 1.0)), plan, store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    assert read_root(done.state) is not None
    done = step(done.state, rows_of(("a", 1030, 1.0)), plan, store)
    done = step(done.state, rows_of(("a", 980, 1.0), ("a", 979, 1.0)), plan, store)
    assert (done.counts.rows_late, sums(done)) == (1, [8.0])
    done = step(done.state, rows_of(("a", 1031, 1.0), ("a", 985, 1.0)), plan, store)
    assert (done.counts.rows_late, sums(done)) == (0, [9.0, 7.0])


def test_a_root_takes_any_lateness_and_no_event_that_it_has_too_little_for() -> None:
    store = MemoryStore()
    plans = {late: late_plan(**SUMS, allowed_lateness=late) for late in (10, 30, 50)}
    rows = rows_of(*(("a", float(i), 1.0) for i in range(0, 1000, 10)))
    state = step(None, rows, plans[30], store).state
    assert read_root(state) is not None
    done = step(state, rows_of(("a", 959, 1.0), ("a", 960, 1.0)), plans[50], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    with pytest.raises(LateEvent, match="before which no event is kept"):
        step(state, rows_of(("a", 959, 1.0)), replace(plans[50], on_late="raise"), store)
    done = step(state, rows_of(("a", 965, 1.0), ("a", 985, 1.0)), plans[10], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    state = step(done.state, rows_of(("a", 1000, 1.0)), plans[30], store).state
    # From now on events are kept for 30 s again.
    done = step(state, rows_of(("a", 979, 1.0), ("a", 980, 1.0)), plans[30], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    state = step(done.state, rows_of(("a", 1020, 1.0)), plans[30], store).state
    done = step(state, rows_of(("a", 990, 1.0)), plans[30], store)
    assert done.counts.rows_late == 0
