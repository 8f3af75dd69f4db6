"""The payments of the experiment ``payments``: the stream, its features by hand, and the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("duckdb")
pytest.importorskip("pyspark")

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from benchmarks.papers import server
from benchmarks.spark import payment_by_hand, payments
from benchmarks.spark.payment_data import FEATURES, Oracle, Payments
from tests.support.spark.session import spark

__all__ = ["spark"]
SMALL = Payments(cards=40, merchants=9, small=[60, 60], large=[150, 150])


class State:
    """What a function by hand uses of Spark's state of a key."""

    def __init__(self) -> None:
        self.get: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.get)

    def update(self, state: tuple[Any, ...]) -> None:
        self.get = state


def by_hand(files: Path) -> pd.DataFrame:
    """The features of all payments, a file at a time, without Spark."""
    states, found = dict[str, State](), list[pd.DataFrame]()
    for path in sorted(files.iterdir()):
        table = parquet.read_table(path).to_pandas()
        table["ts"] = table["ts"].dt.tz_localize(None)  # as Spark's UTC sessions give it
        for card, rows in table.groupby("card"):
            state: Any = states.setdefault(str(card), State())
            for features in payment_by_hand.features_by_hand((card,), iter([rows]), state):
                found.append(features.astype(object))
    return pd.concat(found)


def write(results: pd.DataFrame, folder: Path) -> Path:
    folder.mkdir()
    parquet.write_table(pa.Table.from_pandas(results), folder / "0.parquet")
    return folder


def test_a_function_by_hand_and_duckdb_agree_on_each_row(tmp_path: Path) -> None:
    SMALL.write(tmp_path / "files")
    results, oracle = by_hand(tmp_path / "files" / "all"), Oracle(tmp_path / "files" / "all", 1)
    assert oracle.check(write(results, tmp_path / "right")) == SMALL.events
    held = results[["payments_hour", "spent_month", "country_month", "declined_week"]]
    assert (held["payments_hour"] > 0).any() and held["spent_month"].isna().any()


def test_a_wrong_feature_of_one_row_is_an_error(tmp_path: Path) -> None:
    SMALL.write(tmp_path / "files")
    results = by_hand(tmp_path / "files" / "small").reset_index(drop=True)
    oracle = Oracle(tmp_path / "files" / "small", 1)
    for feature in FEATURES:
        wrong = results.copy()
        at = int(results[feature].notna().argmax())
        wrong.loc[at, feature] = "nowhere" if feature == "country_month" else 77_777_777
        with pytest.raises(AssertionError, match="DuckDB returns another row"):
            oracle.check(write(wrong, tmp_path / feature))


def test_the_whole_experiment_in_small(spark: Any) -> None:
    if (missing := server.missing()) is not None:
        pytest.skip(f"NOT TESTED: {missing}")
    with server.redis_server() as store:
        figures = payments.measured(spark, SMALL, store, seconds=0.05)
    shown = {figure.what.partition(",")[0]: figure for figure in figures}
    checked = {name: figure.ours for name, figure in shown.items() if "DuckDB" in name}
    assert len(checked) == 2 and all("equal, none different" in text for text in checked.values())
    assert int(checked["results that DuckDB computes too"].partition(" ")[0]) > SMALL.events / 2
