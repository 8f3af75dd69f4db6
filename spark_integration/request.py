"""Turn options into a plan, checked against the DataFrame before Spark starts.

A mistake that is found here takes a second, and the error names the argument. If a worker found it,
a query would have started, and the error would be inside a Java stack trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from mta import ArgMax, ArgMin, Collect, Mean, Product, Sum
from mta.aggregations import (
    CheckedSum,
    CollectDistinct,
    DecimalMean,
    LongSum,
    MostFrequent,
    SumDistinct,
)
from mta.columns.schemas import (
    Array,
    Datetimes,
    Decimals,
    LongDecimals,
    Presence,
    Schema,
    Times,
)
from mta.errors import MissingPage, UnsuitableMonoid
from mta.monoids.base import AbstractMonoid
from mta.monoids.nulls import CountValues, SkipNulls, is_filter
from mta.monoids.product import (
    Aggregations,
    Pairs,
    column_names,
    own_columns,
    pairs_of,
    result_name,
    skip_nulls,
    with_name,
)
from mta.publishing.batches import PublishedPart
from spark_integration.interpreter import check_workers, context_of
from spark_integration.runners.bucket import check_encoding, check_session
from spark_integration.runners.state_pages import is_state_url
from spark_integration.step.starts import read_start, require_suitable
from spark_integration.step.windows import vectorizes
from spark_integration.versions import arrow_schema, arrow_type, type_of
from stores import open_store, ping_store

from .errors import InvalidRequest, StateMismatch
from .options import AHEAD, LATE, History, Options
from .plan import BATCH, Plan, StartFrom, values_of

#: The metadata in which Spark records the watermark of a column.
WATERMARK_DELAY = "spark.watermarkDelayMs"
#: The prefix of the column of an aggregation's filter, if that is an expression.
FILTER = "__filter_"
#: The groups of keys of a batch query; the rows of one group at a time are in memory.
BATCH_BUCKETS = 64


class Request(NamedTuple):
    """A plan, and the schema of the result."""

    plan: Plan
    schema: T.StructType


def make_request(df: DataFrame, options: Options) -> Request:
    """Return the request of one ``sliding_aggregate``; raises InvalidRequest. Reads no data."""
    check_store(options.store, df)
    by_value = df.isStreaming and not is_state_url(options.store or BATCH)
    check_workers(df.sparkSession, streams=by_value)
    if by_value:
        check_encoding(df.sparkSession)
    check_ties(options, whole=not df.isStreaming)
    asked = make_product(options.aggregations)
    _check_given_back(asked, options)
    values = values_of(asked, options.windows.values())
    marks = tuple(name for name in (options.retractions, options.asks) if name is not None)
    check_columns(
        df,
        by=options.keys,
        on=(options.on,),
        aggregations=asked.columns,
        window=values,
        carry=options.carry,
        retractions=marks[:1] if options.retractions else (),
        asks=marks[-1:] if options.asks else (),
    )
    fields = {field.name: field.dataType for field in df.schema.fields}
    typed = typed_by(fields, options)
    skips = skip_nulls(min_samples=options.settings.min_samples)
    product = make_product(typed).with_parts(skips)
    check_types(fields, typed, options)
    check_duplicates(product, options)
    check_idle(df, options)
    columns = tuple(dict.fromkeys((*options.keys, options.on, *values, *options.carry, *marks)))
    results = [
        (result_name(alias, window), kind)
        for alias, kind in result_types(typed, options, fields).items()
        for window in options.windows
    ]
    check_aliases(columns, [name for name, _ in results], options)
    found = dict(results)
    given = T.StructType([T.StructField(name, fields[name]) for name in columns])
    plan = Plan(
        options=options,
        monoid=product,
        columns=columns,
        results={alias: arrow_type(kind) for alias, kind in found.items()},
        name=options.name,
        buckets=options.buckets or (0 if df.isStreaming else BATCH_BUCKETS),
        key_types=tuple(fields[key].simpleString() for key in options.keys),
        # The types that Spark passes to Python, without flags and the session's time zone.
        schema=arrow_schema(given),
        part=None
        if options.publish is None
        else PublishedPart(options.publish, options.settings.retain),
    )
    if options.start_from is not None:
        plan = started(plan, options.start_from, df.isStreaming)
    return Request(plan, result_schema(df, plan, found, options.marks))


def with_filters(df: DataFrame, options: Options) -> tuple[DataFrame, Options, list[str]]:
    """Add a column for each filter that is an expression; return also the columns' names."""
    aggregations, added = dict(with_name(options.aggregations)), dict[str, Any]()
    for alias, given in aggregations.items():
        if isinstance(given, tuple) and len(given) == 3 and type(given[2]).__name__ == "Column":
            name = FILTER + alias
            aggregations[alias], added[name] = (*given[:2], name), given[2]
    if not added:
        return df, options, []
    return df.withColumns(added), replace(options, aggregations=aggregations), [*added]


