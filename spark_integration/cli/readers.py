"""One input file to Arrow columns: CSV by RFC 4180, JSON, and Parquet.

The driver reads its sample with the same functions with which Spark's workers read everything, so
both see the same rows. Python's own csv and json modules read text: they are strict about bytes,
quotes and the end of a file, and they know the line, which Spark's readers do not.

Three rules hold for every format:

- A file that cannot be read raises InvalidInput with its name, the line and what to do.
- A row that cannot be used has a ``reason``, the text that was ``found``, and its file and line.
- A text is a number where Python's ``float`` reads it and it has no underscore.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_integration.errors import InvalidInput

CHUNK_ROWS = 1 << 15
UTC_MICROS = pa.timestamp("us", "UTC")
#: The columns that follow those of the rows: where each row is, and why it cannot be used.
ORIGIN = pa.schema(
    {"file": pa.string(), "row": pa.int64(), "reason": pa.string(), "found": pa.string()}
)
PARTS = pa.schema({"path": pa.string(), "first": pa.int64(), "end": pa.int64()})
MALFORMED = "the row cannot be read"
#: A folder of a null value, as Hive and Spark name it.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: A part of a Parquet file that one core reads is at least as long, uncompressed.
PART_BYTES = 128 << 20
COMMON_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Layout:
    """How the rows are written in the files."""

    format: str
    delimiter: str = ","
    quote: str = '"'
    """Empty where a quote is an ordinary character."""
    encoding: str = "utf-8"

    @property
    def codec(self) -> str:
        """The encoding, which passes over the byte order mark of UTF-8."""
        name = codecs.lookup(self.encoding).name
        return "utf-8-sig" if name == "utf-8" else name

    def cells(self, lines: Iterable[str]) -> Any:
        """A ``csv.reader`` of these lines."""
        how: dict[str, Any] = {"quotechar": self.quote} if self.quote else {}
        how["quoting"] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.delimiter, strict=True, **how)


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file: its columns, and the line (Parquet: the row) at which each one is."""

    columns: dict[str, Any]
    rows: Sequence[int]
    malformed: dict[int, str] = field(default_factory=dict)
    """What is wrong with a row as a whole, by its place in the chunk."""


# --- files to chunks ---------------------------------------------------------------------------


def read_chunks(
    path: Path,
    layout: Layout,
    names: Sequence[str] | None = None,
    size: int = CHUNK_ROWS,
    groups: range | None = None,
) -> Iterator[Chunk]:
    """The rows of a file in chunks of at most ``size``, with these columns or all of them.

    ``groups`` are the row groups to read of a Parquet file, by default all. Text is lists of
    ``str`` and None, Parquet is Arrow arrays. A file without rows gives one empty chunk, one
    without columns none. Raises InvalidInput.
    """
    with _named_errors(path, layout):
        if layout.format == "parquet":
            yield from _parquet_chunks(path, names, size, groups)
        else:
            read = _csv_chunks if layout.format == "csv" else _json_chunks
            yield from read(path, layout, names, size)


def _csv_chunks(
    path: Path, layout: Layout, names: Sequence[str] | None, size: int
) -> Iterator[Chunk]:
    with _open_text(path, layout) as text:
        cells, end = layout.cells(text), 0
        try:
            header = next(cells, None)
            if header is None:
                return
            _check_header(path, header, layout)
            names = _present(path, header, names)
            places = [header.index(name) for name in names]
            end, more = cells.line_num, True
            while more:
                rows: list[list[str]] = []
                lines, malformed = [], {}
                for row in cells:
                    start, end = end + 1, cells.line_num
                    if not row:  # an empty line
                        continue
                    if len(row) != len(header):
                        malformed[len(rows)] = f"cells {len(row)}, columns {len(header)}"
                        row = [""] * len(header)
                    rows.append(row)
                    lines.append(start)
                    if len(rows) == size:
                        break
                more = len(rows) == size
                yield Chunk(
                    {
                        name: [row[place] or None for row in rows]
                        for name, place in zip(names, places, strict=True)
                    },
                    lines,
                    malformed,
                )
        except csv.Error as error:
            raise InvalidInput(
                f"{path}, the row that starts in line {end + 1}: {error}: close its quotes, write "
                "a quote within quotes twice, or give --quote '' if quotes are ordinary characters"
            ) from error


def _check_header(path: Path, header: list[str], layout: Layout) -> None:
    other = [c for c in COMMON_DELIMITERS if c != layout.delimiter and c in header[0]]
    if len(header) == 1 and len(other) == 1:
        typed = "\\t" if other[0] == "\t" else other[0]
        raise InvalidInput(
            f"{path}: the header is one cell, {header[0]!r}: give --delimiter '{typed}'"
        )


