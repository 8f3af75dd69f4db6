"""``mta run --sql``: a query whose FROM names files."""

from __future__ import annotations

from glob import glob, has_magic
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mta.queries.compiler import Bound, Query
from mta.queries.tables import parse
from spark_integration.cli.expressions import parse_every
from spark_integration.cli.job import OF_WINDOWS, Job
from spark_integration.cli.progress import unlogged
from spark_integration.cli.sources import Source, check_times, numeric_columns, time_unit
from spark_integration.errors import InvalidRequest
from spark_integration.queries import sql

#: Options of windows that a query does not have.
_NOT_OF_SQL = ("nulls", "min_samples")
#: Options that a query replaces.
_REPLACED = ("key", "key_from_file_name", "time", "value", "carry", "agg", "min_samples")


def with_input(job: Job) -> Job:
    """Return the job with the files that FROM names, unless the command names others.

    Raises InvalidQuery and InvalidRequest.
    """
    name, text = _table(job), str(job.sql)
    given = [option for option in _REPLACED if getattr(job, option)]
    if given:
        raise InvalidRequest(
            f"--sql and --{given[0].replace('_', '-')} are both given: the query says it, so leave "
            "the option out"
        )
    if job.nulls != "skip":
        raise InvalidRequest(f"--sql skips nulls: leave --nulls {job.nulls} out")
    if job.input:
        return job
    found = tuple(sorted(glob(name, recursive=True))) if has_magic(name) else (name,)
    if not found:
        raise InvalidRequest(f"no file matches {name!r}, which --sql {text!r} reads from")
    return job.replace(input=found)


def resolve(job: Job, source: Source) -> Job:
    """Return the job with the columns that the query reads. Raises InvalidQuery."""
    query, bound = _bound(job, source.columns)
    passes = bound.passes(lambda _: "time", None, job.ties, streaming=True)
    times = {each.on for each in passes}
    time = times.pop()
    if times or time not in source.columns:
        raise InvalidRequest(
            f"--sql: all windows are ordered by one column of the files, not by {time!r}: the "
            f"columns are {', '.join(source.columns)}"
        )
    keys = [name for each in passes for name in each.by if name in source.columns]
    key = next((name for name in keys if name != time), None)
    used = query.columns_of(source.columns)
    others = [name for name in used if name not in (key, time)]
    numbers = set() if source.format == "parquet" else set(numeric_columns(source, time, key))
    value = tuple(name for name in others if name in numbers)
    carry = tuple(name for name in others if name not in numbers)
    check_times(job, source, time)
    resolved = job.replace(key=key, time=time, value=value, carry=carry)
    return resolved.replace(time_unit=time_unit(resolved, source))


def results_of(spark: SparkSession, job: Job, source: Source, rows: DataFrame) -> DataFrame:
    """Return the results of the query over the input, in the order of the files' columns."""
    read = {job.key, job.time, *job.value, *job.carry}
    shown = rows.select(*(f"`{name}`" for name in source.columns if name in read))
    options: dict[str, Any] = {name: getattr(job, name) for name in OF_WINDOWS}
    options = {name: value for name, value in options.items() if name not in _NOT_OF_SQL}
    options[_table(job)] = shown
    if not rows.isStreaming:
        options |= {"publish": None}
    every = None if job.emit_every is None else parse_every(job.emit_every)
    try:
        with unlogged():
            return sql(
                spark, str(job.sql), store=job.store_url, ties=job.ties, emit_every=every, **options
            )
    except PySparkException as error:
        said = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
        raise InvalidRequest(f"--sql: Spark refuses a part of the query: {said}") from error


def _table(job: Job) -> str:
    query = parse(str(job.sql), "spark")
    if query.table is None:
        raise query.text.error(
            query.select.args["from_"], "mta run reads the files of one FROM",
            "join in a job of your own, with spark_integration.sql",
        )  # fmt: skip
    return query.table.name


def _bound(job: Job, columns: list[str]) -> tuple[Query, Bound]:
    query = parse(str(job.sql), "spark")
    return query, query.bind(columns)
