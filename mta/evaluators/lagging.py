"""Windows over shared events whose frames end before the newest one (``ends``)."""

from __future__ import annotations

from mta.columns.schemas import Row
from mta.evaluators.cursor import Cursor
from mta.evaluators.ends import stop_of
from mta.monoids.base import Partial


class LaggingCursor(Cursor):
    """A window whose frames end before the newest event.

    Its front and its back are those of what it retains; ``end`` is where its frame ends, as far as
    that is known: it is looked for when somebody asks, as it may depend on the time.
    """

    _end: int | None = None

    def __len__(self) -> int:
        return self.end - self.front

    @property
    def is_settled(self) -> bool:
        return self._end is not None or self.front == self.back

    @property
    def end(self) -> int:
        return self.back if self._end is None else max(self._end, self.front)

    def place(self, front: int, back: int) -> None:
        super().place(front, back)
        self._end = None

    def settle(self, time: int | None) -> None:
        super().settle(time)
        self._end = stop_of(self.policy, self.events, self.back, time)

    def query(self) -> Partial:
        """The aggregate of the frame; O(log n) combines."""
        return self.events.fold(self.front, self.end)

    def step(self, row: Row, time: int | None) -> None:
        """Take in the next event, which is in the log already."""
        del row, time
        self.place(self.front, self.back + 1)
