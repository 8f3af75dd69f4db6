"""Add batches of events of many keys to their windows, and return all results together.

    events in, in any order       -> by key, in order of arrival, or of time if events may be late
    stored events of these keys   -> one lookup in the LSM tree
    both, key by key              -> lanes, evaluated together
    stored events still needed    -> stay where they are; only the new events are written

Most keys of most streams have few events: these keys are vectorized, by columns (``work``). A key
with more than ``promote_at`` events gets a standalone window, and so does every key if nothing can
be vectorized (``standalone``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mta.columns.schemas import Rows, Schema
from mta.errors import InvariantViolation, LateEvent, NoSuchEvent
from mta.folds.sliding import Events
from mta.kernels.native import bounds_of, group, order_by, running_max, sort_within
from mta.keyed.corrections import Retractions, existing_in, receding, resolve
from mta.keyed.keys import Keys, of_packed
from mta.keyed.kind import KeyedKind
from mta.keyed.leaves import COMPACT, LIST, Entry, PendingPages, TableLayout
from mta.keyed.lsm import LSMTree, PendingDeletions, RunPages
from mta.keyed.moments import Questions, answer
from mta.keyed.snapshot import KeyCounts, KeyedSnapshot
from mta.keyed.standalone import StandaloneWindows, first_time, public_window
from mta.keyed.table import ALL, EXPIRED, NO_TIME, STANDALONE, Table, take_or
from mta.keyed.work import Asked, Found, Want, Work, results_at, unanswered, union_of
from mta.logs.finger_tree.log import FingerTreeLog
from mta.monoids.base import any_of
from mta.times import clock
from mta.triggers.rules import EveryPeriod
from mta.windows.checks import by_time
from mta.windows.engine import Engine
from stores.errors import StoreUnavailable

#: The default size of a page of keys in bytes, in a local and in a remote store.
LOCAL_PAGE, REMOTE_PAGE = 1 << 19, 1 << 14
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class KeyedBatch:
    """Rows in order of arrival: distinct keys, the place of each row's key among them, and data."""

    keys: Keys
    codes: np.ndarray
    rows: Rows
    times: np.ndarray | None
    invalid: np.ndarray | None = None
    """Which events have invalid values, excluding retractions and questions; None if none has."""
    late_first: bool = False
    """Whether an event that is both invalid and late counts as late."""
    retracts: np.ndarray | None = None
    """Which rows retract the newest event of their key and time; None if none does."""
    unordered: bool = False
    """Whether rows of one key and time have no order. Retractions then come first, except those
    that match no stored event, which come last.
    """
    ahead: np.ndarray | None = None
    """Which events are dropped because they are ahead of the clock; None if none is."""
    asks: np.ndarray | None = None
    """Which rows are questions (``mta.keyed.moments``), not events; None if none is."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, schema: Schema, places: np.ndarray) -> KeyedBatch:
        """Return some rows of a batch of events, with all keys."""
        rows, times, _ = Events(self.rows, self.times, len(self)).take(schema, places)
        invalid = None if self.invalid is None else self.invalid[places]
        return KeyedBatch(self.keys, self.codes[places], rows, times, invalid)


@dataclass(slots=True)
class Advance:
    """The outcome of a batch."""

    line: np.ndarray
    """The places in the batch of the accepted events, key by key and in order."""
    late: np.ndarray | None
    """Which rows are late; None if none is."""
    invalid: int
    """The number of rows that are dropped because they are invalid."""
    found: Found
    """The requested results."""
    keys: Keys
    """The keys of the line, and keys with retractions."""
    bounds: np.ndarray
    """Where each key's events start in the line."""
    last: np.ndarray | None
    """The time of each key's newest event before the batch, or of a new key's first event."""
    retracted: np.ndarray
    """The places in the batch of the retractions that matched an event."""
    retracted_of: np.ndarray
    """The place of the key of each of these retractions."""
    missing: np.ndarray
    """The places in the batch of the retractions that matched no event."""
    questions: Questions | None = None
    """The answered questions; None for a batch without questions."""
    ahead: np.ndarray | None = None
    """The events that were dropped because they are ahead of the clock; None if none is."""


