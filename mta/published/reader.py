"""What is published under a name, to be asked from any process; see ``open_published``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic, time_ns
from typing import Any, Self, TypeVar

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Rows
from mta.cursors.coverage import Incomplete
from mta.errors import CorruptSnapshot, EventsGone, MissingPage, NotPublished
from mta.keyed.keys import read_keys
from mta.keyed.sweep import empties
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Aggregations, Product, result_columns, result_name
from mta.policies.base import AbstractPolicy
from mta.published.pages import ReadOnlyPages
from mta.published.views import Found, KeyedView, Operation, WindowView
from mta.publishing.known import described_again, policy_again
from mta.publishing.publisher import read_head
from mta.publishing.records import Head, digest_of, snapshot_key
from mta.times import Duration, TimeUnit, clock, in_unit, to_duration, to_time, to_times
from stores import PageStore, StoreLike, open_store

T = TypeVar("T")
Policies = AbstractPolicy | Mapping[str, AbstractPolicy]
#: A moment: a datetime, a number of seconds since 1970, or "now", by the clock of this machine.
Moment = Any


@dataclass(frozen=True)
class PublishedStatus:
    """What is published, and how recent it is."""

    name: str
    source: str
    """What publishes: the id of a Spark query, or the name of the windows."""
    batch: int
    """The batch that Spark has committed, or how often the windows were published."""
    committed_at: datetime
    """When that was published, in UTC."""
    lag: timedelta
    """How long ago that is."""
    read_at: datetime
    """When the store was last asked whether there is a newer one, in UTC."""
    keys: int
    """Keys with events; 1 of windows without keys."""
    events: int
    """Events accepted since the beginning."""
    late: int
    """Events dropped because they came too late."""
    invalid: int
    """Events dropped because they held a null or NaN."""
    buckets: int
    key_columns: tuple[tuple[str, str], ...]
    """Name and type (``mta.keyed.key_types``) of each column of the keys; of ``KeyedWindows`` one
    column "key", whose type is "" while there are no keys. Empty for windows without keys."""
    aggregations: tuple[str, ...]
    """The names of the results; "" of a single aggregation without a name."""
    windows: dict[str, str]
    """The window by each name; a single one has the name ""."""
    columns: tuple[str, ...]
    """The names of the columns of ``query``; "" of a result without a name."""
    timed: bool
    """Whether windows can be asked for at any moment."""
    incomplete: tuple[Incomplete, ...]
    """Results that miss events since windows or aggregations were changed."""
    cached_bytes: int
    """Bytes of pages in memory."""


class PublishedWindows:
    """Windows that another process publishes, to be read: ``open_published`` opens them.

    Any number of threads may call at once. No call writes to the store. Every call looks for a
    newer snapshot first, if the last look is longer ago than ``refresh``: one ``get_many`` of one
    small record, and where there is a newer one another call for its snapshots. All that one call
    returns is of one committed batch.
    """

    def __init__(
        self,
        store: StoreLike,
        name: str,
        *,
        aggregations: AbstractMonoid | Aggregations | None = None,
        window: Policies | None = None,
        refresh: float | Duration | None = "1 second",
        cache: int = 32 << 20,
    ) -> None:
        self.name = name
        self._refresh = None if refresh is None else to_duration(refresh, "refresh", 0) / 1e6
        self._aggregations, self._window = aggregations, window
        opened = isinstance(store, PageStore)
        self._store = store if isinstance(store, PageStore) else open_store(
            store, write_buffer=0, cache=0
        )  # fmt: skip
        self._owns_store = not opened
        self._pages = ReadOnlyPages(self._store, cache)
        self._lock = threading.Lock()
        self._cut: _Cut | None = None
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    # --- reading ----------------------------------------------------------------------------------

    def query(
        self,
        keys: Any = None,
        at: Moment = None,
        *,
        partial: bool = False,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Return the aggregates of a key's windows, or of each key of a list.

        ``keys`` is one key (of several columns a tuple), or a list or array of them; leave it out
        for windows without keys. ``at`` is the moment at which the windows end: one, or a list or
        array with one per key. Without it each key's windows end with its newest event, as in
        ``KeyedWindows.query``; ``at="now"`` is the present, so that a key that has been idle has
        empty windows by time. Numbers count ``time_unit``, seconds unless it is given. A window
        by time of a size holds the events with ``at - size < time <= at``, one by count the newest
        ones that are not later than ``at``, all as they are known now, late ones and retractions
        included.

        Returns one value, or a dictionary by column: ``aggregation_window``, as in the columns of
        ``KeyedWindows.extend`` and ``sliding_aggregate``. Of a list an array or a dictionary of
        arrays, a row per key. A key that is not known, or has expired, has the aggregation's result
        of no events.

        One ``get_many`` per level of the index that is not cached, and one for the tables of keys;
        for each bucket that has some of the keys. A key with a window of its own (more than
        ``promote_at`` events) reads up to two pages per level of it. Raises UnsuitableKey,
        InvalidTime, EventsGone where events have left that a window at such a moment would hold
        (``partial=True`` answers from the others), and what the store raises.
        """
        return self._answer(lambda cut: cut.query(keys, at, partial, time_unit))

    def events(self, key: Any = None) -> dict[str, np.ndarray]:
        """Return the events that a key's windows retain, oldest first, as columns.

        ``time``, where they have times, as datetime64 in microseconds, and each column that the
        aggregations read; ``value`` where the events are no mappings. Events that are retained for
        late ones, or for a longer window, are among them. Empty columns for a key that is not
        known. Costs as ``query``; a window of its own is read whole.
        """
        return self._answer(lambda cut: cut.events(key))

    def status(self) -> PublishedStatus:
        """Return which batch is read and how recent it is, and how much there is; no page."""
        return self._answer(lambda cut: cut.status(self._pages.cached_bytes))

    # --- following --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Look for a newer snapshot now; return whether there is one. One or two store calls.

        Raises NotPublished where the name was unpublished, SnapshotMismatch where what is now
        published cannot be rebuilt, and what the store raises; then the present one is kept.
        """
        with self._lock:
            before = self._cut
            return self._look() is not before

    def _answer(self, ask: Callable[[_Cut], T]) -> T:
        """The answer as of one cut; of a newer one where pages of it are deleted meanwhile."""
        cut = self._cut
        assert cut is not None
        if self._refresh is not None and monotonic() - cut.looked > self._refresh:
            with self._lock:
                cut = self._cut  # another thread may have looked meanwhile
                if cut is None or monotonic() - cut.looked > self._refresh:
                    cut = self._look()
        try:
            return ask(cut)
        except MissingPage:
            with self._lock:
                cut = self._look()
            return ask(cut)

    def _look(self) -> _Cut:
        """The newest cut, which is kept; with the lock."""
        before = self._cut
        for attempt in range(2):
            head = read_head(self._store, self.name)
            if head is None:
                raise NotPublished(
                    f"nothing is published as {self.name!r} in {self._store.url}: check the name "
                    "and the store, or start what publishes it"
                )
            if before is not None and head == before.head:
                before.looked, before.read_at = monotonic(), _now()
                return before
            try:
                self._cut = self._read(head, before)
            except MissingPage:
                if attempt:
                    raise
                continue  # published again meanwhile: the snapshots were deleted
            break
        assert self._cut is not None
        return self._cut

    def _read(self, head: Head, before: _Cut | None) -> _Cut:
        """The cut of a head; one ``get_many`` for the snapshots that are not known yet."""
        if before is not None and head.what == before.head.what:
            operation = before.operation
        else:
            before, operation = None, self._operation(head)
        digests = [of[0] if of else None for of in head.buckets]
        known = {} if before is None else before.views_by_digest()
        wanted = [
            (bucket, digest)
            for bucket, digest in enumerate(digests)
            if digest is not None and (bucket, digest) not in known
        ]
        keys = [snapshot_key(self.name, *each) for each in wanted]
        found = self._store.get_many(keys) if keys else []
        for each, key, snapshot in zip(wanted, keys, found, strict=True):
            if snapshot is None:
                raise MissingPage.of(key, self._store)
            if digest_of(snapshot) != each[1]:
                raise CorruptSnapshot(
                    f"the snapshot {key} is damaged: its bytes do not match its name; publish again"
                )
            known[each] = _Snapshot(operation, snapshot)
        snapshots = [
            None if digest is None else known[bucket, digest]
            for bucket, digest in enumerate(digests)
        ]
        return _Cut(head, operation, snapshots)

    def _operation(self, head: Head) -> Operation:
        """What is computed, rebuilt from its description."""
        what, given = head.what, self._window
        own = {} if given is None else dict(given) if isinstance(given, Mapping) else {"": given}
        return Operation(
            described_again(what.monoid, self._aggregations),
            {name: policy_again(each, own.get(name)) for name, each in what.windows},
            what,
            self._pages,
        )

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        batch = None if self._cut is None else self._cut.head.batch
        return f"<PublishedWindows {self.name!r}: batch {batch} in {self._store.url}>"


class _Snapshot:
    """A snapshot that is read when it is first asked."""

    def __init__(self, operation: Operation, data: bytes) -> None:
        self._operation, self._data = operation, data

    @cached_property
    def keyed(self) -> KeyedView:
        return KeyedView(self._operation, self._data)

    @cached_property
    def window(self) -> WindowView:
        return WindowView(self._operation, self._data)

    @property
    def view(self) -> KeyedView | WindowView:
        return self.keyed if self._operation.what.shape == "keys" else self.window


class _Cut:
    """All buckets as of one committed batch."""

    def __init__(
        self, head: Head, operation: Operation, snapshots: Sequence[_Snapshot | None]
    ) -> None:
        self.head, self.operation, self.snapshots = head, operation, snapshots
        self.looked, self.read_at = monotonic(), _now()

    def views_by_digest(self) -> dict[tuple[int, bytes], _Snapshot]:
        pairs = zip(self.head.buckets, self.snapshots, strict=True)
        return {(b, of[0]): each for b, (of, each) in enumerate(pairs) if each is not None}

    def query(self, keys: Any, at: Moment, partial: bool, unit: TimeUnit | None) -> Any:
        if self.operation.what.shape != "keys":
            return self._query_window(keys, at, partial, unit)
        if keys is None:
            raise ValueError("these windows have keys: give one, or a list of them")
        one = not _are_many(keys)
        given = [keys] if one else keys
        found, moments = self._query_keys(given, at, unit)
        if found.gone.any() and not partial:
            place = int(np.argmax(found.gone))
            assert moments is not None
            raise _gone(f"of the key {given[place]!r} ", moments[place])
        names = self.operation.policies
        monoid = self.operation.monoid
        results = {
            name: _lowered(monoid, rows) if one else monoid.results(rows)
            for name, rows in zip(names, found.outputs, strict=True)
        }
        return results[""] if list(names) == [""] else result_columns(results)

    def _query_keys(
        self, given: Any, at: Moment, unit: TimeUnit | None
    ) -> tuple[Found, np.ndarray | None]:
        views = [each.keyed for each in self.snapshots if each is not None]
        kind = next((view.key_kind for view in views if view.key_kind), None)
        keys, codes = read_keys(given, kind)
        moments = _moments(at, len(codes), unit)
        if not views:
            monoid, count = self.operation.monoid, len(codes)
            outputs = [empties(monoid, count) for _ in self.operation.policies]
            return Found(outputs, np.zeros(count, bool)), moments
        (view,) = views
        return view.results(keys, codes, moments), moments

    def _query_window(self, keys: Any, at: Moment, partial: bool, unit: TimeUnit | None) -> Any:
        if keys is not None:
            raise ValueError("these windows have no keys: leave keys out")
        (snapshot,) = self.snapshots
        assert snapshot is not None
        moments = _moments(at, 1, unit)
        moment = None if moments is None else int(moments[0])
        results, gone = snapshot.window.result(moment)
        if gone and not partial:
            raise _gone("", moment)
        return results[""] if list(results) == [""] else result_columns(results)

    def events(self, key: Any) -> dict[str, np.ndarray]:
        if self.operation.what.shape != "keys":
            (snapshot,) = self.snapshots
            assert snapshot is not None
            if key is not None:
                raise ValueError("these windows have no keys: leave key out")
            return _as_columns(*snapshot.window.events())
        if key is None:
            raise ValueError("these windows have keys: give one")
        views = [each.keyed for each in self.snapshots if each is not None]
        (view,) = views
        keys, _ = read_keys([key], view.key_kind)
        return _as_columns(*view.events(keys))

    def _key_type(self) -> tuple[tuple[str, str], ...]:
        if self.operation.what.shape != "keys":
            return ()
        kinds = [each.keyed.key_kind for each in self.snapshots if each is not None]
        return (("key", next((kind for kind in kinds if kind is not None), "")),)

    def status(self, cached: int) -> PublishedStatus:
        head, operation = self.head, self.operation
        views = [each.view for each in self.snapshots if each is not None]
        counts = [view.counts() for view in views]
        committed = _moment_of(head.time)
        aliases = operation.monoid.aliases if isinstance(operation.monoid, Product) else ("",)
        windows = {name: policy.describe() for name, policy in operation.policies.items()}
        return PublishedStatus(
            name=head.name,
            source=head.source,
            batch=head.batch,
            committed_at=committed,
            lag=_now() - committed,
            read_at=self.read_at,
            keys=sum(each.keys for each in counts),
            events=sum(each.accepted for each in counts),
            late=sum(each.late for each in counts),
            invalid=sum(each.invalid for each in counts),
            buckets=len(head.buckets),
            key_columns=tuple(head.what.keys) or self._key_type(),
            aggregations=aliases,
            windows=windows,
            columns=tuple(result_name(a, w) for w in windows for a in aliases),
            timed=all(view.timed for view in views),
            incomplete=tuple(each for view in views for each in view.incomplete()),
            cached_bytes=cached,
        )


def _are_many(keys: Any) -> bool:
    return isinstance(keys, list) or (
        hasattr(keys, "__len__") and not isinstance(keys, (str, bytes, tuple))
    )


def _moments(at: Moment, count: int, unit: TimeUnit | None) -> np.ndarray | None:
    """The moment of each of some requests, in microseconds; None where none is given."""
    if at is None:
        return None
    if isinstance(at, str) and at == "now":
        return np.full(count, time_ns() // 1000)
    if not _are_many(at):
        return np.full(count, to_time(at, unit))
    moments = to_times(in_unit(at, unit))
    if len(moments) != count:
        raise ValueError(f"{count} keys have {len(moments)} moments: give one, or one per key")
    return moments


def _lowered(monoid: AbstractMonoid, rows: Rows) -> Any:
    column = monoid.results(rows)
    if isinstance(column, dict):
        return {alias: plain(part[0]) for alias, part in column.items()}
    return plain(column[0])


def _as_columns(values: Any, times: np.ndarray | None) -> dict[str, np.ndarray]:
    found = {} if times is None else {"time": times.astype("<i8").view("M8[us]")}
    if isinstance(values, range):  # of aggregations that read nothing
        return found
    named = values if isinstance(values, Mapping) else {"value": values}
    return found | {name: np.asarray(column) for name, column in named.items()}


def _gone(what: str, moment: Any) -> EventsGone:
    return EventsGone(
        f"events {what}have left that the window at {clock(int(moment))} would hold: ask for "
        "a later moment, accept what is left with partial=True, or have the publisher retain more "
        "(a longer window, or a larger allowed_lateness)"
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _moment_of(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def open_published(
    store: StoreLike,
    name: str,
    *,
    aggregations: AbstractMonoid | Aggregations | None = None,
    window: Policies | None = None,
    refresh: float | Duration | None = "1 second",
    cache: int = 32 << 20,
) -> PublishedWindows:
    """Open the windows that are published under a name in a store, to read them.

    ``store`` is the URL that the publisher has, or an open store; any process that reaches it may
    read. ``aggregations``, by their names, and ``window`` are only needed where these are made of
    functions, which are not published. ``refresh`` is how old the answers may be, beside what the
    publisher takes: a number of seconds or a duration, None to look for newer ones in ``refresh()``
    alone. ``cache`` is how many bytes of pages stay in memory, where the store is remote. Two store
    calls. Raises NotPublished, SnapshotMismatch where something is missing or is another one than
    published, CorruptSnapshot, and what the store raises.

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
