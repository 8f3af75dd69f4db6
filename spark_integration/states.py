"""The state of one bucket of keys, as Spark's state store keeps it: every key's handle.

    state  = xxh3_64(body) as 8 bytes, big-endian ++ body
    body   = msgpack [ "mta-spark", version, buckets, plan, { key: [ last, handle ], ... } ]
    plan   = the plan's fingerprint, bytes: what key, time, aggregations and policy the handles suit
    key    = msgpack [ value of each key column ], bytes (see ``rows.py``)
    last   = the time of the key's newest event, microseconds since 1970
    handle = what ``Window.checkpoint`` returned, bytes

Spark's state store is trusted to keep bytes, not to be the right one: the digest tells a damaged
value, ``buckets`` and ``plan`` a checkpoint that other settings wrote.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack
import xxhash

from .errors import CorruptState, StateMismatch

MAGIC = "mta-spark"
VERSION = 1
_DIGEST_BYTES = 8


class Saved(NamedTuple):
    """One key's window between two micro-batches."""

    last_time: int
    handle: bytes


def encode_state(saved: dict[bytes, Saved], buckets: int, fingerprint: bytes) -> bytes:
    """One bucket's state; linear in its size."""
    body: bytes = msgpack.packb([MAGIC, VERSION, buckets, fingerprint, saved])
    return xxhash.xxh3_64_digest(body) + body


def decode_state(state: bytes | None, buckets: int, fingerprint: bytes) -> dict[bytes, Saved]:
    """What is saved of each key; empty for no state.

    Raises CorruptState for bytes that ``encode_state`` did not write, StateMismatch for a state
    of another format, number of buckets or plan.
    """
    if state is None:
        return {}
    written_buckets, written_plan, saved = _parse(state)
    if written_buckets != buckets:
        raise StateMismatch(
            f"this checkpoint spreads its keys over {written_buckets} buckets, the query asks for "
            f"{buckets}: set buckets={written_buckets}, or start with a new checkpoint folder"
        )
    if written_plan != fingerprint:
        raise StateMismatch(
            "this checkpoint holds windows of other columns, aggregations, policy or arity: "
            "restore these settings, or start with a new checkpoint folder"
        )
    return saved


def read_handles(state: bytes) -> dict[bytes, bytes]:
    """The handle of each key of a state of any plan, for inspection. Raises CorruptState."""
    return {key: saved.handle for key, saved in _parse(state)[2].items()}


def _parse(state: bytes) -> tuple[int, bytes, dict[bytes, Saved]]:
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
        case [str(magic), int(version), *_] if magic == MAGIC and version != VERSION:
            raise StateMismatch(
                f"this checkpoint has state format {version}, this program knows {VERSION}: "
                "run the program's version that wrote it, or start with a new checkpoint folder"
            )
        case [str(magic), int(), int(buckets), bytes(plan), dict(saved)] if magic == MAGIC:
            if all(map(_is_entry, saved.items())):
                return buckets, plan, {key: Saved(*entry) for key, entry in saved.items()}
    raise CorruptState("a state value is not of this project: the checkpoint is another query's")


def _is_entry(entry: tuple[object, object]) -> bool:
    match entry:
        case (bytes(), [int(), bytes()]):
            return True
    return False
