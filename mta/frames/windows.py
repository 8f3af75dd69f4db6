"""Windows of a number of events, or of a duration, cut by positions and times.

Times are whole microseconds, so every frame by time can be written with an excluded start and an
included end:

    closed    "right"               "left"                  "both"                "neither"
              (m - size, m]         [m - size, m)           [m - size, m]         (m - size, m)
    start     m - size              m - size - 1            m - size - 1          m - size
    end       m                     m - 1                   m                     m - 1

``delay`` moves the start and the end back.
"""

from __future__ import annotations

import re
import warnings
from abc import abstractmethod
from datetime import timedelta
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from mta.folds.sliding import Fronts
from mta.frames.base import End, Frame, Ties, TimeSearch, View
from mta.times import MICROSECONDS, Duration, as_text, is_duration, to_count, to_duration

#: In seconds.
_CENTURY = 36525 * 86400
#: Limits that keep sums of times, sizes and delays within 64 bits.
_LONGEST_DELAY, _LONGEST = 1 << 60, 1 << 62
#: The size, in rows or microseconds, of a frame that starts with the first event.
UNBOUNDED = 1 << 61
#: Which bounds a frame by time includes.
Closed = Literal["right", "left", "both", "neither"]


class CountWindow(Frame):
    """The newest ``size`` events.

    Args:
        size: The number of events, at least 1.
        exclude_current: Whether to exclude the newest event: the same as ``delay=1``.
        delay: How many of the newest events to exclude. The window still has ``size`` events.

    >>> CountWindow(3), CountWindow(100, exclude_current=True), CountWindow(3, delay=2)
    (CountWindow(3), CountWindow(100, exclude_current=True), CountWindow(3, delay=2))
    """

    positional = True
    counts = True

    def __init__(self, size: int, *, exclude_current: bool = False, delay: int = 0) -> None:
        number = isinstance(size, Real) and not isinstance(size, bool) and not is_duration(size)
        if not number or not size >= 1 or size % 1:  # also refuses NaN and infinity
            raise ValueError(f"a count window contains at least 1 event, not {size!r}")
        if not isinstance(exclude_current, (bool, np.bool_)):
            raise TypeError(f"exclude_current is True or False, not {exclude_current!r}")
        self.size, rows = int(size), to_count(delay, "a delay by rows", 0)
        if exclude_current and rows > 1:
            raise ValueError(f"exclude_current=True means delay=1, and delay is {delay}: give one")
        self.end = End(rows=1 if exclude_current else rows)

    def start_by_count(self, stop: Any) -> Any:
        return stop - self.end.rows - self.size

    def cut(self, view: View, time: int | None) -> int:
        return view.back - self.end.rows - self.size

    @property
    def predictable(self) -> bool:
        return type(self) is CountWindow  # a subclass may cut differently

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> range:
        if not self.predictable:
            super().cuts(search, start, times, count)
        first = start + 1 - self.end.rows - self.size
        return range(first, first + count)

    def describe(self) -> str:
        rows = self.end.rows
        end = f", delay {rows} rows" if rows > 1 else ", exclude current" if rows else ""
        return f"CountWindow({self.size}{end})"

    def __repr__(self) -> str:
        rows = self.end.rows
        end = f", delay={rows}" if rows > 1 else ", exclude_current=True" if rows else ""
        return f"CountWindow({self.size}{end})"


