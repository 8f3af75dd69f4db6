"""Input files: which they are, what their columns contain, and how many a micro-batch reads.

A stream needs its schema before it starts, so it comes from a sample of the first file. Text
columns stay text unless a number or a time is needed: keys such as ``007`` keep their zeros.

Spark reads files in the order of their modification times, and the rows of a micro-batch are sorted
by event time. If the event times of the files are in that order too, a batch can read a few files.
Otherwise (unpacked archives, the parts of one Spark job), only a single batch of all files puts the
events in order.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mta.times import TIME_UNITS, TimeUnit, likely_unit
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.job import Job
from spark_integration.cli.readers import SUFFIXES, FileLayout, listed, read_chunks
from spark_integration.cli.rows import is_number, partitions_of, type_of_time
from spark_integration.errors import InputDenied, InvalidInput, InvalidRequest

SAMPLE_ROWS = 1000
ROWS_PER_BATCH = 500_000
TAIL_BYTES = 1 << 16
TIME_NAMES = ("timestamp", "ts", "time", "event_time", "datetime", "date")
KEY_NAMES = ("key", "device", "device_id", "sensor", "sensor_id", "id", "symbol", "name")
VALUE_NAMES = ("value", "watts", "price", "amount")
#: Texts such as 20240131 and 20240131120000, which are not counts of seconds or milliseconds.
_CALENDAR = re.compile(
    r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(([01]\d|2[0-3])[0-5]\d([0-5]\d)?)?"
)
#: A number with a currency sign, a percent sign or separators of thousands.
_DRESSED = re.compile(r"[^\w]{0,4}\d[\d.,'\s]*[^\w]{0,4}")
#: Common formats of times that are not ISO 8601: Spark's pattern, and the one of ``strptime``.
_DATES = {
    "d/M/yyyy": "%d/%m/%Y", "M/d/yyyy": "%m/%d/%Y", "d.M.yyyy": "%d.%m.%Y", "d-M-yyyy": "%d-%m-%Y",
    "M-d-yyyy": "%m-%d-%Y", "yyyy/M/d": "%Y/%m/%d", "yyyy-M-d": "%Y-%m-%d", "d/M/yy": "%d/%m/%y",
    "M/d/yy": "%m/%d/%y", "d.M.yy": "%d.%m.%y", "d MMM yyyy": "%d %b %Y", "d-MMM-yyyy": "%d-%b-%Y",
    "MMM d, yyyy": "%b %d, %Y",
}  # fmt: skip
_CLOCKS = {
    "": "", "H:mm": "%H:%M", "H:mm:ss": "%H:%M:%S", "h:mm a": "%I:%M %p",
    "h:mm:ss a": "%I:%M:%S %p",
}  # fmt: skip
KEY_COLUMN = "key"  # if the key is the file's name, or there is only one key


@dataclass(frozen=True)
class Source:
    """The input files of a job, their format, and a sample of their rows."""

    inputs: tuple[Path, ...]
    files: tuple[Path, ...]
    layout: FileLayout
    sample: pd.DataFrame
    schema: pa.Schema | None
    """The schema of a Parquet file; the columns of other files are text."""
    empty: tuple[Path, ...]
    """The inputs without rows."""

    @property
    def format(self) -> str:
        return self.layout.format

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in self.sample.columns]


def open_source(job: Job) -> Source:
    """Find the job's files and sample the first one; raises InvalidRequest if that fails."""
    inputs = tuple(Path(name).absolute() for name in job.input)
    for path in inputs:
        if not os.path.lexists(path):
            raise InvalidRequest(f"there is no file or folder {path}")
    found = [(path, fmt) for path in inputs for path, fmt in _files(path, job.format)]
    if not found:
        raise InvalidRequest(
            f"no CSV, JSON or Parquet file in {', '.join(map(str, inputs))}"
            + (": put the first file there, which defines the columns" if job.follow else "")
        )
    formats = sorted({fmt for _, fmt in found})
    if len(formats) > 1:
        raise InvalidRequest(
            f"the input contains {' and '.join(formats)} files: choose one format with --format"
        )
    layout = layout_of(job, formats[0])
    # Sort them in the order in which Spark will read them.
    files = sorted({path for path, _ in found}, key=lambda path: (path.stat().st_mtime_ns, path))
    first, sample = _first_sample(files, layout)
    partitions = partitions_of(first, inputs)
    schema = pq.read_schema(first) if layout.format == "parquet" else None
    empty = [
        path for path in inputs if not any(_has_rows(file, layout) for file in _below(path, files))
    ]
    return Source(inputs, tuple(files), layout, sample.assign(**partitions), schema, tuple(empty))


