"""Questions in Spark: among the rows of a stream (``asks``), and as another DataFrame (``at``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from mta import Count, CountWindow, Max, Product, Sum, TimeWindow
from mta.errors import LateEvent
from mta.frames import BoundWindow
from mta.monoids.product import skip_nulls
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.support.spark.jobs import run_to_end
from tests.support.spark.states import make_plan

START = 1_700_000_000
SCHEMA = pa.schema(
    {"device": pa.string(), "ts": pa.timestamp("us", "UTC"), "watts": pa.float64(),
     "asks": pa.bool_()}
)  # fmt: skip
AGGREGATIONS = {"peak": ("watts", Max()), "sum": ("watts", Sum()), "n": Count()}
Event = tuple[str, int, float | None, bool | None]  # device, second, watts, whether it asks


def rows_of(seed: int, count: int = 300, old: int = 0) -> list[Event]:
    """One row a second; questions are old by up to so much, and have no value."""
    random, found = np.random.default_rng(seed), list[Event]()
    for second in range(count):
        asks = bool(random.random() < 0.4)
        time = second - int(random.integers(0, old + 1)) if asks else second
        watts = None if asks else float(random.integers(0, 50))
        found.append((f"d{random.integers(0, 5)}", time, watts, asks or [None, False][second % 2]))
    return found


def table(rows: list[Event]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[1] = [(START + second) * 1_000_000 for second in columns[1]]
    return pa.table(columns, names=SCHEMA.names).cast(SCHEMA)


def expected(rows: list[Event], size: int = 10, until: int | None = None) -> list[tuple[Any, ...]]:
    """Each row with peak, sum and number of the events of its device in the seconds before it."""
    found = []
    for place, (device, moment, watts, asks) in enumerate(rows):
        events = rows[: place + 1] if until is None else rows
        held = [
            w for d, t, w, other in events
            if d == device and not other and w is not None and moment - size < t <= moment
        ]  # fmt: skip
        some = (max(held), sum(held)) if held else (None, None)
        found.append((device, moment, watts, bool(asks), *some, len(held)))
    return sorted(found, key=str)


def in_form(results: pa.Table | list[Row]) -> list[tuple[Any, ...]]:
    rows = results.to_pylist() if isinstance(results, pa.Table) else [r.asDict() for r in results]
    return sorted(
        (
            (
                row["device"], round(row["ts"].timestamp()) - START, row["watts"],
                bool(row["asks"]), row["peak"], row["sum"], row["n"],
            )
            for row in rows
        ),
        key=str,
    )  # fmt: skip


def plan_of(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "monoid": Product(AGGREGATIONS).with_parts(skip_nulls()),
        "window": TimeWindow(10), "asks": "asks",
        "results": {"peak": pa.float64(), "sum": pa.float64(), "n": pa.int64()},
        "columns": SCHEMA.names, "schema": SCHEMA,
    }  # fmt: skip
    return make_plan(**{**settings, **changes})


@pytest.mark.parametrize("old", [0, 30])
def test_a_stream_answers_alike_in_any_cut(old: int) -> None:
    rows, random = rows_of(1, old=old), np.random.default_rng(2)
    plan = plan_of(retain_for=f"{old + 1} seconds") if old else plan_of()
    for parts in (1, 3, 60):
        cuts = sorted(random.choice(np.arange(1, len(rows)), parts - 1, replace=False).tolist())
        state, store, found = None, MemoryStore(), []
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            batch = table(rows[start:stop])
            batch = batch.take(random.permutation(batch.num_rows))
            done = step(state, batch, plan, store)
            assert done.counts.rows_read == stop - start
            assert done.counts.rows_dropped == done.counts.rows_invalid == 0
            state = done.state  # as restored from a checkpoint
            found += in_form(done.rows)
        assert sorted(found, key=str) == expected(rows)


def test_a_question_that_is_too_old_is_a_late_row() -> None:
    events: list[Event] = [("a", second, 1.0, False) for second in range(0, 100, 2)]
    asked: list[Event] = [("a", 78, None, True), ("a", 60, None, True)]
    for on_late in ("raise", "drop", "side"):
        plan, store = plan_of(retain_for=20, on_late=on_late), MemoryStore()
        state = step(None, table(events), plan, store).state
        if on_late == "raise":
            with pytest.raises(LateEvent, match="retain_for"):
                step(state, table(asked), plan, store)
            continue
        done = step(state, table(asked), plan, store)
        assert done.counts.rows_late == 1
        rows = done.rows.to_pylist()
        assert (rows[0]["n"], rows[0]["sum"]) == (5, 5.0)
        assert [row["n"] for row in rows[1:]] == ([None] if on_late == "side" else [])


def test_the_last_result_of_a_key_goes_with_all_its_answers() -> None:
    rows = rows_of(4, 40)
    done = step(None, table(rows), plan_of(emit="last"), MemoryStore())
    last = {device: second for device, second, _, asks in rows if not asks}
    wanted = [r for r in expected(rows) if r[3] or last[r[0]] == r[1]]
    assert in_form(done.rows) == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"emit_every": 5}, "emit_every is 5: with questions"),
        ({"retractions": "undo", "allowed_lateness": 0}, "retractions is 'undo'"),
        ({"emit_updates": True, "allowed_lateness": 60}, "emit_updates is True"),
        ({"window": BoundWindow(("watts", Sum()), at_most=9)}, "looks at values"),
        ({"asks": "device"}, "a separate column of booleans"),
        ({"asks": None, "retain_for": 60}, "there are no questions"),
        ({"retain_for": "soon"}, "retain_for is 'soon': cannot read 'soon'"),
    ],
)
@pytest.mark.refuses("asking", "questions in the stream (`asks=`)", "periodic")
def test_what_does_not_go_with_questions_is_named(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {
        "by": "device", "on": "ts", "aggregations": AGGREGATIONS, "window": TimeWindow(10),
        "asks": "asks",
    }  # fmt: skip
    with pytest.raises(InvalidRequest, match=message):
        Options.of(**{**settings, **changes})


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    schema = "device string, ts timestamp, watts double, asks boolean"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder / "input"))


@pytest.mark.refuses("asking", "as of any moment (`at=`)", "a stream")
@pytest.mark.proves("asking", "questions in the stream (`asks=`)", "a stream")
def test_a_query_answers_the_questions_of_its_topic(spark: SparkSession, tmp_path: Path) -> None:
    rows, found = rows_of(6, 60, old=5), list[Row]()
    (tmp_path / "input").mkdir()
    for part in range(2):
        frame = spark.createDataFrame(table(rows[30 * part : 30 * part + 30]).to_pandas())
        frame = frame.withColumn("asks", F.col("asks").cast("boolean"))
        frame.toPandas().to_json(
            tmp_path / "input" / f"{part}.json", orient="records", lines=True, date_format="iso"
        )
        results = sliding_aggregate(
            stream(spark, tmp_path), by="device", on="ts", aggregations=AGGREGATIONS,
            window=TimeWindow(10), asks="asks", retain_for="1 minute", buckets=2,
            store=f"file://{tmp_path}/pages",
        )  # fmt: skip
        # Restarted for each file.
        run_to_end(results, tmp_path / "cp", lambda frame, _: found.extend(frame.collect()))
    assert in_form(found) == expected(rows)
    with pytest.raises(InvalidRequest, match="mark them in a column of booleans, and name that"):
        sliding_aggregate(
            stream(spark, tmp_path), at=stream(spark, tmp_path), by="device", on="ts",
            aggregations=AGGREGATIONS, window=TimeWindow(10),
        )  # fmt: skip


@pytest.mark.proves("asking", "as of any moment (`at=`)", "a batch")
def test_a_batch_answers_the_rows_of_another_dataframe(spark: SparkSession) -> None:
    rows = [row for row in rows_of(8, old=200) if row[2] is not None or row[3]]
    events = [row for row in rows if not row[3]]
    asked = [row for row in rows if row[3]]
    df = spark.createDataFrame(table(events).drop(["asks"]))
    label = [f"question {place}" for place in range(len(asked))]
    at = spark.createDataFrame(
        table(asked).select(["device", "ts", "asks"]).append_column("watts", pa.array(label))
    )
    given: dict[str, Any] = {"by": "device", "on": "ts", "aggregations": AGGREGATIONS}
    for size, window in ((10, TimeWindow(10)), (10_000, CountWindow(1 << 20))):
        results = sliding_aggregate(df, at=at, window=window, **given)
        assert results.columns == ["device", "ts", "asks", "watts", "peak", "sum", "n"]
        found = results.collect()
        assert sorted(row.watts for row in found) == sorted(label)
        wanted = [(*row[:2], None, *row[3:]) for row in expected(rows, size, until=0) if row[3]]
        without = [Row(**{**row.asDict(), "watts": None}) for row in found]
        assert in_form(without) == sorted(wanted, key=str)
    with pytest.raises(InvalidRequest, match="'device' is string in the events and int in at="):
        wrong = at.withColumn("device", F.lit(1))
        sliding_aggregate(df, at=wrong, window=TimeWindow(10), **given)
    with pytest.raises(InvalidRequest, match="asks= are both given"):
        sliding_aggregate(df, at=at, asks="asks", window=TimeWindow(10), **given)
    with pytest.raises(InvalidRequest, match="the name of a column of at="):
        named = at.withColumn("peak", F.lit(1))
        sliding_aggregate(df, at=named, window=TimeWindow(10), **given)
    with pytest.raises(InvalidRequest, match="the DataFrame of questions: on names column 'ts'"):
        sliding_aggregate(df, at=at.drop("ts"), window=TimeWindow(10), **given)
    with pytest.raises(InvalidRequest, match=r"at= is given, but .* leave exclude_current out"):
        last = CountWindow(3, exclude_current=True)
        sliding_aggregate(df, at=at, window=last, **given)
