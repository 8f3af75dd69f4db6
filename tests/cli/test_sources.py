import os
import re
from typing import Any

import pandas as pd
import pytest

from mta.cli import main
from spark_integration.cli.job import Job
from spark_integration.cli.readers import CHUNK_CELLS, read_chunks
from spark_integration.cli.sources import (
    Batching,
    guess_job,
    open_source,
    plan_batches,
    resolve_columns,
)
from spark_integration.cli.stream import read_input
from spark_integration.errors import InvalidRequest
from tests.support.patience import in_time


def readings(hour=0, rows=4):
    times = pd.date_range("2025-01-01", periods=rows, freq="min") + pd.Timedelta(hours=hour)
    return pd.DataFrame({"ts": times, "device": "a", "watts": range(rows), "note": "x"})


def job_for(*paths, **options):
    return Job(input=tuple(map(str, paths)), **options)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "a.csv"
    readings().to_csv(path, index=False)
    return path


def test_columns_are_guessed_by_name_and_type(csv):
    job = resolve_columns(job_for(csv, key="device"), open_source(job_for(csv)))
    assert (job.time, job.value) == ("ts", ("watts",))
    assert job.agg == ("watts_max=watts:max", "watts_mean=watts:mean")


@pytest.mark.parametrize(
    ("agg", "value", "resolved"),
    [
        (("s=sum",), ("watts",), ("s=watts:sum",)),
        (("s=sum", "n=count"), ("watts",), ("s=watts:sum", "n=count")),
        (("n=count",), (), ("n=count",)),
        (("n=note:count",), (), ("n=note:count",)),
    ],
)
def test_only_an_aggregation_that_names_no_column_has_it_guessed(csv, agg, value, resolved):
    job = job_for(csv, key="device", agg=agg)
    job = resolve_columns(job, open_source(job))
    assert (job.value, job.agg) == (value, resolved)


def test_the_demo_guesses_the_key_too(csv):
    job = guess_job(job_for(csv), open_source(job_for(csv)))
    assert (job.key, job.time, job.value) == ("device", "ts", ("watts",))


def test_the_demo_finds_a_time_of_any_name(tmp_path):
    path = tmp_path / "a.csv"
    readings()[["ts", "watts"]].set_axis(["taken", "x"], axis=1).to_csv(path, index=False)
    job = guess_job(job_for(path), open_source(job_for(path)))
    assert (job.key, job.time, job.value) == (None, "taken", ("x",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "meter"}, "--key 'meter': the columns are 'ts', 'device', 'watts', 'note'"),
        ({"time": "when"}, "--time 'when': the columns are"),
        ({"agg": ("volts:max",)}, "--value 'volts': the columns are"),
        ({"carry": ("place",)}, "--carry 'place': the columns are"),
        ({"value": ("note",)}, "--value 'note' contains 'x', not numbers: a query with --sql"),
        ({"agg": ("watts=watts:max",)}, "several columns watts"),
        ({"agg": ("watts:max", "watts:max")}, "several columns watts_max"),
    ],
)
def test_bad_columns(csv, options, message):
    job = job_for(csv, **options)
    with pytest.raises(InvalidRequest, match=message):
        resolve_columns(job, open_source(job))


DATES = "ts,watts\n2025-12-31 10:00,1\n31/12/2025 10:00,1\n"
UNITS = "ts,watts\n1700000000,1\n1700000000000,2\n"
NAMED = {"time": "ts", "value": ("watts",)}
#: What is in a file, the options, what the error says, and an option with which it is read.
UNCLEAR: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("a,b,c\n1,2,3\n", {}, "column with --time; the columns are 'a', 'b', 'c'", {"time": "a"}),
    ("a,b,c\n1,2,3\n", {"time": "a"}, "choose a column with --value", {"value": ("b",)}),
    (DATES, NAMED, "contains '31/12/2025 10:00'.*--time-format", {"on_invalid": "drop"}),
    (UNITS, NAMED, "from 1700000000 to 1700000000000.*--time-unit", {"time_unit": "ms"}),
    *(
        (f"ts,watts\n{at},1\n", {}, f"contains '{at}'.*--time-format.*yyyyMMdd",
         {"time_format": "yyyyMMdd"})
        for at in ("20251231", "20251231100000")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "options", "message", "more"), UNCLEAR)