def layout_of(job: Job, fmt: str) -> FileLayout:
    """Return the format of the files as the job describes it. Raises InvalidRequest."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(job.delimiter, job.delimiter)
    if len(delimiter) != 1 or delimiter in '\r\n"' or delimiter == job.quote:
        raise InvalidRequest(
            f"--delimiter {job.delimiter!r}: give one character, such as ';' or '\\t'"
        )
    if len(job.quote) > 1 or job.quote in ("\r", "\n", " "):
        raise InvalidRequest(f"--quote {job.quote!r}: give one character, or '' for none")
    try:
        b"".decode(job.encoding)
        codecs.getincrementaldecoder(job.encoding)
    except LookupError as error:
        raise InvalidRequest(
            f"--encoding {job.encoding!r} is unknown: give utf-8, utf-16, latin-1, cp1252 or "
            "another encoding that Python supports"
        ) from error
    if fmt == "csv" and job.decimal == delimiter and not job.quote:
        raise InvalidRequest(f"--decimal and --delimiter are both {delimiter!r}: change one")
    decimal = job.decimal if fmt == "csv" else "."
    return FileLayout(fmt, delimiter, job.quote, job.encoding, decimal)


def resolve_columns(job: Job, source: Source) -> Job:
    """Return the job with guessed columns. Raises InvalidRequest, which lists the columns."""
    there_are = f"the columns are {listed(source.columns)}"
    time = job.time or _named(TIME_NAMES, source)
    if time is None:
        raise InvalidRequest(f"choose a column with --time; {there_are}{_times_in(source)}")
    asked = [parse_aggregation(text, job.value or ("",)) for text in job.agg]
    # An aggregation that names no column reads "", which stands for the guessed one.
    read = [name for each in asked if not each.counts for name in each.columns]
    value = tuple(filter(None, dict.fromkeys([*job.value, *read])))
    if not value and ("" in read or not asked):
        numeric = numeric_columns(source, time, job.key)
        guessed = numeric[0] if len(numeric) == 1 else _named(VALUE_NAMES, source)
        if guessed is None:
            raise InvalidRequest(f"choose a column with --value; {there_are}{_numbers_in(source)}")
        value = (guessed,)
    texts = job.agg or [f"{name}:{function}" for name in value for function in ("max", "mean")]
    aggregations = [parse_aggregation(text, value) for text in texts]
    counted = [name for each in aggregations if each.counts for name in each.columns]
    for option, names in (
        ("key", filter(None, [job.key])), ("time", [time]), ("value", value), ("carry", job.carry),
        ("agg", counted),
    ):  # fmt: skip
        for name in names:
            if name not in source.columns:
                raise InvalidRequest(f"--{option} {name!r}: {there_are}")
    for name in value:
        values = source.sample[name].dropna()
        if len(values) and not any(is_number(each, source.layout.decimal) for each in values):
            advice = _advice(values, source.layout) or "a query with --sql aggregates text too"
            what = f"--value {name!r} contains {values.iloc[0]!r}, not numbers"
            raise InvalidRequest(f"{what}: {advice}")
    check_times(job, source, time)
    names = [key_column(job), time, *value, *job.carry, *(agg.name for agg in aggregations)]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRequest(
            f"the result would have several columns {', '.join(repeated)}: "
            "give the aggregations different names, as in peak=watts:max"
        )
    resolved = job.replace(time=time, value=value, agg=tuple(map(str, aggregations)))
    return resolved.replace(time_unit=time_unit(resolved, source))


def other_columns(job: Job, source: Source) -> tuple[str, ...]:
    """Return the columns that only counts of values read; for a resolved job."""
    own = {job.key, job.time, *job.value, *job.carry}
    read = {n for text in job.agg for n in parse_aggregation(text, job.value).columns}
    return tuple(name for name in source.columns if name not in own and name in read)


def guess_job(job: Job, source: Source) -> Job:
    """Return the job with key, time and value guessed from the sample if they are not given."""
    time, key = job.time or _named(TIME_NAMES, source), job.key or _named(KEY_NAMES, source)
    if time is None:
        time = next((name for name in source.columns if _is_time(source.sample[name])), None)
    by_name = _named(VALUE_NAMES, source)
    return job.replace(
        key=key,
        key_from_file_name=job.key_from_file_name or (key is None and len(source.files) > 1),
        time=time,
        value=job.value
        or ((by_name,) if by_name else tuple(numeric_columns(source, time, key)[:1])),
    )


def key_column(job: Job) -> str:
    """Return the name of the key column in the results."""
    return job.key or KEY_COLUMN


def time_unit(job: Job, source: Source) -> TimeUnit | None:
    """Return the unit of numeric times, as given or judged by their size; None for other times."""
    cells = source.sample[str(job.time)].dropna()
    are_numbers = not job.time_format and len(cells) and all(map(is_number, cells))
    if job.time_unit is not None or not are_numbers:
        return job.time_unit
    numbers = cells.astype(float)
    units = {likely_unit(end) for end in (numbers.min(), numbers.max())}
    unit = units.pop()
    if units or unit is None:
        raise InvalidRequest(
            f"--time {job.time!r} contains numbers from {cells[numbers.idxmin()]} to "
            f"{cells[numbers.idxmax()]}, whose unit is ambiguous: set --time-unit to "
            f"one of {', '.join(TIME_UNITS)}"
        )
    return unit


@dataclass(frozen=True)
class Batching:
    """How many files a micro-batch reads, and whether it reads all because they are unordered."""

    files: int
    out_of_order: bool = False


def plan_batches(job: Job, source: Source) -> Batching:
    """Plan about half a million rows per batch, or one batch if the order requires it."""
    if job.files_per_batch is not None:
        return Batching(job.files_per_batch)
    rows = sum(path.stat().st_size for path in source.files) / _bytes_per_row(source)
    fitting = max(1, round(ROWS_PER_BATCH * len(source.files) / max(rows, 1)))
    # If each key is one file, no other file can be out of order with it.
    if fitting >= len(source.files) or job.key_from_file_name or _in_order(job, source):
        return Batching(fitting)
    return Batching(len(source.files), out_of_order=True)


def _files(path: Path, fmt: str | None) -> list[tuple[Path, str]]:
    _require_readable(path)
    if path.is_file():
        guessed = fmt or _format_of(path)
        if guessed is None:
            raise InvalidRequest(f"the format of {path.name} is unknown: choose it with --format")
        return [(path, guessed)]
    found = []
    for file in _shown_files(path):
        guessed = _format_of(file)
        if guessed is not None and fmt in (None, guessed):
            _require_readable(file)
            found.append((file, guessed))
    return found


def _shown_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and below it, except hidden ones; raises InputDenied."""

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
            f"{path} cannot be read by this user: grant permission, or remove it from the input"
        )


