"""Windows that return results only when a trigger makes them due; see ``rules``.

    >>> from mta import EveryPeriod, Sum, TimeWindow, Window
    >>> window = Window(Sum(), TimeWindow("2 minutes"), name="demo")
    >>> power = TriggeredWindow(window, EveryPeriod("1 minute"))
    >>> moments, results = power.extend([1.0, 2.0, 4.0, 8.0], [10, 60, 61, 130])
    >>> moments.astype("M8[s]").tolist()[0].minute, results.tolist()
    (1, [3.0, 7.0])

Between two results, events are only inserted, one leaf group at a time. The window is evicted from
and folded once per result.

The format of the snapshot of a window with a trigger:

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, window, trigger, events, newest, given, held, open]
    magic    = "mta-triggered"
    version  = 2
    window   = bytes, the snapshot of the window itself (``mta.pages``)
    trigger  = recipe (``mta.recipes``) of the trigger
    events   = number of events accepted since the beginning
    newest   = microseconds since 1970 of the newest event, or nil
    given    = the moment of the last result that was returned, or nil
    moment   = microseconds since 1970 for a period, otherwise a number of events
    held     = [moments, columns]: results that were due when a store failed, not yet returned
    open     = columns of one row: the partial of the open slice; nil if that slice has no events
    columns  = array of [kind, bytes], as in a page

The rest of the window's state is in the snapshot of the window itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, replace
from typing import Any, Generic, NamedTuple, Self, Unpack

import numpy as np

from mta.columns.reading import plain, result_of
from mta.columns.schemas import Payload, Row, Rows, Schema
from mta.errors import CorruptPage, SnapshotMismatch
from mta.evaluators.coverage import Coverage
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid, Out
from mta.pages import corrupt
from mta.recipes import rebuilt, recipe_of
from mta.snapshots import Snapshot, entry, is_number, is_time, is_time_or_nil, seal, unseal
from mta.times import TimeUnit, in_unit, to_time
from mta.triggers.rules import (
    TRIGGERS,
    EveryPeriod,
    OnDemand,
    Stops,
    Trigger,
    TriggerProgress,
)
from mta.windows.checks import require_kind
from mta.windows.engine import Engine
from mta.windows.intake import alone
from mta.windows.public import PublicWindow
from mta.windows.settings import Changes
from mta.windows.window import Window
from stores import StoreLike


class Due(NamedTuple):
    """Results that were due, in order."""

    moments: np.ndarray
    """Boundaries as datetime64[us] for a period; otherwise numbers of events, as int64."""
    results: Any
    """The results in the form that ``Window.extend`` returns: an array, or one per column."""


class ResultsWhenDue(PublicWindow, ABC, Generic[Out]):
    """The common part of windows with a trigger: which results are due and not yet returned.

    If a store fails in the middle of a batch, the next call returns the results that were due
    before the failure, and snapshots include them until then. The error has a note about this.
    """

    #: The engine of the window, or of the window over slices.
    engine: Engine
    #: What a result aggregates.
    monoid: AbstractMonoid

    def _begin(self, engine: Engine, trigger: Trigger) -> None:
        self.engine, self.intake, self.trigger = engine, engine.intake, trigger
        if trigger.needs_times:
            self.intake.timed, self.intake.needed_by = True, trigger
        self.progress = TriggerProgress()
        #: The moments and rows of the results that are due but not yet returned.
        self._held = self._nothing()

    def _nothing(self) -> tuple[np.ndarray, Rows]:
        return np.zeros(0, "<i8"), self.monoid.outputs.new(0)

    # --- events ---------------------------------------------------------------------------------

    @alone
    def insert(self, value: Any, time: Any = None) -> list[tuple[Any, Out]]:
        """Add an event; return (moment, result) for each result that it makes due, often none.

        Costs as much as ``Window.insert``, plus one fold per result. Raises the same errors, and
        InvalidTime if the trigger needs times and the event has none.

        Args:
            value: The value; for a Product, a mapping from column to value.
            time: Seconds, or a datetime.
        """
        event = self.intake.admit(value, time)
        if event is None:
            return _pairs(self._run((), None, 0))
        row, micros = event
        if not len(self._held[0]) and self.trigger.quiet(self.progress, micros):
            self._ingest_one(row, micros)
            self._went(micros, 1)
            return []
        times = None if micros is None else np.array([micros], "<i8")
        return _pairs(self._run(self.intake.monoid.inputs.one(row), times, 1))

    @alone
    def extend(self, values: Any, times: Any = None, time_unit: TimeUnit | None = None) -> Due:
        """Add a batch of events; return all results that it makes due.

        Costs one whole-group combine per leaf group, and one eviction and one fold per result, not
        per event. Raises the errors of ``Window.extend``.

        Args:
            values: A list, numpy array, or column of pandas, polars or Arrow; for a Product, a
                mapping or table of columns.
            times: Datetimes, or numbers; needed if the frame depends on times.
            time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        """
        rows, micros, count = self.intake.admit_batch(values, in_unit(times, time_unit))
        return self._run(rows, micros, count)

    @alone
    def advance(self, time: Any) -> Due:
        """Declare that all events up to a time have arrived; return the results due by then.

        From now on, events up to the last boundary at or before ``time`` are late. Raises
        ValueError unless the trigger is an EveryPeriod.

        Args:
            time: Seconds, or a datetime.
        """
        trigger = self.trigger
        if not isinstance(trigger, EveryPeriod):
            raise ValueError(f"with {trigger!r}, no result becomes due with time; use EveryPeriod")
        moment = trigger.last_boundary(to_time(time))
        # The same results as if an event arrived immediately after that time.
        lifetime = self.engine.frame.lifetime
        plan = trigger.due(self.progress, np.array([moment + 1], "<i8"), 1, lifetime)
        due = self._follow(plan, (), None, 0)
        self.intake.advance(moment + 1)
        return due

    @alone
    def flush(self) -> Due:
        """Return the next result early, over the events so far; nothing without new events.

        The result's moment is the moment at which it will be due (a period), or the number of
        events so far. It becomes due again later, with the events that arrive until then. Use it
        for a preview, or at shutdown. Costs one fold, and changes no later result.
        """
        count = int(self.trigger.is_open(self.progress))
        moments, out = np.zeros(count, "<i8"), self.monoid.outputs.new(count)
        if count:
            moments[0] = self.trigger.next_moment(self.progress)
            self._put_open(int(moments[0]), out)
        return self._give(moments, out)

    # --- what is due ----------------------------------------------------------------------------

    def _run(self, rows: Rows, micros: np.ndarray | None, count: int) -> Due:
        if not count:
            return self._give(*self._nothing())
        plan = self.trigger.due(self.progress, micros, count, self.engine.frame.lifetime)
        return self._follow(plan, rows, micros, count)

    def _follow(self, plan: Stops, rows: Rows, micros: np.ndarray | None, count: int) -> Due:
        """Insert the events up to each stop and write its result; then insert the rest."""
        outputs, at, start, before = self.monoid.outputs, 0, 0, self.progress.events
        out = outputs.new(len(plan.stops))
        try:
            while at < len(plan.stops):
                at += self._put_next(plan, at, start, rows, micros, out)
                start = int(plan.stops[at - 1])
            self._ingest(rows, micros, start, count)
        except Exception as error:
            given = self.progress.given
            at = 0 if given is None else int(np.searchsorted(plan.moments, given, side="right"))
            self._held = self._joined(plan.moments[:at], outputs.cut(out, 0, at))
            error.add_note(
                f"{self.progress.events - before} of {count} events of the batch were accepted"
            )
            if held := len(self._held[0]):
                error.add_note(f"{held} results that were due are returned by the next call")
            raise
        return self._give(plan.moments, out)

    def _put_next(
        self, plan: Stops, at: int, start: int, rows: Rows, micros: np.ndarray | None, out: Rows
    ) -> int:
        """Insert events up to one or more stops and write their results; return how many."""
        moment = int(plan.moments[at])
        self._ingest(rows, micros, start, int(plan.stops[at]))
        self._put(moment, out, at)
        self.progress = replace(self.progress, given=moment)
        return 1

    def _went(self, micros: int | None, count: int) -> None:
        """Record that events were inserted, the last of them with a time."""
        at = self.progress
        self.progress = TriggerProgress(at.events + count, micros, at.given)
        self.intake.advance(micros)

    def _joined(self, moments: np.ndarray, out: Rows) -> tuple[np.ndarray, Rows]:
        """Return the results that are not yet returned, followed by these."""
        outputs, (held, first) = self.monoid.outputs, self._held
        if not len(held):
            return moments, out
        rows = outputs.joined((first, out), (len(held), len(moments)))
        return np.concatenate((held, moments)), rows

    def _give(self, moments: np.ndarray, out: Rows) -> Due:
        moments, out = self._joined(moments, out)
        self._held = self._nothing()
        shown = moments.view("M8[us]") if self.trigger.needs_times else moments
        return Due(shown, self.monoid.results(out))

    def _kept(self, micros: Any) -> Any:
        """Return the times if the window stores them; otherwise None."""
        return micros if self.engine.timed else None

    def _ingest_one(self, row: Row, micros: int | None) -> None:
        """Add an event that makes nothing due."""
        self.engine.accept(row, self._kept(micros))

    def _ingest(self, rows: Rows, micros: np.ndarray | None, start: int, stop: int) -> None:
        """Add events of a batch, and record how many were added."""
        if start == stop:
            return
        before = self.engine.taken()
        try:
            self.engine.ingest(rows, self._kept(micros), start, stop)
        finally:
            if done := self.engine.taken() - before:
                self._went(None if micros is None else int(micros[start + done - 1]), done)

    @abstractmethod
    def _put(self, moment: int, out: Rows, at: int) -> None:
        """Write the result at a moment."""

    def _put_open(self, moment: int, out: Rows) -> None:
        """Write the result at a moment as if no other event arrived before it."""
        self._put(moment, out, 0)

    # --- snapshots --------------------------------------------------------------------------------

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """Return a snapshot of the window, its trigger and results not yet returned.

        Works like ``Window.checkpoint``. Raises NotPageable if these results are not plain data.

        Args:
            wait: Whether to wait for the store.
        """
        moments, held = self._held
        # This may raise NotPageable, so it runs first: a new snapshot of the window may replace
        # others.
        columns = self.monoid.outputs.dump(held) if len(moments) else []
        part, trigger = self._open_slice(), recipe_of(self.trigger, TRIGGERS)
        window = self.engine.checkpoint(wait)
        return TriggeredSnapshot(
            window, trigger, self.progress, moments.tolist(), columns, part
        ).encode()

    def _open_slice(self) -> list[Payload] | None:
        """Return the partial of the open slice as columns; None without one."""
        return None

    def _restore(self, state: TriggeredSnapshot) -> None:
        """Continue from a snapshot. Raises SnapshotMismatch for another trigger."""
        if (saved := state.made_trigger()) != self.trigger:
            raise SnapshotMismatch(
                f"the snapshot has the trigger {saved!r}, not {self.trigger!r}; leave it out"
            )
        if state.moments:
            held = read_rows(self.monoid.outputs, state.columns, len(state.moments))
            self._held = np.array(state.moments, "<i8"), held
        self.progress = state.progress

    def __repr__(self) -> str:
        engine = self.engine
        what = f"{self.monoid!r} over {engine.frame!r}, {self.trigger!r}"
        held = f"{len(engine.structure())} rows in {engine.where()}"
        return f"<{type(self).__name__} {engine.name!r}: {what}, {held}>"


class TriggeredWindow(ResultsWhenDue[Out]):
    """A window that returns results when a trigger makes them due.

    The window may have any frame. A frame on times is evaluated again at each boundary, so that it
    excludes the events that have expired by then. Events must arrive in order. Raises ValueError
    for a window with ``allowed_lateness``, because late events would change results that were
    already returned, unless the trigger is ``OnDemand()``.

    Args:
        window: The window; do not use it directly afterwards.
        trigger: When results are due.

    >>> from mta import EveryCount, Max, CountWindow, TriggeredWindow, Window
    >>> peaks = TriggeredWindow(Window(Max(), CountWindow(3)), EveryCount(2))
    >>> peaks.extend([1.0, 5.0, 2.0, 3.0]).results.tolist()
    [5.0, 5.0]
    """

    engine: Engine[Out]

    def __init__(self, window: Window[Out], trigger: Trigger) -> None:
        require_kind(window, Window, "a trigger is for a Window")
        require_kind(trigger, Trigger, "a trigger is one of mta's, as EveryPeriod('1 minute')")
        self.window, self.monoid = window, window.monoid
        if window.engine.intake.lateness and not isinstance(trigger, OnDemand):
            raise ValueError(
                f"late events would change results that {trigger!r} has returned; choose "
                "allowed_lateness=0, or OnDemand()"
            )
        self._begin(window.engine, trigger)

    @alone
    def query(self) -> Out:
        """Return the result over the current window; 1 combine."""
        result: Out = self.engine.query()
        return result

    @alone
    def coverage(self) -> Coverage:
        """Return the coverage of the window, as ``Window.coverage`` does."""
        return self.engine.coverage("", self.engine.ready(self.engine.windows[""]))

    def _put(self, moment: int, out: Rows, at: int) -> None:
        if self.trigger.needs_times:
            self.engine.pass_to(moment)
        elif self.engine.frame.positional:
            self.engine.pass_to(self.progress.newest)  # may be overdue if a store failed
        self.engine.put_result(out, at)

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        store: StoreLike = "memory://",
        *,
        aggregations: AbstractMonoid[Out] | None = None,
        window: Frame | None = None,
        trigger: Trigger | None = None,
        **changes: Unpack[Changes],
    ) -> Self:
        """Return the window that a snapshot describes, as ``Window.restore`` does.

        Raises CorruptSnapshot, or SnapshotMismatch for another trigger, monoid or frame.

        Args:
            snapshot: What ``checkpoint`` returned.
            store: The store of the window: its URL, or the open store.
            aggregations: The aggregation, if it has Python functions.
            window: The frame, if it has Python functions, or another one.
            trigger: The trigger; it must be the same.
            **changes: Other settings, by the names that the constructor of ``Window`` gives them.
        """
        state = TriggeredSnapshot.decode(snapshot)
        events = Window.restore(
            state.window, store, aggregations=aggregations, window=window, **changes
        )
        restored = cls(events, state.made_trigger() if trigger is None else trigger)
        restored._restore(state)
        return restored


def _pairs(due: Due) -> list[tuple[Any, Any]]:
    """Return the moments and results as pairs; results have the types of ``Window.query``."""
    moments = due.moments
    return [
        (moment if moments.dtype.kind == "M" else plain(moment), result_of(due.results, at))
        for at, moment in enumerate(moments)
    ]


# --- snapshots ------------------------------------------------------------------------------------


MAGIC = "mta-triggered"
VERSION = 2


@dataclass(frozen=True, slots=True)
class TriggeredSnapshot:
    """The fields of a snapshot; the module describes them."""

    window: bytes
    trigger: list[Any]
    progress: TriggerProgress
    moments: list[int]
    columns: list[Payload]
    open: list[Payload] | None = None

    def made_trigger(self) -> Trigger:
        """Return the trigger. Raises CorruptSnapshot for a recipe that is not one of a trigger."""
        try:
            found: Trigger = rebuilt(self.trigger, TRIGGERS)
        except Exception as error:  # a constructor may raise anything for arguments of any kind
            raise corrupt(f"its trigger cannot be made: {error}") from error
        return found

    def encode(self) -> bytes:
        held = self.moments, self.columns
        fields = [self.window, self.trigger, *astuple(self.progress), held, self.open]
        return seal(MAGIC, VERSION, fields)

    @staticmethod
    def decode(data: bytes) -> TriggeredSnapshot:
        return unseal(data, MAGIC, VERSION, "one of a window with a trigger", _validated)


def read_rows(schema: Schema, columns: list[Payload], count: int) -> Rows:
    """Decode columns of a snapshot. Raises CorruptSnapshot if they do not match the schema."""
    rest = iter(columns)
    try:
        rows, room = schema.load(rest, count), schema.new(count)
        schema.put_many(room, 0, rows)
    except (CorruptPage, ValueError, TypeError) as error:
        raise corrupt(str(error)) from error
    if next(rest, None) is not None:
        raise corrupt("it has too many columns")
    return room


def _validated(values: list[Any]) -> TriggeredSnapshot:
    window, trigger, events, newest, given, (moments, columns), part = values
    lists = moments, columns, [] if part is None else part
    if [type(value) for value in (window, trigger, *lists)] != [bytes, list, list, list, list]:
        raise corrupt("its fields have the wrong types")
    Snapshot.decode(window)
    fits = is_number, is_time_or_nil, is_time_or_nil
    progress = TriggerProgress(*entry("progress", [events, newest, given], *fits))
    entry("moments", moments, *[is_time] * len(moments))
    return TriggeredSnapshot(window, trigger, progress, moments, columns, part)
