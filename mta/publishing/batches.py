"""Publishes the windows of a Spark query, which several tasks write, batch by batch.

    task      writes its bucket's snapshot and a record of it   with its pages, before the commit
    driver    reads the records of the committed batch          after the commit
              writes the head that names them

A reader loads what the head names, so it sees all buckets as of one committed batch. No head names
what an uncommitted batch has written: the batch runs again, and overwrites its records with equal
ones. If the driver fails before it writes the head, the next committed batch publishes both: the
driver reads the records of every batch since the one in the head.

When keys are erased from a stopped query, ``republish`` replaces all that it publishes.

If a query starts to publish later, or is rolled back further than the snapshots in the head, the
windows of a bucket are unknown until the bucket has rows again (None in a head).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import time_ns

from mta.errors import PublishConflict
from mta.pages import name_of
from mta.publishing.publisher import delete_keys, published_names, read_head, replace_head
from mta.publishing.records import (
    HEAD,
    PREFIX,
    SERVICE,
    Bucket,
    PublishedHead,
    What,
    decode_written,
    encode_written,
    snapshot_key,
    written_key,
)
from stores import PageStore, WrapperStore

#: Up to this many batches since the one in the head are read by name; more are found by a listing.
_FEW = 16
_AT_ONCE = 1024
#: Digests by batch and bucket.
Written = dict[tuple[int, int], bytes]


@dataclass(frozen=True)
class PublishedPart:
    """One bucket of one batch, which a task publishes."""

    name: str
    retain: int
    source: str = ""
    batch: int = 0
    bucket: int = 0

    def put(self, store: PageStore, snapshot: bytes) -> bytes:
        """Write the snapshot of the bucket, and return its digest; the caller flushes."""
        digest = name_of(snapshot)
        store.put_many({snapshot_key(self.name, self.bucket, digest): snapshot})
        return digest

    def write(self, store: PageStore, snapshot: bytes) -> None:
        """Write the snapshot of the bucket and its record; the caller flushes."""
        digest = self.put(store, snapshot)
        key = written_key(self.name, self.source, self.batch, self.bucket)
        store.put_many({key: encode_written(self.bucket, digest)})

    def guarded(self, store: PageStore) -> PageStore:
        """Return the store for the batch, which may refuse to delete pages; one store call.

        If the head is so many batches behind that readers still need pages that the batch would
        delete, the batch deletes none, and leaves them to ``mta gc``.
        """
        head = read_head(store, self.name)
        if head is None or head.source != self.source or head.batch >= self.batch - self.retain:
            return store
        return Undeleted(store)


class Undeleted(WrapperStore):
    """A store that deletes no pages."""

    def delete_many(self, keys: Iterable[str]) -> None:
        """Keep the pages."""


class BatchPublisher:
    """Writes the head of a name after each committed batch of a query.

    ``start`` is the source of the published history from which buckets without a state continue.
    """

    def __init__(
        self, name: str, what: What, buckets: int, retain: int, start: str | None = None
    ) -> None:
        self.name, self.what, self.buckets, self.retain = name, what, buckets, retain
        self._start = start

    def head(self, store: PageStore) -> PublishedHead | None:
        """Return the current head; raise PublishConflict if it is of windows that processes share.

        A query takes the name of another query over, but such windows have other writers.
        """
        found = read_head(store, self.name)
        if found is not None and found.source.startswith(SERVICE):
            raise PublishConflict(
                f"{found.source!r} publishes under the name {self.name!r}: choose another name"
            )
        return found

    def committed(self, store: PageStore, source: str, batch: int) -> PublishedHead | None:
        """Publish a committed batch, and return the head; None if the query publishes nothing here.

        One ``get_many`` for the head, one for the records of the batch, and one put. Raises
        CorruptSnapshot and the errors of the store; the next batch then publishes this one too.
        Raises PublishConflict as ``head`` does.
        """
        before = self.head(store)
        same = before is not None and before.source == source
        written = self._read(store, source, batch, batch)
        if not same and not written:
            return None
        if same and before is not None and len(before.buckets) == self.buckets:
            first = min(batch, before.batch + 1)
            buckets = [_until(bucket, first) for bucket in before.buckets]
        else:
            first, buckets = 0, []
        if first < batch:
            read = self._read if buckets and batch - first <= _FEW else self._listed
            written |= read(store, source, first, batch - 1)
        if not buckets:
            buckets = self._first(before, any(number == 0 for number, _ in written))
        for (number, bucket), digest in sorted(written.items()):
            known = [each for each in buckets[bucket] or [] if each[1] != digest]
            buckets[bucket] = [(number, digest), *known]
        kept: list[Bucket] = [None if b is None else b[: self.retain + 1] for b in buckets]
        head = PublishedHead(self.name, source, batch, time_ns() // 1000, self.what, kept)
        replace_head(store, before, head)
        done = {written_key(self.name, source, *each) for each in written}
        snapshots = {snapshot_key(self.name, bucket, d) for (_, bucket), d in written.items()}
        delete_keys(store, done | (snapshots - head.snapshot_keys()))
        return head

    def whole(self, store: PageStore, source: str, digests: Mapping[int, bytes]) -> PublishedHead:
        """Publish all buckets at once; those without a digest have no keys."""
        before = self.head(store)
        batch = 1 if before is None or before.source != source else before.batch + 1
        buckets: list[Bucket] = [
            [(batch, digests[bucket])] if bucket in digests else []
            for bucket in range(self.buckets)
        ]
        head = PublishedHead(self.name, source, batch, time_ns() // 1000, self.what, buckets)
        replace_head(store, before, head)
        return head

    def _first(self, before: PublishedHead | None, is_whole: bool) -> list[Bucket]:
        """Return the first buckets of a query; if ``is_whole``, others have no keys."""
        if self._start is None:
            return [[] if is_whole else None for _ in range(self.buckets)]
        if before is None or before.source != self._start or len(before.buckets) != self.buckets:
            return [None] * self.buckets
        return [None if b is None else [(0, d) for _, d in b[:1]] for b in before.buckets]

    def _read(self, store: PageStore, source: str, first: int, last: int) -> Written:
        """Return the records of some batches; one ``get_many`` per thousand."""
        places = [(n, bucket) for n in range(first, last + 1) for bucket in range(self.buckets)]
        return dict(self._found(store, source, places))

    def _listed(self, store: PageStore, source: str, first: int, last: int) -> Written:
        """Return the same as ``_read``, from a listing of the query's records."""
        prefix = f"{PREFIX}{self.name}/written/{source}/"
        own = re.compile(re.escape(prefix) + r"(\d{1,18})/(\d{1,6})")
        found = [match for key in store.keys(prefix) if (match := own.fullmatch(key))]
        places = [(int(match[1]), int(match[2])) for match in found]
        places = [each for each in places if first <= each[0] <= last and each[1] < self.buckets]
        return dict(self._found(store, source, places))

    def _found(
        self, store: PageStore, source: str, places: list[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], bytes]]:
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            keys = [written_key(self.name, source, *each) for each in some]
            store.discard(keys)
            for place, data in zip(some, store.get_many(keys), strict=True):
                if data is not None:
                    yield place, decode_written(data, place[1])


