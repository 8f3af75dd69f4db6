"""Keys with a standalone window: large ones, and all keys if nothing can be vectorized.

The events of most keys are columns of tables (``work``). A standalone key has a ``Window`` or
``SharedWindows`` with separate pages and a separate snapshot. Keys with more than ``promote_at``
events are standalone, so that the cost of a batch does not depend on the size of their windows. So
are all keys if the monoid consists of plain functions or a frame reads values. The keys of some
retractions are standalone for a while (``corrections``). In the tables, a standalone key has the
snapshot of its window and the time of its newest event.

Every batch with events for a standalone window writes a snapshot of the window. So groups are
small: a leaf page fills one page of the disk. But filling and leaving a leaf group costs about 200
us in Python for any size. So a window that starts with many events has larger leaf groups, and
starts with about ten of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import xxhash

from mta.columns.schemas import Rows, Schema
from mta.columns.texts import listed_text
from mta.errors import EventsGone, PartialBatch
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.keyed.corrections import Retractions
from mta.keyed.keys import Keys
from mta.keyed.kind import KeyedKind
from mta.keyed.leaves import KEYS_AT_ONCE, Entry
from mta.keyed.table import ALL, NO_TIME, STANDALONE, Table, join, take_or
from mta.keyed.work import Asked, Boundaries, Found, Work, unanswered
from mta.logs.base import Leaf
from mta.logs.ranges import events_in, leaves_from
from mta.monoids.base import AbstractMonoid, as_output
from mta.monoids.product import Observed
from mta.pages import NAME_BYTES, OBJECT_BYTES, key_of
from mta.triggers.rules import EveryCount
from mta.windows.engine import OWN, SHARED, Engine
from mta.windows.moments import FAR, result_at
from mta.windows.revising import again, revised
from mta.windows.shared import SharedWindows
from mta.windows.window import Window
from stores import PageStore, WrapperStore

AnyWindow = Window | SharedWindows
#: The maximum number of windows that stay open between snapshots.
_OPEN = 256
#: A window is vectorized again once its events are 1 / ``_SHRUNK`` of those that promoted it.
_SHRUNK = 4
#: The maximum size in bytes of the columns of a group; names and numbers need up to 200 more.
LEAF_BYTES, INNER_BYTES = 3840, 1024
#: The number of leaf groups for a window's first events, and how many times larger than usual these
#: groups may be.
_FIRST_GROUPS, _LARGEST = 8, 16


def small_groups(monoid: AbstractMonoid, *frames: Frame, by_time: bool = False) -> tuple[int, int]:
    """Return the sizes of leaf and inner groups for many keys.

    A leaf page fills one LMDB page of 4 KiB. Inner groups are smaller, because a snapshot includes
    the open group of each level, and a batch writes the snapshot of each key that it touches. Nodes
    of trees by time have up to twice their size, and a snapshot includes the last node of each
    level.

    Args:
        monoid: The aggregation.
        *frames: The frames.
        by_time: Whether events are stored in trees by time, as late events need.
    """
    extra = 8 if by_time or any(frame.needs_times for frame in frames) else 0
    observers = [monoid for frame in frames for _, _, monoid in frame.observers]
    partial = sum(each.partials.row_bytes or OBJECT_BYTES for each in [monoid, *observers])
    value = OBJECT_BYTES if monoid.inputs.row_bytes is None else monoid.inputs.row_bytes
    leaf = LEAF_BYTES // max(value + extra, 1)
    if not by_time:
        arity = INNER_BYTES // (partial + extra + NAME_BYTES)
        return min(max(leaf, 16), 512), min(max(arity, 8), 64)
    # An entry of an inner node is an event, its partial, and the name of a page below.
    arity = INNER_BYTES // (value + partial + 2 * extra + NAME_BYTES)
    return min(max(leaf // 2, 8), 256), min(max(arity // 2, 4), 32)


def grown(leaf: int, events: int) -> int:
    """Return the size of leaf groups for a window that starts with ``events`` events.

    >>> grown(240, 1_025), grown(240, 16_000), grown(240, 1_000_000)
    (240, 2000, 3840)
    """
    return max(leaf, min(events // _FIRST_GROUPS, _LARGEST * leaf))


def open_engine(
    kind: KeyedKind, packed: bytes = b"", events: int = 0, generation: int = 0, paged: bool = True
) -> Engine:
    """Return the engine of a new window for a key, which starts with ``events`` events.

    ``generation`` differs between the windows of a key, because their pages may have the content
    and the place of pages of an earlier window, which are deleted later.
    """
    settings, frames, lateness = kind.settings, list(kind.frames.values()), kind.settings.lateness
    if kind.timed and all(frame.positional and not frame.needs_times for frame in frames):
        lateness = lateness or 0  # then only trees by time store times
    if kind.vectorized and not settings.is_sized:
        leaf, inner = small_groups(kind.monoid, *frames, by_time=lateness is not None)
        settings = settings.sized(grown(leaf, events), inner)
    change = f"{kind.changes}-" if kind.changes else ""
    name = f"{kind.name}:{change}{xxhash.xxh3_128_hexdigest(packed, generation)}"
    settings = replace(  # the bucket has checked new events
        settings.spanning(lateness, settings.retained if settings.answers_earlier else None),
        nulls="accept", min_samples=None, max_ahead=None, on_ahead="raise",
    )  # fmt: skip
    timed, store = any(frame.needs_times for frame in frames), kind.store if paged else None
    logs = SHARED if kind.single is None else OWN
    engine: Engine = Engine(kind.monoid, kind.frames, store, name, settings, logs, timed)
    engine.has_recipe = False
    engine.let_events_return()
    return engine


def public_window(kind: KeyedKind, engine: Engine) -> AnyWindow:
    """Return the public window of a key, to read and to check."""
    return (SharedWindows if kind.single is None else Window)._of(engine)


class _Overlay(WrapperStore):
    """A store whose writes stay in memory, for windows that are dropped soon."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self._pages: dict[str, bytes] = {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        stored = iter(self.store.get_many([key for key in keys if key not in self._pages]))
        return [self._pages[key] if key in self._pages else next(stored) for key in keys]

    def peek(self, key: str) -> bytes | None:
        return self._pages.get(key) or self.store.peek(key)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._pages.update(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        del keys

    def flush(self) -> None:
        return


class StandaloneWindows:
    """The open standalone windows of a bucket; adds batches to them."""

    def __init__(self, kind: KeyedKind) -> None:
        self.kind = kind
        #: The open windows, by the bytes of their keys.
        self.open: dict[bytes, Engine] = {}
        #: The keys of windows that have received events since the last snapshot.
        self.changed: set[bytes] = set()
        #: The error of a batch of which some windows have received a part.
        self.failure: Exception | None = None

    @cached_property
    def pattern(self) -> Engine:
        """Return an empty window, from which the others are restored with the same settings."""
        return open_engine(self.kind)

    def require_whole(self) -> None:
        """Raise PartialBatch if an earlier call applied only a part of a batch."""
        if self.failure is not None:
            raise PartialBatch(
                f"an earlier batch was only partially added ({self.failure}): restore from the "
                "last snapshot, and add the events after it again"
            ) from self.failure

    def engine(self, known: Table, place: int) -> Engine:
        """Return the window of a standalone key: the open one, or one from its snapshot."""
        engine = self.open.get(known.keys.packed(place))
        return self.pattern.restore_like(known.snapshot_of(place)) if engine is None else engine

    def opened(self, known: Table, place: int) -> Engine:
        """Return the window of a standalone key, and keep it open."""
        return self.open.setdefault(known.keys.packed(place), self.engine(known, place))

    def begin(self, packed: bytes, events: int, generation: int) -> Engine:
        """Return a new window for a key with ``events`` events, and retain its pages for now."""
        engine = open_engine(self.kind, packed, events, generation)
        if self.kind.store is not None:
            # A retry of this call writes the same pages, so none may be deleted before the next
            # snapshot.
            engine.retain_snapshot()
        return engine

    def scratch(self, packed: Iterable[bytes]) -> StandaloneWindows:
        """Return copies of some keys' windows; what is added to them is not written."""
        store = self.kind.store
        if store is None:
            copies = StandaloneWindows(self.kind)
            copies.open = {each: deepcopy(self.open[each]) for each in packed if each in self.open}
            return copies
        copies = StandaloneWindows(replace(self.kind, store=_Overlay(store)))
        for each in packed:
            if (engine := self.open.get(each)) is not None:
                copies.open[each] = copies.pattern.restore_like(engine.snapshot())
        return copies

    # --- a batch --------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def advance(
        self, work: Work, places: np.ndarray, promoted: np.ndarray, marks: np.ndarray,
        generation: int,
    ) -> tuple[Table, int, list[Entry]]:  # fmt: skip
        """Add the events of some keys to their windows; return the entries of these keys.

        The results of ``promoted`` keys are already known; their retained events start a window.
        The other items are the number of keys that have become small and are vectorized again, and
        the pages of their windows, for their deletion.
        """
        work.ask_at_boundaries(places)
        places = np.sort(np.concatenate((places, promoted)))
        is_promoted = np.isin(places, promoted)
        touched: dict[bytes, Engine] = {}
        small: dict[int, Table] = {}
        left_pages = list[Entry]()
        moved, length = [], 0
        try:
            for place, grown_now in zip(places.tolist(), is_promoted.tolist(), strict=True):
                packed, at = work.new.keys.packed(place), int(work.at[place])
                if marks[place] == STANDALONE:
                    engine = self.engine(work.known, at)
                else:
                    held = 0 if at < 0 else int(work.known.counts[at])
                    events = held + int(work.new.counts[place])
                    engine = self.begin(packed, events, generation)
                touched[packed] = engine
                if grown_now:
                    retained = work.retained(place)
                    extend(self.kind, engine, retained)
                    moved.append(retained.size)
                    continue
                if marks[place] != STANDALONE and at >= 0:
                    start, stop = work.known.bounds[at : at + 2].tolist()
                    if start < stop:
                        extend(self.kind, engine, work.known.events_between(start, stop))
                length = engine.taken()
                left = int(work.left[place])
                work.before[place] = left + engine.structure().back
                _KeyBatch(work, place, engine).extend()
                table = self._shrunk(work, place, engine, left)
                if table is not None:
                    small[place] = table
                    left_pages += self.pages_in(engine)
        except Exception as error:
            self._take_back(touched, length, error)
            raise
        self.open |= touched
        self.changed |= touched.keys()
        entries = _entries(work, places)
        entries.left[is_promoted] = (work.before + work.new.counts)[promoted] - moved
        for place in small:
            packed = work.new.keys.packed(place)
            del self.open[packed]
            self.changed.remove(packed)
        if not small:
            return entries, 0, []
        stay = entries.take(np.flatnonzero(~np.isin(places, [*small])))
        return join([stay, *small.values()], late=True), len(small), left_pages

    def _shrunk(self, work: Work, place: int, engine: Engine, left: int) -> Table | None:
        """Return the events of a key that has become small enough to be vectorized; else None."""
        kind = self.kind
        if not kind.vectorized or (kind.attributes and not self._may_shrink(engine)):
            return None
        engine.release()
        log, few = engine.structure(), kind.settings.promote_at // _SHRUNK
        if log.has_lost(engine.intake.last_time):
            return None  # only the window knows the time of the newest event
        events: Any = log.remembered()
        if events.back - events.kept_from > 2 * few:
            return None
        schema, keys, first = work.new.schema, work.new.keys.cut(place, place + 1), events.kept_from
        leaves = leaves_from(events, first, engine.monoid.inputs)
        if isinstance(engine.monoid, Observed):
            unstamped = engine.monoid.unstamped
            leaves = (Leaf(f.first, unstamped(f.rows), f.times, f.count) for f in leaves)
        table = kind.trimmed(table_of(schema, keys, left + first, leaves, kind.timed))
        return table if table.events <= few and kind.unsteady(table) is None else None

    def _may_shrink(self, engine: Engine) -> bool:
        """Return whether events tell where the windows of a key start, with the times they need.

        Windows on values store no times unless a frame needs them. Under ``|``, a window may start
        earlier than its events tell, because of an attribute that has left.
        """
        kind = self.kind
        return engine.timed >= kind.timed and not kind.attributes.depend_on_past

    def _take_back(self, touched: dict[bytes, Engine], length: int, error: Exception) -> None:
        """Discard windows that received a part of a batch, the last of which failed.

        These windows continue from their last snapshots. If any of them had events since then,
        these events are lost, and later calls raise PartialBatch.
        """
        failed = next(reversed(touched), None)
        if failed is not None and touched[failed].taken() == length:
            del touched[failed]  # it has not received anything
        for packed in touched:
            self.open.pop(packed, None)
        lost = touched.keys() & self.changed
        if lost:
            self.failure = error
            error.add_note(
                f"{len(lost)} windows had received events of this batch: "
                "restore from the last snapshot, and add the events after it again"
            )

    # --- snapshots, expiry, deletion --------------------------------------------------------------

    def retain(self) -> None:
        """Note that a snapshot was taken: retain its pages, and close windows if many are open."""
        for packed in self.changed:
            self.open[packed].retain_snapshot()
        self.changed.clear()
        if len(self.open) > _OPEN:
            self.open.clear()

    def expire(self, expired: Table) -> None:
        """Close the windows of expired keys, and put their last snapshots into the table."""
        for at, place in enumerate(expired.standalone.tolist()):
            packed = expired.keys.packed(place)
            engine = self.open.pop(packed, None)
            if packed in self.changed and engine is not None and self.kind.store is not None:
                expired.snapshots[at] = engine.snapshot()
            self.changed.discard(packed)

    def erase(self, known: Table) -> None:
        """Drop the open windows of some keys, with events that no snapshot has."""
        for place in known.standalone.tolist():
            packed = known.keys.packed(place)
            self.open.pop(packed, None)
            self.changed.discard(packed)

    def pages_of(self, known: Table) -> list[Entry]:
        """Return the pages of the windows of some keys, for their deletion."""
        engines = (self.engine(known, place) for place in known.standalone.tolist())
        return [entry for engine in engines for entry in self.pages_in(engine)]

    def pages_in(self, engine: Engine) -> Iterator[Entry]:
        """Yield the pages of a window, for their deletion; none for a window in memory."""
        return iter(()) if self.kind.store is None else keys_in(engine)

    def due(self, expired: Table, of: np.ndarray, moments: np.ndarray) -> Found:
        """Return the results of expired keys at moments, by key and moment."""
        outputs, last = unanswered(self.kind, len(of)), -1
        for at, (place, moment) in enumerate(zip(of.tolist(), moments.tolist(), strict=True)):
            if place != last:
                engine, last = self.pattern.restore_like(expired.snapshot_of(place)), place
            engine.put_results(outputs, at, moment)
        return Found(of, np.full(len(of), -1), outputs, moments)


