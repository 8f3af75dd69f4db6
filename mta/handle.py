"""The format of a handle: everything of a window that is not in pages, a few kilobytes.

    handle   = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, window, algorithm, monoid, policy, leaf_arity, arity,
               timed, front, middle, swept, kept, last_time, front_time, counts, pair, tails]
    magic    = "mta-handle"
    version  = 1
    window   = text, the window's name
    algorithm = "Amortized MTA" or "Log MTA"
    monoid, policy = [text, 16-byte fingerprint]
    leaf_arity, arity = group sizes at level 0 and above
    timed    = whether pages and tails keep times
    front    = position of the oldest event; the back follows from the tails
    middle   = position where the leftmost tree ends
    swept    = position before which pages have been deleted
    kept     = fronts of the earlier handles that are still to be restorable
    last_time, front_time = microseconds since 1970 of the newest and the oldest event, or nil
    counts   = [late events dropped, invalid events dropped]
    pair     = columns of two partials, the result pair R0 and R1
    tails    = from level 0 up, [group, count, columns], columns as in a page

A handle is a consistent snapshot for as long as the pages it names are in the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgpack
import xxhash

from mta.columns import Payload
from mta.errors import CorruptHandle

MAGIC = "mta-handle"
VERSION = 1
#: No group is larger, so that a hostile handle cannot ask for unbounded memory.
MAX_ARITY = 1 << 20
#: What a window may be called.
NAME = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_DIGEST_BYTES = 16
_TYPES = [
    str, int, str, str, list, list, int, int, bool, int, int, int, list, int, int, list, list, list,
]  # fmt: skip
_MAY_BE_NIL = (13, 14)  # last_time, front_time
#: An open group as a handle holds it: group, count, columns.
TailState = tuple[int, int, list[Payload]]


@dataclass(slots=True)
class Handle:
    """A handle's fields; see the module for what they mean."""

    window: str
    algorithm: str
    monoid: tuple[str, bytes]
    policy: tuple[str, bytes]
    leaf_arity: int
    arity: int
    timed: bool
    front: int
    middle: int
    swept: int
    kept: list[int]
    last_time: int | None
    front_time: int | None
    counts: list[int]
    pair: list[Payload]
    tails: list[TailState] = field(default_factory=list)

    @property
    def back(self) -> int:
        """The position after the newest event."""
        number, count, _ = self.tails[0]
        return number * self.leaf_arity + count

    def encode(self) -> bytes:
        """The handle as bytes."""
        body: bytes = msgpack.packb(
            [
                MAGIC,
                VERSION,
                self.window,
                self.algorithm,
                self.monoid,
                self.policy,
                self.leaf_arity,
                self.arity,
                self.timed,
                self.front,
                self.middle,
                self.swept,
                self.kept,
                self.last_time,
                self.front_time,
                self.counts,
                self.pair,
                self.tails,
            ]
        )
        return body + xxhash.xxh3_128_digest(body)

    @staticmethod
    def decode(data: bytes) -> Handle:
        """Bytes as a handle. Raises CorruptHandle for damaged bytes or an unknown format."""
        body, digest = bytes(data[:-_DIGEST_BYTES]), bytes(data[-_DIGEST_BYTES:])
        if not body or xxhash.xxh3_128_digest(body) != digest:
            raise _corrupt("its bytes do not match their digest")
        try:
            return _validated(msgpack.unpackb(body))
        except CorruptHandle:
            raise
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise _corrupt(str(error)) from error


@dataclass(frozen=True)
class HandleSummary:
    """What a handle says about its window, without reading a page."""

    window: str
    monoid: str
    policy: str
    algorithm: str
    events: int
    front: int
    back: int
    levels: int
    pages: int
    handle_bytes: int
    late: int
    invalid: int
    front_time: int | None
    last_time: int | None


def describe_handle(data: bytes) -> HandleSummary:
    """A summary of a handle; no store call. Raises CorruptHandle."""
    handle = Handle.decode(data)
    pages, span = 0, handle.leaf_arity
    for number, _, _ in handle.tails:
        pages += max(0, number - handle.swept // span)
        span *= handle.arity
    return HandleSummary(
        handle.window,
        handle.monoid[0],
        handle.policy[0],
        handle.algorithm,
        handle.back - handle.front,
        handle.front,
        handle.back,
        len(handle.tails),
        pages,
        len(data),
        handle.counts[0],
        handle.counts[1],
        handle.front_time,
        handle.last_time,
    )


def _validated(fields: Any) -> Handle:
    """The fields as a handle; what they do not claim to be is a CorruptHandle or a TypeError."""
    if not isinstance(fields, list) or fields[:1] != [MAGIC]:
        raise _corrupt("it is not a window's handle")
    if fields[1:2] != [VERSION]:
        raise _corrupt(f"its format is {fields[1:2]}, this release reads format {VERSION}")
    types = [type(value) for value in fields]
    for at in _MAY_BE_NIL:
        if types[at : at + 1] == [type(None)]:
            types[at] = int
    if types != _TYPES:
        raise _corrupt("its fields are of the wrong number or types")
    handle = Handle(*fields[2:])
    for text, fingerprint in (handle.monoid, handle.policy):
        if type(text) is not str or type(fingerprint) is not bytes:
            raise _corrupt("its fingerprints are of the wrong types")
    if {type(number) for number in (*handle.kept, *handle.counts)} - {int}:
        raise _corrupt("its positions are of the wrong types")
    if any(abs(time or 0) >= 1 << 62 for time in (handle.last_time, handle.front_time)):
        raise _corrupt("its times are out of range")
    sizes = (handle.leaf_arity, handle.arity)
    if min(sizes) < 2 or max(sizes) > MAX_ARITY or len(handle.counts) != 2 or not handle.tails:
        raise _corrupt("its arities or its tails make no window")
    _check_positions(handle)
    return handle


def _check_positions(handle: Handle) -> None:
    span, begin = 1, None
    for level, (number, count, columns) in enumerate(handle.tails):
        if type(number) is not int or type(count) is not int or type(columns) is not list:
            raise _corrupt(f"the tail of level {level} is of the wrong types")
        arity = handle.arity if level else handle.leaf_arity
        end = (number * arity + count) * span
        if number < 0 or not (level > 0) <= count <= arity:
            raise _corrupt(f"the tail of level {level} cannot be")
        if begin is not None and begin != end:
            raise _corrupt(f"the tail of level {level} does not end where level {level - 1} begins")
        begin = number * arity * span
        span *= arity
    if begin is None or begin > handle.swept:
        raise _corrupt("its highest level does not begin where its pages do")
    if not 0 <= handle.swept <= handle.front <= handle.middle <= handle.back:
        raise _corrupt("its positions are out of order")
    fronts = [handle.swept, *handle.kept, handle.front]
    if fronts != sorted(fronts):
        raise _corrupt("the positions to keep are out of order")
    if not NAME.fullmatch(handle.window):
        raise _corrupt("its window's name cannot be")


def _corrupt(what: str) -> CorruptHandle:
    return CorruptHandle(f"the handle cannot be read: {what}; use an earlier or an undamaged one")
