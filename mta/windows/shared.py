"""Several windows over one stream: one structure in pages, and a front for each window.

    >>> from mta import CountWindow, Max
    >>> windows = SharedWindows(Max(), {"two": CountWindow(2), "four": CountWindow(4)}, name="demo")
    >>> results = windows.extend([1.0, 5.0, 2.0, 3.0, 4.0])
    >>> results["two"].tolist(), results["four"].tolist()
    ([1.0, 5.0, 5.0, 3.0, 4.0], [1.0, 5.0, 5.0, 5.0, 5.0])

Every event is written once and kept for as long as the longest window needs it; each window reads
the pages that its front passes (see ``cursor``). So four windows write the pages of one, and each
reads at most a page a leaf. Whatever is kept can be asked for by range, and windows may be added,
removed, and made longer or shorter at any time. One call at a time, as for ``Window``.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, Unpack

from mta.cursors.cursor import Cursor
from mta.cursors.reach import Reach, reach_of
from mta.errors import EventsGone, InvariantViolation
from mta.fiba.kept import KeptTree
from mta.levels.kept import KeptEvents
from mta.monoids.base import AbstractMonoid, Refold
from mta.pages.handle import Handle
from mta.policies.base import AbstractPolicy
from mta.windows.engine import EventsFace, alone, require_policy
from mta.windows.settings import EventSettings, Lateness, Settings, to_lateness
from mta.windows.shared_engine import SharedEngine
from mta.windows.shared_handle import MAX_NAME_BYTES, SharedHandle, WindowState
from stores import PageStore


@dataclass(frozen=True)
class SharedStats:
    """What several windows hold and have done."""

    windows: dict[str, int]
    """Events in each window."""
    kept: int
    """Events that are kept."""
    inserted: int
    """Events accepted since the beginning; also the position after the newest."""
    levels: int
    late: int
    """Events dropped because they were older than the last one."""
    invalid: int
    """Events dropped because they held a null or NaN."""


class SharedWindows(EventsFace):
    """The aggregate of several windows over one stream, after every event.

    ``windows`` are policies by name. ``keep``, a window by count or time, says what to keep for
    ranges and for windows to come, though no window holds it; ``timed`` keeps times though no
    policy looks at them yet. With ``lateness`` events may come that much late: they are kept in
    order of time, and a result is that of the window which ends with its event (of a window whose
    policy looks at values: with the newest). The other settings are those of ``Window``, but that
    there is no aggregator to choose.
    """

    engine: SharedEngine

    def __init__(
        self,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore | None = "memory://",
        name: str = "windows",
        *,
        keep: AbstractPolicy | None = None,
        timed: bool = False,
        lateness: Lateness | None = None,
        **settings: Unpack[EventSettings],
    ) -> None:
        checked = _settings(settings, lateness)
        _check_policies(windows, keep)
        timed = timed or any(policy.needs_times for policy in [*windows.values(), keep] if policy)
        self._use(SharedEngine(monoid, windows, store, name, checked, timed, keep))

    def _use(self, engine: SharedEngine) -> None:
        self.engine, self.name, self.store = engine, engine.name, engine.store
        self.monoid, self.structure = engine.main, engine.structure

    # --- events and results -----------------------------------------------------------------------

    @alone
    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event to all windows; amortised O(1) combines a window.

        Raises InvalidValue, InvalidTime, LateEvent, or an error of the store; then nothing has
        changed.
        """
        self.engine.insert(value, time)

    @alone
    def extend(
        self, values: Any, times: Any = None, results: Literal["all", "last"] = "all"
    ) -> dict[str, Any]:
        """Add a batch of events; return each window's result after each event, or after the last.

        As ``Window.extend``. Each window adds about two whole-group combines an event and the scan
        of each leaf; once it is longer than what is still in memory, also a page read a leaf.
        """
        return self.engine.extend(values, times, results)

    @alone
    def query(self, which: str | AbstractPolicy | None = None, partial: bool = False) -> Any:
        """The result of one window, of all by name, or of a policy that is no window.

        1 combine a window. For a policy O(arity * log n) combines and at most two page reads a
        level; raises EventsGone where events have left that it asks for, unless ``partial``.
        """
        engine = self.engine
        if which is None:
            return {name: engine.result(cursor) for name, cursor in engine.cursors.items()}
        if isinstance(which, str):
            return engine.result(self._window(which))
        require_policy(which)
        cursor = engine.ready(engine.cursor(which))
        if not partial and not self._reach(cursor, lateness=0).complete:
            raise EventsGone(
                f"events that {which!r} asks for have left; those from position "
                f"{cursor.front} on are kept: ask for less, or say partial=True"
            )
        return engine.result(cursor)

    # --- windows coming and going -----------------------------------------------------------------

    @alone
    def add(self, name: str, policy: AbstractPolicy) -> Reach:
        """A new window, over as many of the events that it asks for as are kept.

        At most a page read a level. Raises ValueError for a name that is taken, and for a policy
        that needs times or aggregates that these events are not kept with.
        """
        _check_name(name)
        if name in self.engine.cursors:
            raise ValueError(f"there is a window {name!r} already; resize it, or remove it first")
        return self._set(name, policy)

    @alone
    def resize(self, name: str, policy: AbstractPolicy) -> Reach:
        """Another policy for a window, longer or shorter, from now on; costs as ``add``.

        A longer one reaches back as far as events are kept, and says how many it lacks, also for
        the results of events that may yet come late.
        """
        self._window(name)
        return self._set(name, policy)

    def _set(self, name: str, policy: AbstractPolicy) -> Reach:
        require_policy(policy)
        engine = self.engine
        cursor = engine.ready(engine.cursor(policy))
        reach = self._reach(cursor, engine.settings.lateness or 0)
        engine.require_observed((engine.policies | {name: policy}).values())
        engine.cursors[name] = cursor
        return reach

    @alone
    def remove(self, name: str) -> None:
        """Do without a window; events that only it needed leave. No store call."""
        self._window(name)
        self.engine.require_observed(p for n, p in self.windows.items() if n != name)
        del self.engine.cursors[name]

    @alone
    def reach(self, name: str) -> Reach:
        """How far back a window reaches, and how many events it lacks; at most a page a level."""
        cursor = self.engine.ready(self._window(name))
        return self._reach(cursor, self.engine.settings.lateness or 0)

    def _reach(self, cursor: Cursor, lateness: int) -> Reach:
        time = self.engine.intake.last_time if self.engine.timed else None
        return reach_of(self.structure, cursor.policy, cursor.front, cursor.back, time, lateness)

    def _window(self, name: str) -> Cursor:
        _check_name(name)
        cursor = self.engine.cursors.get(name)
        if cursor is None:
            raise ValueError(f"no window is called {name!r}; there are {sorted(self.windows)}")
        return cursor

    # --- handles and pages ------------------------------------------------------------------------

    @alone
    def checkpoint(self, barrier: bool = True) -> bytes:
        """All windows as one handle of a few kilobytes, once all their pages are in the store.

        As ``Window.checkpoint``: save the handle before you take the next one.
        """
        engine = self.engine
        engine.evict()
        events = engine.checkpoint(barrier)
        states = [
            WindowState(name, (c.policy.describe(), c.policy.fingerprint), c.front)
            for name, c in engine.cursors.items()
        ]
        return SharedHandle(events, states).encode()

    @classmethod
    def restore(
        cls,
        handle: bytes,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore = "memory://",
        *,
        keep: AbstractPolicy | None = None,
        lateness: Lateness | None = None,
        **settings: Unpack[EventSettings],
    ) -> Self:
        """The windows that a handle describes; no store call until pages are needed.

        Raises CorruptHandle for damaged bytes, and HandleMismatch when the handle is of another
        monoid or of other windows. Later, a page a level is read for each window's front.
        """
        state = SharedHandle.decode(handle)
        _check_policies(windows, keep)
        fronts, events = state.fronts_for(windows), Handle.decode(state.events)
        checked = _settings(settings, lateness).of_handle(events)
        engine = SharedEngine(monoid, windows, store, events.window, checked, events.timed, keep)
        engine.restore(events)
        return cls._restored(engine, windows, fronts)

    def sibling(self, handle: bytes) -> Self:
        """The windows that a handle describes, with all settings and the store of these ones."""
        state, windows = SharedHandle.decode(handle), self.windows
        fronts = state.fronts_for(windows)
        engine = self.engine.sibling(Handle.decode(state.events))
        return self._restored(engine, windows, fronts)

    @classmethod
    def _restored(
        cls,
        engine: SharedEngine,
        windows: Mapping[str, AbstractPolicy],
        fronts: Mapping[str, int],
    ) -> Self:
        engine.place(windows, fronts)
        new = object.__new__(cls)
        new._use(engine)
        return new

    # --- looking at it ----------------------------------------------------------------------------

    @property
    def windows(self) -> dict[str, AbstractPolicy]:
        """The policy of each window."""
        return self.engine.policies

    @property
    def fronts(self) -> dict[str, int]:
        """The position of each window's oldest event, as far as it is known without a read."""
        oldest, back = self.structure.front, self.structure.back
        cursors = self.engine.cursors.items()
        return {n: c.front if c.back == back else oldest for n, c in cursors}

    @alone
    def stats(self) -> SharedStats:
        """Sizes and counts; a page a level where windows have to be settled first."""
        engine, structure, intake = self.engine, self.structure, self.engine.intake
        sizes = {name: len(engine.ready(cursor)) for name, cursor in engine.cursors.items()}
        return SharedStats(
            sizes,
            len(structure),
            structure.back,
            structure.height,
            intake.late_count,
            intake.invalid_count,
        )

    @alone
    def check(self) -> None:
        """Assert every invariant, and every window's result against a fold of its events.

        Reads all pages. Raises InvariantViolation.
        """
        engine, monoid = self.engine, self.engine.monoid
        self.structure.check()
        for name, cursor in engine.cursors.items():
            cursor = engine.ready(copy(cursor))  # what is folded here must not be kept
            found = cursor.query()
            if not self.structure.front <= cursor.front <= cursor.back:
                raise InvariantViolation(f"window {name!r} begins before the events it is of")
            fold = Refold(monoid, cursor.partials())
            if not fold.agrees(found):
                raise InvariantViolation(f"window {name!r} is {found!r} instead of {fold!r}")

    def __repr__(self) -> str:
        what, where = f"{self.monoid!r} over {self.windows!r}", self.engine.where()
        return f"<SharedWindows {self.name!r}: {what}, {self.structure.back} events in {where}>"


def _settings(given: EventSettings, lateness: Lateness | None) -> Settings:
    """The settings of the events: by level queues, or by a tree where they may come late."""
    checked = Settings.read(EventSettings, given)
    if lateness is None:
        return replace(checked, aggregator=KeptEvents)
    return replace(checked, aggregator=KeptTree, lateness=to_lateness(lateness, KeptTree))


def _check_policies(windows: Mapping[str, AbstractPolicy], keep: AbstractPolicy | None) -> None:
    """Raises TypeError and ValueError for what cannot be windows of one stream."""
    if not isinstance(windows, Mapping):
        raise TypeError(f"windows are policies by name, as a dictionary, not {windows!r}")
    for name, policy in windows.items():
        _check_name(name)
        require_policy(policy)
    if keep is not None and not (isinstance(keep, AbstractPolicy) and keep.positional):
        raise ValueError(f"keep= takes a window by count or time, not {keep!r}")


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"a window's name is text, not {name!r}")
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a window's name is 1 to {MAX_NAME_BYTES} bytes, not {name!r}")
