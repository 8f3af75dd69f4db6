"""Single events in C: what is prefetched for many of them is loaded into one block of numbers.

For each of them ``event`` looks whether it may come, notes it, moves the front on, and tells the
result (``single.c``). Times and counts are doubles as well, so that one buffer has it all, which
Python owns: where things stand, the events that came, and what is prefetched.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np

from mta.kernels import native
from mta.kernels.native import Kernel, Rows

#: The most events that a block has room for, as in ``columns.h``.
MOST = 1024
#: How kinds combine. A partial is one number, that of a mean has a count beside it.
_OPERATIONS = {"sum_f8": 0.0, "mean": 0.0, "max_f8": 1.0, "min_f8": -1.0}
#: The first ones of a block: see ``lay`` and ``stands``.
_NUMBERS = 12


class Loaded(NamedTuple):
    """How many events may come, and when each makes one leave; times as whole microseconds."""

    most: int
    """How many may come."""
    spare: float
    """How many may before each makes one leave; infinite where they leave by time."""
    last: float
    """The newest time."""
    bound: float
    """And all must be before this one."""
    age: float | None
    """So much later than an event the newest one is when it leaves; None where it does by count."""
    floor: float = inf
    """From this time on events may be older than the newest one."""
    lateness: float = 0.0
    """By so much at most."""


class Stands(NamedTuple):
    """How many events came, and how many left."""

    came: int
    left: int


class Block:
    """A block for one window; without anything prefetched no event may come.

    Rows of partials are an array, or for a mean a tuple of sums and counts.
    """

    __slots__ = (
        "_counts", "_is_mean", "_leaving", "_numbers", "_operation", "_stack", "_times", "_values",
        "buffer", "event",
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self._operation, self._is_mean = _OPERATIONS[kind], kind == "mean"
        #: ``event(buffer, value, time)`` is the result after an event; None where it may not come,
        #: and then nothing has changed.
        self.event: Callable[[bytearray, Any, float], float | None] = native.compiled.event
        #: Without room until it is needed: of many windows few have single events.
        self.buffer = bytearray()

    def _make_room(self) -> None:
        buffer = self.buffer = bytearray(8 * (_NUMBERS + 2 * MOST + 3 * (MOST + 1)))
        ends = np.cumsum([_NUMBERS, MOST, MOST, MOST + 1, MOST + 1])
        columns = np.split(np.ndarray(len(buffer) // 8, "<f8", buffer), ends)
        self._numbers, self._values, self._times = columns[:3]
        self._stack, self._counts, self._leaving = columns[3:]

    @classmethod
    def of(cls, kernel: Kernel | None) -> Block | None:
        """None where there is no such loop, or nothing is compiled."""
        if native.compiled is None or kernel is None or kernel.kind not in _OPERATIONS:
            return None
        return cls(kernel.kind)

    def load(self, loaded: Loaded, left: Any, lefts: Rows, right: Any, leaving: np.ndarray) -> None:
        """Load what is prefetched; from then on events may come.

        ``left`` is the aggregate before them, ``lefts`` what it is after each eviction, ``right``
        the one to which they are combined; ``leaving`` has the times of those that leave.
        """
        if not self.buffer:
            self._make_room()
        base = -1.0
        if self._is_mean:
            (left, count), (lefts, counts), (right, base) = left, lefts, right
            self._counts[0], self._counts[1 : len(counts) + 1] = count, counts
        self._stack[0], self._stack[1 : len(lefts) + 1] = left, lefts
        most, spare, last, bound, age, floor, lateness = loaded
        times = 0 if age is None else len(leaving)
        self._leaving[:times], self._leaving[times:] = leaving[:times], inf
        self._numbers[:] = (
            0, min(most, MOST), 0, spare, right, base, last, bound, age or 0, self._operation,
            floor, lateness
        )  # fmt: skip

    def stands(self) -> Stands:
        """Where it stands by now."""
        count, _, gone = self._numbers[:3].tolist()
        return Stands(int(count), int(gone))

    def values(self) -> np.ndarray:
        """The values of the events that came."""
        return self._values[: int(self._numbers[0])].copy()

    def times(self) -> np.ndarray:
        """Their times, as they came."""
        return self._times[: int(self._numbers[0])].copy()

    def aggregates(self) -> tuple[Any, Any]:
        """What ``left`` and ``right`` are by now."""
        count, _, gone, _, right, base = self._numbers[:6].tolist()
        left = self._stack[int(gone)].item()
        if not self._is_mean:
            return left, right
        return (left, self._counts[int(gone)].item()), (right, base + count)

    def clear(self) -> None:
        """Have nothing prefetched."""
        if self.buffer:
            self._numbers[:] = 0
