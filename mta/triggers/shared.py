"""Several windows over one stream, with results at boundaries (``triggers``) in place of events.

The window's value at a boundary is that of each by itself: as ``TriggeredWindow`` gives it. Where
nothing comes for long, boundaries have results until time has emptied all windows that it empties.
The caller says where the stream has come to, so there is nothing to save beside the windows.

    >>> from mta import EveryPeriod, Max, TimeWindow
    >>> policies = {"short": TimeWindow(60), "long": TimeWindow(120)}
    >>> due = SharedDue(SharedWindows(Max(), policies, name="demo"), EveryPeriod(60))
    >>> moments, results = due.extend([5.0, 1.0, 2.0], [10, 70, 130])
    >>> results["short"].tolist(), results["long"].tolist()
    ([5.0, 1.0], [5.0, 5.0])
"""

from __future__ import annotations

from typing import Any

from mta.columns.schemas import Record, Rows, Schema
from mta.errors import UnsupportedOperation
from mta.triggers.rules import EveryPeriod, Progress
from mta.triggers.triggered import ResultsWhenDue
from mta.windows.engine import require_kind
from mta.windows.shared import SharedWindows
from mta.windows.shared_engine import SharedEngine


class SharedDue(ResultsWhenDue):
    """The results of windows at each boundary, of events in order.

    ``newest`` is the time of the newest event that they have, in microseconds; it is taken that
    what was due before it has been given. ``Due.results`` has each window's results by its name.
    A boundary costs each window O(log n) combines and a few page reads a level.
    """

    engine: SharedEngine

    def __init__(
        self, windows: SharedWindows, trigger: EveryPeriod, newest: int | None = None
    ) -> None:
        require_kind(trigger, EveryPeriod, "several windows have results by EveryPeriod(...)")
        self.engine, self.monoid = windows.engine, windows.monoid
        known = [policy.lifetime for policy in windows.windows.values()]
        lifetime = max((one for one in known if one is not None), default=None)
        self._begin(trigger, windows.engine.intake, lifetime)
        self.progress = Progress(newest=newest)

    @property
    def _outputs(self) -> Schema:
        return Record([self.monoid.outputs] * len(self.engine.cursors))

    def _results(self, out: Rows) -> Any:
        each = zip(self.engine.cursors, out, strict=True)
        return {name: self.monoid.results(column) for name, column in each}

    def _put(self, moment: int, out: Rows, at: int) -> None:
        for cursor, column in zip(self.engine.cursors.values(), out, strict=True):
            if cursor.policy.needs_times:
                cursor.settle(moment)
            self.engine.put_result(column, at, cursor)

    def checkpoint(self, barrier: bool = True) -> bytes:
        raise UnsupportedOperation("take the handle of the windows themselves")
