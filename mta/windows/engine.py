"""The internals of a window: its intake, the structure with its events, and its snapshots.

``Engine`` has what all kinds of windows share. ``WindowEngine`` adds the frame that slides a
single window; ``shared_engine`` does so for multiple windows. The attribute ``engine`` of a public
class such as ``Window`` is not public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from math import nan
from sys import maxsize
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Rows
from mta.descriptions import Recipe
from mta.errors import (
    CorruptPage,
    CorruptSnapshot,
    InvalidTime,
    InvalidValue,
    NotPageable,
    SnapshotMismatch,
    UnsupportedOperation,
)
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.coverage import Coverage, coverage_of
from mta.evaluators.fiba import FiBA
from mta.evaluators.observed import WindowView
from mta.folds.sliding import Events
from mta.frames.base import NEWEST, Both, Frame
from mta.frames.bounds import CustomFrame
from mta.frames.known import frame_of
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Aggregator, Batch, EventLog, Setting
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.ranges import fold_between, fold_positions
from mta.monoids.base import AbstractMonoid, Out, Partial, as_output, same_value
from mta.monoids.following import following, named_types
from mta.monoids.product import Observed
from mta.pages import NAME, NO_NAME, corrupt, key_of, require_here
from mta.publishing.publisher import Publishable
from mta.publishing.records import Shape, What, what_of
from mta.snapshots import Snapshot, WindowState
from mta.times import TimeUnit, to_count, to_time
from mta.windows.display import html_table
from mta.windows.intake import Intake, alone, busy, close_for_good, require_emit
from mta.windows.moments import asked
from mta.windows.settings import Settings
from mta.windows.single import SECOND, UNIT, UNKNOWN, Ahead, Asked, SingleEvents
from mta.windows.stack import Movement, WindowAhead
from stores import PageStore, StoreLike, open_store

_Log = TypeVar("_Log", bound=FingerTreeLog)
T = TypeVar("T")


class PublicWindow:
    """The base of the public classes. As a context manager, it closes the window at the end."""

    engine: Engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the window, as ``close`` does. Events after the last checkpoint are lost."""
        self.close()

    @alone
    def check(self) -> None:
        """Assert every invariant of the structure, reading all pages. Raises InvariantViolation."""
        self.engine.structure().check()

    def close(self) -> None:
        """End the use of this window, and close the store if the window opened it; pages stay.

        Every later call raises StoreClosed. Closing twice is harmless.
        """
        engine = self.engine
        close_for_good(engine)
        if engine.store is not None and engine.owns_store:
            engine.store.close()


