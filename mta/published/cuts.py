"""Everything that is published as of one committed batch, from which a reader's call answers.

A cut never changes, and any number of threads may query it at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic
from typing import Any

import numpy as np

from mta.columns.reading import result_of
from mta.columns.schemas import shown_column
from mta.errors import NotPublished
from mta.evaluators.coverage import Incomplete
from mta.keyed.coverage import latest
from mta.keyed.keys import Keys, hash_and_bytes, read_keys
from mta.keyed.moments import Answers, gone_of, paired
from mta.monoids.base import empties
from mta.monoids.product import result_columns, result_name
from mta.published.pages import Lookup, Steps
from mta.published.views import KeyedView, Operation, WindowView
from mta.publishing.buckets import bucket_of, reader_of
from mta.publishing.records import PublishedHead
from mta.times import TimeUnit, are_many, moment_of

#: A moment: a datetime, a number, or "now" by the clock of this machine; or one of these per key.
Moment = Any


@dataclass(frozen=True)
class PublishedStatus:
    """The status of published windows: what they are, and how recent."""

    name: str
    source: str
    """The publisher: the id of a Spark query, or the name of the windows."""
    batch: int
    """The batch that Spark has committed, or how often the windows were published."""
    committed_at: datetime
    """When the batch was published, in UTC."""
    lag: timedelta
    """How long ago the batch was published."""
    read_at: datetime
    """When the batch was read from the store, in UTC."""
    keys: int
    """The number of keys with events; 1 for windows without keys."""
    events: int
    """The number of events accepted since the beginning."""
    late: int
    """The number of events dropped because they came too late."""
    invalid: int
    """The number of events dropped because they contained a null or NaN."""
    buckets: int
    unpublished_buckets: int
    """The number of buckets that are not published yet, because they have had no rows since the
    query began to publish. Querying their keys raises NotPublished."""
    key_columns: tuple[tuple[str, str], ...]
    """The name and type of each key column. ``KeyedWindows`` have one column without a name, of the
    type "int", "text", "tuple" and so on, or "" while there are no keys. Empty for windows without
    keys."""
    time_column: tuple[str, str]
    """The name and type of a Spark query's time column; otherwise empty."""
    aggregations: tuple[str, ...]
    """The names of the aggregations; "" for a single aggregation without a name."""
    windows: dict[str, str]
    """The windows by name; a single window has the name ""."""
    columns: tuple[str, ...]
    """The names of the columns of ``query``; "" for a result without a name."""
    timed: bool
    """Whether windows can be queried at a moment."""
    incomplete: tuple[Incomplete, ...]
    """The results that lack events since windows or aggregations were changed."""
    cached_bytes: int
    """The bytes of the cached pages."""


class PublishedSnapshot:
    """A snapshot that is decoded on first use."""

    def __init__(self, operation: Operation, data: bytes) -> None:
        self._operation, self._data = operation, data

    @cached_property
    def view(self) -> Any:
        """Return a KeyedView or a WindowView. Raises CorruptSnapshot, SnapshotMismatch."""
        kind: Any = KeyedView if self._operation.what.shape == "keys" else WindowView
        return kind(self._operation, self._data)


