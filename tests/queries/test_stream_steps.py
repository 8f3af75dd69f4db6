"""Random queries over micro-batches give the rows of DuckDB over the whole table, in any cut.

Without Spark: each pass of a query is a step per batch, with its state. What Spark computes before
and after the windows is computed by DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from mta.monoids.product import Product, result_name, skip_nulls
from mta.queries.compiler import ALL, Pass
from mta.queries.tables import parse, read_rows, selected
from spark_integration.options import Options
from spark_integration.plan import Plan, values_of
from spark_integration.request import make_product, result_types, typed_by
from spark_integration.step.step import step
from spark_integration.versions import arrow_schema, arrow_type
from stores import PageStore
from stores.memory import MemoryStore
from tests.support.sql_queries import by_duckdb, case_of, require_equal


def plan_of(windows: Pass, table: pa.Table, place: int, unit: str | None) -> Plan:
    """The plan of a pass over rows like those of a table."""
    fields = {field.name: field.dataType for field in from_arrow_schema(table.schema).fields}
    keys = windows.by or (ALL,)
    options = Options.of(
        by=keys, on=windows.on, aggregations=windows.aggregations, window=windows.window,
        carry=[n for n in table.column_names if n not in keys], store="memory://",
        time_unit=unit, name=f"pass{place}",
    )  # fmt: skip
    typed = typed_by(fields, options)
    product = make_product(typed).with_parts(skip_nulls())
    assert isinstance(product, Product)
    values = values_of(product, options.windows.values())
    columns = tuple(dict.fromkeys([*keys, windows.on, *values, *options.carry]))
    with patch("spark_integration.request.type_of", _type_of):
        types = result_types(typed, options, fields)
    results = {
        result_name(alias, window): arrow_type(kind)
        for alias, kind in types.items() for window in options.windows
    }  # fmt: skip
    schema = arrow_schema(from_arrow_schema(table.select(columns).schema))
    return Plan(
        options=options, monoid=product, columns=columns, results=results, name=options.name,
        buckets=1, key_types=tuple(fields[key].simpleString() for key in keys), schema=schema,
    )  # fmt: skip


def _type_of(ddl: str) -> T.DataType:
    """Return the type of a result as Spark's Java does."""
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", ddl):
        return T.DecimalType(int(found[1]), int(found[2]))
    known = (T.LongType, T.DoubleType, T.StringType, T.BooleanType, T.TimestampType)
    return next(kind() for kind in known if kind().simpleString() == ddl)


def by_steps(query: str, table: pa.Table, cuts: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of a query whose table arrives in micro-batches, cut at some rows."""
    before, bound = read_rows(parse(query, "duckdb"), {"t": table})
    before = before.append_column(ALL, pa.array(np.zeros(before.num_rows, "i8")))
    columns = [name for name in before.column_names if name != ALL]
    axis = lambda on: "number" if on == "n" else "time"  # noqa: E731
    passes = bound.passes(axis, None, "rows", streaming=True)
    ends = [0, *sorted(min(cut, before.num_rows) for cut in cuts), before.num_rows]
    parts = [before.slice(a, b - a) for a, b in pairwise(ends)]
    store: PageStore = MemoryStore()
    for place, windows in enumerate(passes):
        plan = plan_of(windows, parts[0], place, "us" if windows.on == "n" else None)
        state, done = None, []
        for part in parts:
            after = step(state, part.select(plan.columns), plan, store)
            state = after.state
            done.append(_typed(windows, after.rows, part))
        parts = done
    return selected(pa.concat_tables(parts), bound.items(passes, columns)).to_pylist()


def _typed(windows: Pass, rows: pa.Table, like: pa.Table) -> pa.Table:
    """Rows whose minima and the like have the type of their column, as ``sql`` casts them."""
    for result, column in windows.types().items():
        kind, place = like.schema.field(column).type, rows.column_names.index(result)
        rows = rows.set_column(place, result, rows.column(result).cast(kind))
    return rows


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
