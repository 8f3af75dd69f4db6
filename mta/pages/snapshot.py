"""The format of a snapshot: a few kilobytes with all state of a window except its pages.

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, window, algorithm, monoid, policy, leaf_arity, arity,
               timed, front, back, front_time, last_time, counts, levels, pages, state]
    magic    = "mta-snapshot"
    version  = 1
    window   = text, the window's name
    algorithm = the aggregator's name, such as "Amortized MTA"
    monoid, policy = [text, 16-byte fingerprint]
    leaf_arity, arity = group sizes at level 0 and above
    timed    = whether pages contain times
    front, back = position of the oldest event, and position after the newest event
    front_time, last_time = microseconds since 1970 of the oldest and the newest event, or nil
    counts   = [late, invalid, ahead]: numbers of events dropped because they were late, invalid,
               or ahead of the clock
    levels, pages = number of levels of the structure, and approximate number of pages
    state    = array, the state of the aggregator, which the aggregator's module describes
               (``evaluators.amortized_mta`` for Log MTA and Amortized MTA)

You can restore a snapshot as long as the store has the pages that the snapshot names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgpack
import xxhash

from mta.errors import CorruptSnapshot

MAGIC = "mta-snapshot"
VERSION = 1
#: The largest group, so that a hostile snapshot cannot request unbounded memory.
MAX_ARITY = 1 << 20
#: The largest number of levels: with groups of two they would hold 2^64 events.
MAX_LEVELS = 64
#: The valid names of windows.
NAME = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_DIGEST_BYTES = 16
_Kind = TypeVar("_Kind")


@dataclass(slots=True)
class Snapshot:
    """The fields of a snapshot, in order; the module's docstring describes them."""

    window: str
    algorithm: str
    monoid: tuple[str, bytes]
    policy: tuple[str, bytes]
    leaf_arity: int
    arity: int
    timed: bool
    front: int
    back: int
    front_time: int | None
    last_time: int | None
    counts: list[int]
    levels: int
    pages: int
    state: list[Any]

    def encode(self) -> bytes:
        return seal(MAGIC, VERSION, [getattr(self, field.name) for field in fields(self)])

    @staticmethod
    def decode(data: bytes) -> Snapshot:
        """Decode a snapshot. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "a window's snapshot", _validated)


def seal(magic: str, version: int, values: list[Any]) -> bytes:
    """Encode a snapshot of any kind: its body, followed by the digest of the body."""
    packed: bytes = msgpack.packb([magic, version, *values])
    return packed + xxhash.xxh3_128_digest(packed)


def unseal(
    data: bytes,
    magic: str,
    version: int,
    what: str,
    validated: Callable[[list[Any]], _Kind],
) -> _Kind:
    """Decode a snapshot of any kind: return ``validated(values)`` for the values in its body.

    Raises CorruptSnapshot for damaged bytes, for another kind or format, and for values that
    ``validated`` rejects with CorruptSnapshot, ValueError or TypeError.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise corrupt(f"it is {type(data).__name__}, not the bytes of a checkpoint")
    packed, digest = bytes(data[:-_DIGEST_BYTES]), bytes(data[-_DIGEST_BYTES:])
    if not packed or xxhash.xxh3_128_digest(packed) != digest:
        raise corrupt("its bytes do not match their digest")
    try:
        body = msgpack.unpackb(packed)
        if not isinstance(body, list) or body[:1] != [magic]:
            raise corrupt(f"it is not {what}")
        if body[1:2] != [version]:
            raise corrupt(f"its format is {body[1:2]}, but this release reads format {version}")
        return validated(body[2:])
    except CorruptSnapshot:
        raise
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise corrupt(str(error)) from error


_TYPES = [str, str, list, list, int, int, bool, int, int, int, int, list, int, int, list]
_MAY_BE_NIL = (9, 10)  # front_time, last_time


def _validated(values: list[Any]) -> Snapshot:
    """Return the fields as a snapshot. Raises CorruptSnapshot or TypeError for invalid fields."""
    found = [type(value) for value in values]
    for at in _MAY_BE_NIL:
        if found[at : at + 1] == [type(None)]:
            found[at] = int
    if found != _TYPES:
        raise corrupt("its fields are of the wrong number or types")
    snapshot = Snapshot(*values)
    _require_types(snapshot)
    sizes = (snapshot.leaf_arity, snapshot.arity)
    if min(sizes) < 2 or max(sizes) > MAX_ARITY:
        raise corrupt("its arities are out of range")
    if not 0 <= snapshot.front <= snapshot.back:
        raise corrupt("its positions are out of order")
    if not NAME.fullmatch(snapshot.window):
        raise corrupt("the name of its window is invalid")
    return snapshot


def _require_types(snapshot: Snapshot) -> None:
    for text, fingerprint in (snapshot.monoid, snapshot.policy):
        if type(text) is not str or type(fingerprint) is not bytes:
            raise corrupt("its fingerprints have the wrong types")
    if [type(number) for number in snapshot.counts] != [int, int, int]:
        raise corrupt("its counts have the wrong types")
    if any(abs(time or 0) >= 1 << 62 for time in (snapshot.last_time, snapshot.front_time)):
        raise corrupt("its times are out of range")


def corrupt(what: str) -> CorruptSnapshot:
    """Return the error for an unreadable snapshot."""
    return CorruptSnapshot(
        f"the snapshot cannot be read: {what}; use an earlier or an undamaged one"
    )
