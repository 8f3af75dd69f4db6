"""Queries go on from the state that is pinned, and with another lateness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from mta import CountWindow, Max, Product, Sum, TimeWindow
from mta.errors import LateEvent
from spark_integration.plan import Plan
from spark_integration.step.step import Advanced, step
from stores import MemoryStore, PageStore
from tests.spark.test_step import FOLDS, distinct_times, in_form
from tests.support.spark.events import last_n, make_events, oracle
from tests.support.spark.idle_cases import rows_of
from tests.support.spark.late_streams import late_plan
from tests.support.spark.states import changed, check_places, make_plan, snapshot_in

GOLDEN = Path(__file__).parent / "golden"
WINDOW = 30
PLAN = make_plan(window=CountWindow(WINDOW))
EVENTS = distinct_times(make_events(1600, 12))
#: The pinned state is as of these.
BEFORE = 800


def pinned() -> tuple[bytes, MemoryStore]:
    """A state, and the pages that were there with it."""
    state, pages = msgpack.unpackb((GOLDEN / "state").read_bytes())
    store = MemoryStore()
    store.put_many(pages)
    return state, store


def started(plan: Plan, store: PageStore) -> bytes:
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


@pytest.mark.parametrize("size", [20, 100, 400])
def test_the_pinned_state_is_written_and_goes_on(size: int) -> None:
    """With its pages, byte for byte: change it only together with its version."""
    state, store = pinned()
    again = MemoryStore()
    assert started(PLAN, again) == state
    assert pages_of(again) == pages_of(store)
    assert len(pages_of(store)) > 0
    done = go_on(state, store, size)
    assert check_places([snapshot_in(done[-1].state)], store, EVENTS, WINDOW) > 0


SUMS: dict[str, Any] = {
    "window": TimeWindow(60),
    "monoid": Product({"peak": ("watts", Max()), "sum": ("watts", Sum())}),
    "results": {"peak": pa.float64(), "sum": pa.float64()},
}


def sums(done: Advanced) -> list[float]:
    found: list[float] = done.rows.column("sum").to_pylist()
    return found


def test_a_snapshot_takes_any_lateness_and_no_event_that_it_has_too_little_for() -> None:
    store = MemoryStore()
    plans = {late: late_plan(**SUMS, allowed_lateness=late) for late in (10, 30, 50)}
    rows = rows_of(*(("a", float(i), 1.0) for i in range(0, 1000, 10)))
    state = step(None, rows, plans[30], store).state
    done = step(state, rows_of(("a", 959, 1.0), ("a", 960, 1.0)), plans[50], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    with pytest.raises(LateEvent, match="before which no event is retained"):
        step(state, rows_of(("a", 959, 1.0)), changed(plans[50], on_late="raise"), store)
    done = step(state, rows_of(("a", 965, 1.0), ("a", 985, 1.0)), plans[10], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    state = step(done.state, rows_of(("a", 1000, 1.0)), plans[30], store).state
    # From now on events are kept for 30 s again.
    done = step(state, rows_of(("a", 979, 1.0), ("a", 980, 1.0)), plans[30], store)
    assert (done.counts.rows_late, sums(done)) == (1, [7.0])
    state = step(done.state, rows_of(("a", 1020, 1.0)), plans[30], store).state
    done = step(state, rows_of(("a", 990, 1.0)), plans[30], store)
    assert done.counts.rows_late == 0
