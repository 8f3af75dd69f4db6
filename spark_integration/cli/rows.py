"""The rows that a run reads from its files, as Spark's workers pass them to Spark.

- A row that cannot be used has a ``reason``, the text that was ``found``, and its file and line.
- A text is a number if Python's ``float`` reads it and it has no underscore.
- A column with different kinds of values in several files raises InvalidInput.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from mta.windows.settings import Nan
from spark_integration.cli.readers import (
    SUFFIXES,
    FileLayout,
    RowChunk,
    listed_paths,
    named_errors,
    read_chunks,
)
from spark_integration.errors import InvalidInput

UTC_MICROS = pa.timestamp("us", "UTC")
#: The last columns of the rows: where each row is, and why it cannot be used.
ORIGIN = pa.schema(
    {"file": pa.string(), "row": pa.int64(), "reason": pa.string(), "found": pa.string()}
)
MALFORMED = "the row cannot be read"
#: The name of the folder for null values in Hive and Spark.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Selection:
    """Which columns of the files are read, and with which types."""

    layout: FileLayout
    roots: tuple[Path, ...]
    """The inputs; the names of folders below them may contain columns, such as ``device=7``."""
    key: str | None
    """None if all rows have the key ``all``, or the name of their file."""
    key_from_file_name: bool
    time: str
    values: tuple[str, ...]
    needed: frozenset[str]
    """The values that aggregations read."""
    required: frozenset[str]
    """The values that every row must have."""
    nan: Nan
    carried: tuple[str, ...]
    """The other columns that counts and filters read, and those that go to the results."""
    types: dict[str, pa.DataType]
    """The types of the key, the time, carried columns and decimals; other values are doubles."""

    @property
    def schema(self) -> pa.Schema:
        """Return the rows' columns: c0 (key), c1 (time), then values, carried columns, ORIGIN."""
        types = [self.types.get(self.key or "", pa.string()), self.types[self.time]]
        types += [self.types.get(name, pa.float64()) for name in self.values]
        types += [self.types[name] for name in self.carried]
        return pa.schema([(f"c{at}", kind) for at, kind in enumerate(types)] + list(ORIGIN))

    @property
    def reasons(self) -> list[str]:
        names = (self.key, self.time, *self.values)
        return [
            MALFORMED,
            *(missing_reason(name) for name in names if name),
            unreadable_time(self.time),
            *(_no_number(name) for name in self.values),
        ]

    def read_files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files with these paths, for mapInArrow."""
        for path in listed_paths(batches):
            yield from self.read(path)

    def read_parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parts that ``split_files`` yields, for mapInArrow."""
        for batch in batches:
            for part in batch.to_pylist():
                yield from self.read(Path(part["path"]), range(part["first"], part["end"]))

    def read(self, path: Path, groups: range | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, or of some of its row groups. Raises InvalidInput."""
        partitions = partitions_of(path, self.roots)
        names = [self.key, self.time, *self.values, *self.carried]
        wanted = list(dict.fromkeys(n for n in names if n is not None and n not in partitions))
        for chunk in read_chunks(path, self.layout, wanted, groups=groups):
            found = {name: [text] * len(chunk.rows) for name, text in partitions.items()}
            with named_errors(path, self.layout):
                yield self._rows(path, chunk, {**chunk.columns, **found})

    def _rows(self, path: Path, chunk: RowChunk, found: dict[str, Any]) -> pa.RecordBatch:
        faults = _Faults({at: (MALFORMED, what) for at, what in chunk.malformed.items()})
        rows = len(chunk.rows)
        if self.key is None:
            name = _without_ending(path.name) if self.key_from_file_name else "all"
            columns = [pa.repeat(name, rows)]
        else:
            columns = [_as(self.types[self.key], found[self.key], path, self.key)]
            faults.add_nulls(columns[0], missing_reason(self.key))
        is_text = self.types[self.time] == pa.string()
        families = ("text", "number") if is_text else ("time",)
        columns.append(_as(self.types[self.time], found[self.time], path, self.time, families))
        faults.add_nulls(columns[1], missing_reason(self.time))
        for name in self.values:
            numbers, wrong = self._numbers(found[name], path, name)
            columns.append(numbers)
            if name in self.needed:
                faults.add(wrong, _no_number(name))
            if name in self.required:
                faults.add_nulls(numbers, missing_reason(name))
        columns += [_as(self.types[name], found[name], path, name) for name in self.carried]
        columns += [pa.repeat(str(path), rows), pa.array(chunk.rows, pa.int64())]
        columns += faults.columns(rows)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _numbers(self, cells: Any, path: Path, name: str) -> tuple[pa.Array, dict[int, str]]:
        """Return a column of values, and the cells that are not numbers."""
        if name in self.types:
            return _as(self.types[name], cells, path, name), {}
        return to_numbers(cells, path, name, self.nan, self.layout.decimal)


class _Faults(dict[int, tuple[str, str]]):
    """The first reason why each row cannot be used, and the text that was found there."""

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


def missing_reason(name: str) -> str:
    """Return the reason for a row without a key, a time or a value."""
    return f"no {name}"


def _no_number(name: str) -> str:
    return f"{name} is not a number"


def unreadable_time(name: str) -> str:
    """Return the reason for a row whose time is a text in another format."""
    return f"{name} cannot be read as a time"


def partitions_of(path: Path, roots: Iterable[Path]) -> dict[str, str | None]:
    """Return the columns in the names of the folders below an input, always as text.

    >>> partitions_of(Path("/in/device=007/a.csv"), [Path("/in")])
    {'device': '007'}
    """
    for root in roots:
        if path != root and path.is_relative_to(root):
            pairs = [part.partition("=") for part in path.relative_to(root).parts[:-1]]
            texts = {name: unquote(text) for name, equals, text in pairs if equals}
            return {name: None if text == NULL_PARTITION else text for name, text in texts.items()}
    return {}


def _without_ending(name: str) -> str:
    endings = chain.from_iterable(SUFFIXES.values())
    ending = next((end for end in endings if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)]


def to_number(cell: Any, decimal: str = ".") -> float:
    """Return a cell as a double, possibly NaN. Raises ValueError or TypeError for other cells.

    Numbers that are too large for a double are refused; only the word "inf" is infinite.

    >>> [to_number(cell) for cell in (" 7 ", "1e3", "-.5", "inf", 3)], to_number("20,97", ",")
    ([7.0, 1000.0, -0.5, inf, 3.0], 20.97)
    """
    if isinstance(cell, bool):
        raise ValueError(cell)
    if not isinstance(cell, str):
        return float(cell)
    if "_" in cell or (decimal != "." and "." in cell):
        raise ValueError(cell)
    number = float(cell.replace(decimal, "."))
    if math.isinf(number) and "inf" not in cell.lower():
        raise ValueError(cell)
    return number


def is_number(cell: Any, decimal: str = ".") -> bool:
    """Return whether a cell that is not missing is a number."""
    try:
        to_number(cell, decimal)
    except (TypeError, ValueError):
        return False
    return True


def to_numbers(
    cells: Any, path: Path, name: str, nan: Nan, decimal: str = "."
) -> tuple[pa.Array, dict[int, str]]:
    """Return a column as doubles, with nulls for missing and wrong cells, and the wrong cells."""
    if isinstance(cells, pa.Array):
        family = _family(cells.type)
        if family == "number":
            doubles = cells.cast(pa.float64(), safe=False)
            if nan == "propagate":
                return doubles, {}
            are = pc.is_nan(doubles)
            found = pc.indices_nonzero(are).to_pylist() if nan == "raise" else ()
            null = pa.scalar(None, pa.float64())
            return pc.if_else(are, null, doubles), dict.fromkeys(found, "nan")
        if family not in ("text", "null"):
            raise InvalidInput(f"{path}: the column {name!r} contains {cells.type}, not numbers")
        cells = cells.to_pylist()
    numbers: list[float | None] = []
    wrong = {}
    for at, cell in enumerate(cells):
        try:
            number = None if cell is None else to_number(cell, decimal)
        except ValueError:
            number = None
            if cell.strip():
                wrong[at] = cell[:80]
        if nan != "propagate" and number is not None and math.isnan(number):
            number = None
            if nan == "raise":
                wrong[at] = "nan"
        numbers.append(number)
    return pa.array(numbers, pa.float64()), wrong


def type_in_results(kind: pa.DataType) -> pa.DataType:
    """Return the type for carrying a Parquet column, wide enough for the values of other files."""
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
    """Return the type for reading a time column. Raises InvalidInput if it cannot have times."""
    family = _family(kind)
    if family == "time":
        return UTC_MICROS
    if family in ("text", "number", "null"):
        return pa.string()
    hint = ": write date and time in one column" if pa.types.is_time(kind) else ""
    raise InvalidInput(f"{what} contains {kind}, not timestamps, dates, numbers or text{hint}")


def _family(kind: pa.DataType) -> str:
    """Return the family of a type; conversions in a family do not change what values mean."""
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
    """Return a column as this type. Raises InvalidInput if the file has another kind of values."""
    if not isinstance(cells, pa.Array):
        cells = pa.array(cells, pa.string())
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    there = cells.type
    try:
        of_day = pa.types.is_time(there) and kind == pa.string() and not families
        if pa.types.is_decimal(kind) and pa.types.is_floating(there):
            raise pa.ArrowInvalid("doubles are not exact")
        if not of_day and _family(there) not in ("null", *(families or [_family(kind)])):
            raise pa.ArrowInvalid("another kind of values")
        # Spark has no nanoseconds, so times are truncated to microseconds.
        return cells.cast(kind, safe=str(there).partition(",")[0] != "timestamp[ns")
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"{path}: the column {name!r} contains {there}, but {kind} in the first file "
            f"({error}): write all files with the same type"
        ) from error
