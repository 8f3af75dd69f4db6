"""The last so many events, and those of the last so much time: cut by positions and times.

Times are whole microseconds, so each bound of a frame by time is one that excludes its start and
includes its end:

    closed    "right"               "left"                  "both"                "neither"
              (m - size, m]         [m - size, m)           [m - size, m]         (m - size, m)
    start     m - size              m - size - 1            m - size - 1          m - size
    end       m                     m - 1                   m                     m - 1

and all of it earlier by ``delay``.
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
from mta.frames.base import NEWEST, AbstractPolicy, End, Ties, TimeSearch, View
from mta.times import MICROSECONDS, Duration, as_text, is_duration, to_duration

#: In seconds.
_CENTURY = 36525 * 86400
#: So that times, sizes and delays together stay within 64 bits.
_LONGEST_DELAY, _LONGEST = 1 << 60, 1 << 62
#: Which bounds of a frame by time belong to it.
Closed = Literal["right", "left", "both", "neither"]


class CountWindow(AbstractPolicy):
    """The newest ``size`` events.

    Args:
        size: How many events, at least 1.
        exclude_current: Whether to exclude the newest event.

    >>> CountWindow(3), CountWindow(100, exclude_current=True)
    (CountWindow(3), CountWindow(100, exclude_current=True))
    """

    positional = True

    def __init__(self, size: int, *, exclude_current: bool = False) -> None:
        number = isinstance(size, Real) and not isinstance(size, bool) and not is_duration(size)
        if not number or not size >= 1 or size % 1:  # so that NaN and infinity are refused too
            raise ValueError(f"a count window holds at least 1 event, not {size!r}")
        if not isinstance(exclude_current, (bool, np.bool_)):
            raise TypeError(f"exclude_current is True or False, not {exclude_current!r}")
        self.size = int(size)
        self.end = End(rows=1) if exclude_current else NEWEST

    def cut(self, view: View, time: int | None) -> int:
        return view.back - self.end.rows - self.size

    @property
    def predictable(self) -> bool:
        return type(self) is CountWindow  # another kind of one may cut otherwise

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> range:
        if not self.predictable:
            super().cuts(search, start, times, count)
        first = start + 1 - self.end.rows - self.size
        return range(first, first + count)

    def describe(self) -> str:
        return f"CountWindow({self.size}{', exclude current' if self.end.rows else ''})"

    def __repr__(self) -> str:
        return f"CountWindow({self.size}{', exclude_current=True' if self.end.rows else ''})"


class TimeFrame(AbstractPolicy):
    """Events between a start and an end that follow from a moment, and never go back.

    That moment is the time of the newest event, or a later one.
    """

    needs_times = True
    positional = True
    closed: Closed = "right"
    #: How a frame is closed where nothing is said.
    _usual: Closed = "right"
    #: How much earlier than the moment all of the frame is, in microseconds.
    delay = 0

    def _set_end(self, closed: Closed, delay: float | Duration, ties: Ties) -> None:
        """Read what constructors take of the end."""
        if closed not in get_args(Closed):
            raise ValueError(f"closed is one of {', '.join(get_args(Closed))}, not {closed!r}")
        if ties not in get_args(Ties):
            raise ValueError(f"ties is 'rows' or 'peers', not {ties!r}")
        self.closed, self.delay, self.ties = closed, to_duration(delay, "a delay", least=0), ties
        if self.delay > _LONGEST_DELAY:
            raise ValueError(f"a delay is at most {_LONGEST_DELAY} us, not {delay!r}")
        self.end = End(delay=self.delay + (closed in ("left", "neither")))
        if self.end.delay:
            self.ties = "rows"  # no frame has events of the row's own time

    @property
    def _is_start_closed(self) -> bool:
        return self.closed in ("left", "both")

    @abstractmethod
    def starts(self, times: np.ndarray) -> np.ndarray:
        """For frames that are asked for at some times, the time after which their events are."""

    def ends(self, times: np.ndarray) -> np.ndarray:
        """For frames that are asked for at some times, the time of the last events that may be in.

        Of one that ends with a row, no event after that row is in, though it may have its time.
        """
        return times - self.end.delay

    def _end_described(self) -> str:
        """The parameters of the end that are not the usual ones, the same in every process."""
        return "".join(
            [
                f", closed {self.closed}" if self.closed != self._usual else "",
                f", delay {self.delay} us" if self.delay else "",
                f", ties {self.ties}" if self.ties != "rows" else "",
            ]
        )

    def _end_arguments(self) -> str:
        """The same, as arguments."""
        return "".join(
            [
                f", closed={self.closed!r}" if self.closed != self._usual else "",
                f", delay={as_text(self.delay)!r}" if self.delay else "",
                f", ties={self.ties!r}" if self.ties != "rows" else "",
            ]
        )

    def reach(self, times: np.ndarray) -> tuple[np.ndarray, int]:
        """The starts, as times and how much earlier than these they are."""
        return self.starts(times), 0

    def start(self, time: int) -> int:
        """The start for one time."""
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

    An event that is exactly ``size`` old is outside, as in pandas. A day has 24 hours;
    ``CalendarWindow`` follows the clock of a time zone, and has months and years.

    Args:
        size: A number of seconds, a timedelta of Python, numpy or pandas, or text such as "90
            seconds", "5m", "1h30m", "30 days" or "PT1H30M".
        closed: Which bounds belong to the window. "left" excludes the newest event and others with
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


#: What descriptions say of the end of a frame by time.
END = r"(?:, closed (?P<closed>\w+))?(?:, delay (?P<delay>\d{1,18}) us)?(?:, ties (?P<ties>\w+))?"


def end_of(found: re.Match[str]) -> dict[str, Any]:
    """The arguments that ``END`` has matched."""
    given = {name: text for name, text in found.groupdict().items() if text is not None}
    if "delay" in given:
        given["delay"] = timedelta(microseconds=int(given["delay"]))
    return given
