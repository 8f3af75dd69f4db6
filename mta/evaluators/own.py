"""The window of a log that folds its events itself, such as FlatFAT and FiBA.

An engine has a log, and evaluates windows over it by name. Most logs are read through cursors
(``cursor``). A ``FoldingLog`` has one window of its own, from its front to its end: it folds the
window as events arrive, and moves its front as the frame says.
``OwnWindow`` gives that window the interface of a cursor.

Three logs fold their windows. In FlatFAT an insert takes no combine; a cursor takes one for each
event. In the Reactive Aggregator, an eviction from the middle moves the positions of older events.
FiBA remembers which events have left, also if a newer one is retracted; apart from this, a cursor
takes as long for batches of 30 and of single events (0.95 to 1.03 times, measured with
``SharedWindows`` of one window).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mta.columns.schemas import Row
from mta.evaluators.observed import ObservedWindow, lenses_of_frame
from mta.folds.sliding import Events
from mta.frames.base import NEWEST, Frame
from mta.logs.base import Batch, FoldingLog, Lens, Prefetched
from mta.monoids.base import Partial


class Clock(Protocol):
    """Knows the newest time of an event."""

    @property
    def last_time(self) -> int | None:
        """The newest time, or None without times."""


class OwnWindow(ObservedWindow):
    """The window of an aggregator: its frame, and what it can observe."""

    def __init__(self, structure: FoldingLog, frame: Frame, clock: Clock) -> None:
        lenses = lenses_of_frame(structure.monoid, frame)
        super().__init__(structure.monoid, frame, structure.by_time, lenses)
        self._structure, self._clock = structure, clock
        self.ends_early = frame.end != NEWEST
        #: The moment of the last query after the newest event, if any since that event.
        self._moment: int | None = None
        self._is_behind = False

    @property
    def front(self) -> int:  # type: ignore[override]
        return self._structure.front

    @property
    def back(self) -> int:  # type: ignore[override]
        return self._structure.back

    @property
    def is_behind(self) -> bool:
        return self._is_behind

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
        """Forget a failed ``step``, because the log undoes the change."""
        self._is_behind = False

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
        if self.ends_early:
            len(self)  # the structure then knows the end of the frame
        if self.frame.positional:
            return self._structure.prefetched(most)
        found = self._structure.prefetched(0)
        return found and found._replace(turns=False)

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

    def prefix_accepted(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._structure.longest_prefix(lens, accepts)

    def suffix_accepted(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._structure.longest_suffix(lens, accepts)
