"""Random queries over micro-batches give the rows of DuckDB over the whole table, in any cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyspark")

from tests.support.spark.sql_steps import by_steps
from tests.support.sql_queries import by_duckdb, case_of, require_equal


def compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = case_of(rng, streams=True)
    # A mean of decimals is a decimal in Spark, and a double in DuckDB.
    case = replace(case, query=case.query.replace("avg(d)", "avg(x)"))
    cuts = rng.integers(0, case.table.num_rows + 1, int(rng.integers(0, 6))).tolist()
    try:
        require_equal(by_steps(case.query, case.table, cuts), by_duckdb(case))
    except Exception as error:
        error.add_note(f"seed {seed}, cuts {cuts}: {case.query}")
        raise


@pytest.mark.parametrize("part", range(3))
def test_any_cut_gives_the_same_rows(part: int) -> None:
    for seed in range(part * 10, part * 10 + 10):
        compare(seed)


@pytest.mark.soak
def test_soak_of_1000_streams() -> None:
    for seed in range(1000, 2000):
        compare(seed)
