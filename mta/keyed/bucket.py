"""A set of keyed windows at work: events of many keys in, the results of all at once out.

    events in, in any order      -> by key, in order (arrival, or time where events may be late)
    what is known of these keys  -> one look into the LSM tree
    both, key by key             -> lanes, vectorized together
    what the lanes still need    -> stays where it is; the new events alone are written

Most keys of most streams have few events: they are vectorized, by columns. A window that has grown
beyond ``promote_at`` events becomes a standalone window, with pages and a snapshot of its own,
whose cost does not grow with it; its entry among the keys is that snapshot and its newest event.
Where nothing can be vectorized (a monoid of plain functions, a policy on values) every key has
such a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import CorruptSnapshot, LateEvent, NoSuchEvent, PartialBatch, SnapshotMismatch
from mta.kernels.segments import bounds_of, group, running_max, sort_within
from mta.keyed.corrections import Retractions, existing_in, receding, resolve
from mta.keyed.deletions import LIST, Entry
from mta.keyed.keys import Keys, of_packed
from mta.keyed.kind import AnyWindow, Kind
from mta.keyed.lsm import LSMTree
from mta.keyed.table import ALL, EXPIRED, STANDALONE, Table, join
from mta.keyed.work import Found, Want, Work, found_due, results_at, triggered
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import LeafReader, LevelLog
from mta.times import clock
from mta.triggers.rules import EveryPeriod
from mta.windows.engine import by_time
from mta.windows.opaque import restore_opaque
from mta.windows.settings import OnMissing
from mta.windows.shared import SharedWindows

#: Standalone windows that stay open from one snapshot to the next.
_OPEN = 256
#: A standalone window comes back when it has only one in so many of the events that made it one.
_SHRUNK = 4
#: What stands for the time of an event that never was.
NEVER = int(np.iinfo("i8").min)


@dataclass(slots=True)
class Batch:
    """Events as they came: distinct keys, the place of each event's key, and what it brings."""

    keys: Keys
    codes: np.ndarray
    rows: Rows
    times: np.ndarray | None
    invalid: np.ndarray | None = None
    """Which events hold what no window takes; None if none does."""
    late_first: bool = False
    """Whether an event is late that is both."""
    retracts: np.ndarray | None = None
    """Which rows take out the newest event of their time; None if none does."""
    unordered: bool = False
    """Whether rows of one key and time come in no order: then retractions come first, but for those
    that find nothing."""
    on_missing: OnMissing = "raise"
    """What becomes of a retraction of nothing."""

    def __len__(self) -> int:
        return len(self.codes)


class Late(NamedTuple):
    """Which events of a batch came too late, and what their keys were then."""

    mask: np.ndarray
    floors: np.ndarray
    """The time before which each key of the batch takes nothing."""
    newest: np.ndarray
    """The time of its newest event; ``NEVER`` of a key that was not known."""


@dataclass(slots=True)
class Advance:
    """What became of a batch."""

    line: np.ndarray
    """The accepted events by place in the batch: key by key, in order."""
    late: Late | None
    """What came too late; None if nothing did."""
    found: Found
    """The results that were wanted."""
    keys: Keys
    """The keys of the line."""
    bounds: np.ndarray
    """Where each key's events begin in the line."""
    before: np.ndarray
    """How many events of each key had been accepted before."""
    last: np.ndarray | None
    """The time of each key's newest event before; of a new key, that of its first one."""
    retracted: np.ndarray
    """The retractions that have taken something out, by place in the batch, as the line."""
    retracted_of: np.ndarray
    """The place of each one's key."""
    missing: np.ndarray
    """The retractions that found nothing, by place in the batch."""


