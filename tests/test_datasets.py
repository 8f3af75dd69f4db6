"""The generated dataset: the same rows each time, in order, of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta.datasets import meters


def test_each_meter_reports_at_each_time_in_order() -> None:
    table = meters(days=2, count=3, every="15 minutes")
    assert {name: len(column) for name, column in table.items()} == dict.fromkeys(table, 2 * 96 * 3)
    assert table["meter"][:3].tolist() == ["meter-1", "meter-2", "meter-3"]
    steps = np.diff(table["ts"][::3]).astype("m8[m]").astype(int)
    assert set(steps.tolist()) == {15} and table["ts"][0] == np.datetime64("2024-01-01")
    assert (table["watts"] > 0).all()


def test_a_seed_gives_the_same_rows() -> None:
    one, same, other = meters(1, 1), meters(1, 1), meters(1, 1, seed=2)
    assert one["watts"].tolist() == same["watts"].tolist() != other["watts"].tolist()


@pytest.mark.parametrize("wrong", [{"days": 0}, {"count": 0}, {"every": "2 days"}, {"every": "x"}])
def test_other_sizes_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        meters(**wrong)
