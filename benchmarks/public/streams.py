"""The streams of public benchmarks, generated from their published definitions.

- Nexmark (github.com/nexmark/nexmark, the generator's model and ``q5.sql``): of 50 events 46 are
  bids, 3 open auctions and 1 is a person. Every second bid goes to the hot auction, the first of
  the newest hundred, the others to one of the last hundred that are open, or one of ten to come.
- ShuffleBench (Henning and others, ICPE 2024; github.com/dynatrace-research/ShuffleBench): records
  are re-distributed to very many consumers, each with a small state of its own. Here a consumer is
  a key, of a million, drawn by Zipf's law.
- Scotty (Traub and others, EDBT 2019; github.com/TU-Berlin-DIMA/scotty-window-processor): up to a
  thousand concurrent windows over one stream of sensor readings, their lengths spread evenly from 1
  to 20 seconds.

The same part of a stream is the same in every run. Times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mta import TimeWindow

SECOND = 1_000_000
START = 1_750_000_000 * SECOND

# --- Nexmark --------------------------------------------------------------------------------------

#: Of so many events in a row, one is a person, so many open auctions, and the others are bids.
PERIOD, PERSONS, AUCTIONS = 50, 1, 3
#: Events a second, by the generator's default.
NEXMARK_RATE = 10_000
#: Auctions among which a bid chooses, those to come among which it may, and the hot one's hundred.
IN_FLIGHT, LEAD, HOT = 100, 10, 100
FIRST_AUCTION = 1_000
LENGTH, HOP = 10 * SECOND, 2 * SECOND


@dataclass(frozen=True)
class Bids:
    """Bids in order of time."""

    auctions: np.ndarray
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.auctions)

    def between(self, start: int, stop: int) -> Bids:
        """The bids from one time to before another."""
        low, high = np.searchsorted(self.times, [start, stop])
        return Bids(self.auctions[low:high], self.times[low:high])


def bids(count: int) -> Bids:
    """So many bids, at Nexmark's rate of all events."""
    others = PERSONS + AUCTIONS
    events = -(-count // (PERIOD - others)) * PERIOD
    numbers = np.arange(events)
    numbers = numbers[numbers % PERIOD >= others][:count]
    newest = numbers // PERIOD * AUCTIONS + AUCTIONS - 1
    random = np.random.default_rng(1)
    oldest = np.maximum(newest - IN_FLIGHT, 0)
    cold = oldest + random.integers(0, newest - oldest + 1 + LEAD)
    chosen = np.where(random.random(count) < 0.5, newest // HOT * HOT, cold)
    times = START + numbers * SECOND // NEXMARK_RATE // 1000 * 1000  # whole milliseconds
    return Bids(FIRST_AUCTION + chosen, times)


# --- ShuffleBench ---------------------------------------------------------------------------------

CONSUMERS, EXPONENT = 1_000_000, 1.0
SHUFFLE_RATE = 100_000
MINUTE = TimeWindow("1 minute")


@dataclass(frozen=True)
class Records:
    """Records in order of time, each of the consumer that it is matched to."""

    consumers: np.ndarray
    values: np.ndarray
    times: np.ndarray


def records(count: int, consumers: int = CONSUMERS) -> Records:
    """So many records of so many consumers, by Zipf's law."""
    random = np.random.default_rng(2)
    weights = 1 / np.arange(1, consumers + 1) ** EXPONENT
    below = np.cumsum(weights) / weights.sum()
    chosen = np.searchsorted(below, random.random(count))
    names = np.random.default_rng(3).permutation(consumers)  # no order in a consumer's number
    times = START + np.arange(count) * SECOND // SHUFFLE_RATE
    return Records(names[np.minimum(chosen, consumers - 1)], random.random(count), times)


# --- Scotty ---------------------------------------------------------------------------------------

#: Readings a second, as of the paper's football match.
SCOTTY_RATE = 2_000
SHORTEST, LONGEST = 1.0, 20.0


def readings(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and times of so many sensor readings."""
    values = np.random.default_rng(4).normal(10, 2, count)
    return values, START + np.arange(count) * SECOND // SCOTTY_RATE


def concurrent(count: int) -> dict[str, TimeWindow]:
    """So many windows, of lengths spread evenly from 1 to 20 seconds."""
    lengths = np.linspace(SHORTEST, LONGEST, count) if count > 1 else [LONGEST]
    return {f"w{number}": TimeWindow(float(length)) for number, length in enumerate(lengths)}
