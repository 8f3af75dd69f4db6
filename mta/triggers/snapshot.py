"""The format of the snapshot of a window with a trigger.

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, window, trigger, events, newest, given, held, slice]
    magic    = "mta-triggered"
    version  = 1
    window   = bytes, the snapshot of the window itself (``snapshot``)
    trigger  = text, the trigger and its parameters
    events   = how many events were accepted since the beginning
    newest   = microseconds since 1970 of the newest event, or nil
    given    = the moment of the last result that was given, or nil
    moment   = microseconds since 1970 for a period, else a number of events
    held     = [moments, columns]: results that were due when a store failed, not yet given
    slice    = nil, or of a sliced window [policy, monoid, count, columns, last_time, late, invalid]
    policy, monoid = 16-byte fingerprints of the window over events, which the slices stand for
    count    = events in the open slice; columns hold their partial, one row, or none without events
    last_time = microseconds since 1970 before which events are late, or nil
    late, invalid = how many events were dropped
    columns  = array of [kind, bytes], as in a page

What a window holds beside these is in its own snapshot.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from mta.columns.schemas import Payload, Rows, Schema
from mta.errors import CorruptPage
from mta.pages.snapshot import Snapshot, corrupt, seal, unseal
from mta.triggers.rules import Progress

MAGIC = "mta-triggered"
VERSION = 1
_TIMES = range(-(1 << 62), 1 << 62)
_COUNTS = range(1 << 62)


@dataclass(frozen=True, slots=True)
class SliceState:
    """The open slice of a sliced window as a snapshot has it."""

    policy: bytes
    monoid: bytes
    count: int
    columns: list[Payload]
    last_time: int | None
    late: int
    invalid: int


@dataclass(frozen=True, slots=True)
class TriggeredSnapshot:
    """A snapshot's fields; see the module for what they mean."""

    window: bytes
    trigger: str
    progress: Progress
    moments: list[int]
    columns: list[Payload]
    slice: SliceState | None = None

    def encode(self) -> bytes:
        """The snapshot as bytes."""
        held, sliced = (self.moments, self.columns), self.slice and astuple(self.slice)
        fields = [self.window, self.trigger, *astuple(self.progress), held, sliced]
        return seal(MAGIC, VERSION, fields)

    @staticmethod
    def decode(data: bytes) -> TriggeredSnapshot:
        """Bytes as a snapshot. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "one of a window with a trigger", _validated)


def read_rows(schema: Schema, columns: list[Payload], count: int) -> Rows:
    """Rows that a snapshot holds. Raises CorruptSnapshot when its columns are not as declared."""
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
    """The fields as a snapshot. Raises CorruptSnapshot or TypeError for other fields."""
    window, trigger, events, newest, given, held, sliced = values
    if [type(value) for value in (window, trigger, held)] != [bytes, str, list]:
        raise corrupt("its fields have the wrong types")
    Snapshot.decode(window)
    moments, columns = held
    if not isinstance(moments, list) or not isinstance(columns, list):
        raise corrupt("its results are no lists")
    progress = Progress(_number(events, _COUNTS), _time(newest), _time(given))
    moments = [_number(moment, _TIMES) for moment in moments]
    return TriggeredSnapshot(window, trigger, progress, moments, columns, _slice(sliced))


def _slice(fields: Any) -> SliceState | None:
    if fields is None:
        return None
    policy, monoid, count, columns, last_time, late, invalid = fields
    prints = isinstance(policy, bytes) and isinstance(monoid, bytes)
    if not prints or len(policy) != 16 or len(monoid) != 16 or not isinstance(columns, list):
        raise corrupt("its slice has the wrong types")
    numbers = [_number(number, _COUNTS) for number in (count, late, invalid)]
    return SliceState(policy, monoid, numbers[0], columns, _time(last_time), *numbers[1:])


def _time(value: Any) -> int | None:
    return None if value is None else _number(value, _TIMES)


def _number(value: Any, among: range) -> int:
    if type(value) is not int or value not in among:
        raise corrupt(f"it has {value!r} in place of a number in range")
    return value
