"""Messages and lines as events.

A message is a JSON object, or a bare number, which is the column ``value``. The topic of a message
is the column ``topic``. Keys are text: ``7`` and ``"7"`` are one key.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from math import nan
from typing import Any, NamedTuple, TypeVar

import xxhash

from mta.device.config import Config
from mta.errors import UnsuitableKey, WindowStoreError
from mta.keyed.key_types import kind_of
from mta.keyed.keys import hash_and_bytes
from mta.times import TimeUnit, to_time

Key = str | tuple[str, ...]
Row = dict[str, Any]
#: The key of all events if no key columns are configured.
EVERYTHING = "all"
_Value = TypeVar("_Value")


class InvalidEvent(WindowStoreError, ValueError):
    """A message or line is not an event of the configured windows; it is counted and dropped."""


class Event(NamedTuple):
    """An event of a key; two with the same key, time and id are one event."""

    key: Key
    time: int
    """In microseconds since 1970."""
    id: bytes
    values: dict[str, float]


def read_json(message: bytes, topic: str = "") -> Row:
    """Return a message as a row. Raises InvalidEvent."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(f"not JSON ({error}): {message[:60]!r}") from error
    row = found if isinstance(found, dict) else {"value": found}
    return {"topic": topic, **row} if topic else row


def read_csv(header: list[str], line: bytes) -> Row:
    """Return a line as a row. Raises InvalidEvent."""
    try:
        return dict(zip(header, cells(line), strict=True))
    except (ValueError, csv.Error) as error:
        raise InvalidEvent(f"not a row of {','.join(header)} ({error}): {line[:60]!r}") from error


def cells(line: bytes) -> list[str]:
    """Return the cells of a line of CSV. Raises ValueError and csv.Error."""
    return next(csv.reader([line.decode()], strict=True))


def read_event(config: Config, row: Row) -> Event:
    """Return a row as an event. Raises InvalidEvent."""
    parts = tuple(_read(row, column, _key) for column in config.keys)
    key = parts[0] if len(parts) == 1 else parts or EVERYTHING
    try:
        hash_and_bytes(key, kind_of(key))
    except UnsuitableKey as error:
        raise InvalidEvent(str(error)) from error
    moment = time.time_ns() // 1000
    if config.time:
        moment = _read(row, config.time, partial(_time, config.time_unit))
    own = _read(row, config.id, lambda value: value) if config.id else row
    digest = xxhash.xxh3_64_digest(json.dumps(own, sort_keys=True).encode())
    values = {c: _read(row, c, float, nan) for c in config.aggregations.columns}
    return Event(key, moment, digest, values)


def _read(
    row: Row, column: str, convert: Callable[[Any], _Value], missing: _Value | None = None
) -> _Value:
    """Return a converted value; ``missing`` if there is none. Raises InvalidEvent."""
    value = row.get(column)
    if value is None or value == "":
        if missing is None:
            raise InvalidEvent(f"no {column} in {str(row)[:200]}")
        return missing
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidEvent(f"{column} is {value!r:.60}: {error}") from error


def _key(value: Any) -> str:
    if not isinstance(value, str | int):
        raise TypeError("a key is text or a whole number")
    return str(value)


def _time(unit: TimeUnit | None, value: Any) -> int:
    if not isinstance(value, str):
        return to_time(value, unit)
    try:
        number = float(value)  # first: 1701010100000 is also an ISO time of 1701
    except ValueError:
        return to_time(datetime.fromisoformat(value))
    return to_time(number, unit)