class TimeFrame(Frame):
    """Events between a start and an end, which follow from a moment and never move back.

    The moment is the time of the newest event, or a later time.
    """

    needs_times = True
    positional = True
    closed: Closed = "right"
    #: The default for ``closed``.
    _usual: Closed = "right"
    #: By how much the start and the end move back, in microseconds.
    delay = 0

    def _set_end(self, closed: Closed, delay: float | Duration, ties: Ties) -> None:
        """Set the end from the arguments of a constructor."""
        if closed not in get_args(Closed):
            raise ValueError(f"closed is one of {', '.join(get_args(Closed))}, not {closed!r}")
        if ties not in get_args(Ties):
            raise ValueError(f"ties is 'rows' or 'peers', not {ties!r}")
        self.closed, self.delay, self.ties = closed, to_duration(delay, "a delay", least=0), ties
        if self.delay > _LONGEST_DELAY:
            raise ValueError(f"a delay is at most {_LONGEST_DELAY} us, not {delay!r}")
        self.end = End(delay=self.delay + (closed in ("left", "neither")))
        if self.end.delay:
            self.ties = "rows"  # no frame includes events with the time of its own row

    @property
    def _is_start_closed(self) -> bool:
        return self.closed in ("left", "both")

    @abstractmethod
    def starts(self, times: np.ndarray) -> np.ndarray:
        """Return the start of the frame at each moment: its events are later than the start."""

    def ends(self, times: np.ndarray) -> np.ndarray:
        """Return the end of the frame at each moment: none of its events is later than the end.

        A frame that ends with a row excludes later rows, even those with the same time.
        """
        return times - self.end.delay

    def _end_described(self) -> str:
        """Return the non-default parameters of the end as text, the same in every process."""
        return "".join(
            [
                f", closed {self.closed}" if self.closed != self._usual else "",
                f", delay {self.delay} us" if self.delay else "",
                f", ties {self.ties}" if self.ties != "rows" else "",
            ]
        )

    def _end_arguments(self) -> str:
        """Return the non-default parameters of the end as arguments of a constructor."""
        return "".join(
            [
                f", closed={self.closed!r}" if self.closed != self._usual else "",
                f", delay={as_text(self.delay)!r}" if self.delay else "",
                f", ties={self.ties!r}" if self.ties != "rows" else "",
            ]
        )

    def reach(self, times: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the starts, as times and a duration to subtract from all of them."""
        return self.starts(times), 0

    def start(self, time: int) -> int:
        """Return the start for one moment."""
        return int(self.starts(np.array([time], "<i8"))[0])

    def cut(self, view: View, time: int | None) -> int:
        assert time is not None
        return view.first_after(self.start(time))

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        if not self.predictable or times is None:
            return super().cuts(search, start, times, count)
        return search.first_after_each(*self.reach(times[:count]))


class TimeWindow(TimeFrame):
    """The events of the last ``size``: now - size < t <= now, where now is the newest time.

    An event that is exactly ``size`` old is outside, as in pandas. A day has 24 hours. Use
    ``CalendarWindow`` for the clock of a time zone, and for months and years.

    Args:
        size: A number of seconds, a timedelta of Python, numpy or pandas, or text such as "90
            seconds", "5m", "1h30m", "30 days" or "PT1H30M".
        closed: Which bounds the window includes. "left" excludes the newest event and others with
            its time, and includes an event that is exactly ``size`` old.
        delay: A duration that moves both bounds back.
        ties: With "rows", the window of an event includes earlier rows with its time; with "peers",
            all rows with its time (in ``rolling`` and batches).

    >>> TimeWindow("1 hour"), TimeWindow(90)
    (TimeWindow('1 hour'), TimeWindow('90 seconds'))
    >>> TimeWindow("1 day", closed="left"), TimeWindow("1 day", delay="1 hour")
    (TimeWindow('1 day', closed='left'), TimeWindow('1 day', delay='1 hour'))
    """

    def __init__(
        self,
        size: float | Duration,
        *,
        closed: Closed = "right",
        delay: float | Duration = 0,
        ties: Ties = "rows",
    ) -> None:
        self.size = to_duration(size)
        self._set_end(closed, delay, ties)
        if self.lifetime > _LONGEST:
            raise ValueError(
                f"size and delay are at most {_LONGEST} us, not {size!r} and {delay!r}"
            )
        if isinstance(size, Real) and not is_duration(size) and size >= _CENTURY:
            meant = as_text(self.size // MICROSECONDS)
            warnings.warn(
                f"TimeWindow({size!r}) is a window of {size / _CENTURY * 100:,.0f} years, as a "
                f"number is in seconds: for microseconds write TimeWindow({meant!r})",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({as_text(self.size)!r}{self._end_arguments()})"

    @property
    def lifetime(self) -> int:
        return self.delay + self.size + self._is_start_closed

    def starts(self, times: np.ndarray) -> np.ndarray:
        return times - self.lifetime

    def reach(self, times: np.ndarray) -> tuple[np.ndarray, int]:
        return times, self.lifetime

    def start(self, time: int) -> int:
        return time - self.lifetime

    @property
    def predictable(self) -> bool:
        return type(self) is TimeWindow

    def describe(self) -> str:
        return f"TimeWindow({self.size} us{self._end_described()})"


def is_unbounded(frame: Frame) -> bool:
    """Return whether a frame contains all events from the first to the newest one."""
    if isinstance(frame, CountWindow | TimeWindow):
        return not frame.lags and frame.size >= UNBOUNDED
    return False


#: The end of a frame by time in a description.
END = r"(?:, closed (?P<closed>\w+))?(?:, delay (?P<delay>\d{1,18}) us)?(?:, ties (?P<ties>\w+))?"


def end_of(found: re.Match[str]) -> dict[str, Any]:
    """Return the arguments for a match of ``END``."""
    given = {name: text for name, text in found.groupdict().items() if text is not None}
    if "delay" in given:
        given["delay"] = timedelta(microseconds=int(given["delay"]))
    return given