class Bucket:
    """Windows of many keys: their tables in an LSM tree, and the standalone windows."""

    def __init__(self, kind: Kind, tree: LSMTree) -> None:
        self.kind, self.tree = kind, tree
        #: Standalone windows that are open, by the bytes of their keys.
        self.open: dict[bytes, AnyWindow] = {}
        #: Those of them that have taken in events since the last snapshot.
        self.changed: set[bytes] = set()
        #: What failed while standalone windows had taken in a part of a batch.
        self.failure: Exception | None = None
        #: Keys, keys with a standalone window, accepted, late and invalid events.
        self.keys = self.standalone = self.inserted = self.late = self.invalid = 0
        #: The latest moment at which windows that were expired had become empty.
        self.expired: int | None = None
        #: The lateness that applied until now, where a greater one applies from now on; else None.
        self.lateness_until_now: int | None = None

    # --- events ---------------------------------------------------------------------------------

    def find(self, keys: Keys) -> Table | None:
        """What is known of some keys. Raises PartialBatch, MissingPage and CorruptPage."""
        self.require_whole()
        return self.tree.find(keys)

    def advance(self, batch: Batch, want: Want = "each") -> Advance:
        """Take in a batch; the results that are wanted of it.

        Raises LateEvent, and what the store and the monoid raise; then nothing has changed, unless
        standalone windows, changed since the last snapshot, had taken in events before it failed:
        of those every later call says PartialBatch.
        """
        keys = batch.keys
        self._note_previous_lateness()
        known, corrects = self.find(keys), self.kind.corrects or batch.retracts is not None
        if corrects and known is not None:
            known = self.kind.trimmed(known)  # so that what has left is not met
        at = np.full(len(keys), -1) if known is None else known.keys.find(keys)
        newest, floors = _newest(known, at), None
        if batch.times is not None and len(batch):
            floors = self._floors(known, at, newest, int(batch.times.min()))
        line, bounds, late = self._ordered(batch, newest, floors)
        taken, retracted, missing = None, line[:0], line[:0]
        if batch.retracts is not None and floors is not None:
            line, bounds, retracted, missing, taken = self._resolve(batch, line, known, at, floors)
        last = None
        if batch.times is not None and len(line):
            first = batch.times[line[bounds[:-1] % len(line)]]
            last = np.where(newest == NEVER, first, newest)
        touched = _touched(bounds, taken)
        if len(touched) < len(keys):
            keys, at = keys.take(touched), at[touched]
        bounds = np.append(bounds[touched], bounds[-1])
        rows = self.kind.reader.inputs.take(batch.rows, line)
        times = None if batch.times is None else batch.times[line]
        new = Table.of(self.kind.reader.inputs, keys, bounds, times, rows)
        marks, before = _previous(known, at)
        last = None if last is None else last[touched]
        at = np.where(marks == EXPIRED, -1, at)
        work = Work(self.kind, new, known, at, before, last, want, taken)
        fresh = int((at < 0).sum())
        standalone = self._are_standalone(known, at, marks, new, taken)
        vectorized = np.flatnonzero(~standalone)
        kept = work.sweep(vectorized)
        promoted = vectorized[kept > self.kind.promote_at] if len(vectorized) else vectorized
        added = self._advance_standalone(work, np.flatnonzero(standalone), promoted, marks)
        self.standalone += int((marks[standalone] != STANDALONE).sum()) + len(promoted)
        stay = np.setdiff1d(vectorized, promoted, assume_unique=True)
        rewritten = None
        if corrects and len(stay):
            rewritten, stay = work.rewritten(stay)
        self._add(rewritten, _added(new, stay, marks) if len(stay) else None, added)
        self.keys += fresh
        self.inserted += len(line)
        missed = 0 if late is None else int(late.mask.sum())
        self.late += missed
        self.invalid += len(batch) - len(line) - missed - len(retracted) - len(missing)
        of = retracted if taken is None else taken.of
        return Advance(line, late, work.found, keys, bounds, before, last, retracted, of, missing)

    def _add(self, *tables: Table | None) -> None:
        """Put tables that have keys into the memtable."""
        for table in tables:
            if table is not None and len(table):
                self.tree.add(table)

    def _are_standalone(
        self, known: Table | None, at: np.ndarray, marks: np.ndarray, new: Table,
        taken: Retractions | None,
    ) -> np.ndarray:  # fmt: skip
        """Which keys have standalone windows, or must have them from now on."""
        if not self.kind.vectorized:
            return np.ones(len(new), bool)
        standalone: np.ndarray = marks == STANDALONE
        if taken is not None:
            standalone[taken.alone] = True
            if known is not None:
                standalone[receding(known, np.where(standalone, -1, at), new, taken)] = True
        return standalone

    def _resolve(
        self, batch: Batch, line: np.ndarray, known: Table | None, at: np.ndarray,
        floors: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Retractions]:  # fmt: skip
        """The events of a line, where each key's begin, and its retractions that find something.

        Before what these take out, those that find nothing.

        Raises NoSuchEvent, unless those that find nothing are dropped.
        """
        assert batch.times is not None and batch.retracts is not None
        takes = batch.retracts[line]
        newest = None if known is None else known.newest()

        def existing(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
            found = np.zeros(len(codes), np.int64)
            if known is None or newest is None:
                return found
            places = at[codes]
            some = np.flatnonzero(places >= 0)
            standalone = known.marks[places[some]] == STANDALONE
            for row in some[standalone].tolist():
                place = int(places[row])
                window = self._open(known, place)
                found[row] = self._existing(window, int(newest[place]), int(times[row]))
            some = some[~standalone]
            found[some] = existing_in(known, places[some], times[some])
            return found

        resolved = resolve(
            batch.codes[line], batch.times[line], takes, self.kind.settings.on_duplicate, existing,
            batch.unordered,
        )  # fmt: skip
        if resolved.order is not None:
            line, takes = line[resolved.order], takes[resolved.order]
        if resolved.missing.any() and batch.on_missing == "raise":
            raise self._no_such_event(batch, line[resolved.missing])
        good = takes & ~resolved.missing
        events = ~takes
        slots = np.cumsum(events)[good]
        codes = batch.codes[line]
        times = batch.times[line[good]]
        alone = np.unique(codes[resolved.own & good])
        taken = Retractions(codes[good], times, slots, floors[codes[good]], alone)
        bounds = bounds_of(np.bincount(codes[events], minlength=len(batch.keys)))
        return line[events], bounds, line[good], line[resolved.missing], taken

    def _existing(self, window: AnyWindow, clock: int, time: int) -> int:
        """How many events of a time there are to be retracted in a standalone window."""
        events = by_time(window.engine.structure, FingerTreeLog)
        if not all(policy.positional for policy in self.kind.policies.values()):
            return events.standing(time)
        start, stop = events.first_after(time - 1), events.first_after(time)
        if start == stop:
            return 0
        return max(0, stop - max(start, self.kind.retention.needed_in(events, clock)))

    def _open(self, known: Table, place: int) -> AnyWindow:
        """The standalone window of a key, open from now on."""
        packed = known.keys.packed(place)
        window = self.open.get(packed)
        if window is None:
            window_snapshot = known.window_snapshots[int(known.snapshot_numbers[place])]
            window = self.open[packed] = self.pattern.restore_like(window_snapshot)
        return window

    def _no_such_event(self, batch: Batch, rows: np.ndarray) -> NoSuchEvent:
        assert batch.times is not None and batch.retracts is not None
        place = int(rows.min())
        return NoSuchEvent(
            f"{len(rows)} of {int(batch.retracts.sum())} retractions find no event to take out, "
            f"the first at index {place}: key {batch.keys.at(int(batch.codes[place]))!r}, time "
            f"{clock(int(batch.times[place]))}; it never came, was taken out before, or has left; "
            'nothing was changed; correct them, or choose on_missing="drop"'
        )

    def _ordered(
        self, batch: Batch, newest: np.ndarray, floors: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, Late | None]:
        """The events that are taken, key by key, where each key's begin, and which are late."""
        count = len(batch.keys)
        line = group(batch.codes, count)
        codes = batch.codes[line]
        bad = None if batch.invalid is None else batch.invalid[line]
        late, in_order = None, batch.times is None or not len(line)
        if batch.times is not None and floors is not None:
            takes = None if batch.retracts is None else batch.retracts[line]
            if takes is not None and bad is not None:
                bad &= ~takes  # their values are not looked at
            times = batch.times[line]
            in_order = _in_order(times, codes, floors)
            if not in_order:
                behind = self._behind(times, codes, floors, bad, takes)
                if bad is not None and not batch.late_first:
                    behind &= ~bad
                if behind.any():
                    late = Late(np.zeros(len(line), bool), floors, newest)
                    late.mask[line] = behind
                    if self.kind.settings.on_late == "raise":
                        raise self._late_event(batch, late)
                    bad = behind if bad is None else bad | behind
        if bad is not None:
            line, codes = line[~bad], codes[~bad]
        if (
            batch.times is not None
            and self.kind.settings.allowed_lateness is not None
            and not in_order
        ):
            order = sort_within(batch.times[line], codes)
            if order is not None:
                line = line[order]
        return line, bounds_of(np.bincount(codes, minlength=count)), late

    def _behind(
        self, times: np.ndarray, codes: np.ndarray, floors: np.ndarray,
        bad: np.ndarray | None, takes: np.ndarray | None,
    ) -> np.ndarray:  # fmt: skip
        """Which events, key by key, come too late."""
        floor = floors[codes]
        if self.kind.settings.allowed_lateness is None:
            steps = times if bad is None else np.where(bad, floor, times)
            bounds = bounds_of(np.bincount(codes, minlength=len(floors)))
            behind: np.ndarray = times < running_max(np.maximum(steps, floor), bounds)
            return behind
        behind = times < floor
        return behind if takes is None else behind & ~takes  # what they take out is looked for

    def _floors(
        self, known: Table | None, at: np.ndarray, newest: np.ndarray, least: int
    ) -> np.ndarray:
        """The time before which each key takes nothing, ``least`` for none.

        That is its cutoff (``retention``). A key that is new, or whose events all came after some
        keys were expired, may have been one of these; what it had then is gone, so it takes
        nothing from before the moment at which the last of their windows was empty. How its events
        are stored makes no difference.
        """
        begin = least if self.expired is None else max(least, self.expired)
        floors = np.full(len(at), begin)
        if known is None or known.times is None:
            return floors
        some = np.flatnonzero(newest != NEVER)
        found = self.kind.retention.cutoffs(newest[some])
        lateness = self.kind.settings.allowed_lateness
        if lateness and self.expired is not None and least < self.expired:
            late = np.flatnonzero(found < self.expired)
            places = at[some[late]]
            oldest = np.array([self._first_time(known, place) for place in places.tolist()], "<i8")
            found[late[oldest >= self.expired]] = self.expired
        floors[some] = found
        return floors

    def _first_time(self, known: Table, place: int) -> int:
        """The time of a key's first event; ``NEVER`` where events of it have left.

        The time of one that has left is at the key's cutoff or before it.
        """
        assert known.times is not None
        if known.left[place]:
            return NEVER
        first = int(known.times[known.bounds[place]])
        if known.marks[place] != STANDALONE:
            return first
        events = by_time(self._open(known, place).engine.structure, FingerTreeLog)
        if events.kept_from:
            return NEVER
        return events.time_at(0) if events.back else first

    def _note_previous_lateness(self) -> None:
        """Note up to when events were kept for less lateness; reads every page, and that once."""
        if self.lateness_until_now is None:
            return
        newest = [int(table.newest().max()) for table in self.tree.everything()]
        if newest:
            self.kind.retention.note(self.lateness_until_now, max(newest))
        self.lateness_until_now = None

    def _late_event(self, batch: Batch, late: Late) -> LateEvent:
        place = int(np.argmax(late.mask))
        key = int(batch.codes[place])
        assert batch.times is not None
        lateness = self.kind.settings.allowed_lateness
        allowed = f"by more than {lateness / 1e6} s " if lateness else ""
        remedy = "sort the events by time" if lateness is None else "set a larger allowed_lateness"
        last = int(late.floors[key]) + (lateness or 0)
        return LateEvent(
            f"{int(late.mask.sum())} of {len(late.mask)} events are {allowed}older than their "
            f"key's last one, the first at index {place}: key {batch.keys.at(key)!r}, time "
            f"{clock(int(batch.times[place]))}, last {clock(last)}; nothing was inserted; "
            f'{remedy}, or choose on_late="drop"'
        )

    # --- standalone windows ------------------------------------------------------------------

    def _advance_standalone(
        self, work: Work, standalone: np.ndarray, promoted: np.ndarray, marks: np.ndarray
    ) -> Table | None:
        """Events into standalone windows; the entries of their keys."""
        places = np.sort(np.concatenate((standalone, promoted)))
        if not len(places):
            return None
        is_promoted = np.isin(places, promoted)
        touched: dict[bytes, AnyWindow] = {}
        back: dict[int, Table] = {}
        left: list[bytes] = []
        length = 0
        try:
            for place, grown in zip(places.tolist(), is_promoted.tolist(), strict=True):
                packed = work.new.keys.packed(place)
                if grown:
                    window = touched[packed] = self.begin(packed, work.first_events(place))
                    work.move(place, window)
                else:
                    window = touched[packed] = self.window_of(packed, work, place)
                    if self.kind.vectorized and marks[place] != STANDALONE:
                        work.load(place, window)
                    length = window.engine.taken
                    work.before[place] = work.left(place) + window.engine.structure.back
                    work.extend(place, window)
                    table = self._shrunk(work, place, window)
                    if table is not None:
                        back[place] = table
                        left.append(b"" if self.kind.store is None else window.snapshot())
        except Exception as error:
            self._take_back(touched, length, error)
            raise
        self.open |= touched
        self.changed |= touched.keys()
        entries = work.entries(places)
        entries.left[is_promoted] = (work.before + work.new.counts)[promoted] - work.moved
        held = ~is_promoted & (work.at[places] >= 0)
        if held.any() and work.known is not None:
            entries.left[held] = work.known.left[work.at[places[held]]]
        if not back:
            return entries
        self.standalone -= len(back)
        self.tree.pending.fresh += [
            window_snapshot for window_snapshot in left if self._has_pages(window_snapshot)
        ]
        for place in back:
            packed = work.new.keys.packed(place)
            del self.open[packed]
            self.changed.remove(packed)
        late = self.kind.settings.allowed_lateness is not None
        return join([entries.take(np.flatnonzero(~np.isin(places, [*back]))), *back.values()], late)

    def _shrunk(self, work: Work, place: int, window: AnyWindow) -> Table | None:
        """The events of a vectorized window that has grown small again, which is one by itself.

        None while it is not, so that none goes to and fro.
        """
        kind, engine = self.kind, window.engine
        if not kind.vectorized or engine.timed != self.tree.layout.timed:
            return None
        if isinstance(window, SharedWindows):
            window.engine.evict()
        events, few = engine.structure.remembered(), kind.promote_at // _SHRUNK
        assert isinstance(events, LeafReader | LevelLog | FingerTreeLog)  # as ``Kind.open`` makes them
        if isinstance(events, FingerTreeLog) and events.newest_time() != engine.intake.last_time:
            return None  # the newest event was taken out: only the window knows when that was
        if events.back - events.kept_from > 2 * few:
            return None
        table = kind.trimmed(work.gathered(place, events))
        return table if table.events <= few else None

    def _take_back(self, touched: dict[bytes, AnyWindow], length: int, error: Exception) -> None:
        """Let windows be what they were before a batch, of which the last one failed.

        That is what the last snapshot has of them, or nothing; what they took in since is lost.
        """
        failed = next(reversed(touched), None)
        if failed is not None and touched[failed].engine.taken == length:
            del touched[failed]  # it has not taken in anything
        for packed in touched:
            self.open.pop(packed, None)
        lost = touched.keys() & self.changed
        if lost:
            self.failure = error
            error.add_note(
                f"{len(lost)} windows had taken in their events of this batch, or a part of them: "
                "restore from the last snapshot, and give again what came after it"
            )

    def require_whole(self) -> None:
        """Raises PartialBatch where an earlier call has left a part of a batch behind."""
        if self.failure is not None:
            raise PartialBatch(
                f"an earlier batch was taken in only in part ({self.failure}): restore from the "
                "last snapshot, and give again what came after it"
            ) from self.failure

    def window_of(self, packed: bytes, work: Work, place: int) -> AnyWindow:
        """The open window of a key, or that of its snapshot, or a new one."""
        window = self.open.get(packed)
        if window is None:
            window_snapshot = work.window_snapshot(place)
            if window_snapshot:
                return self.pattern.restore_like(window_snapshot)
            window = self.begin(packed, work.first_events(place))
        return window

    def begin(self, packed: bytes, events: int) -> AnyWindow:
        """A new standalone window for a key with so many events, whose pages stay for now."""
        # A key that begins one again has had an event since it began the last one.
        generation = ((self.tree.number << 40) + self.inserted) % (1 << 64)
        window = self.kind.open(packed, events, generation)
        if self.kind.store is not None:
            # A retry of this call makes the same pages, so none may go before the next snapshot.
            window.engine.hold()
        return window

    @cached_property
    def pattern(self) -> AnyWindow:
        """A window that takes no events: what all have in common is made once, here."""
        return self.kind.open(b"")

    def write_snapshots(self) -> None:
        """Take the snapshot of every window that has changed, for the snapshot to come.

        When the store fails, nothing has changed.
        """
        self.require_whole()
        if not self.changed:
            return
        entries = self.tree.find(of_packed(self.tree.layout.kind, list(self.changed)))
        assert entries is not None
        packed = [entries.keys.packed(at) for at in range(len(entries))]
        entries.window_snapshots = [self.open[key].snapshot() for key in packed]
        self.tree.add(entries)

    def hold(self) -> None:
        """A snapshot was taken: its pages stay, and standalone windows may close."""
        for packed in self.changed:
            self.open[packed].hold()
        self.changed.clear()
        if len(self.open) > _OPEN:
            self.open.clear()
        self.tree.pending.age(self.kind.settings.retain)

    # --- expiring ---------------------------------------------------------------------------------

    def expire(self, until: int, end_of: Callable[[int], int]) -> Table:
        """Expire the keys whose newest event is at ``until`` or before; what was known of them.

        ``end_of`` says of the newest event until when other events may have been in its window.
        """
        self.require_whole()
        gone = self.tree.idle(until)
        if not len(gone):
            return gone
        held = np.flatnonzero(gone.marks == STANDALONE).tolist()
        for at, place in enumerate(held):
            packed = gone.keys.packed(place)
            window = self.open.pop(packed, None)
            if packed in self.changed and window is not None and self.kind.store is not None:
                gone.window_snapshots[at] = window.snapshot()
            self.changed.discard(packed)
        marked = Table.bare(gone.schema, gone.keys, gone.times is not None, EXPIRED)
        self.tree.add(marked)
        # A window without pages, as a short one is, leaves nothing.
        self.tree.pending.fresh += [
            window_snapshot
            for window_snapshot in gone.window_snapshots
            if self._has_pages(window_snapshot)
        ]
        self.keys -= len(gone)
        self.standalone -= len(held)
        moment = end_of(int(gone.newest().max()))
        self.expired = moment if self.expired is None else max(moment, self.expired)
        if not self.keys:
            self.tree.drop_all()
        return gone

    def _has_pages(self, window_snapshot: bytes) -> bool:
        return (
            bool(window_snapshot)
            and self.pattern.restore_like(window_snapshot).engine.structure.page_count > 0
        )

    def due(self, gone: Table, trigger: EveryPeriod) -> Found:
        """The results of expired keys up to the boundary at which their windows are empty."""
        kind, newest = self.kind, gone.newest()
        ends = trigger.boundary(newest + (kind.longest or 0))
        counts, first = trigger.between(newest, ends + 1, kind.longest)
        vectorized = np.where(gone.marks == STANDALONE, 0, counts)
        of, moments = trigger.spread(vectorized, first)
        nowhere, rows = np.full(len(of), -1), gone.bounds[of + 1] - 1
        parts = [results_at(kind, gone, of, nowhere, rows, moments)]
        held = np.flatnonzero(gone.marks == STANDALONE).tolist()
        for place, window_snapshot in zip(held, gone.window_snapshots, strict=True):
            window = triggered(
                self.pattern.restore_like(window_snapshot), trigger, int(newest[place])
            )
            parts += found_due(kind, place, window.advance(np.datetime64(int(ends[place]), "us")))
        return Found.joined(parts, kind.monoid, len(kind.policies))

    @property
    def is_deleting(self) -> bool:
        """Whether pages of expired windows, or of all there were, are still to be deleted."""
        entries = self.tree.pending.all()
        return bool(entries and not self.keys) or any(
            isinstance(entry, bytes) or entry.level == LIST for entry in entries
        )

    def earliest(self) -> int | None:
        """No key's newest event is older than this; None without keys. No store call."""
        return self.tree.earliest() if self.keys else None

    def delete_due(self) -> None:
        """Delete the pages that no snapshot needs any more that may be restored."""
        for entry in self.tree.pending.due():
            self._delete(entry)

    def _delete(self, entry: Entry) -> None:
        if isinstance(entry, bytes):
            try:
                self.pattern.restore_like(entry).delete_pages()
            except (SnapshotMismatch, CorruptSnapshot):  # made before a change
                assert self.kind.store is not None
                restore_opaque(entry, self.kind.store).engine.structure.delete_pages()
            return
        assert self.tree.pages is not None
        if entry.level == LIST:
            for each in self.tree.pages.listed(entry):
                self._delete(each)
        self.tree.pages.delete(entry)

    def delete_pages(self) -> None:
        """Delete every page."""
        for table in self.tree.everything():
            held = np.flatnonzero(table.marks == STANDALONE).tolist()
            for place, window_snapshot in zip(held, table.window_snapshots, strict=True):
                window = self.open.get(table.keys.packed(place))
                (window or self.pattern.restore_like(window_snapshot)).delete_pages()
        for entry in [*self.tree.pending.all(), *self.tree.all_pages()]:
            self._delete(entry)
        self.tree.clear()


def _in_order(times: np.ndarray, codes: np.ndarray, floors: np.ndarray) -> bool:
    """Whether the events of each key are in order, and none comes before the key's floor."""
    begins = codes[1:] != codes[:-1]
    if not (begins | (times[1:] >= times[:-1])).all():
        return False
    first = np.append(0, np.flatnonzero(begins) + 1)
    return bool((times[first] >= floors[codes[first]]).all())


def _newest(known: Table | None, at: np.ndarray) -> np.ndarray:
    """The time of each key's newest event, by its place in what is known; ``NEVER`` without one."""
    found = np.full(len(at), NEVER)
    if known is not None and known.times is not None:
        some = at >= 0
        found[some] = known.newest()[at[some]]
    return found


def _previous(known: Table | None, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mark of each key, by its place in what is known, and how many events it has had."""
    marks, before = np.zeros(len(at), "u1"), np.zeros(len(at), np.int64)
    if known is not None:
        some = at >= 0
        marks[some] = known.marks[at[some]]
        before[some] = known.left[at[some]] + known.counts[at[some]]
    return marks, before


def _touched(bounds: np.ndarray, taken: Retractions | None) -> np.ndarray:
    """The places of keys with new events or retractions; ``taken`` refers to these from now on."""
    is_touched = np.diff(bounds) > 0
    if taken is None:
        return np.flatnonzero(is_touched)
    is_touched[taken.of] = True
    touched = np.flatnonzero(is_touched)
    taken.of, taken.alone = (np.searchsorted(touched, of) for of in (taken.of, taken.alone))
    return touched


def _added(new: Table, stay: np.ndarray, marks: np.ndarray) -> Table:
    """What a batch has brought for keys that stay among the vectorized ones."""
    part = new if len(stay) == len(new) else new.take(stay)
    if (marks[stay] == EXPIRED).any():
        part.marks[marks[stay] == EXPIRED] = ALL
    return part