def test_what_cannot_be_guessed_is_asked_for(tmp_path, content, options, message, more):
    path = tmp_path / "a.csv"
    path.write_text(content)
    job = job_for(path, **options)
    with pytest.raises(InvalidRequest, match=message):
        resolve_columns(job, open_source(job))
    if more == {"time": "a"}:
        return  # it has no value either
    more = job.replace(**more)
    found = resolve_columns(more, open_source(more)).time_unit
    assert found == (more.time_unit or found)


#: What exports of spreadsheets contain: the content, what the error says about it, and the options
#: with which the file is read (none if the file must be changed).
EXPORTS = {
    "currency signs": (
        'Order Date,Store,Amount (USD)\n2024-01-15,Oslo,"$2.67"\n',
        r"choose a column with --value; the columns are .*'Amount \(USD\)' contains '\$2.67': "
        "write numbers without currency signs",
        None,
    ),
    "separators of thousands": (
        'ts,amount\n2024-01-15,"1,234.50"\n2024-01-16,"1,000.5"\n2024-01-17,"2,000"\n',
        "--value 'amount' contains '1,234.50', not numbers: write numbers without",
        None,
    ),
    "semicolons": (
        "ts;watts\n2024-01-15;1\n",
        "the header is one cell, 'ts;watts': give --delimiter ';'",
        {"delimiter": ";"},
    ),
    "decimal commas": (
        "ts;watts\n2024-01-15;20,97\n",
        "--value 'watts' contains '20,97', not numbers: give --decimal ','",
        {"delimiter": ";", "decimal": ","},
    ),
    "decimal commas in a column that is not named": (
        "ts;x\n2024-01-15;20,97\n",
        "choose a column with --value; .*'x' contains '20,97': give --decimal ','",
        {"delimiter": ";", "decimal": ","},
    ),
    "days first": (
        "ts,watts\n31/12/2024 9:30,1\n",
        "--time 'ts' contains '31/12/2024 9:30': give --time-format 'd/M/yyyy H:mm'$",
        {"time_format": "d/M/yyyy H:mm"},
    ),
    "days or months first": (
        "ts,watts\n1/2/2024,1\n",
        "give --time-format 'd/M/yyyy' or 'M/d/yyyy'$",
        {"time_format": "M/d/yyyy"},
    ),
    "half a day": (
        "ts,watts\n\"Jan 15, 2024, 3:07 PM\",1\n",
        "give --time-format 'MMM d, yyyy, h:mm a'$",
        {"time_format": "MMM d, yyyy, h:mm a"},
    ),
    "times in a column that is not named": (
        "Bought,watts\n15.01.2024,1\n",
        "column with --time; .*'15.01.2024': give --time 'Bought' --time-format 'd.M.yyyy'",
        {"time": "Bought", "time_format": "d.M.yyyy"},
    ),
    "blanks in the header": (
        "device, ts, watts\na,2024-01-15,1\n",
        "the columns are 'device', ' ts', ' watts'",
        {"time": " ts", "value": (" watts",)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("suffix", ["csv", "CSV"])
def test_what_a_spreadsheet_exports_is_read_or_explained(tmp_path, capsys, spark, name, suffix):
    content, message, options = EXPORTS[name]
    path = tmp_path / f"Export.{suffix}"
    path.write_text(content)
    known = {"delimiter": ";"} if (options or {}).get("decimal") else {}
    given = [f"--{option}={value}" for option, value in known.items()]
    assert main(["demo", "--data", str(path), "--output", str(tmp_path / "out"), *given]) == 2
    assert re.search(message, capsys.readouterr().err)
    if options is not None:
        job = job_for(path, **options)
        job = resolve_columns(job, open_source(job))
        (row,) = read_input(spark, job, open_source(job)).select(job.time, job.value[0]).collect()
        assert row[0].year == 2024
        assert row[1] == (20.97 if known else 1)


def test_a_table_of_many_columns_is_read_in_linear_time_and_bounded_memory(tmp_path):
    width = 100_000
    path = tmp_path / "a.csv"
    row = "2024-01-15,3" + ",7" * width + "\n"
    path.write_text("ts,watts," + ",".join(f"c{at}" for at in range(width)) + "\n" + row * 50)
    job = job_for(path, value=("watts",))
    with in_time():  # quadratic, it takes minutes
        source = open_source(job)
        assert resolve_columns(job, source).time == "ts"
    assert len(source.sample) == CHUNK_CELLS // (width + 2)
    assert sum(len(chunk.rows) for chunk in read_chunks(path, source.layout, ["watts"])) == 50
    with pytest.raises(InvalidRequest) as caught:
        resolve_columns(job.replace(key="meter"), source)
    assert len(str(caught.value)) < 500 and "and 99,972 more" in str(caught.value)


def test_no_usable_input(tmp_path):
    with pytest.raises(InvalidRequest, match="there is no file or folder"):
        open_source(job_for(tmp_path / "none"))
    with pytest.raises(InvalidRequest, match="no CSV, JSON or Parquet file in"):
        open_source(job_for(tmp_path))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidRequest, match=r"format of notes.txt"):
        open_source(job_for(tmp_path / "notes.txt"))
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(InvalidRequest, match="cannot be read as parquet"):
        open_source(job_for(tmp_path))
    (tmp_path / "b.csv").touch()
    with pytest.raises(InvalidRequest, match="csv and parquet files: choose one format with"):
        open_source(job_for(tmp_path))
    with pytest.raises(InvalidRequest, match="cannot be read as csv"):
        open_source(job_for(tmp_path, format="csv"))


def test_partition_folders_are_columns(tmp_path):
    (tmp_path / "device=7").mkdir()
    readings()[["ts", "watts"]].to_parquet(tmp_path / "device=7" / "a.parquet")
    assert open_source(job_for(tmp_path)).columns == ["ts", "watts", "device"]


def write(folder, fmt, hours, rows=400_000):
    """One file per hour given, written, as their modification times say, in this order."""
    for number, hour in enumerate(hours):
        path = folder / f"{number}.{fmt}"
        sample = readings(hour)
        if fmt == "parquet":
            sample.to_parquet(path)
        elif fmt == "csv":
            sample.to_csv(path, index=False)
        else:
            sample.to_json(path, orient="records", lines=True, date_format="iso")
        os.utime(path, (1e9 + number, 1e9 + number))


@pytest.mark.parametrize("fmt", ["csv", "json", "parquet"])
@pytest.mark.parametrize(
    ("hours", "expected"),
    [((0, 1, 2, 3), Batching(2)), ((0, 2, 1, 3), Batching(4, True)), ((0, 0), Batching(2))],
)
def test_files_out_of_order_are_read_in_one_batch(tmp_path, monkeypatch, fmt, hours, expected):
    monkeypatch.setattr("spark_integration.cli.sources.ROWS_PER_BATCH", 8)
    write(tmp_path, fmt, hours)
    job = job_for(tmp_path, time="ts")
    assert plan_batches(job, open_source(job)) == expected


def test_the_number_of_files_can_be_set(tmp_path):
    write(tmp_path, "csv", (3, 1))
    job = job_for(tmp_path, time="ts", files_per_batch=1)
    assert plan_batches(job, open_source(job)) == Batching(1)


@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_the_unit_of_times_that_are_numbers_is_guessed_or_stated(tmp_path, unit, ticks):
    path = tmp_path / "a.csv"
    path.write_text(f"ts,watts\n{1_700_000_000 * ticks},1\n{1_700_000_060 * ticks},2\n")
    job = job_for(path, time="ts", value=("watts",))
    assert resolve_columns(job, open_source(job)).time_unit == unit
    stated = job.replace(time_unit="us")
    assert resolve_columns(stated, open_source(stated)).time_unit == "us"


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("fmt", ["csv", "parquet"])
def test_times_that_are_numbers_are_read_in_their_unit(tmp_path, spark, fmt, unit, ticks, stated):
    path = tmp_path / f"a.{fmt}"
    frame = pd.DataFrame({"ts": [1_700_000_000 * ticks], "watts": [1.0]})
    frame.to_parquet(path) if fmt == "parquet" else frame.to_csv(path, index=False)
    job = job_for(path, time="ts", value=("watts",), time_unit=unit if stated else None)
    source = open_source(job)
    rows = read_input(spark, resolve_columns(job, source), source).selectExpr("unix_micros(ts)")
    assert [row[0] for row in rows.collect()] == [1_700_000_000_000_000]
