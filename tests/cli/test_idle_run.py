"""``mta run --idle`` and ``--on-late side``, and the other commands on what they leave."""

import re

import pandas as pd
import xxhash

from stores import open_store
from tests.support.console import mta

FIRST, HOURS = pd.Timestamp("2025-01-01"), 600


def write(path, *events):
    rows = [(FIRST + pd.Timedelta(hours=hour), device, watts) for hour, device, watts in events]
    pd.DataFrame(rows, columns=["ts", "device", "watts"]).to_csv(path, index=False)


def pages_of(out, device):
    """Those of the window that a device has by itself."""
    name = xxhash.xxh3_128_hexdigest(device.encode())
    with open_store(f"file://{out / 'pages'}") as store:
        return {key for key in store.keys("") if f":{name}/" in key}


def test_idle_keys_and_late_rows(tmp_path, capsys):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # "a" is heard of every minute for 50 hours; "b" once an hour, and to the end.
    long = [(minute / 60, "a", minute % 7) for minute in range(50 * 60)]
    write(source / "1.csv", *long, *((hour, "b", hour) for hour in range(HOURS)))
    command = ("run", source, "--key", "device", "--agg", "peak=watts:max", "--agg", "n=count",
               "--window", "48 hours", "--idle", "emit", "--on-late", "side",
               "--output", out)  # fmt: skip
    assert mta(*command, "--watermark", "soon", "--no-plot") == 2
    assert "--watermark 'soon'" in capsys.readouterr().err
    assert mta(*command, "--window", "9 events") == 2
    assert "--idle emit, but time alone never empties a CountWindow(9)" in capsys.readouterr().err
    assert mta(*command) == 0
    printed = capsys.readouterr().out
    assert re.search(r"windows +1 key, 48 events", printed)
    assert "late " not in printed
    assert (out / "plot.png").exists()

    waiting = pages_of(out, "a")
    assert waiting
    for _ in range(2):
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert re.search(r"unneeded +0 pages", capsys.readouterr().out)
    assert mta("check", out) == 0
    assert pages_of(out, "a") == waiting

    write(source / "2.csv", (HOURS, "b", 1.0), (HOURS - 9, "b", 2.0), (60, "a", 3.0))
    assert mta(*command, "--no-plot", "--on-late", "raise") == 2
    assert "--on-late was 'side' and is 'raise'" in capsys.readouterr().err
    assert mta(*command, "--no-plot") == 0
    assert re.search(r"late +2 rows, marked", capsys.readouterr().out)
    assert pages_of(out, "a") == set()

    rows = pd.read_parquet(out / "results").set_index("ts").sort_index()
    assert rows[rows["late"]]["watts"].tolist() == [3.0, 2.0]
    assert rows[rows["late"]]["n"].isna().all()
    empty = rows[rows["n"] == 0]
    last = FIRST + pd.Timedelta(hours=50) - pd.Timedelta(minutes=1)
    assert [(row.Index, row.device) for row in empty.itertuples()] == [
        ((last + pd.Timedelta(hours=48)).tz_localize(empty.index.tz), "a")
    ]
    assert empty["watts"].isna().all()
    assert len(rows) == len(long) + HOURS + 3 + 1
