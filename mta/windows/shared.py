"""Multiple windows over one stream: one structure in pages, with a front for each window.

Every event is written once, and retained as long as the longest window needs it. Each window reads
the pages that its front passes (see ``cursor``). So four windows write the pages of one window, and
each reads at most one page per leaf. You can query any range of the retained events, and add,
remove or resize windows at any time. As with ``Window``, make one call at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self, Unpack, cast, overload

from mta.errors import InvariantViolation
from mta.evaluators.coverage import Coverage
from mta.evaluators.cursor import Cursor
from mta.evaluators.observed import key_of_observer
from mta.frames.base import Frame
from mta.frames.shorthand import Size
from mta.logs.base import OnDuplicate
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import LevelLog
from mta.monoids.base import AbstractMonoid, Out, Refold
from mta.monoids.product import Shorthand, aggregation_of, require_distinct, result_columns
from mta.publishing.records import What
from mta.snapshots import Snapshot
from mta.times import Duration, TimeUnit, in_unit
from mta.windows.checks import check_name, read_frame, require_kind
from mta.windows.display import result_rows
from mta.windows.engine import SHARED, Engine
from mta.windows.intake import alone
from mta.windows.public import EventsWindow
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
class SharedStats:
    """The sizes and counts of multiple windows."""

    windows: dict[str, int]
    """Events in each window."""
    kept: int
    """Retained events."""
    inserted: int
    """Events accepted since the start; also the position after the newest event."""
    levels: int
    late: int
    """Events dropped because they were older than the previous event."""
    invalid: int
    """Events dropped because they contained a null or NaN."""
    ahead: int
    """Events dropped because they were ahead of the clock."""


class SharedWindows(EventsWindow[Out]):
    """The aggregates of multiple windows over one stream, after every event.

    Events are stored once. With ``allowed_lateness`` they are kept in order of time, and a result
    covers the window that ends with its event, or with the newest event if a frame depends on
    values.

    Args:
        aggregations: The aggregation of values: a monoid, or a name such as "max". With columns: a
            pair such as ("watts", "max"), or several by name, as for ``Product``.
        window: The frame, duration or number of events of each window, by its name.
        store: A URL, an open store, or None to keep everything in memory, with values of any type.
        name: The name of the windows in the store, as for ``Window``.
        retain_for: Which events to retain beyond the windows, to query earlier moments and ranges
            and to add windows later: a duration, as in ``Window``, or a window by count or time.
        timed: Whether events have times, even if no frame depends on times yet.
        arity: The number of elements in a group; a full group is one page. The default depends on
            the size of a partial result, and suits a single large window.
        leaf_arity: The number of events in a leaf group; by default ``arity``.
        allowed_lateness: How much older than the newest event an event may be: seconds or a
            duration. It selects FiBA, which keeps events in order of time, and a result covers the
            window that ends with its event. Without it, events must arrive in order.
        on_duplicate: What to do with an event at the time of an existing event: "append" adds it,
            "replace" replaces the existing event, "combine" combines the two. "replace" and
            "combine" also select FiBA, with a default ``allowed_lateness`` of 0.
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

    >>> from mta import CountWindow, Max, SharedWindows
    >>> peaks = SharedWindows(Max(), {"two": CountWindow(2), "three": CountWindow(3)})
    >>> {name: found.tolist() for name, found in peaks.extend([5.0, 1.0, 2.0]).items()}
    {'two': [5.0, 5.0, 2.0], 'three': [5.0, 5.0, 5.0]}
    """

    engine: Engine[Out]

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        aggregations: AbstractMonoid[Out] | Shorthand,
        window: Mapping[str, Size],
        store: StoreLike | None = "memory://",
        name: str = "windows",
        *,
        retain_for: Duration | float | Frame | None = None,
        timed: bool = False,
        arity: int | None = None,
        leaf_arity: int | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        on_late: OnLate = "raise",
        nulls: Nulls = "raise",
        min_samples: int | None = None,
        max_ahead: Lateness | None = None,
        on_ahead: OnAhead = "raise",
        clock: Clock | None = None,
        retain: int = 2,
    ) -> None:
        settings = Settings(
            arity=arity, leaf_arity=leaf_arity, allowed_lateness=allowed_lateness,
            on_duplicate=on_duplicate, retain_for=retain_for, on_late=on_late, nulls=nulls,
            min_samples=min_samples, max_ahead=max_ahead, on_ahead=on_ahead, clock=clock,
            retain=retain,
        )  # fmt: skip
        monoid, windows = aggregation_of(aggregations), _frames_of(window)
        require_distinct(monoid, windows)
        frames = [*windows.values(), *([] if settings.keep is None else [settings.keep])]
        timed = timed or any(frame.needs_times for frame in frames)
        self._use(Engine(monoid, windows, store, name, settings, SHARED, timed))

    def structure(self) -> LevelLog | FingerTreeLog:
        """Return the structure that stores the events, after all pending changes."""
        return cast(LevelLog | FingerTreeLog, self.engine.structure())

    # --- events and results -----------------------------------------------------------------------

    @alone
    def retract(self, time: Any) -> None:
        """Remove the newest event with a given time from all windows, as ``Window.retract`` does.

        Needs ``allowed_lateness``, even 0.

        Args:
            time: Seconds, or a datetime.
        """
        self.engine.retract(time)

    @alone
    def extend(
        self,
        values: Any,
        times: Any = None,
        emit: Literal["all", "last"] = "all",
        time_unit: TimeUnit | None = None,
    ) -> dict[str, Any]:
        """Add a batch; return each window's result after each event, or after the last event.

        Returns an array for each window, by its name. For a Product, returns one for each
        aggregation and window, named ``aggregation_window``. Each window costs about two
        whole-group combines per event, and the scan of each leaf. A window that is longer than the
        events in memory also costs one page read per leaf.

        Args:
            values: A list, numpy array, or column of pandas, polars or Arrow. For a Product, a
                mapping or table of columns.
            times: Datetimes, or numbers. Required if a frame depends on times.
            emit: "all" returns the result after each event, "last" only that after the last event.
            time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        """
        given = in_unit(times, time_unit)
        results = self._following(lambda: self.engine.extend(values, given, emit), values)
        return result_columns(results)

    @overload
    def query(self, which: None = None, *, partial: bool = False) -> dict[str, Out]: ...

    @overload
    def query(self, which: str | Frame, *, partial: bool = False) -> Out: ...

    @overload
    def query(
        self, which: str | Frame | None = None, *, at: Any = None, partial: bool = False,
        time_unit: TimeUnit | None = None,
    ) -> Any: ...  # fmt: skip

    def query(
        self,
        which: str | Frame | None = None,
        *,
        at: Any = None,
        partial: bool = False,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Return the result of one window, of all by name, or of a frame that is not a window.

        Costs 1 combine per window, none if nothing has changed. A frame costs O(arity * log n)
        combines and at most two page reads per level, and raises EventsGone if it needs evicted
        events, unless ``partial``. Windows end with the newest event. With ``at``, they end at a
        moment, or at each of many, as in ``Window.query``.
        """
        single = self._single
        if which is None and at is None and not single.owner.busy:
            found = single.found(None)
            if found is not UNKNOWN:
                return found
        return single.query(which, partial, at, time_unit)

    # --- adding and removing windows --------------------------------------------------------------

    @alone
    def add(self, name: str, frame: Size) -> Coverage:
        """Add a window, with those of its events that are retained.

        At most one page read per level. Raises ValueError for an existing name, and for a frame
        that needs times or aggregates that these events do not store.

        Args:
            name: The name of the window.
            frame: Its frame.
        """
        check_name(name)
        if name in self.engine.windows:
            raise ValueError(f"there is already a window {name!r}; resize it, or remove it first")
        return self._set(name, frame)

    @alone
    def resize(self, name: str, frame: Size) -> Coverage:
        """Give a window a longer or shorter frame. Costs the same as ``add``.

        A longer window contains the retained events of its frame. The returned coverage says how
        many are missing, also for the results of late events.

        Args:
            name: The name of the window.
            frame: Its new frame.
        """
        self.engine.window(name)
        return self._set(name, frame)

    def _set(self, name: str, frame: Size) -> Coverage:
        frame = read_frame(frame)
        engine = self.engine
        cursor = engine.ready(engine.cursor(frame))
        coverage = engine.coverage(name, cursor)
        self._require_observed((engine.frames | {name: frame}).values())
        require_distinct(self.monoid, engine.windows.keys() | {name})
        engine.windows[name] = cursor
        return coverage

    def _require_observed(self, frames: Iterable[Frame]) -> None:
        """Raise ValueError unless the frames observe all aggregates stored with the events."""
        found = {key_of_observer(observer) for frame in frames for observer in frame.observers}
        for observer in self.engine.frame.observers:
            if key_of_observer(observer) not in found:
                raise ValueError(
                    f"no other window looks at {observer[2].name}, which is kept with every event; "
                    "keep this window, or start new ones"
                )

    def _looked_at(self, window: Cursor) -> Cursor:
        """Return an updated copy, so that a read-only call does not change the window."""
        return self.engine.ready(copy(window))

    @alone
    def remove(self, name: str) -> None:
        """Remove a window, and release the events that only this window needed. No store call.

        Args:
            name: The name of the window.
        """
        self.engine.window(name)
        self._require_observed(p for n, p in self.windows.items() if n != name)
        del self.engine.windows[name]

    @alone
    def coverage(self, name: str | None = None) -> Coverage:
        """Return whether a window, or each window, contains all events of its frame.

        With a name, it also says how many events the window contains and how many are missing.
        Reads at most two pages per level and window.

        Args:
            name: The name of one window. By default, all windows.
        """
        engine = self.engine
        names = list(engine.windows) if name is None else [name]
        cursors = [engine.window(each) for each in names]
        with self.structure().preserving_state():
            found = [
                engine.coverage(each, self._looked_at(cursor))
                for each, cursor in zip(names, cursors, strict=True)
            ]
        if name is not None:
            return found[0]
        return Coverage(tuple(chain.from_iterable(each.incomplete for each in found)))

    # --- snapshots and pages ----------------------------------------------------------------------

    def _what(self) -> tuple[What, int]:
        return self.engine.what("windows", self.windows)

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        store: StoreLike = "memory://",
        *,
        aggregations: AbstractMonoid[Out] | Shorthand | None = None,
        window: Mapping[str, Size] | None = None,
        **changes: Unpack[Changes],
    ) -> Self:
        """Return the windows that a snapshot describes. No store call until pages are needed.

        As with ``Window.restore``, what is given replaces what the snapshot says, and Python
        functions must be given again. Windows with the same name and frame continue. Other windows,
        as with ``add`` and ``resize``, contain the retained events of their frames; ``coverage``
        says which are missing. Reads one page per level later for each window's front. Raises
        CorruptSnapshot for damaged bytes. Raises SnapshotMismatch if a function is missing, or if
        the snapshot has another aggregation, or frames that observe other values. Raises ValueError
        if a frame needs times and the events have none.

        Args:
            snapshot: What ``checkpoint`` returned.
            store: The store of the windows: its URL, or the open store.
            aggregations: The aggregation, if it has Python functions.
            window: The frame of each window, by its name: all frames, if any of them has Python
                functions, or other windows.
            **changes: Other settings, by the names that the constructor gives them.
        """
        events = Snapshot.decode_shared(snapshot)
        settings = restored_settings(cls, events, changes)
        given = events.made().made_aggregation() if aggregations is None else aggregations
        monoid = aggregation_of(given)
        windows = _frames_of(events.made_frames() if window is None else window)
        require_distinct(monoid, windows)
        engine = Engine(monoid, windows, store, events.window, settings, SHARED, events.timed)
        engine.restore(events)
        engine.require_pages_here()
        engine.place(windows, events.fronts_of(windows))
        return cls._of(engine)

    # --- looking at it ----------------------------------------------------------------------------

    @property
    def windows(self) -> dict[str, Frame]:
        """The frame of each window."""
        return self.engine.frames

    @property
    def fronts(self) -> dict[str, int]:
        """The position of each window's oldest event, as far as known without a read."""
        oldest, back = self.structure().front, self.structure().back
        cursors = self.engine.windows.items()
        return {n: c.front if c.back == back else oldest for n, c in cursors}

    @alone
    def stats(self) -> SharedStats:
        """Return sizes and counts. One page per level for each window whose front is unknown."""
        engine, structure, intake = self.engine, self.structure(), self.engine.intake
        with structure.preserving_state():
            sizes = {name: len(self._looked_at(c)) for name, c in engine.windows.items()}
        return SharedStats(sizes, len(structure), structure.back, structure.height, *intake.counts)

    def _rows(self) -> list[tuple[str, Any]]:
        stats = self.stats()
        return [
            *result_rows(self.query),
            *[(f"events in {name}", count) for name, count in stats.windows.items()],
            ("events retained", stats.kept),
            ("events accepted", stats.inserted),
            ("events dropped", stats.late + stats.invalid + stats.ahead),
        ]

    @alone
    def check(self) -> None:
        """Assert every invariant, and every window's result against a fold of its events.

        Reads all pages. Raises InvariantViolation.
        """
        self.structure().check()
        with self.structure().preserving_state():
            for name, each in self.engine.windows.items():
                cursor = self._looked_at(each)
                found = cursor.query()
                if not self.structure().front <= cursor.front <= cursor.end:
                    raise InvariantViolation(f"window {name!r} begins before its retained events")
                fold = Refold(self.engine.monoid, cursor.partials())
                if not fold.agrees(found):
                    raise InvariantViolation(f"window {name!r} is {found!r} instead of {fold!r}")

    def __repr__(self) -> str:
        what, where = f"{self.monoid!r} over {self.windows!r}", self.engine.where()
        return f"<SharedWindows {self.name!r}: {what}, {self.structure().back} events in {where}>"


def _frames_of(windows: Mapping[str, Size]) -> dict[str, Frame]:
    """Return the frame of each window. Raises TypeError or ValueError for invalid ones."""
    require_kind(windows, Mapping, "windows are frames by name, as a dictionary")
    for name in windows:
        check_name(name)
    return {name: read_frame(size) for name, size in windows.items()}
