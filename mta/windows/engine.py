"""The engine of windows: its intake, a log of events, and the windows over the log, by name.

    engine  =  log  +  {name: window}

A log stores events, and a window is a cursor that evaluates a frame over them
(``evaluators.cursor``). ``SharedWindows`` has a log for any windows, and a cursor for each.
``Window`` has a log for one window, "". Everything else is the same for one window and for many.

A batch is processed one chunk at a time. Cursors whose cuts follow from positions and times process
a chunk before it is stored, so that a failing store leaves them unchanged. The other windows are
evaluated after every event. A window falls behind if a call fails or if its results are
not requested. The next access moves it to where its frame says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial as partial_of
from typing import Any, Generic, Literal, Self, cast

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Rows
from mta.descriptions import Recipe
from mta.errors import EventsGone, NotPageable
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.coverage import Coverage, coverage_of
from mta.evaluators.cursor import Cursor
from mta.evaluators.fiba import FiBA
from mta.evaluators.observed import Searched, key_of_observer, observed_by, part_of
from mta.evaluators.runs import results_of, run_into
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.logs.base import Aggregator, Batch, Chunk, EventLog, Setting
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import KeepAll, LevelLog
from mta.monoids.base import AbstractMonoid, Out, Partial, as_output
from mta.monoids.following import following, named_types, types_of
from mta.monoids.product import Observed
from mta.pages import NAME
from mta.publishing.records import Shape, What, what_of
from mta.snapshots import Snapshot
from mta.times import TimeUnit, to_count, to_time
from mta.windows.checks import (
    by_time,
    check_name,
    read_frame,
    require_kind,
    require_store,
)
from mta.windows.intake import Intake, counting, require_emit
from mta.windows.moments import asked
from mta.windows.saving import (
    has_other_frame,
    load_state,
    mismatch,
    recipe_for,
    require_first_page,
    snapshot_of,
)
from mta.windows.settings import Settings
from mta.windows.single import USUAL, Ahead, SingleEvents, prefetched
from mta.windows.stack import UNKNOWN, Movement
from stores import StoreLike

#: After how many leaf groups unneeded events are released, if no snapshot releases them.
_TRIM_GROUPS = 32

#: Logs in order of arrival and in order of time: with a window of their own, and for any windows.
OWN, SHARED = (AmortizedMTA, FiBA), (LevelLog, FingerTreeLog)


class Engine(Generic[Out]):
    """The events of one stream, and the windows over them.

    The settings choose one of two ``logs``: in order of arrival, or in order of time. If the log
    is that of a single window, it evicts what leaves the window. Otherwise events are evicted only
    when no window needs them. ``frame`` represents all windows.
    """

    #: Whether snapshots say how the windows were made. The windows of many keys share one recipe.
    has_recipe = True
    #: As in ``Cursor``.
    returns_left = False
    #: The aggregation, before the settings adapt it to nulls.
    given: AbstractMonoid
    #: Whether a call is in progress, or none is accepted any more.
    busy: bool

    def __init__(
        self,
        monoid: AbstractMonoid[Out],
        windows: Mapping[str, Frame],
        store: StoreLike | None,
        name: str,
        settings: Settings,
        logs: tuple[type[EventLog], type[EventLog]] = OWN,
        timed: bool = False,
    ) -> None:
        self.given = monoid
        monoid = settings.aggregating(monoid)
        opened = require_store(store)
        require_kind(name, str, "a window's name is text")
        if not NAME.fullmatch(name):
            raise ValueError(f"a window's name is 1 to 100 of A-Z a-z 0-9 . _ : -, not {name!r}")
        #: The log that keeps the events.
        self.kind = settings.log(*logs)
        #: Whether the log is that of a single window, and whether it begins where that does.
        self.is_single = issubclass(self.kind, Aggregator)
        self._is_coupled = self.is_single and not self.kind.by_time
        if self.is_single:
            settings.require_duration()
            (frame,) = windows.values()
        elif logs is OWN:
            raise TypeError(f"an aggregator is a class such as AmortizedMTA, not {self.kind!r}")
        else:
            frame = KeepAll(timed or self.kind.by_time, observed_by(windows.values()))
        self.frame, self.settings = frame, settings
        #: The frames of the last snapshot by name, and its recipe.
        self._made: tuple[Any, Recipe] | None = None
        self._aggregate(monoid)
        self.timed = frame.needs_times or self.kind.by_time
        sizes = settings.group_sizes(self.kind, self.monoid, self.timed)
        self.store, self.owns_store = opened, opened is not store
        self._begin(name, *sizes)
        if not self.is_single:
            self.place(windows, {})

    def _aggregate(self, monoid: AbstractMonoid[Out]) -> None:
        #: The monoid of the results; ``monoid`` also computes what frames observe.
        self.main = monoid
        observed = [(columns, observer) for _, columns, observer in self.frame.observers]
        self.monoid = Observed(monoid, observed) if observed else monoid

    def retype(self, monoid: AbstractMonoid[Out]) -> None:
        """Start again without events, with the monoid for other types of columns."""
        busy, counts, frames = self.busy, self.intake.counts, self.frames
        self._aggregate(monoid)
        self._begin(self.name, *self.settings.group_sizes(self.kind, self.monoid, self.timed))
        self.busy, intake = busy, self.intake
        intake.late_count, intake.invalid_count, intake.ahead_count = counts
        if not self.is_single:
            self.place(frames, {})

    def follow(self, values: Any) -> bool:
        """Take the types of columns from the first values; return whether a type was taken."""
        reads_values = any(columns is None for _, columns, _ in self.frame.observers)
        if self.taken() or reads_values:
            return False
        found = following(self.main, values)
        if found is self.main:
            return False
        self.retype(found)
        return True

    def _begin(self, name: str, leaf_arity: int, arity: int, like: EventLog | None = None) -> None:
        """Start without events, under a name; ``like`` is the log of a similar engine."""
        settings, frame, self.name = self.settings, self.frame, name
        setting = Setting(
            self.monoid, self.store, name, leaf_arity, arity,
            self.timed, frame, settings.lateness or 0, settings.on_duplicate, settings.retained,
        )  # fmt: skip
        self._log: EventLog = self.kind(setting) if like is None else like.empty_like(setting)
        self.intake = self._intake()
        self.busy = False
        #: Whether the window was closed.
        self.closed = False
        self._windows: dict[str, Cursor] = {}
        #: The moment of the last query after the newest event, if any since that event.
        self._moment: int | None = None
        if isinstance(self._log, Aggregator):
            if frame.lags and not self._log.ends_anywhere:
                raise ValueError(
                    f"{self._log.name} folds up to the newest event, but {frame!r} ends before "
                    "it: leave aggregator= out"
                )
            self._windows[""] = self._log.cursor
            self._log.cursor.returns_left = self.returns_left
        self._log.readers = self._windows
        self._trimmed = 0
        self.single = self._singles()

    def _intake(self) -> Intake:
        paged: Literal["events"] | None = None if self.store is None else "events"
        return Intake(self.monoid, self.frame, self.main.name, self.settings, paged)

    def _singles(self) -> SingleEvents:
        self._asked: Searched | None = None
        if self.is_single:
            self._asked = self._windows[""].searched(self.timed)
            is_usual = self._asked is not None or type(self.frame) in USUAL
        else:
            is_usual = self.monoid is self.main
        # With ``max_ahead``, each time must be compared with the clock.
        is_usual &= self.settings.max_ahead is None
        return SingleEvents(self, is_usual, self.store is not None, self._asked)

    # --- the log and the windows over it --------------------------------------------------------

    def log(self) -> EventLog:
        """Return the log, after all pending insertions."""
        if self.single.is_loaded:
            self.single.write_back()
        return self._log

    def structure(self) -> EventLog:
        """Return the log, after all pending insertions and the evictions of its only window.

        If an earlier call failed between an insertion and its eviction, this repeats the eviction.
        So every caller finds the window as its frame says, or gets the error of the store.
        """
        self.log()
        if self.is_single and (window := self._windows[""]).is_behind:
            window.settle(self.intake.last_time)
        return self._log

    @property
    def windows(self) -> dict[str, Cursor]:
        """Each window by its name, after all pending insertions."""
        self.log()
        return self._windows

    @property
    def frames(self) -> dict[str, Frame]:
        """The frame of each window by its name; the log's own window has the name ""."""
        return {name: window.frame for name, window in self.windows.items()}

    def place(self, windows: Mapping[str, Frame], fronts: Mapping[str, int]) -> None:
        """Set the windows over a shared log; those with a front have all events."""
        log, newest = self.log(), self.intake.last_time
        cursors = {name: self.cursor(frame) for name, frame in windows.items()}
        self._windows = log.readers = cursors
        self._trimmed = log.back
        for name, front in fronts.items():
            cursor = cursors[name]
            cursor.start_at(front, log.back)
            cursor.floor = front
        if log.has_lost(newest):
            self._follow_newest()

    def cursor(self, frame: Frame) -> Cursor:
        """Return a new window without events. Raises ValueError for an unsuitable frame."""
        if frame.needs_times and not self.timed:
            raise ValueError(f"{frame!r} needs times, but these events are kept without any")
        known = [key_of_observer(observer) for observer in self.frame.observers]
        lenses = {}
        for observer in frame.observers:
            if (key := key_of_observer(observer)) not in known:
                raise ValueError(f"{frame!r} looks at {observer[2].name}, which is not kept here")
            lenses[id(observer[0])] = part_of(self.monoid, known.index(key) + 1)
        cursor = Cursor(self.monoid, frame, self.log().reader(), lenses)
        cursor.returns_left = self.returns_left
        return cursor

    def let_events_return(self) -> None:
        """Let events return that are retained for late events, as for keys with few events."""
        self.returns_left = True
        for window in self._windows.values():
            window.returns_left = True

    def ready(self, window: Cursor) -> Cursor:
        """Update a window with every event, and return it. At most one page read per level."""
        self.log()
        if window.is_behind:
            window.settle(self.intake.last_time)
        return window

    def window(self, name: str) -> Cursor:
        """Return the window with this name. Raises ValueError and TypeError."""
        check_name(name)
        window = self.windows.get(name)
        if window is None:
            raise ValueError(f"no window is called {name!r}; there are {sorted(self.windows)}")
        return window

    def coverage(self, name: str, window: Cursor) -> Coverage:
        """Return the coverage of a window that is up to date, also for late events."""
        time, frame = self.intake.last_time if self.timed else None, window.frame
        found = coverage_of(
            name, self.structure().remembered(), frame, window.front, window.back, time,
            window.lens, self.settings.lateness or 0,
        )  # fmt: skip
        if self.is_single and not (frame.positional or frame.merges):
            # Its log has all events that this frame needs, and no other frame can replace it.
            found = replace(found, incomplete=(), missing_at_least=0, missing_at_most=0)
        return replace(found, events=len(window))

    def taken(self) -> int:
        """A number that grows with every accepted event. No store call."""
        return self.log().taken

    # --- results --------------------------------------------------------------------------------

    def query(self, which: str | Frame | None = "", partial: bool = False) -> Any:
        """Return the result of a window, of all by name, or of a frame; see ``SharedWindows``."""
        found = self.single.found(which)
        if found is not UNKNOWN:
            return found
        if which is None:
            return {name: self.result(window) for name, window in self.windows.items()}
        if not isinstance(which, str):
            return self._result_of(which, partial)
        return self.result(self._windows[""] if self.is_single else self.window(which))

    def _result_of(self, frame: Frame, partial: bool) -> Out:
        frame = read_frame(frame)
        cursor = self.ready(self.cursor(frame))
        if not partial:
            front, back, newest = cursor.front, cursor.back, self.intake.last_time
            newest = newest if self.timed else None
            found = coverage_of("", cursor.events, frame, front, back, newest, cursor.lens)
            if not found.complete:
                raise EventsGone(
                    f"events that {frame!r} needs have left; those from position {cursor.front} "
                    "on are retained: ask for a shorter window, or pass partial=True"
                )
        return self.result(cursor)

    def query_at(
        self, which: str | Frame | None, partial: bool, at: Any, unit: TimeUnit | None
    ) -> Any:
        """Return results at a moment, or at each of many."""
        if which is None:
            return {name: self.query_at(name, partial, at, unit) for name in self.windows}
        if self.is_single:
            window = self._windows[""]
        elif isinstance(which, str):
            window = self.window(which)
        else:
            which = read_frame(which)
            window = self.cursor(which)
        current = partial_of(self.result, window)
        return asked(self, window.frame, at, unit, current, partial)

    def current(self, window: Cursor) -> tuple[Partial, int]:
        """Return the aggregate of a window and its number of events.

        1 combine, and 1 for each event that has entered a frame that ends before the newest event.
        """
        count = len(self.ready(window))
        return (window.query() if count else None), count

    def result(self, window: Cursor) -> Out:
        return self.lowered(*self.current(window))

    def put_result(self, out: Rows, at: int, window: Cursor | None = None) -> None:
        """Write the result of a window, by default the only one, into a row of outputs."""
        found = self._windows[""] if window is None else window
        self.put_fold(*self.current(found), out, at)

    def put_results(self, outs: Sequence[Rows], at: int, moment: int | None = None) -> None:
        """Write each window's result into a row, as of the newest event or a later moment.

        Costs O(log n) combines and a few page reads per level for each window.
        """
        if moment is not None:
            self.pass_to(moment)
        for window, out in zip(self.windows.values(), outs, strict=True):
            self.put_result(out, at, window)

    def pass_to(self, moment: int | None) -> None:
        """Apply the frames on times at a moment without an event."""
        self.log()
        self._moment = moment
        for window in self._windows.values():
            if window.frame.needs_times:
                window.settle(moment)

    def __len__(self) -> int:
        """Return the number of events in the only window."""
        length = self.single.length()
        return len(self.ready(self._windows[""])) if length is None else length

    def lowered(self, fold: Partial, count: int) -> Out:
        """Return the result of a fold of ``count`` events."""
        result: Out = plain(self.monoid.lower(fold)) if count else self.monoid.empty
        return result

    def put_fold(self, fold: Partial, count: int, out: Rows, at: int) -> None:
        """Write the result of a fold of ``count`` events into a row of outputs."""
        monoid = self.monoid
        if count:
            monoid.outputs.put_many(out, at, monoid.lower_rows(monoid.partials.one(fold)))
            return
        monoid.outputs.put(out, at, as_output(monoid.empty))

    def _as_given(self, out: Rows) -> Rows:
        """Return the outputs of a batch in the order in which the caller passed its events."""
        outputs, order = self.monoid.outputs, self.intake.order
        if order is not None:
            in_order, out = out, outputs.new(len(order))
            outputs.put_at(out, order, in_order)
        return out

    # --- single events --------------------------------------------------------------------------

    def ahead(self, most: int) -> Ahead | None:
        """Prefetch for single events; see ``single.Owner``.

        Prefetches for the windows that are up to date, and for frames that end before the newest
        event if their results were requested. Other windows are updated on their next access.
        """
        if not self._log.spare:  # all events are in the log already
            return None
        log, last = self.structure(), self.intake.last_time
        windows = {n: w for n, w in self._windows.items() if self._is_prefetched(w)}
        is_past = self._moment is not None and (last is None or last < self._moment)
        if is_past and any(window.frame.lags for window in windows.values()):
            return None  # a window ends at a later moment than the newest event
        is_whole = len(windows) == len(self._windows)
        return prefetched(log, windows, is_whole, most, self._asked, self.settings.lateness)

    def _is_prefetched(self, window: Cursor) -> bool:
        """Return whether single events enter a window on arrival."""
        if self.is_single:
            return True
        is_held, is_usual = window.is_held or window.is_used_up, type(window.frame) in USUAL
        if not window.frame.lags:
            return (is_held or not is_usual) and not window.is_behind
        return is_held and is_usual and len(self.ready(window)) > 0

    def take_in(self, new: Events, moved: dict[str, Movement]) -> None:
        """Add single events that arrived, and update the windows that they have entered."""
        late = self._log.take_in(new)
        for name, each in moved.items():
            self._windows[name].sync(*each, late)

    # --- events in ------------------------------------------------------------------------------

    def insert(self, value: Any, time: Any) -> None:
        event = self.intake.admit(value, time)
        if event is not None:
            self.accept(*event)

    def accept(self, row: Any, micros: int | None) -> None:
        """Add an event that was already read to all windows."""
        if not self.is_single:
            self._trim()
        self._accept(row, micros, self._windows.values())
        self.intake.advance(micros)

    def _accept(self, row: Any, micros: int | None, windows: Iterable[Cursor]) -> None:
        """Store an event, and move the windows that are up to date; all or nothing."""
        log, newest = self.structure(), micros
        stamp, last, self._moment = log.stamp, self.intake.last_time, None
        if micros is not None and last is not None:
            newest = max(micros, last)  # the newest event may have been retracted
        known, before = [(w, w.front, w.end, w.floor) for w in windows], log.back
        undo = log.insert(row, micros)
        try:
            if log.stamp == stamp:
                for window, _, end, _ in known:
                    if end == before:
                        window.step(row, newest)
            else:
                self._recede(stamp)
                if self.is_single:
                    self._windows[""].settle(newest)
        except Exception:
            undo()
            self._place_again(known)
            raise

    def _place_again(self, known: Sequence[tuple[Cursor, int, int, int]]) -> None:
        """Set windows to earlier bounds, as the log has undone a change."""
        for window, front, end, floor in known:
            if not self._is_coupled:
                window.place(front, end)
                window.floor = floor

    def extend(self, values: Any, times: Any, emit: Literal["all", "last"]) -> dict[str, Any]:
        """Add a batch; return the results of each window, by its name."""
        found = self.outputs(values, times, emit)
        return {name: self.monoid.results(out) for name, out in found.items()}

    def outputs(self, values: Any, times: Any, emit: Literal["all", "last"]) -> dict[str, Rows]:
        """Add a batch; return the results of each window as rows of outputs."""
        require_emit(emit)
        outputs, each = self.monoid.outputs, emit == "all"
        rows, micros, count = self.intake.admit_batch(values, times)
        windows, room = self.windows, count if each else min(count, 1)
        outs = {name: outputs.new(room) for name in windows}
        with counting(self, count):
            self.ingest(rows, micros, 0, count, outs if each else None)
            for name, window in windows.items() if count and not each else ():
                self.ready(window).end_batch()
                self.put_result(outs[name], 0, window)
        return {name: self._as_given(out) for name, out in outs.items()} if each else outs

    def ingest(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows] | None = None,
    ) -> None:
        """Insert events of a batch chunk by chunk; write the results of each window to ``outs``."""
        log, first = self.structure(), start
        started, self._moment = log.taken, None
        if micros is not None and start < stop:
            self._begin_batch(int(micros[start]), outs is not None)
        try:
            while first < stop:
                if not self.is_single:
                    self._trim()
                most = log.most_together(stop - first, outs is not None)
                end = log.run_end(micros, first, min(first + most, stop))
                chunk = self._ingest_chunk(rows, micros, first, end, outs)
                if chunk is not None and end < stop:
                    log.keep(chunk)
                if micros is not None:  # the newest time determines what is released next
                    self.intake.advance(int(micros[end - 1]))
                first = end
        except Exception:
            self._discard_run()
            raise
        finally:
            if outs:
                log.release()
            done = log.taken - started
            if micros is not None and done:
                self.went(int(micros[start + done - 1]))
        if self.is_single and not outs:  # results must not depend on when the window is read
            self.ready(self._windows[""])

    def went(self, time: int) -> None:
        """Record that events up to a time were added, so that windows end with the last one.

        If a newer event was retracted, windows still end at the time of that event.
        """
        self.intake.advance(time)
        if self.intake.last_time != time:
            self._follow_newest()

    def _begin_batch(self, time: int, each: bool) -> None:
        """Prepare windows for events from a time on, and for results after ``each`` of them.

        If the first event is late or replaces another, windows move back: results are as of it.
        """
        log, newest = self._log, self.intake.last_time
        if not log.by_time or newest is None:
            return
        place = log.first_changed(time) if time <= newest else log.back
        for cursor in self.windows.values():
            if time < newest or place < log.back:
                cursor.recede(place)
            elif each:
                self.ready(cursor)

    def _discard_run(self) -> None:
        """Have the next access update the windows that may be ahead of the stored events."""
        log = self._log
        for window in self._windows.values():
            if window.frame.predictable and (log.by_time or window.back > log.back):
                window.fall_behind()

    def _follow_newest(self) -> None:
        """Have the next access apply the frames on positions as of the newest time so far."""
        for window in self.windows.values():
            if window.frame.positional or window.frame.merges:
                window.fall_behind()

    def _recede(self, stamp: int, chunk: Chunk | None = None) -> None:
        """Move windows back if stored events have moved since a stamp."""
        log = self._log
        if log.stamp == stamp:
            return
        stays = chunk is not None and log.moved_from >= 0 and chunk.stop == log.back
        for cursor in self.windows.values():
            if chunk is not None and stays and cursor.end == log.back:
                cursor.stay(chunk.first)
            else:
                cursor.recede(log.moved_from)

    def _ingest_chunk(
        self, rows: Rows, micros: np.ndarray | None, start: int, stop: int,
        outs: dict[str, Rows] | None,
    ) -> Chunk | None:  # fmt: skip
        """Store a chunk after the windows with predictable fronts; step the others by event.

        If the log begins where its only window does, this window is copied, and the copy replaces
        it once the events are stored.
        """
        log, chunk, run = self._log, None, dict[str, Cursor]()
        batch = Batch(self.monoid, rows, micros, stop, None)
        new = batch.part(start, stop)
        needs_steps = outs is not None and log.leaves_at_once(micros, start)
        if outs and not needs_steps:
            chunk, run = self._run(new, batch, start, outs)
        windows, stamp = self._windows.items(), log.stamp
        stepped = {n: w for n, w in windows if needs_steps or not w.frame.predictable}
        if chunk is not None and not stepped:
            unneeded = run[""].front if self._is_coupled else log.front
            log.store_chunk(new, chunk, unneeded)
        else:
            while start < stop:
                start += self._ingest_some(rows, micros, start, stop, outs, stepped)
        if self._is_coupled and run:
            self._windows[""] = cast(Aggregator, log).cursor = run[""]
        self._recede(stamp, None if stepped else chunk)
        for cursor in run.values():
            cursor.remember()
        return chunk

    def _run(
        self, new: Events, batch: Batch, start: int, outs: dict[str, Rows]
    ) -> tuple[Chunk, dict[str, Cursor]]:
        """Return a chunk, and the windows with predictable fronts after its events."""
        chunk, is_new = self._log.chunk_with(*new)
        windows, copies = self._windows.items(), self._is_coupled
        run = {n: copy(c) if copies else c for n, c in windows if c.frame.predictable}
        for name, cursor in run.items():
            into = batch.into(outs[name])
            if is_new is None:
                run_into(cursor, chunk, into, start)
            else:  # the chunk includes stored events
                into.put_new(start, results_of(cursor, chunk), chunk.count, is_new)
        return chunk, run

    def add_run(self, new: Events, following: int | None) -> tuple[Chunk, Rows, np.ndarray | None]:
        """Add events in order of time; return a chunk of them, and the results of the only window.

        The chunk includes the later stored events, up to the one that the event at the
        ``following`` time precedes. Also returns which events are new; None if all are.
        """
        log, cursor = self.structure(), self.windows[""]
        assert new.times is not None

        def end() -> int:
            return log.back if following is None else log.first_changed(following)

        self._moment, stamp = None, log.stamp
        self._begin_batch(int(new.times[0]), each=True)
        chunk, is_new = log.chunk_with(*new, end)
        outputs = results_of(cursor, chunk)
        try:
            log.store_chunk(new, chunk, log.front)
        except Exception:
            self._discard_run()
            raise
        self._recede(stamp, chunk)
        cursor.remember()
        return chunk, outputs, is_new

    def _ingest_some(
        self, rows: Rows, micros: np.ndarray | None, start: int, stop: int,
        outs: dict[str, Rows] | None, stepped: Mapping[str, Cursor],
    ) -> int:  # fmt: skip
        """Store the next events, and the results of the windows to step; return how many."""
        if not stepped:
            return self._log.extend(rows, micros, start, stop)
        time = None if micros is None else int(micros[start])
        self._accept(self.monoid.inputs.at(rows, start), time, stepped.values())
        self.intake.advance(time)  # for windows that are updated now
        for name, window in stepped.items():
            if outs:
                self.put_result(outs[name], start, window)
        return 1

    # --- snapshots and pages ----------------------------------------------------------------------

    def checkpoint(self, wait: bool = True) -> bytes:
        """Return the snapshot. Reads a page only if the oldest time is not in memory."""
        data = self.snapshot()
        if wait and self.store is not None:
            self.store.flush()
        self.retain_snapshot()
        return data

    def snapshot(self) -> bytes:
        """Return the snapshot, which the caller may still discard: no page is released."""
        if self.store is None:
            raise NotPageable("this window is only in memory (store=None); pass a store")
        self.release()
        log, intake = self.structure(), self.intake
        log.prepare()
        recipe = self._recipe() if self.has_recipe else None
        return snapshot_of(log, self._windows, intake.last_time, intake.counts, recipe).encode()

    def _recipe(self) -> Recipe:
        """Return how the windows were made; computed once for the same frames and types."""
        frames = sorted(self.frames.items())
        if self._made is None or self._made[0] != (frames, self.main):
            listed = [frame for _, frame in frames]
            made = recipe_for(self.given, listed, self.settings, types_of(self.main))
            self._made = (frames, self.main), made
        return self._made[1]

    def retain_snapshot(self) -> None:
        """Retain all current pages, as is necessary after a snapshot."""
        self.structure().retain_snapshot(self.settings.retain)

    def _require_same(self, snapshot: Snapshot) -> None:
        """Take the types of columns from a snapshot. Raises SnapshotMismatch for another monoid."""
        name, mark = snapshot.monoid
        if mark == self.monoid.fingerprint:
            return
        given, recipe = self.main, snapshot.recipe
        for monoid in named_types(given, name, recipe.types if recipe else {}):
            self._aggregate(monoid)
            if mark == self.monoid.fingerprint:
                self.retype(monoid)
                return
        self._aggregate(given)
        raise mismatch("monoid", name, self.monoid.name)

    def restore(self, snapshot: Snapshot, others: bool = False) -> None:
        """Load a snapshot into an engine without events; for a shared log, then ``place`` windows.

        With ``others``, the frame of the log's own window may replace one on counts and times.
        Raises SnapshotMismatch and CorruptSnapshot.
        """
        self._require_same(snapshot)
        has_changed = self.is_single and has_other_frame(snapshot, self.frame, self.timed, others)
        self.load(snapshot)
        if has_changed:
            self._log.recede()
            self._windows[""].settle(snapshot.last_time)

    def load(self, snapshot: Snapshot) -> None:
        """Load the events of a snapshot, whose windows are not checked."""
        self._require_same(snapshot)
        load_state(self._log, snapshot)
        intake = self.intake
        intake.newest = snapshot.last_time
        intake.late_count, intake.invalid_count, intake.ahead_count = snapshot.counts
        self.retain_snapshot()

    def require_pages_here(self) -> None:
        """Raise MissingPage if the pages of a snapshot are in the memory of another process."""
        require_first_page(self._log, self.name, self.store)

    def restore_like(self, data: bytes) -> Self:
        """Return the engine of another snapshot, with the settings and the store of this engine."""
        frames = self.frames
        decode = Snapshot.decode_single if self.is_single else Snapshot.decode_shared
        snapshot = decode(data)
        fronts = {} if self.is_single else snapshot.fronts_for(frames)
        engine = copy(self)
        engine.owns_store = False
        engine._begin(snapshot.window, *snapshot.sizes, self._log)
        engine.restore(snapshot)
        if not self.is_single:
            engine.place(frames, fronts)
        return engine

    def what(self, shape: Shape, frames: Mapping[str, Frame]) -> tuple[What, int]:
        """Return the facts that readers of published windows need, and the number of snapshots."""
        return what_of(shape, self.main, frames), self.settings.retain

    def where(self) -> str:
        """Describe where the pages are, for error messages and tables."""
        return "memory" if self.store is None else self.store.url

    # --- events out -----------------------------------------------------------------------------

    def retract(self, time: Any) -> None:
        """Remove the newest event with the given time; the next access updates cursors."""
        log, micros = by_time(self.structure(), FingerTreeLog), to_time(time)
        windows = [self.ready(cursor) for cursor in self.windows.values()]
        stamp = log.stamp
        known = [(window, window.front, window.end, window.floor) for window in windows]
        row = log.retract(micros)
        self._recede(stamp)
        try:
            for window in windows if self.is_single else ():
                window.settle(self.intake.last_time)
        except Exception:
            log.undo_retract(row, micros)
            self._place_again(known)
            raise

    def evict(self, count: Any) -> None:
        """Remove the oldest events of the log. Raises EmptyWindow."""
        number = to_count(count, "the number of events to evict")
        log = self.structure()
        log.evict_to(log.front + number)

    def _trim(self) -> None:
        """Periodically release events that no window needs, if no snapshot releases them."""
        log = self.log()
        behind = log.back - self._trimmed
        if log.discards and behind >= _TRIM_GROUPS * log.setting.leaf_arity:
            self.release()

    def release(self) -> None:
        """Release the leaf groups that no window needs."""
        if self.is_single:
            return  # its log evicts what leaves the window
        log, windows = self.log(), list(self.windows.values())
        if (keep := self.settings.keep) is not None:
            windows.append(self.cursor(keep))
        fronts = [log.needed_from(each, self.ready(each).front) for each in windows]
        leaf = log.setting.leaf_arity
        log.evict_to(min(fronts or [log.back]) // leaf * leaf)
        self._trimmed = log.back
