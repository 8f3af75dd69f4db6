"""Messages and lines as events.

A message is a JSON object, or a bare number, which is the column ``value``. The topic of a message
is the column ``topic``. Keys are text: ``7`` and ``"7"`` are one key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from math import nan
from typing import Any, NamedTuple

import xxhash

from mta.device.config import Config
from mta.errors import WindowStoreError
from mta.times import TimeUnit, to_time

Key = str | tuple[str, ...]
#: The key of all events if no key columns are configured.
EVERYTHING = "all"


class InvalidEvent(WindowStoreError, ValueError):
    """A message or line is not an event of the configured windows; it is counted and dropped."""


class Event(NamedTuple):
    """An event of a key; two with the same key, time and id are one event."""

    key: Key
    time: int
    """In microseconds since 1970."""
    id: bytes
    values: dict[str, float]


def read_json(message: bytes, topic: str = "") -> dict[str, Any]:
    """Return a message as a row. Raises InvalidEvent."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent(f"not JSON ({error}): {message[:60]!r}") from error
    row = found if isinstance(found, dict) else {"value": found}
    return {"topic": topic, **row} if topic else row


def read_event(config: Config, row: Mapping[str, Any]) -> Event:
    """Return a row as an event. Raises InvalidEvent."""
    parts = tuple(_key(row, column) for column in config.keys)
    key = parts[0] if len(parts) == 1 else parts or EVERYTHING
    given = row if not config.id else _required(row, config.id)
    digest = xxhash.xxh3_64_digest(json.dumps(given, sort_keys=True, default=str).encode())
    return Event(key, _time(config, row), digest, {c: _value(row, c) for c in config.columns})


def _required(row: Mapping[str, Any], column: str) -> Any:
    value = row.get(column)
    if value is None or value == "":
        raise InvalidEvent(f"no {column} in {str(dict(row))[:200]}")
    return value


def _key(row: Mapping[str, Any], column: str) -> str:
    value = _required(row, column)
    if isinstance(value, dict | list | float):
        raise InvalidEvent(f"{column} is {value!r:.60}: a key is text or a whole number")
    return str(value)


def _time(config: Config, row: Mapping[str, Any]) -> int:
    if not config.time:
        return time.time_ns() // 1000
    value = _required(row, config.time)
    unit: TimeUnit | None = config.time_unit or None  # type: ignore[assignment]
    try:
        if isinstance(value, str):
            try:
                return to_time(datetime.fromisoformat(value))
            except ValueError:
                value = float(value)
        return to_time(value, unit)
    except (ValueError, TypeError) as error:
        raise InvalidEvent(f"{config.time} is {value!r:.60}: {error}") from error


def _value(row: Mapping[str, Any], column: str) -> float:
    """Return a value; NaN if it is missing, which aggregations skip."""
    value = row.get(column)
    if value is None or value == "":
        return nan
    try:
        if isinstance(value, bool | int | float | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidEvent(f"{column} is {value!r:.60}: a value is a number")
