"""Windows by name in Spark: what bounds them may be a column that no aggregation reads."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Collect, Count, CountWindow, KeyedWindows, Product, SessionWindow
from mta.frames import ADWIN, DeltaWindow, Frame, PunctuationWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from tests.support.spark.events import START, write_files
from tests.support.spark.jobs import run_to_end

AGGREGATIONS: dict[str, Any] = {"all": ("n", Collect()), "count": (None, Count())}
FRAMES: dict[str, Frame] = {
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
    windows = KeyedWindows(Product(AGGREGATIONS), frames, store=None)
    found = windows.extend(events["car"], events, events["ts"])
    return {name: [list(one) for one in found[f"all_{name}"]] for name in frames}


@pytest.mark.proves("options", "session, delta and punctuation windows", "key by key", "a batch")
def test_a_batch(spark: SparkSession, store: str) -> None:
    events = drives(1, 240)
    expected = of_keyed(events, FRAMES)
    assert len(expected["adwin"][-1]) < 60  # it was cut where the load rose
    done = sliding_aggregate(
        spark.createDataFrame(events),
        by="car", on="ts", aggregations=AGGREGATIONS, window=FRAMES, store=store, buckets=2,
    ).collect()  # fmt: skip
    rows = {row["n"]: row for row in done}
    assert len(rows) == events.num_rows
    for name, windows in expected.items():
        found = [rows[n][f"all_{name}"] for n in range(len(rows))]
        assert found == windows
    assert rows[7]["km"] == events["km"][7].as_py()


def test_a_column_that_is_not_there(spark: SparkSession, store: str) -> None:
    given = spark.createDataFrame(drives(1, 5))
    settings: dict[str, Any] = {
        "by": "car", "on": "ts", "aggregations": AGGREGATIONS, "store": store,
    }  # fmt: skip
    with pytest.raises(InvalidRequest, match="window names column 'miles'"):
        sliding_aggregate(given, window=DeltaWindow(10, "miles"), **settings)
    with pytest.raises(InvalidRequest, match=r"window DeltaWindow.*cannot read column 'car'"):
        sliding_aggregate(given, window=DeltaWindow(10, "car"), **settings)


def test_a_stream_that_is_started_again(spark: SparkSession, store: str, tmp_path: Path) -> None:
    events = drives(2, 240)
    frame = FRAMES["session"] | FRAMES["punctuation"]
    expected = of_keyed(events, {"one": frame})["one"]
    found: dict[int, list[int]] = {}

    for part in range(2):
        write_files(events.slice(part * 120, 120), tmp_path / "in", 2, first=2 * part)
        stream = spark.readStream.schema("car string, ts timestamp, n bigint, km double, "
                                         "start boolean, load double")  # fmt: skip
        done = sliding_aggregate(
            stream.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in")),
            by="car", on="ts", aggregations=AGGREGATIONS, window=frame, store=store, buckets=1,
            idle="keep",
        )  # fmt: skip
        run_to_end(done, tmp_path / "cp", lambda rows, _: found.update(
            (row["n"], row["all"]) for row in rows.collect()
        ))  # fmt: skip
    assert [found[n] for n in range(240)] == expected
