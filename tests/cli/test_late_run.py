"""``mta run`` with late rows and multiple windows, and what the other commands make of it."""

import re

import pandas as pd
import pytest

import mta as windows_of_mta
from mta.cli import main
from mta.cli.console import Exit
from spark_integration.cli.expressions import parse_aggregation, parse_windows
from spark_integration.cli.job import Job, read_job
from spark_integration.cli.run import over_windows
from spark_integration.errors import InvalidRequest
from stores import open_store

FIRST = pd.Timestamp("2025-01-01")


def mta(*arguments):
    return main([str(argument) for argument in arguments])


def write(path, *events):
    rows = [(FIRST + pd.Timedelta(minutes=at), device, watts) for at, device, watts in events]
    pd.DataFrame(rows, columns=["ts", "device", "watts"]).to_csv(path, index=False)


def results_of(out):
    rows = pd.concat(pd.read_parquet(path) for path in sorted((out / "results").glob("*.parquet")))
    return rows.sort_values(["ts", "corrected"] if "corrected" in rows else "ts")


def commands_work(out, capsys):
    capsys.readouterr()
    assert mta("inspect", out) == 0
    printed = capsys.readouterr().out
    # Twice, as what is seen unneeded for the first time is never deleted.
    for _ in range(2):
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert re.search(r"unneeded +0 pages", capsys.readouterr().out)
    assert mta("check", out) == 0
    assert "damaged   none" in capsys.readouterr().out
    return printed


def test_late_rows_with_corrections(tmp_path, capsys):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # 3,000 minutes, of which one is missing and comes later.
    write(source / "1.csv", *((at, "a", at % 7) for at in range(3000) if at != 2990))
    command = ("run", source, "--key", "device", "--agg", "peak=max(watts)", "--window", "48 hours",
               "--on-late", "drop", "--allowed-lateness", "20 minutes", "--emit-updates",
               "--output", out)  # fmt: skip
    assert mta(*command) == 0
    write(source / "2.csv", (2990, "a", 99.0), (2978, "a", 99.0))
    assert mta(*command) == 0
    assert re.search(r"late +1 row, dropped", capsys.readouterr().out)
    rows = results_of(out)
    again = rows[rows["corrected"]]
    assert len(rows) == 3000 + 9
    assert again["ts"].tolist() == [FIRST + pd.Timedelta(minutes=at) for at in range(2991, 3000)]
    assert set(again["peak"]) == {99.0}
    assert again["watts"].tolist() == [at % 7 for at in range(2991, 3000)]
    printed = commands_work(out, capsys)
    assert "by FiBA" in printed
    assert mta(*(each for each in command if each != "--emit-updates")) == 2
    assert "--emit-updates was True and is False" in capsys.readouterr().err
    assert mta(*command, "--allowed-lateness", "soon", "--overwrite") == 2
    assert "--allowed-lateness soon: give a duration" in capsys.readouterr().err


def test_several_windows(tmp_path, capsys):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", *((at, "a", at % 7) for at in range(3000)))
    command = ("run", source, "--key", "device", "--agg", "peak=max(watts)", "--agg", "n=count",
               "--window", "hour=1 hour", "--window", "day=24 hours", "--output", out)  # fmt: skip
    assert mta(*command) == 0
    assert (out / "plot.png").exists()
    rows = results_of(out)
    columns = ["peak_hour", "peak_day", "n_hour", "n_day"]
    assert list(rows.columns) == ["device", "ts", "watts", *columns]
    assert rows["n_hour"].tolist() == [min(at + 1, 60) for at in range(3000)]
    assert rows["n_day"].tolist() == [min(at + 1, 1440) for at in range(3000)]
    printed = commands_work(out, capsys)
    assert "policy    day=TimeWindow(1 day), hour=TimeWindow(1 hour)" in printed
    assert re.search(r"^  day +1,440 +1,560 +3,000 +\d+$", printed, re.MULTILINE)
    assert re.search(r"^  hour +60 +2,940 +3,000 +\d+$", printed, re.MULTILINE)
    with open_store(f"file://{out / 'pages'}") as store:
        newest = max(store.keys(), key=lambda key: int(key.split("/")[2]))
        store.delete_many([newest])
    assert mta("check", out) == Exit.DAMAGED
    assert re.search(rf"page {newest} .*; in windows? day", capsys.readouterr().out)
    assert mta(*command, "--window", "week=7 days") == 2
    assert "--window was 'hour=1 hour, day=24 hours' and is" in capsys.readouterr().err


# --- options --------------------------------------------------------------------------------------


def test_windows_as_text():
    assert repr(parse_windows("24 hours")) == repr(windows_of_mta.TimeWindow("24 hours"))
    both = parse_windows(["few = 10 events", "day=24 hours"])
    day = windows_of_mta.TimeWindow("24 hours")
    assert repr(both) == repr({"few": windows_of_mta.CountWindow(10), "day": day})
    assert repr(parse_windows(["day=24 hours"])) == repr({"day": day})
    peak = parse_aggregation("peak=max(watts)", [])
    assert [agg.name for agg in over_windows([peak], ["1 hour"])] == ["peak"]
    named = over_windows([peak], ["a=1 hour", "b=2 hours"])
    assert [(agg.name, agg.function) for agg in named] == [("peak_a", "max"), ("peak_b", "max")]


@pytest.mark.parametrize(
    "texts",
    [["1 hour", "2 hours"], ["a=1 hour", "2 hours"], ["a=1 hour", "a=2 hours"], ["=1 hour"]],
)
def test_several_windows_have_names(texts):
    with pytest.raises(InvalidRequest, match="multiple windows need different names"):
        parse_windows(texts)


def test_windows_of_a_job(tmp_path):
    def job(**options):
        return Job.from_options({"input": ["a.csv"], **options})

    one, two = ["1 hour"], ["a=1 hour", "b=2 hours"]
    assert job(window=one).window == ("1 hour",)
    assert job(window=["9 hours", "1 hour"]).window == ("1 hour",)  # without names the last counts
    several = job(window=two, output=str(tmp_path), allowed_lateness="1 minute")
    assert (several.window, several.windows) == (("a=1 hour", "b=2 hours"), "a=1 hour, b=2 hours")
    config = tmp_path / "job.toml"
    config.write_text('allowed-lateness = "1 hour"\n[window]\na = "1 hour"\nb = "2 hours"\n')
    assert job(config=str(config)).window == several.window
    several.save()
    earlier = read_job(tmp_path)
    assert several.differences(earlier) == []
    assert several.replace(allowed_lateness="9 hours").differences(earlier) == []
    changed = several.replace(allowed_lateness=None).differences(earlier)
    assert changed == ["--allowed-lateness was '1 minute' and is None"]
    changed = several.replace(emit_updates=True).differences(earlier)
    assert changed == ["--emit-updates was False and is True"]
