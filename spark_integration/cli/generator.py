"""Generate a plausible stream: power meters that report their load about once a minute.

Each meter has its own size, daily rhythm and noise. There are weekends, short spikes of up to three
times the load, and hours without reports when a meter is down. The same arguments always give the
same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

Floats = npt.NDArray[np.float64]
DAY = 86_400.0
START = np.datetime64("2025-06-02T00:00:00", "us")  # a Monday


@dataclass(frozen=True)
class Meters:
    """The stream's parameters; the arrays have one element per meter."""

    days: float
    interval: float
    seed: int
    size: Floats
    rhythm: Floats
    evening: Floats
    noise: Floats
    down_from: Floats
    """Two outages per meter, in seconds since the start."""
    down_until: Floats

    @classmethod
    def make(cls, events: int, keys: int, days: float = 30.0, seed: int = 1) -> Meters:
        """Return ``keys`` meters that make about ``events`` reports in total."""
        random = np.random.default_rng(seed)
        down_from = random.uniform(0, days * DAY, (keys, 2))
        return cls(
            days=days,
            interval=days * DAY * keys / events,
            seed=seed,
            size=random.lognormal(6.3, 0.6, keys),
            rhythm=random.uniform(0.3, 0.7, keys),
            evening=random.normal(19.0, 1.5, keys),
            noise=random.uniform(0.03, 0.12, keys),
            down_from=down_from,
            down_until=down_from + random.exponential(6 * 3600, (keys, 2)),
        )

    @property
    def slots(self) -> int:
        """Return how many reports a meter makes if it is never down."""
        return round(self.days * DAY / self.interval)

    def events(self, first: int, last: int) -> pa.Table:
        """Return the reports of all meters in the slots ``first`` to ``last``, in order of time."""
        keys = len(self.size)
        random = np.random.default_rng([self.seed, first])
        shape = (keys, last - first)
        seconds = (np.arange(first, last) + random.random(shape)) * self.interval
        up = np.ones(shape, bool)
        for start, end in zip(self.down_from.T, self.down_until.T, strict=True):
            up &= (seconds < start[:, None]) | (seconds >= end[:, None])
        watts = self._load(seconds) * (1 + self.noise[:, None] * random.standard_normal(shape))
        spikes = random.random(shape) < 0.0002
        watts[spikes] *= 1 + random.exponential(0.8, int(spikes.sum())).clip(max=2)
        order = np.argsort(seconds[up], kind="stable")
        meters = np.broadcast_to(np.arange(keys)[:, None], shape)[up][order]
        width = len(str(keys - 1))
        names = pa.array([f"meter-{meter:0{width}d}" for meter in range(keys)])
        times = START + (seconds[up][order] * 1e6).astype("timedelta64[us]")
        return pa.table(
            {
                "device": names.take(pa.array(meters)),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "watts": np.round(watts[up][order].clip(min=0.0), 2),
            }
        )

    def _load(self, seconds: Floats) -> Floats:
        """Return the load without noise: a morning and an evening peak, lower at weekends."""
        hour = (seconds % DAY) / 3600
        weekday = np.where((seconds // DAY) % 7 < 5, 1.0, 0.75)
        evening = np.exp(-0.5 * ((hour - self.evening[:, None]) / 2.5) ** 2)
        morning = 0.6 * np.exp(-0.5 * ((hour - 7.5) / 1.5) ** 2)
        rhythm = self.rhythm[:, None]
        return self.size[:, None] * weekday * (1 - rhythm + rhythm * 2 * (morning + evening))


def write_stream(
    folder: Path, events: int, keys: int, *, rows_per_file: int = 100_000, fmt: str = "parquet"
) -> int:
    """Write the stream as files in order of time; return the exact number of events."""
    folder.mkdir(parents=True)
    meters = Meters.make(events, keys)
    written = 0
    for number, (first, last) in enumerate(_chunks(meters.slots, max(1, rows_per_file // keys))):
        rows = meters.events(first, last)
        path = folder / f"{number:05d}.{fmt}"
        if fmt == "parquet":
            pyarrow.parquet.write_table(rows, path)
        else:
            pyarrow.csv.write_csv(rows, path)
        # Spark reads files in the order of their modification times, which have gaps of a
        # second on some file systems.
        os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
        written += rows.num_rows
    return written


def _chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + size, count)) for first in range(0, count, size))
