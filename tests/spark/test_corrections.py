"""Rows that replace, join and take out others: the step against lists, and a real Spark."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Product, Sum, TimeWindow
from mta.errors import NoSuchEvent
from spark_integration import sliding_aggregate
from spark_integration.errors import StateMismatch
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores import MemoryStore
from tests.support.sampling import parts
from tests.support.spark.jobs import run_to_end
from tests.support.spark.states import make_plan

SECOND = 10**6
#: Device, time, value, and whether the row takes one out.
Row = tuple[str, int, float | None, bool]


def plan_of(duplicates: Any, **changes: Any) -> Plan:
    schema = pa.schema(
        [("device", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("watts", pa.float64()),
         ("undo", pa.bool_())]
    )  # fmt: skip
    settings: dict[str, Any] = {
        "monoid": Product({"sum": ("watts", Sum())}), "results": {"sum": pa.float64()},
        "window": TimeWindow(20), "allowed_lateness": 1000, "emit_updates": True,
        "columns": ("device", "ts", "watts", "undo"), "schema": schema, "on_duplicate": duplicates,
        "retractions": "undo", "on_late": "drop", "on_missing": "drop",
    }  # fmt: skip
    return make_plan(**{**settings, **changes})


def table_of(rows: list[Row], plan: Plan) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    times = pa.array(np.array(columns[1], "i8") * SECOND).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        [pa.array(columns[0], pa.string()), times, pa.array(columns[2], pa.float64()),
         pa.array(columns[3], pa.bool_())],
        schema=plan.schema,
    )  # fmt: skip


class Lists:
    """Each device's events in order of time, and what a reader of the results knows of them."""

    def __init__(self, duplicates: Any, size: int) -> None:
        self.duplicates, self.size = duplicates, size
        self.events: dict[str, list[tuple[int, float]]] = {}

    def feed(self, rows: list[Row]) -> int:
        """Take a batch in; how many retractions find nothing."""
        missing = 0
        for device, time in sorted({row[:2] for row in rows}):
            mine = [row for row in rows if row[:2] == (device, time)]
            retractions = sum(bool(row[3]) for row in mine)
            known = self.events.setdefault(device, [])
            there = [event for event in known if event[0] == time]
            first = min(retractions, len(there))
            there = there[: len(there) - first]
            for value in sorted(row[2] or 0.0 for row in mine if not row[3]):
                if there and self.duplicates != "append":
                    older = there.pop()[1]
                    value += older if self.duplicates == "combine" else 0.0
                there.append((time, value))
            gone = min(retractions - first, len(there))
            there = there[: len(there) - gone]
            missing += retractions - first - gone
            known[:] = sorted([event for event in known if event[0] != time] + there,
                              key=lambda event: event[0])  # fmt: skip
        return missing

    def results(self) -> dict[tuple[str, int], float]:
        """The result of the last event of each time."""
        return {
            (device, time): sum(v for t, v in events[: at + 1] if t > time - self.size)
            for device, events in self.events.items()
            for at, (time, _) in enumerate(events)
        }


def draw(random: Random, now: int, known: Lists) -> list[Row]:
    rows: list[Row] = []
    for _ in range(random.choice([1, 5, 30])):
        device = random.choice("abc")
        events = known.events.get(device)
        if random.random() < 0.3 and events:
            time = random.choice(events)[0] + random.choice([0, 0, 0, 0, 1])
            rows.append((device, time, random.choice([None, 7.0]), True))
        else:
            value = float(random.randrange(1000))
            rows.append((device, now - random.randrange(40), value, random.choice([False, False])))
            if random.random() < 0.1:
                rows.append((*rows[-1][:3], True))
    return rows


