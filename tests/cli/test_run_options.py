"""``mta run`` with triggers, idle keys and late rows, and the other commands on what it leaves."""

from __future__ import annotations

import re
import shlex

import pandas as pd
import pytest
import xxhash

from mta import EveryPeriod
from mta.cli.console import Exit
from spark_integration.cli.expressions import parse_aggregation, parse_every
from spark_integration.cli.job import Job
from spark_integration.cli.run import _arguments
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from stores import open_store
from tests.support.console import mta

FIRST_HOUR = pd.Timestamp("2025-01-01")
KEYS, MINUTES = ("a", "b"), 300


def write(path, start, stop):
    """A reading a minute of each key, half a minute past."""
    times = [FIRST_HOUR + pd.Timedelta(minutes=at, seconds=30) for at in range(start, stop)]
    frames = [pd.DataFrame({"ts": times, "device": key}) for key in KEYS]
    rows = pd.concat(frame.assign(watts=range(start, stop)) for frame in frames)
    rows.to_csv(path, index=False)


def results_of(out):
    """Time, value and peak of key a, in order."""
    rows = pd.read_parquet(out / "results")
    rows = rows[rows["device"] == "a"].sort_values("ts")
    return [(row.ts.tz_localize(None), row.watts, row.peak) for row in rows.itertuples()]


def test_periods_then_counts(tmp_path):
    """Each reading is the largest so far, so that a peak tells the last event that was in."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", 0, MINUTES)
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--window",
               "2 hours", "--output", out)  # fmt: skip
    printed = mta(*command, "--emit-every", "1 hour").out
    assert "window    2 hours: peak=watts:max, every 1 hour" in printed
    assert (out / "plot.png").stat().st_size > 10_000
    hours = [(FIRST_HOUR + pd.Timedelta(hours=at), 60.0 * at - 1) for at in range(1, 5)]
    found = results_of(out)
    assert [(time, peak) for time, _, peak in found] == hours  # 5:00 needs a later row
    assert all(pd.isna(watts) for _, watts, _ in found)

    write(source / "2.csv", MINUTES, 2 * MINUTES)  # the trigger may change between runs
    mta(*command, "--no-plot", "--emit-every", "250 events")
    at = FIRST_HOUR + pd.Timedelta(minutes=499, seconds=30)
    assert results_of(out)[4:] == [(at, 499.0, 499.0)]

    write(source / "3.csv", 2 * MINUTES, 2 * MINUTES + 3)
    mta(*command)  # and be left out
    assert [peak for _, _, peak in results_of(out)[5:]] == [600.0, 601.0, 602.0]


def test_counts_with_a_restart(tmp_path):
    """They go on where the first run has come to."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", 0, 125)
    query = "SELECT *, max(watts) OVER hours AS peak_hours, max(watts) OVER short AS peak_short "
    query += "FROM t WINDOW hours AS (PARTITION BY device ORDER BY ts ROWS 119 PRECEDING), "
    query += "short AS (PARTITION BY device ORDER BY ts ROWS 4 PRECEDING)"
    command = ("run", source, "--sql", query, "--output", out, "--emit-every", "20 events")
    mta(*command)
    write(source / "2.csv", 320, 350)
    mta(*command)
    rows = pd.read_parquet(out / "results")
    rows = rows[rows["device"] == "b"].sort_values("ts")
    assert rows["watts"].tolist() == [*range(19, 125, 20), 334]
    pd.testing.assert_series_equal(rows["peak_hours"], rows["peak_short"], check_names=False)


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("100 events", 100),
        ("100", 100),
        (" 2^10 rows", 1024),
        ("1 event", 1),
        (" 1 minute ", "1 minute"),
    ],
)
def test_every_as_text(text, every):
    assert parse_every(text) == every


def test_a_period_may_have_an_offset_and_a_zone():
    every = parse_every("1 day, offset 9h30m, zone America/New_York")
    wanted = EveryPeriod("1 day", offset="9h30m", zone="America/New_York")
    assert repr(every) == repr(wanted)


