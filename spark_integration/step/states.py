"""The state of one bucket of keys, as Spark's state store keeps it: a root.

    state  = xxh3_64(body) as 8 bytes, big-endian ++ body

The state is the root of the bucket's windows:

    body   = msgpack [ "mta-spark", 5, buckets, fixed, root ]
    fixed  = [ [ what, text ], ... ]: what may not be changed; windows and aggregations are in the
             root, and may be
    root   = what ``KeyedWindows.checkpoint`` returned, bytes; its keys are bytes, as below

In version 4 there is ``plan`` in place of ``fixed``, as below. States that were written before that
are read, and not written any more:

    body   = msgpack [ "mta-spark", 3, buckets, plan, keys, expired, doomed ]

    plan   = the plan's fingerprint, bytes: what key, time, aggregations and policy the handles suit
    keys   = { key: [ last, handle ], ... } in the order of keys; where events may come late,
             { key: [ last, handle, floor ], ... }; a fourth item, which was written where the
             third one is nil, is read over
    key    = msgpack [ value of each key column ], bytes (see ``rows.py``)
    last   = the time of the key's newest event, microseconds since 1970
    handle = what ``Window.checkpoint`` or ``SharedWindows.checkpoint`` returned, bytes
    floor  = microseconds since 1970: no event before it can be taken in, as some of those that its
             window held may be gone
    expired = nil, or the latest moment at which the window of an expired key became empty
    doomed = [ [ calls, handle ], ... ]: windows of expired keys, and in how many calls of the
             bucket from now their pages are to be deleted

Spark's state store is trusted to keep bytes, not to be the right one: the digest tells a damaged
value, ``buckets`` and ``plan`` a checkpoint that other settings wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack
import xxhash

from mta.keyed.changes import side_by_side
from spark_integration.errors import CorruptState, StateMismatch

#: What may not be changed, line by line.
Fixed = Sequence[tuple[str, str]]
MAGIC = "mta-spark"
VERSION = 3
#: The version of a state that is a root, and that of one that says less of what it is of.
ROOT_VERSION, _OLD_ROOT_VERSION = 5, 4
_DIGEST_BYTES = 8


class Saved(NamedTuple):
    """One key's window between two micro-batches."""

    last_time: int
    handle: bytes
    floor: int | None = None
    """The time before which an event is too late; None where that is ``last_time``."""


class Doomed(NamedTuple):
    """The window of an expired key, whose pages are still there for earlier states' sake."""

    calls: int
    handle: bytes


@dataclass
class Bucket:
    """What is known of one bucket's keys between two micro-batches."""

    keys: dict[bytes, Saved] = field(default_factory=dict)
    expired: int | None = None
    doomed: list[Doomed] = field(default_factory=list)


def encode_root(root: bytes, buckets: int, fixed: Fixed) -> bytes:
    """The state of one bucket."""
    body: bytes = msgpack.packb([MAGIC, ROOT_VERSION, buckets, fixed, root])
    return xxhash.xxh3_64_digest(body) + body


def decode_state(
    state: bytes | None, buckets: int, fingerprint: bytes, fixed: Fixed = ()
) -> Bucket | bytes:
    """What is saved of a bucket, or its root; an empty one for no state.

    Raises CorruptState for bytes that were not written here, StateMismatch for a state
    of another format, number of buckets or plan; of a root only what is ``fixed`` must be as it is.
    """
    if state is None:
        return Bucket()
    written_buckets, written_plan, bucket = _parse(state)
    if written_buckets != buckets:
        raise StateMismatch(
            f"this checkpoint spreads its keys over {written_buckets} buckets, the query asks for "
            f"{buckets}: set buckets={written_buckets}, or start with a new checkpoint folder"
        )
    if isinstance(written_plan, bytes):
        if written_plan != fingerprint:
            raise StateMismatch(
                "this checkpoint holds windows of other columns, aggregations, policy or arity, "
                "and did not note which: restore these settings, and change them after a batch "
                "that has rows of every bucket, or start with a new checkpoint folder; where whole "
                "numbers or decimals were read as doubles when it was made, ask for these, as "
                'Max("float64")'
            )
    elif written_plan != [*map(tuple, fixed)]:
        shown = side_by_side(written_plan, fixed, ("the checkpoint", "the query"))
        raise StateMismatch(
            "this checkpoint holds the windows of other keys or times: restore these settings, or "
            f"start with a new checkpoint folder\n{shown}"
        )
    return bucket


