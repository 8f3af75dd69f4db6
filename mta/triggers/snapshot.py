"""The format of the snapshot of a window with a trigger.

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, window, trigger, events, newest, given, held, open]
    magic    = "mta-triggered"
    version  = 1
    window   = bytes, the snapshot of the window itself (``snapshot``)
    trigger  = text, the trigger and its parameters
    events   = number of events accepted since the beginning
    newest   = microseconds since 1970 of the newest event, or nil
    given    = the moment of the last result that was returned, or nil
    moment   = microseconds since 1970 for a period, otherwise a number of events
    held     = [moments, columns]: results that were due when a store failed, not yet returned
    open     = columns of one row: the partial of the open slice; nil if that slice has no events
    columns  = array of [kind, bytes], as in a page

The rest of the window's state is in the snapshot of the window itself.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from mta.columns.schemas import Payload, Rows, Schema
from mta.errors import CorruptPage
from mta.pages import Snapshot, corrupt, seal, unseal
from mta.triggers.rules import Progress

MAGIC = "mta-triggered"
VERSION = 1
_TIMES = range(-(1 << 62), 1 << 62)
_COUNTS = range(1 << 62)


@dataclass(frozen=True, slots=True)
class TriggeredSnapshot:
    """The fields of a snapshot; the module describes them."""

    window: bytes
    trigger: str
    progress: Progress
    moments: list[int]
    columns: list[Payload]
    open: list[Payload] | None = None

    def encode(self) -> bytes:
        held = self.moments, self.columns
        fields = [self.window, self.trigger, *astuple(self.progress), held, self.open]
        return seal(MAGIC, VERSION, fields)

    @staticmethod
    def decode(data: bytes) -> TriggeredSnapshot:
        """Decode bytes. Raises CorruptSnapshot if they are damaged or have an unknown format."""
        return unseal(data, MAGIC, VERSION, "one of a window with a trigger", _validated)


def read_rows(schema: Schema, columns: list[Payload], count: int) -> Rows:
    """Decode columns of a snapshot. Raises CorruptSnapshot if they do not match the schema."""
    rest = iter(columns)
    try:
        rows, room = schema.load(rest, count), schema.new(count)
        schema.put_many(room, 0, rows)
    except (CorruptPage, ValueError, TypeError) as error:
        raise corrupt(str(error)) from error
    if next(rest, None) is not None:
        raise corrupt("it has too many columns")
    return room


def _validated(values: list[Any]) -> TriggeredSnapshot:
    """Return the fields as a snapshot. Raises CorruptSnapshot or TypeError for other fields."""
    window, trigger, events, newest, given, held, part = values
    if [type(value) for value in (window, trigger, held, part or [])] != [bytes, str, list, list]:
        raise corrupt("its fields have the wrong types")
    Snapshot.decode(window)
    moments, columns = held
    if not isinstance(moments, list) or not isinstance(columns, list):
        raise corrupt("its results are no lists")
    progress = Progress(_number(events, _COUNTS), _time(newest), _time(given))
    moments = [_number(moment, _TIMES) for moment in moments]
    return TriggeredSnapshot(window, trigger, progress, moments, columns, part)


def _time(value: Any) -> int | None:
    return None if value is None else _number(value, _TIMES)


def _number(value: Any, among: range) -> int:
    if type(value) is not int or value not in among:
        raise corrupt(f"it has {value!r} in place of a number in range")
    return value