class _KeyBatch:
    """Adds the events of one key in a batch to the window of the key."""

    def __init__(self, work: Work, place: int, engine: Engine) -> None:
        self.kind, self.want, self.times = work.kind, work.want, work.new.times
        self.place, self.engine, self._work = place, engine, work
        self._before = int(work.before[place])
        self.start, self.stop = work.new.bounds[place : place + 2].tolist()
        self._parts: list[Found] = []

    def extend(self) -> None:
        """Add new events and retractions to the window, and collect results."""
        taken, asked = self._work.taken, self._work.asked
        if taken is not None and (own := self._own(taken.of)):
            self._extend_and_retract(taken, own)
        elif asked is not None and ((own := self._own(asked.of)) or self._is_due):
            self._extend_and_answer(asked, own)
        else:
            self._extend()
        self._work.parts += self._parts

    @property
    def _is_due(self) -> bool:
        """Return whether results belong to boundaries, not to events."""
        return isinstance(self.want, Boundaries)

    def _own(self, of: np.ndarray) -> range:
        """Return the places of the key among those of the keys of retractions or moments."""
        return range(*np.searchsorted(of, [self.place, self.place + 1]).tolist())

    def _given(self, start: int, stop: int) -> tuple[Any, np.ndarray | None]:
        """Return new events in the form that a window accepts."""
        return _given(self.kind, self._work.new.events_between(start, stop))

    def _take_in(self, start: int, stop: int) -> None:
        """Add new events to the window, and collect the result after each."""
        found = self.engine.outputs(*self._given(start, stop), "all")
        of, line = np.full(stop - start, self.place), np.arange(start, stop)
        self._parts.append(Found(of, line, [*found.values()]))

    def _extend(self) -> None:
        """Add new events to the window, and collect the requested results."""
        want, start, stop = self.want, self.start, self.stop
        late = self.kind.settings.lateness is not None
        if want in ("changed", "newest"):
            self._parts.append(self._revised(start, stop))
            if want == "newest":
                self._keep_last()
        elif isinstance(want, EveryCount):
            numbers = self._before + np.arange(1, stop - start + 1)
            picked = np.flatnonzero(numbers % want.count == 0)
            if len(picked):
                self._take_in(start, stop)
                self._parts = [self._parts[0].take(self.kind.monoid, picked)]
            else:
                self.engine.outputs(*self._given(start, stop), "last")
        elif want == "each" or (want == "last" and late):
            self._take_in(start, stop)
            if want == "last":  # the result of a late event is not that of the current window
                self._keep_last()
        else:
            found = self.engine.outputs(*self._given(start, stop), "last")
            of, at = np.array([self.place]), np.array([stop - 1])
            self._parts.append(Found(of, at, [*found.values()]))

    def _revised(self, first: int, stop: int, before: int | None = None) -> Found:
        """Add new events; return changed results, of stored events only those before ``before``."""
        (moments, rows, outputs, _), index = revised(self.engine, *self._given(first, stop))
        at = np.where(index < 0, -1, index + first)
        found = Found(np.full(len(index), self.place), at, [outputs], moments, rows)
        if before is None:
            return found
        return found.take(self.kind.monoid, np.flatnonzero((at >= 0) | (moments < before)))

    def _extend_and_retract(self, taken: Retractions, retractions: range) -> None:
        """Add events and retractions in turn; collect results."""
        times, done, end, last = self.times, self.start, self.stop, retractions.stop
        assert times is not None
        own, appends = Counter[int](), self.kind.settings.appends
        revises = self.want in ("changed", "newest")
        for at in (*retractions, last):
            slot = int(taken.slots[at]) if at < last else end
            moment = int(taken.times[at]) if at < last else None
            if slot > done:
                if revises:
                    self._parts.append(self._revised(done, slot, moment))
                else:
                    self._take_in(done, slot)
                came = times[done:slot].tolist()
                own.update(came if appends else [time for time in {*came} if not own[time]])
                done = slot
            if moment is None:
                break
            with suppress(EventsGone):  # the event is of this batch, and has left already
                self.engine.retract(np.datetime64(moment, "us"))
            own[moment] -= own[moment] > 0
            if revises:
                until = int(taken.times[at + 1]) if at + 1 < last else None
                if done < end and (until is None or taken.slots[at + 1] > done):
                    until = int(times[done]) + appends
                self._again(max(moment, int(taken.floors[at])), until, own)
        if self.want == "now":
            outputs = unanswered(self.kind, 1)
            self.engine.put_results(outputs, 0)
            self._parts = [Found(np.array([self.place]), np.array([-1]), outputs)]
        elif self._parts and self.want not in ("each", "changed"):
            self._keep_last()

    def _extend_and_answer(self, asked: Asked, questions: range) -> None:
        """Add new events and answer questions, or compute results at boundaries, in order of time.

        With questions, collect the results of events too.
        """
        engine, done, outs = self.engine, 0, dict[str, Rows]()
        left, is_due = bool(self._work.left[self.place]), self._is_due
        rows, micros, count = engine.intake.admit_batch(*self._given(self.start, self.stop))
        if not is_due:
            outs = {name: engine.monoid.outputs.new(count) for name in engine.windows}
        for at in questions:
            slot, moment, row = (int(each[at]) for each in (asked.slots, asked.times, asked.rows))
            engine.ingest(rows, micros, done, slot - self.start, outs or None)
            done = slot - self.start
            if is_due:
                engine.put_results(asked.outputs, row, moment)
            else:
                put_answer(self.kind, engine, moment, left, asked.outputs, row)
        engine.ingest(rows, micros, done, count, outs or None)
        if not is_due:
            of, line = np.full(count, self.place), np.arange(self.start, self.stop)
            self._parts.append(Found(of, line, [*outs.values()]))
        if self.want == "last":
            self._keep_last()

    def _keep_last(self) -> None:
        """Drop all results except the last."""
        monoid = self.kind.monoid
        every = Found.joined(self._parts, monoid, len(self.kind.frames))
        self._parts = [every.take(monoid, every.lasts)]

    def _again(self, time: int, until: int | None, own: Counter[int]) -> None:
        """Collect results of events from ``time`` on and before ``until``, except ``own`` ones.

        ``own`` has the number of the batch's events at each time, which are the last ones there.
        """
        found = again(self.engine, time, until)
        if found is None:
            return
        monoid, is_old = self.kind.monoid, np.ones(len(found.times), bool)
        for moment, count in own.items():
            first, stop = (
                int(found.times.searchsorted(moment, side)) for side in ("left", "right")
            )
            is_old[max(first, stop - count) : stop] = False
        old = np.flatnonzero(is_old)
        outputs, rows = monoid.outputs.take(found.outputs, old), monoid.inputs.take(found.rows, old)
        of, nowhere = np.full(len(old), self.place), np.full(len(old), -1)
        self._parts.append(Found(of, nowhere, [outputs], found.times[old], rows))


