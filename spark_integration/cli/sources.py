"""Input files: which they are, what their columns hold, and the stream that reads them.

A stream needs its schema before it starts, so a sample of the first file tells it. Text columns
stay text except where a number or a time is asked for: keys such as ``007`` keep their zeros.

Spark reads files in the order of their modification times, and inside a micro-batch the rows are
sorted by event time. So where the files' times follow each other in the order in which Spark reads
them, a few files at a time are right; where they do not (unpacked archives, the parts of one Spark
job), only one batch of all files puts the events in order.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.job import Job
from spark_integration.errors import InputDenied, InvalidRequest
from spark_integration.sliding import column

SAMPLE_ROWS = 1000
ROWS_PER_BATCH = 500_000
TAIL_BYTES = 1 << 16
TIME_NAMES = ("timestamp", "ts", "time", "event_time", "datetime", "date")
KEY_NAMES = ("key", "device", "device_id", "sensor", "sensor_id", "id", "symbol", "name")
VALUE_NAMES = ("value", "watts", "price", "amount")
SUFFIXES = {
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz"),
    "parquet": (".parquet", ".pq"),
}
_read_json = partial(pd.read_json, lines=True, dtype=False, convert_axes=False, convert_dates=False)
KEY_COLUMN = "key"  # where the key is the file's name, or there is only one


@dataclass(frozen=True)
class Source:
    """The input files of a job, their format, and a sample of their rows."""

    inputs: tuple[Path, ...]
    files: tuple[Path, ...]
    format: str
    sample: pd.DataFrame
    partitions: dict[str, str]
    """The columns that stand in folder names such as ``device=7``, with the first file's values."""

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in self.sample.columns]


def open_source(job: Job) -> Source:
    """Find the job's files and look into the first; raises InvalidRequest if that fails."""
    inputs = tuple(Path(name).absolute() for name in job.input)
    for path in inputs:
        if not os.path.lexists(path):
            raise InvalidRequest(f"there is no file or folder {path}")
    found = [(path, fmt) for path in inputs for path, fmt in _files(path, job.format)]
    if not found:
        raise InvalidRequest(
            f"no CSV, JSON or Parquet file in {', '.join(map(str, inputs))}"
            + (": put the first one there, it tells the columns" if job.follow else "")
        )
    formats = sorted({fmt for _, fmt in found})
    if len(formats) > 1:
        raise InvalidRequest(f"the input holds {' and '.join(formats)} files: choose with --format")
    # In the order in which Spark will read them.
    files = sorted({path for path, _ in found}, key=lambda path: (path.stat().st_mtime_ns, path))
    partitions = _partitions(files[0], inputs[0]) if len(inputs) == 1 else {}
    sample = _first_sample(files, formats[0]).assign(**partitions)
    return Source(inputs, tuple(files), formats[0], sample, partitions)


def resolve_columns(job: Job, source: Source) -> Job:
    """The job with guessed columns filled in; InvalidRequest names the columns there are."""
    there_are = f"the columns are {', '.join(source.columns)}"
    time = job.time or _named(TIME_NAMES, source)
    if time is None:
        raise InvalidRequest(f"name a column with --time; {there_are}")
    named = [parse_aggregation(text, job.value or ("",)).column for text in job.agg]
    value = tuple(dict.fromkeys([*job.value, *filter(None, named)]))
    if not value:
        numeric = _numeric(source, time, job.key)
        guessed = numeric[0] if len(numeric) == 1 else _named(VALUE_NAMES, source)
        if guessed is None:
            raise InvalidRequest(f"name a column with --value; {there_are}")
        value = (guessed,)
    texts = job.agg or [f"{function}({name})" for name in value for function in ("max", "mean")]
    aggregations = [parse_aggregation(text, value) for text in texts]
    for option, names in (
        ("key", filter(None, [job.key])), ("time", [time]), ("value", value), ("keep", job.keep)
    ):  # fmt: skip
        for name in names:
            if name not in source.columns:
                raise InvalidRequest(f"--{option} {name!r}: {there_are}")
    for name in value:
        values = source.sample[name].dropna()
        wrong = values[pd.to_numeric(values, errors="coerce").isna()]
        if len(values) and len(wrong) == len(values):
            raise InvalidRequest(f"--value {name!r} holds {wrong.iloc[0]!r}, not numbers")
    names = [key_column(job), time, *value, *job.keep, *(agg.name for agg in aggregations)]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRequest(
            f"the result would have several columns {', '.join(repeated)}: "
            "name the aggregations apart, as in peak=max(watts)"
        )
    return job.replace(time=time, value=value, agg=tuple(map(str, aggregations)))


def guess_job(job: Job, source: Source) -> Job:
    """The job with key, time and value guessed from the sample, where they are not given."""
    time, key = job.time or _named(TIME_NAMES, source), job.key or _named(KEY_NAMES, source)
    if time is None:
        time = next((name for name in source.columns if _is_time(source.sample[name])), None)
    by_name = _named(VALUE_NAMES, source)
    return job.replace(
        key=key,
        key_from_file_name=job.key_from_file_name or (key is None and len(source.files) > 1),
        time=time,
        value=job.value or ((by_name,) if by_name else tuple(_numeric(source, time, key)[:1])),
    )


