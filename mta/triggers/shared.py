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

import numpy as np

from mta.columns.schemas import Rows
from mta.cursors.cursor import Cursor
from mta.times import to_time
from mta.triggers.rules import EveryPeriod, Plan, Progress
from mta.triggers.triggered import Due
from mta.windows.engine import alone
from mta.windows.shared import SharedWindows


class SharedDue:
    """The results of windows at each boundary, of events in order.

    ``newest`` is the time of the newest event that they have, in microseconds; it is taken that
    what was due before it has been given. ``Due.results`` has each window's results by its name.
    """

    def __init__(
        self, windows: SharedWindows, trigger: EveryPeriod, newest: int | None = None
    ) -> None:
        if not isinstance(trigger, EveryPeriod):
            raise TypeError(f"several windows have results by EveryPeriod(...), not {trigger!r}")
        self.engine, self._feed, self._trigger = windows.engine, windows.feed, trigger
        self._progress = Progress(newest=newest)
        known = [policy.lifetime for policy in windows.windows.values()]
        self._lifetime = max((one for one in known if one is not None), default=None)
        windows.engine.intake.timed = True  # for boundaries, whether or not times are kept

    @alone
    def extend(self, values: Any, times: Any) -> Due:
        """Add a batch of events; the results that it makes due.

        Between boundaries events are only inserted; a boundary costs each window O(log n) combines
        and a few page reads a level. Raises as ``SharedWindows.extend`` does.
        """
        rows, micros, count = self.engine.intake.admit_batch(values, times)
        assert micros is not None
        if not count:
            return self._follow(Plan(np.zeros(0, "<i8"), np.zeros(0, "<i8")), rows, micros, 0)
        plan = self._trigger.due(self._progress, micros, count, self._lifetime)
        return self._follow(plan, rows, micros, count)

    @alone
    def advance(self, time: Any) -> Due:
        """Say that all events up to a boundary have come; the results due by then."""
        plan = self._trigger.until(self._progress, to_time(time), self._lifetime)
        return self._follow(plan, (), np.zeros(0, "<i8"), 0)

    @alone
    def flush(self) -> Due:
        """The result at the next boundary by what has come until now; none if nothing has."""
        is_open = self._trigger.is_open(self._progress)
        moments = [self._trigger.next_moment(self._progress)] if is_open else []
        plan = Plan(np.zeros(len(moments), "<i8"), np.array(moments, "<i8"))
        return self._follow(plan, (), np.zeros(0, "<i8"), 0)

    def _follow(self, plan: Plan, rows: Rows, micros: np.ndarray, count: int) -> Due:
        """Insert events up to each stop, and put the results; then the rest of the events."""
        feed, start = self._feed, 0
        outs = {name: feed.monoid.outputs.new(len(plan.stops)) for name in feed.cursors}
        for at, (stop, moment) in enumerate(zip(*map(np.ndarray.tolist, plan), strict=True)):
            self._ingest(rows, micros, start, stop)
            start = stop
            for name, cursor in feed.cursors.items():
                feed.put_result(outs[name], at, self._at(cursor, moment))
        self._ingest(rows, micros, start, count)
        given = int(plan.moments[-1]) if len(plan.moments) else self._progress.given
        newest = int(micros[count - 1]) if count else self._progress.newest
        self._progress = Progress(newest=newest, given=given)
        results = {name: feed.monoid.results(out) for name, out in outs.items()}
        return Due(plan.moments.view("M8[us]"), results)

    def _at(self, cursor: Cursor, moment: int) -> Cursor:
        """A window as it is at a moment when nothing came."""
        if cursor.policy.needs_times:
            cursor.settle(moment)
        return cursor

    def _ingest(self, rows: Rows, micros: np.ndarray, start: int, stop: int) -> None:
        if start < stop:
            part = self.engine.monoid.inputs.cut(rows, start, stop)
            times = micros[start:stop] if self.engine.timed else None
            self._feed.ingest(part, times, stop - start, {})
