"""Read an input file in chunks of rows: CSV by RFC 4180, JSON, or Parquet.

The driver reads its sample with the same functions as Spark's workers read the files, so both see
the same rows. Python's own csv and json modules read text: unlike Spark's readers, they are strict
about bytes, quotes and the end of a file, and they know the line. A file that cannot be read raises
InvalidInput, with the file's name, the line and what to do.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from spark_integration.errors import InvalidInput

CHUNK_ROWS = 1 << 15
#: The maximum number of CSV cells in memory, except that there is at least one row.
CHUNK_CELLS = 1 << 22
#: The approximate maximum number of bytes in a chunk, uncompressed, except that there is one row.
CHUNK_BYTES = 64 << 20
#: The longest line, and the largest file with a JSON array, in bytes, uncompressed.
LINE_BYTES, ARRAY_BYTES = 16 << 20, 128 << 20
#: How many bytes are read at once.
READ_BYTES = 1 << 16
_BLANK = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
PARTS = pa.schema({"path": pa.string(), "first": pa.int64(), "end": pa.int64()})
#: The minimum size, uncompressed, of a part of a Parquet file that one core reads.
PART_BYTES = 128 << 20
COMMON_DELIMITERS = ",;\t|"
#: How many names of columns an error shows.
SHOWN_NAMES = 30
#: The endings of the names of files by format.
SUFFIXES = {
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
    "parquet": (".parquet", ".pq"),
}


_Row = TypeVar("_Row")


@dataclass(frozen=True)
class FileLayout:
    """The format of the files."""

    format: str
    delimiter: str = ","
    quote: str = '"'
    """Empty if quotes are ordinary characters."""
    encoding: str = "utf-8"
    decimal: str = "."
    """The decimal mark of numbers in CSV: a point or a comma."""

    @property
    def codec(self) -> str:
        """Return the name of the encoding, which skips the byte order mark of UTF-8."""
        name = codecs.lookup(self.encoding).name
        return "utf-8-sig" if name == "utf-8" else name

    def cells(self, lines: Iterable[str]) -> Any:
        how: dict[str, Any] = {"quotechar": self.quote} if self.quote else {}
        how["quoting"] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.delimiter, strict=True, **how)


@dataclass(frozen=True)
class RowChunk:
    """Some rows of a file: their columns, and the line (Parquet: the row number) of each row."""

    columns: dict[str, Any]
    rows: Sequence[int]
    malformed: dict[int, str] = field(default_factory=dict)
    """What is wrong with a whole row, by its place in the chunk."""


def read_chunks(
    path: Path,
    layout: FileLayout,
    names: Sequence[str] | None = None,
    size: int = CHUNK_ROWS,
    groups: range | None = None,
) -> Iterator[RowChunk]:
    """Yield the rows of a file in chunks, with some or all columns. Raises InvalidInput.

    Columns of text files are lists of ``str`` and None, columns of Parquet files are Arrow arrays.
    A file without rows gives one empty chunk, a file without columns gives none.
    """
    with named_errors(path, layout):
        if layout.format == "parquet":
            yield from _parquet_chunks(path, names, size, groups)
        else:
            read = _csv_chunks if layout.format == "csv" else _json_chunks
            yield from read(path, layout, names, size)


def _csv_chunks(
    path: Path, layout: FileLayout, names: Sequence[str] | None, size: int
) -> Iterator[RowChunk]:
    with _open_text(path, layout) as text:
        cells, end = layout.cells(text), 0
        try:
            header = next(cells, None)
            if header is None:
                return
            _check_header(path, header, layout)
            size = max(1, min(size, CHUNK_CELLS // max(1, len(header))))
            names = _present(path, header, names)
            place = {name: at for at, name in reversed([*enumerate(header)])}
            places = [place[name] for name in names]
            end, more = cells.line_num, True
            while more:
                rows: list[list[str]] = []
                lines, malformed = [], {}
                full = text.source.count + CHUNK_BYTES
                for row in cells:
                    start, end = end + 1, cells.line_num
                    if not row:  # an empty line
                        continue
                    if len(row) != len(header):
                        malformed[len(rows)] = f"cells {len(row)}, columns {len(header)}"
                        row = [""] * len(header)
                    rows.append(row)
                    lines.append(start)
                    more = len(rows) == size or text.source.count >= full
                    if more:
                        break
                else:
                    more = False
                pairs = zip(names, places, strict=True)
                columns = {name: [row[place] or None for row in rows] for name, place in pairs}
                yield RowChunk(columns, lines, malformed)
        except csv.Error as error:
            raise InvalidInput(
                f"{path}, the row that starts in line {end + 1}: {error}: close its quotes, double "
                "each quote inside quotes, or give --quote '' if quotes are ordinary characters"
            ) from error


def _check_header(path: Path, header: list[str], layout: FileLayout) -> None:
    other = [c for c in COMMON_DELIMITERS if c != layout.delimiter and c in header[0]]
    if len(header) == 1 and len(other) == 1:
        typed = "\\t" if other[0] == "\t" else other[0]
        raise InvalidInput(
            f"{path}: the header is one cell, {header[0]!r}: give --delimiter '{typed}'"
        )


def _json_chunks(
    path: Path, layout: FileLayout, names: Sequence[str] | None, size: int
) -> Iterator[RowChunk]:
    with _open_text(path, layout) as text:
        rows = _json_rows(path, text)
        while part := list(_until_full(islice(rows, size), text.source)):
            malformed = {at: row for at, (_, row) in enumerate(part) if isinstance(row, str)}
            found = [{} if isinstance(row, str) else row for _, row in part]
            wanted = (
                dict.fromkeys(name for row in found for name in row) if names is None else names
            )
            columns = {name: [_json_cell(row.get(name)) for row in found] for name in wanted}
            yield RowChunk(columns, [line for line, _ in part], malformed)


def _until_full(rows: Iterator[_Row], source: _Source) -> Iterator[_Row]:
    """Yield rows until a chunk of bytes is read."""
    full = source.count + CHUNK_BYTES
    for row in rows:
        yield row
        if source.count >= full:
            return


def _json_rows(path: Path, text: _Text) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the line, or the number in an array, of each object; other values become a text."""
    is_first = True
    for line, row in enumerate(text, 1):
        if row.isspace():
            continue
        if is_first and row.lstrip().startswith("["):
            yield from _json_array(path, row + text.read())
            return
        is_first = False
        yield line, _json_object(row)