def read_input(
    spark: SparkSession, job: Job, source: Source, files_per_batch: int | None = None
) -> DataFrame:
    """The input as rows of key, time, values and kept columns.

    A stream of ``files_per_batch`` files at a time, or without it everything as one batch.
    """
    # Spark would otherwise pass over a new file that is a week older than the newest, in silence.
    options = {"maxFileAge": "36500d"}
    # Spark takes one path, and one that does not start with a slash as relative.
    path = "/{" + ",".join(_glob(file).removeprefix("/") for file in source.files) + "}"
    if len(source.inputs) == 1:
        path = _glob(source.inputs[0])
        options["pathGlobFilter"] = "*{" + ",".join(SUFFIXES[source.format]) + "}"
        if not source.partitions:
            options["recursiveFileLookup"] = "true"
    if source.format == "csv":
        options |= {"header": "true", "enforceSchema": "false"}
    if source.format == "parquet":
        schema = spark.read.options(**options).parquet(path).schema
    else:
        types = {name: T.DoubleType() for name in job.value}
        schema = T.StructType(
            [T.StructField(name, types.get(name, T.StringType())) for name in source.columns]
        )
    reader: Any = spark.read
    if files_per_batch is not None:
        reader = spark.readStream.option("maxFilesPerTrigger", str(files_per_batch))
    rows = reader.format(source.format).options(**options).schema(schema).load(path)
    values = [column(name).cast("double").alias(name) for name in job.value]
    kept = [column(name) for name in job.keep]
    selected: DataFrame = rows.select(
        key_of_row(job), time_column(job, source, schema), *values, *kept
    )
    return selected


def key_column(job: Job) -> str:
    """The name of the key in the results."""
    return job.key or KEY_COLUMN


def key_of_row(job: Job) -> Column:
    """The key: a column, the file's name without its ending, or the same for all."""
    if job.key_from_file_name:
        endings = "|".join(re.escape(end) for ends in SUFFIXES.values() for end in ends)
        # Spark gives the name as in a URL, where a plus is a plus and a space is %20.
        name = F.url_decode(F.replace("_metadata.file_name", F.lit("+"), F.lit("%2B")))
        return F.regexp_replace(name, f"(?i)({endings})$", "").alias(KEY_COLUMN)
    return column(job.key) if job.key else F.lit("all").alias(KEY_COLUMN)


def time_column(job: Job, source: Source, schema: T.StructType) -> Column:
    """The time column as a timestamp: from text, from a number since 1970, or as it is."""
    name = str(job.time)
    given, kind, sample = column(name), schema[name].dataType, source.sample[name].dropna()
    is_text = isinstance(kind, T.StringType)
    if isinstance(kind, T.NumericType) or (is_text and pd.api.types.is_numeric_dtype(sample)):
        # Nanoseconds, which Spark lacks, come as a number too, and as a time in the sample.
        numeric = pd.api.types.is_numeric_dtype(sample) and len(sample)
        ticks = _ticks_per_second(float(sample.median())) if numeric else 1e9
        number = given.try_cast("decimal(38, 6)")
        return F.timestamp_micros((number * (1e6 / ticks)).cast("long")).alias(name)
    if not is_text:
        return given.cast("timestamp").alias(name)
    if job.time_format:
        return F.try_to_timestamp(given, F.lit(job.time_format)).alias(name)
    if len(sample) and not _is_time(sample):
        raise InvalidRequest(
            f"--time {name!r} holds {sample.iloc[0]!r}: "
            "tell its form with --time-format, for example 'dd/MM/yyyy HH:mm'"
        )
    return F.try_to_timestamp(given).alias(name)


@dataclass(frozen=True)
class Batching:
    """How many files a micro-batch reads, and whether that is all of them for the order's sake."""

    files: int
    out_of_order: bool = False


def plan_batches(job: Job, source: Source) -> Batching:
    """About half a million rows to a batch, or everything in one where the order needs it."""
    if job.files_per_batch is not None:
        return Batching(job.files_per_batch)
    rows = sum(path.stat().st_size for path in source.files) / _bytes_per_row(source)
    fitting = max(1, round(ROWS_PER_BATCH * len(source.files) / max(rows, 1)))
    # A key that is a file of its own has no other file to be out of order with.
    if fitting >= len(source.files) or job.key_from_file_name or _in_order(job, source):
        return Batching(fitting)
    return Batching(len(source.files), out_of_order=True)


def _files(path: Path, fmt: str | None) -> list[tuple[Path, str]]:
    _require_readable(path)
    if path.is_file():
        guessed = fmt or _format_of(path)
        if guessed is None:
            raise InvalidRequest(f"cannot tell the format of {path.name}: choose with --format")
        return [(path, guessed)]
    found = []
    for file in _shown_files(path):
        guessed = _format_of(file)
        if guessed is not None and fmt in (None, guessed):
            _require_readable(file)
            found.append((file, guessed))
    return found


