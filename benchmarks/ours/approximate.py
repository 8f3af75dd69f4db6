"""Exact windows compared with the exponential histogram (see the MTA paper, section 2).

An exponential histogram (Datar et al. 2002) counts the ones among the last n bits in O(log n)
memory. Its buckets have 1, 2, 4, ... ones, with at most ``k`` buckets of each size. It is unknown
how much of the oldest bucket is still in the window, so the error of a count c is at most (c + k -
2) / 2 (k - 1). The published ADWIN stores its window in similar buckets, and cuts the window only
between them.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Sequence
from time import process_time

import numpy as np

from benchmarks.report.beside import Figure, beside
from mta import Count, CountWindow, Product, Sum, Window
from mta.frames import ADWIN

EVENTS, WINDOW, BUCKETS = 2**18, 2**15, 10
#: The events between changes of the mean, the size of a change, and the settings of ADWIN.
STRETCH, CHANGE, CONFIDENCE, CLOCK = 4096, 0.3, 0.002, 32


class ExponentialHistogram:
    """The number of ones in the last ``size`` bits, with an error of about 1 / 2 (k - 1).

    >>> histogram = ExponentialHistogram(size=8, k=2)
    >>> [histogram.add(bit) for bit in (1, 1, 1, 0, 1, 1, 0, 1)]
    [1, 2, 2, 2, 3, 4, 4, 5]
    """

    def __init__(self, size: int, k: int) -> None:
        self.size, self.k = size, k
        #: For each power of two, the end of each bucket with that many ones, the newest first.
        self.levels: list[deque[int]] = [deque()]
        self.now = self.total = 0

    def add(self, bit: int) -> int:
        """Add a bit; return the count, with half of the oldest bucket."""
        self.now += 1
        oldest = self.levels[-1]
        if oldest and oldest[-1] <= self.now - self.size:
            oldest.pop()
            self.total -= 1 << (len(self.levels) - 1)
            if not oldest and len(self.levels) > 1:
                self.levels.pop()
        if bit:
            self.total += 1
            self._insert()
        half = 1 << (len(self.levels) - 1) >> 1 if self.levels[-1] else 0
        return self.total - half

    def _insert(self) -> None:
        """Add a bucket of one; merge the two oldest buckets of each size with too many."""
        ended = self.now
        for level in range(len(self.levels) + 1):
            if level == len(self.levels):
                self.levels.append(deque())
            buckets = self.levels[level]
            buckets.appendleft(ended)
            if len(buckets) <= self.k:
                return
            buckets.pop()
            ended = buckets.pop()

    def __len__(self) -> int:
        return sum(map(len, self.levels))


class HistogramADWIN:
    """ADWIN in ``k`` buckets each of 1, 2, 4, ... events, with their sums and sums of squares."""

    def __init__(self, confidence: float, clock: int, k: int = 5) -> None:
        self.confidence, self.clock, self.k = confidence, clock, k
        self.levels: list[deque[tuple[float, float]]] = [deque()]
        self.count = self.seen = 0
        self.total = self.squares = 0.0

    def add(self, value: float) -> int:
        """Add a value; return the size of the window."""
        self.seen += 1
        self.count += 1
        self.total += value
        self.squares += value * value
        bucket = (value, value * value)
        for level in range(len(self.levels) + 1):
            if level == len(self.levels):
                self.levels.append(deque())
            self.levels[level].appendleft(bucket)
            if len(self.levels[level]) <= self.k:
                break
            one, other = self.levels[level].pop(), self.levels[level].pop()
            bucket = (one[0] + other[0], one[1] + other[1])
        while self.seen % self.clock == 0 and self._changed():
            gone = self.levels[-1].pop()
            self.count -= 1 << (len(self.levels) - 1)
            self.total, self.squares = self.total - gone[0], self.squares - gone[1]
            if not self.levels[-1]:
                self.levels.pop()
        return self.count

    def _changed(self) -> bool:
        """Return whether the means of some older and the newer buckets differ."""
        older, total = 0, 0.0
        if self.count < 16:
            return False
        variance = max(self.squares / self.count - (self.total / self.count) ** 2, 0.0)
        doubt = math.log(2 * math.log(self.count) / self.confidence)
        for level in range(len(self.levels) - 1, -1, -1):
            for bucket in reversed(self.levels[level]):
                older, total = older + (1 << level), total + bucket[0]
                newer = self.count - older
                if older < 8 or newer < 8:
                    continue
                parts = 1 / older + 1 / newer
                least = math.sqrt(2 * parts * variance * doubt) + 2 / 3 * parts * doubt
                if abs(total / older - (self.total - total) / newer) >= least:
                    return True
        return False


def run(size: float) -> list[Figure]:
    """Measure counts and ADWIN, exact in our windows and approximate in buckets."""
    return [*counts(max(64, int(WINDOW * size)), int(EVENTS * size)), *changes(size)]


def counts(window: int, events: int) -> list[Figure]:
    """Measure the time per event, and the error of the histogram."""
    bits = (np.random.default_rng(1).random(window + events) < 0.3).astype(int)
    histogram = ExponentialHistogram(window, BUCKETS)
    began, found = process_time(), []
    for bit in bits.tolist():
        found.append(histogram.add(bit))
    theirs = 1e9 * (process_time() - began) / len(bits)
    exact = Window(Sum("int64"), CountWindow(window))
    began = process_time()
    right = exact.extend(bits)
    ours = 1e9 * (process_time() - began) / len(bits)
    off = np.abs(np.array(found) - right)
    largest = (off / np.maximum(right, 1))[window:].max()
    held = bool((off <= (right + BUCKETS - 2) / (2 * (BUCKETS - 1))).all())
    return [
        Figure("a count of ones, in a batch", f"{ours:.0f} ns", f"{theirs:.0f} ns, histogram",
               ours / theirs),
        Figure("its largest error", "none", f"{100 * largest:.1f} %, bound "
               f"{50 / (BUCKETS - 1):.1f} %", held=held),
        Figure("what is kept for it", f"{exact.stats().resident_rows:,} values and partials, "
               "and pages", f"{len(histogram)} buckets"),
    ]  # fmt: skip


def drifting(size: float) -> tuple[np.ndarray, list[int]]:
    """Return values whose mean changes, and the positions of the changes."""
    random, stretch = np.random.default_rng(2), max(256, int(STRETCH * min(size, 1)))
    means = 0.35 + CHANGE * (np.arange(8) % 2)
    values = np.concatenate([random.uniform(mean - 0.3, mean + 0.3, stretch) for mean in means])
    return values, list(range(stretch, 8 * stretch, stretch))


def delays(sizes: Sequence[int], changed: list[int]) -> list[int]:
    """Return how many events after each change the window has dropped the earlier events."""
    found, ends = [], [*changed[1:], len(sizes)]
    for start, stop in zip(changed, ends, strict=True):
        # All but a few of the events before the change have left.
        after = [at - start for at in range(start, stop) if sizes[at] <= 1.2 * (at - start + 1)]
        found.append(after[0] if after else sys.maxsize)
    return found


def changes(size: float) -> list[Figure]:
    """Compare ADWIN as a frame with ADWIN in buckets: time per event, delay of detection."""
    values, changed = drifting(size)
    began, other = process_time(), HistogramADWIN(CONFIDENCE, CLOCK)
    theirs = [other.add(value) for value in values.tolist()]
    taken = 1e9 * (process_time() - began) / len(values)
    guest = Product({"n": Count(), "sum": ("x", Sum())})
    window = Window(guest, ADWIN(CONFIDENCE, "x", clock=CLOCK))
    began = process_time()
    ours = window.extend({"x": values})["n"].tolist()
    mine = 1e9 * (process_time() - began) / len(values)
    seen, peers = delays(ours, changed), delays(theirs, changed)
    return [
        Figure("ADWIN, and two aggregations of its window", f"{mine:.0f} ns",
               f"{taken:.0f} ns, in buckets and without them", mine / taken),
        Figure("events until ADWIN sees a change, median", f"{np.median(seen):.0f}",
               f"{np.median(peers):.0f}, in buckets"),
    ]  # fmt: skip


EXPERIMENTS = (
    beside(
        "approximate",
        "Approximate counts",
        "Exact windows, compared with two approximate ones: the exponential histogram, and ADWIN "
        "in buckets. Everything is plain Python. Processor time per event.",
        run,
        quick=0.1,
        source="MTA paper, section 2, which names the exponential histogram and ADWIN",
        expects="The exponential histogram takes logarithmic memory and gives approximate counts. "
        "ADWIN is a variation of it, and works as a frame with any monoid.",
    ),
)
