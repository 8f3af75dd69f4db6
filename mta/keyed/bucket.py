"""A set of keyed windows at work: events of many keys in, the results of all at once out.

    events in, in any order      -> by key, in order (arrival, or time where events may be late)
    what is known of these keys  -> one look into the tiers
    both, key by key             -> lanes, swept together
    what the lanes still need    -> stays where it is; the new events alone are written

Most keys of most streams have few events: they are swept, by columns. A window that has grown
beyond ``promote_at`` events becomes a window by itself, with pages and a handle of its own, whose
cost does not grow with it; its entry among the keys is that handle and its newest event. Where
nothing can be swept (a monoid of plain functions, a policy on values) every key has such a window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xxhash

from mta.columns.schemas import Rows
from mta.errors import LateEvent, PartialBatch
from mta.fiba import FiBA
from mta.kernels.segments import bounds_of, group, running_max, sort_within, spread
from mta.keyed.doomed import LIST, Entry
from mta.keyed.keys import Keys, of_packed
from mta.keyed.sweep import Lanes, folds, is_swept
from mta.keyed.table import ALL, FORGOTTEN, HANDLE, Table, blank
from mta.keyed.tiers import Tiers
from mta.levels.amortized_mta import AmortizedMTA
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Product
from mta.policies.base import AbstractPolicy
from mta.times import clock
from mta.windows.settings import Settings
from mta.windows.shared import SharedWindows
from mta.windows.window import Window
from stores import PageStore

AnyWindow = Window | SharedWindows
#: Results of each event, of each key's last event of a batch, or of each key's window as it is
#: then; the last two differ where the last event of a batch came late.
Want = Literal["each", "last", "now"]
#: Windows by themselves that stay open from one root to the next.
_OPEN = 256


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

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(slots=True)
class Advance:
    """What became of a batch."""

    line: np.ndarray
    """The accepted events by place in the batch: key by key, in order."""
    late: np.ndarray | None
    """Which events of the batch came too late; None if none did."""
    results: list[Rows]
    """For each policy, a row of outputs for each event of the line, or for each key."""
    keys: Keys
    """The keys of the line."""
    bounds: np.ndarray
    """Where each key's events begin in the line."""
    before: np.ndarray
    """How many events of each key had been accepted before."""
    last: np.ndarray | None
    """The time of each key's newest event before; of a new key, that of its first one."""


@dataclass(slots=True)
class Kind:
    """What all windows of a set have in common."""

    monoid: AbstractMonoid
    policies: Mapping[str, AbstractPolicy]
    """By name; a single one has the name ""."""
    settings: Settings
    timed: bool
    promote_at: int
    name: str
    store: PageStore | None
    swept: bool = field(init=False)

    def __post_init__(self) -> None:
        self.swept = is_swept(self.monoid, list(self.policies.values()))

    @property
    def single(self) -> AbstractPolicy | None:
        """The policy, where there is but one, without a name."""
        return self.policies.get("") if len(self.policies) == 1 else None

    def open(self, packed: bytes) -> AnyWindow:
        """A new window by itself for a key."""
        settings = self.settings
        name = f"{self.name}:{xxhash.xxh3_128_hexdigest(packed)}"
        given: dict[str, Any] = {
            "store": self.store, "name": name, "arity": settings.arity,
            "leaf_arity": settings.leaf_arity, "late": settings.late,
            "invalid": "accept", "retain": settings.retain,
        }  # fmt: skip
        late = None if settings.lateness is None else settings.lateness / 1e6
        if self.single is None:
            return SharedWindows(self.monoid, self.policies, lateness=late, **given)
        if late is None:
            return Window(self.monoid, self.single, aggregator=AmortizedMTA, **given)
        return Window(self.monoid, self.single, aggregator=FiBA, lateness=late, **given)

    def trimmed(self, table: Table) -> Table:
        """A table without the events that no window of its keys needs any more."""
        if not self.swept or not table.events:
            return table
        lanes = Lanes(table.bounds, table.times)
        return table.without_oldest(self.needed(lanes))

    def needed(self, lanes: Lanes) -> np.ndarray:
        """The first row of each lane that any window needs, or may need for an event to come."""
        lateness = self.settings.lateness
        found = [lanes.needed(policy, lateness) for policy in self.policies.values()]
        least: np.ndarray = np.minimum.reduce(found)
        return least