@pytest.mark.parametrize(
    "text",
    ["soon", "0", "0 events", "0 seconds", "-1 minute", "", "1 hour, zone Asia/Kolkata",
     "1 day, offset 2 days", "1 day, zone Mars", "1 day, closed left"],
)  # fmt: skip
def test_what_is_neither_a_period_nor_a_count(text):
    with pytest.raises(InvalidRequest, match=f"--emit-every {text!r}: write '1 minute'"):
        parse_every(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--emit-every '1 minute' --allowed-lateness '1 minute'",
         "--emit-every is a period, but with --allowed-lateness an event may come after"),
        ("--emit-every '1 minute' --idle emit", "--idle emit, but with a period for --emit-every"),
        ("--emit-every '9 events' --idle expire",
         "--emit-every '9 events', but with --idle expire"),
        ("--emit-every '9 events' --allowed-lateness '1 minute' --emit-updates",
         "--emit-updates, but with --emit-every most rows are never emitted"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tmp_path, options, message):
    write(tmp_path / "1.csv", 0, 3)
    out = tmp_path / "out"
    done = mta("run", tmp_path / "1.csv", "--output", out, *shlex.split(options), code=2)
    assert message in done.err
    assert not out.exists()


@pytest.mark.parametrize(("every", "lateness"), [("1 minute", None), ("100 events", "0 seconds")])
def test_what_goes_together(every, lateness):
    options = {"emit": "last", "idle": "expire", "window": "1 hour"}
    options["allowed_lateness"] = lateness
    options |= {"emit_every": every, "agg": ["watts:max"], "time": "ts", "value": ["watts"]}
    job = Job.from_options({"input": ["a.csv"], **options})
    assert (job.emit_every, job.emit, job.idle) == (every, "last", "expire")
    aggregations = [parse_aggregation(text, job.value) for text in job.agg]
    assert Options.of(**_arguments(job, aggregations)).emit == "last"


HOURS = 600


def write_events(path, unit, *events):
    rows = [(FIRST_HOUR + pd.Timedelta(at, unit), device, watts) for at, device, watts in events]
    pd.DataFrame(rows, columns=["ts", "device", "watts"]).to_csv(path, index=False)


def pages_of(out, device):
    """Those of the window that a device has by itself."""
    name = xxhash.xxh3_128_hexdigest(device.encode())
    with open_store(f"file://{out / 'pages'}") as store:
        return {key for key in store.keys("") if f":{name}/" in key}


def test_idle_keys_and_late_rows(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # "a" is heard of every minute for 50 hours; "b" once an hour, and to the end.
    long = [(minute, "a", minute % 7) for minute in range(50 * 60)]
    write_events(source / "1.csv", "min", *long, *((60 * h, "b", h) for h in range(HOURS)))
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--agg", "n=count",
               "--window", "48 hours", "--idle", "emit", "--on-late", "side",
               "--output", out)  # fmt: skip
    assert "--watermark 'soon'" in mta(*command, "--watermark", "soon", "--no-plot", code=2).err
    done = mta(*command, "--window", "9 events", code=2)
    assert "--idle emit, but time alone never empties a CountWindow(9)" in done.err
    printed = mta(*command).out
    assert re.search(r"windows +1 key, 48 events", printed)
    assert "late " not in printed
    assert (out / "plot.png").exists()

    waiting = pages_of(out, "a")
    assert waiting
    for _ in range(2):
        assert "unneeded  0 pages" in mta("gc", out, "--delete", "--grace", "1 ms").out
    mta("check", out)
    assert pages_of(out, "a") == waiting

    write_events(source / "2.csv", "h", (HOURS, "b", 1.0), (HOURS - 9, "b", 2.0), (60, "a", 3.0))
    done = mta(*command, "--no-plot", "--on-late", "raise", code=2)
    assert "--on-late was 'side' and is 'raise'" in done.err
    assert re.search(r"late +2 rows, marked", mta(*command, "--no-plot").out)
    assert pages_of(out, "a") == set()

    rows = pd.read_parquet(out / "results").set_index("ts").sort_index()
    assert rows[rows["late"]]["watts"].tolist() == [3.0, 2.0]
    assert rows[rows["late"]]["n"].isna().all()
    empty = rows[rows["n"] == 0]
    last = FIRST_HOUR + pd.Timedelta(hours=50) - pd.Timedelta(minutes=1)
    assert [(row.Index, row.device) for row in empty.itertuples()] == [
        ((last + pd.Timedelta(hours=48)).tz_localize(empty.index.tz), "a")
    ]
    assert empty["watts"].isna().all()
    assert len(rows) == len(long) + HOURS + 3 + 1


