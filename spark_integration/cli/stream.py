"""The stream or batch of a run's rows: Spark lists the files, and its workers read them.

Spark records in the checkpoint which files it has read. Its own readers are not used, because they
replace bytes that they cannot decode, swallow the text after an unclosed quote, read numbers by
Java's rules, and do not know line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from mta.times import TimeUnit
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.job import Job
from spark_integration.cli.readers import PARTS, SUFFIXES, split_files
from spark_integration.cli.rows import (
    ORIGIN,
    UTC_MICROS,
    Selection,
    missing_reason,
    type_in_results,
    type_of_time,
    unreadable_time,
)
from spark_integration.cli.sources import Source, key_column, other_columns, time_unit
from spark_integration.errors import InvalidRequest

#: The columns of Spark's list of files.
LISTED = "path string, modificationTime timestamp, length long, content binary"
#: The name of the counts of rows that cannot be used, in a query's ``observedMetrics``.
INPUT_METRICS = "input"
_NANOSECONDS: dict[TimeUnit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: Several cores read Parquet files that are larger than this.
LARGE_FILE = 32 << 20


def read_input(
    spark: SparkSession, job: Job, source: Source, files_per_batch: int | None = None
) -> DataFrame:
    """Return the input: key, time, values, carried columns, and columns for counts and filters.

    The result is a stream that reads ``files_per_batch`` files at a time, or by default a batch. A
    row that cannot be used fails the query with its file and line; with ``on_invalid="drop"``, it
    has no time instead and is counted in the stream's ``INPUT_METRICS``. ``nulls`` says the same
    for rows without a value.
    """
    # Otherwise Spark would silently skip a new file that is a week older than the newest one.
    options = {"maxFileAge": "36500d", "recursiveFileLookup": "true"}
    # Spark accepts only one path, and treats a path without a leading slash as relative.
    path = "/{" + ",".join(_glob(file).removeprefix("/") for file in source.files) + "}"
    if len(source.inputs) == 1:
        path = _glob(source.inputs[0])
        if source.inputs[0].is_dir():
            endings = ",".join(map(_any_case, SUFFIXES[source.format]))
            options["pathGlobFilter"] = f"*{{{endings}}}"
    reader: Any = spark.read
    if files_per_batch is not None:
        reader = spark.readStream.option("maxFilesPerTrigger", str(files_per_batch))
    files = reader.format("binaryFile").schema(LISTED).options(**options).load(path).select("path")
    selection = select_columns(job, source)
    schema = from_arrow_schema(selection.schema)
    are_large = any(file.stat().st_size > LARGE_FILE for file in source.files)
    if source.format == "parquet" and are_large:
        parts = files.mapInArrow(split_files, from_arrow_schema(PARTS))
        parts = parts.repartition(spark.sparkContext.defaultParallelism)
        rows = parts.mapInArrow(selection.read_parts, schema)
    else:
        rows = files.mapInArrow(selection.read_files, schema)
    rows = rows.withColumn("time", time_column(job, source))
    unread = F.when(F.isnotnull("c1") & F.isnull("time"), F.lit(unreadable_time(selection.time)))
    rows = rows.withColumn("reason", F.coalesce("reason", unread))
    rows = rows.withColumn("found", F.coalesce("found", F.col("c1").cast("string")))
    of_null = F.col("reason").isin([missing_reason(name) for name in selection.values])
    wrong, null = F.isnotnull("reason") & ~of_null, F.isnotnull("reason") & of_null
    time, fault = F.col("time"), F.raise_error(_fault(source))
    time = F.when(wrong, fault if job.on_invalid == "raise" else F.lit(None)).otherwise(time)
    if job.nulls == "raise":
        time = F.when(null, fault).otherwise(time)
    drops = job.on_invalid == "drop" or job.nulls == "drop_row"
    if drops and files_per_batch is not None:
        rows = rows.observe(INPUT_METRICS, *_counts(selection.reasons))
    names = [*selection.values, *selection.carried]
    values = [F.col(f"c{at}").alias(name) for at, name in enumerate(names, 2)]
    selected: DataFrame = rows.select(
        F.col("c0").alias(key_column(job)), time.alias(selection.time), *values
    )
    return selected


def select_columns(job: Job, source: Source) -> Selection:
    """Return what to read from the files. Raises InvalidRequest for an unusable type."""
    time, schema = str(job.time), source.schema
    carried = (*job.carry, *other_columns(job, source))
    types = {name: pa.string() for name in (job.key, time, *carried) if name is not None}
    in_files = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
    # Spark's decimals have up to 38 digits; longer ones are read as doubles, like other numbers.
    decimals = [name for name in in_files if pa.types.is_decimal128(in_files[name])]
    types |= dict.fromkeys(set(decimals).intersection(job.value), pa.string())
    for name in types.keys() & in_files.keys():
        kind, is_time = in_files[name], name == time
        types[name] = type_of_time(kind, f"--time {name!r}") if is_time else type_in_results(kind)
        try:
            from_arrow_type(types[name])
        except PySparkTypeError as error:
            raise InvalidRequest(
                f"the column {name!r} contains {kind}, a type that Spark does not know: leave the "
                "column out, or write it as text"
            ) from error
    read = frozenset(n for text in job.agg for n in parse_aggregation(text, job.value).columns)
    return Selection(
        layout=source.layout,
        roots=source.inputs,
        key=job.key,
        key_from_file_name=job.key_from_file_name,
        time=time,
        values=job.value,
        needed=read,
        required=read if job.nulls in ("raise", "drop_row") else frozenset(),
        nan=job.nan,
        carried=carried,
        types=types,
    )


def _counts(reasons: Sequence[str]) -> list[Column]:
    """Return for each reason the number of rows, and the first of them as JSON."""
    origin = F.struct(*(name for name in ORIGIN.names if name != "reason"))
    columns = []
    for at, reason in enumerate(reasons):
        is_it = F.col("reason") == reason
        columns += [F.count_if(is_it).alias(f"n{at}"),
                    F.to_json(F.min(F.when(is_it, origin))).alias(f"e{at}")]  # fmt: skip
    return columns


def _fault(source: Source) -> Column:
    """Return the text of the error about a row that cannot be used."""
    shown = F.regexp_replace("found", r"\s", " ")
    found = F.when(F.length("found") > 0, F.concat(F.lit(": '"), shown, F.lit("'")))
    hint = F.lit(
        "; correct it, or drop and count such rows with --on-invalid drop, or with --nulls "
        "drop_row rows without a value"
    )
    at = F.concat(F.lit(f", {unit_of(source)} "), F.col("row").cast("string"), F.lit(": "))
    return F.concat(
        F.lit("InvalidInput: "), "file", at, "reason", F.coalesce(found, F.lit("")), hint
    )


def unit_of(source: Source) -> str:
    """Return what row numbers count in a file: "row" or "line"."""
    return "row" if source.format == "parquet" else "line"


def time_column(job: Job, source: Source) -> Column:
    """Return the time column ``c1`` as a timestamp: from text, a number since 1970, or as it is."""
    if select_columns(job, source).types[str(job.time)] == UTC_MICROS:
        return F.col("c1")
    unit = time_unit(job, source)
    if unit is not None:
        micros = f"try_cast(c1 as decimal(28, 6)) * {_NANOSECONDS[unit]} / 1000"
        return F.expr(f"timestamp_micros(try_cast(floor({micros}) as bigint))")
    formats = [F.lit(job.time_format)] if job.time_format else []
    return F.try_to_timestamp(F.col("c1"), *formats)


def _glob(path: Path) -> str:
    """Return a pattern that matches only this path."""
    return re.sub(r"([\\*?\[\]{},])", r"\\\1", str(path))


def _any_case(ending: str) -> str:
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in ending)
