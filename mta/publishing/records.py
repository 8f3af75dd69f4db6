"""The formats of the records that are published under a name, in addition to the windows' pages.

The keys in the store are all in the group "publish:" and the name:

    head       publish:NAME/head                      names the snapshots that readers load
               publish:NAME/head/TIME                 if the store overwrites no keys: the newest
    snapshot   publish:NAME/snapshot/BUCKET/DIGEST    of one bucket, as the windows return it
    written    publish:NAME/written/SOURCE/BATCH/BUCKET
               the snapshot that a task has made of a bucket in a batch of a Spark query

A snapshot is immutable and named by the digest of its content, like a page. Only the head is
overwritten. One small put updates all buckets together, so a reader sees either all of a batch or
nothing of it. A ``written`` record belongs to one batch and bucket, so a late task of an earlier
attempt does not overwrite anything of a later batch.

    head       = body digest                      (as a snapshot: ``mta.pages``)
    body       = msgpack array [magic, version, name, source, batch, time, what, buckets]
    magic      = "mta-published"
    version    = 2
    name       = text, the name under which the windows are published
    source     = text, the publisher: the id of a Spark query, or the name of the windows
    batch      = the batch that Spark has committed, or how often the windows were published
    time       = time of the publication, microseconds since 1970
    what       = [shape, monoid, windows, keys, on]
    shape      = "keys", "window" or "windows": KeyedWindows, Window, SharedWindows
    monoid     = description (``mta.descriptions``)
    windows    = array of [name, description]; a single window has the name ""
    keys       = array of [column, type] for a Spark query, otherwise empty: snapshots have the type
    on         = [column, type] of the time, each "" if there is none
    buckets    = array, for each bucket an array of [batch, digest]: its newest snapshot, and the
                 earlier snapshots that are still in the store; empty for a bucket without keys, nil
                 for a bucket that was not published yet

    written    = body digest
    body       = msgpack array ["mta-written", 1, bucket, digest]

    description = [name, 16-byte fingerprint, recipe or nil, parts or nil]
    recipe      = see ``mta.recipes``
    parts       = array of [alias, array of column, description]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mta import descriptions
from mta.descriptions import Description
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid
from mta.pages import NAME, NAME_BYTES, corrupt
from mta.snapshots import entries, is_number, seal, unseal

MAGIC, WRITTEN = "mta-published", "mta-written"
VERSION, _WRITTEN_VERSION = 2, 1
#: What all keys of published names begin with.
PREFIX = "publish:"
#: Matches the key of a head; its group is the name.
HEAD = re.compile(re.escape(PREFIX) + r"([^/]+)/head(?:/\d{18})?")
#: The maximum length of a name, so that every store accepts the keys.
NAME_LENGTH = 60
#: The beginning of the source of windows that processes share, whose names no other may publish.
SERVICE = "service:"
MAX_BUCKETS = 1 << 16
#: Moments are before the year 10000.
_LAST = 253_402_300_800_000_000
#: The snapshots of a bucket, newest first, as pairs of batch and digest. None if the bucket may
#: have keys, but has not been published yet.
Bucket = list[tuple[int, bytes]] | None
Shape = Literal["keys", "window", "windows"]


@dataclass(frozen=True, slots=True)
class What:
    """The description of published windows for readers; the module describes the fields."""

    shape: Shape
    monoid: Description
    windows: list[tuple[str, Description]]
    keys: list[tuple[str, str]]
    on: tuple[str, str]

    def dump(self) -> list[Any]:
        windows = [[name, descriptions.dump(each)] for name, each in self.windows]
        return [self.shape, descriptions.dump(self.monoid), windows, self.keys, self.on]


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """A head; the module describes the fields."""

    name: str
    source: str
    batch: int
    time: int
    what: What
    buckets: list[Bucket]

    def encode(self) -> bytes:
        fields = [self.name, self.source, self.batch, self.time, self.what.dump(), self.buckets]
        return seal(MAGIC, VERSION, fields)

    @staticmethod
    def decode(data: bytes) -> PublishedHead:
        """Return the head in these bytes. Raises CorruptSnapshot."""
        return unseal(data, MAGIC, VERSION, "what is published under a name", _head)

    def snapshot_keys(self) -> set[str]:
        """Return the keys of all snapshots that the head names."""
        return {
            snapshot_key(self.name, number, digest)
            for number, bucket in enumerate(self.buckets)
            for _, digest in bucket or []
        }


def what_of(
    shape: Shape,
    monoid: AbstractMonoid,
    frames: Mapping[str, Frame],
) -> What:
    """Return the description of windows; a Spark query adds ``keys`` and ``on``."""
    windows = [(name, descriptions.described(frame)) for name, frame in frames.items()]
    described = descriptions.described(monoid)
    return What(shape, described, windows, [], ("", ""))


def head_key(name: str) -> str:
    """Return the key of the head. Raises ValueError for an invalid name."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > NAME_LENGTH:
        raise ValueError(
            f"a published name is 1 to {NAME_LENGTH} of A-Z a-z 0-9 . _ : -, not {name!r}"
        )
    return f"{PREFIX}{name}/head"