def _format_of(path: Path) -> str | None:
    name = path.name.lower()
    return next((fmt for fmt, suffixes in SUFFIXES.items() if name.endswith(suffixes)), None)


def _below(path: Path, files: Sequence[Path]) -> list[Path]:
    return [file for file in files if file == path or path in file.parents]


def _first_sample(files: Sequence[Path], layout: FileLayout) -> tuple[Path, pd.DataFrame]:
    """Return the first file with rows, or else with columns, and its sample."""
    without_rows = None
    for file in files:
        if file.stat().st_size:  # Spark skips empty files
            sample = _sample(file, layout)
            if len(sample):
                return file, sample
            if without_rows is None and len(sample.columns):
                without_rows = file, sample
    if without_rows is None:
        raise InvalidInput(f"{files[0]} cannot be read as {layout.format}: it is empty")
    return without_rows


def _sample(path: Path, layout: FileLayout) -> pd.DataFrame:
    for chunk in read_chunks(path, layout, size=SAMPLE_ROWS):
        table = pa.table(chunk.columns) if layout.format == "parquet" else None
        rows = pd.DataFrame(chunk.columns, dtype=object) if table is None else table.to_pandas()
        return rows.drop(index=list(chunk.malformed))
    return pd.DataFrame()


def _has_rows(path: Path, layout: FileLayout) -> bool:
    return path.stat().st_size > 0 and any(
        len(chunk.rows) for chunk in read_chunks(path, layout, (), size=1)
    )