def results_in(out):
    rows = pd.concat(pd.read_parquet(path) for path in sorted((out / "results").glob("*.parquet")))
    return rows.sort_values(["ts", "corrected"] if "corrected" in rows else "ts")


def commands_work(out):
    printed = mta("inspect", out).out
    # Twice, as what is seen unneeded for the first time is never deleted.
    for _ in range(2):
        assert "unneeded  0 pages" in mta("gc", out, "--delete", "--grace", "1 ms").out
    assert "damaged   none" in mta("check", out).out
    return printed


def test_late_rows_with_corrections(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # 3,000 minutes, of which one is missing and comes later.
    write_events(source / "1.csv", "min", *((at, "a", at % 7) for at in range(3000) if at != 2990))
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--window", "48 hours",
               "--on-late", "drop", "--allowed-lateness", "20 minutes", "--emit-updates",
               "--output", out)  # fmt: skip
    mta(*command)
    write_events(source / "2.csv", "min", (2990, "a", 99.0), (2978, "a", 99.0))
    assert re.search(r"late +1 row, dropped", mta(*command).out)
    rows = results_in(out)
    again = rows[rows["corrected"]]
    assert len(rows) == 3000 + 9
    assert again["ts"].tolist() == [
        FIRST_HOUR + pd.Timedelta(minutes=at) for at in range(2991, 3000)
    ]
    assert set(again["peak"]) == {99.0}
    assert again["watts"].tolist() == [at % 7 for at in range(2991, 3000)]
    printed = commands_work(out)
    assert "by FiBA" in printed
    done = mta(*(each for each in command if each != "--emit-updates"), code=2)
    assert "--emit-updates was True and is False" in done.err
    done = mta(*command, "--allowed-lateness", "soon", "--overwrite", code=2)
    assert "--allowed-lateness soon: cannot read" in done.err


def test_a_query_of_several_windows(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write_events(source / "1.csv", "min", *((at, "a", at % 7) for at in range(3000)))
    query = """SELECT *, max(watts) OVER day AS peak, count(*) OVER hour AS n_hour,
               count(*) OVER day AS n_day FROM t
               WINDOW hour AS (PARTITION BY device ORDER BY ts RANGE INTERVAL 59 MINUTES PRECEDING),
               day AS (PARTITION BY device ORDER BY ts RANGE INTERVAL 1439 MINUTES PRECEDING)"""
    command = ("run", source, "--sql", query, "--ties", "rows", "--output", out)
    mta(*command)
    rows = results_in(out)
    assert list(rows.columns) == ["ts", "device", "watts", "peak", "n_hour", "n_day"]
    assert rows["n_hour"].tolist() == [min(at + 1, 60) for at in range(3000)]
    assert rows["n_day"].tolist() == [min(at + 1, 1440) for at in range(3000)]
    printed = commands_work(out)
    assert "frame     day=TimeWindow(" in printed
    assert re.search(r"^  day +1,440 +1,560 +3,000 +\d+$", printed, re.MULTILINE)
    assert re.search(r"^  hour +60 +2,940 +3,000 +\d+$", printed, re.MULTILINE)
    with open_store(f"file://{out / 'pages'}") as store:
        newest = max(store.keys(), key=lambda key: int(key.split("/")[2]))
        store.delete_many([newest])
    done = mta("check", out, code=Exit.DAMAGED)
    assert re.search(rf"page {newest} .*; in windows? day", done.out)
    assert "--sql was 'SELECT" in mta(*command, "--sql", query.replace("1439", "99"), code=2).err
