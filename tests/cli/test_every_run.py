"""``mta run --emit-every``: results every k events and every period, and what they refuse."""

import shlex

import pandas as pd
import pytest

from mta import EveryPeriod
from spark_integration.cli.expressions import parse_aggregation, parse_every
from spark_integration.cli.job import Job
from spark_integration.cli.run import _arguments
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from tests.support.console import mta

FIRST = pd.Timestamp("2025-01-01")
KEYS, MINUTES = ("a", "b"), 300


def write(path, start, stop):
    """A reading a minute of each key, half a minute past."""
    times = [FIRST + pd.Timedelta(minutes=at, seconds=30) for at in range(start, stop)]
    frames = [pd.DataFrame({"ts": times, "device": key}) for key in KEYS]
    rows = pd.concat(frame.assign(watts=range(start, stop)) for frame in frames)
    rows.to_csv(path, index=False)


def results_of(out):
    """Time, value and peak of key a, in order."""
    rows = pd.read_parquet(out / "results")
    rows = rows[rows["device"] == "a"].sort_values("ts")
    return [(row.ts.tz_localize(None), row.watts, row.peak) for row in rows.itertuples()]


def test_periods_then_counts(tmp_path, capsys):
    """Each reading is the largest so far, so that a peak tells the last event that was in."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", 0, MINUTES)
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--window",
               "2 hours", "--output", out)  # fmt: skip
    assert mta(*command, "--emit-every", "1 hour") == 0
    printed = capsys.readouterr().out
    assert "window    2 hours: peak=watts:max, every 1 hour" in printed
    assert (out / "plot.png").stat().st_size > 10_000
    hours = [(FIRST + pd.Timedelta(hours=at), 60.0 * at - 1) for at in range(1, 5)]
    found = results_of(out)
    assert [(time, peak) for time, _, peak in found] == hours  # 5:00 needs a later row
    assert all(pd.isna(watts) for _, watts, _ in found)

    write(source / "2.csv", MINUTES, 2 * MINUTES)  # the trigger may change between runs
    assert mta(*command, "--no-plot", "--emit-every", "250 events") == 0
    at = FIRST + pd.Timedelta(minutes=499, seconds=30)
    assert results_of(out)[4:] == [(at, 499.0, 499.0)]

    write(source / "3.csv", 2 * MINUTES, 2 * MINUTES + 3)
    assert mta(*command) == 0  # and be left out
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
    assert mta(*command) == 0
    write(source / "2.csv", 320, 350)
    assert mta(*command) == 0
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
def test_what_does_not_go_together(tmp_path, capsys, options, message):
    write(tmp_path / "1.csv", 0, 3)
    out = tmp_path / "out"
    assert mta("run", tmp_path / "1.csv", "--output", out, *shlex.split(options)) == 2
    assert message in capsys.readouterr().err
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