def _json_chunks(
    path: Path, layout: Layout, names: Sequence[str] | None, size: int
) -> Iterator[Chunk]:
    with _open_text(path, layout) as text:
        rows = _json_rows(path, text)
        while part := list(islice(rows, size)):
            malformed = {at: row for at, (_, row) in enumerate(part) if isinstance(row, str)}
            found = [{} if isinstance(row, str) else row for _, row in part]
            wanted = (
                dict.fromkeys(name for row in found for name in row) if names is None else names
            )
            columns = {name: [_json_cell(row.get(name)) for row in found] for name in wanted}
            yield Chunk(columns, [line for line, _ in part], malformed)


def _json_rows(path: Path, text: TextIO) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each object with its line, or its number in an array; a text says what is none."""
    line = 0
    for line, row in enumerate(text, 1):
        stripped = row.strip()
        if stripped.startswith("["):
            yield from _json_array(path, row + text.read(), line)
            return
        if stripped:
            yield line, _json_object(stripped)
            break
    yield from (
        (at, _json_object(row)) for at, row in enumerate(text, line + 1) if not row.isspace()
    )


def _json_object(text: str) -> dict[str, Any] | str:
    try:
        row = json.loads(text)
        if "\\u" in text:  # half of a surrogate pair is no text
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return f"{text.strip()[:80]} ({error})"
    return row if isinstance(row, dict) else text.strip()[:80]


def _json_array(path: Path, text: str, line: int) -> Iterator[tuple[int, dict[str, Any] | str]]:
    try:
        rows = json.loads(text)
        if "\\u" in text:
            json.dumps(rows, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path}: not a JSON array ({error}): write an array of objects, or an object per line"
        ) from error
    for number, row in enumerate(rows, 1):
        yield number, row if isinstance(row, dict) else json.dumps(row)[:80]


def _json_cell(value: Any) -> str | None:
    """The text of a JSON value; an empty text counts as missing, as an empty cell of CSV does."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parquet_chunks(
    path: Path, names: Sequence[str] | None, size: int, groups: range | None
) -> Iterator[Chunk]:
    with pq.ParquetFile(path) as file:
        names = _present(path, file.schema_arrow.names, names)
        meta, batch = file.metadata, None
        groups = range(meta.num_row_groups) if groups is None else groups
        start = 1 + sum(meta.row_group(group).num_rows for group in range(groups.start))
        for batch in file.iter_batches(size, list(groups), names):
            columns = {name: batch.column(name) for name in names}
            yield Chunk(columns, range(start, start + batch.num_rows))
            start += batch.num_rows
        if batch is None:
            yield Chunk(
                {name: pa.nulls(0, file.schema_arrow.field(name).type) for name in names}, ()
            )


def split_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The parts of Parquet files: path, first row group, and the one after the last."""
    for path in _paths(batches):
        with _named_errors(path, Layout("parquet")):
            meta = pq.read_metadata(path)
        parts, first, size = [], 0, 0
        for group in range(meta.num_row_groups):
            size += meta.row_group(group).total_byte_size
            if size >= PART_BYTES or group == meta.num_row_groups - 1:
                parts.append({"path": str(path), "first": first, "end": group + 1})
                first, size = group + 1, 0
        yield pa.RecordBatch.from_pylist(parts, PARTS)


def _paths(batches: Iterable[pa.RecordBatch]) -> Iterator[Path]:
    """The files that Spark lists, as ``file:/in/a.csv``."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield Path(path.removeprefix("file://").removeprefix("file:"))


def _present(path: Path, there: Sequence[str], names: Sequence[str] | None) -> Sequence[str]:
    """``names``, or all columns. Raises InvalidInput if one is not there, or there twice."""
    for name in names or ():
        if there.count(name) != 1:
            what = "several columns" if name in there else "no column"
            raise InvalidInput(
                f"{path} has {what} {name!r}; its columns are {', '.join(there)}: every file of "
                "the input has the columns that the command names, each once"
            )
    return list(dict.fromkeys(there)) if names is None else names


def _open_text(path: Path, layout: Layout) -> TextIO:
    file = path.open("rb")
    packed = file.peek(2)[:2] == b"\x1f\x8b"
    binary: Any = gzip.GzipFile(fileobj=file) if packed else file
    return io.TextIOWrapper(binary, layout.codec, newline="" if layout.format == "csv" else "\n")