def _check_given_back(product: Product, options: Options) -> None:
    """Raises InvalidRequest if updates need columns whose values windows do not store."""
    for alias, (columns, monoid) in product.aggregations.items():
        counted = isinstance(monoid.bare, CountValues)
        read = {*column_names(columns)[:1]}
        others = [pair for name, pair in product.aggregations.items() if name != alias]
        stored = {n for pair in others if not isinstance(pair[1].bare, CountValues)
                  for n in own_columns(*pair)}  # fmt: skip
        if options.emit_updates and counted and not read <= stored:
            raise InvalidRequest(
                f"emit_updates is True, but for {alias!r} windows store only which rows have a "
                f"value in the column {', '.join(read)!r}: count rows with Count(), or add an "
                "aggregation of the column's values"
            )


def started(plan: Plan, asked: str | History, streaming: bool) -> Plan:
    """Return the plan with its start; raises InvalidRequest, and the store's errors."""
    if not streaming:
        raise InvalidRequest("start_from is for streams: a batch query begins with empty windows")
    if not vectorizes(plan):
        raise InvalidRequest(
            "start_from needs windows that are vectorized: windows by count or time, "
            "without sketches"
        )
    history = History(asked, plan.store) if isinstance(asked, str) else asked
    if is_state_url(history.store):
        raise InvalidRequest(
            f"start_from names a query's state ({history.store}), which has no histories: give "
            "History(name, store) with the store that has the history"
        )
    ping_store(history.store)
    with open_store(history.store) as store:
        try:
            start = read_start(store, history.name)
            require_suitable(start, history.name, plan.buckets or start.buckets, plan.fixed)
        except (MissingPage, StateMismatch) as error:
            raise InvalidRequest(f"start_from: {error}") from error
    begin = StartFrom(history.name, history.store, start.until)
    return replace(plan, start=begin, buckets=start.buckets)


def result_schema(
    df: DataFrame, plan: Plan, found: Mapping[str, T.DataType], marked: Iterable[str]
) -> T.StructType:
    """Return the columns of the result: the input's columns, one per aggregation, and marks."""
    options = plan.options
    given = [copy(df.schema[name]) for name in plan.columns]
    for field in given:
        # A row about an idle key or a boundary has only key and time; a question has no values.
        sparse = options.idle == "emit" or options.period is not None or options.asks is not None
        if sparse and field.name not in (*options.keys, options.on):
            field.nullable = True
    marks = [T.StructField(mark, T.BooleanType()) for mark in marked]
    results = [T.StructField(alias, kind) for alias, kind in found.items()]
    return T.StructType([*given, *results, *marks])


@contextmanager
def outside_pipelines() -> Iterator[None]:
    """Raises InvalidRequest inside a query function of a declarative pipeline.

    There, Spark refuses to analyze a DataFrame, for example to return its columns.
    """
    try:
        yield
    except AnalysisException as error:
        if "PIPELINE_QUERY_FUNCTION" not in str(error):
            raise
        raise InvalidRequest(
            "sliding_aggregate is called inside a query function of a pipeline, where Spark does "
            "not return the columns of a DataFrame: call it at module level, as results = "
            "sliding_aggregate(..), and return results from the function"
        ) from error


def check_ties(options: Options, whole: bool) -> None:
    """Raises InvalidRequest if other rows of the same time may arrive later."""
    if options.peers and not whole:
        raise InvalidRequest(
            f"window is {options.peers[0]!r}, but later micro-batches may bring more rows with the "
            "same time: leave ties= out, or aggregate a batch DataFrame"
        )


