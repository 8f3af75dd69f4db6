"""A window that folds its range with each query: FlatFAT and the Reactive Aggregator.

A cursor has folds, and combines each new event with them. A ``RangeFold`` has none: an insertion
and an eviction take no combine, and a query asks the log, which has the aggregates of all ranges.
It reads the results of a batch as every cursor does, and then drops the folds of that batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from mta.columns.schemas import Row
from mta.evaluators.cursor import Cursor
from mta.folds.sliding import Events
from mta.logs.base import Aggregator, Prefetched
from mta.monoids.base import Partial


class RangeFold(Cursor):
    """The only window over a log that can fold any of its ranges."""

    own_log: Aggregator
    has_stack = False

    def settle(self, time: int | None) -> None:
        frame, previous = self.frame, self.back
        depends = self.is_behind or frame.positional or frame.needs_times
        if self.is_behind:
            self.stack.clear()  # the folds of the last batch lack the events since then
        self.end = self.back = self.own_log.back
        try:
            if depends and len(self):
                self.evict_to(frame.cut(self, time))
        except Exception:
            self.end = self.back = previous
            raise

    def evict_to(self, front: int) -> None:
        self.own_log.evict_to(front)

    def fall_behind(self) -> None:
        self.end = self.back = self.front

    def _take(self, row: Row) -> None:
        self.stack.clear()

    def begin_run(self) -> None:
        self.events = self.own_log.reader()
        super().begin_run()

    def for_singles(
        self, most: int, room: int, timed: bool, newest: Events | None
    ) -> Prefetched | None:
        return None

    # --- what frames observe --------------------------------------------------------------------

    def query(self) -> Partial:
        return self.own_log.query()

    def partials(self) -> Iterator[Partial]:
        return self.own_log.events()

    def first_after(self, time: int) -> int:
        oldest = self.own_log.oldest_time()
        if oldest is None or oldest > time:
            return self.front
        return self.own_log.remembered().first_after(time)
