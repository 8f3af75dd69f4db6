"""The sides of ``polars``, ``over_few``, ``over_many`` and ``asof`` return the same rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("polars")
pytest.importorskip("pyspark")

import polars as pl
from pyspark.sql import functions as F

from benchmarks.ours import streaming
from benchmarks.spark import batch
from tests.support.sampling import REST
from tests.support.spark.session import spark

__all__ = ["spark"]


@pytest.mark.parametrize("keyed", [True, False])
def test_sides_of_polars_and_ours_write_the_same_rows(
    keyed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "BATCH", 1000)
    monkeypatch.setattr(streaming, "KEYS", 7)
    source, first = tmp_path / "source", tmp_path / "rolling"
    streaming.write(source, 3500)
    streaming.in_memory(source, first, keyed)
    for name in (*streaming.OURS[1:], *streaming.PEERS):
        streaming.SIDES[name](source, tmp_path / "other", keyed)
        streaming.require_equal(name, first, tmp_path / "other", keyed)
    other = pl.read_parquet(first).with_columns(pl.col("total") + (pl.col("total") > 9e5))
    other.write_parquet(tmp_path / "wrong")
    with pytest.raises(AssertionError, match="wrong writes other rows"):
        streaming.require_equal("wrong", first, tmp_path / "wrong", keyed)
    plain = pl.read_parquet(first).sort("t").filter(pl.lit(not keyed) | (pl.col("k") == 3))
    day = 86_400_000_000
    rows = list(zip(plain["t"].cast(int), plain["v"], strict=True))
    windows = [[v for u, v in rows if t - day <= u <= t] for t, _ in rows]
    assert plain["peak"].to_list() == [max(window) for window in windows]
    assert plain["total"].to_list() == [sum(window) for window in windows]


def test_a_process_is_measured_until_it_ends(tmp_path: Path) -> None:
    streaming.write(tmp_path / "source", 1000)
    found = streaming.measure("rolling", tmp_path / "source", tmp_path / "sink", keyed=True)
    assert found.seconds > 0 and found.peak > 1 << 20
    assert pl.read_parquet(tmp_path / "sink").height == 1000


@REST
def test_a_process_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="rolling failed with exit code 1"):
        streaming.measure("rolling", tmp_path / "missing", tmp_path / "sink", keyed=True)


def test_sides_of_spark_and_ours_return_the_same_rows(spark: Any, tmp_path: Path) -> None:
    bench = batch.Bench(spark, tmp_path, 400, 3)
    bench.write("e", 400, seed=1)
    bench.write("q", 200, seed=2, valued=False)
    rows = bench.read("e").count()
    for conf in ("true", "false"):
        sides = {
            "ours": batch.Side(partial(batch.windows, bench, "1 day")),
            "over": batch.Side(partial(batch.over, bench, "1 day"), ((batch.TREE, conf),)),
        }
        found = bench.measure(sides, rounds=1)
        assert found["ours"].digest == found["over"].digest and found["over"].digest[0] == rows
        assert found["over"].rate > 0 and found["over"].heap > 0
    for what in batch.ASKED:
        sides = {
            "ours": batch.Side(partial(batch.asked, bench, what)),
            "asof": batch.Side(partial(batch.joined, bench, what), ((batch.ASOF, "true"),)),
        }
        assert bench.measure(sides, rounds=1)["asof"].digest[0] == 200
    assert spark.conf.get(batch.ASOF) == "false"


def test_a_side_that_returns_another_row_is_an_error(spark: Any, tmp_path: Path) -> None:
    bench = batch.Bench(spark, tmp_path, 50, 3)
    bench.write("e", 50, seed=1)
    rows = bench.read("e")
    ((last,),) = rows.agg(F.max("ts")).collect()
    wrong = rows.withColumn("v", F.col("v") + (F.col("ts") == last).cast("int"))
    sides = {"right": batch.Side(lambda: rows), "wrong": batch.Side(lambda: wrong)}
    with pytest.raises(AssertionError, match="wrong returns other rows than right"):
        bench.measure(sides, rounds=1)
    half = batch.Side(lambda: bench.read("e", 0.5), share=0.5)
    assert bench.measure({"all": sides["right"], "half": half}, rounds=1)["half"].digest[0] < 50
