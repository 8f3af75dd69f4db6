"""The longest increasing subsequence, as in Experiment 3 (MTA paper, 5.6).

The paper calls consecutive events a *subsequence*. The result is therefore the longest run of
consecutive events in which each value is greater than the previous one; its partial has a constant
size. (The usual problem of that name allows gaps, and needs a partial as large as the window.) The
paper asks for the first and last timestamp of the run, the time it covers, and the number of its
events. An event is a value and its timestamp.

    values   2 3 1 4 5 9 | 10 4 6        the longest runs of the two halves: 1 4 5 9 and 4 6
    joined   as 9 < 10, the left half's last run continues in the right half: 1 4 5 9 10

A partial therefore stores the runs at both its ends besides the longest one. The oldest run wins a
tie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Objects, Rows
from mta.kernels.native import ones
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid


class IncreasingRun(NamedTuple):
    """The longest increasing run of a window, with its first and last time."""

    start: Any
    end: Any
    interval: Any
    length: int
    """The number of events in the run."""
    before: int
    """The number of events in the window that are older than the run."""
    events: int
    """The number of events in the window."""


class _Run(NamedTuple):
    """A partial: one part of the window, or many parts as columns."""

    events: Any
    first: Any
    last: Any
    first_time: Any
    last_time: Any
    #: The run at the left end: its number of events, and the time of its last event.
    head: Any
    head_end: Any
    #: The run at the right end: its number of events, and the time of its first event.
    tail: Any
    tail_start: Any
    #: The longest run: its number of events, the number before it, and its first and last time.
    best: Any
    before: Any
    start: Any
    end: Any


class LongestIncreasingRun(ColumnarMonoid[IncreasingRun]):
    """The longest run of consecutive events (value, time) whose values strictly increase.

    The result is an ``IncreasingRun``; with times of type "M8[us]", it holds datetimes and
    timedeltas. A partial takes 104 bytes. If NaN is accepted, a NaN ends a run. The result for an
    empty window is a run of length 0 whose times are NaN, 0 or None.

    Args:
        time: The type of the times: seconds as "f8" or "i8", or "M8[us]".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import LongestIncreasingRun
    >>> window = Window(LongestIncreasingRun("i8"), CountWindow(9), name="lis")
    >>> values = [2, 3, 1, 4, 5, 9, 10, 4, 6]
    >>> window.extend((values, range(9)), emit="last")[0]
    IncreasingRun(start=2, end=6, interval=4, length=5, before=2, events=9)
    """

    never_null = True

    def __init__(self, time: Any = "f8") -> None:
        dtype = np.dtype(time)
        zero = np.zeros((), dtype)[()]
        if dtype.kind not in "fi" and dtype != np.dtype("M8[us]"):
            raise ValueError(f"times are 'f8', 'i8' or 'M8[us]', not {time!r}")
        none = {"f": np.nan, "i": 0}.get(dtype.kind)
        kinds = ("i8", "f8", "f8", *[dtype] * 2, *["i8", dtype] * 2, "i8", "i8", *[dtype] * 2)
        super().__init__(
            "LongestIncreasingRun" + ("" if dtype == np.float64 else f"[{dtype.name}]"),
            inputs=("f8", dtype),
            partials=kinds,
            identity=(0, 0.0, 0.0, zero, zero, *[0, zero] * 2, 0, 0, zero, zero),
            output=Objects(),
            lift=_lift,
            combine=_combine,
            lower=lambda partial: IncreasingRun(*map(plain, _result(partial))),
            empty=IncreasingRun(none, none, none, 0, 0, 0),
        )
        moment, length = {
            "M": ("timestamp", "interval day to second"),
            "i": ("bigint", "bigint"),
        }.get(dtype.kind, ("double", "double"))
        self.result_type = (
            f"struct<start: {moment}, end: {moment}, interval: {length}, length: bigint, "
            "before: bigint, events: bigint>"
        )

    def lower_rows(self, partials: Rows) -> Rows:
        rows = zip(*(column.tolist() for column in _result(partials)), strict=True)
        return [IncreasingRun(*row) for row in rows]


def _lift(pair: Any) -> Partial:
    value, time = pair
    one = ones(value, "i8")
    none = one - one
    return tuple(_Run(one, value, value, time, time, one, time, one, time, one, none, time, time))


def _result(partial: Partial) -> tuple[Any, ...]:
    part = _Run(*partial)
    return part.start, part.end, part.end - part.start, part.best, part.before, part.events


def _combine(left: Partial, right: Partial) -> Partial:
    """Combine two neighboring parts: the left part's last run may continue in the right part."""
    one, two = _Run(*left), _Run(*right)
    many = np.ndim(one.events) or np.ndim(two.events)
    pick = np.where if many else lambda condition, yes, no: yes if condition else no
    some, more = one.events > 0, two.events > 0
    joins = some & more & (one.last < two.first)
    # A run at an end continues if it is the whole part, or if the part has no events.
    on_left = (one.head == one.events) & (joins | (one.events == 0))
    on_right = (two.tail == two.events) & (joins | (two.events == 0))
    middle = pick(joins, one.tail + two.head, 0)
    of_one = (one.best >= middle) & (one.best >= two.best)
    best = [
        pick(of_one, mine, pick(middle >= two.best, both, theirs))
        for mine, both, theirs in (
            (one.best, middle, two.best),
            (one.before, one.events - one.tail, one.events + two.before),
            (one.start, one.tail_start, two.start),
            (one.end, two.head_end, two.end),
        )
    ]
    return (
        one.events + two.events,
        pick(some, one.first, two.first),
        pick(more, two.last, one.last),
        pick(some, one.first_time, two.first_time),
        pick(more, two.last_time, one.last_time),
        pick(on_left, one.events + two.head, one.head),
        pick(on_left & more, two.head_end, one.head_end),
        pick(on_right, one.tail + two.events, two.tail),
        pick(on_right & some, one.tail_start, two.tail_start),
        *best,
    )
