"""From what the caller asks to a plan, checked against the DataFrame before Spark starts.

A mistake found here costs a second and names the argument; found in a worker, it costs a started
query and arrives inside a Java stack trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from mta import CheckedSum, Product, Sum
from mta.columns.schemas import Array, Record, Schema
from mta.monoids.base import AbstractMonoid
from mta.pages.page import NAME_BYTES
from mta.policies.base import AbstractPolicy
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.streaming import check_session
from spark_integration.versions import arrow_schema, arrow_type
from stores import open_store

from .errors import InvalidRequest
from .options import Aggregations, Columns, Options
from .plan import LATE, Plan, column_name

#: What a group's columns may weigh; names and numbers around them take up to 200 bytes more.
LEAF_BYTES, INNER_BYTES = 3840, 1024
#: What a value or a partial is taken to weigh where only its bytes would tell.
OBJECT_BYTES = 64
#: Where Spark notes that a column is under a watermark.
WATERMARK_DELAY = "spark.watermarkDelayMs"


class Request(NamedTuple):
    """What to do, and the schema of what comes out."""

    plan: Plan
    schema: T.StructType


def make_request(df: DataFrame, options: Options) -> Request:
    """The request of one ``sliding_aggregate``; raises InvalidRequest. Reads no data."""
    check_store(options.store, df)
    product = make_product(options.aggregations)
    values = tuple(product.columns)
    check_columns(
        df, key=options.keys, time=(options.time,), aggregations=values, keep=options.keep
    )
    fields = {field.name: field.dataType for field in df.schema.fields}
    check_types(fields, options)
    check_silent(df, options)
    columns = tuple(dict.fromkeys((*options.keys, options.time, *values, *options.keep)))
    results = [
        (column_name(alias, window), kind)
        for alias, kind in result_types(product, options, fields).items()
        for window in options.windows
    ]
    check_aliases(columns, [name for name, _ in results], options)
    found = dict(results)
    by_time = options.lateness is not None
    leaf_arity, arity = small_groups(product, *options.windows.values(), by_time=by_time)
    given = T.StructType([T.StructField(name, fields[name]) for name in columns])
    plan = Plan(
        keys=options.keys,
        time=options.time,
        monoid=product,
        policy=options.policy,
        columns=columns,
        results={alias: arrow_type(kind) for alias, kind in found.items()},
        key_types=tuple(fields[key].simpleString() for key in options.keys),
        # What Spark hands to Python for these columns, but for flags and a session's time zone.
        schema=arrow_schema(given),
        store=options.store,
        name=options.name,
        output=options.output,
        buckets=options.buckets,
        arity=options.arity or arity,
        leaf_arity=options.leaf_arity or options.arity or leaf_arity,
        late=options.late,
        lateness=options.lateness,
        corrections=options.corrections,
        invalid=options.invalid,
        silent=options.silent,
        every=options.trigger,
        retain=options.retain,
    )
    return Request(plan, result_schema(df, plan, found, options.marks))


def small_groups(
    product: Product, *policies: AbstractPolicy, by_time: bool = False
) -> tuple[int, int]:
    """Sizes of leaf and inner groups that suit many keys.

    A leaf page fills one LMDB page of 4 KiB. Inner groups are smaller, since a handle carries an
    open one of each level, and Spark's state carries every key's handle. Nodes of trees by time
    hold up to twice their size, and a handle carries the last one of each level.
    """
    extra = 8 if by_time or any(policy.needs_times for policy in policies) else 0
    observers = [monoid for policy in policies for _, _, monoid in policy.observers]
    partial = sum(monoid.partials.row_bytes or OBJECT_BYTES for monoid in [product, *observers])
    value = OBJECT_BYTES if product.inputs.row_bytes is None else product.inputs.row_bytes
    leaf_arity = LEAF_BYTES // max(value + extra, 1)
    if not by_time:
        arity = INNER_BYTES // (partial + extra + NAME_BYTES)
        return min(max(leaf_arity, 16), 512), min(max(arity, 8), 64)
    # An entry of an inner node is an event with all that leads to a page below.
    arity = INNER_BYTES // (value + partial + 2 * extra + NAME_BYTES)
    return min(max(leaf_arity // 2, 8), 256), min(max(arity // 2, 4), 32)


def result_schema(
    df: DataFrame, plan: Plan, found: Mapping[str, T.DataType], marked: Iterable[str]
) -> T.StructType:
    """The result's columns: the input's as they are, one per aggregation, and what marks rows."""
    given = [copy(df.schema[name]) for name in plan.columns]
    for field in given:
        # A row about a silent key, or a boundary, has nothing else.
        if (plan.silent == "emit" or plan.by_boundaries) and field.name not in (
            *plan.keys,
            plan.time,
        ):
            field.nullable = True
    marks = [T.StructField(mark, T.BooleanType()) for mark in marked]
    results = [T.StructField(alias, kind) for alias, kind in found.items()]
    return T.StructType([*given, *results, *marks])


def make_product(aggregations: Aggregations) -> Product:
    """The product of the aggregations; raises InvalidRequest for one that cannot be read."""
    if not aggregations:
        raise InvalidRequest(
            'aggregations is empty: name at least one, as {"peak": ("watts", Max())}'
        )
    for alias, pair in aggregations.items():
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], AbstractMonoid)):
            raise InvalidRequest(
                f"aggregation {alias!r} is {pair!r}: give a pair of column and monoid, "
                'as ("watts", Max()), with None for the column of Count()'
            )
    checked = {alias: (names, _checked(alias, one)) for alias, (names, one) in aggregations.items()}
    try:
        return Product(checked)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _checked(alias: str, monoid: AbstractMonoid) -> AbstractMonoid:
    """A sum of whole numbers that names the aggregation where it overflows, and does not wrap."""
    if type(monoid) is Sum and isinstance(monoid.inputs, Array):
        dtype = monoid.inputs.dtype
        return CheckedSum(dtype, f"the aggregation {alias!r}") if dtype.kind in "iu" else monoid
    return monoid


def check_columns(df: DataFrame, **wanted: Iterable[str]) -> None:
    """Raises InvalidRequest for a column that the DataFrame has not, or has twice."""
    exact = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    folded = [name if exact else name.lower() for name in df.columns]
    for argument, names in wanted.items():
        for name in names:
            same = folded.count(name if exact else name.lower())
            if name not in df.columns or same != 1:
                state = "no" if name not in df.columns else "more than one"
                raise InvalidRequest(
                    f"{argument} names column {name!r}, but the DataFrame has {state} such "
                    f"column; it has {', '.join(df.columns)}"
                )
    if not tuple(wanted["key"]):
        raise InvalidRequest("key is empty: name at least one column")


def check_types(fields: dict[str, T.DataType], options: Options) -> None:
    """Raises InvalidRequest for a column of a type that its role cannot take."""
    for key in options.keys:
        if not isinstance(fields[key], T.AtomicType):
            raise InvalidRequest(
                f"key column {key!r} is {fields[key].simpleString()}: a key is an atomic value; "
                "name the fields that make it up as several columns"
            )
    time, kind = options.time, fields[options.time]
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType, T.NumericType)):
        raise InvalidRequest(
            f"time column {time!r} is {kind.simpleString()}: cast it to timestamp "
            "(to_timestamp), or give a date or a number of seconds"
        )
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        by_period = options.trigger is not None and options.trigger.needs_times
        if by_period or options.silent == "emit":
            option = f"every={options.every!r}" if by_period else "silent='emit'"
            raise InvalidRequest(
                f"{option} puts moments into the time column {time!r}, which is "
                f"{kind.simpleString()}: cast it to timestamp"
            )
    for alias, (columns, monoid) in options.aggregations.items():
        for name, schema in zip(names_of(columns), inputs_of(monoid), strict=True):
            if not isinstance(fields[name], _allowed(schema)):
                raise InvalidRequest(
                    f"aggregation {alias!r}: {monoid.name} cannot read column {name!r}, which is "
                    f"{fields[name].simpleString()}; cast it, or choose another column or monoid"
                )


def names_of(columns: Columns) -> tuple[str, ...]:
    """The columns that an aggregation reads."""
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


def inputs_of(monoid: AbstractMonoid) -> list[Schema]:
    """What a monoid reads of an event, column by column."""
    return list(monoid.inputs.schemas) if isinstance(monoid.inputs, Record) else [monoid.inputs]


def _allowed(schema: Schema) -> tuple[type[T.DataType], ...]:
    if not isinstance(schema, Array):
        return (T.NumericType, T.BooleanType, T.StringType, T.BinaryType)
    if schema.dtype.kind in "mM":
        return (T.TimestampType, T.TimestampNTZType, T.DateType)
    return (T.NumericType, T.BooleanType)


def check_aliases(columns: tuple[str, ...], results: Iterable[str], options: Options) -> None:
    """Raises InvalidRequest for two result columns of one name, by Spark's rule without case."""
    seen = {name.lower(): name for name in columns}
    for mark in options.marks:
        if mark in seen:
            option = "late='side'" if mark == LATE else "corrections='append'"
            raise InvalidRequest(
                f"{option} adds a column {mark!r}, but the DataFrame has {seen[mark]!r}: rename "
                "it (withColumnRenamed), or leave it out"
            )
        seen[mark] = mark
    for alias in results:
        if alias.lower() in seen:
            raise InvalidRequest(
                f"aggregation {alias!r} has the name of the result's column "
                f"{seen[alias.lower()]!r}: call it otherwise"
            )
        seen[alias.lower()] = alias


