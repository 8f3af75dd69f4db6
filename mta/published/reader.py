"""Read published windows from any process; see ``open_published``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Self, TypeVar

import numpy as np

from mta.descriptions import described_again, frame_again
from mta.errors import CorruptSnapshot, MissingPage, NotPublished
from mta.frames.base import Frame
from mta.keyed.lsm import decoded_pages
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Aggregations
from mta.pages import name_of
from mta.published.cuts import Cut, Moment, PublishedSnapshot, PublishedStatus
from mta.published.pages import ReadOnlyPages
from mta.published.views import Operation
from mta.publishing.publisher import read_head
from mta.publishing.records import PublishedHead, snapshot_key
from mta.times import Duration, TimeUnit, to_duration
from stores import PageStore, StoreLike, open_store
from stores.lru import SharedLRU

T = TypeVar("T")
#: How many bytes of decoded indexes and heads of tables stay in memory.
_DECODED = 1 << 24
Frames = Frame | Mapping[str, Frame]


class PublishedWindows:
    """Windows that another process publishes; ``open_published`` opens them.

    Any number of threads may call at the same time. No call writes to the store. If the last check
    for a newer batch is longer ago than ``refresh``, a call checks first: one ``get_many`` of one
    small record, and if there is a newer batch, another ``get_many`` for its snapshots. Everything
    that one call returns is from one committed batch.

    Args:
        store: The publisher's URL, or an open store.
        name: The published name.
        aggregations: Aggregations by name; only needed for aggregations of Python functions, which
            cannot be published.
        window: The frames; only needed for frames of Python functions.
        refresh: How often to check for a newer batch: seconds or a duration; None to check only in
            ``refresh()``.
        cache: The size of the page cache in bytes, for a remote store.
    """

    def __init__(
        self,
        store: StoreLike,
        name: str,
        *,
        aggregations: AbstractMonoid | Aggregations | None = None,
        window: Frames | None = None,
        refresh: float | Duration | None = "1 second",
        cache: int = 64 << 20,
    ) -> None:
        self.name = name
        self._refresh = None if refresh is None else to_duration(refresh, "refresh", 0) / 1e6
        self._aggregations, self._window = aggregations, window
        self._owns_store = not isinstance(store, PageStore)
        self._store = store if isinstance(store, PageStore) else open_store(
            store, write_buffer=0, cache=0
        )  # fmt: skip
        #: The pages in memory; not public.
        self.pages = ReadOnlyPages(self._store, cache)
        self._decoded = decoded_pages(SharedLRU, _DECODED)
        self._lock = threading.Lock()
        self._cut: Cut | None = None
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def query(
        self,
        keys: Any = None,
        *,
        at: Moment = None,
        partial: bool = False,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Return the aggregates of a key's windows, or of each key of a list.

        The result is one value, or a dictionary by column, with the same names as the columns of
        ``KeyedWindows.extend`` and ``sliding_aggregate``: ``aggregation_window``. For a list, it is
        an array or a dictionary of arrays, with a row per key. A key that is unknown or expired has
        the aggregation's result of no events.

        A time window contains the events with ``at - size < time <= at``; a count window contains
        the newest events that are not later than ``at``. All events that are known now count,
        including late events and retractions.

        For each bucket that has some of the keys, this makes one ``get_many`` per level of the
        index that is not cached, and one for the tables of keys. A standalone window (more than
        ``promote_at`` events) reads up to two pages per level. Raises UnsuitableKey, InvalidTime,
        EventsGone if a window at that moment would contain events that are no longer retained, and
        the store's errors.

        Args:
            keys: One key (a tuple for several columns), or a list or array of keys; omit it for
                windows without keys.
            at: The moment at which the windows end: one moment, one per key, or many for one key.
                By default, each key's windows end with its newest event, as in
                ``KeyedWindows.query``. "now" is the present, at which an idle key has empty time
                windows.
            partial: Whether to answer from the remaining events if others are no longer retained.
            time_unit: The unit of numeric moments: "s", "ms", "us" or "ns"; by default seconds.
        """
        return self._answer(lambda cut: cut.query(keys, at, partial, time_unit))

    @property
    def cut(self) -> Cut:
        """The batch in memory, without a check for a newer one; not public."""
        assert self._cut is not None
        return self._cut

    def events(self, key: Any = None, *, newest: int | None = None) -> dict[str, np.ndarray]:
        """Return the events that a key's windows retain, oldest first, as columns.

        The columns are ``time`` if events have times, as datetime64 in microseconds, and each
        column that the aggregations read, or ``value`` if the events are not mappings. Events that
        are retained for late events, or for a longer window, are included. An unknown key has empty
        columns. Costs as much as ``query``; for a standalone window, each page of the returned
        events is read.

        Args:
            key: The key (a tuple for several columns); omit it for windows without keys.
            newest: How many of the newest events to return; by default all.
        """
        return self._answer(lambda cut: cut.events(key, newest))

    def status(self) -> PublishedStatus:
        """Return the batch, its age, and the numbers of keys and events; reads no pages."""
        return self._answer(lambda cut: cut.status(self.pages.cached_bytes))

    def refresh(self) -> bool:
        """Check for a newer batch now; return whether there is one. One or two store calls.

        Raises NotPublished if the name was unpublished, SnapshotMismatch if the newly published
        windows cannot be rebuilt, and the store's errors. After an error, the current batch stays
        in use.
        """
        with self._lock:
            before = self._cut
            return self._look() is not before

    def _answer(self, ask: Callable[[Cut], T]) -> T:
        """Return the answer from one cut, or from a newer one if pages of it have been deleted."""
        cut = self._cut
        assert cut is not None
        if self._refresh is not None and monotonic() - cut.looked > self._refresh:
            with self._lock:
                cut = self._cut  # another thread may have checked meanwhile
                if cut is None or monotonic() - cut.looked > self._refresh:
                    cut = self._look()
        with np.errstate(all="ignore"):  # such as for means of windows without events
            try:
                return ask(cut)
            except MissingPage:
                with self._lock:
                    cut = self._look()
                return ask(cut)

    def _look(self) -> Cut:
        """Return the newest cut, and use it from now on; the caller has the lock."""
        before = self._cut
        for attempt in range(2):
            head = read_head(self._store, self.name)
            if head is None:
                raise NotPublished(
                    f"nothing is published as {self.name!r} in {self._store.url}: check the name "
                    "and the store, or start the query or program that publishes it"
                )
            if before is not None and head == before.head:
                before.looked = monotonic()
                return before
            try:
                self._cut = self._read(head, before)
                break
            except MissingPage:  # published again meanwhile: the snapshots were deleted
                if attempt:
                    raise
        assert self._cut is not None
        return self._cut

    def _read(self, head: PublishedHead, before: Cut | None) -> Cut:
        """Return the cut of a head; one ``get_many`` for the snapshots that are not known yet."""
        if before is not None and head.what == before.head.what:
            operation = before.operation
        else:
            before, operation = None, self._operation(head)
        newest = [bucket[0][1] if bucket else None for bucket in head.buckets]
        known = {} if before is None else before.by_digest()
        wanted = [(n, d) for n, d in enumerate(newest) if d is not None and (n, d) not in known]
        keys = [snapshot_key(self.name, *each) for each in wanted]
        found = self._store.get_many(keys) if keys else []
        for each, key, snapshot in zip(wanted, keys, found, strict=True):
            if snapshot is None:
                raise MissingPage.of(key, self._store)
            if name_of(snapshot) != each[1]:
                raise CorruptSnapshot(
                    f"the snapshot {key} is damaged: its bytes do not match its name; publish again"
                )
            known[each] = PublishedSnapshot(operation, snapshot)
        return Cut(head, operation, [known.get(each) for each in enumerate(newest)])

    def _operation(self, head: PublishedHead) -> Operation:
        """Return the operation, rebuilt from its published description."""
        what, given = head.what, self._window
        own = {} if given is None else dict(given) if isinstance(given, Mapping) else {"": given}
        return Operation(
            described_again(what.monoid, self._aggregations),
            {name: frame_again(each, own.get(name)) for name, each in what.windows},
            what,
            self.pages,
            self._decoded,
        )

    def close(self) -> None:
        """Close the store, unless it was passed in open."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        batch = None if self._cut is None else self._cut.head.batch
        return f"<PublishedWindows {self.name!r}: batch {batch} in {self._store.url}>"


def open_published(
    store: StoreLike,
    name: str,
    *,
    aggregations: AbstractMonoid | Aggregations | None = None,
    window: Frames | None = None,
    refresh: float | Duration | None = "1 second",
    cache: int = 64 << 20,
) -> PublishedWindows:
    """Open the windows that are published under a name, for reading.

    Any process with access to the store can read them. Makes two store calls. Raises NotPublished,
    SnapshotMismatch if the aggregations or frames are missing or differ from the published ones,
    CorruptSnapshot, and the store's errors.

    Args:
        store: The publisher's URL, or an open store.
        name: The published name.
        aggregations: Aggregations by name; only needed for aggregations of Python functions, which
            cannot be published.
        window: The frames; only needed for frames of Python functions.
        refresh: How often to check for a newer batch: seconds or a duration; None to check only in
            ``refresh()``.
        cache: The size of the page cache in bytes, for a remote store.

    >>> from mta import KeyedWindows, Max, TimeWindow
    >>> windows = KeyedWindows(Max(), TimeWindow("1 hour"), "memory://cards", name="spent")
    >>> windows.publish("card-features")
    >>> _ = windows.extend(["4711", "4712", "4711"], [20.0, 7.0, 5.0], [0, 60, 1200])
    >>> _ = windows.checkpoint()
    >>> features = open_published("memory://cards", "card-features")
    >>> features.query("4711"), features.query(["4711", "4712"], at=4000).tolist()
    (20.0, [5.0, nan])
    """
    return PublishedWindows(
        store, name, aggregations=aggregations, window=window, refresh=refresh, cache=cache
    )