@dataclass(frozen=True)
class KeyedStats:
    """The sizes and counts of keyed windows."""

    keys: int
    standalone: int
    """Keys with a standalone window, which is large or cannot be vectorized."""
    vectorized: bool
    """Whether windows are vectorized; if not, every key has a standalone window."""
    inserted: int
    """Events accepted since the beginning."""
    late: int
    """Events dropped because they were late."""
    invalid: int
    """Events dropped because of a null or NaN."""
    ahead: int
    """Events dropped because they were ahead of the clock."""
    runs: int
    """Tables in the store."""
    run_bytes: int
    """The approximate size of these tables in bytes."""
    resident_bytes: int
    """The approximate size of the events in memory in bytes, without cached pages."""

    @property
    def dropped(self) -> int:
        """Events dropped for any reason."""
        return self.late + self.invalid + self.ahead


#: Decides whether a batch is added: gets its line, its results as if it were added, and the work.
Accept = Callable[[np.ndarray, Found, Work], bool]


class Bucket:
    """Windows of many keys: tables in an LSM tree, and standalone windows."""

    def __init__(self, kind: KeyedKind) -> None:
        self.kind, settings = kind, kind.settings
        layout = TableLayout(kind.name, "", kind.reader.inputs, kind.timed)
        pages = None
        if kind.store is not None:
            usual = REMOTE_PAGE if kind.store.capabilities.remote else LOCAL_PAGE
            page_bytes = settings.page_bytes or usual
            pages = RunPages(kind.store, layout, page_bytes, settings.cache_bytes)
        self.tree = LSMTree(layout, pages, settings.lateness is not None, kind.trimmed)
        self.standalone = StandaloneWindows(kind)
        self.counts = KeyCounts()
        #: The latest moment at which the windows of an expired key became empty.
        self.expired: int | None = None
        #: The newest time of any event so far.
        self.newest: int | None = None
        #: Whether pages of erased keys were deleted since the store was compacted.
        self._compacts = False

    @property
    def key_kind(self) -> str | None:
        """Return the kind of the keys (``key_types``); None if there are no keys yet."""
        return self.tree.layout.kind or None

    @property
    def generation(self) -> int:
        """Return a number that differs between a key's windows: it grows with each event."""
        return ((self.tree.number << 40) + self.counts.inserted) % (1 << 64)

    # --- events ---------------------------------------------------------------------------------

    def find(self, keys: Keys) -> Table:
        """Return the stored events of keys. Raises PartialBatch, MissingPage and CorruptPage."""
        self.standalone.require_whole()
        return self.tree.find(keys)

    def advance(self, batch: KeyedBatch, want: Want = "each") -> Advance:
        """Add a batch, and return the requested results; raises as ``advance_if`` does."""
        done = self.advance_if(batch, want)
        assert done is not None
        return done

    def advance_if(
        self, batch: KeyedBatch, want: Want = "each", accept: Accept | None = None
    ) -> Advance | None:
        """Add a batch, and return the requested results; None if ``accept`` refuses the batch.

        Raises LateEvent, NoSuchEvent, and the errors of the store and the monoid. After an error,
        nothing has changed, with one exception: if standalone windows that changed since the last
        snapshot had received events of the batch, every later call raises PartialBatch.
        """
        layout = self.tree.layout
        kind_before = layout.kind
        layout.kind = batch.keys.kind if len(batch.keys) else kind_before
        done = None
        try:
            done = self._advance(batch, want, accept)
        finally:
            if done is None:
                layout.kind = kind_before
        return done

    def _advance(self, batch: KeyedBatch, want: Want, accept: Accept | None) -> Advance | None:
        keys = batch.keys
        known = self.find(keys)
        if self.kind.corrects or batch.retracts is not None:
            known = self.kind.trimmed(known)  # so that nothing replaces events that have left
        at = known.keys.find(keys)
        newest, floors = take_or(known.newest(), at, NO_TIME), None
        if batch.times is not None and len(batch):
            cutoffs, lateness = self.kind.retention.late.cutoffs, self.kind.settings.lateness
            least = int(batch.times.min())
            floors = self.floors(known, at, newest, least, cutoffs, lateness)
        questions = None
        line, bounds, late, times = self.ordered(batch, newest, floors)
        if batch.asks is not None:
            questions, too_early = self._questions(batch, known, at, newest)
            late = any_of((late, too_early))
        taken, retracted, missing = None, line[:0], line[:0]
        if batch.retracts is not None and floors is not None:
            line, bounds, retracted, missing, taken = self._resolve(batch, line, known, at, floors)
            times = None if batch.times is None else batch.times[line]
        last = None
        if times is not None and len(line):
            last = np.where(newest == NO_TIME, times[bounds[:-1] % len(line)], newest)
        schema, asked = self.kind.reader.inputs, None
        rows = schema.take(batch.rows, line)
        if questions is not None:
            new = Table.of(schema, keys, bounds, times, rows)
            asked = answer(self.kind, questions, known, at, new, self.standalone)
        touched = _touched(bounds, taken, asked)
        if len(touched) < len(keys):
            keys, at = keys.take(touched), at[touched]
        bounds = np.append(bounds[touched], bounds[-1])
        new = Table.of(schema, keys, bounds, times, rows)
        marks = take_or(known.marks, at)
        last = None if last is None else last[touched]
        at = np.where(marks == EXPIRED, -1, at)
        work = Work(self.kind, new, known, at, last, want, taken, asked)
        alone = self._are_standalone(work, marks)
        needed = work.evaluate(np.flatnonzero(~alone))
        if accept is not None and not accept(line, self._preview(work, marks, alone), work):
            return None
        self._take_in(work, marks, alone, needed)
        self.counts.keys += int((at < 0).sum())
        self.counts.inserted += len(line)
        if times is not None and len(times):
            latest = int(times.max())
            self.newest = latest if self.newest is None else max(latest, self.newest)
        answered = 0 if questions is None else len(questions)
        invalid = len(batch) - len(line) - len(retracted) - len(missing) - answered
        invalid = self._count_dropped(invalid, late, batch.ahead)
        of = retracted if taken is None else taken.of
        return Advance(
            line, late, invalid, work.found, keys, bounds, last, retracted, of, missing, questions,
            batch.ahead,
        )  # fmt: skip

    def _count_dropped(
        self, dropped: int, late: np.ndarray | None, ahead: np.ndarray | None
    ) -> int:
        """Count the dropped events of a batch; return how many have invalid values."""
        too_late = 0 if late is None else int(late.sum())
        too_early = 0 if ahead is None else int(ahead.sum())
        invalid = dropped - too_late - too_early
        self.counts.late += too_late
        self.counts.ahead += too_early
        self.counts.invalid += invalid
        return invalid

    def _preview(self, work: Work, marks: np.ndarray, alone: np.ndarray) -> Found:
        """Return the results of a batch as if the events of standalone keys had been added too."""
        places, vectorized = np.flatnonzero(alone), [*work.parts]
        if len(places):
            work.scratch = self.standalone.scratch(
                [work.new.keys.packed(at) for at in places.tolist()]
            )
            work.scratch.advance(work, places, places[:0], marks, self.generation)
        found, work.parts = work.found, vectorized
        return found

    def _take_in(
        self, work: Work, marks: np.ndarray, alone: np.ndarray, needed: np.ndarray
    ) -> None:
        """Add the events of an evaluated batch to standalone windows, and to the memtable.

        ``needed`` is the number of events that each vectorized key must retain.
        """
        vectorized = np.flatnonzero(~alone)
        promoted = vectorized[needed > self.kind.settings.promote_at]
        stay, tables, entries = vectorized, list[Table](), list[Table]()
        if len(vectorized) < len(marks) or len(promoted):
            places = np.flatnonzero(alone)
            table, small, left_pages = self.standalone.advance(
                work, places, promoted, marks, self.generation
            )
            entries.append(table)
            fresh = int((marks[alone] != STANDALONE).sum())
            self.counts.standalone += fresh + len(promoted) - small
            self.tree.pending.fresh += left_pages
            stay = np.setdiff1d(vectorized, promoted, assume_unique=True)
        if work.corrects and len(stay):
            rewritten, stay = work.rewritten(stay)
            tables.append(rewritten)
        if len(stay):
            part = work.new if len(stay) == len(work.new) else work.new.take(stay)
            part.marks[marks[stay] == EXPIRED] = ALL
            tables.append(part)
        for table in [*tables, *entries]:
            if len(table):
                self.tree.add(table)

    def _are_standalone(self, work: Work, marks: np.ndarray) -> np.ndarray:
        """Return which keys have a standalone window, or need one from now on."""
        if not self.kind.vectorized:
            return np.ones(len(marks), bool)
        found: np.ndarray = marks == STANDALONE
        if self.kind.attributes:
            some = np.flatnonzero(~found)
            union, _ = union_of(work.known, work.at[some], work.new.take(some), late=False)
            unsteady = self.kind.unsteady(union)
            if unsteady is not None:
                found[some[unsteady]] = True
        if work.taken is not None:
            found[work.taken.alone] = True
            at = np.where(found, -1, work.at)
            found[receding(work.known, at, work.new, work.taken)] = True
        return found

    def _resolve(
        self, batch: KeyedBatch, line: np.ndarray, known: Table, at: np.ndarray,
        floors: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Retractions]:  # fmt: skip
        """Return events, each key's start, and retractions with and without a match."""
        assert batch.times is not None and batch.retracts is not None
        takes = batch.retracts[line]
        newest = known.newest()

        def existing(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
            found = np.zeros(len(codes), np.int64)
            places = at[codes]
            some = np.flatnonzero(places >= 0)
            standalone = known.marks[places[some]] == STANDALONE
            for row in some[standalone].tolist():
                place = int(places[row])
                engine = self.standalone.opened(known, place)
                found[row] = self._existing(engine, int(newest[place]), int(times[row]))
            some = some[~standalone]
            found[some] = existing_in(known, places[some], times[some])
            return found

        settings = self.kind.settings
        order, unmatched, own = resolve(
            batch.codes[line], batch.times[line], takes, settings.appends, existing,
            batch.unordered,
        )  # fmt: skip
        if order is not None:
            line, takes = line[order], takes[order]
        if unmatched.any() and settings.on_missing == "raise":
            raise self._no_such_event(batch, line[unmatched])
        good = takes & ~unmatched
        events = ~takes
        slots = np.cumsum(events)[good]
        codes = batch.codes[line]
        times = batch.times[line[good]]
        alone = np.unique(codes[own & good])
        taken = Retractions(codes[good], times, slots, floors[codes[good]], alone)
        bounds = bounds_of(np.bincount(codes[events], minlength=len(batch.keys)))
        return line[events], bounds, line[good], line[unmatched], taken

    def _existing(self, engine: Engine, clock: int, time: int) -> int:
        """Return how many events at a time can be retracted from a standalone window."""
        events = by_time(engine.structure(), FingerTreeLog)
        if not all(frame.positional or frame.merges for frame in self.kind.frames.values()):
            return events.count_at(time)
        start, stop = events.first_after(time - 1), events.first_after(time)
        if start == stop:
            return 0
        return max(0, stop - max(start, self.kind.retention.needed_in(events, clock)))

    def _no_such_event(self, batch: KeyedBatch, rows: np.ndarray) -> NoSuchEvent:
        assert batch.times is not None and batch.retracts is not None
        place = int(rows.min())
        return NoSuchEvent(
            f"{len(rows)} of {int(batch.retracts.sum())} retractions match no event, "
            f"the first at index {place}: key {batch.keys.at(int(batch.codes[place]))!r}, time "
            f"{clock(int(batch.times[place]))}; the event never arrived, was retracted already, or "
            'has left; nothing was changed; correct them, or choose on_missing="drop"'
        )

    def ordered(
        self, batch: KeyedBatch, newest: np.ndarray, floors: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return accepted events by key, each key's start, late events, and their times."""
        count = len(batch.keys)
        line, others = group(batch.codes, count), any_of((batch.asks, batch.ahead))
        if others is not None:
            line = line[~others[line]]
        codes = batch.codes if len(line) == len(batch) else batch.codes[line]
        sizes = np.bincount(codes, minlength=count)
        codes = np.repeat(np.arange(count), sizes)
        bad = None if batch.invalid is None else batch.invalid[line]
        times = None if batch.times is None else batch.times[line]
        late, in_order = None, times is None or not len(line)
        if times is not None and floors is not None:
            takes = None if batch.retracts is None else batch.retracts[line]
            in_order = _in_order(times, sizes, floors)
            if not in_order:
                behind = self._behind(times, codes, floors, bad, takes)
                if bad is not None and not batch.late_first:
                    behind &= ~bad
                if behind.any():
                    late = np.zeros(len(batch), bool)
                    late[line] = behind
                    if self.kind.settings.on_late == "raise":
                        raise self._late_event(batch, late, floors, newest)
                    bad = behind if bad is None else bad | behind
        if bad is not None:
            line, codes = line[~bad], codes[~bad]
            times = None if times is None else times[~bad]
            sizes = np.bincount(codes, minlength=count)
        if times is not None and self.kind.settings.lateness is not None and not in_order:
            order = sort_within(times, codes)
            if order is not None:
                line, times = line[order], times[order]
        return line, bounds_of(sizes), late, times

    def _questions(
        self, batch: KeyedBatch, known: Table, at: np.ndarray, newest: np.ndarray
    ) -> tuple[Questions, np.ndarray]:
        """Return the questions to answer, and which rows are late questions. Raises LateEvent."""
        assert batch.times is not None and batch.asks is not None
        rows, retention = np.flatnonzero(batch.asks), self.kind.retention
        rows = rows[order_by(batch.codes[rows], batch.times[rows])]
        codes, times = batch.codes[rows], batch.times[rows]
        least, reach = int(times.min(initial=0)), retention.asked.length
        floors = self.floors(known, at, newest, least, retention.horizons, reach)
        behind, late = times < floors[codes], np.zeros(len(batch), bool)
        if behind.any():
            if self.kind.settings.on_late == "raise":
                raise self._late_question(batch, int(rows[behind].min()), floors)
            late[rows[behind]] = True
            rows, codes, times = rows[~behind], codes[~behind], times[~behind]
        return Questions(rows, codes, times, unanswered(self.kind, len(rows))), late

    def _late_question(self, batch: KeyedBatch, place: int, floors: np.ndarray) -> LateEvent:
        assert batch.times is not None
        key = int(batch.codes[place])
        return LateEvent(
            f"the question at index {place}, of the key {batch.keys.at(key)!r}, is as of "
            f"{clock(int(batch.times[place]))}, but events of this key are retained only from "
            f"{clock(int(floors[key]))} on; nothing was inserted; set a longer "
            'retain_for, or choose on_late="drop"'
        )

    def _behind(
        self, times: np.ndarray, codes: np.ndarray, floors: np.ndarray,
        bad: np.ndarray | None, takes: np.ndarray | None,
    ) -> np.ndarray:  # fmt: skip
        """Return which events, in order of key, are late."""
        floor = floors[codes]
        if self.kind.settings.lateness is None:
            steps = times if bad is None else np.where(bad, floor, times)
            bounds = bounds_of(np.bincount(codes, minlength=len(floors)))
            behind: np.ndarray = times < running_max(np.maximum(steps, floor), bounds)
            return behind
        behind = times < floor
        return behind if takes is None else behind & ~takes  # late retractions are resolved instead

    def floors(
        self,
        known: Table,
        at: np.ndarray,
        newest: np.ndarray,
        least: int,
        cutoffs: Callable[[np.ndarray], np.ndarray],
        reach: int | None,
    ) -> np.ndarray:
        """Return the time before which each key accepts nothing, ``least`` for no limit.

        This time is the cutoff or horizon of the key (``retention``). A key that is new, or whose
        events all arrived after some keys were expired, may itself have been expired, and then its
        earlier events are lost. So this key accepts nothing before the moment at which the last
        expired window was empty. This rule does not depend on how the events of the key are stored.
        """
        begin = least if self.expired is None else max(least, self.expired)
        floors = np.full(len(at), begin)
        if known.times is None:
            return floors
        some = np.flatnonzero(newest != NO_TIME)
        found = cutoffs(newest[some])
        if reach and self.expired is not None and least < self.expired:
            late = np.flatnonzero(found < self.expired)
            places = at[some[late]]
            engine_of = self.standalone.opened
            oldest = np.array([first_time(known, at, engine_of) for at in places.tolist()], "<i8")
            found[late[oldest >= self.expired]] = self.expired
        floors[some] = found
        return floors

    def _late_event(
        self, batch: KeyedBatch, late: np.ndarray, floors: np.ndarray, newest: np.ndarray
    ) -> LateEvent:
        assert batch.times is not None
        place, lateness = int(np.argmax(late)), self.kind.settings.lateness
        key = int(batch.codes[place])
        floor, last = int(floors[key]), int(newest[key])
        allowed = f"by more than {lateness / 1e6} s " if lateness else ""
        old, shown = f"{allowed}older than their key's last one", ""
        remedy = self.kind.settings.late_remedy
        if last != NO_TIME and floor == last - (lateness or 0):
            shown = f", last {clock(last)}"
        elif floor == self.expired:
            old = f"older than {clock(floor)}, when their keys may have expired"
            remedy = "send events sooner, or increase the delay of the watermark in Spark"
        elif last != NO_TIME:
            old = f"older than {clock(floor)}, before which no event is retained"
        return LateEvent(
            f"{int(late.sum())} of {len(late)} events are {old}, the first at index "
            f"{place}: key {batch.keys.at(key)!r}, time {clock(int(batch.times[place]))}{shown}; "
            f'nothing was inserted; {remedy}, or choose on_late="drop"'
        )

    # --- snapshots ------------------------------------------------------------------------------

    def write(self, inline: int) -> None:
        """Write the new events before a snapshot, unless they have at most ``inline`` bytes.

        Deletes the pages that no restorable snapshot needs. If the store fails, nothing is lost.
        """
        self.standalone.require_whole()
        changed = list(self.standalone.changed)
        if changed:
            entries = self.tree.find(of_packed(self.tree.layout.kind, changed))
            packed = [entries.keys.packed(at) for at in range(len(entries))]
            entries.snapshots = [self.standalone.open[key].snapshot() for key in packed]
            self.tree.add(entries)
        self.tree.write_runs(inline)
        for entry in self.tree.pending.due():
            self._delete(entry)

    def retain(self) -> None:
        """Note that a snapshot was taken: retain its pages while it can be restored."""
        self.standalone.retain()
        self.tree.pending.age(self.kind.settings.retain)

    def load(self, found: KeyedSnapshot) -> None:
        """Continue from a snapshot of the same windows and aggregations."""
        tree = self.tree
        tree.layout.kind = found.kind or ""
        tree.load(found.runs, found.memtable)
        tree.pending, tree.number = found.pending, found.number
        self.counts = found.counts
        self.note_moments(found)

    def note_moments(self, found: KeyedSnapshot) -> None:
        """Continue with the moments of a snapshot; note which shorter spans applied until then."""
        self.expired, self.newest = found.expired, found.newest
        retention, late = self.kind.retention, found.lateness or 0
        retention.read(found.earlier, found.earlier_asked)
        for span, length in ((retention.late, late), (retention.asked, max(late, found.retained))):
            if found.newest is not None and length < span.length:
                span.note(length, found.newest)

    # --- expiring -------------------------------------------------------------------------------

    def expire(self, until: int, end_of: Callable[[int], int]) -> Table:
        """Expire the keys whose newest event is at ``until`` or before; return their stored events.

        ``end_of`` maps the time of a newest event to the moment at which the window is empty.
        """
        self.standalone.require_whole()
        gone = self.tree.idle(until)
        if not len(gone):
            return gone
        self.standalone.expire(gone)
        self.tree.add(Table.bare(gone.schema, gone.keys, gone.times is not None, EXPIRED))
        self.tree.pending.fresh += self.standalone.pages_of(gone)
        self.counts.keys -= len(gone)
        self.counts.standalone -= len(gone.standalone)
        moment = end_of(int(gone.newest().max()))
        self.expired = moment if self.expired is None else max(moment, self.expired)
        if not self.counts.keys:
            self.tree.drop_all()
        return gone

    def erase(self, keys: Keys) -> int:
        """Drop everything that is stored of keys; return how many of them had a window.

        If a store call fails, nothing has changed.
        """
        self.standalone.require_whole()
        known = self.tree.find(keys)
        entries = self.standalone.pages_of(known)
        self.tree.erase(keys)
        if self.kind.store is not None:
            self.tree.pending.fresh += [*entries, COMPACT]
        self.standalone.erase(known)
        erased = int((known.marks != EXPIRED).sum())
        self.counts.keys -= erased
        self.counts.standalone -= len(known.standalone)
        if not self.counts.keys:
            self.tree.drop_all()
        return erased

    def compact(self) -> bool:
        """Compact the store if pages of erased keys were deleted; return whether to try again.

        Another process that uses the store may prevent it.
        """
        if not self._compacts:
            return False
        self._compacts = False
        assert self.kind.store is not None
        try:
            self.kind.store.compact()
        except StoreUnavailable as error:
            _log.warning("deleted pages of erased keys may still be readable: %s", error)
            self.tree.pending.groups.append((0, [COMPACT]))
            return True
        return False

    def due(self, gone: Table, trigger: EveryPeriod) -> Found:
        """Return the results of expired keys up to the boundary at which windows are empty."""
        kind, newest = self.kind, gone.newest()
        ends = trigger.boundary(newest + (kind.longest or 0))
        of, moments = trigger.spread(*trigger.between(newest, ends + 1, kind.longest))
        alone = gone.marks[of] == STANDALONE
        in_lanes = of[~alone]
        nowhere, rows = np.full(len(in_lanes), -1), gone.bounds[in_lanes + 1] - 1
        parts = [
            results_at(kind, gone, in_lanes, nowhere, rows, moments[~alone]),
            self.standalone.due(gone, of[alone], moments[alone]),
        ]
        return Found.joined(parts, kind.monoid, len(kind.frames))

    @property
    def is_deleting(self) -> bool:
        """Return whether pages of expired or deleted windows are still pending deletion."""
        entries = self.tree.pending.all()
        return bool(entries and not self.counts.keys) or any(
            not isinstance(entry, PendingPages) or entry.level == LIST for entry in entries
        )

    def earliest(self) -> int | None:
        """Return a lower bound on the newest time of each key, if any, without a store call."""
        return self.tree.earliest() if self.counts.keys else None

    def _delete(self, entry: Entry) -> None:
        if entry == COMPACT:
            self._compacts = True
            return
        if isinstance(entry, list):
            assert self.kind.store is not None
            self.kind.store.delete_many(k for k in entry if k.startswith(f"{self.kind.name}:"))
            return
        if entry.level == LIST:
            for each in self.tree.pages.listed(entry):
                self._delete(each)
        self.tree.pages.delete(entry)

    def delete_pages(self) -> None:
        for table in self.tree.everything():
            for place in table.standalone.tolist():
                self.standalone.engine(table, place).structure().delete_pages()
        self.tree.drop_all()
        for entry in self.tree.pending.all():
            self._delete(entry)
        self.tree.pending = PendingDeletions()

    # --- inspection -----------------------------------------------------------------------------

    def stats(self) -> KeyedStats:
        """Return sizes and counts; no store call."""
        counts, tree = self.counts, self.tree
        return KeyedStats(
            counts.keys, counts.standalone, self.kind.vectorized, counts.inserted, counts.late,
            counts.invalid, counts.ahead, len(tree.runs), sum(run.weight for run in tree.runs),
            sum(table.weight for table in tree.memtable),
        )  # fmt: skip

    def check(self) -> None:
        """Check every invariant; see ``KeyedWindows.check``."""
        count, standalone, counts = 0, 0, self.counts
        for table in self.tree.everything():
            count += len(table)
            standalone += len(table.standalone)
            of = np.repeat(np.arange(len(table)), table.counts)
            if table.times is not None and sort_within(table.times, of) is not None:
                raise InvariantViolation("events of a key are out of order")
            for place in table.standalone.tolist():
                public_window(self.kind, self.standalone.engine(table, place)).check()
        if (count, standalone) != (counts.keys, counts.standalone):
            raise InvariantViolation(
                f"{count} keys with {standalone} standalone windows where {counts.keys} with "
                f"{counts.standalone} were counted"
            )


def _in_order(times: np.ndarray, sizes: np.ndarray, floors: np.ndarray) -> bool:
    """Return whether each key's events are in order, and none is before the key's floor."""
    some = np.flatnonzero(sizes)
    first = bounds_of(sizes)[some]
    later = times[1:] >= times[:-1]
    later[first[1:] - 1] = True
    return bool(later.all() and (times[first] >= floors[some]).all())


def _touched(bounds: np.ndarray, taken: Retractions | None, asked: Asked | None) -> np.ndarray:
    """Return the places of keys with events or retractions; renumber ``taken`` and ``asked``."""
    is_touched = bounds[1:] > bounds[:-1]
    if taken is not None:
        is_touched[taken.of] = True
    touched = np.flatnonzero(is_touched)
    if taken is not None:
        taken.of, taken.alone = (np.searchsorted(touched, of) for of in (taken.of, taken.alone))
    if asked is not None:
        asked.of = np.searchsorted(touched, asked.of)
    return touched
