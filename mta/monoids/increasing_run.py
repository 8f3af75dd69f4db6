"""The longest increasing subsequence, as in Experiment 3 (MTA paper, 5.6).

A *subsequence* is what the paper calls so throughout: events that stand side by side. So this is
the longest run of neighbouring events of which each is greater than the one before, and its partial
has a constant size. (The other problem of that name, where events between may be left out, has no
partial smaller than the window.) The paper asks for the first and last timestamp of the run, the
time it covers, and how many events it has; an event is a value and its timestamp.

    values   2 3 1 4 5 9 | 10 4 6        the two halves' own best runs: 1 4 5 9 and 4 6
    joined   as 9 < 10, the left half's last run goes on into the right half: 1 4 5 9 10

So a partial has to know the runs at both its ends beside the best one. Ties go to the oldest run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import objects, plain
from mta.columns.schemas import Objects, Rows
from mta.kernels.scans import ones
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid


class IncreasingRun(NamedTuple):
    """The longest increasing run of a window: its first and last time, and so on."""

    start: Any
    end: Any
    interval: Any
    length: int
    """How many events the run has."""
    before: int
    """How many events of the window are older than the run."""
    events: int
    """How many events the window has."""


class _Part(NamedTuple):
    """A partial, of one part of the window or column by column of many."""

    events: Any
    first: Any
    last: Any
    first_time: Any
    last_time: Any
    #: The run at the left end: how many events, and the time of its last.
    head: Any
    head_end: Any
    #: The run at the right end: how many events, and the time of its first.
    tail: Any
    tail_start: Any
    #: The best run: how many events, how many come before it, and the times of its ends.
    best: Any
    before: Any
    start: Any
    end: Any


class LongestIncreasingRun(ColumnarMonoid[IncreasingRun]):
    """The longest run of consecutive events (value, time) whose values strictly increase.

    The result is an ``IncreasingRun``; for times of type "M8[us]" it has datetimes and timedeltas.
    A partial takes 104 bytes. If NaN is accepted, a NaN ends a run. An empty window has a run of
    length 0, whose times are NaN, 0 or None.

    Args:
        time: The type of the times: seconds as "f8" or "i8", or "M8[us]".

    >>> from mta import CountWindow, LongestIncreasingRun, Window
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

    def results(self, outputs: Rows) -> Any:
        return objects(outputs)


def _lift(pair: Any) -> Partial:
    value, time = pair
    one = ones(value, "i8")
    none = one - one
    return tuple(_Part(one, value, value, time, time, one, time, one, time, one, none, time, time))


def _result(partial: Partial) -> tuple[Any, ...]:
    part = _Part(*partial)
    return part.start, part.end, part.end - part.start, part.best, part.before, part.events


def _combine(left: Partial, right: Partial) -> Partial:
    """Two parts side by side: the left one's last run may go on into the right one."""
    one, two = _Part(*left), _Part(*right)
    many = np.ndim(one.events) or np.ndim(two.events)
    pick = np.where if many else lambda condition, yes, no: yes if condition else no
    some, more = one.events > 0, two.events > 0
    joins = some & more & (one.last < two.first)
    # A run at an end goes on where it is the whole part (or where the part has no events at all).
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
