"""The in-order experiments: all algorithms are timed, and right."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from benchmarks.papers.daba import experiments as in_order
from benchmarks.report.experiment import Progress
from mta import Monoid
from mta.in_order import ALL, PBA


def test_every_algorithm_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "LARGEST", 16)
    rows = in_order.throughput(0.001, Progress("throughput"))
    assert {row["algorithm"] for row in rows} == {a.__name__ for a in ALL if a is not PBA}
    assert all(row["ns"] > 0 for row in rows)
    linear = [f for f in in_order.found_throughput(rows) if f.what.startswith("Recalculate")]
    assert [finding.paper for finding in linear] == ["linear"]


def test_what_is_timed_must_be_right() -> None:
    wrong = Monoid(0.0, lambda a, b: a - b, name="not associative")
    with pytest.raises(AssertionError, match="the algorithms differ"):
        in_order.verify(in_order.Operator("wrong", wrong, [1.0, 2.0, 5.0]))