def snapshot_key(name: str, bucket: int, digest: bytes) -> str:
    """Return the key of a snapshot."""
    return f"{PREFIX}{name}/snapshot/{bucket}/{digest.hex()}"


def written_key(name: str, source: str, batch: int, bucket: int) -> str:
    """Return the key of the record of a batch and bucket."""
    return f"{PREFIX}{name}/written/{source}/{batch}/{bucket}"


def encode_written(bucket: int, digest: bytes) -> bytes:
    """Return the record of the snapshot that a task has written."""
    return seal(WRITTEN, _WRITTEN_VERSION, [bucket, digest])


def decode_written(data: bytes, bucket: int) -> bytes:
    """Return the digest in the record of a bucket. Raises CorruptSnapshot."""

    def validated(values: list[Any]) -> bytes:
        match values:
            case [int(number), bytes(digest)] if number == bucket and len(digest) == NAME_BYTES:
                return digest
        raise corrupt(f"it is not the record of bucket {bucket}")

    return unseal(data, WRITTEN, _WRITTEN_VERSION, "the record of a task", validated)


def _head(values: list[Any]) -> PublishedHead:
    match values:
        case [str(name), str(source), int(batch), int(time), list(what), list(buckets)]:
            head_key(name)
            if not (
                is_number(batch) and is_number(time, _LAST) and 1 <= len(buckets) <= MAX_BUCKETS
            ):
                raise corrupt("its numbers are invalid")
            found: list[Bucket] = [
                None if b is None else entries("snapshots of a bucket", b, is_number, _is_digest)
                for b in buckets
            ]
            head = PublishedHead(name, source, batch, time, _what(what), found)
            if head.what.shape != "keys" and not (len(buckets) == 1 and head.buckets[0]):
                raise corrupt("windows without keys have one snapshot")
            if head.what.shape == "keys" and not head.what.keys and len(buckets) > 1:
                raise corrupt("it does not say which bucket has a key")
            return head
    raise corrupt("its fields are of the wrong number or types")


def _what(values: list[Any]) -> What:
    match values:
        case [str(shape), monoid, list(windows), list(keys), on] if shape in get_args(Shape):
            described = entries("windows", windows, str, list)
            named = [(name, descriptions.load(each)) for name, each in described]
            if not named or len({name for name, _ in named}) < len(named):
                raise corrupt("its windows have no names, or repeated names")
            if (shape == "window") != ([name for name, _ in named] == [""]) and shape != "keys":
                raise corrupt("the names of its windows do not suit its shape")
            shape_: Any = shape
            pairs = entries("columns", [*keys, on], str, str)
            return What(shape_, descriptions.load(monoid), named, pairs[:-1], pairs[-1])
    raise corrupt("its description has the wrong types")


def _is_digest(value: Any) -> bool:
    return type(value) is bytes and len(value) == NAME_BYTES
