"""Random queries of the grammar give the rows of DuckDB."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from mta import sql
from tests.support.sql_queries import by_duckdb, case_of, require_equal


def in_library(table: pa.Table, library: str) -> Any:
    if library == "pandas":
        import pandas as pd

        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return pl.from_arrow(table) if library == "polars" else table


def rows_of(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, pl.DataFrame):
        return found.to_dicts()
    table = (
        found if isinstance(found, pa.Table) else pa.Table.from_pandas(found, preserve_index=False)
    )
    return table.to_pylist()


def compare(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = case_of(rng)
    library = str(rng.choice(["pandas", "polars", "arrow"]))
    store = "memory://" if rng.random() < 0.1 else None
    table = in_library(case.table, library)
    try:
        found = sql(case.query, dialect="duckdb", store=store, t=table)
        require_equal(rows_of(found), by_duckdb(case))
    except Exception as error:
        error.add_note(f"seed {seed}, {library}, store {store}: {case.query}")
        raise


@pytest.mark.parametrize("part", range(4))
def test_random_queries_equal_duckdb(part: int) -> None:
    for seed in range(part * 10, part * 10 + 10):
        compare(seed)


@pytest.mark.soak
def test_soak_of_3000_queries() -> None:
    for seed in range(1000, 4000):
        compare(seed)