class EventsWindow(Publishable, PublicWindow, ABC, Generic[Out]):
    """The base of the public classes whose structure stores the events."""

    engine: Engine[Out]
    _single: SingleEvents

    @classmethod
    def _of(cls, engine: Engine) -> Self:
        window = object.__new__(cls)
        window._use(engine)
        return window

    def _use(self, engine: Any) -> None:
        self.engine, self.name, self.store = engine, engine.name, engine.store
        self.monoid, self._single = engine.main, engine.single

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event, and evict events outside each frame. Amortized O(1) combines per window.

        Raises InvalidValue, InvalidTime, LateEvent, or an error of the store. If it raises, nothing
        changes.

        Args:
            value: The value. For a Product, a mapping from column to value.
            time: Seconds, or a datetime. Required if a frame depends on times.
        """
        single, micros = self._single, 0.0
        if single.owner.busy:
            raise busy(single.owner)
        if single.timed:  # rounds half to even; NaN is not between any times
            micros = (time * SECOND + UNIT) - UNIT if time.__class__ is float else nan
        try:
            shown = single.event(value, micros)
        except InvalidValue:
            self._following(lambda: self._single.insert(value, time), _as_batch(value))
            return
        if shown is None:
            self._following(lambda: self._single.insert(value, time), _as_batch(value))
            return
        single.shown = shown
        if single.timed and micros > single.intake.newest:  # type: ignore[operator]
            single.intake.newest = micros

    def _following(self, call: Callable[[], T], values: Any) -> T:
        """Return the result of a call that adds values; take the types of columns from the first.

        If no value is added, the types stay open.
        """
        engine, main = self.engine, self.engine.main
        try:
            return call()
        except InvalidValue:
            if not engine.follow(values):
                raise
        self._use(engine)
        try:
            return call()
        except Exception:
            if not engine.taken():
                engine.retype(main)
                self._use(engine)
            raise

    @abstractmethod
    def _rows(self) -> list[tuple[str, Any]]:
        """Return the names and values to show in a notebook."""

    def _repr_html_(self) -> str:
        return html_table(repr(self), self._rows())

    @property
    def last_accepted(self) -> np.ndarray | None:
        """Which events of the last batch were accepted; None if all were."""
        return self.engine.intake.last_accepted

    @alone
    def range(self, after: Any, until: Any, partial: bool = False) -> Out:
        """Return the result of the events with after < t <= until; ``empty`` if there are none.

        ``range(now - size, now)`` has the events of a time window of that size. Costs O(arity * log
        n) combines and at most two page reads per level; with PagedFlatFAT and
        PagedReactiveAggregator, O(log n) combines, plus ``arity`` for each page read. Raises
        InvalidTime, and EventsGone if some events of the range were evicted.

        Args:
            after: Seconds, or a datetime. Excludes events at this time.
            until: Seconds, or a datetime. Includes events at this time.
            partial: Whether to return the result of the remaining events if some were evicted.

        >>> from mta import Max, TimeWindow, Window
        >>> window = Window(Max(), TimeWindow("1 hour"), name="ranges")
        >>> _ = window.extend([3.0, 1.0, 4.0, 1.0, 5.0], [0, 600, 1200, 1800, 2400])
        >>> window.range(0, 1800), window.range_by_position(1, 2)
        (4.0, 1.0)
        """
        engine = self.engine
        if not engine.timed:
            raise InvalidTime(
                "these events have no times: query by position, or set retain_for= "
                "(for SharedWindows timed=True)"
            )
        events = engine.structure().remembered()
        return engine.lowered(*fold_between(events, to_time(after), to_time(until), partial))

    @alone
    def range_by_position(self, start: int, stop: int, partial: bool = False) -> Out:
        """Return the result of the events from one position to another, at the cost of ``range``.

        Positions count accepted events from 0, in the order of the log. The newest event is at
        ``stats().inserted - 1``. Raises ValueError, and EventsGone if some events were evicted.

        Args:
            start: The position of the first event.
            stop: The position after the last event.
            partial: Whether to return the result of the remaining events if some were evicted.
        """
        start, stop = to_count(start, "a position"), to_count(stop, "a position")
        events = self.engine.structure().remembered()
        return self.engine.lowered(*fold_positions(events, start, stop, partial))

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """Write all pages to the store, and return a snapshot of a few kilobytes.

        Save the snapshot before you take the next one, which deletes the pages that none of the
        last ``retain`` snapshots needs. If ``checkpoint`` fails, you can still restore all of
        these. Costs one flush, and the deletion of pages of evicted events. Raises NotPageable.

        Args:
            wait: Whether to wait for the store. If not, call the store's ``flush`` before you use
                the snapshot.
        """
        if self._publisher is not None:
            self._publisher.settle()
        data = self.engine.checkpoint(wait or self._publisher is not None)
        if self._publisher is not None:
            self._publisher.publish(data, self._what()[0])
        return data

    @alone
    def snapshot(self) -> bytes:
        """Return a snapshot as ``checkpoint`` does, for callers that save several together.

        Call ``retain_snapshot`` after you save them and before the next event.
        """
        return self.engine.snapshot()

    def retain_snapshot(self) -> None:
        """Retain the pages of the snapshot that was just saved, as set by ``retain``."""
        self.engine.retain_snapshot()

    @alone
    def delete_pages(self) -> None:
        """Delete every page. Do not use the window or its snapshots afterwards."""
        self.engine.structure().delete_pages()


class Engine(Generic[Out]):
    """The events of one stream: monoid, intake, structure and store.

    ``frame`` is the frame in snapshots. For multiple windows it represents all of them.
    """

    #: The logs that settings choose from: in order of arrival, and in order of time.
    _logs: tuple[type[EventLog], type[EventLog]] = (AmortizedMTA, FiBA)
    #: Whether snapshots say how the windows were made. The windows of many keys share one recipe.
    has_recipe = True
    #: The aggregation, before the settings adapt it to nulls.
    given: AbstractMonoid
    #: Whether a call is in progress, or none is accepted any more.
    busy: bool

    def __init__(
        self,
        monoid: AbstractMonoid[Out],
        frame: Frame,
        store: StoreLike | None,
        name: str,
        settings: Settings,
    ) -> None:
        require_monoid(monoid)
        self.given = monoid
        monoid = settings.aggregating(monoid)
        require_frame(frame)
        opened = require_store(store)
        require_kind(name, str, "a window's name is text")
        if not NAME.fullmatch(name):
            raise ValueError(f"a window's name is 1 to 100 of A-Z a-z 0-9 . _ : -, not {name!r}")
        self.frame, self.settings = frame, settings
        self._aggregate(monoid)
        #: The log that keeps the events.
        self.kind = settings.log(*self._logs)
        self.timed = frame.needs_times or self.kind.by_time
        sizes = settings.group_sizes(self.kind, self.monoid, self.timed)
        self.store, self.owns_store = opened, opened is not store
        self._begin(name, *sizes)

    def _aggregate(self, monoid: AbstractMonoid[Out]) -> None:
        #: The monoid of the results; ``monoid`` also computes what frames observe.
        self.main = monoid
        observed = [(columns, observer) for _, columns, observer in self.frame.observers]
        self.monoid = Observed(monoid, observed) if observed else monoid

    def retype(self, monoid: AbstractMonoid[Out]) -> None:
        """Start again without events, with the monoid for other types of columns."""
        self._aggregate(monoid)
        busy, counts = self.busy, self.intake.counts
        self._begin(self.name, *self.settings.group_sizes(self.kind, self.monoid, self.timed))
        self.busy, intake = busy, self.intake
        intake.late_count, intake.invalid_count, intake.ahead_count = counts

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
        """Start without events, under a name; ``like`` is the structure of a similar engine."""
        settings, self.name = self.settings, name
        setting = Setting(
            self.monoid, self.store, name, leaf_arity, arity,
            self.timed, self.frame, settings.lateness or 0, settings.on_duplicate,
            settings.retained,
        )  # fmt: skip
        self._structure: EventLog = self.kind(setting) if like is None else like.empty_like(setting)
        self.intake = self._intake()
        self.busy = False
        #: Whether the window was closed.
        self.closed = False

    def _intake(self) -> Intake:
        paged: Literal["events"] | None = None if self.store is None else "events"
        return Intake(self.monoid, self.frame, self.main.name, self.settings, paged)

    def structure(self) -> EventLog:
        """Return the structure, after all pending insertions and evictions."""
        return self._structure

    def taken(self) -> int:
        """A number that grows with every accepted event. No store call."""
        return self.structure().taken

    # --- results --------------------------------------------------------------------------------

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

    def as_given(self, out: Rows) -> Any:
        """Return the results of a batch in the order in which the caller passed its events."""
        outputs, order = self.monoid.outputs, self.intake.order
        if order is not None:
            in_order, out = out, outputs.new(len(order))
            outputs.put_at(out, order, in_order)
        return self.monoid.results(out)

    @contextmanager
    def counting(self, count: int) -> Iterator[None]:
        """Add a note to an error, with the number of accepted events of a batch."""
        before = self.taken()
        try:
            yield
        except Exception as error:
            done = self.taken() - before
            error.add_note(f"{done} of {count} events of the batch were accepted")
            raise

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
        structure, intake = self.structure(), self.intake
        structure.prepare()
        setting = structure.setting
        return Snapshot(
            window=setting.window,
            algorithm=structure.name,
            monoid=(self.monoid.name, self.monoid.fingerprint),
            leaf_arity=setting.leaf_arity,
            arity=setting.arity,
            timed=setting.timed,
            front=structure.front,
            back=structure.back,
            front_time=structure.oldest_time() if setting.timed else None,
            last_time=intake.last_time,
            counts=intake.counts,
            levels=structure.height,
            pages=structure.page_count,
            windows=self._window_states(),
            state=structure.write_state(),
            recipe=self._recipe() if self.has_recipe else None,
        ).encode()

    def _recipe(self) -> Recipe:
        """Return how the windows were made."""
        frames = sorted(self.frames.items())
        return self._recipe_of(self.given, [frame for _, frame in frames], self.settings)

    @staticmethod
    def _recipe_of(given: AbstractMonoid, frames: list[Frame], settings: Settings) -> Recipe:
        sizes = ("arity", "leaf_arity")  # fields of the snapshot
        saved = {name: value for name, value in settings.given().items() if name not in sizes}
        return Recipe.of(given, frames, saved)

    @property
    def frames(self) -> dict[str, Frame]:
        """The frame of each window by its name; a single window has the name ""."""
        return {"": self.frame}

    def _window_states(self) -> list[WindowState]:
        """Return the windows as a snapshot has them, in the order of their names."""
        return []

    def retain_snapshot(self) -> None:
        """Retain all current pages, as is necessary after a snapshot."""
        self.structure().retain_snapshot(self.settings.retain)

    def _require_same(self, snapshot: Snapshot) -> None:
        """Take the types of columns from a snapshot. Raises SnapshotMismatch for another monoid."""
        name, mark = snapshot.monoid
        if mark == self.monoid.fingerprint:
            return
        given = self.main
        for monoid in named_types(given, name):
            self._aggregate(monoid)
            if mark == self.monoid.fingerprint:
                self.retype(monoid)
                return
        self._aggregate(given)
        raise _mismatch("monoid", name, self.monoid.name)

    def restore(self, snapshot: Snapshot) -> None:
        """Load a snapshot into an engine without events.

        Raises SnapshotMismatch and CorruptSnapshot.
        """
        self._require_same(snapshot)
        structure = self.structure()
        if snapshot.algorithm != structure.name or snapshot.timed != structure.setting.timed:
            raise _mismatch("aggregator", snapshot.algorithm, structure.name)
        try:
            with np.errstate(all="ignore"):  # LogMTA folds its left branch
                structure.restore_state(snapshot)
        except CorruptSnapshot:
            raise
        except (CorruptPage, ValueError, TypeError) as error:
            raise corrupt(str(error)) from error
        intake = self.intake
        intake.newest = snapshot.last_time
        intake.late_count, intake.invalid_count, intake.ahead_count = snapshot.counts
        self.retain_snapshot()

    def require_pages_here(self) -> None:
        """Raise MissingPage if the pages of a snapshot are in the memory of another process."""
        needed = (page for page in self.structure().pages() if page.needed and page.name != NO_NAME)
        first = next(needed, None)
        if first is not None:
            key = key_of(self.name, first.level, first.number, first.name)
            require_here(self.store, key)

    def restore_like(self, snapshot: Snapshot) -> Self:
        """Return the engine of another snapshot, with the settings and the store of this engine."""
        engine = copy(self)
        engine.owns_store = False
        engine._begin(snapshot.window, snapshot.leaf_arity, snapshot.arity, self.structure())
        engine.restore(snapshot)
        return engine

    def what(self, shape: Shape, frames: Mapping[str, Frame]) -> tuple[What, int]:
        """Return the facts that readers of published windows need, and the number of snapshots."""
        return what_of(shape, self.main, frames), self.settings.retain

    def where(self) -> str:
        """Describe where the pages are, for error messages and tables."""
        return "memory" if self.store is None else self.store.url


class WindowEngine(Engine[Out]):
    """The engine of a single window, which its frame slides."""

    _structure: Aggregator

    def _begin(self, name: str, leaf_arity: int, arity: int, like: EventLog | None = None) -> None:
        super()._begin(name, leaf_arity, arity, like)
        frame, aggregator = self.frame, self.kind
        if not issubclass(aggregator, Aggregator):
            raise TypeError(f"an aggregator is a class such as AmortizedMTA, not {aggregator!r}")
        if self.settings.keep is not None:
            raise TypeError("retain_for= takes a duration; SharedWindows take a frame too")
        if frame.end != NEWEST and not issubclass(aggregator, (AmortizedMTA, FiBA)):
            raise ValueError(
                f"{aggregator.name} folds up to the newest event, but {frame!r} ends before it: "
                "leave aggregator= out"
            )
        #: The moment of the last query after the newest event, if any since that event.
        self._moment: int | None = None
        self._view = WindowView(self._structure, [observer for observer, _, _ in frame.observers])
        is_newest = frame.end == NEWEST
        self._size = frame.size if type(frame) is CountWindow and is_newest else None
        #: Whether events were added since a frame on positions was last applied.
        self._is_behind = False
        self._asked: Asked | None = None
        self.single = self._singles(self.store is not None)

    def _singles(self, paged: bool) -> SingleEvents:
        # With ``max_ahead``, each time must be compared with the clock.
        any_time = self.settings.max_ahead is None
        self._asked = self._as_asked()
        usual = self._asked is not None or type(self.frame) in (CountWindow, TimeWindow)
        return SingleEvents(self, usual and any_time, paged, self._asked)

    def ahead(self, most: int) -> Ahead | None:
        (structure, length), frame, asked = self._placed(), self.frame, self._asked
        if self._moment is not None and frame.end != NEWEST:
            return None  # the window ends at a later moment than the newest event
        # Under a frame on an aggregate, only the frame may move the front.
        found = structure.prefetched(most if asked is None else 0)
        if found is None:
            return None
        if asked is not None:
            found = found._replace(turns=False)
        if isinstance(frame, TimeWindow):
            size = frame.lifetime
        elif isinstance(frame, CountWindow):
            size = frame.size
        else:
            size = maxsize if asked is None else asked.size
        by_count = not isinstance(frame, TimeWindow)
        return Ahead({"": WindowAhead(size, by_count, length, found)}, found.room, found.late_from)

    def _placed(self) -> tuple[Aggregator, int]:
        """Return the structure, and the current number of events in its window."""
        structure, time = self.structure(), self.intake.last_time
        if time is not None and self._moment is not None:
            time = max(time, self._moment)
        return structure, structure.end_at(time) - structure.front

    def write_back(self, new: Events, moved: dict[str, Movement]) -> None:
        self._structure.sync(new, *moved[""])

    def _as_asked(self) -> Asked | None:
        """Return the frame if it is one on an aggregate, alone or ``|`` a count; else None."""
        frame, view, size = self.frame, self._view, maxsize
        if isinstance(frame, Both) and frame.any_of:
            for count, other in ((frame.one, frame.other), (frame.other, frame.one)):
                if type(count) is CountWindow:
                    frame, size = other, count.size
        if self.timed or not isinstance(frame, CustomFrame) or not frame.is_searched:
            return None
        monoid, pick = view.lens(frame)
        lower = monoid.lower
        total = lower if pick is same_value else lambda fold: lower(pick(fold))

        def stays() -> Any:
            """Return the value for which nothing is evicted, after updating the window."""
            return view.kept_total(frame) if len(self.structure()) else None

        return Asked(size, total, stays)

    def structure(self) -> Aggregator:
        """Return the structure, after all pending insertions and evictions.

        If an earlier call failed between an insertion and its eviction, this repeats the eviction.
        So every caller finds the window as its frame says, or gets the error of the store.
        """
        self.single.write_back()
        self._sync()
        return self._structure

    def _sync(self) -> None:
        """Evict pending events. One page read per level."""
        if self._is_behind:
            self._structure.slide_to(self.frame.cut(self._view, self.intake.last_time))
            self._is_behind = False

    def taken(self) -> int:
        self.single.write_back()
        return self._structure.taken

    @classmethod
    def restored(
        cls,
        state: Snapshot,
        monoid: AbstractMonoid[Out],
        frame: Frame,
        store: StoreLike,
        settings: Settings,
    ) -> Self:
        engine = cls(monoid, frame, store, state.window, settings)
        engine.restore(state, others=True)
        engine.require_pages_here()
        return engine

    def restore(self, snapshot: Snapshot, others: bool = False) -> None:
        """Load a snapshot; with ``others``, this frame may replace one on counts and times."""
        self._require_same(snapshot)
        (window,), frame = snapshot.windows, self.frame
        has_changed = window.fingerprint != frame.fingerprint
        if has_changed:
            is_known = frame.positional and frame_of(window.frame, window.fingerprint) is not None
            if not (others and is_known):
                raise _mismatch("frame", window.frame, frame.describe())
            if snapshot.timed != self.timed:
                was, now = _timed(snapshot.timed), _timed(self.timed)
                raise _mismatch("frame", f"{window.frame}, so {was}", f"{frame!r}, so {now}")
        super().restore(snapshot)
        if has_changed:
            self._structure.recede()
            self.pass_to(snapshot.last_time)

    def _window_states(self) -> list[WindowState]:
        frame = self.frame
        return [WindowState("", frame.describe(), frame.fingerprint, self._structure.front)]

    def coverage(self) -> Coverage:
        structure, time = self.structure(), self.intake.last_time if self.timed else None
        late = self.settings.lateness or 0
        found = coverage_of(
            "", structure.remembered(), self.frame, structure.front, structure.back, time,
            self._view.lens, late,
        )  # fmt: skip
        if not (self.frame.positional or self.frame.merges):  # no other frame can replace it
            found = replace(found, incomplete=(), missing_at_least=0, missing_at_most=0)
        return replace(found, events=len(self))

    # --- events ---------------------------------------------------------------------------------

    def insert(self, value: Any, time: Any) -> None:
        event = self.intake.admit(value, time)
        if event is not None:
            self.accept(*event)

    def accept(self, row: Any, micros: int | None) -> None:
        """Add an event that was already read, and evict events as the frame says."""
        self._moment, structure, newest = None, self.structure(), micros
        if self._size is not None:
            structure.slide(row, micros, self._size)
        else:
            if micros is not None and (last := self.intake.last_time) is not None:
                newest = max(micros, last)
            structure.insert(row, micros)
            structure.settle(lambda: self.frame.cut(self._view, newest))
        self.intake.advance(micros)

    def extend(self, values: Any, times: Any, emit: Literal["all", "last"]) -> Any:
        require_emit(emit)
        rows, micros, count = self.intake.admit_batch(values, times)
        if emit == "all":
            out = self.monoid.outputs.new(count)
            with self.counting(count):
                self.slide(rows, micros, count, out)
            return self.as_given(out)
        out = self.monoid.outputs.new(min(count, 1))
        if count:
            with self.counting(count):
                self.ingest(rows, micros, 0, count)
                self.put_result(out, 0)
        return self.monoid.results(out)

    def slide(self, rows: Rows, micros: np.ndarray | None, count: int, out: Rows) -> None:
        """Insert, evict and query in runs, or one by one if no cut is predictable."""
        self._moment = None
        batch, done = Batch(self.monoid, rows, micros, count, out), 0
        try:
            while done < count:
                step = self.structure().run(batch, done)
                if step == 0:
                    time = None if micros is None else int(micros[done])
                    self.accept(self.monoid.inputs.at(rows, done), time)
                    self.put_result(out, done)
                    step = 1
                done += step
        finally:
            if micros is not None and done:
                self.went(int(micros[done - 1]))

    def went(self, time: int) -> None:
        """Record that events up to a time were added, so that the window ends with the last one.

        If a newer event was retracted, the window still ends at the time of that event.
        """
        self.intake.advance(time)
        if self.intake.last_time != time:
            self._is_behind = self.frame.positional or self.frame.merges

    def ingest(self, rows: Rows, micros: np.ndarray | None, start: int, stop: int) -> None:
        """Insert events without results. A frame on positions evicts once, by its last cut."""
        done, structure = start, self.structure()
        self._moment = None
        try:
            while done < stop:
                if self.frame.positional:
                    done += structure.extend(rows, micros, done, stop)
                    self._is_behind = True
                else:
                    time = None if micros is None else int(micros[done])
                    self.accept(self.monoid.inputs.at(rows, done), time)
                    done += 1
        finally:
            if micros is not None and done > start:
                self.intake.advance(int(micros[done - 1]))
        self._sync()

    def pass_to(self, micros: int | None) -> None:
        """Apply a frame on times or positions at a moment without an event."""
        self._moment = micros
        if (self.frame.positional or self.frame.needs_times) and len(self.structure()):
            self.structure().slide_to(self.frame.cut(self._view, micros))

    # --- results --------------------------------------------------------------------------------

    def put_results(self, outs: Sequence[Rows], at: int, moment: int | None = None) -> None:
        """Write the result into a row of outputs, as of the newest event or a later moment."""
        if moment is not None:
            self.pass_to(moment)
        self.put_result(outs[0], at)

    def query(self, which: str = "", partial: bool = False) -> Out:
        del which, partial  # there is only one window
        found: Out = self.single.found("")
        if found is not UNKNOWN:
            return found
        fold, count = self.current()
        if not count:
            return self.monoid.empty
        self.single.note(fold)
        result: Out = self.single.found("")
        return result

    def query_at(self, which: str, partial: bool, at: Any, unit: TimeUnit | None) -> Any:
        del which
        return asked(self, self.frame, at, unit, self.query, partial)

    def evict(self, count: Any) -> None:
        number = to_count(count, "the number of events to evict")
        structure = self.structure()
        structure.evict_to(structure.front + number)

    def retract(self, time: Any) -> None:
        structure, micros = by_time(self.structure(), FiBA), to_time(time)
        row = structure.retract(micros)
        try:
            if len(structure):
                structure.slide_to(self.frame.cut(self._view, self.intake.last_time))
        except Exception:
            structure.write_back(row, micros)
            raise

    def put_result(self, out: Rows, at: int) -> None:
        """Write the result of the window into a row of outputs. 1 combine."""
        self.put_fold(*self.current(), out, at)

    def current(self) -> tuple[Partial, int]:
        """Return the aggregate of the window and its number of events.

        1 combine, and 1 for each event that has entered a frame that ends before the newest event.
        """
        structure, count = self._placed()
        return (structure.query() if count else None), count

    def __len__(self) -> int:
        length = self.single.length()
        return self._placed()[1] if length is None else length


def by_time(structure: EventLog, kind: type[_Log]) -> _Log:
    """Return the structure, which must order events by time. Raises UnsupportedOperation."""
    if isinstance(structure, kind):
        return structure
    raise UnsupportedOperation(
        f"{structure.name} inserts events in order and evicts the oldest first: for retractions "
        "set allowed_lateness, even 0"
    )


def require_monoid(monoid: Any) -> None:
    """Raise TypeError for anything but a monoid."""
    require_kind(monoid, AbstractMonoid, "a monoid is one of mta's, or a Monoid of your own")


def require_frame(frame: Any) -> None:
    """Raise TypeError for anything but a frame, ValueError for ``ties="peers"``."""
    require_kind(frame, Frame, "a frame is one of mta's, or a CustomFrame of your own")
    if frame.ties != "rows":
        raise ValueError(
            f"{frame!r} includes all events at the time of the last event, and more of them "
            "may still come: use ties='peers' in rolling and batches, which have all events; leave "
            "ties= out here"
        )


def require_store(store: StoreLike | None) -> PageStore | None:
    """Open a store, unless it is open already. Raises TypeError and InvalidStoreURL."""
    require_kind(store, StoreLike | None, "a store is a URL, a Path, an open store, or None")
    return None if store is None else open_store(store)


def require_kind(value: Any, kind: Any, message: str) -> None:
    """Raise TypeError for a value of another kind, or for the class itself."""
    if isinstance(value, type) and issubclass(value, kind):
        raise TypeError(f"{message}, and {value.__name__} is a class: write {value.__name__}()")
    if not isinstance(value, kind):
        raise TypeError(f"{message}, not {value!r}")


def _timed(timed: bool) -> str:
    return "events have times" if timed else "events have no times"


def _mismatch(what: str, in_snapshot: str, given: str) -> SnapshotMismatch:
    return SnapshotMismatch(
        f"the snapshot was made with the {what} {in_snapshot}, not with {given}; restore with the "
        "same one, or start a new window"
    )


def _as_batch(value: Any) -> Any:
    """Return one value as a batch."""
    if isinstance(value, Mapping):
        return {name: [each] for name, each in value.items()}
    return tuple([each] for each in value) if isinstance(value, tuple) else [value]