def _named(names: Sequence[str], source: Source) -> str | None:
    by_lower_name = {name.lower(): name for name in source.columns}
    return next((by_lower_name[name] for name in names if name in by_lower_name), None)


def numeric_columns(source: Source, *but: str | None) -> list[str]:
    """Return the columns whose sample has only numbers, except some."""
    return [
        name
        for name in source.columns
        if name not in but and _holds_numbers(source.sample[name].dropna(), source.layout.decimal)
    ]


def _holds_numbers(cells: pd.Series, decimal: str = ".") -> bool:
    return bool(len(cells)) and all(is_number(cell, decimal) for cell in cells)


def _advice(cells: pd.Series, layout: FileLayout) -> str:
    """Return what to do about cells that are no numbers; '' if they do not look like numbers."""
    if _holds_numbers(cells, layout.decimal):
        return ""
    other = "," if layout.decimal == "." else "."
    if layout.format == "csv" and _holds_numbers(cells, other):
        return f"give --decimal '{other}' if that is the decimal mark"
    if all(_DRESSED.fullmatch(str(cell)) for cell in cells):
        return "write numbers without currency signs, units and separators of thousands"
    return ""


def _numbers_in(source: Source) -> str:
    """Return what to do about the first column with cells that look like numbers."""
    for name in source.columns:
        cells = source.sample[name].dropna()
        if len(cells) and (advice := _advice(cells, source.layout)):
            return f"; {name!r} contains {cells.iloc[0]!r}: {advice}"
    return ""


def _times_in(source: Source) -> str:
    """Return the first column with times in a common format, and the options that read it."""
    for name in source.columns:
        cells = source.sample[name].dropna()
        if formats := fitting_formats(map(str, cells)):
            what = f"--time {name!r} --time-format {_either(formats)}"
            return f"; {name!r} contains {cells.iloc[0]!r}: give {what}"
    return ""


def fitting_formats(texts: Iterable[str]) -> list[str]:
    """Return Spark's patterns for the common formats of times that read all these texts.

    >>> fitting_formats(["31/12/2024 9:30"]), fitting_formats(["1/2/2024"])
    (['d/M/yyyy H:mm'], ['d/M/yyyy', 'M/d/yyyy'])
    """
    distinct = [*dict.fromkeys(texts)]
    if not distinct:
        return []
    found = []
    for (date, of_date), (clock, of_clock) in product(_DATES.items(), _CLOCKS.items()):
        for between in (" ", ", ") if clock else ("",):
            if _reads(f"{of_date}{between}{of_clock}", distinct):
                found.append(f"{date}{between}{clock}")
    return found


def _reads(pattern: str, texts: Sequence[str]) -> bool:
    try:
        return all(datetime.strptime(text, pattern) for text in texts)
    except ValueError:
        return False


