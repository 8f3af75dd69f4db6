"""The format of a bucket's state, as Spark's state store keeps it: the snapshot of its windows.

    state   = xxh3_64(body) as 8 bytes, big-endian ++ body
    body    = msgpack array [magic, version, buckets, fixed, snapshot]
    magic   = "mta-spark"
    version = 1
    buckets = the number of buckets of the query
    fixed   = array of [what, text]: settings that must not change; windows and aggregations are in
              the snapshot, and may change
    snapshot = bytes that ``KeyedWindows.checkpoint`` returned; its keys are bytes, each the
              msgpack array of the values of the key columns (``rows``)

The digest detects a damaged value, and ``buckets`` and ``fixed`` detect a checkpoint that was
written with other settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import xxhash

from mta.keyed.changes import side_by_side
from spark_integration.errors import CorruptState, StateMismatch

#: What must not change, line by line.
Fixed = Sequence[tuple[str, str]]
MAGIC = "mta-spark"
VERSION = 1
_DIGEST_BYTES = 8


class State(NamedTuple):
    """The fields of a state, in order; the module describes them."""

    buckets: int
    fixed: Fixed
    snapshot: bytes

    def encode(self) -> bytes:
        """Encode the state as bytes."""
        body: bytes = msgpack.packb([MAGIC, VERSION, *self])
        return xxhash.xxh3_64_digest(body) + body

    @classmethod
    def decode(cls, state: bytes) -> State:
        """Decode a state.

        Raises CorruptState for damaged bytes, StateMismatch for other formats.
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
        """Return the snapshot for a query with these settings. Raises StateMismatch for others."""
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