def check_duplicates(product: Product, options: Options) -> None:
    """Raises InvalidRequest if events cannot be combined, or an aggregation reads marks."""
    try:
        options.settings.require_joins(product)
    except UnsuitableMonoid as error:
        raise InvalidRequest(str(error)) from error
    for argument in ("retractions", "asks"):
        if getattr(options, argument) in values_of(product, options.windows.values()):
            raise InvalidRequest(
                f"{argument} is {getattr(options, argument)!r}, but an aggregation reads that "
                "column: mark rows in a separate column"
            )


def make_product(aggregations: Aggregations) -> Product:
    """Return the product of the aggregations; raises InvalidRequest for an invalid one."""
    try:
        pairs = pairs_of(aggregations).items()
        return Product({alias: (names, _checked(alias, one)) for alias, (names, one) in pairs})
    except (TypeError, ValueError) as error:
        raise InvalidRequest(str(error)) from error


def _checked(alias: str, monoid: AbstractMonoid) -> AbstractMonoid:
    """Return a sum of integers that raises an error with the aggregation's name on overflow."""
    if isinstance(monoid, SkipNulls):
        return SkipNulls(_checked(alias, monoid.monoid), monoid.filtered, refuses=True)
    if type(monoid) is Sum and isinstance(monoid.inputs, Array):
        dtype, label = monoid.inputs.dtype, f"the aggregation {alias!r}"
        return CheckedSum(dtype, label) if dtype.kind in "iu" else monoid
    return monoid


def typed_by(fields: dict[str, T.DataType], options: Options) -> Pairs:
    """Return the aggregations; their results have the columns' types unless others were given."""
    typed: Pairs = {}
    for alias, (columns, whole) in pairs_of(options.aggregations).items():
        read, monoid = [fields[name] for name in own_columns(columns, whole)], whole.bare
        kinds = [*map(_type_of, read)]
        found = monoid.of_types(*kinds)
        if type(monoid) is Mean and isinstance(kinds[0], (Decimals, LongDecimals)):
            found = DecimalMean(kinds[0])
        if found is not monoid:
            found.result_type = _result_type(monoid, found, read[-1])
            if isinstance(found, CheckedSum):
                found.label = f"the aggregation {alias!r}"
        filtered = isinstance(whole, SkipNulls) and whole.filtered
        typed[alias] = columns, SkipNulls(found, True, refuses=True) if filtered else found
    return typed


def _result_type(given: AbstractMonoid, found: AbstractMonoid, kind: T.DataType) -> str | None:
    """Return the type of results of an aggregation for a column, as in Spark."""
    if given.follows_column:
        return kind.simpleString()
    if isinstance(found, (Collect, CollectDistinct)):
        return f"array<{kind.simpleString()}>"
    if isinstance(found, MostFrequent):
        return f"array<struct<value: {kind.simpleString()}, count: bigint>>"
    if isinstance(kind, T.DecimalType):
        if isinstance(found, (CheckedSum, LongSum, SumDistinct)):
            return f"decimal({min(kind.precision + 10, 38)},{kind.scale})"
        if isinstance(found, DecimalMean):
            return f"decimal({min(kind.precision + 4, 38)},{min(kind.scale + 4, 38)})"
    return found.result_type


#: The most digits of decimals that are stored as 64-bit integers.
_DIGITS = 18


def _type_of(kind: T.DataType) -> Any:
    """Return the type that monoids use for a column; None for doubles."""
    if isinstance(kind, T.IntegralType):
        return "int64"
    if isinstance(kind, T.DecimalType):
        return Decimals(kind.scale) if kind.precision <= _DIGITS else LongDecimals(kind.scale)
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return "M8[us]"
    if isinstance(kind, T.DateType):
        return "M8[D]"
    return str if isinstance(kind, (T.StringType, T.BinaryType)) else None


def check_columns(df: DataFrame, **wanted: Iterable[str]) -> None:
    """Raises InvalidRequest for a missing or duplicate column."""
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
    if not tuple(wanted["by"]):
        raise InvalidRequest("by is empty: name at least one column")