class Cut:
    """All buckets as of one committed batch; a bucket without a snapshot is None."""

    def __init__(
        self,
        head: PublishedHead,
        operation: Operation,
        snapshots: Sequence[PublishedSnapshot | None],
    ) -> None:
        self.head, self.operation, self.snapshots = head, operation, snapshots
        #: When the store was last checked for a newer batch.
        self.looked = monotonic()
        self._read_at = datetime.now(UTC)
        what = head.what
        self._converted = reader_of(what.keys) if what.keys else None
        self._bucket_of: Callable[[Any], int] | None = None
        if what.keys and len(head.buckets) > 1:
            self._bucket_of = bucket_of(what.keys, len(head.buckets))

    def by_digest(self) -> dict[tuple[int, bytes | None], PublishedSnapshot]:
        """Return the newest snapshot of each bucket, by bucket and digest."""
        pairs = enumerate(zip(self.head.buckets, self.snapshots, strict=True))
        return {(n, bucket[0][1]): each for n, (bucket, each) in pairs if bucket and each}

    def query(self, keys: Any, at: Moment, partial: bool, unit: TimeUnit | None) -> Any:
        """See ``PublishedWindows.query``."""
        if self.operation.what.shape != "keys":
            results = self._window(keys).query(at, partial, unit)
            return results[""] if list(results) == [""] else result_columns(results)
        if keys is None:
            raise ValueError("these windows have keys: give a key, or a list of keys")
        one = not are_many(keys) and not are_many(at)
        given = keys if are_many(keys) else [keys]
        if one and (quick := self._query_one(keys, at, unit)) is not None:
            return quick
        wanted, codes = self._read(given)
        codes, moments = paired(codes, at, unit)
        found = self._results(wanted, codes, moments)
        if moments is not None and not partial and found.gone.any():
            raise gone_of(given, found.gone, moments)
        names, monoid = self.operation.frames, self.operation.monoid
        results = {
            name: result_of(monoid.results(rows), 0) if one else monoid.results(rows)
            for name, rows in zip(names, found.outputs, strict=True)
        }
        return results[""] if list(names) == [""] else result_columns(results)

    def _query_one(self, key: Any, at: Moment, unit: TimeUnit | None) -> Any:
        lookup = Lookup(self.steps(key, at, unit))
        while lookup.wanted:
            self.operation.store.view_many(lookup.wanted, lookup.take)
        return lookup.result

    def steps(self, key: Any, at: Moment, unit: TimeUnit | None = None) -> Steps[Any]:
        """Return the steps to the result of one key; None if the general method must answer."""
        if self.operation.what.shape != "keys":
            return None
        key = key if self._converted is None else self._converted(key)
        hashed, packed = hash_and_bytes(key, self._key_kind)
        moment = None if at is None else moment_of(at, unit)
        view = self._view(0 if self._bucket_of is None else self._bucket_of(key))
        if view is None:
            return None
        found = yield from view.steps(hashed, packed, moment)
        if found is None:
            return None
        results = dict(zip(self.operation.frames, found, strict=True))
        return results[""] if list(results) == [""] else result_columns(results)

    def _window(self, keys: Any) -> WindowView:
        if keys is not None:
            raise ValueError("these windows have no keys: leave the keys out")
        snapshot = self.snapshots[0]
        assert snapshot is not None, "one window is published whole"
        view: WindowView = snapshot.view
        return view

    def events(self, key: Any, newest: int | None) -> dict[str, np.ndarray]:
        """See ``PublishedWindows.events``."""
        if self.operation.what.shape != "keys":
            return _as_columns(*self._window(key).events(newest), newest)
        if key is None:
            raise ValueError("these windows have keys: give a key")
        wanted, codes = self._read([key])
        for view, keys, _ in self._by_bucket(wanted, codes):
            if view is not None:
                return _as_columns(*view.events(keys, newest), newest)
        return {}

    def _read(self, given: Any) -> tuple[Keys, np.ndarray]:
        """Return the distinct keys of the requests, and for each request the place of its key."""
        if self._converted is not None:
            values = given.tolist() if isinstance(given, np.ndarray) else list(given)
            given = list(map(self._converted, values))
        return read_keys(given, self._key_kind)

    @cached_property
    def _key_kind(self) -> str | None:
        """Return the type of the keys, None if there are no keys."""
        kinds = (each.view.snapshot.kind for each in self.snapshots if each is not None)
        return next(filter(None, kinds), None)

    def _by_bucket(
        self, keys: Keys, codes: np.ndarray
    ) -> Iterator[tuple[KeyedView | None, Keys, np.ndarray]]:
        """Yield the view, the keys and their requests of each bucket that has some of the keys."""
        if self._bucket_of is None:
            yield self._view(0), keys, np.arange(len(codes))
            return
        buckets = np.array([self._bucket_of(keys.at(at)) for at in range(len(keys))], np.int64)
        for number in np.unique(buckets).tolist():
            is_in = buckets == number
            yield self._view(number), keys.take(np.flatnonzero(is_in)), np.flatnonzero(is_in[codes])

    def _view(self, number: int) -> KeyedView | None:
        """Return the view of a bucket, None if it has no keys. Raises NotPublished."""
        snapshot = self.snapshots[number]
        view: KeyedView | None = None if snapshot is None else snapshot.view
        if view is None and self.head.buckets[number] is None:
            raise NotPublished(
                f"bucket {number} of {self.head.name!r}, to which a key belongs, has had no rows "
                "since the query began to publish: its keys can be read once it has rows"
            )
        return view

    def _results(self, keys: Keys, codes: np.ndarray, moments: np.ndarray | None) -> Answers:
        """Return the results of all requests."""
        monoid, count = self.operation.monoid, len(codes)
        outputs = [empties(monoid, count) for _ in self.operation.frames]
        gone = np.zeros(count, bool)
        for view, some, requests in self._by_bucket(keys, codes):
            if view is None:
                continue
            if len(requests) == count:
                return view.results(some, codes, moments)
            _, places = np.unique(codes[requests], return_inverse=True)
            asked = None if moments is None else moments[requests]
            found = view.results(some, places, asked)
            gone[requests] = found.gone
            for out, part in zip(outputs, found.outputs, strict=True):
                monoid.outputs.put_at(out, requests, part)
        return Answers(outputs, gone)

    def status(self, cached: int) -> PublishedStatus:
        """See ``PublishedWindows.status``."""
        head, operation = self.head, self.operation
        views = [each.view for each in self.snapshots if each is not None]
        counts = [view.counts() for view in views]
        aliases = operation.monoid.aliases
        windows = {name: frame.describe() for name, frame in operation.frames.items()}
        committed = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=head.time)
        keys = tuple(head.what.keys)
        if head.what.shape == "keys" and not keys:
            keys = (("", self._key_kind or ""),)
        return PublishedStatus(
            name=head.name,
            source=head.source,
            batch=head.batch,
            committed_at=committed,
            lag=datetime.now(UTC) - committed,
            read_at=self._read_at,
            keys=sum(each.keys for each in counts),
            events=sum(each.inserted for each in counts),
            late=sum(each.late for each in counts),
            invalid=sum(each.invalid for each in counts),
            buckets=len(head.buckets),
            unpublished_buckets=sum(bucket is None for bucket in head.buckets),
            key_columns=keys,
            time_column=head.what.on,
            aggregations=aliases,
            windows=windows,
            columns=tuple(result_name(a, w) for w in windows for a in aliases),
            timed=all(view.timed for view in views),
            incomplete=tuple(latest(each for view in views for each in view.incomplete())),
            cached_bytes=cached,
        )


def _as_columns(values: Any, times: np.ndarray | None, newest: int | None) -> dict[str, np.ndarray]:
    found = {} if times is None else {"time": times.astype("<i8").view("M8[us]")}
    if isinstance(values, range):  # the aggregations read no columns
        return found
    named = values if isinstance(values, Mapping) else {"value": values}
    found |= {name: shown_column(column) for name, column in named.items()}
    return found if newest is None else {name: column[-newest:] for name, column in found.items()}
