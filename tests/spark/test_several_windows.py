"""Multiple windows in one call: each as if it were alone, over the pages of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Collect, Count, CountWindow, KeyedWindows, Product, SessionWindow, Sum, TimeWindow
from mta.audit import describe_snapshot
from mta.frames import ADWIN, BoundWindow, DeltaWindow, Frame, PunctuationWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores import PageStore
from stores.memory import MemoryStore
from tests.support.key_by_key import KeyByKey
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
from tests.support.spark.idle_cases import Stream, late_plan, out_of_order
from tests.support.spark.jobs import LateJob, as_found
from tests.support.spark.states import snapshots_of

WINDOWS: dict[str, tuple[Frame, Left]] = {
    "short": (TimeWindow(20), last_seconds(20)),
    "long": (TimeWindow(60), last_seconds(60)),
    "few": (CountWindow(7), last_n(7)),
}
ALIASES = ("all", "peak", "n")
TYPES = {"all": pa.list_(pa.float64()), "peak": pa.float64(), "n": pa.int64()}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def several_plan(windows: Mapping[str, Frame] | None = None, **changes: Any) -> Plan:
    frames = windows or {name: frame for name, (frame, _) in WINDOWS.items()}
    results = {f"{alias}_{name}": TYPES[alias] for alias, name in product(ALIASES, frames)}
    return late_plan(**{"window": frames, "results": results, "allowed_lateness": None, **changes})


def names_of(window: str) -> list[str]:
    return [f"{alias}_{window}" for alias in ALIASES]


def run(plan: Plan, store: PageStore, parts: Sequence[Sequence[Event]]) -> None:
    """Feed all parts, and compare each window with an oracle of its own."""
    lateness = plan.options.settings.lateness
    lateness = None if lateness is None else lateness / SECOND
    oracles = {name: Oracle(WINDOWS[name][1], lateness) for name in plan.options.windows}
    state, late = None, 0
    for seed, part in enumerate(parts):
        before, rows = state, shuffled(part, seed)
        done = step(state, rows, plan, store)
        state = done.state
        for name, oracle in oracles.items():
            expected = oracle.feed(part)
            assert in_form(done.rows, *names_of(name)) == expected.new
            assert done.counts.rows_late == len(expected.late)
        late += done.counts.rows_late
        again = step(before, shuffled(part, -seed % 99), plan, store)
        assert again.state == state
    assert late or lateness is None


@pytest.mark.parametrize("batches", [1, 5, 20])
@pytest.mark.proves("options", "multiple windows", "vectorized")
def test_each_window_is_as_though_it_were_alone(batches: int, store: MemoryStore) -> None:
    run(several_plan(), store, out_of_order(300, 3, 0.0, batches, batches))


@pytest.mark.parametrize("batches", [3, 20])
@pytest.mark.parametrize("names", [["short", "long"], ["few", "long"], list(WINDOWS)])
@pytest.mark.proves("options", "multiple windows", "late events")
def test_with_late_events(batches: int, names: list[str], store: MemoryStore) -> None:
    windows = {name: WINDOWS[name][0] for name in names}
    plan = several_plan(windows, allowed_lateness=25)
    run(plan, store, out_of_order(300, 2, 45.0, batches, batches))


@pytest.mark.proves("options", "multiple windows", "key by key")
def test_a_window_on_values_beside_one_of_time(store: MemoryStore) -> None:
    frames = {"sum": BoundWindow(("watts", Sum()), at_most=9), "long": TimeWindow(60)}
    plan = several_plan(frames)
    done = step(None, rows_of(*(("a", i, float(i)) for i in range(6))), plan, store)
    assert done.rows.column("n_sum").to_pylist() == [1, 2, 3, 4, 3, 2]
    assert done.rows.column("n_long").to_pylist() == [1, 2, 3, 4, 5, 6]


def test_pages_are_shared(store: MemoryStore) -> None:
    """Three windows write the pages that the longest alone does, where each key has its own."""
    peak = KeyByKey(float("-inf"), max, "peak")
    parts = {"all": ("watts", Collect()), "peak": ("watts", peak), "n": (None, Count())}
    monoid = Product(parts)
    events = rows_of(*(("a", float(i), float(i)) for i in range(1000)))
    alone = MemoryStore()
    step(None, events, several_plan({"long": TimeWindow(600)}, monoid=monoid), alone)
    frames = {"long": TimeWindow(600), "short": TimeWindow(60), "few": CountWindow(5)}
    state = step(None, events, several_plan(frames, monoid=monoid), store).state
    assert len(list(alone.keys())) > 100
    assert len(list(store.keys())) == len(list(alone.keys()))
    (window_snapshot,) = snapshots_of(state, store).values()
    summary = describe_snapshot(window_snapshot)
    assert (summary.snapshot_bytes, summary.pages > 100) == (len(window_snapshot), True)
    assert summary.frame.startswith("few=CountWindow(5), long=TimeWindow(")


@pytest.mark.parametrize("lateness", [None, 0])
def test_late_rows_are_marked(lateness: int | None, store: MemoryStore) -> None:
    plan = several_plan(on_late="side", allowed_lateness=lateness)
    state = step(None, rows_of(("a", 10, 1.0)), plan, store).state
    done = step(state, rows_of(("a", 9, 2.0), ("a", 11, 3.0)), plan, store)
    assert done.rows.column("late").to_pylist() == [False, True]
    assert done.rows.column("peak_few").to_pylist() == [3.0, None]
    assert done.rows.column_names[-1] == "late"


@pytest.mark.parametrize("lateness", [None, 5])
def test_an_idle_key_goes_when_its_longest_window_is_empty(lateness: int | None) -> None:
    store, wait = MemoryStore(), lateness or 0
    windows = {name: WINDOWS[name][0] for name in ("short", "long")}
    stream = Stream(several_plan(windows, idle="emit", allowed_lateness=lateness), store)
    stream.feed(rows_of(*(("a", float(i), float(i)) for i in range(50))))
    assert stream.others(49 + 60 + wait) is None
    done = stream.others(49.001 + 60 + wait)
    assert done is not None
    for name in windows:
        rows = in_form(done.rows, *names_of(name))
        assert rows == [("a", START + (49 + 60) * SECOND, None, [], None, 0)]
    assert list(store.keys())
    stream.others(1000)
    stream.others(1001)
    assert (stream.keys, stream.pending, list(store.keys())) == (set(), 0, [])


@pytest.mark.parametrize(
    ("kind", "lateness"), some([("file", "30 seconds"), ("state", None)], by_default=1)
)
def test_a_stream_with_a_restart(
    kind: str, lateness: str | None, spark: SparkSession, tmp_path: Path
) -> None:
    job = LateJob(spark, tmp_path)
    job.store = "spark://state" if kind == "state" else job.store
    windows = {name: frame for name, (frame, _) in WINDOWS.items()}
    parts = out_of_order(240, 3, 40.0 if lateness else 0.0, 5, 3)
    for written in (parts[:2], parts[2:]):
        job.write_batches(written)
        job.run(window=windows, allowed_lateness=lateness)
    for name, (_, left) in WINDOWS.items():
        oracle = Oracle(left, 30 if lateness else None)
        expected = [oracle.feed(part)._replace(again=[]) for part in parts]
        assert job.found(*names_of(name)) == as_found(expected)


@pytest.mark.proves("options", "multiple windows", "a batch")
def test_a_batch_query(spark: SparkSession, tmp_path: Path) -> None:
    job = LateJob(spark, tmp_path)
    windows = {name: frame for name, (frame, _) in WINDOWS.items()}
    (events,) = out_of_order(300, 3, 45.0, 3, 1)
    frame = spark.createDataFrame(shuffled(events, 1))
    settings = job.settings(window=windows, types={"n": "int"})
    results = sliding_aggregate(frame, **settings)
    columns = [f"{alias}_{name}" for alias in ALIASES for name in WINDOWS]
    assert results.columns == ["device", "ts", "watts", *columns]
    assert results.schema["n_few"].dataType.simpleString() == "int"
    job.batches[0] = results.collect()
    for name, (_, left) in WINDOWS.items():
        expected = Oracle(left, None).feed(events)
        assert job.found(*names_of(name)) == as_found([expected])
    assert job.pages() == set()


LISTED: dict[str, Any] = {"all": ("n", Collect()), "count": (None, Count())}
BY_VALUES: dict[str, Frame] = {
    "session": SessionWindow(5),
    "delta": DeltaWindow(10, "km"),
    "punctuation": PunctuationWindow("start", last=2) | CountWindow(9),
    "adwin": ADWIN(0.05, "load", clock=2),
}


def drives(seed: int, count: int = 400) -> pa.Table:
    random, rows = Random(seed), []
    now, km = START, 0.0
    for n in range(count):
        now += random.choice([1, 1, 2, 6]) * 1_000_000
        km += random.choice([0.5, 2.0, 7.0])
        load = random.random() / 5 + (n // 120 % 2) * 0.6
        car, start = random.choice("abc"), random.random() < 0.1
        rows.append({"car": car, "ts": now, "n": n, "km": km, "start": start, "load": load})
    table = pa.Table.from_pylist(rows)
    return table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))


def of_keyed(events: pa.Table, frames: dict[str, Frame]) -> dict[str, list[Any]]:
    """What ``KeyedWindows`` gives, whose own tests hold it to plain lists."""
    windows = KeyedWindows(Product(LISTED), frames, store=None)
    found = windows.extend(events["car"], events, events["ts"])
    return {name: [list(one) for one in found[f"all_{name}"]] for name in frames}


@pytest.mark.proves("options", "session, delta and punctuation windows", "key by key", "a batch")
def test_windows_by_columns_in_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    store, events = f"file://{tmp_path}/pages", drives(1, 240)
    expected = of_keyed(events, BY_VALUES)
    assert len(expected["adwin"][-1]) < 60  # it was cut where the load rose
    done = sliding_aggregate(
        spark.createDataFrame(events),
        by="car", on="ts", aggregations=LISTED, window=BY_VALUES, store=store, buckets=2,
    ).collect()  # fmt: skip
    rows = {row["n"]: row for row in done}
    assert len(rows) == events.num_rows
    for name, windows in expected.items():
        found = [rows[n][f"all_{name}"] for n in range(len(rows))]
        assert found == windows
    assert rows[7]["km"] == events["km"][7].as_py()


def test_a_column_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    given, store = spark.createDataFrame(drives(1, 5)), f"file://{tmp_path}/pages"
    settings: dict[str, Any] = {"by": "car", "on": "ts", "aggregations": LISTED, "store": store}
    with pytest.raises(InvalidRequest, match="window names column 'miles'"):
        sliding_aggregate(given, window=DeltaWindow(10, "miles"), **settings)
    with pytest.raises(InvalidRequest, match=r"window DeltaWindow.*cannot read column 'car'"):
        sliding_aggregate(given, window=DeltaWindow(10, "car"), **settings)
