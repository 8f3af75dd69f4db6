"""The engine of multiple windows over one stream: intake, one log of events, cursors by name.

A batch is processed one chunk at a time. Windows whose cuts follow from positions and times process
a chunk before it is stored, so that a failing store leaves them unchanged. The other windows are
evaluated after every event. A window falls behind if a call fails or if its results are not
requested. The next access moves it to where its frame says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial as partial_of
from math import inf
from typing import Any, Literal

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import EventsGone
from mta.evaluators.coverage import Coverage, coverage_of
from mta.evaluators.cursor import Cursor
from mta.evaluators.ends import EarlyCursor
from mta.evaluators.observed import part_of
from mta.folds.sliding import Events
from mta.frames.base import NEWEST, Frame
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Batch, Chunk, EventLog
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import KeepAll, LevelLog
from mta.monoids.base import AbstractMonoid, Out
from mta.monoids.product import Columns
from mta.snapshots import MAX_NAME_BYTES, WindowState
from mta.times import TimeUnit, to_time
from mta.windows.engine import Engine, by_time, require_frame, require_kind
from mta.windows.intake import require_emit
from mta.windows.moments import asked
from mta.windows.settings import Settings
from mta.windows.single import UNKNOWN, Ahead, SingleEvents
from mta.windows.stack import Movement, WindowAhead
from stores import StoreLike

#: The number of events of a batch that each window processes in one piece.
_CHUNK = 1 << 18
#: The windows whose single events are prefetched.
_USUAL = (CountWindow, TimeWindow)
#: After how many leaf groups unneeded events are released, if no snapshot releases them.
_TRIM_GROUPS = 32


class SharedEngine(Engine[Out]):
    """The engine of multiple windows by name. It evicts events only when no window needs them."""

    _logs = (LevelLog, FingerTreeLog)
    _structure: LevelLog | FingerTreeLog

    def __init__(
        self,
        monoid: AbstractMonoid[Out],
        windows: Mapping[str, Frame],
        store: StoreLike | None,
        name: str,
        settings: Settings,
        timed: bool,
    ) -> None:
        timed |= settings.log(*self._logs).by_time
        super().__init__(monoid, KeepAll(timed, _observed(windows.values())), store, name, settings)
        #: A frame for events to retain beyond the windows.
        self._keep = settings.keep
        self.place(windows, {})

    def _begin(self, name: str, leaf_arity: int, arity: int, like: EventLog | None = None) -> None:
        super()._begin(name, leaf_arity, arity, like)
        self._windows: dict[str, Cursor] = {}
        usual = self.monoid is self.main and self.settings.max_ahead is None
        self.single = SingleEvents(self, usual, self.store is not None)

    def retype(self, monoid: AbstractMonoid[Out]) -> None:
        frames = self.frames
        super().retype(monoid)
        self.place(frames, {})

    def structure(self) -> LevelLog | FingerTreeLog:
        self.single.write_back()
        return self._structure

    @property
    def cursors(self) -> dict[str, Cursor]:
        """Each window by its name, after all pending insertions."""
        self.single.write_back()
        return self._windows

    @property
    def frames(self) -> dict[str, Frame]:
        return {name: cursor.frame for name, cursor in self.cursors.items()}

    def place(self, windows: Mapping[str, Frame], fronts: Mapping[str, int]) -> None:
        """Set the windows; those with a front are up to date with the newest event."""
        self._windows = {name: self.cursor(frame) for name, frame in windows.items()}
        self._trimmed = self.structure().back
        for name, front in fronts.items():
            if not (cursor := self.cursors[name]).ends_early:
                cursor.place(front, self.structure().back)
        structure, newest = self.structure(), self.intake.last_time
        if isinstance(structure, FingerTreeLog) and structure.newest_time() != newest:
            self._fall_behind()  # the newest event was retracted

    def cursor(self, frame: Frame) -> Cursor:
        """Return a new window without events. Raises ValueError for an unsuitable frame."""
        if frame.needs_times and not self.timed:
            raise ValueError(f"{frame!r} needs times, but these events are kept without any")
        known = [_key(observer) for observer in self.frame.observers]
        lenses = {}
        for observer in frame.observers:
            if (key := _key(observer)) not in known:
                raise ValueError(f"{frame!r} looks at {observer[2].name}, which is not kept here")
            lenses[id(observer[0])] = part_of(self.monoid, known.index(key) + 1)
        kind = Cursor if frame.end == NEWEST else EarlyCursor
        return kind(self.monoid, frame, self.structure(), lenses)

    def require_observed(self, frames: Iterable[Frame]) -> None:
        """Raise ValueError unless the frames observe all aggregates stored with the events."""
        found = {_key(observer) for frame in frames for observer in frame.observers}
        for observer in self.frame.observers:
            if _key(observer) not in found:
                raise ValueError(
                    f"no other window looks at {observer[2].name}, which is kept with every event; "
                    "keep this window, or start new ones"
                )

    def ready(self, cursor: Cursor) -> Cursor:
        """Update a window with every event, and return it. At most one page read per level."""
        if cursor.taken != self.structure().back:
            cursor.settle(self.intake.last_time)
        return cursor

    def looked_at(self, cursor: Cursor) -> Cursor:
        """Return ``ready`` of a copy, so that a read-only call does not change the window."""
        return self.ready(copy(cursor))

    def window(self, name: str) -> Cursor:
        """Return the window with this name. Raises ValueError and TypeError."""
        check_name(name)
        cursor = self.cursors.get(name)
        if cursor is None:
            raise ValueError(f"no window is called {name!r}; there are {sorted(self.cursors)}")
        return cursor

    def coverage(self, name: str, cursor: Cursor, lateness: int) -> Coverage:
        time = self.intake.last_time if self.timed else None
        found = coverage_of(
            name, self.structure(), cursor.frame, cursor.front, cursor.taken, time, cursor.lens,
            lateness,
        )  # fmt: skip
        return replace(found, events=len(cursor))

    def query(self, which: str | Frame | None, partial: bool) -> Any:
        found = self.single.found(which)
        if found is not UNKNOWN:
            return found
        if which is None:
            return {name: self.result(cursor) for name, cursor in self.cursors.items()}
        if isinstance(which, str):
            return self.result(self.window(which))
        require_frame(which)
        cursor = self.ready(self.cursor(which))
        if not partial and not self.coverage("", cursor, lateness=0).complete:
            raise EventsGone(
                f"events that {which!r} needs have left; those from position {cursor.front} on are "
                "retained: ask for a shorter window, or pass partial=True"
            )
        return self.result(cursor)

    def query_at(
        self, which: str | Frame | None, partial: bool, at: Any, unit: TimeUnit | None
    ) -> Any:
        if which is None:
            return {name: self.query_at(name, partial, at, unit) for name in self.cursors}
        if isinstance(which, str):
            cursor = self.window(which)
        else:
            require_frame(which)
            cursor = self.cursor(which)
        current = partial_of(self.result, cursor)
        return asked(self, cursor.frame, at, unit, current, partial)

    def result(self, cursor: Cursor) -> Out:
        return self.lowered(self.ready(cursor).query(), len(cursor))

    def put_result(self, out: Rows, at: int, cursor: Cursor) -> None:
        self.put_fold(self.ready(cursor).query(), len(cursor), out, at)

    def put_results(self, outs: Sequence[Rows], at: int, moment: int | None = None) -> None:
        """Write each window's result into a row, as of the newest event or a later moment.

        Costs O(log n) combines and a few page reads per level for each window.
        """
        for cursor, out in zip(self.cursors.values(), outs, strict=True):
            if moment is not None and cursor.frame.needs_times:
                cursor.settle(moment)
            self.put_result(out, at, cursor)

    # --- events in ------------------------------------------------------------------------------

    def ahead(self, most: int) -> Ahead | None:
        """Prefetch for single events; see ``single.Owner``.

        Prefetches for the windows that are up to date, and for frames that end before the newest
        event if their results were requested. Other windows are updated on their next access.
        """
        structure = self.structure()
        windows = {n: c for n, c in self._windows.items() if self._is_prefetched(c)}
        if not structure.spare or not all(type(c.frame) in _USUAL for c in windows.values()):
            return None
        newest = self._newest([c for c in windows.values() if not c.ends_early])
        found, room, late_from = {}, min(structure.spare, most), -inf
        for name, cursor in windows.items():
            frame = cursor.frame
            by_count = isinstance(frame, CountWindow)
            size = frame.size if isinstance(frame, CountWindow) else frame.lifetime or 0
            if isinstance(cursor, EarlyCursor):
                ahead = cursor.frame_ahead(most, room, self.timed)
            else:
                if cursor.is_used_up:
                    cursor.compute_folds()
                ahead = cursor.ahead(room, newest)
                if ahead.size and not by_count and not newest:
                    ahead = ahead.cut(len(ahead.leaving), self.monoid)
                right = self.monoid.identity if ahead.right is None else ahead.right
                ahead = ahead._replace(right=right)
            found[name] = WindowAhead(size, by_count, len(cursor), ahead)
            room, late_from = min(room, ahead.room), max(late_from, ahead.late_from)
        return Ahead(found, room, late_from if found else inf, len(found) == len(self._windows))

    def _is_prefetched(self, cursor: Cursor) -> bool:
        """Return whether single events enter a window on arrival."""
        if not cursor.ends_early:
            is_held = cursor.is_held or cursor.is_used_up
            is_asked = is_held or type(cursor.frame) not in _USUAL
            return is_asked and cursor.back == self._structure.back
        is_asked = type(cursor.frame) in _USUAL and cursor.is_held
        return is_asked and len(self.ready(cursor)) > 0

    def _newest(self, cursors: Iterable[Cursor]) -> Events | None:
        """Return the newest events, which late events may precede; usually without a page read."""
        structure = self.structure()
        if not isinstance(structure, FingerTreeLog):
            return None
        held = [cursor for cursor in cursors if cursor.is_held]
        for cursor in held if self.settings.lateness else ():
            cursor.prepare_ahead()
        return structure.newest(min(map(len, held), default=structure.back))

    def write_back(self, new: Events, moved: dict[str, Movement]) -> None:
        late = self._structure.take_in(new)
        for name, each in moved.items():
            self._windows[name].sync(*each, late)

    def insert(self, value: Any, time: Any) -> None:
        event = self.intake.admit(value, time)
        if event is not None:
            self.accept(*event)

    def accept(self, row: Any, micros: int | None) -> None:
        """Add an event that was already read to all windows."""
        self._trim()
        self._accept(row, micros, self.cursors.values())
        self.intake.advance(micros)

    def _accept(self, row: Any, micros: int | None, cursors: Iterable[Cursor]) -> None:
        """Store an event, and move the windows that are up to date; all or nothing."""
        tree, stamp, newest = self.structure(), self.structure().stamp, micros
        if micros is not None and self.intake.last_time is not None:
            newest = max(micros, self.intake.last_time)  # the newest event may have been retracted
        tree.insert(row, micros)
        if self._recede(stamp):
            return
        before = tree.back - 1
        steps = [c for c in cursors if c.back == before and not c.ends_early]
        fronts = [(cursor, cursor.front) for cursor in steps]
        try:
            for cursor, _ in fronts:
                cursor.step(row, newest)
        except Exception:
            for cursor, front in fronts:
                cursor.place(front, before)
            tree.take_back()
            raise

    def extend(self, values: Any, times: Any, emit: Literal["all", "last"]) -> dict[str, Any]:
        require_emit(emit)
        outputs, each = self.monoid.outputs, emit == "all"
        rows, micros, count = self.intake.admit_batch(values, times)
        outs = {name: outputs.new(count if each else min(count, 1)) for name in self.cursors}
        with self.counting(count):
            self.ingest(rows, micros, 0, count, outs if each else None)
            for name, cursor in self.cursors.items() if count and not each else ():
                self.put_result(outs[name], 0, cursor)
        if each:
            return {name: self.as_given(out) for name, out in outs.items()}
        return {name: self.monoid.results(out) for name, out in outs.items()}

    def ingest(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows] | None = None,
    ) -> None:
        """Insert events of a batch chunk by chunk; write the results of each window to ``outs``."""
        started, first, newest = self.structure().taken, start, self.intake.last_time
        if micros is not None and start < stop and newest is not None and micros[start] <= newest:
            self._recede_before(int(micros[start]), newest)
        try:
            while first < stop:
                self._trim()
                end = self.structure().run_end(micros, first, min(first + _CHUNK, stop))
                chunk = self._ingest_chunk(rows, micros, first, end, outs or {})
                if chunk is not None and end < stop:
                    self.structure().keep(chunk)
                if micros is not None:  # the newest time determines what is released next
                    self.intake.advance(int(micros[end - 1]))
                first = end
        except Exception:
            self._fall_behind(ahead=True)
            raise
        finally:
            self.structure().release()
            done = self.structure().taken - started
            if micros is not None and done:
                last = int(micros[start + done - 1])
                self.intake.advance(last)
                if self.intake.last_time != last:  # the newest event may have been retracted
                    self._fall_behind()

    def _recede_before(self, time: int, newest: int) -> None:
        """Move windows back to an event that is late or replaces another: results are as of it."""
        structure = self.structure()
        if not isinstance(structure, FingerTreeLog):
            return
        place = structure.first_changed(time)
        if time < newest or place < structure.back:
            for cursor in self.cursors.values():
                cursor.recede(place)

    def _fall_behind(self, ahead: bool = False) -> None:
        """Have the next access update all windows, or only those ``ahead`` of the stored events."""
        for cursor in self.cursors.values():
            if not ahead or cursor.taken > self.structure().back:
                cursor.place(self.structure().front, self.structure().front)

    def _recede(self, stamp: int, chunk: Chunk | None = None) -> bool:
        """Move windows back if stored events have moved since a stamp; return whether they have."""
        structure = self.structure()
        if structure.stamp == stamp or not isinstance(structure, FingerTreeLog):
            return False
        for cursor in self.cursors.values():
            if chunk is not None and cursor.back == chunk.stop == structure.back:
                cursor.stay(chunk.first)
            else:
                cursor.recede(structure.moved_from)
        return True

    def _ingest_chunk(
        self, rows: Rows, micros: np.ndarray | None, start: int, stop: int, outs: dict[str, Rows]
    ) -> Chunk | None:
        """Store a chunk after the windows with predictable fronts; step the others by event."""
        monoid, structure, chunk = self.monoid, self.structure(), None
        if outs:
            times = None if micros is None else micros[start:stop]
            new = monoid.inputs.cut(rows, start, stop)
            chunk, is_new = structure.chunk_with(new, times, stop - start)
            for name, cursor in self.cursors.items():
                batch = Batch(monoid, rows, micros, stop, outs[name])
                if is_new is None:
                    cursor.run_into(chunk, batch, start)
                elif (found := cursor.results(chunk)) is not None:  # includes stored events
                    batch.put_new(start, found, chunk.count, is_new)
        stepped = {n: c for n, c in self.cursors.items() if not c.frame.predictable}
        stamp, kept = structure.stamp, structure.kept_from
        while start < stop:
            if chunk is not None and not stepped and isinstance(structure, LevelLog):
                new = Events(chunk.rows, chunk.times, chunk.count)
                structure.store(new, structure.front)
                start = stop
                continue
            if not stepped:
                start += structure.extend(rows, micros, start, stop)
                continue
            time = None if micros is None else int(micros[start])
            self._accept(monoid.inputs.at(rows, start), time, stepped.values())
            self.intake.advance(time)  # for windows that are updated now
            for name in stepped.keys() & outs.keys():
                self.put_result(outs[name], start, stepped[name])
            start += 1
        has_run = chunk is not None and not stepped and kept == structure.kept_from
        self._recede(stamp, chunk if has_run else None)
        return chunk

    def snapshot(self) -> bytes:
        """Release the events that no window needs, and return a snapshot of all windows."""
        self.evict()
        return super().snapshot()

    def _window_states(self) -> list[WindowState]:
        return sorted(
            WindowState(name, c.frame.describe(), c.frame.fingerprint, c.front)
            for name, c in self.cursors.items()
        )

    # --- events out -----------------------------------------------------------------------------

    def retract(self, time: Any) -> None:
        """Remove the newest event with the given time; the next access updates the windows."""
        stamp = self.structure().stamp
        by_time(self.structure(), FingerTreeLog).retract(to_time(time))
        self._recede(stamp)

    def _trim(self) -> None:
        """Periodically release events that no window needs, if no snapshot releases them."""
        structure = self.structure()
        behind = structure.back - self._trimmed
        if structure.discards and behind >= _TRIM_GROUPS * structure.setting.leaf_arity:
            self.evict()

    def evict(self) -> None:
        """Release the leaf groups that no window needs."""
        cursors = list(self.cursors.values())
        if self._keep is not None:
            cursors.append(self.cursor(self._keep))
        events, leaf = self.structure(), self.structure().setting.leaf_arity
        fronts = [events.needed_from(c, self.ready(c).front) for c in cursors]
        events.evict_to(min(fronts or [events.back]) // leaf * leaf)
        self._trimmed = events.back


Observer = tuple[Frame, Columns, AbstractMonoid]


def _key(observer: Observer) -> tuple[str, bytes]:
    """Return the key that observers of the same aggregate share."""
    _, columns, monoid = observer
    return repr(columns), monoid.fingerprint


def _observed(frames: Iterable[Frame]) -> tuple[Observer, ...]:
    """Return what frames observe, each aggregate once, in an order that is always the same."""
    found = {_key(observer): observer for each in frames for observer in each.observers}
    return tuple(found[key] for key in sorted(found))


def check_name(name: Any) -> None:
    """Raise TypeError or ValueError for an invalid name of a window."""
    require_kind(name, str, "a window's name is text")
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a window's name is 1 to {MAX_NAME_BYTES} bytes, not {name!r}")