def check_silent(df: DataFrame, options: Options) -> None:
    """Raises InvalidRequest unless the stream knows which keys are silent."""
    silent, time = options.silent, options.time
    if silent != "keep" and df.isStreaming and watermark_delay(df, time) is None:
        raise InvalidRequest(
            f"silent is {silent!r}, but the stream has no watermark on {time!r}, which tells when "
            f"a key is silent: give df.withWatermark({time!r}, '10 minutes'), with the time that "
            "rows of different keys may be apart, after the last change of that column"
        )


def watermark_delay(df: DataFrame, time: str) -> int | None:
    """How far the watermark on a column stays behind, in milliseconds; None without one."""
    delay: int | None = df.schema[time].metadata.get(WATERMARK_DELAY)
    return delay


def check_store(store: str, df: DataFrame) -> None:
    """Raises InvalidRequest for a store that the workers cannot share, warns of a doubtful one."""
    if not isinstance(store, str):
        raise InvalidRequest("store is no URL: each worker opens the store itself, so give its URL")
    if store.startswith("memory:"):
        raise InvalidRequest(
            "store is memory://, but Spark's workers are processes without common memory: "
            "give file:///path on one machine, or a server as redis://host"
        )
    if is_state_url(store):
        if df.isStreaming:
            check_session(df.sparkSession)
        return
    open_store(store).close()  # reads the URL and makes no store call
    master = df.sparkSession.conf.get("spark.master", "local")
    if store.startswith("file:") and not (master or "local").startswith("local"):
        warnings.warn(
            f"store {store} is a folder of one machine, but the master is {master}: when Spark "
            "moves a partition to another host, its pages are missing there; use a server as "
            "redis://host, unless all executors run on one host",
            RuntimeWarning,
            stacklevel=4,
        )


