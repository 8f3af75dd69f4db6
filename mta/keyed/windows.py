"""``KeyedWindows``: a window for each of very many keys.

>>> from mta import CountWindow, KeyedWindows, Max
>>> windows = KeyedWindows(Max(), CountWindow(2), name="demo")
>>> windows.extend(["a", "b", "a", "a"], [5.0, 1.0, 3.0, 2.0]).tolist()
[5.0, 1.0, 5.0, 3.0]
>>> windows.query("a"), windows.query(["b", "c"]).tolist(), len(windows)
(3.0, [1.0, nan], 2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self, Unpack

import numpy as np

from mta.columns.reading import result_of
from mta.columns.schemas import Rows
from mta.descriptions import Recipe
from mta.errors import (
    InvalidValue,
    NotPageable,
    UnsuitableKey,
)
from mta.evaluators.coverage import Coverage
from mta.frames.base import lifetime_of
from mta.frames.shorthand import Size
from mta.keyed.bucket import Bucket, KeyedBatch, KeyedStats
from mta.keyed.changes import (
    SnapshotSource,
    carry,
    require_observed,
    require_suitable,
    starts_after,
    stored_after,
    with_marks,
)
from mta.keyed.coverage import incomplete
from mta.keyed.keys import Keys, read_key, read_keys
from mta.keyed.kind import Column, KeyedKind, columns_of
from mta.keyed.moments import Questions, answers, gone_of, paired
from mta.keyed.reading import BatchReader
from mta.keyed.snapshot import MAX_BYTES, NAME_LENGTH, KeyedSnapshot, Start
from mta.keyed.standalone import AnyWindow, extend, open_engine, public_window
from mta.keyed.table import EXPIRED, Table
from mta.logs.base import OnDuplicate
from mta.monoids.base import AbstractMonoid
from mta.monoids.following import following, following_columns, types_of
from mta.monoids.product import (
    Aggregations,
    aggregation_of,
    mark_of,
    require_distinct,
    result_columns,
)
from mta.pages import NAME, require_here
from mta.publishing.publisher import Publishable
from mta.publishing.records import What, what_of
from mta.times import Duration, TimeUnit, are_many, in_unit, to_time
from mta.windows.checks import read_frame, require_kind, require_store
from mta.windows.display import html_table, human_bytes
from mta.windows.intake import (
    alone,
    require_emit,
)
from mta.windows.public import PublicWindow
from mta.windows.settings import (
    Changes,
    Clock,
    Lateness,
    Nulls,
    OnAhead,
    OnLate,
    OnMissing,
    Settings,
    changed,
)
from stores import PageStore, StoreLike

#: The maximum of ``retain``, because each snapshot lists what the others need.
MAX_RETAIN = 256
#: Tables of fewer bytes stay in the snapshot.
INLINE_BYTES = 1 << 12


class Latest(NamedTuple):
    """The result of each key of a batch."""

    keys: np.ndarray
    results: Any


class KeyedWindows(Publishable, PublicWindow):
    """The aggregate of each key's newest events, after every event of the key.

    Windows by count, time, session and delta, and combinations of these with ``|`` and ``&``, are
    *vectorized*: many keys cost as much as one key with as many events, 0.1 to 2 us per event, and
    1 to 5 us for text, other objects and functions of your own. With other frames, and with
    sketches, every key has a standalone window, which costs 200 us per key and batch. In a
    store, each new event is written about 3 times in total, and the pages with keys of the batch
    are read.

    Keys are integers, text, bytes, booleans, floats, decimals, dates, datetimes, durations, times
    of day, UUIDs, or tuples of these, all of one type; results have keys of this type. Only one
    call may run at a time.

    Args:
        aggregations: The aggregation of values: a monoid, or a name such as "max". With columns: a
            pair such as ("watts", "max"), or several by name, as for ``Product``.
        window: A frame, a duration such as "24 hours", a number of events, or several by name.
        store: A URL or an open store; None keeps everything in memory, with values of any type.
        name: The name of the windows in the store, as for ``Window``.
        timed: Whether events have times and arrive in order, even if no frame depends on times.
        arity: The number of elements in a group of a standalone window.
        leaf_arity: The number of events in a leaf group of a standalone window.
        allowed_lateness: How much older than the newest event of its key an event may be: seconds
            or a duration. By default, the events of a key must come in order.
        on_duplicate: What to do with an event at the time of an existing event: "append" adds it,
            "replace" replaces the existing event, "combine" combines both. "replace" and "combine"
            select FiBA, with a default ``allowed_lateness`` of 0.
        retain_for: How far before the newest event of a key ``query`` answers every moment, such as
            "90 days"; the events for these moments are retained. Needs times, and sets a default
            ``allowed_lateness`` of 0.
        on_missing: Whether a retraction that matches no event raises NoSuchEvent or is dropped and
            counted.
        on_late: Whether an event that is too late raises LateEvent or is dropped and counted.
        nulls: How to treat a null or NaN: "raise" raises InvalidValue; with "skip", the event is
            inserted, and aggregations ignore the null; "drop_row" drops and counts the event;
            "accept" aggregates NaN like a number.
        min_samples: The number of values below which a result is null (None, or masked in an
            array). By default, with ``nulls="skip"``, a result without values is null. Counts
            and lists are never null.
        max_ahead: How far ahead of the clock the time of an event may be, such as "5 minutes"; by
            default, there is no limit. One event dated tomorrow makes all events of today late.
        on_ahead: Whether an event further ahead raises AheadEvent or is dropped and counted.
        clock: A function that returns the time in seconds since 1970; by default ``time.time``.
        promote_at: The number of events above which the window of a key becomes standalone.
        page_bytes: The approximate size of a page of keys; by default 512 KiB, and 16 KiB
            in a remote store.
        cache_bytes: The size of the page cache in bytes.
        retain: The number of newest snapshots that can be restored.

    >>> from mta import KeyedWindows, Max, TimeWindow
    >>> rooms = KeyedWindows(Max(), TimeWindow("1 hour"), name="example")
    >>> rooms.extend(["hall", "attic", "hall"], [9.0, 5.0, 3.0], [0, 60, 120]).tolist()
    [9.0, 5.0, 9.0]
    >>> rooms.query(["attic", "hall", "cellar"]).tolist()
    [5.0, 9.0, nan]
    """

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        aggregations: Aggregations,
        window: Size | Mapping[str, Size],
        store: StoreLike | None = "memory://",
        name: str = "windows",
        *,
        timed: bool = False,
        arity: int | None = None,
        leaf_arity: int | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        retain_for: Duration | float | None = None,
        on_missing: OnMissing = "raise",
        on_late: OnLate = "raise",
        nulls: Nulls = "raise",
        min_samples: int | None = None,
        max_ahead: Lateness | None = None,
        on_ahead: OnAhead = "raise",
        clock: Clock | None = None,
        promote_at: int = 1024,
        page_bytes: int | None = None,
        cache_bytes: int = 1 << 23,
        retain: int = 2,
    ) -> None:
        settings = Settings(
            arity=arity, leaf_arity=leaf_arity, allowed_lateness=allowed_lateness,
            on_duplicate=on_duplicate, retain_for=retain_for, on_missing=on_missing,
            on_late=on_late, nulls=nulls, min_samples=min_samples, max_ahead=max_ahead,
            on_ahead=on_ahead, clock=clock, promote_at=promote_at, page_bytes=page_bytes,
            cache_bytes=cache_bytes, retain=retain,
        )  # fmt: skip
        self._use(aggregations, window, store, name, settings, timed)

    def _use(
        self,
        aggregations: Aggregations,
        window: Size | Mapping[str, Size],
        store: StoreLike | None,
        name: str,
        settings: Settings,
        timed: bool,
    ) -> None:
        self._given = monoid = aggregation_of(aggregations)
        monoid = settings.aggregating(monoid)
        named = window if isinstance(window, Mapping) else {"": window}
        frames = {name: read_frame(size) for name, size in named.items()}
        window = frames if isinstance(window, Mapping) else frames[""]
        if not frames or (isinstance(window, Mapping) and "" in frames):
            raise ValueError("window= needs a frame, or a mapping of nonempty names to frames")
        require_kind(name, str, "a window's name is text")
        if not NAME.fullmatch(name) or len(name) > NAME_LENGTH:
            raise ValueError(f"a name is 1 to {NAME_LENGTH} of A-Z a-z 0-9 . _ : -, not {name!r}")
        opened = require_store(store)
        if settings.retain > MAX_RETAIN:
            raise ValueError(f"retain is at most {MAX_RETAIN} for keyed windows")
        settings.require_joins(monoid)
        require_distinct(monoid, frames)
        timed |= settings.lateness is not None or settings.max_ahead is not None
        settings.require_duration()
        timed |= any(each.needs_times for each in frames.values())
        self.monoid, self.frame, self.name = monoid, window, name
        self.store, self.owns_store = opened, opened is not store
        self._serve(KeyedKind(monoid, frames, settings, timed, name, self.store))
        self._starts: dict[str, Start] = {}
        #: Which events of the last batch were accepted; None if all were.
        self.last_accepted: np.ndarray | None = None
        #: Whether a call is running, or none is accepted any more.
        self.busy = False
        #: Whether the windows were closed.
        self.closed = False

    @property
    def engine(self) -> Self:
        """Return the object that serves one call at a time."""
        return self

    @property
    def settings(self) -> Settings:
        """Return the settings that the constructor was given."""
        return self._kind.settings

    def _serve(self, kind: KeyedKind) -> None:
        """Start without keys."""
        self._kind, self.bucket = kind, Bucket(kind)
        #: Reads new events.
        self.reader = BatchReader(self.monoid, kind)

    # --- events -----------------------------------------------------------------------------------

    @alone
    def extend(
        self,
        keys: Any,
        values: Any,
        times: Any = None,
        emit: Literal["all", "last"] = "all",
        retracts: Any = None,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Add a batch of events; return the result after each event, or after the last of each key.

        All columns are of equal length: lists, numpy, pandas, polars or Arrow columns. Results are
        an array in the order of the events, or a dictionary of arrays for a Product or several
        frames (named ``aggregation_window``). They have a row for each accepted event, as
        ``last_accepted`` says. With ``emit="last"``, the results are ``Latest(keys, results)``.
        Costs one ``get_many`` per level; nothing is written before ``checkpoint``.

        A batch is processed in order of time, and rows of one time in row order. Raises
        UnsuitableKey, InvalidValue, InvalidTime, LateEvent, NoSuchEvent, NotPageable, and the
        errors of the store; in all these cases nothing was added.

        Args:
            keys: The key of each event, or a tuple of columns.
            values: The value of each event; for a Product a mapping or table of columns.
            times: Datetimes or numbers; required if a frame depends on times.
            emit: "all" returns the result after each event, "last" one result per key of the batch.
            retracts: Booleans, true for rows that remove the newest event of their key and time, as
                ``retract`` does. Their values are ignored, and they have no results.
            time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        """
        require_emit(emit)
        batch = self.read(keys, values, in_unit(times, time_unit), retracts)
        each, count = emit == "all", len(batch)
        if not count:
            self.last_accepted = None
            empty = self.as_columns([self.monoid.outputs.new(0) for _ in self._kind.frames])
            return empty if each else Latest(batch.keys.as_column(), empty)
        done = self.bucket.advance(batch, "each" if each else "now")
        self.last_accepted = None
        if len(done.line) + len(done.retracted) < count:
            self.last_accepted = np.zeros(count, bool)
            self.last_accepted[done.line] = self.last_accepted[done.retracted] = True
        results_of = done.found.outputs
        if not each:
            return Latest(done.keys.as_column(), self.as_columns(results_of))
        if len(done.line) and not (done.line[1:] > done.line[:-1]).all():
            results_of = done.found.by_row(self.monoid, done.line, count)
        return self.as_columns(results_of)

    @alone
    def retract(self, key: Any, time: Any) -> None:
        """Remove the newest event of a key at a time, wherever it is in the window.

        Needs ``allowed_lateness``, even 0. Does the same as ``Window.retract``, and as ``extend``
        with one row and ``retracts``; the next snapshot writes all events of the key. Raises
        NoSuchEvent, which names the key, unless ``on_missing="drop"``.

        Args:
            key: The key.
            time: Seconds, or a datetime.

        >>> from mta import KeyedWindows, Max, TimeWindow
        >>> rooms = KeyedWindows(Max(), TimeWindow("1 hour"), name="retracted", allowed_lateness=60)
        >>> _ = rooms.extend(["hall", "hall"], [9.0, 3.0], [0, 60])
        >>> rooms.retract("hall", 0)
        >>> rooms.query("hall")
        3.0
        """
        self.bucket.advance(self.reader.retraction(key, time, self.bucket.key_kind), "last")

    def as_columns(self, results: list[Rows]) -> Any:
        """Return the results of a batch: one array, or a dictionary of columns."""
        found = self._as_results(results)
        return found if self._kind.single is not None else result_columns(found)

    def _as_results(self, results: list[Rows]) -> Any:
        found = [self.monoid.results(rows) for rows in results]
        if self._kind.single is not None:
            return found[0]
        return dict(zip(self._kind.frames, found, strict=True))

    def read(
        self, keys: Any, values: Any, times: Any, retracts: Any = None, asks: Any = None
    ) -> KeyedBatch:
        """Read arguments. Raises UnsuitableKey, InvalidValue, InvalidTime and NotPageable."""
        micros = self.reader.micros(times)
        keys_and_codes = read_keys(keys, self.bucket.key_kind)
        batch = self.batch(*keys_and_codes, values, micros, retracts, asks)
        if self.store is not None:
            self.reader.require_pageable(batch)
        return batch

    def batch(
        self,
        keys: Keys,
        codes: np.ndarray,
        values: Any,
        times: np.ndarray | None,
        retracts: Any = None,
        asks: np.ndarray | None = None,
    ) -> KeyedBatch:
        """Return a batch of events of distinct keys; reads and checks the values.

        Rows that ``asks`` marks are questions. The values of questions and retractions are ignored.
        Raises InvalidValue and InvalidTime.
        """
        monoid = self.monoid
        try:
            return self.reader.batch(keys, codes, values, times, retracts, asks)
        except InvalidValue:
            if not self._follow(values):
                raise
        try:
            return self.reader.batch(keys, codes, values, times, retracts, asks)
        except InvalidValue:
            if not self.bucket.counts.inserted:
                self._become(monoid)  # the types stay open
            raise

    def _follow(self, values: Any) -> bool:
        """Take the types of columns from the first values; return whether a type was taken."""
        found = following(self.monoid, values)
        if found is self.monoid:
            return False
        if not self.bucket.counts.inserted:
            self._become(found)
            return True
        if self.store is None:
            return False
        self.bucket.write(INLINE_BYTES)
        snapshot, after = self._snapshot(), self._like(found)
        before, wanted = columns_of(self._kind.reader), set(columns_of(found))
        left = [each for each in before if each not in wanted and not each[0].startswith("\0")]
        try:
            after._carry_over(snapshot, left)
        except InvalidValue:
            return False
        self._adopt(after)
        # Events with a null in these columns are not missing; those from before a change still are.
        missing = {name: snapshot.starts.get(mark_of((name, kind))) for name, kind in left}
        for column in set(columns_of(self._kind.reader)) - set(before):
            start = missing.get(column[0])
            if start is None:
                self._starts.pop(mark_of(column), None)
            else:
                self._starts[mark_of(column)] = start
        return True

    def _become(self, monoid: AbstractMonoid) -> None:
        """Aggregate with the monoid for other types of columns, without events."""
        self._adopt(self._like(monoid))

    def _like(self, monoid: AbstractMonoid, name: str | None = None) -> Self:
        """Return windows without events, with the settings and the store of these windows."""
        windows, kind = type(self).__new__(type(self)), self._kind
        windows._use(monoid, self.frame, self.store, name or self.name, kind.settings, kind.timed)
        return windows

    def _adopt(self, other: Self) -> None:
        """Continue as other windows, which aggregate the same for other types of columns."""
        kept = self.owns_store, self.busy, self._given
        vars(self).update(vars(other))
        self.owns_store, self.busy, self._given = kept

    # --- results ----------------------------------------------------------------------------------

    @alone
    def query(
        self, keys: Any, *, at: Any = None, partial: bool = False, time_unit: TimeUnit | None = None
    ) -> Any:
        """Return the result of a key's window, or an array of results for a list of keys.

        Without ``at``, the window ends with the newest event of its key, which may be long ago. A
        window as of a moment covers all events known now with times up to that moment, including
        late events but no retracted events. An unknown key has the aggregation's ``empty``.
        Costs about 1 us per question, and one ``get_many`` per level. Raises EventsGone if events
        of the window have left (see ``retain_for``), InvalidTime if events have no times, and
        UnsuitableKey.

        Args:
            keys: A key, or a list or array of keys.
            at: The moment at which windows end: one for all keys, one per key, or many for one key;
                datetimes, numbers, or "now".
            partial: Whether to answer from the retained events if other events have left.
            time_unit: The unit of numbers; by default seconds.

        >>> from mta import KeyedWindows, Sum, TimeWindow
        >>> taps = KeyedWindows(Sum(), TimeWindow("1 hour"), name="asked", retain_for="1 day")
        >>> _ = taps.extend(["a", "a", "b"], [1.0, 2.0, 5.0], [0, 1800, 600])
        >>> taps.query("a", at=[0, 1800, 3600, 9000]).tolist(), taps.query(["a", "b"]).tolist()
        ([1.0, 3.0, 2.0, 0.0], [3.0, 5.0])
        """
        one = not are_many(keys) and not are_many(at)
        given = keys if are_many(keys) else [keys]
        wanted, codes = read_keys(given, self.bucket.key_kind)
        codes, moments = paired(codes, at, time_unit)
        known = self.bucket.find(wanted)
        if moments is not None:
            # so that the result does not depend on where events that have left are still stored
            known = self._kind.trimmed(known)
        engine_of = self.bucket.standalone.engine
        expired = self.bucket.expired
        found = answers(self._kind, self.monoid, known, wanted, codes, moments, engine_of, expired)
        if moments is not None and not partial and found.gone.any():
            raise gone_of(given, found.gone, moments)
        results = self._as_results(found.outputs)
        return result_of(results, 0) if one else results

    @alone
    def answers(self, batch: KeyedBatch) -> Questions:
        """Add a batch of events and questions; return the answers. Raises as ``extend`` does."""
        questions = self.bucket.advance(batch, "last").questions
        assert questions is not None
        return questions

    @alone
    def window(self, key: Any) -> AnyWindow:
        """Return a copy of one key's window, for reading: ``query``, ``range``, ``len``.

        Events added to the copy do not change these windows. Raises UnsuitableKey, and KeyError for
        an unknown key.

        Args:
            key: The key.
        """
        known = self._known(key)
        if not len(known):
            raise KeyError(f"there is no window of the key {key!r}")
        if len(known.standalone):
            engine = self.bucket.standalone.engine(known, 0)
            if self.store is None:
                engine = deepcopy(engine)
            else:
                engine = engine.restore_like(known.snapshots[0] or engine.snapshot())
        else:
            engine = open_engine(self._kind, known.keys.packed(0), paged=False)
            extend(self._kind, engine, known.events_between(0, known.events))
        return public_window(self._kind, engine)

    def _known(self, key: Any) -> Table:
        """Return the stored events of a key; none if the key is expired."""
        known = self.bucket.find(read_key(key, self.bucket.key_kind))
        return known.take(np.flatnonzero(known.marks != EXPIRED))

    def __len__(self) -> int:
        """Return the number of keys."""
        return self.bucket.counts.keys

    def __contains__(self, key: Any) -> bool:
        try:
            return len(self._known(key)) > 0
        except UnsuitableKey:
            return False

    def keys(self) -> Iterator[Any]:
        """Yield all keys, in no particular order. Reads every page."""
        for table in self.bucket.tree.everything():
            yield from table.keys.as_column().tolist()

    # --- expiring ---------------------------------------------------------------------------------

    @alone
    def expire(self, before: Any) -> np.ndarray:
        """Delete the keys whose windows are empty at a moment; return these keys.

        Raises ValueError if time alone does not empty the frames. Afterwards, events of unknown
        keys before this moment may be late. Reads the pages of keys that may be affected.

        Args:
            before: The moment: seconds, or a datetime.
        """
        moment = to_time(before)
        lifetime = lifetime_of(self._kind.frames.values())
        if lifetime is None:
            raise ValueError(f"time alone never empties the windows of {self.frame!r}")
        gone = self.bucket.expire(moment - lifetime, lambda newest: newest + lifetime)
        return gone.keys.as_column()

    @alone
    def erase(self, keys: Any) -> int:
        """Erase keys: drop their events and results; return how many of them had a window.

        Queries know nothing of the keys from now on, and the first checkpoint after this call
        leaves them out. ``retain`` checkpoints later, and once no publication needs them, their
        pages are deleted, and the store is compacted, so that no byte of them remains in it. Other
        keys do not change. A later event of an erased key starts a new window.

        Reads and rewrites every run of pages that has one of the keys: all pages at most, as a
        merge does. So erase many keys with one call. Raises UnsuitableKey and the errors of the
        store; in all these cases nothing was erased.

        Args:
            keys: A key, or a list or array of keys.

        >>> from mta import KeyedWindows, Max, TimeWindow
        >>> rooms = KeyedWindows(Max(), TimeWindow("1 hour"), name="erased")
        >>> _ = rooms.extend(["hall", "attic"], [9.0, 5.0], [0, 60])
        >>> rooms.erase("hall"), list(rooms.keys())
        (1, ['attic'])
        """
        if self.bucket.key_kind is None:
            return 0
        given = keys if are_many(keys) else [keys]
        return self.bucket.erase(read_keys(given, self.bucket.key_kind)[0])

    def earliest(self) -> int | None:
        """Return a moment before which ``expire`` finds no key to delete, without a store call.

        The moment is in microseconds since 1970; None without keys or times.
        """
        return self.bucket.earliest()

    # --- snapshots and pages ----------------------------------------------------------------------

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """Write new pages, and return a snapshot of at most 64 KiB.

        Save the snapshot before you take the next one, as with ``Window.checkpoint``. Writes the
        events since the last snapshot, and merges runs of similar size. Raises NotPageable.

        Args:
            wait: Whether to wait until all pages are in the store.
        """
        if self.store is None:
            raise NotPageable("these windows are only in memory (store=None); pass a store")
        if self._publisher is not None:
            self._publisher.retry()
        self.bucket.write(INLINE_BYTES)
        if wait or self._publisher is not None:
            self.store.flush()
        self.bucket.retain()
        data = self._snapshot().encode()
        assert len(data) <= MAX_BYTES, "a snapshot that is too large: report this as a bug"
        if self._publisher is not None:
            self._publisher.publish(data, self._what()[0])
        if self.bucket.compact():
            data = self._snapshot().encode()
        return data

    def _what(self) -> tuple[What, int]:
        what = what_of("keys", self.monoid, self._kind.frames)
        return what, self._kind.settings.retain

    def _snapshot(self) -> KeyedSnapshot:
        bucket, kind, tree = self.bucket, self._kind, self.bucket.tree
        retention = kind.retention
        return KeyedSnapshot(
            window=self.name,
            kind=bucket.key_kind,
            monoid=(self.monoid.name, self.monoid.fingerprint),
            frames=[(name, p.describe(), p.fingerprint) for name, p in kind.frames.items()],
            timed=kind.timed,
            lateness=kind.settings.lateness,
            retained=retention.retained,
            earlier=retention.late.earlier,
            earlier_asked=retention.asked.earlier,
            number=tree.number,
            counts=bucket.counts,
            expired=bucket.expired,
            newest=bucket.newest,
            runs=tree.runs,
            memtable=tree.dump_memtable(),
            pending=tree.pending,
            columns=columns_of(kind.reader),
            changes=kind.changes,
            starts=self._starts,
            recipe=Recipe.of(
                self._given, kind.frames.values(), kind.settings.given(), types_of(self.monoid)
            ),
        )

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        store: StoreLike = "memory://",
        *,
        aggregations: Aggregations | None = None,
        window: Size | Mapping[str, Size] | None = None,
        timed: bool | None = None,
        **changes: Unpack[Changes],
    ) -> Self:
        """Return the windows that a snapshot describes; no store call until pages are needed.

        The snapshot says how the windows were made, except for Python functions, which must be
        given again: an aggregation, a frame or a clock. What is given replaces what the snapshot
        says. With other frames, or a Product of other aggregations, the windows continue with the
        retained events, which are all read and rewritten once; ``coverage`` lists incomplete
        results. Raises CorruptSnapshot for damaged bytes. Raises SnapshotMismatch if a function is
        missing, if the snapshot's aggregation reads other values, if ``allowed_lateness`` is given
        for a snapshot without it or vice versa, or if only one side stores times.

        Args:
            snapshot: What ``checkpoint`` returned.
            store: The store of the windows: its URL, or the open store.
            aggregations: All aggregations, if any of them has Python functions, or others.
            window: One frame, or all by name, if any of them has Python functions, or others.
            timed: Whether events have times, which cannot be changed.
            **changes: Other settings, by the names that the constructor gives them.
        """
        found = KeyedSnapshot.decode(snapshot)
        settings = changed(cls, found.recipe, changes)
        given: Any = found.recipe.made_aggregation() if aggregations is None else aggregations
        if window is None:
            frames = found.made_frames()
            window = frames[""] if [*frames] == [""] else frames
        if store is None:
            raise ValueError("the pages of a snapshot are in a store: pass that store")
        windows = cls.__new__(cls)
        is_timed = found.timed if timed is None else timed
        windows._use(given, window, store, found.window, settings, is_timed)
        windows._restore(found)
        require_here(windows.store, found.first_page())
        return windows

    def restore_like(self, snapshot: bytes) -> Self:
        """Return the windows of a snapshot, with the settings and the store of these windows.

        Args:
            snapshot: What ``checkpoint`` of windows with these settings returned.
        """
        found = KeyedSnapshot.decode(snapshot)
        windows = self._like(self._given, found.window)
        windows._restore(found)
        return windows

    def _restore(self, found: KeyedSnapshot) -> None:
        self._follow_stored(found)
        kind = self._kind
        require_suitable(found, self._snapshot(), self.monoid)
        own = [(name, p.fingerprint) for name, p in kind.frames.items()]
        before = [(name, mark) for name, _, mark in found.frames]
        if found.monoid[1] != self.monoid.fingerprint or sorted(own) != sorted(before):
            self._carry_over(found)
            return
        monoid = with_marks(self.monoid, found)
        if monoid is not kind.monoid or kind.changes != found.changes:
            self._serve(replace(kind, monoid=monoid, changes=found.changes))
        self._starts = found.starts
        self.bucket.load(found)

    def _follow_stored(self, found: KeyedSnapshot) -> None:
        """Take the types of columns from a snapshot."""
        monoid = following_columns(self.monoid, found.columns, found.recipe.types)
        if monoid is not self.monoid:
            self._become(monoid)

    def _carry_over(self, found: KeyedSnapshot, nulls: Collection[Column] = ()) -> None:
        """Continue from a snapshot of other windows or aggregations.

        Raises InvalidValue if an event has a value in one of the columns ``nulls``.
        """
        assert self.store is not None
        source = self._take(found, self.store, found.changes + 1, nulls)
        if source is not None:
            self.bucket.tree.pending = found.pending
            self.bucket.tree.pending.fresh += [*(run.pages() for run in found.runs), *source.pages]

    @alone
    def take_over(self, snapshot: bytes, store: StoreLike) -> None:
        """Continue from a snapshot of another name or in another store.

        Does the same as ``restore`` under another name; the pages of the snapshot do not change.
        Reads and writes all retained events. Raises ValueError if these windows have keys, and the
        errors of ``restore``.

        Args:
            snapshot: What ``checkpoint`` of the other windows returned.
            store: The store of the other windows.
        """
        if self.bucket.counts.keys or self.bucket.tree.number:
            raise ValueError("take_over needs windows without keys")
        if self.store is None:
            raise ValueError("these windows are only in memory (store=None); pass a store")
        found = KeyedSnapshot.decode(snapshot)
        self._follow_stored(found)
        require_suitable(found, self._snapshot(), self.monoid)
        opened = require_store(store)
        if opened is None:
            raise ValueError("the pages of a snapshot are in a store: pass that store")
        try:
            self._take(found, opened, self._kind.changes)
        finally:
            if opened is not store:
                opened.close()

    def _take(
        self, found: KeyedSnapshot, store: PageStore, changes: int, nulls: Collection[Column] = ()
    ) -> SnapshotSource | None:
        """Add everything in a snapshot to a new bucket."""
        monoid = stored_after(self.monoid, found.columns)
        self._serve(replace(self._kind, monoid=monoid, changes=changes))
        if found.kind is None:
            return None
        bucket, kind = self.bucket, self._kind
        require_observed(kind.reader, kind.frames, found.columns)
        bucket.tree.layout.kind = found.kind
        source = SnapshotSource(found, store, kind.reader, kind.corrects, nulls)
        if store is self.store and found.window == self.name:
            bucket.tree.number = found.number
        carry(source, bucket)
        bucket.note_moments(found)
        self._starts = starts_after(source, kind.reader, kind.frames)
        return source

    def coverage(self) -> Coverage:
        """Return which results are incomplete after a change, and when each is complete again."""
        return Coverage(tuple(incomplete(self._starts, self.monoid, self._kind.frames)))

    @alone
    def delete_pages(self) -> None:
        """Delete every page. The windows and all their snapshots are useless afterwards."""
        if self.store is not None:
            self.bucket.delete_pages()

    # --- inspection -------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        stats = self.stats()
        rows = [
            ("keys", stats.keys),
            ("keys with a standalone window", stats.standalone),
            ("events accepted", stats.inserted),
            ("events dropped", stats.dropped),
            ("events in memory", human_bytes(stats.resident_bytes)),
            ("pages in the store", human_bytes(stats.run_bytes)),
        ]
        return html_table(repr(self), rows)

    def stats(self) -> KeyedStats:
        """Return sizes and counts; no store call."""
        return self.bucket.stats()

    @alone
    def check(self) -> None:
        """Check every invariant, reading all pages. Raises InvariantViolation and CorruptPage."""
        self.bucket.check()

    def __repr__(self) -> str:
        where = "memory" if self.store is None else self.store.url
        what = f"{self.monoid!r} over {self.frame!r}"
        return f"<KeyedWindows {self.name!r}: {what}, {len(self)} keys in {where}>"
