"""``mta run``: from files to one result row per event, with pages in a store, and a plot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from signal import SIGINT, SIGTERM
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from mta.cli.console import own_command, plural, say
from mta.times import TIME_UNITS, to_duration
from mta.windows.display import human_bytes
from spark_integration import sliding_aggregate
from spark_integration.checkpoint import has_commits, ping_home
from spark_integration.cli import sources, stream
from spark_integration.cli.checkpoints import list_windows, store_totals
from spark_integration.cli.expressions import (
    Aggregation,
    described_window,
    parse_aggregation,
    parse_every,
    parse_window,
)
from spark_integration.cli.job import OF_WINDOWS, Job, read_job
from spark_integration.cli.progress import (
    Progress,
    Reason,
    files_done,
    follow_query,
    spark_errors,
)
from spark_integration.errors import InvalidInput, InvalidRequest
from spark_integration.options import Options
from spark_integration.session import local_session, signalled
from spark_integration.versions import INSTALLED
from stores.local_disk import open_no_link

CLAIM = ".running"
PLOT = "plot.png"
#: How results are written as CSV, and read again: by RFC 4180, with every blank and microsecond.
CSV = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]


@spark_errors()
def run(job: Job) -> Progress:
    """Run the job to the end of its input (with ``follow``, until a signal), and report.

    Raises KeyboardInterrupt if a signal came before the end of the input.
    """
    job, source, aggregations = _opened(job)
    with claimed(job.folder):
        ping_home(job.store_url, write=True)  # before an earlier run is deleted
        if job.sql:  # also before: Spark checks expressions
            _results(job, source, aggregations, stream.read_input(_spark(job), job, source))
        _prepare_folder(job)
        _announce(job, source)
        say("starting Spark")
        spark = _spark(job)
        started = has_commits(job.checkpoint)
        with signalled(SIGINT, SIGTERM) as stop:
            batching = sources.plan_batches(job, source)
            if batching.out_of_order:
                say(
                    "the order of the files' modification times is not the order of their events: "
                    f"all {batching.files} files are read and sorted in one batch"
                )
            rows = _with_watermark(stream.read_input(spark, job, source, batching.files), job)
            progress = _new_progress(job, source)
            results = _results(job, source, aggregations, rows)
            running = _start(results, job)
            follow_query(running, progress, stop, by_work=job.follow)
            _report(spark, job, source, progress, started)
            if job.plot and not job.sql and (progress.rows or not (job.folder / PLOT).exists()):
                plot_results(spark, job, aggregations, results.schema)
        if progress.stopped and not job.follow:
            raise KeyboardInterrupt  # the input was not read to its end
        _check_yield(job, source, progress)
        return progress


def _opened(job: Job) -> tuple[Job, sources.Source, list[Aggregation]]:
    """Return the job with its columns, its input and its aggregations, checked without Spark."""
    if job.sql:
        from spark_integration.cli import query  # it needs the extra sql

        job = query.with_input(job)
        source = sources.open_source(job)
        return query.resolve(job, source), source, []
    source = sources.open_source(job)
    job = sources.resolve_columns(job, source)
    aggregations = [parse_aggregation(text, job.value) for text in job.agg]
    Options.of(**_arguments(job, aggregations))  # raises an error for options that conflict
    return job, source, aggregations


def _results(
    job: Job, source: sources.Source, aggregations: Sequence[Aggregation], rows: DataFrame
) -> DataFrame:
    """Return the results over the rows of the input."""
    if job.sql:
        from spark_integration.cli import query

        return query.results_of(rows.sparkSession, job, source, rows)
    return sliding_aggregate(rows, **_arguments(job, aggregations))


def _spark(job: Job) -> SparkSession:
    return local_session(cores=job.cores, memory=job.memory, log=job.folder / "spark.log")


def _new_progress(job: Job, source: sources.Source) -> Progress:
    """Return the progress at the start, which includes the files that earlier runs have read."""
    files = [path for path in source.files if path.stat().st_size]
    return Progress(
        files=files_done(job.checkpoint, files),
        all_files=None if job.follow else len(files),
        reasons=[Reason(text) for text in stream.select_columns(job, source).reasons],
    )


def _check_yield(job: Job, source: sources.Source, progress: Progress) -> None:
    """Raises InvalidInput if an input that the command names gave no rows."""
    if job.follow or progress.stopped:
        return
    if source.empty:
        raise InvalidInput(
            f"no rows in {', '.join(map(str, source.empty))}: remove it from the command, or find "
            "out why it is empty; the rows of the other inputs are in the results"
        )
    if progress.rows and progress.invalid == progress.rows:
        raise InvalidInput(
            f"none of the {plural(progress.rows, 'row')} could be used: see the reasons "
            "above, and the options --time-format, --delimiter, --decimal and --encoding"
        )


def _arguments(job: Job, aggregations: Sequence[Aggregation]) -> dict[str, Any]:
    # The results also have the value columns that no aggregation reads.
    unread = set(job.value).difference(*(agg.columns for agg in aggregations))
    return {
        "by": sources.key_column(job),
        "on": str(job.time),
        "aggregations": {agg.name: agg.pair(str(job.time)) for agg in aggregations},
        "window": parse_window(job.window),
        "store": job.store_url,
        "emit_every": None if job.emit_every is None else parse_every(job.emit_every),
        "carry": [*job.carry, *(name for name in job.value if name in unread)],
        **{name: getattr(job, name) for name in OF_WINDOWS},
    }


def _with_watermark(rows: DataFrame, job: Job) -> DataFrame:
    """Return the rows with a watermark for finding idle keys, if the job needs it."""
    if job.idle == "keep":
        return rows
    try:
        delay = to_duration(job.watermark, "a watermark", least=0)
    except ValueError as error:
        raise InvalidRequest(f"--watermark {job.watermark!r}: {error}") from error
    return rows.withWatermark(str(job.time), f"{delay} microseconds")


def read_results(spark: SparkSession, job: Job, schema: StructType | None = None) -> DataFrame:
    """Return the committed result rows of the job; only Parquet can be read without a schema."""
    reader = spark.read.format(job.write)
    if job.write == "csv":
        reader = reader.options(**CSV, multiLine="true")
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(str(job.result_folder))


def plot_results(
    spark: SparkSession, job: Job, aggregations: list[Aggregation], schema: StructType
) -> None:
    """Plot the results of a run into its folder, if matplotlib is installed."""
    try:
        from spark_integration.cli.plot import draw
    except ImportError:
        say("no plot: matplotlib is not installed (install the extra 'plots')")
        return
    path = job.folder / PLOT
    values = ", ".join(job.value)
    # Rows of boundaries have results but no values.
    alone = job.emit_every or not values
    shown = f"aggregates of {values or 'rows'}" if alone else f"{values}, and its aggregates"
    title = f"{shown} over a sliding window of {job.window}{_periods(job)}"
    results = read_results(spark, job, schema)
    if job.on_late == "side":
        results = results.where("not late")
    if job.on_ahead == "side":
        results = results.where("not ahead")
    if job.emit_updates:  # a plot of all rows would show both results of an event
        results = results.where("not corrected")
    if job.idle == "emit" and job.value:  # rows about idle keys have no values
        results = results.where(F.col(f"`{job.value[0]}`").isNotNull())
    key = sources.key_column(job)
    which = draw(results, key, str(job.time), aggregations, title, path, job.plot_keys)
    if which is not None:
        more = "; --plot-keys shows more" if " of " in which else ""
        say(f"plot      {path} ({which}{more})")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder, creating it if needed; raises InvalidRequest if another run has locked it.

    The kernel releases the lock when the process ends, however it ends; the file stays.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = open_no_link(str(folder / CLAIM), os.O_RDWR | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise InvalidRequest(f"--output {folder}: {error.strerror}") from error
    with os.fdopen(descriptor, "a+") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InvalidRequest(
                f"another 'mta run' (process {file.read().strip()}) is using {folder}: wait until "
                "it ends, or choose another --output"
            ) from None
        except OSError as error:
            say(f"{folder} cannot be locked ({error.strerror}): do not run another 'mta run' there")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _prepare_folder(job: Job) -> None:
    earlier = read_job(job.folder)
    if job.overwrite and earlier is not None:
        # Remove only what a run writes, and only if there was a run.
        for name in ("results", "checkpoint", "pages"):
            shutil.rmtree(job.folder / name, ignore_errors=True)
    if not job.checkpoint.exists():  # the settings of a run that never started do not matter
        # Spark would silently skip batches that the old results already have.
        if (job.result_folder / "_spark_metadata").exists():
            raise InvalidRequest(
                f"{job.result_folder} contains the results of a run whose checkpoint is gone: "
                "choose another --output, or delete that folder"
            )
    elif earlier is None:
        raise InvalidRequest(
            f"{job.folder} contains a checkpoint of another program: choose another --output"
        )
    elif differences := job.differences(earlier, described_window):
        raise InvalidRequest(
            f"{job.folder} contains a run with other settings ({'; '.join(differences)}): "
            "choose another --output, or give --overwrite to delete that run"
        )
    try:
        job.save()
    except OSError as error:
        raise InvalidRequest(f"--output {job.folder}: {error.strerror}") from error


def _announce(job: Job, source: sources.Source) -> None:
    key = "the file's name" if job.key_from_file_name else job.key or "none, one window"
    unit = "" if job.time_unit is None else f" ({TIME_UNITS[job.time_unit]} since 1970)"
    size = sum(path.stat().st_size for path in source.files)
    files = plural(len(source.files), f"{source.format} file")
    say(f"input     {files}, {human_bytes(size)}")
    say(f"columns   key {key}, time {job.time}{unit}, value {', '.join(job.value) or 'none'}")
    if job.sql:
        say(f"query     {' '.join(job.sql.split())}{_periods(job)}")
    else:
        say(f"window    {job.window}: {', '.join(job.agg)}{_periods(job)}")
    say(f"output    {job.folder}")


def _periods(job: Job) -> str:
    """Return the period of results as text; empty if each row has a result."""
    return "" if job.emit_every is None else f", every {job.emit_every}"


def _start(results: DataFrame, job: Job) -> StreamingQuery:
    writer = results.writeStream.format(job.write).outputMode("append")
    if job.write == "csv":
        writer = writer.options(**CSV)
    writer = writer.option("checkpointLocation", str(job.checkpoint.absolute()))
    if not job.follow:
        writer = writer.trigger(availableNow=True)
    return writer.start(str(job.result_folder.absolute()))


def _report(
    spark: SparkSession, job: Job, source: sources.Source, progress: Progress, started: bool
) -> None:
    if progress.rows:
        say(f"done      {progress}")
    elif not progress.stopped:
        say(
            "nothing new: all files of the input have already been read"
            if started
            else "no rows: the files of the input are empty"
        )
    aside = (("late", progress.late, job.on_late), ("ahead", progress.ahead, job.on_ahead))
    for label, count, choice in aside:
        if count:
            done = "marked" if choice == "side" else "dropped"
            say(f"{label:9} {plural(count, 'row')}, {done}")
    if progress.invalid:
        say(f"invalid   {plural(progress.invalid, 'row')}, dropped")
        for reason in filter(lambda reason: reason.rows, progress.reasons):
            say(f"          {reason.describe(stream.unit_of(source))}")
        if others := progress.invalid - sum(reason.rows for reason in progress.reasons):
            say(f"          {others:,} x a value that an aggregation does not accept")
    if has_commits(job.checkpoint) and INSTALLED >= (4, 0):  # older ones read no checkpoint
        say(f"windows   {list_windows(spark, job.checkpoint, job.store_url, limit=0)}")
        say(f"store     {store_totals(spark, job.checkpoint, job.store_url)}")
    say(f"results   {job.result_folder}")
    if job.publish is not None:
        say(f"serve     {own_command()} serve {quote(job.output)}")
