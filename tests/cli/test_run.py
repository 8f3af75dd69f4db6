"""The command line from files to results, through a real Spark."""

import csv
import os
import re
import signal
import threading
import time

import pandas as pd
import pytest

from spark_integration.cli.progress import explain
from tests.support.console import mta
from tests.support.faulty import eventually
from tests.support.patience import LONG


def events(start, rows, device="a"):
    times = pd.date_range(start, periods=rows, freq="h")
    watts = [(7 * i) % 23 + 0.5 for i in range(rows)]
    return pd.DataFrame({"ts": times, "device": device, "watts": watts})


def write(path, *frames, mtime):
    pd.concat(frames).to_csv(path, index=False)
    os.utime(path, (mtime, mtime))


def results(folder):
    rows = pd.read_parquet(folder / "results")
    return rows.sort_values(["device", "ts"]).reset_index(drop=True)


def rolling(rows):
    window = rows.set_index("ts").groupby("device")["watts"].rolling("24h")
    return pd.DataFrame({"peak": window.max(), "mean": window.mean()}).reset_index()


def test_run_continue_inspect(tmp_path):
    source, out = tmp_path / "in put", tmp_path / "out"
    source.mkdir()
    first = [events("2025-01-01", 100, device) for device in ("a", "b")]
    write(source / "1.csv", *first, mtime=1_000)
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max",
               "--agg", "mean=watts:mean", "--output", out, "--no-plot")  # fmt: skip
    printed = mta(*command, "--plot").out
    assert re.search(r"done +200 rows in 1 batch", printed)
    assert re.search(r"windows +2 keys, 48 events", printed)
    expected = rolling(pd.concat(first))
    got = results(out)
    assert got["peak"].tolist() == expected["peak"].tolist()
    assert got["mean"].tolist() == pytest.approx(expected["mean"].tolist())
    assert (out / "plot.png").stat().st_size > 10_000
    assert "plot.png (2 keys)" in printed

    assert "nothing new" in mta(*command).out

    second = [events("2025-01-05 04:00", 50, device) for device in ("a", "c")]
    write(source / "2.csv", *second, mtime=500)  # written earlier, found later
    assert "100 rows in 1 batch" in mta(*command).out
    expected = rolling(pd.concat([*first, *second]))
    assert results(out)["peak"].tolist() == expected["peak"].tolist()

    printed = mta("inspect", out).out
    assert re.search(r"^a +24 ", printed, re.MULTILINE)
    assert re.search(r"windows +3 keys, 72 events", printed)

    done = mta(*command, "--window", "1 hour", code=2)
    assert "--window was '24 hours' and is '1 hour'" in done.err

    write(source / "3.csv", events("2025-01-01", 5), mtime=2_000)  # older than what was read
    error = mta(*command, code=2).err
    assert "late" in error.lower()
    assert "Traceback" not in error


def test_file_names_as_keys_epoch_times_and_dropped_rows(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "x +y%.csv").write_text(
        "timestamp,value\n1700000000,1\n1700000060,oops\n1700000120,3\n"
    )
    (source / "z.csv").write_text("timestamp,value\n1700000000,5\n,6\n")
    done = mta("run", source, "--key-from-file-name", "--window", "10 events", "--agg", "s=sum",
               "--on-invalid", "drop", "--output", out, "--no-plot")  # fmt: skip
    assert re.search(r"invalid +2 rows, dropped", done.out)
    rows = pd.read_parquet(out / "results").sort_values(["key", "timestamp"])
    assert rows["key"].tolist() == ["x +y%", "x +y%", "z"]
    assert rows["s"].tolist() == [1.0, 4.0, 5.0]
    assert rows["timestamp"].iloc[0].timestamp() == 1_700_000_000


def test_follow_until_a_signal(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source / "1.csv", events("2025-01-01", 10), mtime=1_000)

    def add_and_stop():
        committed = out / "checkpoint" / "commits"
        until = time.monotonic() + 10 * LONG  # then the signal comes, and rows are missing
        for batch in range(2):
            while not (committed / str(batch)).exists() and time.monotonic() < until:
                time.sleep(0.1)
            if batch == 0:
                write(source / ".2.csv", events("2025-01-02", 10), mtime=2_000)
                (source / ".2.csv").rename(source / "2.csv")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=add_and_stop, daemon=True).start()
    done = mta("run", source, "--key", "device", "--follow", "--output", out, "--no-plot")
    assert "stopped; run the same command to continue from here" in done.out
    assert len(results(out)) == 20