def result_types(
    product: Product, options: Options, fields: dict[str, T.DataType]
) -> dict[str, T.DataType]:
    """The Spark type of each aggregation: as asked for, or as the monoid's output tells."""
    asked = options.types or {}
    unknown = [alias for alias in asked if alias not in options.aggregations]
    if unknown:
        raise InvalidRequest(f"types names {unknown[0]!r}, but no aggregation is called so")
    found: dict[str, T.DataType] = {}
    for alias, (columns, monoid) in options.aggregations.items():
        read = [fields[name] for name in names_of(columns)]
        dtype = product.output_types[alias]
        if alias in asked:
            found[alias] = T.DataType.fromDDL(asked[alias])
        elif monoid.result_type is not None:
            found[alias] = T.DataType.fromDDL(monoid.result_type)
        elif dtype.kind == "O":
            found[alias] = _object_type(monoid.empty, read[0] if len(read) == 1 else T.StringType())
        else:
            found[alias] = _number_type(dtype)
    return found


def _object_type(empty: Any, read: T.DataType) -> T.DataType:
    """What a plain Python monoid returns, by its result on an empty window and what it reads."""
    read = T.DoubleType() if isinstance(read, T.DecimalType) else read
    match empty:
        case None:
            return read
        case bool():
            return T.BooleanType()
        case int() | float():
            whole = isinstance(empty, int) and isinstance(read, (T.IntegralType, T.StringType))
            return T.LongType() if whole else T.DoubleType()
        case list() | tuple():
            return T.ArrayType(read)
    return T.StringType()


def _number_type(dtype: np.dtype[Any]) -> T.DataType:
    if dtype.kind == "u":  # Spark has no unsigned numbers
        return T.LongType()
    kind = from_arrow_type(pa.from_numpy_dtype(dtype))
    return T.TimestampType() if isinstance(kind, T.TimestampNTZType) else kind
