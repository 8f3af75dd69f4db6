"""The parts of the experiment ``flink`` that need no Flink."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from benchmarks.spark import flink


def test_a_wrong_result_of_one_row_is_an_error() -> None:
    ours = pa.table({"device": ["a", "b"], "ts": [1, 2], "peak": [3.0, 4.0]})
    flink.require_equal(ours, ours.take([1, 0]))
    with pytest.raises(AssertionError, match="other rows"):
        flink.require_equal(ours, ours.set_column(2, "peak", pa.array([3.0, 5.0])))