def check_types(fields: dict[str, T.DataType], typed: Pairs, options: Options) -> None:
    """Raises InvalidRequest for a column of an unsuitable type."""
    for key in options.keys:
        if not isinstance(fields[key], T.AtomicType):
            raise InvalidRequest(
                f"key column {key!r} is {fields[key].simpleString()}: a key must be an atomic "
                "value; use several columns, one for each field"
            )
    _check_marks(fields, options)
    time, kind = options.on, fields[options.on]
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType, T.NumericType)):
        raise InvalidRequest(
            f"time column {time!r} is {kind.simpleString()}: cast it to timestamp (to_timestamp), "
            "or use a date, or a number of seconds or of another time_unit"
        )
    if options.settings.max_ahead is not None and isinstance(kind, T.TimestampNTZType):
        raise InvalidRequest(
            f"max_ahead is given, but the time column {time!r} has no zone and cannot be compared "
            "with the clock: cast it to timestamp"
        )
    if not isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        by_period = options.trigger is not None and options.trigger.needs_times
        if by_period or options.idle == "emit":
            option = f"emit_every={options.emit_every!r}" if by_period else "idle='emit'"
            raise InvalidRequest(
                f"{option} writes moments into the time column {time!r}, which is "
                f"{kind.simpleString()}: cast it to timestamp"
            )
    aggregations = ((f"aggregation {a!r}", *pair) for a, pair in typed.items())
    observers = (
        (f"window {frame!r}", columns, monoid)
        for each in options.windows.values()
        for frame, columns, monoid in each.observers
        if column_names(columns)
    )
    for what, columns, monoid in (*aggregations, *observers):
        for name, schema in zip(column_names(columns), monoid.inputs.columns, strict=True):
            _require_filter(what, name, fields[name], schema)
            _require_short(what, name, fields[name], monoid.bare)
            if not isinstance(fields[name], _allowed(schema)):
                raise InvalidRequest(
                    f"{what}: {monoid.name} cannot read column {name!r}, which is "
                    f"{fields[name].simpleString()}{_reason(schema)}; cast it, or choose another "
                    "column or monoid"
                )


def _check_marks(fields: dict[str, T.DataType], options: Options) -> None:
    marks = {
        "retractions": (options.retractions, "remove an earlier event"),
        "asks": (options.asks, "are questions"),
    }
    for argument, (mark, meaning) in marks.items():
        if mark is not None and not isinstance(fields[mark], T.BooleanType):
            raise InvalidRequest(
                f"{argument} column {mark!r} is {fields[mark].simpleString()}: it must be boolean, "
                f"and true in rows that {meaning}"
            )


def _allowed(schema: Schema) -> tuple[type[T.DataType], ...]:
    schema = schema.bare
    if isinstance(schema, Presence):
        return (T.DataType,)
    if isinstance(schema, Datetimes):
        return (T.TimestampType, T.TimestampNTZType, T.DateType)
    if not isinstance(schema, Array):
        return (T.NumericType, T.BooleanType, T.StringType, T.BinaryType)
    if schema.dtype.kind in "mM":
        times = (T.TimestampType, T.TimestampNTZType, T.DateType)
        return (*times, T.NumericType) if isinstance(schema, Times) else times
    return (T.NumericType, T.BooleanType)


def check_aliases(columns: tuple[str, ...], results: Iterable[str], options: Options) -> None:
    """Raises InvalidRequest if result columns have the same name; Spark ignores case."""
    seen = {name.lower(): name for name in columns}
    for mark in options.marks:
        if mark in seen:
            of_marks = {LATE: "on_late='side'", AHEAD: "on_ahead='side'"}
            option = of_marks.get(mark, "emit_updates=True")
            raise InvalidRequest(
                f"{option} adds a column {mark!r}, but the DataFrame already has {seen[mark]!r}: "
                "rename it (withColumnRenamed), or leave it out"
            )
        seen[mark] = mark
    for alias in results:
        if alias.lower() in seen:
            raise InvalidRequest(
                f"aggregation {alias!r} has the same name as the result's column "
                f"{seen[alias.lower()]!r}: choose another name"
            )
        seen[alias.lower()] = alias


def check_idle(df: DataFrame, options: Options) -> None:
    """Raises InvalidRequest if a stream needs a watermark to find idle keys and has none."""
    idle, time = options.idle, options.on
    if idle != "keep" and df.isStreaming and watermark_delay(df, time) is None:
        raise InvalidRequest(
            f"idle is {idle!r}, but the stream has no watermark on {time!r}, by which idle keys "
            f"are found: call df.withWatermark({time!r}, '10 minutes') after the last change of "
            "that column; the delay is how far the times of rows that arrive together may be apart"
        )


def watermark_delay(df: DataFrame, time: str) -> int | None:
    """Return the delay of the watermark on a column in milliseconds; None without one."""
    delay: int | None = df.schema[time].metadata.get(WATERMARK_DELAY)
    return delay


