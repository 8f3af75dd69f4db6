"""What commands print and draw, the demo's stream, and ``mta serve`` of an output folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mta.cli import main
from mta.cli.console import own_command, plural, table
from mta.windows.display import human_bytes
from spark_integration.cli.demo import Meters, write_stream
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.plot import _figure, _line, _panels
from tests.serve.conftest import KEYS, Published
from tests.support.serving import Served


def test_table():
    lines = table(("key", "pages"), [("a", "1"), ("long name", "12,000")]).splitlines()
    assert lines == [
        "key         pages",
        "---------  ------",
        "a               1",
        "long name  12,000",
    ]


def test_words_for_numbers():
    assert plural(1, "batch") == "1 batch"
    assert plural(2000, "batch") == "2,000 batches"
    assert plural(0, "key") == "0 keys"
    assert [human_bytes(size) for size in (0, 1023, 1536, 5 << 30)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip


def extremes(keys=("a",), gap_at=None):
    times = pd.date_range("2025-01-01", periods=50, freq="h")
    if gap_at:
        times = times.where(np.arange(50) < gap_at, times + pd.Timedelta(days=5))
    parts = []
    for key in keys:
        rows = pd.DataFrame({"key": key, "time": times})
        for name in ("watts", "peak", "total"):
            rows[f"min {name}"], rows[f"max {name}"] = 1.0, 3.0
        parts.append(rows)
    return pd.concat(parts)


def panels(*texts):
    return _panels([parse_aggregation(text, ()) for text in texts])


def test_results_of_another_scale_have_a_panel_of_their_own():
    found = panels("peak=watts:max", "total=watts:sum", "watts:mean")
    assert [[each.function for each in panel] for panel in found] == [["max", "mean"], ["sum"]]


def test_a_line_goes_through_both_extremes_and_breaks_where_events_are_missing():
    times, heights = _line(extremes(gap_at=20), "watts")
    assert heights[:4].tolist() == [1.0, 3.0, 1.0, 3.0]
    assert len(times) == len(heights) == 2 * 50 + 1
    assert np.flatnonzero(np.isnan(heights)).tolist() == [40]


@pytest.mark.parametrize("values", [True, False])
def test_a_figure_has_a_titled_panel_for_each_key(tmp_path, values):
    """Results without values, as those of boundaries, are drawn alone."""
    rows = extremes(("a", "b"))
    if not values:
        rows[["min watts", "max watts"]] = np.nan
    figure = _figure(rows, ["a", "b"], panels("peak=watts:max", "total=watts:sum"), "a title")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a", "", "b", ""]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["watts"] * values + ["peak = watts:max"]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_the_stream_is_sorted_complete_and_the_same_each_time(tmp_path):
    written = write_stream(tmp_path / "a", 20_000, 7, rows_per_file=5000)
    assert write_stream(tmp_path / "b", 20_000, 7, rows_per_file=5000) == written
    assert 0.9 * 20_000 < written < 20_000  # some reports are lost in outages
    events = pq.read_table(tmp_path / "a")
    assert events.num_rows == written
    assert events.equals(pq.read_table(tmp_path / "b"))
    by_file = [pq.read_table(path)["ts"] for path in sorted((tmp_path / "a").iterdir())]
    assert len(by_file) > 3
    times = [time for file in by_file for time in file.to_pylist()]
    assert times == sorted(times)
    assert pc.count_distinct(events["device"]).as_py() == 7


def test_modification_times_follow_the_order_of_the_files(tmp_path):
    write_stream(tmp_path / "a", 5000, 3, rows_per_file=1000)
    times = [path.stat().st_mtime for path in sorted((tmp_path / "a").iterdir())]
    assert times == sorted(set(times))


def test_one_meter_and_few_events():
    meters = Meters(10, 1)
    assert 0 < meters.events(0, meters.slots).num_rows <= 10


@pytest.mark.parametrize("inner", ["", "run"])
def test_a_run_is_served_from_its_folder(inner: str, tmp_path: Path) -> None:
    """The folder of a demo has the run's in it."""
    published = Published(f"file://{tmp_path / 'pages'}")
    note = {"publish": published.name, "store": published.store}
    (tmp_path / "out" / inner).mkdir(parents=True)
    (tmp_path / "out" / inner / "job.json").write_text(json.dumps(note))
    with Served(None, str(tmp_path / "out")) as service:
        status = service.get("/v1/status").json
        assert (status["name"], status["keys"]) == (published.name, len(KEYS))


def test_a_run_that_publishes_nothing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"publish": None, "store": "file:///pages"}))
    assert main(["serve", str(tmp_path)]) == 2
    assert "run it again with a name" in capsys.readouterr().err


def test_a_command_that_no_shell_finds_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/mta", "demo"])
    monkeypatch.setenv("PATH", "")
    assert own_command() == ".venv/bin/mta"
    monkeypatch.setattr("sys.argv", ["/usr/lib/python3/spark_integration/cli/__main__.py"])
    assert own_command() == "mta"