def test_mistakes_are_reported_before_spark_starts(tmp_path):
    done = mta("run", tmp_path / "none.csv", "--output", tmp_path / "out", code=2)
    assert "there is no file or folder" in done.err
    write(tmp_path / "1.csv", events("2025-01-01", 3), mtime=1_000)
    done = mta("run", tmp_path, "--key", "meter", "--output", tmp_path / "out", code=2)
    expected = "mta: --key 'meter': the columns are 'ts', 'device', 'watts'\n"
    assert done.err == expected
    assert "neither an output folder" in mta("inspect", tmp_path, code=2).err
    assert not (tmp_path / "out").exists()


def test_results_as_csv_are_read_back_as_they_were(tmp_path):
    """By Python, by pandas, and by a second run over the results."""
    texts = ['x"y', '"', '""', "\\", '\\"', "a\\", "'q'", ",", ' "a", ', "#c", " blanks ",
             "two\nlines", "two\r\nlines", "é\u2028", "007", "1e3", "null", "NaN"]  # fmt: skip
    times = pd.date_range("2024-01-01", periods=2 * len(texts), freq="1000001us")
    rows = pd.DataFrame({"device": texts * 2, "ts": times, "watts": 0.1})
    rows["note"] = "\t" + rows["device"]
    rows.to_csv(tmp_path / "in.csv", index=False, lineterminator="\n")
    again = tmp_path / "in.csv"
    for turn in range(2):
        out = tmp_path / f"out{turn}"
        command = ["run", again, "--key", "device", "--value", "watts", "--carry", "note",
                   "--agg", "peak=watts:max", "--write", "csv", "--output", out]  # fmt: skip
        mta(*command, *(["--no-plot"] if turn else []))
        parts = sorted((out / "results").glob("*.csv"))
        options = {"dtype": {"device": str, "note": str}, "keep_default_na": False}
        got = pd.concat([pd.read_csv(part, **options) for part in parts]).sort_values("ts")
        assert got["device"].tolist() == rows["device"].tolist()
        assert got["note"].tolist() == rows["note"].tolist()
        assert pd.to_datetime(got["ts"]).dt.tz_localize(None).tolist() == times.tolist()
        found = []
        for part in parts:
            with part.open(newline="") as file:
                found += list(csv.DictReader(file, strict=True))
        assert sorted(row["device"] for row in found) == sorted(rows["device"])
        again = out / "results"


def test_ctrl_c_before_the_end_of_the_input_ends_with_130(tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for at in range(40):
        write(source / f"{at:02}.csv", events(f"2025-01-01 {at % 24:02}:{at:02}", 1), mtime=at)
    command = ("run", source, "--key-from-file-name", "--value", "watts", "--output", out,
               "--files-per-batch", 1, "--no-plot")  # fmt: skip

    def stop():
        eventually(lambda: (out / "checkpoint" / "commits" / "1").exists())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    printed = mta(*command, code=130).out
    assert printed.index("stopping: Spark ends") < printed.index("stopped; run the same command")
    assert 0 < len(pd.read_parquet(out / "results")) < 40
    mta(*command[:-2], 40, "--no-plot")
    assert len(pd.read_parquet(out / "results")) == 40


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    write(tmp_path / "1.csv", events("2025-01-01", 3), mtime=1_000)
    assert "contains other files" in mta("demo", "--output", tmp_path, code=2).err
    assert (tmp_path / "1.csv").exists()


def test_the_cause_of_a_failure_is_the_last_line_of_its_traceback():
    text = (
        "[STREAM_FAILED] Query terminated: Job aborted\n\tat org.apache.spark.Foo\n"
        "Caused by: org.apache.spark.PythonException: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n    g()\n'
        "mta.errors.LateEvent: an event of key a is older than the last one:\n"
        "sort the events\n\n\tat org.apache.spark.Bar\n"
        "=== Streaming Query ===\nIdentifier: [id = 1]\n"
    )
    wanted = "LateEvent: an event of key a is older than the last one:\nsort the events"
    assert explain(Exception(text)) == wanted
