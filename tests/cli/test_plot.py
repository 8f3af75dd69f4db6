import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

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


def test_a_line_of_one_event():
    times, heights = _line(extremes().head(1), "watts")
    assert len(times) == len(heights) == 2


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


def test_each_key_has_a_time_axis_of_its_own():
    """Years apart, they would be slivers on one."""
    rows = extremes(("a", "b"))
    later = rows["key"] == "b"
    rows.loc[later, "time"] += pd.Timedelta(days=1500)
    panels = _panels(
        [parse_aggregation(text, ()) for text in ("peak=watts:max", "total=watts:sum")]
    )
    figure = _figure(rows, ["a", "b"], panels, "")
    spans = [np.diff(axes.get_xlim())[0] for axes in figure.axes]
    assert np.allclose(spans, 49 / 24)
    limits = [axes.get_xlim()[0] for axes in figure.axes]
    assert limits[0] == limits[1] and limits[2] == limits[3] == limits[0] + 1500


def test_values_stand_out_from_white_and_lie_below_the_results():
    figure = _figure(extremes(), ["a"], _panels([parse_aggregation("peak=watts:max", ())]), "")
    values, peak = figure.axes[0].lines
    assert (values.get_label(), peak.get_label()) == ("watts", "peak = watts:max")
    channels = np.array(to_rgb(values.get_color()))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    assert 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05) > 3  # contrast, as for any graphics


def test_results_without_values_are_drawn_alone(tmp_path):
    rows = extremes()
    rows[["min watts", "max watts"]] = np.nan
    figure = _figure(rows, ["a"], _panels([parse_aggregation("peak=watts:max", ())]), "")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["peak = watts:max"]
    figure.savefig(tmp_path / "plot.png")


@pytest.mark.parametrize("names", [("hour", "day"), ("hour", "day", "week", "month")])
def test_many_results_are_drawn_and_named_beside_the_title(names):
    texts = [f"{function}_{name}={function}" for name in names for function in ("max", "mean")]
    over = [parse_aggregation(text, ("watts",)) for text in texts]
    rows = extremes()
    for aggregation in over:
        rows[f"min {aggregation.name}"], rows[f"max {aggregation.name}"] = 1.0, 3.0
    figure = _figure(rows, ["a"], _panels(over), "")
    axes = figure.axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["watts", *(aggregation.name for aggregation in over)]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == len(labels)
    figure.canvas.draw()
    title = next(text for text in axes.get_children() if getattr(text, "get_text", str)() == "a")
    legend = axes.get_legend().get_window_extent()
    assert not legend.overlaps(title.get_window_extent())
    assert axes.get_window_extent().x0 < 0.15 * figure.bbox.width