@contextmanager
def _named_errors(path: Path, layout: Layout) -> Iterator[None]:
    """Turn what a library raises about the file into InvalidInput."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}, line {_line_of(path, layout)}: the bytes {error.object[error.start :][:4]!r} "
            f"are not {layout.encoding}: give --encoding, as latin-1, cp1252 or utf-16, or correct "
            "the file"
        ) from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"{path} cannot be read as {layout.format} ({reason}): it may be damaged, cut off or "
            "still being written; put a whole copy in its place, or take it out of the input"
        ) from error


def _line_of(path: Path, layout: Layout) -> int:
    """The line of the first bytes that are not of the encoding; linear in the file."""
    decoder, lines = codecs.getincrementaldecoder(layout.codec)(), 1
    with _open_text(path, layout) as text:
        while True:
            piece = text.buffer.read(CHUNK_ROWS)
            try:
                lines += decoder.decode(piece, not piece).count("\n")
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(layout.codec, "ignore")
                return lines + before.count("\n")
            if not piece:
                return lines


# --- chunks to rows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Which columns of the files make the rows, and as what."""

    layout: Layout
    roots: tuple[Path, ...]
    """The inputs; the folders below them may hold columns, as ``device=7``."""
    key: str | None
    """None where all rows have the key ``all``, or each file's name."""
    key_from_file_name: bool
    endings: tuple[str, ...]
    """What a file's name ends with that is no part of the key."""
    time: str
    values: tuple[str, ...]
    needed: frozenset[str]
    """The values without which a row cannot be used."""
    carried: tuple[str, ...]
    types: dict[str, pa.DataType]
    """The types of key, time and carried columns; the values are doubles."""

    @property
    def schema(self) -> pa.Schema:
        """The rows' columns: c0, the key, c1, the time, then values, carried ones and ORIGIN."""
        types = [self.types.get(self.key or "", pa.string()), self.types[self.time]]
        types += [pa.float64() for _ in self.values]
        types += [self.types[name] for name in self.carried]
        return pa.schema([(f"c{at}", kind) for at, kind in enumerate(types)] + list(ORIGIN))

    @property
    def reasons(self) -> list[str]:
        """Every reason for which a row cannot be used."""
        names = (self.key, self.time, *self.values)
        return [
            MALFORMED,
            *(_missing(name) for name in names if name),
            unreadable_time(self.time),
            *(_no_number(name) for name in self.values),
        ]

    def read_files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files whose paths are given, for mapInArrow."""
        for path in _paths(batches):
            yield from self.read(path)

    def read_parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of what ``split_files`` gives, for mapInArrow."""
        for batch in batches:
            for part in batch.to_pylist():
                yield from self.read(Path(part["path"]), range(part["first"], part["end"]))

    def read(self, path: Path, groups: range | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a file, or of some row groups of it. Raises InvalidInput."""
        partitions = partitions_of(path, self.roots)
        names = [self.key, self.time, *self.values, *self.carried]
        wanted = list(dict.fromkeys(n for n in names if n is not None and n not in partitions))
        for chunk in read_chunks(path, self.layout, wanted, groups=groups):
            found = {name: [text] * len(chunk.rows) for name, text in partitions.items()}
            with _named_errors(path, self.layout):
                yield self._rows(path, chunk, {**chunk.columns, **found})

    def _rows(self, path: Path, chunk: Chunk, found: dict[str, Any]) -> pa.RecordBatch:
        faults = _Faults({at: (MALFORMED, what) for at, what in chunk.malformed.items()})
        rows = len(chunk.rows)
        if self.key is None:
            name = _without(path.name, self.endings) if self.key_from_file_name else "all"
            columns = [pa.repeat(name, rows)]
        else:
            columns = [_as(self.types[self.key], found[self.key], path, self.key)]
            faults.add_nulls(columns[0], _missing(self.key))
        is_text = self.types[self.time] == pa.string()
        families = ("text", "number") if is_text else ("time",)
        columns.append(_as(self.types[self.time], found[self.time], path, self.time, families))
        faults.add_nulls(columns[1], _missing(self.time))
        for name in self.values:
            numbers, wrong = to_numbers(found[name], path, name)
            columns.append(numbers)
            if name in self.needed:
                faults.add(wrong, _no_number(name))
                faults.add_nulls(numbers, _missing(name))
        columns += [_as(self.types[name], found[name], path, name) for name in self.carried]
        columns += [pa.repeat(str(path), rows), pa.array(chunk.rows, pa.int64())]
        columns += faults.columns(rows)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class _Faults(dict[int, tuple[str, str]]):
    """The first reason against each row, and what was found there."""

    def add(self, found: dict[int, str], reason: str) -> None:
        for at, text in found.items():
            self.setdefault(at, (reason, text))

    def add_nulls(self, column: pa.Array, reason: str) -> None:
        if column.null_count:
            at = pc.indices_nonzero(column.is_null()).to_pylist()
            self.add(dict.fromkeys(at, ""), reason)

    def columns(self, rows: int) -> list[pa.Array]:
        if not self:
            return [pa.nulls(rows, pa.string())] * 2
        pairs = [self.get(at, (None, None)) for at in range(rows)]
        return [pa.array(column, pa.string()) for column in zip(*pairs, strict=True)]


def _missing(name: str) -> str:
    return f"no {name}"


def _no_number(name: str) -> str:
    return f"{name} is no number"


def unreadable_time(name: str) -> str:
    """The reason against a row whose time is a text of another form."""
    return f"{name} cannot be read as a time"


def partitions_of(path: Path, roots: Iterable[Path]) -> dict[str, str | None]:
    """The columns that stand in the names of the folders below an input, always as text.

    >>> partitions_of(Path("/in/device=007/a.csv"), [Path("/in")])
    {'device': '007'}
    """
    for root in roots:
        if path != root and path.is_relative_to(root):
            pairs = [part.partition("=") for part in path.relative_to(root).parts[:-1]]
            texts = {name: unquote(text) for name, equals, text in pairs if equals}
            return {name: None if text == NULL_PARTITION else text for name, text in texts.items()}
    return {}


def _without(name: str, endings: Iterable[str]) -> str:
    ending = next((end for end in endings if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)]


# --- cells to values ---------------------------------------------------------------------------


def to_number(cell: Any) -> float:
    """A cell as a double, NaN included. Raises ValueError or TypeError for what is no number.

    >>> [to_number(cell) for cell in (" 7 ", "1e3", "-.5", "inf", 3)]
    [7.0, 1000.0, -0.5, inf, 3.0]
    """
    if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
        raise ValueError(cell)
    return float(cell)


def is_number(cell: Any) -> bool:
    """Whether a cell that is not missing is a number."""
    try:
        to_number(cell)
    except (TypeError, ValueError):
        return False
    return True


def to_numbers(cells: Any, path: Path, name: str) -> tuple[pa.Array, dict[int, str]]:
    """A column as doubles, null for missing, blank, NaN and wrong cells, and the wrong ones."""
    if isinstance(cells, pa.Array):
        family = _family(cells.type)
        if family == "number":
            doubles = cells.cast(pa.float64(), safe=False)
            return pc.if_else(pc.is_nan(doubles), pa.scalar(None, pa.float64()), doubles), {}
        if family not in ("text", "null"):
            raise InvalidInput(f"{path}: the column {name!r} holds {cells.type}, not numbers")
        cells = cells.to_pylist()
    numbers: list[float | None] = []
    wrong = {}
    for at, cell in enumerate(cells):
        try:
            number = None if cell is None else to_number(cell)
        except ValueError:
            number = None
            if cell.strip():
                wrong[at] = cell[:80]
        numbers.append(None if number is None or math.isnan(number) else number)
    return pa.array(numbers, pa.float64()), wrong


def type_in_results(kind: pa.DataType) -> pa.DataType:
    """As what a Parquet column of this type is carried; wide enough for what other files hold."""
    family = _family(kind)
    if family == "number":
        if pa.types.is_decimal(kind):
            return kind
        if pa.types.is_uint64(kind):
            return pa.decimal128(20, 0)
        return pa.int64() if pa.types.is_integer(kind) else pa.float64()
    if family in ("text", "null") or pa.types.is_time(kind):
        return pa.string()
    return UTC_MICROS if pa.types.is_timestamp(kind) else kind


def type_of_time(kind: pa.DataType, what: str) -> pa.DataType:
    """As what a time column of this type is read. Raises InvalidInput for what holds no times."""
    family = _family(kind)
    if family == "time":
        return UTC_MICROS
    if family in ("text", "number", "null"):
        return pa.string()
    hint = ": write date and time in one column" if pa.types.is_time(kind) else ""
    raise InvalidInput(f"{what} holds {kind}, not timestamps, dates, numbers or text{hint}")


def _family(kind: pa.DataType) -> str:
    """Types whose values are converted into each other without a change of what they mean."""
    is_a = pa.types
    if is_a.is_dictionary(kind):
        return _family(kind.value_type)
    if is_a.is_string(kind) or is_a.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind):
        return "number"
    return "time" if is_a.is_timestamp(kind) or is_a.is_date(kind) else str(kind)


def _as(
    kind: pa.DataType, cells: Any, path: Path, name: str, families: tuple[str, ...] = ()
) -> pa.Array:
    """A column as this type. Raises InvalidInput where the file has another kind of values."""
    if not isinstance(cells, pa.Array):
        cells = pa.array(cells, pa.string())
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    there = cells.type
    try:
        of_day = pa.types.is_time(there) and kind == pa.string() and not families
        if not of_day and _family(there) not in ("null", *(families or [_family(kind)])):
            raise pa.ArrowInvalid("another kind of values")
        # Spark has no nanoseconds; what is finer than a microsecond is cut off.
        return cells.cast(kind, safe=str(there).partition(",")[0] != "timestamp[ns")
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"{path}: the column {name!r} holds {there}, in the first file {kind} ({error}): "
            "write all files with one type"
        ) from error