def read_handles(state: bytes) -> dict[bytes, bytes]:
    """The handle of each key of a state of any plan, for inspection. Raises CorruptState."""
    bucket = _parse(state)[2]
    return {} if isinstance(bucket, bytes) else {k: s.handle for k, s in bucket.keys.items()}


def read_doomed(state: bytes) -> list[bytes]:
    """The handles of expired keys whose pages are not deleted yet. Raises CorruptState."""
    bucket = _parse(state)[2]
    return [] if isinstance(bucket, bytes) else [doomed.handle for doomed in bucket.doomed]


def buckets_in(state: bytes) -> int:
    """Over how many buckets a state of any plan and release has its keys. Raises CorruptState."""
    return _parse(state)[0]


def read_fixed(state: bytes) -> tuple[int, Fixed, bytes]:
    """The number of buckets, what is fixed, and the root of a state as it is written now.

    Raises StateMismatch for a state of an earlier release, and CorruptState.
    """
    buckets, fixed, root = _parse(state)
    if isinstance(fixed, bytes) or not isinstance(root, bytes):
        raise StateMismatch(
            "a state of an earlier release did not note of which keys it is: make the checkpoint "
            "anew as it is (mta migrate without --to and --buckets), run the query until each "
            "bucket has had rows, and then try again"
        )
    return buckets, fixed, root


def read_root(state: bytes) -> bytes | None:
    """The root of a state of any plan, if it is one, for inspection. Raises CorruptState."""
    bucket = _parse(state)[2]
    return bucket if isinstance(bucket, bytes) else None


def _parse(state: bytes) -> tuple[int, bytes | list[tuple[str, str]], Bucket | bytes]:
    body = memoryview(state)[_DIGEST_BYTES:]
    if xxhash.xxh3_64_digest(body) != bytes(state[:_DIGEST_BYTES]):
        raise CorruptState(
            f"a state value of {len(state)} bytes does not match its digest: it is damaged; "
            "restart the query from an older Spark checkpoint, or from a new one"
        )
    try:
        content = msgpack.unpackb(body, strict_map_key=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise CorruptState(f"a state value is no msgpack: {error}; report this as a bug") from error
    match content:
        case [str(magic), int(version), int(buckets), bytes(plan), bytes(root)] if (
            magic == MAGIC and version == _OLD_ROOT_VERSION
        ):
            return buckets, plan, root
        case [str(magic), int(version), int(buckets), list(fixed), bytes(root)] if (
            magic == MAGIC and version == ROOT_VERSION
        ):
            return buckets, [_line(each) for each in fixed], root
        case [str(magic), int(version), *_] if magic == MAGIC and version not in (
            VERSION,
            _OLD_ROOT_VERSION,
            ROOT_VERSION,
        ):
            raise StateMismatch(
                f"this checkpoint has state format {version}, this program knows {VERSION} to "
                f"{ROOT_VERSION}: run the program's version that wrote it, or start with a new "
                "checkpoint folder"
            )
        case [str(magic), int(version), int(buckets), bytes(plan), *rest] if (
            magic == MAGIC and version == VERSION
        ):
            return buckets, plan, _bucket(rest)
    raise _foreign()


def _line(entry: object) -> tuple[str, str]:
    match entry:
        case [str(what), str(text)]:
            return what, text
    raise _foreign()


def _bucket(content: list[Any]) -> Bucket:
    match content:
        case [dict(keys), int() | None as expired, list(doomed)] if {*map(type, keys)} <= {bytes}:
            saved = {key: _saved(entry) for key, entry in keys.items()}
            return Bucket(saved, expired, [_doomed(entry) for entry in doomed])
    raise _foreign()


def _saved(entry: object) -> Saved:
    match entry:
        case [int(last), bytes(handle)] | [int(last), bytes(handle), None, int()]:
            return Saved(last, handle)
        case [int(last), bytes(handle), int(floor)]:
            return Saved(last, handle, floor)
    raise _foreign()


def _doomed(entry: object) -> Doomed:
    match entry:
        case [int(calls), bytes(handle)]:
            return Doomed(calls, handle)
    raise _foreign()


def _foreign() -> CorruptState:
    return CorruptState("a state value is not of this project: the checkpoint is another query's")
