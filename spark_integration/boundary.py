"""The Parallel Boundary Aggregator as an operator on Spark, over streams and over batches.

PBA paper (KDD 2021), section 5.2: in a stream engine, a slot has one pool of threads, which compute
the lcs of the windows that the slot's tasks advance. Here a Python worker is a slot: all windows of
a worker share the threads of ``mta.in_order.boundary``.

Between two micro-batches, Spark keeps those values of a key that the next window will contain,
which are fewer than the range. So a replay returns the same rows. The operator is for few keys with
many rows each, and for windows that fit into memory. In all other cases use ``sliding_aggregate``.

A state is plain data, packed by ``mta.columns.codec``:

    [1, time of the newest value in microseconds, how many values, [kind, bytes] of each column]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from mta import CountWindow
from mta.columns.codec import pack, unpack
from mta.columns.schemas import Array
from mta.errors import CorruptPage, InvalidTime, LateEvent
from mta.in_order import PBA, BoundaryAggregator
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import column_names
from mta.times import to_times
from spark_integration.errors import CorruptState, InvalidRequest, NullKey
from spark_integration.interpreter import check_workers
from spark_integration.options import Options
from spark_integration.request import check_columns, check_types, inputs_of, result_types, typed_by

VERSION = 1


def boundary_aggregate(  # noqa: PLR0913 (public: explicit keywords)
    df: DataFrame,
    *,
    by: str | Sequence[str],
    on: str,
    values: str | Sequence[str],
    monoid: AbstractMonoid,
    range: int,
    slide: int = 1,
    result: str = "result",
    algorithm: type[BoundaryAggregator] = PBA,
) -> DataFrame:
    """Return the aggregate of the last ``range`` values of each key, after every ``slide`` values.

    A row has the key, the time of the value that ends the window, and the result. A streaming query
    must run in output mode "append". Costs 3 combines per slide, and chunk_size - 2 combines per
    chunk in another thread; a micro-batch costs ``range`` more combines for each key with rows.
    Raises InvalidRequest. While the query runs, raises NullKey, InvalidTime, CorruptState, and
    LateEvent for a row that is older than the newest row of its key.

    Args:
        df: A stream or a batch.
        by: The key column or columns.
        on: The time column: timestamps, dates, or numbers of seconds.
        values: The value column or columns.
        monoid: The aggregation.
        range: The number of values in a window.
        slide: The number of values between two results.
        result: The name of the result column.
        algorithm: PBA, or SBA, which uses no threads.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    options = Options(
        by=keys, on=on, aggregations={result: (values, monoid)}, window=CountWindow(range),
        store="memory://",
    )  # fmt: skip
    check_columns(df, by=keys, on=[on], values=column_names(values))
    fields = {field.name: field.dataType for field in df.schema}
    typed = typed_by(fields, options)
    check_types(fields, typed, options)
    if any(type(schema) is not Array for schema in inputs_of(typed[result][1])):
        raise InvalidRequest(
            f"{monoid.name} reads {monoid.inputs!r}: boundary_aggregate takes columns of numbers; "
            "cast them, or use sliding_aggregate"
        )
    if result in (*keys, on):
        raise InvalidRequest(f"the result is named {result!r}, like a column: choose another name")
    if not 1 <= slide <= range:
        raise InvalidRequest(f"slide is {slide}: it must be between 1 and the range, {range}")
    check_workers(df.sparkSession, streams=df.isStreaming)
    kind = result_types(typed, options, fields)[result]
    schema = T.StructType([*(df.schema[name] for name in (*keys, on)), T.StructField(result, kind)])
    work = _Work(
        keys, on, tuple(column_names(values)), typed[result][1], range, slide, result, algorithm
    )
    needed = list(dict.fromkeys([*keys, on, *work.values]))
    grouped = df.select(*needed).groupBy(*keys)
    if df.isStreaming:
        return grouped.applyInPandasWithState(
            work.advance_stream, schema, "state binary", "append", GroupStateTimeout.NoTimeout
        )
    return grouped.applyInPandas(lambda rows: work.advance(None, rows)[1], schema)


@dataclass(frozen=True)
class _Work:
    """The work of a worker for one key."""

    keys: tuple[str, ...]
    time: str
    values: tuple[str, ...]
    monoid: AbstractMonoid
    range: int
    slide: int
    result: str
    algorithm: type[BoundaryAggregator]

    def advance_stream(
        self, key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Process a key's rows of one micro-batch, after the values in its state."""
        del key
        (before,) = state.get if state.exists else (None,)
        after, results = self.advance(before, pd.concat(list(parts)))
        state.update((after,))
        yield results

    def advance(self, state: bytes | None, rows: pd.DataFrame) -> tuple[bytes, pd.DataFrame]:
        """Return the state after these rows, the rows at which windows end, and their results."""
        if rows[list(self.keys)].isna().any(axis=None):
            raise NullKey(f"a row has no {' or '.join(self.keys)}; drop such rows first")
        if rows[self.time].isna().any():
            raise InvalidTime(f"a row has no {self.time!r}; drop such rows first")
        rows = rows.sort_values([self.time, *self.values], kind="stable")
        inputs, window = self.monoid.inputs, self.algorithm(self.monoid, self.range, self.slide)
        newest, held, kept = self._read(state)
        times = to_times(rows[self.time])
        if held and times[0] < newest:
            raise LateEvent(
                f"a row at {rows[self.time].iloc[0]} is older than the newest row of its key: sort "
                "the rows of the source, or use sliding_aggregate with allowed_lateness"
            )
        columns = [rows[name].to_numpy() for name in self.values]
        new, count = self.monoid.rows(columns[0] if len(columns) == 1 else tuple(columns))
        if held:
            joined = inputs.new(held + count)
            inputs.put_many(joined, 0, kept)
            inputs.put_many(joined, held, new)
            new = joined
        found = window.extend(new)
        ends = np.arange(self.range - 1, held + count, self.slide) - held
        out = rows[[*self.keys, self.time]].iloc[ends].copy()
        out[self.result] = found
        # The next window starts one slide after the last one that ended, or else with the stored
        # values.
        first = len(ends) * self.slide
        rest = inputs.cut(new, first, held + count)
        payloads = [list(one) for one in inputs.dump(rest)]
        return pack([VERSION, int(times[-1]), held + count - first, payloads]), out

    def _read(self, state: bytes | None) -> tuple[int, int, Any]:
        if state is None:
            return 0, 0, None
        try:
            version, newest, held, payloads = unpack(state)
            if version != VERSION or not 0 <= held < self.range:
                raise ValueError(f"version {version}, {held} values")
            found = self.monoid.inputs.load(iter([tuple(one) for one in payloads]), held)
        except (CorruptPage, TypeError, ValueError) as error:
            raise CorruptState(
                f"a key's state was not written by boundary_aggregate with range {self.range} and "
                f"{self.monoid.name} ({error}): start with a new checkpoint"
            ) from error
        return int(newest), held, found
