"""Frames on counts and times: created from descriptions, and compared by what they retain.

>>> hour = frame_from_text("TimeWindow(3600000000 us)", TimeWindow("1 hour").fingerprint)
>>> covers(hour, TimeWindow("1 minute") | CountWindow(5)), covers(hour, TimeWindow("1 day"))
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import product
from math import inf
from typing import NamedTuple

from mta.frames.base import Both, Frame
from mta.frames.calendar import CalendarWindow, calendar_of
from mta.frames.named import SessionWindow
from mta.frames.windows import END, CountWindow, TimeWindow, end_of
from mta.times import as_text

#: Longer descriptions are not read.
_LONGEST = 1000
#: The end of a frame by count in a description.
_ROWS = r", exclude current|, delay (\d{1,18}) rows"


def frame_from_text(text: str, fingerprint: bytes) -> Frame | None:
    """Return the frame on counts and times with this description and fingerprint, or None."""
    try:
        frame = _parsed(text) if len(text) <= _LONGEST else None
    except ValueError:
        return None
    return frame if frame is not None and frame.fingerprint == fingerprint else None


def _parsed(text: str) -> Frame | None:
    if found := re.fullmatch(rf"CountWindow\((\d{{1,19}})({_ROWS})?\)", text):
        return CountWindow(int(found[1]), delay=int(found[3] or found[2] is not None))
    if found := re.fullmatch(rf"TimeWindow\((\d{{1,18}}) us{END}\)", text):
        return TimeWindow(timedelta(microseconds=int(found[1])), **end_of(found))
    if found := re.fullmatch(r"SessionWindow\((\d{1,18}) us\)", text):
        return SessionWindow(timedelta(microseconds=int(found[1])))
    if found_calendar := calendar_of(text):
        return found_calendar
    if not text.startswith("(") or not text.endswith(")"):
        return None
    depth = 0
    for at in range(1, len(text) - 1):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0 and text[at - 1 : at + 2] in (" | ", " & "):
            one, other = _parsed(text[1 : at - 1]), _parsed(text[at + 2 : -1])
            if one is None or other is None:
                return None
            return one | other if text[at] == "|" else one & other
    return None


def shown(text: str) -> str:
    """Return a description with its durations as people write them, as in ``repr`` of a frame.

    >>> shown("(TimeWindow(86400000000 us, delay 1000 us) | CountWindow(5))")
    '(TimeWindow(1 day, delay 1 millisecond) | CountWindow(5))'
    """
    return re.sub(r"\b(\d{1,18}) us\b", lambda found: as_text(int(found[1])), text)


def covers(one: Frame, other: Frame) -> bool:
    """Return whether ``one`` is known to retain every event that ``other`` retains.

    Events after the end of a frame are retained for later frames.
    """
    if one.fingerprint == other.fingerprint:
        return True
    if isinstance(one, Both):
        sides = (covers(side, other) for side in (one.one, one.other))
        if all(sides) if one.any_of else any(sides):
            return True
    if isinstance(other, Both):
        sides = (covers(one, side) for side in (other.one, other.other))
        return any(sides) if other.any_of else all(sides)
    if type(one) is CountWindow and type(other) is CountWindow:
        return one.size + one.end.rows >= other.size + other.end.rows
    if type(one) is TimeWindow and type(other) is TimeWindow:
        return one.lifetime >= other.lifetime
    if type(one) is SessionWindow and type(other) is SessionWindow:
        return one.gap >= other.gap
    if isinstance(one, CalendarWindow | TimeWindow | SessionWindow) and isinstance(
        other, CalendarWindow | TimeWindow
    ):
        return held_for(one) >= other.lifetime
    return False


def held_for(frame: Frame) -> int:
    """Return the shortest time that any event stays in the window, in microseconds.

    >>> held_for(TimeWindow(60) & CountWindow(5)), held_for(TimeWindow(60) | CountWindow(5))
    (60000000, 0)
    """
    if isinstance(frame, Both):
        sides = held_for(frame.one), held_for(frame.other)
        return min(sides) if frame.any_of else max(sides)
    if type(frame) is CalendarWindow:
        return frame.shortest
    return frame.lifetime if isinstance(frame, TimeWindow | SessionWindow) else 0


class Whole(NamedTuple):
    """A condition for a complete window: a moment, and a number of events since a change."""

    moment: int | None
    """In microseconds; None for any moment."""
    events: int


#: Complete from the start.
AT_ONCE = Whole(None, 0)


def whole_after(frame: Frame, gone: int | None, known: int) -> list[Whole]:
    """Return the conditions under which a window is complete if older events are missing.

    All events up to the moment ``gone`` may be missing, except the last ``known`` events of each
    key. Empty if no condition is known.
    """
    if isinstance(frame, Both):
        one, other = (whole_after(side, gone, known) for side in (frame.one, frame.other))
        return _distinct([*one, *other]) if frame.any_of else all_of(one, other)
    if type(frame) is CountWindow:
        return [Whole(None, max(0, frame.size + frame.end.rows - known))]
    if type(frame) in (TimeWindow, CalendarWindow) and gone is not None:
        assert frame.lifetime is not None
        return [Whole(gone + frame.lifetime, 0)]
    return []


def all_of(one: Iterable[Whole], other: Iterable[Whole]) -> list[Whole]:
    """Return the conditions under which two windows are both complete."""
    return _distinct(
        [
            Whole(max(a.moment, b.moment, key=_order), max(a.events, b.events))
            for a, b in product(one, other)
        ]
    )


def _distinct(ways: Iterable[Whole]) -> list[Whole]:
    """Remove conditions that another one always precedes, and sort the others by moment."""
    found: list[Whole] = []
    for way in sorted(ways, key=lambda way: (_order(way.moment), way.events)):
        if not found or way.events < found[-1].events:
            found.append(way)
    return found


def _order(moment: int | None) -> float:
    return -inf if moment is None else moment