# --- entries and results ------------------------------------------------------------------------


def _entries(work: Work, places: np.ndarray) -> Table:
    """Return the entries of keys with open windows, each with the time of the newest event only."""
    new, newest = work.new, None
    if new.times is not None:
        before = take_or(work.known.newest(), work.at[places], NO_TIME)
        newest = np.maximum(before, new.newest()[places])
    snapshots = [b""] * len(places)
    return Table.entries(new.schema, new.keys.take(places), work.left[places], newest, snapshots)


def table_of(schema: Schema, keys: Keys, left: int, leaves: Iterable[Leaf], timed: bool) -> Table:
    """Return all events of one key as a table; ``left`` earlier events have left."""
    events = events_in(leaves, schema, timed)
    table = Table.of(schema, keys, np.array([0, events.size]), events.times, events.rows, ALL)
    table.left += left
    return table


def keys_in(engine: Engine) -> Iterator[list[str]]:
    """Yield the store keys of the pages of a window, some at a time; reads each inner page once."""
    named = engine.structure().named_pages()
    while keys := [
        key_of(engine.name, page.level, page.number, page.name)
        for page in islice(named, KEYS_AT_ONCE)
    ]:
        yield keys


@np.errstate(all="ignore")
def extend(kind: KeyedKind, engine: Engine, events: Events) -> None:
    """Add stored events to a window."""
    engine.outputs(*_given(kind, events), "last")


