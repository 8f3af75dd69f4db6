"""A window for each of very many keys, behind one small interface.

>>> from mta import CountWindow, KeyedWindows, Max
>>> windows = KeyedWindows(Max(), CountWindow(2), name="demo")
>>> windows.extend(["a", "b", "a", "a"], [5.0, 1.0, 3.0, 2.0]).tolist()
[5.0, 1.0, 5.0, 3.0]
>>> windows.query("a"), windows.query(["b", "c"]).tolist(), len(windows)
(3.0, [1.0, nan], 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Rows
from mta.errors import (
    InvalidTime,
    InvalidValue,
    InvariantViolation,
    NotPageable,
    SnapshotMismatch,
    UnsuitableKey,
    UnsupportedOperation,
)
from mta.evaluators.coverage import Coverage
from mta.frames.base import AbstractPolicy
from mta.keyed.bucket import Batch, Bucket
from mta.keyed.changes import (
    Source,
    as_stored,
    carry,
    columns_of,
    pending_after,
    require_observed,
    side_by_side,
    starts_after,
    stored_after,
    with_marks,
)
from mta.keyed.coverage import incomplete
from mta.keyed.deletions import PendingDeletions
from mta.keyed.keys import Keys, read_key, read_keys
from mta.keyed.kind import AnyWindow, Kind
from mta.keyed.lanes import Lanes, empties, folds
from mta.keyed.leaves import TableLayout
from mta.keyed.lsm import LSMTree, PageSize, RunPages
from mta.keyed.retention import EarlierLateness
from mta.keyed.snapshot import MAX_BYTES, NAME_LENGTH, KeyedSnapshot, Start, UnreadSnapshot
from mta.keyed.table import EXPIRED, STANDALONE, Table, blank
from mta.keyed.work import given_back
from mta.logs.base import OnDuplicate
from mta.logs.finger_tree.log import require_joins
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Product, reader_of, require_distinct, result_columns
from mta.pages.snapshot import NAME
from mta.publishing.publisher import Publishable
from mta.publishing.records import What, what_of
from mta.times import TimeUnit, in_unit, to_time, to_times
from mta.windows.display import html_table, human_bytes
from mta.windows.engine import alone, require_monoid, require_policy, require_store
from mta.windows.settings import Lateness, OnInvalid, OnLate, OnMissing, Settings
from mta.windows.shared import SharedWindows
from stores import PageStore, StoreLike

#: How many snapshots may stay restorable, so that what these need has room in each of them.
MAX_RETAIN = 256
#: The bytes of a page of keys, unless they are given.
_LOCAL_PAGE, _REMOTE_PAGE = 1 << 18, 1 << 14
#: Tables that weigh less stay in the snapshot.
_INLINE = 1 << 12


class Latest(NamedTuple):
    """The result of each key of a batch."""

    keys: np.ndarray
    results: Any


@dataclass(frozen=True)
class KeyedStats:
    """What keyed windows hold and have done."""

    keys: int
    standalone: int
    """Keys with a standalone window, as it is large or cannot be vectorized by columns."""
    vectorized: bool
    """Whether windows are vectorized by columns; else every key has a standalone window."""
    inserted: int
    """Events accepted since the beginning."""
    late: int
    """Events dropped because they came too late."""
    invalid: int
    """Events dropped because they held a null or NaN."""
    runs: int
    """Tables in the store."""
    run_bytes: int
    """About how many bytes these are."""
    resident_bytes: int
    """About how many bytes of events are in memory, beside pages that were read."""

    @property
    def dropped(self) -> int:
        """Events dropped for any reason."""
        return self.late + self.invalid


class KeyedWindows(Publishable):
    """The aggregate of each key's newest events, after every event of that key.

    ``window`` is one policy, or several by name, as for ``SharedWindows``. Windows by count and
    time, and these joined by ``|`` and ``&``, under a monoid of columns are *vectorized*: many keys
    cost as much as one key with as many events, 0.1 to 2 us per event. With other policies or
    monoids every key has a standalone window, at 200 us per key and batch.

    In a store, new events are written about 3 times in all, and pages are read that hold keys of
    the batch. Keys are integers, text, bytes, booleans, floats, decimals, dates, datetimes,
    durations, times of day, UUIDs, or tuples of these, all of one type; they come back in it.

    One call at a time. Settings are those of ``Window``, without ``aggregator``, and:

    - ``timed``: whether events have times, and come in their order, even if no policy needs them.
    - ``allowed_lateness``: how much older than the newest event of its key an event may be. Unless
      it is given, the events of a key come in order.
    - ``on_missing="raise"`` or "drop": what to do with a retraction that finds no event.
    - ``promote_at``: how many events the window of a key may have before it becomes standalone.
    - ``page_bytes``: the approximate size of a page of keys, by default 256 KiB, and 16 KiB where
      the store is remote. ``cache_bytes``: how many bytes of the pages read stay in memory.
    """

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        monoid: AbstractMonoid,
        window: AbstractPolicy | Mapping[str, AbstractPolicy],
        store: StoreLike | None = "memory://",
        name: str = "windows",
        *,
        timed: bool = False,
        arity: int | None = None,
        leaf_arity: int | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        on_missing: OnMissing = "raise",
        on_late: OnLate = "raise",
        on_invalid: OnInvalid = "raise",
        promote_at: int = 1024,
        page_bytes: int | None = None,
        cache_bytes: int = 1 << 23,
        retain: int = 2,
    ) -> None:
        self._use(monoid, window, store, name, Settings.read(locals()), timed)

    def _use(
        self,
        monoid: AbstractMonoid,
        window: AbstractPolicy | Mapping[str, AbstractPolicy],
        store: StoreLike | None,
        name: str,
        settings: Settings,
        timed: bool,
    ) -> None:
        require_monoid(monoid)
        policies = dict(window) if isinstance(window, Mapping) else {"": window}
        for each in policies.values():
            require_policy(each)
        if not policies or (isinstance(window, Mapping) and "" in policies):
            raise ValueError("policies are one, or several by name, each name a text of its own")
        if not NAME.fullmatch(name) or len(name) > NAME_LENGTH:
            raise ValueError(f"a name is 1 to {NAME_LENGTH} of A-Z a-z 0-9 . _ : -, not {name!r}")
        opened = require_store(store)
        if settings.retain > MAX_RETAIN:
            raise ValueError(f"of keyed windows retain is at most {MAX_RETAIN}")
        require_joins(monoid, settings.on_duplicate)
        require_distinct(monoid, policies)
        timed |= settings.allowed_lateness is not None
        timed |= any(each.needs_times for each in policies.values())
        self.monoid, self.policy, self.name = monoid, window, name
        self.store, self._owns_store = opened, opened is not store
        promote_at = settings.promote_at
        self._kind = Kind(monoid, policies, settings, timed, promote_at, name, self.store)
        self._key_kind: str | None = None
        self._bucket: Bucket | None = None
        self._starts: dict[str, Start] = {}
        #: Which events of the last batch were accepted; None when all were.
        self.last_accepted: np.ndarray | None = None
        #: Whether a call is under way.
        self.busy = False

    @property
    def engine(self) -> Self:
        """What one call at a time has to itself."""
        return self

    def bucket_of(self, kind: str) -> Bucket:
        """What works inside, once it is known what kind the keys are of.

        For those who read keys and values themselves.
        """
        if self._bucket is None:
            self._key_kind = kind
            layout = TableLayout(self.name, kind, self._kind.reader.inputs, self._kind.timed)
            pages = None
            if self.store is not None:
                settings, remote = self._kind.settings, self.store.capabilities.remote
                page_bytes = settings.page_bytes or (_REMOTE_PAGE if remote else _LOCAL_PAGE)
                pages = RunPages(self.store, layout, PageSize(page_bytes, settings.cache_bytes))
            late = self._kind.settings.allowed_lateness is not None
            self._bucket = Bucket(self._kind, LSMTree(layout, pages, self._kind.trimmed, late))
        return self._bucket

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
        """Add a batch of events; return the result after each, or of each key after its last.

        Columns of equal length: lists, numpy, pandas, polars or Arrow; ``keys`` may be a tuple of
        columns. Numbers among ``times`` count ``time_unit``, as in ``Window.extend``. Results are
        an array in the order of the events, or a dictionary of arrays for a Product or several
        policies (named ``aggregation_window``), with a row for each accepted event, as
        ``last_accepted`` says. With ``emit="last"``, ``Latest(keys, results)``. A ``get_many`` a
        level; nothing is written before ``checkpoint``.

        ``retracts``, a column of booleans, marks rows that take out the newest event of their key
        and time, as ``retract``; their values are not looked at, and they have no results. A batch
        is taken in order of time, and rows of one time as they stand.

        Raises UnsuitableKey, InvalidValue, InvalidTime, LateEvent, NoSuchEvent, NotPageable, and
        what the store raises; then nothing was added.
        """
        if emit not in ("all", "last"):
            raise ValueError(f"emit is 'all' or 'last', not {emit!r}")
        batch = self._read(keys, values, in_unit(times, time_unit), retracts)
        each = emit == "all"
        if not len(batch):
            self.last_accepted = None
            empty = self._as_columns([self.monoid.outputs.new(0) for _ in self._kind.policies])
            return empty if each else Latest(batch.keys.as_column(), empty)
        is_first = self._bucket is None
        bucket = self.bucket_of(batch.keys.kind)
        try:
            done = bucket.advance(batch, "each" if each else "now")
        except Exception:
            if is_first:
                self._bucket = self._key_kind = None  # the kind of keys is still open
            raise
        self.last_accepted = None
        if len(done.line) + len(done.retracted) < len(batch):
            self.last_accepted = np.zeros(len(batch), bool)
            self.last_accepted[done.line] = self.last_accepted[done.retracted] = True
        results_of = done.found.outputs
        if not each:
            return Latest(done.keys.as_column(), self._as_columns(results_of))
        if len(done.line) and not (done.line[1:] > done.line[:-1]).all():
            place = np.argsort(done.line)
            outputs = self.monoid.outputs
            results_of = [outputs.take(rows, place) for rows in results_of]
        return self._as_columns(results_of)

    @alone
    def retract(self, key: Any, time: Any) -> None:
        """Take out the newest event of a key at a time, wherever it lies.

        Needs ``allowed_lateness``, even 0. As ``Window.retract``, and as ``extend`` of one row with
        ``retracts``; the next snapshot writes the whole key. Raises NoSuchEvent, with the key,
        unless ``on_missing="drop"``.

        >>> from mta import KeyedWindows, Max, TimeWindow
        >>> rooms = KeyedWindows(Max(), TimeWindow("1 hour"), name="retracted", allowed_lateness=60)
        >>> _ = rooms.extend(["hall", "hall"], [9.0, 3.0], [0, 60])
        >>> rooms.retract("hall", 0)
        >>> rooms.query("hall")
        3.0
        """
        keys, codes = read_keys([key], self._key_kind)
        moment = np.array([to_time(time)], "<i8")
        rows = self.as_stored(blank(self.reader.inputs, 1), 1)
        batch = Batch(keys, codes, rows, moment)
        self._mark(batch, [True])
        self.bucket_of(keys.kind).advance(batch, "last")

    def _mark(self, batch: Batch, retracts: Any) -> None:
        """Note which rows of a batch are retractions."""
        if self._kind.settings.allowed_lateness is None:
            raise UnsupportedOperation(
                "these windows take events in order, and out from the oldest on: for retractions "
                "set allowed_lateness, even 0"
            )
        marks = np.asarray(retracts)
        if marks.dtype != bool or marks.shape != (len(batch),):
            raise InvalidValue(
                f"retracts is a column of {len(batch)} booleans, one for each event, not "
                f"{marks.dtype} of shape {marks.shape}"
            )
        if marks.any():
            batch.retracts, batch.on_missing = marks, self._kind.settings.on_missing

    def _as_columns(self, results: list[Rows]) -> Any:
        """Results of a batch: one array, or a dictionary of columns."""
        found = self._as_results(results)
        return found if self._kind.single is not None else result_columns(found)

    def _as_results(self, results: list[Rows]) -> Any:
        found = [self.monoid.results(rows) for rows in results]
        if self._kind.single is not None:
            return found[0]
        return dict(zip(self._kind.policies, found, strict=True))

    def _read(self, keys: Any, values: Any, times: Any, retracts: Any = None) -> Batch:
        """What users hand in. Raises UnsuitableKey, InvalidValue, InvalidTime, NotPageable."""
        reader = self.reader
        if self._kind.timed and times is None:
            raise InvalidTime("these windows need a time with every event: give times=")
        micros = to_times(times) if self._kind.timed else None
        distinct, codes = read_keys(keys, self._key_kind)
        rows, count = reader.rows(values, len(codes))
        if count != len(codes):
            raise InvalidValue(f"{count} values have {len(codes)} keys; give one for each")
        if micros is not None and len(micros) != count:
            raise InvalidTime(f"{count} values have {len(micros)} times; give one for each")
        batch = Batch(distinct, codes, rows, micros)
        if retracts is not None:
            self._mark(batch, retracts)
        invalid = self._invalid(batch, count)
        valid, left_out = rows, batch.retracts
        if invalid is not None:
            left_out = invalid if left_out is None else invalid | left_out
        if left_out is not None:
            valid = reader.inputs.take(rows, np.flatnonzero(~left_out))
        if self.store is not None and (at := reader.inputs.unpageable(valid)) is not None:
            raise NotPageable(
                f"the value {reader.inputs.at(valid, at)!r} cannot be written to a page; make it "
                "numbers, text, bytes, lists, tuples or dictionaries, or use store=None; nothing "
                "was inserted"
            )
        batch.rows, batch.invalid = self.as_stored(rows, count), invalid
        return batch

    def _invalid(self, batch: Batch, count: int) -> np.ndarray | None:
        """Which events to drop for their values; None for none. Raises InvalidValue."""
        if self._kind.settings.on_invalid == "accept" or not count:
            return None
        invalid = self.reader.invalid(batch.rows, count)
        if invalid is None:
            return None
        if batch.retracts is not None:
            invalid &= ~batch.retracts
            if not invalid.any():
                return None
        if self._kind.settings.on_invalid == "raise":
            raise InvalidValue(
                f"{int(invalid.sum())} of {count} values are null, NaN or outside what "
                f"{self.monoid.name} takes, the first at index {int(np.argmax(invalid))}; nothing "
                'was inserted; correct them, or choose on_invalid="drop" or on_invalid="accept"'
            )
        return invalid

    def as_stored(self, rows: Rows, count: int) -> Rows:
        """Rows as the monoid, and what policies look at, reads them, as a bucket takes them."""
        return as_stored(self.reader, self._kind.reader, rows, count)

    @property
    def reader(self) -> AbstractMonoid:
        """What reads events as they come in."""
        if self._kind.monoid is self.monoid:
            return self._kind.reader
        observers = [each[1:] for p in self._kind.policies.values() for each in p.observers]
        return reader_of(self.monoid, observers)

    # --- results ----------------------------------------------------------------------------------

    @alone
    def query(self, keys: Any) -> Any:
        """The result of a key's window, or an array with those of a list of keys.

        ``empty`` of the monoid for a key that is not known. A ``get_many`` a level.
        """
        one = not isinstance(keys, list) and not (
            hasattr(keys, "__len__") and not isinstance(keys, (str, bytes, tuple))
        )
        wanted, codes = read_keys([keys] if one else keys, self._key_kind)
        found = self._current(wanted)
        if one:
            results = [self._lowered(rows, 0) for rows in found]
            if self._kind.single is not None:
                return results[0]
            return dict(zip(self._kind.policies, results, strict=True))
        return self._as_results([self.monoid.outputs.take(rows, codes) for rows in found])

    def _lowered(self, rows: Rows, at: int) -> Any:
        column = self.monoid.results(self.monoid.outputs.take(rows, np.array([at])))
        if isinstance(column, dict):
            return {alias: plain(part[0]) for alias, part in column.items()}
        return plain(column[0])

    def _current(self, keys: Keys) -> list[Rows]:
        """For each policy, the results of keys' windows."""
        monoid = self.monoid
        found = [empties(monoid, len(keys)) for _ in self._kind.policies]
        known = None if self._bucket is None else self._bucket.find(keys)
        if known is None:
            return found
        at = keys.find(known.keys)
        some = np.flatnonzero((known.counts > 0) & (known.marks < STANDALONE))
        if len(some) and self._kind.vectorized:
            lanes = Lanes(known.bounds, known.times)
            last = known.bounds[some + 1] - 1
            monoid = self._kind.monoid
            lifted = monoid.lift_rows(known.rows, known.events)
            for policy, rows in zip(self._kind.policies.values(), found, strict=True):
                fold = folds(monoid, lifted, known.events, lanes.fronts(policy, last), last)
                monoid.outputs.put_at(rows, at[some], monoid.lower_rows(fold))
        for place in np.flatnonzero(known.marks == STANDALONE).tolist():
            window = self._standalone(known, place)
            for name, rows in zip(self._kind.policies, found, strict=True):
                result = window.query(name) if isinstance(window, SharedWindows) else window.query()
                row = tuple(result.values()) if isinstance(result, dict) else result
                monoid.outputs.put(rows, int(at[place]), row)
        return found

    def _standalone(self, known: Table, place: int) -> AnyWindow:
        """The standalone window of a key."""
        assert self._bucket is not None
        window = self._bucket.open.get(known.keys.packed(place))
        if window is None:
            window_snapshot = known.window_snapshots[int(known.snapshot_numbers[place])]
            window = self._bucket.pattern.restore_like(window_snapshot)
        return window

    @alone
    def window(self, key: Any) -> AnyWindow:
        """One key's window, to read: ``query``, ``range``, ``len``. Raises UnsuitableKey.

        A copy of what is now: what it takes in is not seen here. Raises KeyError for a key that is
        not known.
        """
        known = self._known(key)
        if known is None or known.marks[0] == EXPIRED:
            raise KeyError(f"no window of the key {key!r} is known")
        if known.marks[0] == STANDALONE:
            window = self._standalone(known, 0)
            if self.store is None:
                return deepcopy(window)
            return window.restore_like(known.window_snapshots[0] or window.snapshot())
        kind = replace(self._kind, promote_at=0, store=None)
        window = kind.open(known.keys.packed(0))
        times = None if known.times is None else known.times.view("M8[us]")
        window.extend(given_back(self._kind.reader, known.rows, known.events), times, "last")
        return window

    def _known(self, key: Any) -> Table | None:
        wanted = read_key(key, self._key_kind)
        return None if self._bucket is None else self._bucket.find(wanted)

    def __len__(self) -> int:
        """How many keys there are."""
        return 0 if self._bucket is None else self._bucket.keys

    def __contains__(self, key: Any) -> bool:
        try:
            known = self._known(key)
        except UnsuitableKey:
            return False
        return known is not None and known.marks[0] != EXPIRED

    def keys(self) -> Iterator[Any]:
        """All keys, in no order; reads every page."""
        if self._bucket is not None:
            for table in self._bucket.tree.everything():
                yield from table.keys.as_column().tolist()

    # --- expiring ---------------------------------------------------------------------------------

    @alone
    def expire(self, before: Any) -> np.ndarray:
        """Expire idle keys, those whose windows are empty at a moment; return these keys.

        Their windows' policies must say when time empties them. Events that are older come late
        from now on. Reads the pages of keys that may be meant.
        """
        moment = to_time(before)
        lifetimes = [policy.lifetime for policy in self._kind.policies.values()]
        if any(lifetime is None for lifetime in lifetimes):
            raise ValueError(f"time alone never empties the windows of {self.policy!r}")
        if self._bucket is None:
            return np.zeros(0, object)
        lifetime = max(life for life in lifetimes if life is not None)
        gone = self._bucket.expire(moment - lifetime, lambda newest: newest + lifetime)
        return gone.keys.as_column()

    def earliest(self) -> int | None:
        """A moment before which ``expire`` finds no event that is the newest of its key.

        In microseconds since 1970; None without keys or times. No store call.
        """
        return None if self._bucket is None else self._bucket.earliest()

    # --- snapshots and pages ----------------------------------------------------------------------

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """Return a snapshot of at most 64 KiB, once all pages are in the store.

        As ``Window.checkpoint``: save the snapshot before you take the next one. Writes what has
        come since the last snapshot, and merges runs where the rule says so. Raises NotPageable.
        """
        if self.store is None:
            raise NotPageable("these windows are in memory alone (store=None); give them a store")
        self._settle_published()
        bucket = self._bucket
        if bucket is None:
            data = self._snapshot(None).encode()
            self._publish(data)
            return data
        tree = bucket.tree
        bucket.write_snapshots()
        tree.settle(_INLINE)
        bucket.delete_due()
        if wait or self._publisher is not None:
            self.store.flush()
        bucket.hold()
        data = self._snapshot(bucket).encode()
        assert len(data) <= MAX_BYTES, "a snapshot that is too large: report this as a bug"
        self._publish(data)
        return data

    def _what(self) -> tuple[What, int]:
        settings = self._kind.settings
        what = what_of("keys", self.monoid, self._kind.policies, settings.on_duplicate)
        return what, settings.retain

    def _snapshot(self, bucket: Bucket | None) -> KeyedSnapshot:
        kind, tree = self._kind, None if bucket is None else bucket.tree
        lateness = kind.settings.allowed_lateness
        if bucket is not None and bucket.lateness_until_now is not None:
            lateness = bucket.lateness_until_now  # nothing has come since
        counts = [0] * 5
        if bucket is not None:
            counts = [bucket.keys, bucket.standalone, bucket.inserted, bucket.late, bucket.invalid]
        return KeyedSnapshot(
            self.name,
            self._key_kind,
            (self.monoid.name, self.monoid.fingerprint),
            [(name, p.describe(), p.fingerprint) for name, p in kind.policies.items()],
            kind.timed,
            lateness,
            self._kind.retention.kept,
            0 if tree is None else tree.number,
            counts,
            None if bucket is None else bucket.expired,
            [] if tree is None else tree.runs,
            tree.memtable[0] if tree is not None and tree.memtable else None,
            PendingDeletions() if tree is None else tree.pending,
            columns_of(kind.reader),
            kind.changes,
            self._starts,
        )

    @classmethod
    def restore(  # noqa: PLR0913 (public: explicit keywords)
        cls,
        snapshot: bytes,
        monoid: AbstractMonoid,
        window: AbstractPolicy | Mapping[str, AbstractPolicy],
        store: StoreLike = "memory://",
        *,
        timed: bool = False,
        arity: int | None = None,
        leaf_arity: int | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        on_missing: OnMissing = "raise",
        on_late: OnLate = "raise",
        on_invalid: OnInvalid = "raise",
        promote_at: int = 1024,
        page_bytes: int | None = None,
        cache_bytes: int = 1 << 23,
        retain: int = 2,
    ) -> Self:
        """The windows that a snapshot describes; no store call until pages are needed.

        With other policies, or a Product of other aggregations, they go on from the events that are
        kept, all of which are read and written for it at once; ``coverage`` lists incomplete
        results. Raises CorruptSnapshot for damaged bytes, and SnapshotMismatch when the snapshot is
        of a monoid that reads other values, of events in order where ``allowed_lateness`` is given
        or the other way round, or of events without times.
        """
        if store is None:
            raise ValueError("a snapshot's pages are in a store: give the one that has them")
        unread, settings = UnreadSnapshot.decode(snapshot), Settings.read(locals())
        windows = cls.__new__(cls)
        windows._use(monoid, window, store, unread.snapshot.window, settings, timed)
        windows._restore(unread)
        return windows

    def restore_like(self, snapshot: bytes) -> Self:
        """The windows that a snapshot describes, with all settings and the store of these ones."""
        unread = UnreadSnapshot.decode(snapshot)
        windows = object.__new__(type(self))
        windows.__dict__.update(self.__dict__)
        windows.name, windows._owns_store, windows.busy = unread.snapshot.window, False, False
        windows._kind = replace(self._kind, name=windows.name)
        windows._bucket = windows._key_kind = windows.last_accepted = windows._publisher = None
        windows._restore(unread)
        return windows

    def _restore(self, unread: UnreadSnapshot) -> None:
        found, kind = unread.snapshot, self._kind
        self._require_suitable(found)
        own = [(name, p.fingerprint) for name, p in kind.policies.items()]
        before = [(name, mark) for name, _, mark in found.policies]
        if found.monoid[1] != self.monoid.fingerprint or sorted(own) != sorted(before):
            self._carry_over(unread)
            return
        self._kind = replace(kind, monoid=with_marks(self.monoid, found), changes=found.changes)
        self._starts = found.starts
        if found.kind is None:
            return
        bucket = self.bucket_of(found.kind)
        snapshot, tree = unread.read(bucket.tree.layout), bucket.tree
        tree.runs, tree.pending, tree.number = snapshot.runs, snapshot.pending, snapshot.number
        tree.memtable = [] if snapshot.memtable is None else [snapshot.memtable]
        bucket.keys, bucket.standalone, bucket.inserted, bucket.late, bucket.invalid = (
            snapshot.counts
        )
        bucket.expired = snapshot.expired
        self._note_lateness(bucket, snapshot)

    def _note_lateness(self, bucket: Bucket, found: KeyedSnapshot) -> None:
        """For how little lateness events of a snapshot were kept."""
        kept, asked = found.lateness, self._kind.settings.allowed_lateness
        self._kind.retention.kept = [EarlierLateness(*each) for each in found.kept]
        if kept is not None and asked is not None and kept < asked:
            bucket.lateness_until_now = kept

    def _require_suitable(self, found: KeyedSnapshot) -> None:
        """Raises SnapshotMismatch where events of a snapshot cannot be those of these windows."""
        why = None
        named = isinstance(self.monoid, Product) and all(name for name, _ in found.columns)
        if (
            found.monoid[1] != self.monoid.fingerprint
            and found.columns != columns_of(self.monoid)
            and not named
        ):
            why = "the monoids read other values: give a Product of columns that are stored"
        if (found.lateness is None) != (self._kind.settings.allowed_lateness is None):
            why = "events are in the order in which they came, or in that of their times: " + (
                "leave out allowed_lateness" if found.lateness is None else "set allowed_lateness"
            )
        if found.timed != self._kind.timed:
            why = "events have times or have none: " + (
                "set timed=True, as they have" if found.timed else "take windows by count alone"
            )
        if why is not None:
            titles = "the snapshot has", "asked for"
            shown = side_by_side(_described(found), _described(self._snapshot(None)), titles)
            raise SnapshotMismatch(f"the snapshot does not go with these windows, {why}\n{shown}")

    def _carry_over(self, unread: UnreadSnapshot) -> None:
        """Go on from a snapshot of other windows or aggregations."""
        assert self.store is not None
        self._kind = replace(self._kind, changes=unread.snapshot.changes + 1)
        source = self._take(unread, self.store)
        if source is not None and self._bucket is not None:
            self._bucket.tree.pending = source.snapshot.pending
            self._bucket.tree.pending.fresh += pending_after(source)

    @alone
    def take_over(self, snapshot: bytes, store: StoreLike) -> None:
        """Go on from a snapshot of another name or in another store, having no keys yet.

        As ``restore`` under other windows; what the snapshot names stays as it is. Reads and writes
        all that is retained. Raises ValueError where there are keys, and as ``restore``.
        """
        if self._bucket is not None and (self._bucket.keys or self._bucket.tree.number):
            raise ValueError("only windows without any keys take over those of a snapshot")
        if self.store is None:
            raise ValueError("these windows are in memory alone (store=None); give them a store")
        unread = UnreadSnapshot.decode(snapshot)
        self._require_suitable(unread.snapshot)
        self._bucket = None
        opened = require_store(store)
        if opened is None:
            raise ValueError("a snapshot's pages are in a store: give the one that has them")
        try:
            self._take(unread, opened)
        finally:
            if opened is not store:
                opened.close()

    def _take(self, unread: UnreadSnapshot, store: PageStore) -> Source | None:
        """All that a snapshot holds in a store, into a new bucket."""
        found = unread.snapshot
        self._kind = replace(self._kind, monoid=stored_after(self.monoid, found.columns))
        if found.kind is None:
            return None
        require_observed(self._kind.reader, self._kind.policies, found.columns)
        bucket = self.bucket_of(found.kind)
        on_duplicate = self._kind.settings.on_duplicate
        source = Source(unread, store, self._kind.reader, on_duplicate)
        if store is self.store and found.window == self.name:
            bucket.tree.number = found.number
        carry(source, bucket)
        bucket.inserted, bucket.late, bucket.invalid = found.counts[2:]
        self._note_lateness(bucket, found)
        self._starts = starts_after(source, self._kind.reader, self._kind.policies)
        return source

    def coverage(self) -> Coverage:
        """Return which results are incomplete after a change, and when each is complete again."""
        return Coverage(tuple(incomplete(self._starts, self.monoid, self._kind.policies)))

    @alone
    def delete_pages(self) -> None:
        """Delete every page; the windows and all their snapshots are of no use afterwards."""
        if self._bucket is not None and self.store is not None:
            self._bucket.delete_pages()

    def close(self) -> None:
        """Close the store if it was opened here; pages stay."""
        if self.store is not None and self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """As ``close``: what was not checkpointed is lost."""
        self.close()

    # --- looking at it ----------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        stats = self.stats()
        rows = [
            ("keys", stats.keys),
            ("keys with a window of their own", stats.standalone),
            ("events accepted", stats.inserted),
            ("events dropped", stats.dropped),
            ("events in memory", human_bytes(stats.resident_bytes)),
            ("pages in the store", human_bytes(stats.run_bytes)),
        ]
        return html_table(repr(self), rows)

    def stats(self) -> KeyedStats:
        """Sizes and counts; no store call."""
        bucket = self._bucket
        if bucket is None:
            return KeyedStats(0, 0, self._kind.vectorized, 0, 0, 0, 0, 0, 0)
        tree = bucket.tree
        return KeyedStats(
            bucket.keys, bucket.standalone, self._kind.vectorized, bucket.inserted, bucket.late,
            bucket.invalid, len(tree.runs), sum(run.weight for run in tree.runs),
            sum(int(table.weights.sum()) for table in tree.memtable),
        )  # fmt: skip

    @alone
    def check(self) -> None:
        """Assert every invariant, reading all pages. Raises InvariantViolation, CorruptPage."""
        if self._bucket is None:
            return
        count = standalone = 0
        for table in self._bucket.tree.everything():
            count += len(table)
            standalone += int((table.marks == STANDALONE).sum())
            lanes = Lanes(table.bounds, table.times)
            if table.times is not None and table.events:
                steps = np.diff(table.times) < 0
                if (steps & (np.diff(lanes.keys) == 0)).any():
                    raise InvariantViolation("events of a key are out of order")
            for place in np.flatnonzero(table.marks == STANDALONE).tolist():
                self._standalone(table, place).check()
        if (count, standalone) != (self._bucket.keys, self._bucket.standalone):
            raise InvariantViolation(
                f"{count} keys with {standalone} standalone windows where {self._bucket.keys} with "
                f"{self._bucket.standalone} were counted"
            )

    def __repr__(self) -> str:
        where = "memory" if self.store is None else self.store.url
        what = f"{self.monoid!r} over {self.policy!r}"
        return f"<KeyedWindows {self.name!r}: {what}, {len(self)} keys in {where}>"


def _described(snapshot: KeyedSnapshot) -> list[tuple[str, str]]:
    """A snapshot's windows, line by line."""
    lateness = "in order" if snapshot.lateness is None else f"{snapshot.lateness / 1e6} s"
    return [
        ("monoid", snapshot.monoid[0]),
        *((f"window {name}".rstrip(), text) for name, text, _ in sorted(snapshot.policies)),
        ("allowed lateness", lateness),
        ("timed", str(snapshot.timed)),
    ]
