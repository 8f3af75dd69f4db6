"""``mta bench in_order`` at a thousandth of its size: all tables and plots, right results."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from mta import Monoid
from mta.in_order import ALL, PBA
from spark_integration.bench import in_order


def test_every_table_and_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "OUTPUT", tmp_path)
    monkeypatch.setattr(in_order, "BREAK_EVEN", [1, 4, 64])
    monkeypatch.setattr(in_order, "LARGEST", 18)
    figures = in_order.run(0.001)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("throughput.csv", "latency.csv", "break_even.csv", "boundaries.csv"),
        *("figure_13.png", "figure_13.svg", "boundaries.png", "boundaries.svg"),
    }
    with (tmp_path / "throughput.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["algorithm"] for row in rows} == {a.__name__ for a in ALL if a is not PBA}
    assert all(float(row["ns"]) > 0 for row in rows)
    linear = next(f for f in figures if f.what.endswith("RecalculateFromScratch"))
    assert linear.limit == ">= 0.8"


def test_what_is_timed_must_be_right() -> None:
    wrong = Monoid(0.0, lambda a, b: a - b, name="not associative")
    with pytest.raises(AssertionError, match="the algorithms differ"):
        in_order.verify(in_order.Operator("wrong", wrong, [1.0, 2.0, 5.0]))
