"""The payments of the experiment ``payments``: the stream, its features by hand, and the oracle."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
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


def test_the_stream_is_always_the_same_and_a_few_payments_are_late() -> None:
    many = Payments(cards=5_000, merchants=400, small=[100], large=[20_000])
    rows = many.table()
    assert rows.equals(many.table()) and rows.num_rows == many.events == 20_100
    times = rows["ts"].to_numpy().astype("M8[us]").astype("i8")
    assert len(np.unique(times)) == len(times)
    behind = np.maximum.accumulate(times) - times
    assert 0.01 < np.mean(behind > 0) < 0.03 and behind.max() <= 3_600_000_000
    merchants = Counter(rows["merchant"].to_pylist()).most_common()
    assert len(merchants) > 350 and merchants[0][1] > 10 * merchants[200][1]
    assert 0.03 < np.mean(rows["declined"].to_numpy(zero_copy_only=False)) < 0.05


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


def test_a_missing_result_is_an_error(tmp_path: Path) -> None:
    SMALL.write(tmp_path / "files")
    results = by_hand(tmp_path / "files" / "small").iloc[1:]
    with pytest.raises(AssertionError, match="119 rows instead of 120"):
        Oracle(tmp_path / "files" / "small", 1).check(write(results, tmp_path / "fewer"))


def test_the_oracle_counts_the_payments_that_windows_hold(tmp_path: Path) -> None:
    SMALL.write(tmp_path)
    rows = SMALL.table().select(["card", "ts"]).to_pandas().sort_values("card")
    month, expected = pd.Timedelta("30 days"), 0
    for _, group in groupby(rows.itertuples(index=False), key=lambda row: row.card):
        times = [row.ts for row in group]
        expected += sum(time >= max(times) - month for time in times)
    assert Oracle(tmp_path / "all").held() == expected < SMALL.events


def test_the_whole_experiment_in_small(spark: Any) -> None:
    if (missing := server.missing()) is not None:
        pytest.skip(f"NOT TESTED: {missing}")
    with server.redis_server() as store:
        figures = payments.measured(spark, SMALL, store, seconds=0.05)
    shown = {figure.what.partition(",")[0]: figure for figure in figures}
    checked = {name: figure.ours for name, figure in shown.items() if "DuckDB" in name}
    assert len(checked) == 2 and all("equal, none different" in text for text in checked.values())
    assert int(checked["results that DuckDB computes too"].partition(" ")[0]) > SMALL.events / 2
