"""Named windows whose bounds depend on their events: deltas, punctuation and sessions.

Many engines offer these besides counts and times (Reactive Aggregator paper, section 2: "time,
count, delta, or punctuation"). Each is a frame on an aggregate, so you can combine it with others
with ``|`` and ``&``, and it evicts in bulk. The attribute or mark is a column of the events, or by
default their value. Events with a null attribute or mark are invalid.

    at        0   3   4   9  | 11  12        DeltaWindow(10, "at"): at 12, values above 2
    mark      0   1   0   1    0   0         PunctuationWindow("mark"): from the newest 1 on
    time      0   5   6  60   61  70         SessionWindow(30): since the last gap of 30 or more
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from mta.columns.reading import plain
from mta.folds.sliding import Fronts
from mta.frames.base import Frame, TimeSearch, View
from mta.frames.bounds import CustomFrame
from mta.kernels.native import ones
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.basic import Max
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import EVENT_TIMES, Columns
from mta.times import Duration, as_text, is_duration, to_count, to_duration


class DeltaWindow(CustomFrame):
    """The events whose attribute is less than ``size`` below the largest attribute.

    Use it like a TimeWindow for any attribute that never falls: the last 10 km, the last 5 kWh. If
    the attribute falls, an event stays as long as an earlier event does. Costs the same as
    ``CustomFrame``.

    Args:
        size: The largest difference, in units of the attribute.
        column: The column of the attribute. The default is the value itself.
        dtype: The type of the attribute.
        checked: Whether to verify after every insertion, on every prefix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.

    >>> DeltaWindow(10, "km")
    DeltaWindow(10, km)
    """

    def __init__(
        self, size: float, column: str | None = None, dtype: Any = "f8", checked: bool = False
    ) -> None:
        number = isinstance(size, Real) and not isinstance(size, bool) and not is_duration(size)
        if not number or not size > 0:
            raise ValueError(f"a delta window spans a positive difference, not {size!r}")
        #: The largest difference, as a Python number, and the type of the attribute.
        self.size, self.kind = plain(size), np.dtype(dtype)
        self._label: str = f"DeltaWindow({self.size!r}{f', {column}' if column else ''})"
        super().__init__(
            lambda prefix, total: bool(plain(total) - plain(prefix) >= size),
            on=(column, Max(dtype)),
            name="delta",
            checked=checked,
        )

    def describe(self) -> str:
        return self._label


class PunctuationWindow(CustomFrame):
    """The events since a mark: an event whose attribute is true starts a new part of the stream.

    Costs the same as ``CustomFrame``.

    Args:
        column: The column of marks, which are booleans, or 0 and 1. The default is the value
            itself.
        last: How many parts the window has, including the current part.
        ends: Whether a mark is the last event of its part, so that the next event starts a new one.
        dtype: The type of the marks.
        checked: Whether to verify after every insertion, on every prefix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.

    >>> PunctuationWindow("ignition", last=2)
    PunctuationWindow(ignition, last=2)
    """

    def __init__(
        self,
        column: str | None = None,
        last: int = 1,
        ends: bool = False,
        dtype: Any = "?",
        checked: bool = False,
    ) -> None:
        last = to_count(last, "a number of parts", 1)
        named, end = f"{column}, " if column else "", ", ends=True" if ends else ""
        self._label: str = f"PunctuationWindow({named}last={last}{end})"
        super().__init__(
            lambda prefix, total: bool(total - prefix >= last),
            on=(column, _parts_of(dtype, ends)),
            name="punctuation",
            checked=checked,
        )

    def describe(self) -> str:
        return self._label


class SessionWindow(Frame):
    """The events since the last gap of ``gap`` or longer.

    An event ``gap`` or more after the previous event starts a session. When the newest event is
    ``gap`` old, the session ends and the window is empty. A late event that is less than
    ``gap`` from two sessions merges them, as in Flink, Beam and Kafka Streams. The window's
    aggregate includes the start of the session, so a cut costs 1 combine and no search. The time of
    each event is stored with its value: 8 bytes per event.

    Args:
        gap: A duration, as for ``TimeWindow``.

    >>> SessionWindow("10 minutes")
    SessionWindow('10 minutes')
    """

    needs_times = True
    merges = True

    def __init__(self, gap: float | Duration) -> None:
        self.gap = to_duration(gap)
        self._sessions = _sessions(self.gap)

    @property
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
        return ((self, EVENT_TIMES, self._sessions),)

    @property
    def lifetime(self) -> int:
        return self.gap

    def cut(self, view: View, time: int | None) -> int:
        events, before, newest = map(int, view.total(self))
        if events and time is not None and time - newest >= self.gap:
            return view.back
        return view.back - events + before

    @property
    def predictable(self) -> bool:
        return type(self) is SessionWindow

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        if not self.predictable or times is None:
            return super().cuts(search, start, times, count)
        begin, before = search.session_before(self, start)
        first = np.full(1, times[0] - self.gap if before is None else before)
        found = session_starts(np.concatenate((first, times[:count])), self.gap)[1:] + start - 1
        found[found < start] = begin
        search.note_session(self, int(found[-1]))
        return found

    def describe(self) -> str:
        return f"SessionWindow({self.gap} us)"

    def __repr__(self) -> str:
        return f"SessionWindow({as_text(self.gap)!r})"


def session_starts(times: np.ndarray, gap: int, first: np.ndarray | None = None) -> np.ndarray:
    """Return the first row of the session of each row, in order of time.

    ``first`` are rows at which a session starts anyway. A session starts at the last gap before a
    row, which is a running maximum.

    >>> session_starts(np.array([0, 5, 6, 60, 61, 70]), 30).tolist()
    [0, 0, 0, 3, 3, 3]
    """
    starts = np.zeros(len(times), np.int64)
    gaps = np.flatnonzero(np.diff(times) >= gap) + 1
    starts[gaps] = gaps
    if first is not None:
        starts[first] = first
    return np.maximum.accumulate(starts, out=starts)


def _parts_of(dtype: Any, ends: bool) -> ColumnarMonoid:
    """Return a monoid for the index of the newest event's part, from the window's first event.

    Partials: the marks, whether the newest event is a mark that ends its part, and the events.
    """
    kind = np.dtype(dtype)

    def lift(mark: Any) -> Partial:
        marked = np.asarray(mark != 0).astype("i8")[()]
        return marked, marked if ends else marked - marked

    return ColumnarMonoid(
        ("PartsEnded" if ends else "PartsBegun") + ("" if kind == "?" else f"[{kind.name}]"),
        inputs=kind,
        partials=("i8", "i8", "i8"),
        identity=(0, 0, 0),
        output="i8",
        lift=lambda mark: (*lift(mark), ones(mark, "i8")),
        combine=_join_parts,
        lower=lambda partial: partial[0] - partial[1],
        empty=0,
    )


def _join_parts(left: Partial, right: Partial) -> Partial:
    empty = right[2] == 0
    return left[0] + right[0], right[1] + left[1] * empty, left[2] + right[2]


def _sessions(gap: int) -> ColumnarMonoid:
    """Return a monoid of the number of events, the number before the last gap and the last time."""

    def combine(left: Partial, right: Partial) -> Partial:
        """Combine. The last gap is in the right part, else between the parts, else in the left."""
        events, oldest, newest, before = left
        events_2, oldest_2, newest_2, before_2 = right
        some, more = events > 0, events_2 > 0
        many = np.ndim(events) or np.ndim(events_2)
        pick: Any = np.where if many else lambda condition, yes, no: yes if condition else no
        between = some & more & (oldest_2 - newest >= gap)
        return (
            events + events_2,
            pick(some, oldest, oldest_2),
            pick(more, newest_2, newest),
            pick(before_2 > 0, events + before_2, pick(between, events, before)),
        )

    return ColumnarMonoid(
        f"Session({gap} us)",
        inputs="i8",
        partials=("i8", "i8", "i8", "i8"),
        identity=(0, 0, 0, 0),
        output=("i8", "i8", "i8"),
        lift=lambda time: (one := ones(time, "i8"), time, time, one - one),
        combine=combine,
        lower=lambda partial: (partial[0], partial[3], partial[2]),
        empty=(0, 0, 0),
    )
