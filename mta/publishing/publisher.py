"""Publishes the windows of one process: writes the snapshot, then the head that names it.

    put snapshot -> flush -> put head -> flush -> delete snapshots that no head names any more

If the process fails between two of these steps, readers see the previous head or the new one, and
the store has the snapshots of both with all their pages. ``mta gc`` deletes a snapshot that no head
names.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from time import time_ns

from mta.errors import NotPageable, PublishConflict, UnsupportedOperation
from mta.pages import name_of
from mta.publishing.records import HEAD, PREFIX, PublishedHead, What, head_key, snapshot_key
from stores import PageStore

#: Keys that are deleted with one call.
_AT_ONCE = 1000
#: How often a reader retries if the head is replaced between the listing and the read.
_LOOKS = 5


class Publisher:
    """Publishes the snapshots of windows in one process under a name.

    ``retain`` is how many snapshots before the newest remain readable. Reads the current head: one
    store call. Raises ValueError if other windows are published under the name.

    Two programs that publish under one name would delete pages that readers of the other need. So
    each publication first reads the head, and raises PublishConflict if another program wrote it.
    """

    def __init__(self, store: PageStore, name: str, source: str, retain: int) -> None:
        self.store, self.name, self.source, self.retain = store, name, source, retain
        self._head = read_head(store, name)
        if self._head is not None and self._head.source != source:
            raise ValueError(
                f"{self._head.source!r} publishes under the name {name!r}, so {source!r} cannot: "
                f"choose another name, or unpublish({name!r}) first"
            )
        #: What this program has written, or has tried to write.
        self._own = [] if self._head is None else [self._head]
        self._pending: tuple[bytes, What] | None = None

    def retry(self) -> None:
        """Publish what an earlier call failed to publish; call it before pages are deleted."""
        if self._pending is not None:
            self.publish(*self._pending)

    def publish(self, snapshot: bytes, what: What) -> None:
        """Publish a snapshot whose pages are in the store; a read and two flushes.

        If the store fails, readers keep the previous snapshot, and ``retry`` tries again. Raises
        PublishConflict.
        """
        self._pending = snapshot, what
        self._require_own()
        before, digest = self._head, name_of(snapshot)
        batch = 1 if before is None else before.batch + 1
        older = [] if before is None else list(before.buckets[0] or [])
        kept = [each for each in older if each[1] != digest][: self.retain]
        head = PublishedHead(
            self.name, self.source, batch, time_ns() // 1000, what, [[(batch, digest), *kept]]
        )
        self._own.append(head)
        self.store.put_many({snapshot_key(self.name, 0, digest): snapshot})
        self.store.flush()
        replace_head(self.store, before, head)
        self._head, self._pending, self._own = head, None, [head]

    def _require_own(self) -> None:
        """Raise PublishConflict if the head is what another program has written; one store call."""
        found = read_head(self.store, self.name)
        if found is None or any(_is_same(found, head) for head in self._own):
            return
        raise PublishConflict(
            f"{self.name!r} is published by another program too, from {found.source!r}: stop one "
            "of them, or publish under another name; readers keep what the other program published"
        )


def _is_same(one: PublishedHead, other: PublishedHead) -> bool:
    """Return whether two heads name the same snapshots; ``replace_head`` may change the time."""
    return (one.source, one.batch, one.buckets) == (other.source, other.batch, other.buckets)


class Publishable:
    """Windows that publish the snapshot of each checkpoint after a call of ``publish``."""

    store: PageStore | None
    name: str
    _publisher: Publisher | None = None

    @abstractmethod
    def _what(self) -> tuple[What, int]:
        """Return the description for readers, and how many snapshots are retained."""

    def publish(self, name: str) -> None:
        """Publish the snapshot of every later ``checkpoint`` under a name in the store.

        Other processes read it with ``open_published(store, name)``. A checkpoint then waits for
        the store even with ``wait=False``, for a read and two more flushes. If publishing fails, it
        raises, readers keep the previous snapshot, and the next checkpoint publishes before it
        deletes any page. Pages that a published snapshot needs stay until ``retain`` newer ones are
        published. Call it again after a restore. One store call. Raises NotPageable for windows
        without a store, and ValueError for a name that is not valid or that other windows use. A
        later checkpoint raises PublishConflict once another program publishes under the name.

        Args:
            name: The name for readers.
        """
        if self.store is None:
            raise NotPageable("these windows are only in memory (store=None); pass a store")
        self._publisher = Publisher(self.store, name, self.name, self._what()[1])

    def unpublish(self) -> None:
        """Stop publishing, and delete the published records, if there are any."""
        if self._publisher is not None:
            unpublish(self._publisher.store, self._publisher.name)
            self._publisher = None


def read_head(store: PageStore, name: str) -> PublishedHead | None:
    """Return the head of a name, None if nothing is published; one store call.

    If the store overwrites no keys, a listing finds the newest head: one more call. Raises
    CorruptSnapshot.
    """
    key = head_key(name)
    for _ in range(_LOOKS):
        if not store.capabilities.overwrites:
            listed = sorted(store.keys(f"{key}/"))
            if not listed:
                return None
            key = listed[-1]
        store.discard([key])  # the only record that changes: a cached copy may be outdated
        (data,) = store.get_many([key])
        if data is not None:
            return PublishedHead.decode(data)
        if store.capabilities.overwrites:
            return None
        key = head_key(name)  # replaced since it was listed
    return None


def replace_head(store: PageStore, before: PublishedHead | None, head: PublishedHead) -> None:
    """Write a head, then delete the snapshots that only the previous head names."""
    gone = set[str]()
    if before is not None:
        head = replace(head, time=max(head.time, before.time + 1))
        gone = before.snapshot_keys() - head.snapshot_keys()
    key = head_key(head.name)
    if not store.capabilities.overwrites:
        gone |= set(store.keys(f"{key}/"))
        key = f"{key}/{head.time:018d}"
    store.put_many({key: head.encode()})
    store.flush()
    delete_keys(store, gone - {key})


def delete_keys(store: PageStore, keys: set[str]) -> None:
    """Delete pages; one store call per thousand."""
    gone = sorted(keys)
    for start in range(0, len(gone), _AT_ONCE):
        store.delete_many(gone[start : start + _AT_ONCE])


def published_names(store: PageStore) -> list[str]:
    """Return the published names; lists the keys of the store.

    Args:
        store: An open store.
    """
    return sorted({match[1] for key in store.keys(PREFIX) if (match := HEAD.fullmatch(key))})


def unpublish(store: PageStore, name: str) -> int:
    """Delete the published records of a name; return how many there were.

    The pages of the windows remain: they belong to the publisher. Lists the keys of the name if the
    store can list keys; otherwise records of a killed process may remain.

    Args:
        store: An open store.
        name: The published name.
    """
    head = read_head(store, name)
    keys = set() if head is None else {head_key(name), *head.snapshot_keys()}
    with suppress(UnsupportedOperation):
        keys |= set(store.keys(head_key(name).removesuffix("head")))
    heads = {key for key in keys if HEAD.fullmatch(key)}
    delete_keys(store, heads)
    delete_keys(store, keys - heads)
    store.flush()
    return len(keys)