def check_store(store: str | None, df: DataFrame) -> None:
    """Raises InvalidRequest for a store that the workers cannot share; warns if that is unclear."""
    if store is None:
        if df.isStreaming:
            raise InvalidRequest(
                "the DataFrame is a stream, but store is not given: say where its pages go, such "
                "as store='file:///path' on one machine, 'redis://host' for a cluster, or "
                "'spark://state' for Spark's own state; only batch queries need no store"
            )
        return
    if not isinstance(store, str):
        raise InvalidRequest(
            "store is not a URL: each worker opens the store itself, so give its URL"
        )
    if store.startswith("memory:"):
        raise InvalidRequest(
            "store is memory://, but Spark's workers are processes without shared memory: give "
            "file:///path on one machine, or a server such as redis://host"
        )
    if is_state_url(store):
        if df.isStreaming:
            check_session(df.sparkSession)
        return
    if df.isStreaming and context_of(df.sparkSession) is not None:
        ping_store(store, write=True)
    else:  # a batch query uses no store, and a Spark Connect client may not reach one
        open_store(store)
    master = df.sparkSession.conf.get("spark.master", "local")
    if store.startswith("file:") and not (master or "local").startswith("local"):
        warnings.warn(
            f"store {store} is a folder on one machine, but the master is {master}: when Spark "
            "moves a partition to another host, its pages are missing there; use a server such as "
            "redis://host, unless all executors run on one host",
            RuntimeWarning,
            stacklevel=4,
        )


def _require_filter(what: str, name: str, kind: T.DataType, schema: Schema) -> None:
    if is_filter(schema) and not isinstance(kind, T.BooleanType):
        shown = "" if name.startswith(FILTER) else f" {name!r}"
        raise InvalidRequest(
            f"{what}: the filter{shown} is {kind.simpleString()}, not boolean: compare first, such "
            "as status = 'declined' in SQL, or F.col('status') == 'declined'"
        )


def _require_short(what: str, name: str, kind: T.DataType, monoid: AbstractMonoid) -> None:
    """Raises InvalidRequest for decimals too long for an aggregation that compares two columns."""
    if not isinstance(kind, T.DecimalType) or kind.precision <= _DIGITS:
        return
    if isinstance(monoid, (ArgMin, ArgMax)) and monoid.follows_column:
        raise InvalidRequest(
            f"{what}: column {name!r} is {kind.simpleString()}, and {type(monoid).__name__} stores "
            f"numbers of 64 bits, which decimals of more than {_DIGITS} digits do not fit: cast it "
            f"to decimal({_DIGITS},{min(kind.scale, _DIGITS)}) or to double"
        )


def _reason(schema: Schema) -> str:
    """Return why a column is refused, if the aggregation reads numbers."""
    inner = schema.bare
    is_number = isinstance(inner, Array) and inner.dtype.kind in "biuf"
    return ", because it computes with numbers" if is_number else ""


def result_types(
    typed: Pairs, options: Options, fields: dict[str, T.DataType]
) -> dict[str, T.DataType]:
    """Return the Spark type of each aggregation: as requested, or from the monoid's output."""
    asked = options.types or {}
    unknown = [alias for alias in asked if alias not in with_name(options.aggregations)]
    if unknown:
        raise InvalidRequest(f"types names {unknown[0]!r}, but no aggregation has that name")
    found: dict[str, T.DataType] = {}
    for alias, (columns, whole) in typed.items():
        read, monoid = [fields[name] for name in own_columns(columns, whole)], whole.bare
        dtype = getattr(monoid.outputs, "dtype", np.dtype(object))
        if alias in asked:
            found[alias] = type_of(asked[alias])
        elif monoid.result_type is not None:
            found[alias] = type_of(monoid.result_type)
        elif dtype.kind == "O":
            found[alias] = _object_type(monoid.empty, read[0] if len(read) == 1 else T.StringType())
        else:
            found[alias] = _number_type(dtype)
    return found


def _object_type(empty: Any, read: T.DataType) -> T.DataType:
    """Return the result type of a plain Python monoid, from its empty result and its input type."""
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
    if dtype.kind == "u":  # Spark has no unsigned integers
        return T.LongType()
    kind = from_arrow_type(pa.from_numpy_dtype(dtype))
    return T.TimestampType() if isinstance(kind, T.TimestampNTZType) else kind
