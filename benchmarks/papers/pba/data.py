"""The PBA paper's two data sets, generated: a machine's power, and smart plugs.

The paper takes those of the DEBS Grand Challenges of 2012 (a manufacturing equipment's power, 100
readings a second) and 2014 (loads of smart plugs in households), which this project has not. These
have the same shape: their rates, keys, skew and order of magnitude, values that stay, step, spike
and repeat as such readings do. They are not the same values, and the same arguments give the same
ones in every run.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: Readings of the machine a second, and when its stream begins, in seconds since 1970.
RATE, BEGINS = 100, 1_330_000_000
#: The plugs of the first 10 million readings, and how often the paper repeats these under new ids.
PLUGS, COPIES = 14, 6
#: A plug reports about so often, in microseconds.
INTERVAL = 1_000_000
SEED = 2012


def equipment(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and watts of so many readings: one every 10 ms, up to 1 ms late.

    Work pieces of about 9 seconds, each with its own load, between pauses; mains noise, and a spike
    where a tool starts. Readings are whole, as those of a meter.
    """
    random = np.random.default_rng(SEED)
    number = np.arange(count)
    late = random.integers(0, 1_000, count)
    seconds = BEGINS + (number * (1_000_000 // RATE) + late) / 1e6
    pieces = count // (9 * RATE) + 2
    lengths = random.integers(6 * RATE, 12 * RATE, pieces).cumsum()
    piece = np.searchsorted(lengths, number, side="right").clip(max=pieces - 1)
    into = number - np.concatenate(([0], lengths))[piece]
    load = random.gamma(4.0, 900.0, pieces)[piece] * (into >= 2 * RATE)
    start = 6_000.0 * np.exp(-np.abs(into - 2 * RATE) / 20.0) * (into >= 2 * RATE)
    watts = 9_000 + load + start + random.normal(0, 60, count)
    return seconds, np.round(watts)


def plugs(count: int) -> pa.Table:
    """About so many readings of 84 plugs in order of time: plug, ts, watts.

    14 plugs that report at slightly different rates, from 0.8 to 1.2 of the mean, six times over.
    A plug is off, on standby or at its appliance's load, and stays so for a while.
    """
    rates = np.tile(np.linspace(0.8, 1.2, PLUGS), COPIES)
    parts = [
        _plug(key, max(2, round(count * rate / rates.sum()))) for key, rate in enumerate(rates)
    ]
    order = np.argsort(np.concatenate([ts for ts, _ in parts]), kind="stable")
    keys = np.repeat(np.arange(len(parts), dtype="i4"), [len(ts) for ts, _ in parts])
    ts, watts = (np.concatenate(column)[order] for column in zip(*parts, strict=True))
    times = pa.array(ts + BEGINS * 1_000_000).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"plug": keys[order], "ts": times, "watts": watts})


def _plug(key: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """One plug's times, no two the same, and loads."""
    random = np.random.default_rng([SEED, key])
    rate = np.linspace(0.8, 1.2, PLUGS)[key % PLUGS]
    ts = (np.arange(count) * (INTERVAL / rate)).astype("i8") + random.integers(0, 500_000, count)
    stays = count // 200 + 1
    changes = np.sort(random.integers(0, count, stays))
    level = random.choice([0.0, 1.5, random.gamma(2.0, 300.0)], stays + 1, p=[0.3, 0.4, 0.3])
    state = level[np.searchsorted(changes, np.arange(count), side="right")]
    return ts, np.round(state * random.normal(1.0, 0.02, count), 3).clip(min=0)
