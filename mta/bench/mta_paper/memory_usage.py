"""The stream of the MTA paper's Experiment 3, generated: two years of a computer's memory usage.

The paper's own stream (62,208,000 readings, one a second for two years) is not public. This one has
as many readings and is made to look like such a machine's: a daily and a weekly rhythm, jobs that
start every hour, grow, and end within three, a random walk within the day, and noise. Readings are
MiB in use of 128 GiB, in whole KiB. The same part of the stream is the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DAY, HOUR = 86_400, 3_600
DAYS = 720
READINGS = DAYS * DAY
TOTAL = 131_072.0
SEED = 62_208


def memory_usage(count: int) -> np.ndarray:
    """The first so many readings, as one array."""
    days = [one for one, _ in zip(days_of_usage(), range(-(-count // DAY)), strict=False)]
    return np.concatenate(days)[:count]


def days_of_usage() -> Iterator[np.ndarray]:
    """Day by day, 86,400 readings each."""
    jobs = np.random.default_rng(SEED).gamma(1.5, 4_000, DAYS * 24 + 3)
    for day in range(DAYS):
        yield _day(day, jobs)


def _day(day: int, jobs: np.ndarray) -> np.ndarray:
    seconds = np.arange(DAY) + day * DAY
    hour, within = seconds // HOUR, (seconds % HOUR) / HOUR
    level = 40_000 + 9_000 * np.sin(2 * np.pi * seconds / DAY - 2)
    level = level + 4_000 * np.sin(2 * np.pi * seconds / (7 * DAY))
    # A job grows for an hour, stays for one, and ends in the third.
    level += jobs[hour + 3] * within + jobs[hour + 2] + jobs[hour + 1] * (within < 0.5)
    random = np.random.default_rng([SEED, day])
    walk = random.normal(0, 12, DAY).cumsum()
    walk -= walk[-1] * np.arange(DAY) / DAY  # back where it was, so that days join
    level += walk + random.normal(0, 6, DAY)
    bounded: np.ndarray = np.clip(np.round(level * 1024) / 1024, 1_000, TOTAL)
    return bounded
