"""``sql``: window functions in SQL over streams and batches.

spark.sql or the DataFrame -> computed columns, WHERE   by Spark
-> sliding_aggregate, once per PARTITION BY             windows
-> the items of the SELECT list                         by Spark
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.errors import InvalidQuery
from mta.frames.base import Ties
from mta.queries.compiler import ALL, Bound, Pass, Query
from mta.queries.frames import Axis
from mta.queries.tables import parse
from mta.times import TimeUnit
from mta.windows.settings import Nan
from spark_integration.runners.packing import METRICS

from .errors import InvalidRequest
from .options import AHEAD, CORRECTED, LATE, Emit, EmitEvery, Idle, Lateness, OnBadRow, OnLate
from .sliding import column, sliding_aggregate

#: Options that emit other rows than those of the events, or name one set of windows; with the
#: values that a query with several passes can have.
_OF_ONE_PASS: dict[str, tuple[Any, ...]] = {
    "emit": ("all",), "emit_every": (None,), "on_late": ("raise", "drop"),
    "on_ahead": ("raise", "drop"), "emit_updates": (False,), "idle": ("keep", "expire"),
    "publish": (None,),
}  # fmt: skip


def sql(  # noqa: PLR0913 (public: explicit keywords)
    spark: SparkSession,
    query: str,
    /,
    *,
    store: str | None = None,
    dialect: str = "spark",
    ties: Ties | None = None,
    time_unit: TimeUnit | None = None,
    name: str | None = None,
    buckets: int | None = None,
    emit: Emit = "all",
    emit_every: EmitEvery = None,
    on_late: OnLate = "raise",
    allowed_lateness: Lateness = None,
    max_ahead: Lateness = None,
    on_ahead: OnLate = "raise",
    emit_updates: bool = False,
    on_invalid: OnBadRow = "raise",
    nan: Nan = "raise",
    idle: Idle = "keep",
    retain: int = 2,
    publish: str | None = None,
    metrics: str | Observation = METRICS,
    **views: DataFrame,
) -> DataFrame:
    """Return the result of a SELECT with window functions, over streams or batches.

    Windows of one PARTITION BY and ORDER BY share one ``sliding_aggregate``, with its cost; each
    further PARTITION BY adds another one behind it. WHERE, joins, WITH, casts and expressions are
    left to Spark. ``docs/sql.md`` lists what is supported, and what each construct means.

    Raises InvalidQuery, which shows the position in the query, InvalidRequest and the errors of
    ``sliding_aggregate``. All of this happens before the query starts.

    Args:
        spark: The session.
        query: The SELECT.
        store: The URL of the pages' store; required for streams.
        dialect: The dialect of the query, as sqlglot names it, such as "duckdb" or "postgres".
        ties: With "peers", RANGE ... CURRENT ROW includes later rows of the same time, as SQL says;
            in a stream this is refused. With "rows", a window includes the rows of its time that
            come before its row.
        time_unit: The unit of ORDER BY columns that are numbers: "s", "ms", "us" or "ns". Frames
            may then be intervals.
        name: As for ``sliding_aggregate``, like the following options.
        buckets: The number of groups of keys.
        emit: "all" or "last".
        emit_every: A number of events, or a period, between results.
        on_late: What happens to a late row.
        allowed_lateness: How much older than the newest row of its partition a row may be.
        max_ahead: How far ahead of the clock a row may be.
        on_ahead: What happens to a row that is further ahead.
        emit_updates: Whether results that late rows change are emitted again.
        on_invalid: What happens to a row whose PARTITION BY or ORDER BY column is null.
        nan: What happens to a NaN.
        idle: What happens to the windows of idle partitions.
        retain: The number of checkpoints by which the query can be rolled back.
        publish: A name under which other processes read the windows.
        metrics: The name of the counts in ``observedMetrics``.
        views: DataFrames by the names that the query uses; other names are views of the session.
    """
    given = locals()
    options = {key: given[key] for key in (
        "store", "name", "buckets", *_OF_ONE_PASS, "allowed_lateness", "max_ahead", "on_invalid",
        "nan", "retain",
    )}  # fmt: skip
    parsed = parse(query, dialect)
    df, bound = _rows(spark, parsed, views)
    kinds = {field.name: field.dataType for field in df.schema.fields}
    passes = bound.passes(lambda on: _axis(kinds, on, time_unit), time_unit, ties, df.isStreaming)
    _check_options(passes, options)
    items = bound.items(passes, df.columns)
    read = {each for item in items if item.column for each in [item.column]} | set(bound.plain)
    results = set[str]()
    for place, each in enumerate(passes):
        later = {n for rest in passes[place + 1 :] for n in _columns_of(rest)}
        carry = [n for n in df.columns if n in read | later | results]
        on_unit = "us" if _axis(kinds, each.on, time_unit) == "number" else time_unit
        df = _with_windows(df, each, carry, on_unit, options, _metrics(metrics, place))
        results |= set(each.result_names().values())
    marks = [mark for mark in (CORRECTED, LATE, AHEAD) if mark in _marks(options)]
    shown = [_item(item.column, item.expression).alias(item.name) for item in items]
    return df.select(*shown, *map(column, marks))


def _rows(
    spark: SparkSession, query: Query, views: Mapping[str, DataFrame]
) -> tuple[DataFrame, Bound]:
    """Return the rows before the windows, and the query for their columns."""
    for name, view in views.items():
        if not hasattr(view, "isStreaming"):
            raise InvalidRequest(f"{name} is {view!r}: give a DataFrame, or an option of sql")
    own = {name.lower(): view for name, view in views.items()}
    table = query.table
    if table is None:
        bound = query.bind(None)
        given = [each.name.lower() for each in query.tables if each.name.lower() in own]
        names = {name: f"__view_{place}" for place, name in enumerate(dict.fromkeys(given))}
        text = query.before(bound, "spark", names).replace("{", "{{").replace("}", "}}")
        for name in names.values():
            text = text.replace(name, f"{{{name}}}")
        frames: dict[str, Any] = {each: own[name] for name, each in names.items()}
        return spark.sql(text, **frames), bound
    if not table.db and table.name.lower() in own:
        df = own[table.name.lower()]
    else:
        df = spark.table(table.sql("spark").partition(" AS ")[0])
    bound = query.bind(df.columns)
    named = df.alias(table.alias_or_name)
    if query.where is not None:
        named = named.where(query.where.sql("spark"))
        df = named
    if bound.computed:
        more = [F.expr(node.sql("spark")).alias(n) for n, node in bound.computed.items()]
        df = named.select("*", *more)
    return df, bound


def _axis(kinds: Mapping[str, T.DataType], name: str, unit: TimeUnit | None) -> Axis:
    """Return what a column of ORDER BY contains. Raises InvalidQuery for unsuitable types."""
    kind = kinds.get(name)
    if isinstance(kind, T.TimestampType | T.TimestampNTZType | T.DateType):
        return "time"
    if isinstance(kind, T.IntegralType):
        return "number" if unit is None else "numeric time"
    shown = "missing" if kind is None else kind.simpleString()
    raise InvalidQuery(
        f"ORDER BY {name}: the column is {shown}; order by a timestamp, a date or an integer, such "
        f"as ORDER BY CAST({name} AS TIMESTAMP)"
    )


def _check_options(passes: list[Pass], options: Mapping[str, Any]) -> None:
    if len(passes) < 2:
        return
    for name, choices in _OF_ONE_PASS.items():
        if options[name] not in choices:
            shown = " and ".join(f"by {', '.join(p.by) or 'nothing'}, {p.on}" for p in passes)
            raise InvalidRequest(
                f"{name} is {options[name]!r}, but the query has windows {shown}, which are "
                "computed one after the other: write one query for each of them, or leave "
                f"{name} out"
            )


def _with_windows(
    df: DataFrame, windows: Pass, carry: list[str], unit: TimeUnit | None,
    options: Mapping[str, Any], metrics: str | Observation,
) -> DataFrame:  # fmt: skip
    """Return the rows with the results of a pass."""
    kinds = {field.name: field.dataType for field in df.schema.fields}
    if not windows.by and ALL not in df.columns:
        df = df.withColumn(ALL, F.lit(0))
    found = sliding_aggregate(
        df, by=windows.by or (ALL,), on=windows.on, aggregations=windows.aggregations,
        window=windows.window, carry=carry, time_unit=unit, metrics=metrics, **options,
    )  # fmt: skip
    for result, like in windows.types().items():
        if found.schema[result].dataType != kinds[like]:
            found = found.withColumn(result, column(result).cast(kinds[like]))
    return found


def _columns_of(windows: Pass) -> Iterable[str]:
    """Return the columns that a pass reads."""
    yield from (*windows.by, windows.on)
    for columns, _, *filters in windows.aggregations.values():
        yield from (*(columns or ()), *filters)


def _metrics(metrics: str | Observation, place: int) -> str | Observation:
    if not place:
        return metrics
    return f"{metrics if isinstance(metrics, str) else METRICS}_{place + 1}"


def _marks(options: Mapping[str, Any]) -> set[str]:
    """Return the columns that mark rows; they follow the items."""
    asked = {
        CORRECTED: options["emit_updates"], LATE: options["on_late"] == "side",
        AHEAD: options["on_ahead"] == "side",
    }  # fmt: skip
    return {mark for mark, is_asked in asked.items() if is_asked}


def _item(name: str | None, expression: Any) -> Any:
    return column(name) if name is not None else F.expr(expression.sql("spark"))
