"""The window: a monoid, a policy, an aggregator and a store behind one small interface.

    >>> from mta import CountWindow, Max, Window
    >>> window = Window(Max(), CountWindow(3), name="demo")
    >>> window.extend([1.0, 5.0, 2.0, 3.0, 4.0]).tolist()
    [1.0, 5.0, 5.0, 5.0, 4.0]

One window takes one call at a time (WindowBusy); windows share a store safely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from mta.evaluators.coverage import Coverage
from mta.frames.base import AbstractPolicy
from mta.logs.base import Aggregator, OnDuplicate
from mta.monoids.base import AbstractMonoid, Out
from mta.pages.snapshot import Snapshot
from mta.publishing.publisher import Publishable
from mta.publishing.records import What
from mta.times import TimeUnit, in_unit
from mta.windows.display import result_rows
from mta.windows.engine import EventsWindow, WindowEngine, alone
from mta.windows.published import what_of_engine
from mta.windows.revision import Revision, revise
from mta.windows.settings import Lateness, OnInvalid, OnLate, Settings
from mta.windows.single import busy
from stores import StoreLike


@dataclass(frozen=True)
class Stats:
    """What a window holds and has done."""

    events: int
    """Events in the window."""
    inserted: int
    """Events accepted since the beginning; also the position after the newest."""
    levels: int
    resident_rows: int
    """Values and partials in memory: tails, stack and result pair."""
    late: int
    """Events dropped because they were older than the last one."""
    invalid: int
    """Events dropped because they held a null or NaN."""

    @property
    def dropped(self) -> int:
        """Events dropped for any reason."""
        return self.late + self.invalid


class Window(Publishable, EventsWindow[Out]):
    """The aggregate of the newest events, after every event.

    ``store`` is a URL, an open store, or None to keep everything in memory, where values may be any
    objects. ``name`` tells windows in one store apart. The other settings are keywords:

    - ``arity``: the size of groups and, unless ``leaf_arity`` is given, of leaf groups. The
      defaults suit a single large window.
    - ``allowed_lateness``: how much older than the newest event an event may be. FiBA then keeps
      events in order of time, and a result is that of the window which ends with its event.
    - ``on_duplicate="append"``, "replace" or "combine": what an event does at a time that has one
      already. The last two select FiBA too, with an ``allowed_lateness`` of 0 unless it is given.
    - ``on_late="raise"`` or "drop": what to do with an event older than the last one, or by more
      than ``allowed_lateness``, where the policy looks at times.
    - ``on_invalid="raise"``, "drop" or "accept": what to do with nulls and NaN.
    - ``aggregator``: what keeps the events, AmortizedMTA or FiBA unless given. With SteadyMTA no
      single event waits while a group is folded, which pays where a combine takes long.
    - ``retain``: how many of the last snapshots stay restorable.

    Attributes: ``monoid``, ``policy``, ``store``, ``name``; for tests, audits and experts
    ``structure``, which keeps the events. Raises TypeError and ValueError for settings that cannot
    be, and UnsuitableMonoid.
    """

    engine: WindowEngine[Out]

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        monoid: AbstractMonoid[Out],
        window: AbstractPolicy,
        store: StoreLike | None = "memory://",
        name: str = "window",
        *,
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        on_late: OnLate = "raise",
        on_invalid: OnInvalid = "raise",
        retain: int = 2,
    ) -> None:
        self._use(WindowEngine(monoid, window, store, name, Settings.read(locals())))

    def _use(self, engine: Any) -> None:
        self.engine, self.name, self.store = engine, engine.name, engine.store
        self.monoid, self.policy = engine.main, engine.policy
        self._single = engine.single

    @property
    def structure(self) -> Aggregator:
        """What keeps the events."""
        return self.engine.structure

    # --- one event at a time --------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event, and evict what the policy says; amortised O(1) combines.

        ``time`` is in seconds, or a datetime; needed where the policy looks at times. Raises
        InvalidValue, InvalidTime, LateEvent, or an error of the store; then nothing has changed.
        """
        self._single.insert(value, time)

    def evict(self, n: int = 1) -> None:
        """Remove the oldest ``n`` events; at most a page read a level. Raises EmptyWindow."""
        engine = self.engine
        if engine.busy:
            raise busy()
        engine.busy = True
        try:
            if n.__class__ is not int or n != 1 or not self._single.evict():
                with np.errstate(all="ignore"):
                    engine.evict(n)
        finally:
            engine.busy = False

    @alone
    def retract(self, time: Any) -> None:
        """Take out the event at a time, the newest of several, wherever it lies.

        Needs ``allowed_lateness``, even 0. O(arity * log d) combines at distance d from the nearer
        end, and O(log n) page reads and writes. The policy is asked again; what has left stays
        away. Raises NoSuchEvent, EventsGone where the event may have left, UnsupportedOperation;
        then nothing has changed.

        >>> from mta import Max, TimeWindow, Window
        >>> window = Window(Max(), TimeWindow("1 hour"), name="retracted", allowed_lateness=0)
        >>> _ = window.extend([3.0, 5.0, 4.0], [0, 60, 120])
        >>> window.retract(60)
        >>> window.query()
        4.0
        """
        self.engine.retract(time)

    def query(self) -> Out:
        """The result over the window, the monoid's ``empty`` without events.

        1 combine; none where nothing has changed since it was asked for.
        """
        return self._single.result()  # type: ignore[no-any-return]

    # --- batches --------------------------------------------------------------------------------

    @alone
    def extend(
        self,
        values: Any,
        times: Any = None,
        emit: Literal["all", "last"] = "all",
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Add a batch of events; return the result after each, or after the last.

        ``values`` is a list, numpy array, pandas or Arrow column (for a Product a mapping or table
        of columns), ``times`` datetimes, or numbers of a ``time_unit`` ("s", "ms", "us" or "ns"),
        unless that is given seconds. About two whole-group combines per event and
        2/leaf_arity store calls. Returns an array (a dictionary of arrays for a Product) with a
        row for each accepted event; ``last_accepted`` says which these are when some were dropped.
        An error about the values leaves the window as it was; when the store fails in the middle,
        the error's note says how many events were accepted.
        """
        return self.engine.extend(values, in_unit(times, time_unit), emit)

    @alone
    def revise(self, values: Any, times: Any, time_unit: TimeUnit | None = None) -> Revision:
        """Add a batch that may hold late events, and return every result that it changes.

        Needs ``allowed_lateness``, even 0, and a count or a time window; costs and errors as for
        ``extend``, and NotRevisable.
        """
        return revise(self.engine, values, in_unit(times, time_unit))

    @alone
    def coverage(self) -> Coverage:
        """Return whether the window holds all events that its policy asks for, and what it misses.

        It misses some after ``restore`` has made it longer, until as many have come as it missed.
        Reads at most two pages per level.
        """
        return self.engine.coverage()

    # --- snapshots and pages ----------------------------------------------------------------------

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """The window as a snapshot of a few kilobytes, once all its pages are in the store.

        Save the snapshot before you take the next one, which deletes the pages that none of the
        last ``retain`` snapshots needs; where it fails, all of these can still be restored.
        ``wait=False`` does not wait for the store; call its ``flush`` before the snapshot is used.
        Costs one flush, and the deletion of pages that have left. Raises NotPageable.
        """
        self._settle_published()
        data = self.engine.checkpoint(wait or self._publisher is not None)
        self._publish(data)
        return data

    def _what(self) -> tuple[What, int]:
        return what_of_engine("window", self.engine, {"": self.policy})

    @alone
    def snapshot(self) -> bytes:
        """As ``checkpoint``, for one who saves it with others.

        Call ``hold`` once that is done, before the next event.
        """
        return self.engine.snapshot()

    def hold(self) -> None:
        """A snapshot was taken and saved: from now on its pages are kept, as ``retain`` says."""
        self.engine.hold()

    @classmethod
    def restore(  # noqa: PLR0913 (public: explicit keywords)
        cls,
        snapshot: bytes,
        monoid: AbstractMonoid[Out],
        window: AbstractPolicy,
        store: StoreLike = "memory://",
        *,
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] | None = None,
        allowed_lateness: Lateness | None = None,
        on_duplicate: OnDuplicate = "append",
        on_late: OnLate = "raise",
        on_invalid: OnInvalid = "raise",
        retain: int = 2,
    ) -> Self:
        """The window that a snapshot describes; no store call until pages are needed.

        Settings as for a new window, but the arities are the snapshot's. With another policy, where
        both go by counts and times, it goes on from the events that the window held, or with FiBA
        kept; ``coverage`` says what it misses. Raises CorruptSnapshot for damaged bytes, and
        SnapshotMismatch when the snapshot is of another monoid, of a policy that cannot be changed,
        or of another aggregator or (where given) arity. Later, at most one page a level is read to
        build the stack.
        """
        settings = Settings.read(locals())
        return cls._of(WindowEngine.restored(snapshot, monoid, window, store, settings))

    def restore_like(self, snapshot: bytes) -> Self:
        """The window that a snapshot describes, with all settings and the store of this one.

        As ``restore``, for those who restore many windows of one kind: what they share is not made
        again for each.
        """
        return self._of(self.engine.restore_like(Snapshot.decode(snapshot)))

    # --- looking at it --------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many events are in the window."""
        return self.engine.length()

    def stats(self) -> Stats:
        """Sizes and counts; no store call."""
        structure, intake = self.structure, self.engine.intake
        return Stats(
            len(structure),
            structure.back,
            structure.height,
            structure.resident_rows,
            intake.late_count,
            intake.invalid_count,
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
        what, where = f"{self.monoid!r} over {self.policy!r}", self.engine.where()
        return f"<Window {self.name!r}: {what}, {len(self)} events in {where}>"