def republish(
    store: PageStore,
    source: str,
    batch: int,
    buckets: int,
    snapshots: Mapping[int, bytes],
    suits: Callable[[bytes, What], bool],
) -> tuple[str, ...]:
    """Publish only the state of a stopped query after its last batch, under each of its names.

    ``snapshots`` are those of the buckets; ``buckets`` is their number, which may differ from the
    published one after a migration. A bucket is unpublished until its next rows if the published
    description does not suit its snapshot (``suits``), because the query was changed. Buckets
    without a state keep the history that they start from. Deletes all other records of the names,
    also those of unpublished batches. Lists the keys of published names. Returns the names.
    """
    names = list[str]()
    for name in published_names(store):
        before = read_head(store, name)
        if before is None or before.source != source:
            continue
        same = len(before.buckets) == buckets
        after: list[Bucket] = list(before.buckets) if same else [[] for _ in range(buckets)]
        for bucket, snapshot in snapshots.items():
            after[bucket] = None
            if suits(snapshot, before.what):
                after[bucket] = [
                    (batch, PublishedPart(name, retain=0, bucket=bucket).put(store, snapshot))
                ]
        store.flush()
        head = replace(before, batch=batch, time=time_ns() // 1000, buckets=after)
        replace_head(store, before, head)
        needed = head.snapshot_keys()
        own = {key for key in store.keys(f"{PREFIX}{name}/") if not HEAD.fullmatch(key)}
        delete_keys(store, own - needed)
        store.flush()
        names.append(name)
    return tuple(names)


def _until(bucket: Bucket, first: int) -> Bucket:
    """Return the snapshots of a bucket from before a batch; None if all of them are later."""
    if bucket is None:
        return None
    kept = [each for each in bucket if each[0] < first]
    return kept if kept or not bucket else None
