"""A small generated dataset, so that a first example needs no file.

>>> table = meters(days=2, count=3)
>>> sorted(table), len(table["watts"]), str(table["ts"][0])
(['meter', 'ts', 'watts'], 8640, '2024-01-01T00:00:00.000000')
"""

from __future__ import annotations

import numpy as np

from mta.times import Duration, to_count, to_duration

__all__ = ["meters"]

_DAY = 86_400_000_000


def meters(
    days: int = 7, count: int = 5, every: str | Duration = "1 minute", seed: int = 1
) -> dict[str, np.ndarray]:
    """Return the load of some power meters in watts, in order of time: meter, ts, watts.

    The load has a daily rhythm with an evening peak, quieter weekends, noise, and short spikes. The
    same arguments give the same rows. ``pandas.DataFrame``, ``polars.DataFrame`` and
    ``pyarrow.table`` take the result as it is. Raises ValueError for less than one day, meter or
    report per day.

    Args:
        days: How many days, from 1 January 2024 (UTC).
        count: How many meters.
        every: The time between two reports of a meter.
        seed: The seed of the random numbers.

    >>> from mta.datasets import meters
    >>> table = meters(days=1, count=2, every="12 hours")
    >>> table["meter"].tolist()
    ['meter-1', 'meter-2', 'meter-1', 'meter-2']
    """
    number = to_count(count, "the number of meters", 1)
    step = to_duration(every, "the time between two reports")
    reports = to_count(days, "the number of days", 1) * _DAY // step
    if step > _DAY:
        raise ValueError(f"meters report at least once per day, not once per {every!r}")
    random = np.random.default_rng(seed)
    since = np.arange(reports) * step
    hour, day = since % _DAY / (_DAY / 24), since // _DAY
    weekend = np.where(day % 7 >= 5, 0.8, 1.0)
    size = random.lognormal(6.0, 0.5, number)
    evening = random.normal(19.0, 1.0, number)
    watts = np.empty((reports, number))
    for at in range(number):
        rhythm = 1 + 0.5 * np.exp(-(((hour - evening[at] + 12) % 24 - 12) ** 2) / 8)
        noise = random.normal(1.0, 0.05, reports)
        spikes = np.where(random.random(reports) < 0.002, random.uniform(1.5, 3.0, reports), 1.0)
        watts[:, at] = size[at] * rhythm * weekend * noise * spikes
    names = np.array([f"meter-{at + 1}" for at in range(number)])
    times = np.datetime64("2024-01-01", "us") + since
    return {
        "meter": np.tile(names, reports),
        "ts": np.repeat(times, number),
        "watts": watts.reshape(-1).round(1),
    }
