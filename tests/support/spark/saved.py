"""What a bucket's state holds, whichever program wrote it."""

from __future__ import annotations

import msgpack
import xxhash

from mta.audit.keyed import OpaqueKeys
from mta.keyed.root import Unread
from spark_integration.step.states import MAGIC, VERSION, Bucket, read_doomed, read_root
from stores import PageStore


def encode_handles(bucket: Bucket, buckets: int, fingerprint: bytes) -> bytes:
    """A state of handles, as it was written before there were roots."""
    saves = sorted(bucket.keys.items())
    keys = {key: saved[: 2 if saved.floor is None else 3] for key, saved in saves}
    content = (keys, bucket.expired, bucket.doomed)
    body: bytes = msgpack.packb([MAGIC, VERSION, buckets, fingerprint, *content])
    return xxhash.xxh3_64_digest(body) + body


def keys_of(state: bytes | None, store: PageStore) -> set[bytes]:
    """The keys that have a window."""
    root = read_root(state) if state else None
    return set() if root is None else {key for key, _ in OpaqueKeys(root, store).summaries()}


def handles_of(state: bytes | None, store: PageStore) -> dict[bytes, bytes]:
    """The handles of keys with windows by themselves."""
    root = read_root(state) if state else None
    return {} if root is None else dict(OpaqueKeys(root, store).handles())


def doomed_of(state: bytes | None) -> list[bytes]:
    """The handles of windows that wait for the deletion of their pages."""
    root = read_root(state) if state else None
    if root is None:
        return read_doomed(state) if state else []
    groups = Unread.decode(root).root.doomed.groups
    return [entry for _, entries in groups for entry in entries if isinstance(entry, bytes)]
