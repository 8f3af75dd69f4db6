import numpy as np
import pandas as pd

from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.plot import _figure, _line, _panels


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
