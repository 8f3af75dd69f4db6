"""Which pages published snapshots need, and which published records are no longer needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mta.audit.keyed import OpaqueKeys
from mta.audit.walk import live_keys
from mta.errors import CorruptPage, MissingPage
from mta.keyed.snapshot import is_keyed_snapshot
from mta.publishing.publisher import read_head
from mta.publishing.records import HEAD, PREFIX, PublishedHead, decode_written, snapshot_key
from mta.windows.opaque import restore_opaque
from stores import PageStore

_WRITTEN = re.compile(r"/written/([^/]+)/(\d{1,18})/(\d{1,6})")


def needed_by_published(store: PageStore, keys: Iterable[str]) -> set[str]:
    """Return which of these keys are pages that published snapshots need.

    Reads every inner page. Raises MissingPage, CorruptPage and CorruptSnapshot if the pages of a
    newest snapshot cannot be determined.
    """
    return {key for head in heads(store, keys) for key in _needed(store, head)}


def heads(store: PageStore, keys: Iterable[str]) -> Iterator[PublishedHead]:
    """Yield the heads among these keys of a store. Raises CorruptSnapshot."""
    for name in sorted({match[1] for key in keys if (match := HEAD.fullmatch(key))}):
        head = read_head(store, name)
        if head is not None:
            yield head


def unneeded_records(store: PageStore, keys: Iterable[str], source: str) -> list[str]:
    """Return the records that a query published and that are not needed any more.

    A killed or late task leaves such records. The batch in progress may still need some of them.
    """
    found: list[str] = []
    listed = list(keys)
    for head in heads(store, listed):
        if head.source != source:
            continue
        prefix = f"{PREFIX}{head.name}"
        own = [key for key in listed if key.startswith(f"{prefix}/")]
        needed = head.snapshot_keys()
        for key in own:
            match = _WRITTEN.fullmatch(key.removeprefix(prefix))
            if match is None or match[1] != source or int(match[2]) <= head.batch:
                continue
            needed.add(key)
            (data,) = store.get_many([key])
            bucket = int(match[3])
            if data is not None:
                needed.add(snapshot_key(head.name, bucket, decode_written(data, bucket)))
        found += [key for key in own if key not in needed and not HEAD.fullmatch(key)]
    return found


def _needed(store: PageStore, head: PublishedHead) -> Iterator[str]:
    for number, bucket in enumerate(head.buckets):
        for place, (_, digest) in enumerate(bucket or []):
            key = snapshot_key(head.name, number, digest)
            (snapshot,) = store.get_many([key])
            if snapshot is None:
                continue  # replaced meanwhile
            try:
                if is_keyed_snapshot(snapshot):
                    yield from OpaqueKeys(snapshot, store).live_keys()
                else:
                    yield from live_keys(restore_opaque(snapshot, store))
            except (MissingPage, CorruptPage):
                if not place:
                    raise
