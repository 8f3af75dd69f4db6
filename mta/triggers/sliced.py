"""Slicing: one stored partial per slide, for windows with one result per slide.

A window of 24 hours with a result every minute consists of 1440 whole slices at each boundary. It
never needs the events of one minute separately. So the events of the *open slice* are folded into
one partial in memory. When the slice ends, the partial is inserted into a window as one row, at the
time of the boundary (or with the number of the slice). That window is an ordinary one over a monoid
whose inputs are partials (``Prelifted``). Its pages, snapshots and evictions work as in other
windows, with one row per slide instead of one row per event.

Results are exact if no slice is ever cut. So the size must be a whole number of slides, results are
due only at the ends of slices, the frame depends only on times or counts, and no event is late.
Other windows are refused, with an error that says what to use instead.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Self, Unpack

import numpy as np

from mta.columns.schemas import Payload, Row, Rows
from mta.descriptions import Recipe
from mta.frames.base import Frame
from mta.frames.shorthand import Size
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Aggregator
from mta.monoids.base import AbstractMonoid, Out, Partial, same_value
from mta.monoids.product import Shorthand, aggregation_of
from mta.snapshots import Snapshot
from mta.times import Duration, is_duration
from mta.triggers.rules import EveryCount, EveryPeriod, Stops, Trigger
from mta.triggers.triggered import ResultsWhenDue, TriggeredSnapshot, read_rows
from mta.windows.checks import read_frame
from mta.windows.engine import Engine
from mta.windows.intake import Intake
from mta.windows.saving import recipe_for
from mta.windows.settings import Changes, Nulls, OnLate, Settings, restored_settings
from stores import StoreLike

#: The most slices that are inserted together.
_CHUNK = 1 << 12


def _as_of(name: str) -> Any:
    """Return a method that calls the same method of the monoid ``of``."""
    return lambda self, *arguments: getattr(self.of, name)(*arguments)


class Prelifted(AbstractMonoid):
    """A monoid over partials of another one: its events are already aggregates."""

    def __init__(self, monoid: AbstractMonoid) -> None:
        self.of, self.name = monoid, f"{monoid.name} of slices"
        self.identity, self.empty = monoid.identity, monoid.empty
        self.inputs = self.partials = monoid.partials
        self.outputs, self.result_type = monoid.outputs, monoid.result_type
        self.commutative, self.selective = monoid.commutative, monoid.selective
        self.is_columnar, self.inverse = monoid.is_columnar, monoid.inverse
        self.combine, self.lower = monoid.combine, monoid.lower
        self.lift = same_value

    lower_rows, results, same = map(_as_of, ("lower_rows", "results", "same"))
    fold, combine_rows = map(_as_of, ("fold", "combine_rows"))
    prefixes, suffixes = map(_as_of, ("prefixes", "suffixes"))

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.of.fingerprint)

    def row(self, value: Any) -> Row:
        return value

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        return values, len(values) if count is None else count

    def is_valid(self, row: Row) -> bool:
        return True

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return None

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        return rows


class _SliceEngine(Engine):
    """The engine of a window over slices; it accepts events, and stores partials."""

    def __init__(
        self,
        given: AbstractMonoid,
        monoid: AbstractMonoid,
        frames: tuple[Frame, Frame],
        store: StoreLike | None,
        name: str,
        settings: Settings,
    ) -> None:
        """``frames`` are the frames over events and over slices."""
        of_events, of_slices = frames
        # Slices are closed in order, so no event may be late, even if the structure allows it.
        in_order = settings.in_order()
        self._reads = monoid, of_events, monoid.name, in_order
        # Nulls are handled when the events are lifted.
        lifted = replace(settings, nulls="raise", min_samples=None)
        super().__init__(Prelifted(monoid), {"": of_slices}, store, name, lifted)
        self._slices_made = recipe_for(given, [of_slices], settings, {})

    def _recipe(self) -> Recipe:
        """Return how the window over events was made."""
        return self._slices_made

    def _intake(self) -> Intake:
        return Intake(*self._reads, None if self.store is None else "partials")


class SlicedWindow(ResultsWhenDue[Out]):
    """A time or count window with a result every ``slide``, which stores one partial per slide.

    Results equal those of ``TriggeredWindow(Window(monoid, window), EveryPeriod(slide))``, or
    ``EveryCount(slide)``. An event costs 1 combine. A slide costs as much as an event of a window
    of size / slide events. Raises ValueError if slicing would give wrong results.

    Args:
        aggregations: The aggregation of values: a monoid, or a name such as "max". With columns: a
            pair such as ("watts", "max"), or several by name, as for ``Product``.
        window: A TimeWindow or a CountWindow, whose size is a whole number of slides.
        slide: A duration for a TimeWindow, a number of events for a CountWindow. By default, the
            size of the window: the window tumbles.
        store: A URL, an open store, or None to keep everything in memory, with values of any type.
        name: The name of the windows in the store, as for ``Window``.
        arity: The number of elements in a group; a full group is one page. The default depends on
            the size of a partial result, and suits a single large window.
        leaf_arity: The number of slides in a leaf group.
        aggregator: The algorithm that stores the events: by default AmortizedMTA, or FiBA if other
            settings need it. With SteadyMTA, no single event waits while a group is folded. Use it
            for expensive combines.
        on_late: Whether an event that is too late raises LateEvent or is dropped and counted.
        nulls: How to treat a null or NaN: "raise" raises InvalidValue; with "skip" the event is
            inserted, and aggregations ignore it; "drop_row" drops and counts the event; "accept"
            aggregates NaN like a number.
        min_samples: The number of values below which a result is null (None, or masked in an
            array). By default, with ``nulls="skip"``, a result without values is null. Counts
            and lists are never null.
        retain: The number of newest snapshots that can be restored.

    >>> from mta import CountWindow, SlicedWindow, Sum
    >>> sliced = SlicedWindow(Sum(), CountWindow(4), slide=2)
    >>> sliced.extend([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).results.tolist()
    [3.0, 10.0, 18.0]
    """

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        aggregations: AbstractMonoid[Out] | Shorthand,
        window: Size,
        slide: float | Duration | None = None,
        store: StoreLike | None = "memory://",
        name: str = "window",
        *,
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] | None = None,
        on_late: OnLate = "raise",
        nulls: Nulls = "raise",
        min_samples: int | None = None,
        retain: int = 2,
    ) -> None:
        settings = Settings(
            arity=arity, leaf_arity=leaf_arity, aggregator=aggregator, on_late=on_late,
            nulls=nulls, min_samples=min_samples, retain=retain,
        )  # fmt: skip
        monoid = aggregation_of(aggregations)
        self._use(monoid, *slices_of(window, slide), store, name, settings)

    def _use(
        self,
        monoid: AbstractMonoid,
        trigger: Trigger,
        over: Frame,
        store: StoreLike | None,
        name: str,
        settings: Settings,
    ) -> None:
        given, monoid = monoid, settings.aggregating(monoid)
        self.monoid, self.frame = monoid, of_slices(over, trigger)
        #: The partial of the open slice, once it has events.
        self._open, self._is_open = monoid.identity, False
        frames = self.frame, over
        self._begin(_SliceEngine(given, monoid, frames, store, name, settings), trigger)

    def _add(self, partial: Partial) -> None:
        self._open = self.monoid.combine(self._open, partial) if self._is_open else partial
        self._is_open = True

    def _ingest_one(self, row: Row, micros: int | None) -> None:
        self._add(self.monoid.lift(row))

    def _ingest(self, rows: Rows, micros: np.ndarray | None, start: int, stop: int) -> None:
        if start == stop:
            return
        monoid, size = self.monoid, stop - start
        lifted = monoid.lift_rows(monoid.inputs.cut(rows, start, stop), size)
        self._add(monoid.fold(lifted, size))
        self._went(None if micros is None else int(micros[stop - 1]), size)

    def _put_next(
        self, plan: Stops, at: int, start: int, rows: Rows, micros: np.ndarray | None, out: Rows
    ) -> int:
        """Insert whole consecutive slices together, if there are several; see the base class."""
        ends = plan.stops[at : at + _CHUNK]
        empty = np.flatnonzero(np.diff(ends, prepend=start) == 0)
        ends = ends[: empty[0]] if len(empty) else ends
        if self._is_open or len(ends) < 2:
            return super()._put_next(plan, at, start, rows, micros, out)
        monoid, engine, moments = self.monoid, self.engine, plan.moments[at : at + len(ends)]
        outputs, events = monoid.outputs, int(ends[-1]) - start
        lifted = monoid.lift_rows(monoid.inputs.cut(rows, start, start + events), events)
        partials, results = fold_slices(monoid, lifted, ends - start), outputs.new(len(ends))
        before, given = engine.taken(), 0
        try:
            engine.ingest(partials, self._kept(moments), 0, len(ends), {"": results})
            given = len(ends)
        except Exception:
            # The result of the last inserted slice may be missing; then it is overdue.
            given = max(engine.taken() - before - 1, 0)
            raise
        finally:
            if closed := engine.taken() - before:
                end = int(ends[closed - 1])
                self._went(None if micros is None else int(micros[end - 1]), end - start)
            if given:
                outputs.put_many(out, at, outputs.cut(results, 0, given))
                self.progress = replace(self.progress, given=int(moments[given - 1]))
        return len(ends)

    def _put(self, moment: int, out: Rows, at: int) -> None:
        """Close the open slice at a moment, if it has events, and fold the window."""
        if self._is_open:
            self.engine.accept(self._open, self._kept(moment))
            self._open, self._is_open = self.monoid.identity, False
        elif self.trigger.needs_times:
            self.engine.pass_to(moment)
        self.engine.put_result(out, at)

    def _put_open(self, moment: int, out: Rows) -> None:
        """Write the fold of the open slice and the slices before it in the window."""
        engine, structure, monoid = self.engine, self.engine.structure(), self.monoid
        if self.trigger.needs_times:
            engine.pass_to(moment)
        elif isinstance(engine.frame, CountWindow):
            structure.evict_to(structure.back + 1 - engine.frame.size)
        fold, count = engine.current(engine.windows[""])
        whole = monoid.combine(fold, self._open) if count else self._open
        engine.put_fold(whole, 1, out, 0)

    # --- snapshots --------------------------------------------------------------------------------

    def _open_slice(self) -> list[Payload] | None:
        partials = self.monoid.partials
        return partials.dump(partials.one(self._open)) if self._is_open else None

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        store: StoreLike = "memory://",
        *,
        aggregations: AbstractMonoid[Out] | Shorthand | None = None,
        window: Size | None = None,
        slide: float | Duration | None = None,
        **changes: Unpack[Changes],
    ) -> Self:
        """Return the window that a snapshot describes, as ``Window.restore`` does.

        Raises CorruptSnapshot, or SnapshotMismatch for another monoid, frame or slide.

        Args:
            snapshot: What ``checkpoint`` returned.
            store: The store of the window: its URL, or the open store.
            aggregations: The aggregation, if it has Python functions.
            window: The frame; it must be the same.
            slide: The slide; it must be the same.
            **changes: Other settings, by the names that the constructor gives them.
        """
        state = TriggeredSnapshot.decode(snapshot)
        slices = Snapshot.decode_single(state.window)
        settings = restored_settings(cls, slices, changes)
        given = slices.made().made_aggregation() if aggregations is None else aggregations
        monoid = aggregation_of(given)
        trigger, over = state.made_trigger(), slices.made_frames()[""]
        if window is not None or slide is not None:
            own = of_slices(over, trigger)
            trigger, over = slices_of(own if window is None else window, slide)
        restored = cls.__new__(cls)
        restored._use(monoid, trigger, over, store, slices.window, settings)
        restored.engine.restore(slices)
        restored._restore(state)
        if state.open is not None:
            partials = restored.monoid.partials
            restored._add(partials.at(read_rows(partials, state.open, 1), 0))
        return restored


def of_slices(over: Frame, trigger: Trigger) -> Frame:
    """Return the frame over events of a frame over the slices between results."""
    if isinstance(over, CountWindow) and isinstance(trigger, EveryCount):
        return CountWindow(over.size * trigger.count)
    return over


def fold_slices(monoid: AbstractMonoid, rows: Rows, ends: np.ndarray) -> Rows:
    """Return the aggregate of each slice of rows; ``ends`` has the end of each, none empty.

    Takes one combine per row, minus one per slice. Each whole-group combine joins neighbors in
    all slices, so their number is log2 of the length of the longest slice.
    >>> from mta import Sum
    >>> fold_slices(Sum(), np.array([1.0, 2.0, 3.0, 4.0]), np.array([3, 4])).tolist()
    [6.0, 4.0]
    """
    schema, sizes = monoid.partials, np.diff(ends, prepend=0)
    starts = ends - sizes
    while (sizes > 1).any():
        halves = (sizes + 1) // 2
        begins = np.cumsum(halves) - halves
        offsets = 2 * (np.arange(halves.sum()) - np.repeat(begins, halves))
        left = np.repeat(starts, halves) + offsets
        pairs = np.flatnonzero(offsets + 1 < np.repeat(sizes, halves))
        first = left[pairs]
        joined = monoid.combine_rows(
            schema.take(rows, first), schema.take(rows, first + 1), len(pairs)
        )
        rows = schema.take(rows, left)
        schema.put_at(rows, pairs, joined)
        starts, sizes = begins, halves
    return rows


def slices_of(window: Size, slide: float | Duration | None) -> tuple[Trigger, Frame]:
    """Return the trigger at the ends of slices, and the frame over slices. Raises ValueError."""
    frame = read_frame(window)
    trigger: Trigger
    over: Frame
    if frame.lags or (isinstance(frame, TimeWindow) and frame.closed != "right"):
        raise ValueError(
            f"slices end where windows do, and those of {frame!r} may begin or end within one: "
            "use TriggeredWindow"
        )
    if type(frame) is TimeWindow:
        by_time = EveryPeriod(timedelta(microseconds=frame.size) if slide is None else slide)
        trigger, over, size, part = by_time, frame, frame.size, by_time.period
    elif type(frame) is CountWindow:
        if is_duration(slide):
            raise ValueError(f"the slide of a count window is a number of events, not {slide!r}")
        by_count = EveryCount(frame.size if slide is None else slide)  # type: ignore[arg-type]
        size, part = frame.size, by_count.count
        trigger, over = by_count, CountWindow(max(size // part, 1))
    else:
        raise ValueError(
            f"slices are for a TimeWindow or a CountWindow: {frame!r} may cut one; use "
            "TriggeredWindow"
        )
    if size % part:
        raise ValueError(
            f"the size of {frame!r} is not a multiple of the slide of {trigger!r}, so slices "
            "would be cut; choose a slide that divides it, or use TriggeredWindow"
        )
    return trigger, over