def _json_object(text: str) -> dict[str, Any] | str:
    try:
        row = json.loads(text, parse_float=_json_float)
        if "\\u" in text:  # half of a surrogate pair is not valid text
            json.dumps(row, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return f"{text.strip()[:80]} ({error})"
    return row if isinstance(row, dict) else text.strip()[:80]


def _json_array(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    try:
        rows = json.loads(text, parse_float=_json_float)
        if "\\u" in text:
            json.dumps(rows, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path}: not a JSON array ({error}): write an array of objects, or one object per line"
        ) from error
    for number, row in enumerate(rows, 1):
        yield number, row if isinstance(row, dict) else _nested(row)[:80]


def _json_float(text: str) -> float | str:
    """Return the number, or the text of a number that is too large for a double."""
    number = float(text)
    return number if math.isfinite(number) else text


def _json_cell(value: Any) -> str | None:
    """Return the text of a JSON value; an empty text counts as missing, like an empty CSV cell."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return _nested(value, ensure_ascii=False, separators=(",", ":"))


def _nested(value: Any, **how: Any) -> str:
    """Return a nested value as text; of one that is too deep for the library, a text about it."""
    try:
        return json.dumps(value, **how)
    except RecursionError:
        return "[nested too deeply]"


def _parquet_chunks(
    path: Path, names: Sequence[str] | None, size: int, groups: range | None
) -> Iterator[RowChunk]:
    with pq.ParquetFile(path) as file:
        names = _present(path, file.schema_arrow.names, names)
        meta, batch = file.metadata, None
        groups = range(meta.num_row_groups) if groups is None else groups
        start = 1 + sum(meta.row_group(group).num_rows for group in range(groups.start))
        for batch in file.iter_batches(size, list(groups), names):
            columns = {name: batch.column(name) for name in names}
            yield RowChunk(columns, range(start, start + batch.num_rows))
            start += batch.num_rows
        if batch is None:
            yield RowChunk(
                {name: pa.nulls(0, file.schema_arrow.field(name).type) for name in names}, ()
            )


def split_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield parts of Parquet files: the path, the first row group, and the one after the last."""
    for path in listed_paths(batches):
        with named_errors(path, FileLayout("parquet")):
            meta = pq.read_metadata(path)
        parts, first, size = [], 0, 0
        for group in range(meta.num_row_groups):
            size += meta.row_group(group).total_byte_size
            if size >= PART_BYTES or group == meta.num_row_groups - 1:
                parts.append({"path": str(path), "first": first, "end": group + 1})
                first, size = group + 1, 0
        yield pa.RecordBatch.from_pylist(parts, PARTS)


def listed_paths(batches: Iterable[pa.RecordBatch]) -> Iterator[Path]:
    """Yield the paths of the files that Spark lists, such as ``file:/in/a.csv``."""
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield Path(path.removeprefix("file://").removeprefix("file:"))


def _present(path: Path, there: Sequence[str], names: Sequence[str] | None) -> Sequence[str]:
    """Return ``names``, or all columns. Raises InvalidInput if a name is missing or repeated."""
    if names is None:
        return list(dict.fromkeys(there))
    counts = Counter(there)
    for name in names:
        if counts[name] != 1:
            what = "several columns" if name in there else "no column"
            raise InvalidInput(
                f"{path} has {what} {name!r}; its columns are {listed(there)}: every file of "
                "the input must have each column that the command names exactly once"
            )
    return names


def listed(names: Sequence[str]) -> str:
    """Return the names of columns for an error, quoted, so that blanks in them are seen.

    >>> listed(["device", " ts"])
    "'device', ' ts'"
    """
    shown = ", ".join(map(repr, names[:SHOWN_NAMES]))
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


class _Source(io.RawIOBase):
    """The bytes of a text file, uncompressed, without a line that does not fit in memory.

    Python reads a line as a whole, and a few kilobytes of gzip can be a line of gigabytes.
    """

    def __init__(self, path: Path, file: Any, is_json: bool) -> None:
        self._path, self._file = path, file
        #: How many bytes are read.
        self.count = 0
        self._line_start = 0
        # Blanks, and the marks and zeros of encodings, may precede an array.
        self._is_array = is_json and file.peek(64).lstrip(_BLANK).startswith(b"[")
        self._most = ARRAY_BYTES if self._is_array else LINE_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        data = self._file.read(len(room))
        room[: len(data)] = data
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end >= 0 and not self._is_array:
            self._line_start = self.count + end
        self.count += len(data)
        if self.count - self._line_start > self._most:
            what = "one line: end each row with a line break, and close all quotes"
            if self._is_array:
                what = "a JSON array, which is read as a whole: write one object per line"
            raise InvalidInput(
                f"{self._path} has more than {self._most >> 20} MiB in {what}; or remove the file "
                "from the input"
            )
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Text(io.TextIOWrapper):
    """The text of a file, and the source of its bytes."""

    source: _Source


def _open_text(path: Path, layout: FileLayout) -> _Text:
    file: Any = path.open("rb")
    packed = file.peek(2)[:2] == b"\x1f\x8b"
    file = gzip.GzipFile(fileobj=file) if packed else file
    source = _Source(path, file, layout.format == "json")
    newline = "" if layout.format == "csv" else "\n"
    text = _Text(io.BufferedReader(source, READ_BYTES), layout.codec, newline=newline)
    text.source = source
    return text


@contextmanager
def named_errors(path: Path, layout: FileLayout) -> Iterator[None]:
    """Turn a library's errors about the file into InvalidInput."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}, line {_line_of(path, layout)}: the bytes {error.object[error.start :][:4]!r} "
            f"are not {layout.encoding}: give --encoding, such as latin-1, cp1252 or utf-16, or "
            "correct the file"
        ) from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"{path} cannot be read as {layout.format} ({reason}): it may be damaged, truncated "
            "or still being written; replace it with a complete copy, or remove it from the input"
        ) from error


def _line_of(path: Path, layout: FileLayout) -> int:
    """Return the line of the first bytes that the encoding cannot decode; linear in the file."""
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