def _shown_files(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it, without hidden ones; raises InputDenied."""

    def refuse(error: OSError) -> None:
        _require_readable(Path(error.filename))
        raise error

    for above, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        shown = (Path(above, name) for name in names if not name.startswith((".", "_")))
        yield from (path for path in shown if path.is_file())


def _require_readable(path: Path) -> None:
    wanted = os.R_OK | (os.X_OK if path.is_dir() else 0)
    if not os.access(path, wanted):
        raise InputDenied(
            f"{path} may not be read by this user: give it the right to, or take it out of the "
            "input"
        )


def _format_of(path: Path) -> str | None:
    name = path.name.lower()
    return next((fmt for fmt, suffixes in SUFFIXES.items() if name.endswith(suffixes)), None)


def _partitions(file: Path, folder: Path) -> dict[str, str]:
    parents = file.relative_to(folder).parts[:-1] if folder.is_dir() else ()
    return {part.partition("=")[0]: part.partition("=")[2] for part in parents if "=" in part}


def _first_sample(files: Sequence[Path], fmt: str) -> pd.DataFrame:
    """Of the first file with rows, else of the first with columns; Spark passes over the others."""
    without_rows = None
    for file in files:
        if file.stat().st_size:
            sample = _sample(file, fmt)
            if len(sample):
                return sample
            if without_rows is None and len(sample.columns):
                without_rows = sample
    if without_rows is None:
        raise InvalidRequest(f"{files[0]} cannot be read as {fmt}: it is empty")
    return without_rows


def _sample(path: Path, fmt: str) -> pd.DataFrame:
    try:
        if fmt == "csv":
            return pd.read_csv(path, nrows=SAMPLE_ROWS)
        if fmt == "json":
            return _read_json(path, nrows=SAMPLE_ROWS)
        return dataset(path, format=fmt).head(SAMPLE_ROWS).to_pandas()
    except (ValueError, OSError, pa.ArrowException) as error:
        raise InvalidRequest(f"{path} cannot be read as {fmt}: {error}") from error


def _named(names: Sequence[str], source: Source) -> str | None:
    """The column with the first of these names that there is."""
    by_lower_name = {name.lower(): name for name in source.columns}
    return next((by_lower_name[name] for name in names if name in by_lower_name), None)


def _numeric(source: Source, *but: str | None) -> list[str]:
    return [str(name) for name in source.sample.select_dtypes("number") if name not in but]


def _is_time(column: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column) or column.empty:
        return False
    with warnings.catch_warnings(action="ignore"):
        return bool(
            pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601").notna().all()
        )


def _ticks_per_second(number: float) -> float:
    """Seconds, milliseconds, microseconds or nanoseconds, by the number's size."""
    return next((ticks for ticks in (1.0, 1e3, 1e6) if abs(number) < 1e11 * ticks), 1e9)


def _glob(path: Path) -> str:
    """The path as a pattern that matches only itself."""
    return re.sub(r"([\\*?\[\]{},])", r"\\\1", str(path))


def _in_order(job: Job, source: Source) -> bool:
    """Whether each file's times are known, and not before those of the file before it."""
    span = _parquet_span if source.format == "parquet" else _text_span
    try:
        spans = [span(path, source, str(job.time)) for path in source.files if path.stat().st_size]
        return all(before[1] <= after[0] for before, after in pairwise(spans))
    except (TypeError, ValueError, LookupError, AttributeError):
        return False  # there are none, or they are of different kinds


def _parquet_span(path: Path, source: Source, time: str) -> tuple[Any, Any]:
    """The least and the greatest time in a Parquet file, from its footer."""
    metadata, column = pq.read_metadata(path), source.columns.index(time)
    groups = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups)]
    found = [group.statistics for group in groups]
    return min(group.min for group in found), max(group.max for group in found)


def _text_span(path: Path, source: Source, time: str) -> tuple[Any, Any]:
    """The times in the first and the last line; a file that is sorted by time lies between them."""
    if path.suffix == ".gz":
        raise ValueError("the last line could only be reached through all others")
    csv = source.format == "csv"
    with path.open("rb") as file:
        first = [file.readline() for _ in range(1 + csv)][-1]
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        lines = io.BytesIO(first.rstrip() + b"\n" + file.read().splitlines()[-1])
    times = (pd.read_csv(lines, names=source.columns) if csv else _read_json(lines))[time]
    if not pd.api.types.is_numeric_dtype(times):
        times = pd.to_datetime(times, utc=True, format="mixed")
    return times.iloc[0], times.iloc[1]


def _bytes_per_row(source: Source) -> float:
    first = next(path for path in source.files if path.stat().st_size)
    if source.format == "parquet":
        return first.stat().st_size / max(1, int(pq.read_metadata(first).num_rows))
    packed = first.suffix == ".gz"
    with gzip.open(first) if packed else first.open("rb") as file:
        head = file.read(TAIL_BYTES)
    return len(head) / max(1, head.count(b"\n")) / (8 if packed else 1)
