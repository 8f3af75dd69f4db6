"""What commands print and draw, and the stream that the demo makes up."""

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mta.cli.console import plural, table
from mta.windows.display import human_bytes
from spark_integration.cli.demo import Meters, write_stream
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.plot import _figure, _line, _panels


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


def test_results_of_another_scale_have_a_panel_of_their_own():
    texts = ("peak=watts:max", "total=watts:sum", "watts:mean")
    panels = _panels([parse_aggregation(text, ()) for text in texts])
    assert [[aggregation.function for aggregation in panel] for panel in panels] == [
        ["max", "mean"],
        ["sum"],
    ]


def test_a_line_goes_through_both_extremes_and_breaks_where_events_are_missing():
    times, heights = _line(extremes(gap_at=20), "watts")
    assert heights[:4].tolist() == [1.0, 3.0, 1.0, 3.0]
    assert len(times) == len(heights) == 2 * 50 + 1
    assert np.flatnonzero(np.isnan(heights)).tolist() == [40]


def test_a_figure_has_a_titled_panel_for_each_key(tmp_path):
    panels = _panels(
        [parse_aggregation(text, ()) for text in ("peak=watts:max", "total=watts:sum")]
    )
    figure = _figure(extremes(("a", "b")), ["a", "b"], panels, "watts in a window of 1 day")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["a", "", "b", ""]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["watts", "peak = watts:max"]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_results_without_values_are_drawn_alone(tmp_path):
    rows = extremes()
    rows[["min watts", "max watts"]] = np.nan
    figure = _figure(rows, ["a"], _panels([parse_aggregation("peak=watts:max", ())]), "")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["peak = watts:max"]
    figure.savefig(tmp_path / "plot.png")


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
