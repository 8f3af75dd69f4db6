"""The window: a monoid, a frame, an aggregator and a store behind one small interface.

A window processes one call at a time (WindowBusy). Windows can share a store safely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, Unpack, overload

import numpy as np

from mta.evaluators.coverage import Coverage
from mta.frames.shorthand import Size
from mta.logs.base import Aggregator, OnDuplicate
from mta.monoids.base import AbstractMonoid, Out
from mta.monoids.product import Shorthand, aggregation_of
from mta.publishing.records import What
from mta.snapshots import Snapshot
from mta.times import Duration, TimeUnit, in_unit
from mta.windows.checks import read_frame
from mta.windows.display import result_rows
from mta.windows.engine import Engine
from mta.windows.intake import alone, busy
from mta.windows.public import EventsWindow
from mta.windows.revising import revised
from mta.windows.settings import (
    Changes,
    Clock,
    Lateness,
    Nulls,
    OnAhead,
    OnLate,
    Settings,
    restored_settings,
)
from mta.windows.stack import UNKNOWN
from stores import StoreLike


@dataclass(frozen=True)
class Stats:
    """The sizes and counts of a window."""

    events: int
    """Events in the window."""
    inserted: int
    """Events accepted since the start; also the position after the newest event."""
    levels: int
    """Levels of groups, including the events."""
    resident_rows: int
    """Values and partials in memory: tails, stack and result pair."""
    late: int
    """Events dropped because they were older than the previous event."""
    invalid: int
    """Events dropped because they contained a null or NaN."""
    ahead: int
    """Events dropped because they were ahead of the clock."""

    @property
    def dropped(self) -> int:
        """Events dropped for any reason."""
        return self.late + self.invalid + self.ahead


@dataclass(frozen=True)
class Revision:
    """Events in order of time, from the oldest added event on, with their current results."""

    times: np.ndarray
    """datetime64[us]."""
    values: Any
    """A column; for a Product, a dictionary of columns."""
    results: Any
    """As returned by ``Window.extend``."""
    index: np.ndarray
    """The position of the event in the batch; -1 for an earlier event."""


class Window(EventsWindow[Out]):
    """The aggregate of the newest events, after every event.

    A window processes one call at a time: a call from a second thread raises WindowBusy. Raises
    TypeError and ValueError for invalid settings, and UnsuitableMonoid.

    Args:
        aggregations: The aggregation of values: a monoid, or a name such as "max". With columns: a
            pair such as ("watts", "max"), or several by name, as for ``Product``.
        window: The frame, which says which events the window contains: a frame, a duration such as
            "24 hours", or a number of events.
        store: A URL, an open store, or None to keep everything in memory, with values of any type.
        name: The name of the window in the store: 1 to 100 characters of A-Z a-z 0-9 . _ : -
        arity: The number of elements in a group; a full group is one page. The default depends on
            the size of a partial result, and suits a single large window.
        leaf_arity: The number of events in a leaf group; by default ``arity``.
        aggregator: The algorithm that keeps the events: by default AmortizedMTA, or FiBA if other
            settings need it. With SteadyMTA, no single event waits while a group is folded; use it
            for expensive combines.
        allowed_lateness: How much older than the newest event an event may be: seconds or a
            duration. It selects FiBA, which keeps events in order of time, and a result covers the
            window that ends with its event. Without it, events must arrive in order.
        on_duplicate: What to do with an event at the time of an existing event: "append" adds it,
            "replace" replaces the existing event, "combine" combines the two. "replace" and
            "combine" also select FiBA, with a default ``allowed_lateness`` of 0.
        retain_for: How far before the newest event ``query`` can return the result at any moment,
            such as "90 days". Retains the events for such moments. It selects FiBA, with a default
            ``allowed_lateness`` of 0.
        on_late: Whether an event that is too late raises LateEvent or is dropped and counted.
        nulls: How to treat a null or NaN: "raise" raises InvalidValue; with "skip" the event is
            inserted, and aggregations ignore it; "drop_row" drops and counts the event; "accept"
            aggregates NaN like a number.
        min_samples: The number of values below which a result is null (None, or masked in an
            array). By default, with ``nulls="skip"``, a result without values is null. Counts
            and lists are never null.
        max_ahead: How far ahead of the clock the time of an event may be, such as "5 minutes". By
            default, there is no limit. A single event dated tomorrow makes all events of today
            late.
        on_ahead: Whether an event further ahead raises AheadEvent or is dropped and counted.
        clock: Returns the current time in seconds since 1970; by default ``time.time``.
        retain: The number of newest snapshots that you can restore.

    >>> from mta import CountWindow, Max, Window
    >>> window = Window(Max(), CountWindow(3), name="example")
    >>> window.extend([1.0, 5.0, 2.0, 3.0, 4.0]).tolist()
    [1.0, 5.0, 5.0, 5.0, 4.0]
    >>> window.insert(0.0)
    >>> window.query(), len(window)
    (4.0, 3)
    """

    engine: Engine[Out]

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        aggregations: AbstractMonoid[Out] | Shorthand,
        window: Size,
        store: StoreLike | None = "memory://",
        name: str = "window",
        *,
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        retain_for: Duration | float | None = None,
        on_late: OnLate = "raise",
        nulls: Nulls = "raise",
        min_samples: int | None = None,
        max_ahead: Lateness | None = None,
        on_ahead: OnAhead = "raise",
        clock: Clock | None = None,
        retain: int = 2,
    ) -> None:
        settings = Settings(
            arity=arity, leaf_arity=leaf_arity, aggregator=aggregator,
            allowed_lateness=allowed_lateness, on_duplicate=on_duplicate, retain_for=retain_for,
            on_late=on_late, nulls=nulls, min_samples=min_samples, max_ahead=max_ahead,
            on_ahead=on_ahead, clock=clock, retain=retain,
        )  # fmt: skip
        monoid, frame = aggregation_of(aggregations), read_frame(window)
        self._use(Engine(monoid, {"": frame}, store, name, settings))

    def _use(self, engine: Any) -> None:
        super()._use(engine)
        self.frame = engine.frame

    def structure(self) -> Aggregator:
        """Return the structure that stores the events, after all pending changes."""
        structure = self.engine.structure()
        assert isinstance(structure, Aggregator)
        return structure

    # --- one event at a time --------------------------------------------------------------------

    def evict(self, n: int = 1) -> None:
        """Remove the oldest events. At most one page read per level. Raises EmptyWindow.

        Args:
            n: The number of events.
        """
        engine = self.engine
        if engine.busy:
            raise busy(engine)
        engine.busy = True
        try:
            if n.__class__ is not int or n != 1 or not self._single.evict():
                with np.errstate(all="ignore"):
                    engine.evict(n)
        finally:
            engine.busy = False

    @alone
    def retract(self, time: Any) -> None:
        """Remove the newest event with a given time, anywhere in the window.

        Needs ``allowed_lateness``, even 0. Costs O(arity * log d) combines at distance d from the
        nearer end, and O(log n) page reads and writes. Evicted events do not return. Raises
        NoSuchEvent, EventsGone if the event may have been evicted, and UnsupportedOperation. If it
        raises, nothing changes.

        Args:
            time: Seconds, or a datetime.

        >>> from mta import Max, TimeWindow, Window
        >>> window = Window(Max(), TimeWindow("1 hour"), name="retracted", allowed_lateness=0)
        >>> _ = window.extend([3.0, 5.0, 4.0], [0, 60, 120])
        >>> window.retract(60)
        >>> window.query()
        4.0
        """
        self.engine.retract(time)

    @overload
    def query(self) -> Out: ...

    @overload
    def query(
        self, *, at: Any = None, partial: bool = False, time_unit: TimeUnit | None = None
    ) -> Any: ...

    def query(
        self, *, at: Any = None, partial: bool = False, time_unit: TimeUnit | None = None
    ) -> Any:
        """Return the result of the window, or the aggregation's ``empty`` if it has no events.

        The window ends with the newest event, which may be long ago. With ``at`` it ends at a
        moment, and contains all events known now up to that time. Costs 1 combine, and none if
        nothing has changed since the last call; for a moment, O(arity * log n) and a few page reads
        per level. Raises InvalidTime if events have no times, and EventsGone if the window at the
        moment needs events that were evicted (see ``retain_for``).

        Args:
            at: A moment at which the window ends instead, or many: datetimes, numbers, or "now".
            partial: Whether to return the result of the retained events if others were evicted.
            time_unit: The unit of numbers; by default seconds.

        >>> from mta import Sum, TimeWindow, Window
        >>> window = Window(Sum(), TimeWindow("1 hour"), name="moments", retain_for="1 day")
        >>> _ = window.extend([3.0, 5.0, 4.0], [0, 1800, 7200])
        >>> window.query(), window.query(at=1800), window.query(at=[3600, 9000]).tolist()
        (4.0, 8.0, [5.0, 4.0])
        """
        single = self._single
        if at is not None:
            return single.query("", partial, at, time_unit)
        if single.shown is UNKNOWN or single.owner.busy:
            return single.result()
        return single.shown if single.show is None else single.show(single.shown)

    # --- batches --------------------------------------------------------------------------------

    @alone
    def extend(
        self,
        values: Any,
        times: Any = None,
        emit: Literal["all", "last"] = "all",
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Add a batch of events; return the result after each event, or after the last event.

        Returns an array, or a dictionary of arrays for a Product, with a row for each accepted
        event. If some events were dropped, ``last_accepted`` says which were accepted. Costs about
        two whole-group combines per event, and 2/leaf_arity store calls. An error about the values
        leaves the window unchanged. If the store fails in the middle of a batch, the error's note
        says how many events were accepted.

        Args:
            values: A list, numpy array, or column of pandas, polars or Arrow. For a Product, a
                mapping or table of columns.
            times: Datetimes, or numbers. Required if the frame depends on times.
            emit: "all" returns the result after each event, "last" only that after the last event.
            time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        """
        given = in_unit(times, time_unit)
        return self._following(lambda: self.engine.extend(values, given, emit)[""], values)

    @alone
    def revise(self, values: Any, times: Any, time_unit: TimeUnit | None = None) -> Revision:
        """Add a batch that may contain late events; return every result that it changes.

        Needs ``allowed_lateness``, even 0, and a count, time or session window. Costs the same as
        ``extend``, plus O(1) whole-group combines for each event later than the oldest added event.
        Raises NotRevisable, and the errors of ``extend``.

        Args:
            values: A list, numpy array, or column of pandas, polars or Arrow. For a Product, a
                mapping or table of columns.
            times: Datetimes, or numbers.
            time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.

        >>> from mta import CountWindow, Sum, Window
        >>> window = Window(Sum(), CountWindow(2), name="late", allowed_lateness=60)
        >>> window.extend([1.0, 4.0], [10, 30]).tolist()
        [1.0, 5.0]
        >>> revision = window.revise([2.0, 8.0], [20, 40])
        >>> revision.index.tolist(), revision.results.tolist()
        ([0, -1, 1], [3.0, 6.0, 12.0])
        """
        given = in_unit(times, time_unit)
        found, index = self._following(lambda: revised(self.engine, values, given), values)
        shown, results = self.monoid.given(found.rows), self.monoid.results(found.outputs)
        return Revision(found.times.view("M8[us]"), shown, results, index)

    @alone
    def coverage(self) -> Coverage:
        """Return whether the window contains all events of its frame.

        After ``restore`` with a longer frame, some are missing until enough events have arrived.
        Reads at most two pages per level.
        """
        return self.engine.coverage("", self.engine.ready(self.engine.windows[""]))

    # --- snapshots and pages ----------------------------------------------------------------------

    def _what(self) -> tuple[What, int]:
        return self.engine.what("window", {"": self.frame})

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        store: StoreLike = "memory://",
        *,
        aggregations: AbstractMonoid[Out] | Shorthand | None = None,
        window: Size | None = None,
        **changes: Unpack[Changes],
    ) -> Self:
        """Return the window that a snapshot describes. No store call until pages are needed.

        The snapshot says how the window was made, except for Python functions, which must be given
        again: an aggregation, a frame or a clock. What is given replaces what the snapshot says.

        If both frames depend only on counts and times, another frame continues with the events that
        the window contained, and ``coverage`` says which events are missing. Reads at most one page
        per level later, to build the stack. Raises CorruptSnapshot for damaged bytes, and
        SnapshotMismatch if a function is missing, or if the aggregation, the aggregator, an arity,
        or a frame that cannot be changed differs from the snapshot.

        Args:
            snapshot: What ``checkpoint`` returned.
            store: The store of the window: its URL, or the open store.
            aggregations: The aggregation, if it has Python functions.
            window: The frame, if it has Python functions, or another one.
            **changes: Other settings, by the names that the constructor gives them.
        """
        state = Snapshot.decode_single(snapshot)
        settings = restored_settings(cls, state, changes)
        given = state.made().made_aggregation() if aggregations is None else aggregations
        monoid = aggregation_of(given)
        frame = read_frame(state.made_frames()[""] if window is None else window)
        engine = Engine(monoid, {"": frame}, store, state.window, settings)
        engine.restore(state, others=True)
        engine.require_pages_here()
        return cls._of(engine)

    # --- looking at it --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of events in the window."""
        return len(self.engine)

    def stats(self) -> Stats:
        """Return sizes and counts. No store call."""
        structure, intake = self.structure(), self.engine.intake
        return Stats(
            len(structure),
            structure.back,
            structure.height,
            structure.resident_rows,
            *intake.counts,
        )

    def _rows(self) -> list[tuple[str, Any]]:
        stats = self.stats()
        return [
            *result_rows(self.query),
            ("events in the window", stats.events),
            ("events accepted", stats.inserted),
            ("events dropped", stats.dropped),
            ("values in memory", stats.resident_rows),
        ]

    def __repr__(self) -> str:
        what, where = f"{self.monoid!r} over {self.frame!r}", self.engine.where()
        return f"<Window {self.name!r}: {what}, {len(self)} events in {where}>"