class Bucket:
    """Windows of many keys: their tables in tiers, and those windows that are by themselves."""

    def __init__(self, kind: Kind, tiers: Tiers) -> None:
        self.kind, self.tiers = kind, tiers
        #: Windows by themselves that are open, by the bytes of their keys.
        self.open: dict[bytes, AnyWindow] = {}
        #: Those of them that have taken in events since the last root.
        self.changed: set[bytes] = set()
        #: What failed while windows by themselves had taken in a part of a batch.
        self.torn: Exception | None = None
        #: Keys, keys with a window by itself, accepted, late and invalid events.
        self.keys = self.apart = self.inserted = self.late = self.invalid = 0
        #: The latest moment at which windows that were forgotten had become empty.
        self.forgotten: int | None = None

    # --- events ---------------------------------------------------------------------------------

    def find(self, keys: Keys) -> Table | None:
        """What is known of some keys. Raises PartialBatch, MissingPage and CorruptPage."""
        self.require_whole()
        return self.tiers.find(keys)

    def advance(self, batch: Batch, want: Want = "each") -> Advance:
        """Take in a batch; results of each event, of each key's last one, or of its window now.

        Raises LateEvent, and what the store and the monoid raise; then nothing has changed, unless
        windows by themselves, changed since the last root, had taken in events before it failed:
        of those every later call says PartialBatch.
        """
        keys = batch.keys
        known = self.find(keys)
        at = np.full(len(keys), -1) if known is None else known.keys.find(keys)
        line, bounds, late = self._line_up(batch, known, at)
        last = None
        if batch.times is not None and len(line):
            last = self._last_before(batch.times[line[bounds[:-1] % len(line)]], known, at)
        touched = np.flatnonzero(np.diff(bounds))
        keys, at = keys.take(touched), at[touched]
        bounds = np.append(bounds[touched], bounds[-1])
        rows = self.kind.monoid.inputs.take(batch.rows, line)
        times = None if batch.times is None else batch.times[line]
        new = Table.of(self.kind.monoid.inputs, keys, bounds, times, rows)
        before = np.zeros(len(keys), np.int64)
        marks = np.zeros(len(keys), "u1")
        if known is not None:
            some = at >= 0
            marks[some] = known.marks[at[some]]
            before[some] = known.left[at[some]] + known.counts[at[some]]
        work = _Work(self.kind, new, known, np.where(marks == FORGOTTEN, -1, at), want)
        fresh = int(((at < 0) | (marks == FORGOTTEN)).sum())
        apart = marks == HANDLE if self.kind.swept else np.ones(len(keys), bool)
        swept = np.flatnonzero(~apart)
        kept = work.sweep(swept)
        promoted = swept[kept > self.kind.promote_at] if len(swept) else swept
        added = self._by_themselves(work, np.flatnonzero(apart), promoted, before, marks)
        self.apart += int((marks[apart] != HANDLE).sum()) + len(promoted)
        stay = np.setdiff1d(swept, promoted, assume_unique=True)
        if len(stay):
            part = new if len(stay) == len(new) else new.take(stay)
            if (marks[stay] == FORGOTTEN).any():
                part.marks[marks[stay] == FORGOTTEN] = ALL
            self.tiers.add(part)
        if added is not None:
            self.tiers.add(added)
        self.keys += fresh
        self.inserted += len(line)
        self.late += 0 if late is None else int(late.sum())
        self.invalid += len(batch) - len(line) - (0 if late is None else int(late.sum()))
        last = None if last is None else last[touched]
        return Advance(line, late, work.results, keys, bounds, before, last)

    def _line_up(
        self, batch: Batch, known: Table | None, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The events that are taken, key by key, where each key's begin, and which are late."""
        count = len(batch.keys)
        line = group(batch.codes, count)
        codes = batch.codes[line]
        bad = None if batch.invalid is None else batch.invalid[line]
        late = None
        if batch.times is not None and len(line):
            times = batch.times[line]
            floors = self._floors(known, at, int(times.min()))
            floor = floors[codes]
            if self.kind.settings.lateness is not None:
                behind = times < floor
            else:
                steps = times if bad is None else np.where(bad, floor, times)
                counts = np.bincount(codes, minlength=count)
                behind = times < running_max(np.maximum(steps, floor), bounds_of(counts))
            if bad is not None and not batch.late_first:
                behind &= ~bad
            if behind.any():
                late = np.zeros(len(line), bool)
                late[line] = behind
                if self.kind.settings.late == "error":
                    raise self._late_event(batch, late, floors)
                bad = behind if bad is None else bad | behind
        if bad is not None:
            line, codes = line[~bad], codes[~bad]
        if batch.times is not None and self.kind.settings.lateness is not None:
            order = sort_within(batch.times[line], codes)
            if order is not None:
                line = line[order]
        return line, bounds_of(np.bincount(codes, minlength=count)), late

    def _floors(self, known: Table | None, at: np.ndarray, least: int) -> np.ndarray:
        """The time before which each key takes nothing; ``least`` for none.

        That is its newest event, less the lateness. A key that is new, or whose events all came
        after some keys were forgotten, may have been one of these; what it had then is gone, so it
        takes nothing from before the moment at which the last of their windows was empty.
        """
        begin = least if self.forgotten is None else max(least, self.forgotten)
        floors = np.full(len(at), begin)
        if known is None or known.times is None:
            return floors
        some = np.flatnonzero(at >= 0)
        some = some[known.counts[at[some]] > 0]
        places = at[some]
        lateness = self.kind.settings.lateness or 0
        found = known.newest()[places] - lateness
        if self.forgotten is not None and lateness:
            oldest = known.times[known.bounds[places]]
            found = np.where(oldest >= self.forgotten, np.maximum(found, self.forgotten), found)
        floors[some] = found
        return floors

    def _last_before(self, first: np.ndarray, known: Table | None, at: np.ndarray) -> np.ndarray:
        """The time of each key's newest event; of a new key that of its first one to come."""
        if known is None:
            return first
        some = np.flatnonzero(at >= 0)
        some = some[known.counts[at[some]] > 0]
        last = first.copy()
        last[some] = known.newest()[at[some]]
        return last

    def _late_event(self, batch: Batch, late: np.ndarray, floors: np.ndarray) -> LateEvent:
        place = int(np.argmax(late))
        key = int(batch.codes[place])
        assert batch.times is not None
        lateness = self.kind.settings.lateness
        allowed = f"by more than {lateness / 1e6} s " if lateness else ""
        remedy = "sort the events by time" if lateness is None else "allow a greater lateness"
        last = int(floors[key]) + (lateness or 0)
        return LateEvent(
            f"{int(late.sum())} of {len(late)} events are {allowed}older than their key's last "
            f"one, the first at index {place}: key {batch.keys.at(key)!r}, time "
            f"{clock(int(batch.times[place]))}, last {clock(last)}; nothing was inserted; "
            f'{remedy}, or choose late="drop"'
        )

    # --- windows by themselves ------------------------------------------------------------------

    def _by_themselves(
        self,
        work: _Work,
        apart: np.ndarray,
        promoted: np.ndarray,
        before: np.ndarray,
        marks: np.ndarray,
    ) -> Table | None:
        """Events into windows by themselves; the entries of their keys."""
        places = np.sort(np.concatenate((apart, promoted)))
        if not len(places):
            return None
        is_promoted = np.isin(places, promoted)
        touched: dict[bytes, AnyWindow] = {}
        length = 0
        try:
            for place, grown in zip(places.tolist(), is_promoted.tolist(), strict=True):
                packed = work.new.keys.packed(place)
                if grown:
                    window = touched[packed] = self._new(packed)
                    work.move(place, window)
                else:
                    window = touched[packed] = self.window_of(packed, work, place)
                    length = window.engine.structure.back
                    before[place] = work.left(place) + length
                    work.extend(place, window)
        except Exception as error:
            self._take_back(touched, length, error)
            raise
        self.open |= touched
        self.changed |= touched.keys()
        entries = work.entries(places)
        entries.left[is_promoted] = (before + np.diff(work.new.bounds))[promoted] - work.moved
        held = ~is_promoted & (marks[places] == HANDLE)
        if held.any() and work.known is not None:
            entries.left[held] = work.known.left[work.at[places[held]]]
        return entries

    def _take_back(self, touched: dict[bytes, AnyWindow], length: int, error: Exception) -> None:
        """Let windows be what they were before a batch, of which the last one failed.

        That is what the last root says of them, or nothing; what they have taken in since is lost.
        """
        failed = next(reversed(touched), None)
        if failed is not None and touched[failed].engine.structure.back == length:
            del touched[failed]  # it has not taken in anything
        for packed in touched:
            self.open.pop(packed, None)
        lost = touched.keys() & self.changed
        if lost:
            self.torn = error
            error.add_note(
                f"{len(lost)} windows had taken in their events of this batch, or a part of them: "
                "restore from the last root, and give again what came after it"
            )

    def require_whole(self) -> None:
        """Raises PartialBatch where an earlier call has left a part of a batch behind."""
        if self.torn is not None:
            raise PartialBatch(
                f"an earlier batch was taken in only in part ({self.torn}): restore from the last "
                "root, and give again what came after it"
            ) from self.torn

    def window_of(self, packed: bytes, work: _Work, place: int) -> AnyWindow:
        """The open window of a key, or that of its handle, or a new one."""
        window = self.open.get(packed)
        if window is None:
            handle = work.handle(place)
            if handle:
                return self.pattern.sibling(handle)
            window = self._new(packed)
        return window

    def _new(self, packed: bytes) -> AnyWindow:
        window = self.kind.open(packed)
        if self.kind.store is not None:
            # A retry of this call makes the same pages, so none may go before the next root.
            window.engine.hold()
        return window

    @cached_property
    def pattern(self) -> AnyWindow:
        """A window that takes no events: what all have in common is made once, here."""
        return self.kind.open(b"")

    def write_handles(self) -> None:
        """Take the handle of every window that has changed, for the root to come.

        When the store fails, nothing has changed.
        """
        self.require_whole()
        if not self.changed:
            return
        entries = self.tiers.find(of_packed(self.tiers.layout.kind, list(self.changed)))
        assert entries is not None
        packed = [entries.keys.packed(at) for at in range(len(entries))]
        entries.handles = [self.open[key].handle() for key in packed]
        self.tiers.add(entries)

    def hold(self) -> None:
        """A root was taken: its pages stay, and windows by themselves may close."""
        for packed in self.changed:
            self.open[packed].hold()
        self.changed.clear()
        if len(self.open) > _OPEN:
            self.open.clear()
        self.tiers.doomed.age(self.kind.settings.retain)

    # --- letting go -------------------------------------------------------------------------------

    def forget(self, until: int, lifetime: int) -> Table:
        """Forget the keys whose newest event is at ``until`` or before; what was known of them."""
        self.require_whole()
        gone = self.tiers.silent(until)
        if not len(gone):
            return gone
        marks, timed = gone.marks, gone.times is not None
        handles: dict[bytes, bytes] = {}
        for place, handle in zip(np.flatnonzero(marks == HANDLE), gone.handles, strict=True):
            packed = gone.keys.packed(int(place))
            if packed in self.changed and self.kind.store is not None:
                handle = self.open[packed].handle()
            handles[packed] = handle
        self.tiers.add(Table.bare(gone.schema, gone.keys, timed, FORGOTTEN))
        for packed, handle in handles.items():
            self.open.pop(packed, None)
            if handle:
                self.tiers.doomed.fresh.append(handle)
        self.changed -= handles.keys()
        self.keys -= len(gone)
        self.apart -= int((marks == HANDLE).sum())
        moment = int(gone.newest().max()) + lifetime
        self.forgotten = moment if self.forgotten is None else max(moment, self.forgotten)
        return gone

    @property
    def is_deleting(self) -> bool:
        """Whether pages of forgotten windows are still to be deleted."""
        entries = self.tiers.doomed.all()
        return any(isinstance(entry, bytes) or entry.level == LIST for entry in entries)

    def earliest(self) -> int | None:
        """No key's newest event is older than this; None without keys. No store call."""
        return self.tiers.earliest() if self.keys else None

    def carry_over(self, keys: Keys, times: list[int], handles: list[bytes]) -> None:
        """Windows that were by themselves before there were any of these, into a new bucket."""
        count, schema = len(keys), self.kind.monoid.inputs
        newest = None if self.tiers.layout.timed is False else np.array(times, "<i8")
        # Of such an entry the time of its event is looked at, and nothing else.
        bounds = np.arange(count + 1)
        entries = Table.of(schema, keys, bounds, newest, blank(schema, count), HANDLE)
        entries.handles = handles
        self.tiers.add(entries)
        self.keys += count
        self.apart += count

    def doom(self, handle: bytes, roots: int) -> None:
        """Delete a window's pages with the root after so many more."""
        self.tiers.doomed.groups.append((roots, [handle]))

    def delete_doomed(self) -> None:
        """Delete the pages that no root needs any more that may be restored."""
        for entry in self.tiers.doomed.due():
            self._delete(entry)

    def _delete(self, entry: Entry) -> None:
        if isinstance(entry, bytes):
            self.pattern.sibling(entry).delete_pages()
            return
        assert self.tiers.pages is not None
        if entry.level == LIST:
            for each in self.tiers.pages.listed(entry):
                self._delete(each)
        self.tiers.pages.delete(entry)

    def delete_pages(self) -> None:
        """Delete every page."""
        for table in self.tiers.everything():
            held = np.flatnonzero(table.marks == HANDLE).tolist()
            for place, handle in zip(held, table.handles, strict=True):
                window = self.open.get(table.keys.packed(place))
                (window or self.pattern.sibling(handle)).delete_pages()
        for entry in [*self.tiers.doomed.all(), *self.tiers.all_pages()]:
            self._delete(entry)
        self.tiers.clear()


class _Work:
    """A batch by key, in order, and what is known of its keys, while results are made of both.

    ``at`` is the place of each key in ``known``, -1 of a new one.
    """

    def __init__(
        self, kind: Kind, new: Table, known: Table | None, at: np.ndarray, want: Want
    ) -> None:
        self.kind, self.new, self.known, self.at, self.want = kind, new, known, at, want
        count = new.events if want == "each" else len(new)
        #: For each policy a row for each event, or each key.
        self.results = [kind.monoid.outputs.new(count) for _ in kind.policies]
        #: How many events each window began with that was made of swept ones.
        self.moved: list[int] = []
        self._numbers = None if known is None else known.handle_numbers

    def sweep(self, places: np.ndarray) -> np.ndarray:
        """Results of the keys at some places, by columns; how many events each must keep."""
        monoid, new = self.kind.monoid, self.new
        if not len(places):
            return np.zeros(0, np.int64)
        whole = len(places) == len(new)
        part = new if whole else new.take(places)
        held, at = self._held(places)
        union, newest = _union(held, at, part, self.kind.settings.lateness is not None)
        lanes = Lanes(union.bounds, union.times)
        if self.want == "each":
            wanted = newest
        elif self.want == "last":
            wanted = newest[part.bounds[1:] - 1]
        else:
            wanted = union.bounds[1:] - 1
        lifted = monoid.lift_rows(union.rows, union.events)
        for policy, room in zip(self.kind.policies.values(), self.results, strict=True):
            fronts = lanes.fronts(policy, wanted)
            found = monoid.lower_rows(folds(monoid, lifted, union.events, fronts, wanted))
            if whole:
                monoid.outputs.put_many(room, 0, found)
            else:
                monoid.outputs.put_at(room, self._rooms(places), found)
        starts = self.kind.needed(lanes)
        self._union, self._starts = union, starts
        self._swept = places
        kept: np.ndarray = union.bounds[1:] - starts
        return kept

    def _rooms(self, places: np.ndarray) -> np.ndarray:
        """Where the results of keys at some places go."""
        if self.want != "each":
            return places
        return spread(self.new.bounds[places], self.new.counts[places])

    def _held(self, places: np.ndarray) -> tuple[Table, np.ndarray]:
        """What is known of keys, and the place of each there, -1 of a new one."""
        if self.known is None:
            return self.new.cut(0, 0), np.full(len(places), -1)
        return self.known, self.at[places]

    def move(self, place: int, window: AnyWindow) -> None:
        """What a swept key must keep, into a window by itself."""
        at = int(np.searchsorted(self._swept, place))
        start, stop = int(self._starts[at]), int(self._union.bounds[at + 1])
        rows = self.kind.monoid.inputs.cut(self._union.rows, start, stop)
        times = None if self._union.times is None else self._union.times[start:stop]
        window.extend(given_back(self.kind.monoid, rows, stop - start), _moments(times), "last")
        self.moved.append(stop - start)

    def extend(self, place: int, window: AnyWindow) -> None:
        """A key's new events into its window, and their results out."""
        monoid, new = self.kind.monoid, self.new
        start, stop = int(new.bounds[place]), int(new.bounds[place + 1])
        rows = given_back(monoid, monoid.inputs.cut(new.rows, start, stop), stop - start)
        times = None if new.times is None else _moments(new.times[start:stop])
        each = self.want == "each"
        of_last = self.want == "last" and self.kind.settings.lateness is not None
        found = window.extend(rows, times, "all" if each or of_last else "last")
        room = start if each else place
        for name, results in zip(self.kind.policies, self.results, strict=True):
            of_window = found if self.kind.single is not None else found[name]
            outputs = as_outputs(monoid, of_window)
            if of_last:
                outputs = monoid.outputs.cut(outputs, stop - start - 1, stop - start)
            monoid.outputs.put_many(results, room, outputs)

    def left(self, place: int) -> int:
        """How many events of a key came before its window by itself began."""
        at = int(self.at[place])
        return 0 if self.known is None or at < 0 else int(self.known.left[at])

    def handle(self, place: int) -> bytes:
        """The handle of a key; none of a new one, or one that is open."""
        at = int(self.at[place])
        if self.known is None or self._numbers is None or at < 0:
            return b""
        return self.known.handles[int(self._numbers[at])]

    def entries(self, places: np.ndarray) -> Table:
        """Entries of keys with windows by themselves, which are open: when they were last given.

        The events are in the windows; of what they brought nothing stays here.
        """
        new, (held, at) = self.new.take(places), self._held(places)
        union = _union(held, at, new, self.kind.settings.lateness is not None)[0]
        entries = union.without_oldest(union.bounds[1:] - 1)
        marks = np.full(len(places), HANDLE, "u1")
        left = np.zeros(len(places), "<i8")
        return Table(
            new.schema, new.keys, marks, left, entries.bounds, entries.times,
            blank(new.schema, len(places)), [b""] * len(places),
        )  # fmt: skip


def _union(held: Table, at: np.ndarray, new: Table, late: bool) -> tuple[Table, np.ndarray]:
    """The events held of keys, ``at`` their places or -1, and the new ones; where the new are.

    The new ones keep their order, as they are in order of time where events may be late.
    """
    if not held.events or (at < 0).all():
        return new, np.arange(new.events)
    begins, counts = np.where(at < 0, 0, held.bounds[at]), np.where(at < 0, 0, held.counts[at])
    starts = np.stack((begins, new.bounds[:-1] + held.events), axis=1).reshape(-1)
    lengths = np.stack((counts, new.counts), axis=1).reshape(-1)
    events = spread(starts, lengths)
    bounds = bounds_of(counts + new.counts)
    schema = new.schema
    rows = schema.new(held.events + new.events)
    schema.put_many(rows, 0, held.rows)
    schema.put_many(rows, held.events, new.rows)
    times = None
    if held.times is not None and new.times is not None:
        times = np.concatenate((held.times, new.times))[events]
        if late:
            codes = np.repeat(np.arange(len(new)), counts + new.counts)
            order = sort_within(times, codes)
            if order is not None:
                events, times = events[order], times[order]
    newest = np.flatnonzero(events >= held.events)
    union = Table.of(schema, new.keys, bounds, times, schema.take(rows, events))
    return union, newest


def given_back(monoid: AbstractMonoid, rows: Rows, count: int) -> Any:
    """Input rows as a batch that a window takes."""
    if isinstance(monoid, Product):
        named = monoid.named(rows)
        return named or range(count)
    return range(count) if isinstance(rows, tuple) and not rows else rows


def as_outputs(monoid: AbstractMonoid, found: Any) -> Rows:
    """What ``extend`` of a window returned, as rows of outputs."""
    if isinstance(monoid, Product):
        parts = zip(monoid.monoids, found.values(), strict=True)
        return tuple([as_outputs(part, column) for part, column in parts])
    if isinstance(found, np.ndarray) and isinstance(monoid.outputs.new(0), list):
        return found.tolist()
    return found


def _moments(times: np.ndarray | None) -> np.ndarray | None:
    return None if times is None else times.view("M8[us]")
