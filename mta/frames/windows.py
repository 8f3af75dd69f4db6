"""The last so many events, and those of the last so much time: cut by positions and times."""

from __future__ import annotations

import warnings
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
    """The last ``size`` events.

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
    def foreseen(self) -> bool:
        return type(self) is CountWindow  # another kind of one may cut otherwise

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> range:
        if not self.foreseen:
            super().cuts(search, start, times, count)
        first = start + 1 - self.size
        return range(first, first + count)

    def describe(self) -> str:
        return f"CountWindow({self.size})"


class TimeWindow(AbstractPolicy):
    """The events of the last ``size``: now - size < t <= now, where now is the newest time.

    An event exactly ``size`` old is outside, as in pandas. ``size`` is a number of seconds, a
    timedelta of Python, numpy or pandas, or text such as "90 seconds", "5m", "1h30m", "30 days" or
    "PT1H30M". Months and years, which have no fixed length, are refused.

    >>> TimeWindow("1 hour"), TimeWindow(90)
    (TimeWindow('1 hour'), TimeWindow('90 seconds'))
    """

    needs_times = True
    positional = True

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

    def cut(self, view: View, time: int | None) -> int:
        assert time is not None
        return view.first_after(time - self.size)

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        assert times is not None
        first_time = run.oldest_time()
        if first_time is None:
            first_time = int(times[0])  # the window is empty: the run itself brings the oldest one
            count = self._not_past(times[:count], first_time)
        if int(times[count - 1]) - self.size < first_time:
            return run.front, count
        first, head = run.head_times()
        some = self._not_past(times[:count], int(head[-1]))
        if some == 0:
            return None
        return moved(ranks(head, times[:some], self.size), first), some

    def _not_past(self, times: np.ndarray, oldest: int) -> int:
        """For how many times, which never decrease, an event of an older one is in the window."""
        return int(times.searchsorted(min(oldest + self.size, _LAST)))

    @property
    def foreseen(self) -> bool:
        return type(self) is TimeWindow

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        if not self.foreseen or times is None:
            return super().cuts(search, start, times, count)
        return search.first_after_each(times[:count], self.size)

    def describe(self) -> str:
        return f"TimeWindow({self.size} us)"
