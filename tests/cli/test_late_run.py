"""``mta run`` with late rows and multiple windows, and what the other commands make of it."""

import re

import pandas as pd

from mta.cli.console import Exit
from spark_integration.cli.job import Job, read_job
from stores import open_store
from tests.support.console import mta

FIRST = pd.Timestamp("2025-01-01")


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
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--window", "48 hours",
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
    assert "--allowed-lateness soon: cannot read" in capsys.readouterr().err


def test_several_windows(tmp_path, capsys):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", *((at, "a", at % 7) for at in range(3000)))
    query = """SELECT *, max(watts) OVER day AS peak, count(*) OVER hour AS n_hour,
               count(*) OVER day AS n_day FROM t
               WINDOW hour AS (PARTITION BY device ORDER BY ts RANGE INTERVAL 59 MINUTES PRECEDING),
               day AS (PARTITION BY device ORDER BY ts RANGE INTERVAL 1439 MINUTES PRECEDING)"""
    command = ("run", source, "--sql", query, "--ties", "rows", "--output", out)
    assert mta(*command) == 0
    rows = results_of(out)
    assert list(rows.columns) == ["ts", "device", "watts", "peak", "n_hour", "n_day"]
    assert rows["n_hour"].tolist() == [min(at + 1, 60) for at in range(3000)]
    assert rows["n_day"].tolist() == [min(at + 1, 1440) for at in range(3000)]
    printed = commands_work(out, capsys)
    assert "frame     day=TimeWindow(" in printed
    assert re.search(r"^  day +1,440 +1,560 +3,000 +\d+$", printed, re.MULTILINE)
    assert re.search(r"^  hour +60 +2,940 +3,000 +\d+$", printed, re.MULTILINE)
    with open_store(f"file://{out / 'pages'}") as store:
        newest = max(store.keys(), key=lambda key: int(key.split("/")[2]))
        store.delete_many([newest])
    assert mta("check", out) == Exit.DAMAGED
    assert re.search(rf"page {newest} .*; in windows? day", capsys.readouterr().out)
    assert mta(*command, "--sql", query.replace("1439", "99")) == 2
    assert "--sql was 'SELECT" in capsys.readouterr().err


def test_windows_of_a_job(tmp_path):
    def job(**options):
        return Job.from_options({"input": ["a.csv"], **options})

    several = job(window="2 hours", output=str(tmp_path), allowed_lateness="1 minute")
    config = tmp_path / "job.toml"
    config.write_text('allowed-lateness = "1 hour"\nwindow = "2 hours"\n')
    assert job(config=str(config)).window == several.window == "2 hours"
    several.save()
    earlier = read_job(tmp_path)
    assert several.differences(earlier) == []
    assert several.replace(allowed_lateness="9 hours").differences(earlier) == []
    changed = several.replace(allowed_lateness=None).differences(earlier)
    assert changed == ["--allowed-lateness was '1 minute' and is None"]
    changed = several.replace(emit_updates=True).differences(earlier)
    assert changed == ["--emit-updates was False and is True"]
