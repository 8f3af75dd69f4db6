"""The window of a log that folds its events itself, such as FlatFAT and FiBA.

An engine has a log, and evaluates windows over it by name. Most logs serve any windows, which read
them through cursors (``cursor``). An ``Aggregator`` has one window of its own, from its front to
its end: it folds the window as events arrive, and moves its front as the frame says.
``OwnWindow`` gives that window the interface of a cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import maxsize
from typing import Any, Protocol

import numpy as np

from mta.columns.schemas import Row
from mta.evaluators.observed import ObservedWindow, lenses_of_frame
from mta.folds.sliding import Events
from mta.frames.base import NEWEST, Both, Frame
from mta.frames.bounds import CustomFrame
from mta.frames.windows import CountWindow
from mta.logs.base import Aggregator, Batch, Prefetched
from mta.monoids.base import Partial


class Clock(Protocol):
    """Knows the newest time of an event."""

    @property
    def last_time(self) -> int | None:
        """The newest time, or None without times."""


class Searched:
    """A frame on an aggregate, alone or ``|`` a count."""

    def __init__(self, window: OwnWindow, frame: Frame, size: int) -> None:
        self._window, self._frame = window, frame
        #: The maximum number of events in the window.
        self.size = size
        monoid, self._pick = window.lens(frame)
        self._lower = monoid.lower

    def total(self, fold: Partial) -> Any:
        """Return what the frame observes, given the window's aggregate."""
        return self._lower(self._pick(fold))

    def stays(self) -> Any:
        """Return the value for which nothing is evicted at the current front, or None."""
        return self._window.kept_total(self._frame)


class OwnWindow(ObservedWindow):
    """The window of an aggregator: its frame, and what it can observe."""

    def __init__(self, structure: Aggregator, frame: Frame, clock: Clock) -> None:
        super().__init__(structure.monoid, lenses_of_frame(structure.monoid, frame))
        self.frame, self._structure, self._clock = frame, structure, clock
        self.ends_early = frame.end != NEWEST
        #: The moment of the last query after the newest event, if any since that event.
        self._moment: int | None = None
        #: Whether events were added or removed since the frame was last applied.
        self._is_behind = False
        #: The front and the total for which a frame, by its ``id``, last evicted nothing.
        self._kept: dict[int, tuple[int, Any]] = {}

    @property
    def front(self) -> int:  # type: ignore[override]
        return self._structure.front

    @property
    def back(self) -> int:  # type: ignore[override]
        return self._structure.back

    @property
    def taken(self) -> int:
        """The position after the newest event that the window has processed; -1 if unknown."""
        return -1 if self._is_behind else self._structure.back

    def __len__(self) -> int:
        """Return the number of events. One page read per level if the frame ends early."""
        last, moment = self._clock.last_time, self._moment
        time = last if last is None or moment is None else max(last, moment)
        return self._structure.end_at(time) - self._structure.front

    # --- events ---------------------------------------------------------------------------------

    def settle(self, time: int | None) -> None:
        """Apply the frame at the newest event, or at a later moment."""
        self._moment, frame = time, self.frame
        depends = self._is_behind or frame.positional or frame.needs_times
        if depends and len(self._structure):
            self._structure.slide_to(frame.cut(self, time))
        self._is_behind = False

    def step(self, row: Row, time: int | None) -> None:
        """Evict as the frame says, after an event was added."""
        self._moment = None
        self._structure.slide_to(self.frame.cut(self, time))
        self._is_behind = False

    def recede(self) -> None:
        """Have the next access apply the frame again, as events were removed."""
        self._is_behind = True

    def place(self, front: int, back: int) -> None:
        """Forget a failed ``step`` and the oldest time, because the log undoes the change."""
        self._is_behind = False
        self._structure.restore_front_time(None)

    def fall_behind(self) -> None:
        """Have the next access apply a frame on positions again, as of another time."""
        self._is_behind = self.frame.positional or self.frame.merges

    def ingest(self, batch: Batch, start: int) -> int:
        """Add as many events of a batch as possible together, with results if it has room for any.

        Returns how many; 0 if the next one must be added alone. Without results, the next access
        applies the frame.
        """
        self._moment = None
        if batch.results is not None:
            return self._structure.run(batch, start)
        if not self.frame.positional:
            return 0
        count = self._structure.extend(batch.rows, batch.times, start, batch.count)
        self._is_behind = True
        return count

    # --- single events --------------------------------------------------------------------------

    def for_singles(
        self, most: int, room: int, timed: bool, newest: Events | None
    ) -> Prefetched | None:
        """Return the data for single events, None if the next one needs more; see ``prefetched``.

        Under a frame on an aggregate, only the frame may move the front.
        """
        last, moment = self._clock.last_time, self._moment
        if self.ends_early and moment is not None and (last is None or last < moment):
            return None  # the window ends at a later moment than the newest event
        if self.ends_early:
            len(self)  # the structure then knows the end of the frame
        if self.frame.positional:
            return self._structure.prefetched(most)
        found = self._structure.prefetched(0)
        return found and found._replace(turns=False)

    def searched(self) -> Searched | None:
        """Return the frame if it is one on an aggregate, alone or ``|`` a count; else None."""
        frame, size = self.frame, maxsize
        if isinstance(frame, Both) and frame.any_of:
            for count, other in ((frame.one, frame.other), (frame.other, frame.one)):
                if type(count) is CountWindow:
                    frame, size = other, count.size
        is_searched = isinstance(frame, CustomFrame) and frame.is_searched
        return (
            Searched(self, frame, size)
            if is_searched and not self._structure.setting.timed
            else None
        )

    def sync(self, came: int, gone: int, right: Partial | None, late: int | None = None) -> None:
        """Process single events that the log has taken in; see ``Aggregator.sync``."""
        self._structure.sync(came, gone, right, late)

    # --- what frames observe ------------------------------------------------------------------

    def query(self) -> Partial:
        return self._structure.query()

    def partials(self) -> Iterator[Partial]:
        return self._structure.events()

    def first_after(self, time: int) -> int:
        oldest = self._structure.oldest_time()
        if oldest is None or oldest > time:
            return self._structure.front
        return self._structure.first_after(time)

    def longest_prefix(
        self, frame: Frame, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Return where the longest accepted prefix ends; see ``frames.View``."""
        structure, asked = self._structure, None
        # In structures ordered by time, a late event may have moved the positions.
        if isinstance(total, int | float | np.integer) and not structure.by_time:
            asked = structure.front, total
            if self._kept.get(id(frame)) == asked:
                return structure.front
        found = structure.longest_prefix(self.lens(frame), accepts)
        if asked is not None and found == structure.front:
            self._kept[id(frame)] = asked
        return found

    def kept_total(self, frame: Frame) -> Any:
        """Return a total for which a frame evicts nothing from this front; None if there is none.

        If no total is known, applies the frame, which searches the window.
        """
        if self._is_behind:
            self.settle(self._clock.last_time)
        front = self._structure.front
        if self._kept.get(id(frame), (-1, None))[0] != front and front < self.back:
            frame.cut(self, None)
        kept, total = self._kept.get(id(frame), (-1, None))
        return total if kept == front else None

    def longest_suffix(self, frame: Frame, accepts: Callable[[Any], bool]) -> int:
        return self._structure.longest_suffix(self.lens(frame), accepts)
