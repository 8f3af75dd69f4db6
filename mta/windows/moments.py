"""The window as of any moment, computed from retained events.

A window at a moment is complete if it needs no evicted event. An engine retains all events from the
*horizon* on. The horizon precedes the newest event by the allowed lateness or by ``retain_for``.
Before the horizon, a window by time is complete if a retained event, or the newest evicted event,
precedes it; a window by count is complete if enough events are retained.

``UNKNOWN`` represents a position before all retained events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from mta.errors import EventsGone, InvalidTime, UnsupportedOperation
from mta.evaluators.observed import lens_in, total_before
from mta.frames.base import Both, Frame
from mta.frames.named import SessionWindow
from mta.frames.windows import TimeFrame
from mta.logs.base import EventLog, Remembered
from mta.logs.ranges import Positions
from mta.monoids.base import AbstractMonoid, Out, Partial, as_output
from mta.times import TimeUnit, are_many, clock, moments_of
from mta.windows.intake import Intake

UNKNOWN = -1
#: Later than any moment.
FAR = 1 << 63


class Answering(Protocol[Out]):
    """The interface of a window's engine for queries at moments."""

    intake: Intake
    monoid: AbstractMonoid[Out]
    timed: bool

    def structure(self) -> EventLog:
        """Return the structure, after all pending changes."""

    def lowered(self, fold: Partial, count: int) -> Out:
        """Return the result of a fold of ``count`` events."""


def first_position(frame: Frame, events: Remembered, view: Positions, moment: int) -> int:
    """Return the first position of a window at a moment, given a view of the events up to it.

    ``UNKNOWN`` if evicted events may belong to it. At most two page reads per level.
    """
    found: int = frame.joined(lambda side: _first_position(side, events, view, moment))
    return found


def _first_position(frame: Frame, events: Remembered, view: Positions, moment: int) -> int:
    front, stop = events.kept_from, view.back
    place = frame.start_by_count(stop)
    if place is not None:
        left = events.time_before(front) if events.by_time else None
        if place >= front and left is not None:  # evicted events may be later than retained ones
            oldest = events.time_before(place + 1)
            return UNKNOWN if oldest is None or oldest < left else place
        return place if place >= front else UNKNOWN
    if isinstance(frame, SessionWindow):
        place = frame.cut(view, moment)
        first, left = events.time_before(front + 1), events.time_before(front)
        known = first is not None and left is not None and first - left >= frame.gap
        return place if place > front or (stop > front and known) else UNKNOWN
    assert isinstance(frame, TimeFrame)
    start = frame.start(moment)
    place = events.first_after(start)
    if place > front and not events.by_time:
        return place
    left = events.time_before(front)  # late events may make it later than retained events
    known = place > front if left is None else left <= start
    return place if known else UNKNOWN


def result_at(
    engine: Answering[Out], frame: Frame, moment: int, current: Callable[[], Any],
    horizon: int = FAR, left: bool = False,
) -> tuple[Any, bool]:  # fmt: skip
    """Return the result of a window at a moment, and whether it misses evicted events.

    ``current`` returns the result as of the newest event, which is complete from the ``horizon``
    on. ``left`` says whether events were evicted before the window had its own pages. Costs
    O(arity * log n) combines and a few page reads per level.
    """
    newest = engine.intake.last_time
    if not (frame.positional or frame.merges):
        if isinstance(frame, Both) or (newest is not None and moment < newest):
            raise UnsupportedOperation(
                f"{frame!r} looks at values, so its window is only known as of its newest event: "
                "leave out at=, or ask for a later moment"
            )
        return current(), False
    events = engine.structure().remembered()
    stop, front = events.first_after(moment), events.kept_from
    total = total_before(events, stop, partial(lens_in, engine.monoid))
    view = Positions(lambda: stop, events.first_after, total)
    start = max(frame.cut(view, moment), front)
    misses = (left or front > 0) and newest is not None and moment < min(newest, horizon)
    if misses:
        misses = first_position(frame, events, view, moment) == UNKNOWN
    stop = max(front, frame.stop(view, moment))
    start = min(start, stop)
    return engine.lowered(events.fold(start, stop), stop - start), misses


def asked(
    engine: Answering[Out], frame: Frame, at: Any, unit: TimeUnit | None,
    current: Callable[[], Any], partial: bool,
) -> Any:  # fmt: skip
    """Return the result of a window at a moment, or an array of the results at each of many.

    Raises InvalidTime if events have no times, UnsupportedOperation if the frame observes values,
    and EventsGone for evicted events unless ``partial``.
    """
    moments = moments_of(at, unit)
    if not engine.timed:
        raise InvalidTime("these windows keep no times: leave out at=, or set retain_for=")
    found = []
    for moment in moments.tolist():
        result, misses = result_at(engine, frame, moment, current)
        if misses and not partial:
            raise gone("", moment)
        found.append(result)
    if not are_many(at):
        return found[0]
    return column_of(engine.monoid, found)


def column_of(monoid: AbstractMonoid[Any], results: Sequence[Any]) -> Any:
    """Return single results as a column, in the format of a batch."""
    outputs = monoid.outputs.new(len(results))
    for place, result in enumerate(results):
        monoid.outputs.put(outputs, place, as_output(result))
    return monoid.results(outputs)


def gone(what: str, moment: int) -> EventsGone:
    """Return the error for a window at a moment that misses events."""
    return EventsGone(
        f"events {what}have left although the window at {clock(moment)} needs them: ask for a "
        "later moment, accept the remaining events with partial=True, or retain more "
        "(retain_for=, a larger lateness, or a longer window)"
    )
