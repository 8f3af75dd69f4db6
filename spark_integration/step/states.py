"""The format of a bucket's state, as Spark's state store keeps it: the snapshot of its windows.

    state   = xxh3_64(body) as 8 bytes, big-endian ++ body
    body    = msgpack array [magic, version, buckets, fixed, snapshot]
    magic   = "mta-spark"
    version = 1
    buckets = over how many buckets the query spreads its keys
    fixed   = array of [what, text]: what may not be changed; windows and aggregations are in the
              snapshot, and may be
    snapshot = what ``KeyedWindows.checkpoint`` returned, bytes; its keys are bytes, each the
              msgpack of an array with the value of each key column (``rows``)

Spark's state store is trusted to keep bytes, not to be the right one: the digest tells a damaged
value, ``buckets`` and ``fixed`` a checkpoint that other settings wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import xxhash

from mta.keyed.changes import side_by_side
from spark_integration.errors import CorruptState, StateMismatch

#: What may not be changed, line by line.
Fixed = Sequence[tuple[str, str]]
MAGIC = "mta-spark"
VERSION = 1
_DIGEST_BYTES = 8


class State(NamedTuple):
    """A state's fields, in their order; see the module for what they mean."""

    buckets: int
    fixed: Fixed
    snapshot: bytes

    def encode(self) -> bytes:
        """The state as bytes."""
        body: bytes = msgpack.packb([MAGIC, VERSION, *self])
        return xxhash.xxh3_64_digest(body) + body

    @classmethod
    def decode(cls, state: bytes) -> State:
        """Bytes as a state.

        Raises CorruptState for bytes that were not written here, StateMismatch for other formats.
        """
        body = memoryview(state)[_DIGEST_BYTES:]
        if xxhash.xxh3_64_digest(body) != bytes(state[:_DIGEST_BYTES]):
            raise CorruptState(
                f"a state value of {len(state)} bytes does not match its digest: it is damaged; "
                "restart the query from an older Spark checkpoint, or from a new one"
            )
        try:
            content = msgpack.unpackb(body, strict_map_key=False)
        except (ValueError, msgpack.exceptions.UnpackException) as error:
            raise CorruptState(
                f"a state value is no msgpack: {error}; report this as a bug"
            ) from error
        match content:
            case [str(magic), int(version), *_] if magic == MAGIC and version != VERSION:
                raise StateMismatch(
                    f"this checkpoint has state format {version}, this program knows {VERSION}: "
                    "run the program's version that wrote it, or start with a new checkpoint folder"
                )
            case [str(magic), int(), int(buckets), list(fixed), bytes(snapshot)] if magic == MAGIC:
                return cls(buckets, [_line(each) for each in fixed], snapshot)
        raise _foreign()

    def snapshot_for(self, buckets: int, fixed: Fixed) -> bytes:
        """The snapshot, for a query of these settings. Raises StateMismatch for others."""
        if self.buckets != buckets:
            raise StateMismatch(
                f"this checkpoint spreads its keys over {self.buckets} buckets, the query asks for "
                f"{buckets}: set buckets={self.buckets}, or start with a new checkpoint folder"
            )
        if self.fixed != [*map(tuple, fixed)]:
            shown = side_by_side(self.fixed, fixed, ("the checkpoint", "the query"))
            raise StateMismatch(
                "this checkpoint holds the windows of other keys or times: restore these settings, "
                f"or start with a new checkpoint folder\n{shown}"
            )
        return self.snapshot


def _line(entry: object) -> tuple[str, str]:
    match entry:
        case [str(what), str(text)]:
            return what, text
    raise _foreign()


def _foreign() -> CorruptState:
    return CorruptState("a state value is not of this project: the checkpoint is another query's")