@pytest.mark.parametrize("part", parts(3))
@pytest.mark.parametrize("duplicates", ["append", "replace", "combine"])
def test_a_reader_of_the_results_has_them_all(duplicates: Any, part: int) -> None:
    """The newest row of each time is what holds, through replays in any order."""
    for seed in range(part, 6, 3):
        random, store, plan = Random(f"{duplicates} {seed}"), MemoryStore(), plan_of(duplicates)
        lists, state, reader = Lists(duplicates, 20), None, dict[tuple[str, int], float]()
        times = dict[tuple[str, int], int]()
        for number in range(12):
            rows = draw(random, 100 + 10 * number, lists)
            missing = lists.feed(rows)
            given = table_of(rows, plan)
            done = step(state, given, plan, store)
            twin = given.take(np.random.default_rng(seed).permutation(given.num_rows))
            again = step(state, twin, plan, store)
            assert again.state == done.state and again.rows.equals(done.rows)
            assert done.counts.rows_missing == missing == done.counts.rows_dropped
            state = done.state
            taken = [row for row in done.rows.to_pylist() if row["undo"]]
            assert len(taken) == sum(bool(row[3]) for row in rows) - missing
            assert all(row["sum"] is None and not row["corrected"] for row in taken)
            for row in [*taken, *(r for r in done.rows.to_pylist() if not r["undo"])]:
                at = row["device"], round(row["ts"].timestamp())
                if row["undo"]:
                    reader.pop(at, None)
            fresh = [row for row in done.rows.to_pylist() if not row["undo"]]
            for row in sorted(fresh, key=lambda row: row["corrected"]):
                reader[row["device"], round(row["ts"].timestamp())] = row["sum"]
            counts = lists.results()
            for at in reader.keys() - counts.keys():
                del reader[at]  # retracted by its own batch
            for row in rows:
                if not row[3]:
                    times[row[:2]] = times.get(row[:2], 0) + 1
            if duplicates == "append":  # of several at a time a reader cannot tell which one went
                counts = {at: result for at, result in counts.items() if times[at] == 1}
                assert {at: reader[at] for at in counts} == counts, (seed, number)
            else:
                assert reader == counts, (seed, number)


def test_what_finds_nothing_may_stop_the_query() -> None:
    plan, store = plan_of("append", on_missing="raise"), MemoryStore()
    state = step(None, table_of([("a", 10, 1.0, False)], plan), plan, store).state
    with pytest.raises(NoSuchEvent, match=r"1 of \d+ retractions .* key 'a', time 1970"):
        step(state, table_of([("a", 11, None, True)], plan), plan, store)
    done = step(state, table_of([("a", 10, None, True)], plan), plan, store)
    assert done.rows.column("sum").to_pylist() == [None]
    with pytest.raises(StateMismatch, match="existing events"):
        step(state, table_of([], plan), plan_of("replace"), store)


def test_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A stream of corrections with a restart, and a batch query, against lists."""
    random, lists = Random(4), Lists("replace", 20)
    plan = plan_of("replace")
    every: list[Row] = []
    schema = "device string, ts timestamp, watts double, undo boolean"

    def asked(frame: Any, **more: Any) -> Any:
        return sliding_aggregate(
            frame, by="device", on="ts", aggregations={"sum": ("watts", Sum())},
            window=TimeWindow(20), store=f"file://{tmp_path}/pages", allowed_lateness="1 hour",
            on_duplicate="replace", retractions="undo", on_missing="drop", buckets=2, **more,
        )  # fmt: skip

    for number in range(3):
        rows = draw(random, 100 + 10 * number, lists)
        lists.feed(rows)
        every += rows
        frame = spark.createDataFrame(table_of(rows, plan).to_pandas(), schema)
        frame.coalesce(1).write.mode("append").parquet(f"{tmp_path}/in")
        stream = spark.readStream.schema(schema).parquet(f"{tmp_path}/in")
        results = asked(stream, emit_updates=True)
        run_to_end(results, tmp_path / "checkpoint", path=tmp_path / "out")
    found = spark.read.parquet(f"{tmp_path}/out").collect()
    taken = sum(bool(row.undo) for row in found)
    assert 0 < taken <= sum(bool(row[3]) for row in every)
    assert all((row["sum"] is None) == bool(row.undo) for row in found)
    results = {(row.device, round(row.ts.timestamp()), row["sum"]) for row in found}
    for (device, time), value in lists.results().items():
        assert (device, time, value) in results
    frame = spark.createDataFrame(table_of(every, plan).to_pandas(), schema)
    once = Lists("replace", 20)
    once.feed(every)
    batch = {(r.device, round(r.ts.timestamp()), r["sum"]) for r in asked(frame).collect()}
    for (device, time), value in once.results().items():
        assert (device, time, value) in batch
