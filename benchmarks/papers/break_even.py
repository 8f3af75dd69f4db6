"""From which window on an algorithm is faster than recalculating, or so many times faster.

Two windows are slid in turns, a *round* being evict, insert, query on a full window, in the
processor's time, the best of a few; both must answer right afterwards.

The Reactive Aggregator's slots are a power of two. A window that fills them all changes one slot a
round, a smaller one two, whose paths to the root meet the later the more slots are free. So from
2^k + 1 to 2^(k+1) its rounds become cheaper while recalculating becomes dearer, but from 2^k to
2^k + 1 they become dearer at once. Within such an octave there is one break-even window, and
bisection finds it, to 2 % above; over all windows there may be several. Hence two answers: the
smallest window that pays, and that from which on all do.

>>> search(lambda window: window >= 370, 1024)
(372, 372)
>>> search(lambda window: window in range(250, 257) or window >= 370, 1024)
(252, 372)
>>> search(lambda window: False, 1024)
(None, None)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from time import thread_time
from typing import Any

from benchmarks.papers.operators import Operator
from benchmarks.report.experiment import Finding, Row
from benchmarks.report.fits import CLOSE as NEAR
from mta.algorithms import RecalculateFromScratch
from mta.monoids.equality import same

#: Bisection ends where the two ends are so close, as a share of the window.
CLOSE = 0.02
REPEATS = 3
LARGE = 1024


class CountFromSize(RecalculateFromScratch):
    """The papers' baseline for Count: read the size of the container."""

    def _query(self) -> int:
        return len(self.vals)


class CollectAtOnce(RecalculateFromScratch):
    """The papers' baseline for Collect: one list, into which all values are put."""

    def _insert(self, v: tuple[Any]) -> None:
        self.vals.append(v[0])

    def _query(self) -> list[Any]:
        return list(self.vals)


def baseline(name: str) -> type[RecalculateFromScratch]:
    """How an aggregation is recalculated."""
    special = {"Count": CountFromSize, "Collect": CollectAtOnce}
    return special.get(name, RecalculateFromScratch)


class Slid:
    """A full window that is slid over its operator's values, round by round."""

    def __init__(
        self, window: Any, one: Operator, size: int, evict: Callable[[], Any] | None = None
    ) -> None:
        self.window, self.size, self._one = window, size, one
        self._evict = evict or window.evict
        self._values, self._seen = cycle(one.values), 0
        for value in self.next(size):
            window.insert(value)
        window.query()

    def next(self, count: int) -> list[Any]:
        """The values that come next."""
        self._seen += count
        return list(islice(self._values, count))

    def seconds(self, rounds: int) -> float:
        """Seconds a round of the processor's time."""
        evict, insert, query = self._evict, self.window.insert, self.window.query
        values = self.next(rounds)
        began = thread_time()
        for value in values:
            evict()
            insert(value)
            query()
        return (thread_time() - began) / rounds

    def require_right(self) -> None:
        """Recalculate. Raises AssertionError for another answer: what is timed must be right."""
        values, expected = self._one.values, baseline(self._one.name)(self._one.monoid)
        for at in range(self._seen - self.size, self._seen):
            expected.insert(values[at % len(values)])
        found, right = self.window.query(), expected.query()
        if not same(found, right):
            kind = type(self.window).__name__
            raise AssertionError(f"{kind}, {self._one.name}: {found} instead of {right}")


#: A full window of a size, and how many rounds to time.
Build = Callable[[int], tuple[Slid, int]]


class Beside:
    """An algorithm beside recalculating; each window is measured once."""

    def __init__(self, algorithm: Build, recalculating: Build, most: int) -> None:
        self._builds, self.most = (algorithm, recalculating), most
        self._known: dict[int, tuple[float, float]] = {}

    def seconds(self, window: int) -> tuple[float, float]:
        """Seconds a round of both, taken in turns."""
        if window not in self._known:
            sides = [build(window) for build in self._builds]
            taken = [[slid.seconds(rounds) for slid, rounds in sides] for _ in range(REPEATS)]
            for slid, _ in sides:
                slid.require_right()
            ours, peer = (min(times) for times in zip(*taken, strict=True))
            self._known[window] = ours, peer
        return self._known[window]

    def row(self, times: int = 1) -> Row:
        """The window from which on the algorithm is so many times faster.

        With what a round costs there, or in the largest window where there is none.
        """

        def faster(window: int) -> bool:
            ours, peer = self.seconds(window)
            return peer > times * ours

        smallest, onward = search(faster, self.most)
        ours, peer = self.seconds(smallest or self.most)
        return {
            "window": smallest, "onward": onward, "tried": self.most,
            "round_ns": 1e9 * ours, "recalculating_ns": 1e9 * peer,
        }  # fmt: skip


def value_ns(one: Operator, size: float) -> float:
    """What recalculating costs a value, in a window so large that it costs nothing else."""
    slid, rounds = recalculated(one, size, LARGE)
    return 1e9 * min(slid.seconds(rounds) for _ in range(REPEATS)) / LARGE


def recalculated(one: Operator, size: float, window: int) -> tuple[Slid, int]:
    """Recalculating, with fewer rounds the longer they are."""
    rounds = max(10, int(20_000 * min(size, 1)) // window)
    return Slid(baseline(one.name)(one.monoid), one, window), rounds


def slots(window: int) -> int:
    """The fewest slots, a power of two, that hold a window."""
    return 1 << (window - 1).bit_length()


def search(faster: Callable[[int], bool], most: int) -> tuple[int | None, int | None]:
    """The smallest window that is faster, and that from which on all are, up to a power of two.

    None where there is none. Looks at no window beyond an octave that is faster throughout.
    """
    smallest = onward = None
    high = 1
    while high <= most:
        low = high // 2 + 1
        if not faster(high):
            onward = None
        else:
            at = low if faster(low) else _bisect(faster, low, high)
            smallest = smallest or at
            onward = onward if onward and at == low else at
            if low < high and at == low:
                break
        high *= 2
    return smallest, onward


def _bisect(faster: Callable[[int], bool], slow: int, fast: int) -> int:
    while fast - slow > max(1, CLOSE * fast):
        middle = (slow + fast) // 2
        slow, fast = (slow, middle) if faster(middle) else (middle, fast)
    return fast


def decide(window: float | None, tried: float) -> str:
    """A break-even window as text."""
    return f"none to {tried:,.0f}" if window is None else f"{window:,.0f}"


def within(paper: float | None, row: Row) -> bool | None:
    """Whether a break-even is within a factor of ``NEAR`` of the paper's (None: never).

    None where windows that large have not been tried.
    """
    here, tried = row["window"], row["tried"]
    if paper is None:
        return here is None
    if here is None:
        return False if tried >= paper * NEAR else None
    return bool(paper / NEAR <= here <= paper * NEAR)


def judged(what: str, paper: float | None, row: Row, why: str) -> Finding:
    """One break-even window beside the paper's."""
    agrees = within(paper, row)
    seen = decide(row["window"], row["tried"])
    if row["onward"] != row["window"]:
        seen += f", always from {decide(row['onward'], row['tried'])}"
    shown = "never" if paper is None else f"{paper:,.0f}"
    return Finding(what, shown, seen, agrees, why if agrees is False else "")
