"""Events as rows: read from JSON, NDJSON and Arrow, and checked before they wait for others.

Every value is checked here, so that no event can make the batch of other clients fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from typing import Any

import msgpack
import numpy as np
import orjson

from mta.errors import InvalidTime, InvalidValue, MissingDependency, UnsuitableKey
from mta.keyed.key_types import MAX_KEY_BYTES
from mta.keyed.keys import read_key
from mta.publishing.buckets import bucket_of, reader_of
from mta.serve.keys import KeyForm
from mta.serve.requests import moment_of
from mta.service.declaration import ID, KEY_TYPES, Declaration
from mta.service.retries import NO_ID
from stores.errors import pip_install

#: The longest id, text of a value, and key, in characters.
MAX_TEXT = 1024
#: The beginning of the year 1, in microseconds since 1970: no answer could show an earlier time.
EARLIEST = -62_135_596_800_000_000


@dataclass(slots=True)
class Rows:
    """Events, in columns."""

    keys: list[Any] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    """Microseconds since 1970; None for the server's clock."""
    values: list[tuple[Any, ...]] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    """The digest of the id, the key and the given time; ``NO_ID`` without an id."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, places: Sequence[int]) -> Rows:
        columns = (self.keys, self.times, self.values, self.digests)
        return Rows(*([column[at] for at in places] for column in columns))  # type: ignore[arg-type]

    def extend(self, other: Rows) -> None:
        self.keys += other.keys
        self.times += other.times
        self.values += other.values
        self.digests += other.digests

    @staticmethod
    def of_keys(keys: list[Any]) -> Rows:
        """Return rows that only name keys, as plain data."""
        count = len(keys)
        return Rows(keys, [None] * count, [()] * count, [NO_ID] * count)

    def pack(self) -> list[Any]:
        """Return the rows as plain data, for another process."""
        return [self.keys, self.times, self.values, self.digests]


class RowReader:
    """Reads rows of declared windows. Raises InvalidValue, InvalidTime and UnsuitableKey."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self.form = KeyForm(declared.keys)
        self._key_names, self._key_kinds = map(list, zip(*declared.keys, strict=True))
        self._to_key = reader_of(declared.keys)
        #: Whether JSON has keys as they are.
        self._are_plain = not self.form.is_array and self._key_kinds != [KEY_TYPES["date"]]
        #: Whether no key can have too many bytes.
        self._are_short = not self.form.is_array and self._key_kinds != [KEY_TYPES["text"]]
        self._values = [*declared.values.items()]
        known = {*self._key_names, *declared.values, ID}
        self._known = known | ({declared.time} if declared.time else set())
        self.shard_of: Callable[[Any], int] = bucket_of(declared.keys, declared.shards)
        """Returns the shard of a key."""

    def of_mappings(self, given: Iterable[Any]) -> Rows:
        """Return rows of JSON objects, or of other mappings."""
        rows = Rows()
        for at, row in enumerate(given):
            try:
                self._add(rows, row)
            except (InvalidValue, InvalidTime, UnsuitableKey) as error:
                raise type(error)(f"row {at}: {error}") from None
        return rows

    def _add(self, rows: Rows, row: Any) -> None:
        if not isinstance(row, dict):
            raise InvalidValue("a row is an object with the declared columns")
        if unknown := row.keys() - self._known:
            names = ", ".join(sorted(self._known))
            raise InvalidValue(f"there is no column {min(unknown)!r:.60}; the columns are: {names}")
        parts = [row.get(name) for name in self._key_names]
        key = self.plain(self.form.of_json(parts if self.form.is_array else parts[0]))
        values = tuple([self._value(row, *column) for column in self._values])
        time = self._time(row)
        digest = NO_ID
        if (given := row.get(ID)) is not None:
            if not isinstance(given, str) or not 0 < len(given) <= MAX_TEXT:
                raise InvalidValue(f"{ID} is text of 1 to {MAX_TEXT} characters, not {given!r:.60}")
            what = msgpack.packb([given, key, time])
            digest = blake2b(what, digest_size=16).digest()
        rows.keys.append(key)
        rows.times.append(time)
        rows.values.append(values)
        rows.digests.append(digest)

    def plain(self, key: Any) -> Any:
        """Return a key as plain data. Raises UnsuitableKey if windows cannot have it."""
        checked = self._to_key(key)
        shown = self.form.to_json(checked)
        if not self._are_short and len(msgpack.packb(shown)) > MAX_KEY_BYTES // 2:
            read_key(checked, None)  # raises UnsuitableKey if it is too long
        return shown

    @staticmethod
    def _value(row: Mapping[str, Any], name: str, kind: str) -> Any:
        value: Any = row.get(name)
        types, fits = _VALUES[kind]
        if type(value) not in types or not fits(value):
            raise InvalidValue(f"{name} must be of type {kind}, not {value!r:.60}")
        return float(value) if kind == "float" else value

    def _time(self, row: Mapping[str, Any]) -> int | None:
        column = self._declared.time
        given = None if column is None else row.get(column)
        if given is None:
            if column is not None:
                raise InvalidTime(f"give the time of the event in the column {column!r}")
            return None
        moment = int(moment_of(given).astype("i8"))
        if moment < EARLIEST:
            raise InvalidTime(f"{given!r:.60} is before the year 1")
        return moment

    def keys_of(self, given: Sequence[Any]) -> list[Any]:
        """Return keys that were checked before, from plain data."""
        if self._are_plain:
            return [*given]
        return [self._to_key(self.form.of_json(each)) for each in given]

    # --- bodies -----------------------------------------------------------------------------------

    def of_json(self, body: bytes) -> tuple[Rows, bool]:
        """Return the rows of a JSON object or array, and whether it was an array."""
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise InvalidValue(f"the body is not JSON: {error.msg}") from None
        is_many = isinstance(given, list)
        return self.of_mappings(given if is_many else [given]), is_many

    def of_lines(self, body: bytes) -> Rows:
        """Return the rows of NDJSON."""
        return self.of_mappings(self._lines(body))

    def _lines(self, body: bytes) -> Iterable[Any]:
        for number, line in enumerate(body.splitlines(), 1):
            if line.strip():
                try:
                    yield orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise InvalidValue(f"line {number} is not JSON: {error.msg}") from None

    def of_arrow(self, body: bytes) -> Rows:
        """Return the rows of an Arrow stream. Raises MissingDependency without pyarrow."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise MissingDependency(f"Arrow needs pyarrow: {pip_install('workers')}") from None
        try:
            table = pa.ipc.open_stream(body).read_all()
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidValue(f"the body is not an Arrow stream: {error}") from None
        if self._declared.time in table.column_names:
            at = table.column_names.index(self._declared.time)
            times = table.column(at).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
            moments = [None if each is None else each / 1e6 for each in times]
            table = table.set_column(at, self._declared.time, pa.array(moments, pa.float64()))
        return self.of_mappings(table.to_pylist())


#: The types that JSON and Arrow have for values, and which of these values fit.
_VALUES: dict[str, tuple[tuple[type, ...], Callable[[Any], bool]]] = {
    "float": ((float, int), isfinite),
    "int": ((int,), lambda value: -(2**63) <= value < 2**63),
    "bool": ((bool,), lambda value: True),
    "text": ((str,), lambda value: len(value) <= MAX_TEXT),
}
#: The types of the columns of values.
DTYPES: dict[str, Any] = {"float": "f8", "int": "i8", "bool": "?", "text": object}


def columns_of(declared: Declaration, values: Sequence[Sequence[Any]]) -> dict[str, np.ndarray]:
    """Return the columns of values, of equal length, with their types."""
    columns = values or [[] for _ in declared.values]
    return {
        name: np.array(column, DTYPES[kind])
        for (name, kind), column in zip(declared.values.items(), columns, strict=True)
    }