def _given(kind: KeyedKind, events: Events) -> tuple[Any, np.ndarray | None]:
    """Return stored events in the form that a window accepts."""
    moments = None if events.times is None else events.times.view("M8[us]")
    return given_back(kind.reader, events.rows, events.size), moments


def given_back(monoid: AbstractMonoid, rows: Rows, count: int) -> Any:
    """Return input rows as values that ``extend`` accepts."""
    rows = listed_text(rows)
    return range(count) if isinstance(rows, tuple) and not rows else monoid.given(rows)


def first_time(table: Table, place: int, engine_of: Callable[[Table, int], Engine]) -> int:
    """Return the time of a key's first event; ``NO_TIME`` if events of the key have left."""
    assert table.times is not None
    if table.left[place]:
        return NO_TIME
    first = int(table.times[table.bounds[place]])
    if table.marks[place] != STANDALONE:
        return first
    events = engine_of(table, place).structure().remembered()
    if events.kept_from:
        return NO_TIME
    found = events.time_before(1)  # None if all events were retracted
    return first if found is None else found


def put_answer(
    kind: KeyedKind, engine: Engine, moment: int, left: bool, outputs: list[Rows], at: int
) -> bool:
    """Write the results of a window at a moment to row ``at``; return whether they miss events.

    ``left`` says that events of the key had left before the window started.
    """
    missing, newest = False, engine.intake.last_time
    horizon = FAR if newest is None else int(kind.retention.horizons(np.array([newest]))[0])
    for (name, frame), out in zip(kind.frames.items(), outputs, strict=True):
        now = partial(engine.result, engine.windows[name])
        result, misses = result_at(engine, frame, moment, now, horizon, left)
        missing |= misses
        kind.monoid.outputs.put(out, at, as_output(result))
    return missing