def _either(texts: Sequence[str]) -> str:
    return " or ".join(map(repr, texts))


def _is_time(column: pd.Series) -> bool:
    cells = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(cells):
        return True
    return bool(len(cells)) and not _holds_numbers(cells) and _read_as_times(cells).notna().all()


def _read_as_times(cells: pd.Series) -> pd.Series:
    with warnings.catch_warnings(action="ignore"):
        return pd.to_datetime(cells, errors="coerce", utc=True, format="ISO8601")


def check_times(job: Job, source: Source, time: str) -> None:
    """Raises InvalidRequest if the sample's times have a format that must be given."""
    cells = source.sample[time].dropna()
    if source.schema is not None and time in source.schema.names:
        type_of_time(source.schema.field(time).type, f"--time {time!r}")
    if job.time_format or pd.api.types.is_datetime64_any_dtype(cells) or not len(cells):
        return
    if _holds_numbers(cells):
        wrong = cells[[_CALENDAR.fullmatch(str(cell).strip()) is not None for cell in cells]]
        if len(wrong) < len(cells):
            return
        formats = ["yyyyMMdd", "yyyyMMddHHmmss"]
    else:
        wrong = cells[_read_as_times(cells.astype(str)).isna()]
        if not len(wrong) or (job.on_invalid == "drop" and len(wrong) < len(cells)):
            return
        formats = fitting_formats(map(str, wrong))
    if formats:
        how = f"give --time-format {_either(formats)}"
    else:
        how = "describe its format with --time-format, for example 'dd/MM/yyyy HH:mm'"
    raise InvalidRequest(f"--time {time!r} contains {wrong.iloc[0]!r}: {how}")


def _in_order(job: Job, source: Source) -> bool:
    """Return whether each file's times are known, and not before those of the previous file."""
    span = _parquet_span if source.format == "parquet" else _text_span
    try:
        spans = [span(path, source, str(job.time)) for path in source.files if path.stat().st_size]
        return all(before[1] <= after[0] for before, after in pairwise(spans))
    except (TypeError, ValueError, LookupError, AttributeError):
        return False  # there are no times, or they are of different kinds


def _parquet_span(path: Path, source: Source, time: str) -> tuple[Any, Any]:
    """Return the least and the greatest time in a Parquet file, from its footer."""
    metadata = pq.read_metadata(path)
    column = metadata.schema.names.index(time)
    groups = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups)]
    found = [group.statistics for group in groups]
    return min(group.min for group in found), max(group.max for group in found)


def _text_span(path: Path, source: Source, time: str) -> tuple[Any, Any]:
    """Return the times in the first and the last line: the range of a file sorted by time."""
    if path.suffix.lower() == ".gz":
        raise ValueError("reading the last line would require reading the whole file")
    layout = source.layout
    with path.open("rb") as file:
        lines = [file.readline() for _ in range(1 + (layout.format == "csv"))]
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        lines.append(file.read().splitlines()[-1])
    texts = [line.decode(layout.codec) for line in lines]
    if layout.format == "csv":
        header, *rows = layout.cells(texts)
        cells = [row[header.index(time)] for row in rows]
    else:
        cells = [json.loads(text)[time] for text in texts]
    if all(map(is_number, cells)):
        return float(cells[0]), float(cells[1])
    times = pd.to_datetime(pd.Series(cells), utc=True, format="ISO8601")
    return times.iloc[0], times.iloc[1]


def _bytes_per_row(source: Source) -> float:
    first = next(path for path in source.files if path.stat().st_size)
    if source.format == "parquet":
        return first.stat().st_size / max(1, int(pq.read_metadata(first).num_rows))
    packed = first.suffix.lower() == ".gz"
    with gzip.open(first) if packed else first.open("rb") as file:
        head = file.read(TAIL_BYTES)
    return len(head) / max(1, head.count(b"\n")) / (8 if packed else 1)
