"""The command line on a run whose pages are in Spark's own state."""

import re
from contextlib import contextmanager

import pandas as pd
import pytest

from mta.cli.console import Exit
from spark_integration.cli import checkpoints
from tests.support.console import mta

ROWS = 6_000


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The output folder of a run in two parts over two keys; an inner page is over 5040 events."""
    folder = tmp_path_factory.mktemp("state")
    times = pd.date_range("2025-01-01", periods=ROWS, freq="min")
    watts = [(7 * i) % 23 + 0.5 for i in range(ROWS)]
    frames = [pd.DataFrame({"ts": times, "device": key, "watts": watts}) for key in "ab"]
    source, out = folder / "in", folder / "out"
    source.mkdir()
    half = ROWS // 2
    for number, rows in enumerate((slice(0, half), slice(half, ROWS))):
        pd.concat(frame[rows] for frame in frames).to_csv(source / f"{number}.csv", index=False)
        assert mta("run", source, "--key", "device", "--agg", "peak=watts:max", "--agg",
                   "mean=watts:mean", "--window", "9 days", "--output", out, "--no-plot",
                   "--store", "spark://state") == 0  # fmt: skip
    expected = frames[0].set_index("ts")["watts"].rolling("9D")
    results = pd.read_parquet(out / "results").sort_values(["device", "ts"])
    for _, rows in results.groupby("device"):
        assert rows["peak"].tolist() == expected.max().tolist()
        assert rows["mean"].tolist() == pytest.approx(expected.mean().tolist())
    return out


def test_inspect_counts_its_pages(out, capsys):
    assert mta("inspect", out) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^a +6,000 ", printed, re.MULTILINE)
    pages = re.search(r"store +spark://state: (\d+) pages, \S+ \S+ on disk", printed)
    assert pages
    # A leaf group has an eighth of the 3,000 events that a window begins with.
    assert int(pages[1]) >= 2 * (ROWS // 375 - 1)


def test_check_verifies_every_page(out, capsys, monkeypatch):
    assert mta("check", out) == 0
    printed = capsys.readouterr().out
    assert re.search(r"pages +\d+ verified", printed)
    assert "damaged   none" in printed
    whole = checkpoints.open_pages

    @contextmanager
    def damaged(spark, checkpoint, address):
        with whole(spark, checkpoint, address) as store:
            # The first ones may be of runs that only the state before needs.
            store.delete_many([max(store.keys())])
            yield store

    monkeypatch.setattr(checkpoints, "open_pages", damaged)
    assert mta("check", out) == Exit.DAMAGED
    printed = capsys.readouterr().out
    assert re.search(r"damaged +1 page$", printed, re.MULTILINE)


def test_what_is_not_possible_is_reported(out, capsys):
    assert mta("gc", out, "--delete") == 0
    assert "nothing to collect" in capsys.readouterr().out
    assert mta("inspect", out / "checkpoint") == 2
    assert "give the store of this checkpoint" in capsys.readouterr().err
    assert mta("inspect", out / "checkpoint", "--store", "spark://state") == 0
    assert mta("inspect", out, "--store", "spark://head:7077") == 2
    assert "spark:// store is spark://state" in capsys.readouterr().err
