"""The last so many events, and those of the last so much time: cut by positions and times."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from numbers import Real

import numpy as np

from mta.folds.fronts import Fronts, moved
from mta.frames.base import AbstractPolicy, Run, TimeSearch, View
from mta.kernels.segments import ranks
from mta.times import MICROSECONDS, Duration, as_text, is_duration, to_duration

#: In seconds.
_CENTURY = 36525 * 86400
_LAST = np.iinfo(np.int64).max


class CountWindow(AbstractPolicy):
    """The newest ``size`` events.

    Args:
        size: How many events, at least 1.

    >>> CountWindow(3)
    CountWindow(3)
    """

    positional = True

    def __init__(self, size: int) -> None:
        number = isinstance(size, Real) and not isinstance(size, bool) and not is_duration(size)
        if not number or not size >= 1 or size % 1:  # so that NaN and infinity are refused too
            raise ValueError(f"a count window holds at least 1 event, not {size!r}")
        self.size = int(size)

    def cut(self, view: View, time: int | None) -> int:
        return view.back - self.size

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        room = self.size - (run.back - run.front)
        if room > 0:
            return run.front, min(count, room)
        first = run.back + 1 - self.size
        return range(first, first + count), count

    @property
    def predictable(self) -> bool:
        return type(self) is CountWindow  # another kind of one may cut otherwise

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> range:
        if not self.predictable:
            super().cuts(search, start, times, count)
        first = start + 1 - self.size
        return range(first, first + count)

    def describe(self) -> str:
        return f"CountWindow({self.size})"


class TimeFrame(AbstractPolicy):
    """Events later than a *start* that follows from the time of the newest, and never goes back."""

    needs_times = True
    positional = True

    @abstractmethod
    def starts(self, times: np.ndarray) -> np.ndarray:
        """For windows that end at some times, the time after which their events are."""

    def reach(self, times: np.ndarray) -> tuple[np.ndarray, int]:
        """The starts, as times and how much earlier than these they are."""
        return self.starts(times), 0

    def start(self, time: int) -> int:
        """The start for one time."""
        return int(self.starts(np.array([time], "<i8"))[0])

    def cut(self, view: View, time: int | None) -> int:
        assert time is not None
        return view.first_after(self.start(time))

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        assert times is not None
        moments, age = self.reach(times[:count])
        first_time = run.oldest_time()
        if first_time is None:
            first_time = int(times[0])  # the window is empty: the run itself brings the oldest one
            count = _not_past(moments, age, first_time)
        if int(moments[count - 1]) - age < first_time:
            return run.front, count
        first, head = run.head_times()
        some = _not_past(moments[:count], age, int(head[-1]))
        if some == 0:
            return None
        return moved(ranks(head, moments[:some], age), first), some

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        if not self.predictable or times is None:
            return super().cuts(search, start, times, count)
        return search.first_after_each(*self.reach(times[:count]))


def _not_past(moments: np.ndarray, age: int, oldest: int) -> int:
    """For how many moments, which never decrease, an event of an older one is in the window."""
    return int(moments.searchsorted(min(oldest + age, _LAST)))


class TimeWindow(TimeFrame):
    """The events of the last ``size``: now - size < t <= now, where now is the newest time.

    An event that is exactly ``size`` old is outside, as in pandas. A day has 24 hours;
    ``CalendarWindow`` follows the clock of a time zone, and has months and years.

    Args:
        size: A number of seconds, a timedelta of Python, numpy or pandas, or text such as "90
            seconds", "5m", "1h30m", "30 days" or "PT1H30M".

    >>> TimeWindow("1 hour"), TimeWindow(90)
    (TimeWindow('1 hour'), TimeWindow('90 seconds'))
    """

    def __init__(self, size: float | Duration) -> None:
        self.size = to_duration(size)
        if isinstance(size, Real) and not is_duration(size) and size >= _CENTURY:
            meant = as_text(self.size // MICROSECONDS)
            warnings.warn(
                f"TimeWindow({size!r}) is a window of {size / _CENTURY * 100:,.0f} years, as a "
                f"number is in seconds: for microseconds write TimeWindow({meant!r})",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({as_text(self.size)!r})"

    @property
    def lifetime(self) -> int:
        return self.size

    def starts(self, times: np.ndarray) -> np.ndarray:
        return times - self.size

    def reach(self, times: np.ndarray) -> tuple[np.ndarray, int]:
        return times, self.size

    def start(self, time: int) -> int:
        return time - self.size

    @property
    def predictable(self) -> bool:
        return type(self) is TimeWindow

    def describe(self) -> str:
        return f"TimeWindow({self.size} us)"
