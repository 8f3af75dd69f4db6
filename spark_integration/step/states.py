"""The format of a bucket's state in Spark's state store: the snapshot of its windows.

    state   = xxh3_64(body) as 8 bytes, big-endian ++ body
    body    = msgpack array [magic, version, buckets, fixed, snapshot]
    magic   = "mta-spark"
    version = 1
    buckets = the number of buckets of the query
    fixed   = array of [what, text]: settings that must not change; windows and aggregations are in
              the snapshot, and may change
    snapshot = bytes that ``KeyedWindows.checkpoint`` returned; its keys are the values of
              the key column, or tuples of those of several (``mta.keyed.key_types``)

The digest shows whether a value is damaged; ``buckets`` and ``fixed`` show whether a checkpoint was
written with other settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack
import xxhash

from mta.keyed.changes import side_by_side
from spark_integration.errors import CorruptState, StateMismatch

#: The settings that must not change, line by line.
Fixed = Sequence[tuple[str, str]]
MAGIC = "mta-spark"
VERSION = 1
_DIGEST_BYTES = 8
#: Settings that have a name in SQL, as errors show them.
_IN_SQL = {"by": "by (PARTITION BY)", "on": "on (ORDER BY)"}


class State(NamedTuple):
    """The fields of a state, in order; the module's docstring describes them."""

    buckets: int
    fixed: Fixed
    snapshot: bytes

    def encode(self) -> bytes:
        body: bytes = msgpack.packb([MAGIC, VERSION, *self])
        return xxhash.xxh3_64_digest(body) + body

    @classmethod
    def decode(cls, state: bytes) -> State:
        """Decode a state.

        Raises CorruptState for damaged bytes, and StateMismatch for other formats.
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
                f"a state value is not valid msgpack: {error}; report this as a bug"
            ) from error
        match content:
            case [str(magic), int(version), *_] if magic == MAGIC and version != VERSION:
                raise StateMismatch(
                    f"this checkpoint has state format {version}, but this program knows only "
                    f"{VERSION}: run the version of the program that wrote the checkpoint, or "
                    "start with a new checkpoint folder"
                )
            case [str(magic), int(), int(buckets), list(fixed), bytes(snapshot)] if magic == MAGIC:
                if all(map(is_pair_of_texts, fixed)):
                    return cls(buckets, [(what, text) for what, text in fixed], snapshot)
        raise CorruptState(
            "a state value was not written by this project: the checkpoint belongs to another query"
        )

    def snapshot_for(self, buckets: int, fixed: Fixed) -> bytes:
        """Return the snapshot. Raises StateMismatch unless the query's settings are these."""
        if self.buckets != buckets:
            raise StateMismatch(
                f"this checkpoint has {self.buckets} buckets, but the query has {buckets}: set "
                f"buckets={self.buckets}, or start with a new checkpoint folder"
            )
        if self.fixed != [*map(tuple, fixed)]:
            before, now = (
                [(_IN_SQL.get(what, what), text) for what, text in lines]
                for lines in (self.fixed, fixed)
            )
            shown = side_by_side(before, now, ("the checkpoint", "the query"))
            raise StateMismatch(
                "this checkpoint has windows of other keys or times: restore its settings, or "
                f"start with a new checkpoint folder\n{shown}"
            )
        return self.snapshot


def is_pair_of_texts(entry: Any) -> bool:
    """Return whether a decoded value can be an entry of ``fixed``."""
    return isinstance(entry, list) and [type(part) for part in entry] == [str, str]
