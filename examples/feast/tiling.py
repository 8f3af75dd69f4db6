"""What Feast's tiling, and the windows of ``mta.feast``, make of the same payments.

    python examples/feast/tiling.py

For each aggregation, prints how many of 400 values of a window of an hour differ from a plain list:
at the end of a hop, and at payments. Feast's values are those of the functions that its engines
call, with the newest tile that has ended.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import feast
import numpy as np
import pandas as pd
from feast.aggregation import Aggregation
from feast.aggregation.tiling.orchestrator import apply_sawtooth_window_tiling
from feast.aggregation.tiling.tile_subtraction import convert_cumulative_to_windowed

from mta import TimeWindow, rolling

HOUR = timedelta(hours=1)
#: The names in Feast and in this package, and the function of a list.
FUNCTIONS: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "sum": ("sum", sum), "count": ("count", len), "mean": ("mean", statistics.fmean),
    "max": ("max", max), "min": ("min", min), "std": ("std", statistics.stdev),
}  # fmt: skip


def payments(count: int) -> pd.DataFrame:
    """Return payments of five cards over three days, never at the end of a hop."""
    rng, start = random.Random(1), pd.Timestamp("2024-01-01", tz="UTC")
    seconds = sorted(rng.randrange(3 * 86_400) + 0.5 for _ in range(count))
    return pd.DataFrame({
        "card": [f"card-{rng.randrange(5)}" for _ in range(count)],
        "ts": pd.to_datetime([start + timedelta(seconds=each) for each in seconds]).as_unit("us"),
        "amount": [round(rng.expovariate(1 / 40), 2) for _ in range(count)],
    })  # fmt: skip


def tiles(frame: pd.DataFrame, hop: timedelta) -> pd.DataFrame:
    """Return Feast's windows at the end of each hop."""
    aggregations = [
        Aggregation(column="amount", function=name, time_window=HOUR, name=name)
        for name in FUNCTIONS
    ]
    made = apply_sawtooth_window_tiling(frame.copy(), aggregations, ["card"], "ts", HOUR, hop)
    found = convert_cumulative_to_windowed(made, ["card"], "ts", HOUR, aggregations)
    return found.assign(ts=pd.to_datetime(found.ts, utc=True).astype("datetime64[us, UTC]"))


def differing(frame: pd.DataFrame, moments: pd.DataFrame, found: pd.DataFrame) -> dict[str, int]:
    """Return how many values of each aggregation differ from a plain list."""
    wrong = dict.fromkeys(FUNCTIONS, 0)
    for moment, row in zip(moments.itertuples(), found.to_dict("records"), strict=True):
        own = frame[(frame.card == moment.card) & (frame.ts <= moment.ts)]
        amounts: list[Any] = own[own.ts > moment.ts - HOUR].amount.tolist()
        for name, (_, of) in FUNCTIONS.items():
            # Of one payment, there is no deviation.
            is_known = len(amounts) > (name == "std")
            right = of(amounts) if is_known else 0.0 if name == "count" else np.nan
            value = row[name]
            same = (pd.isna(value) and pd.isna(right)) or np.isclose(value, right, atol=1e-6)
            wrong[name] += not same
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hop", type=int, default=5, help="minutes; default: 5")
    hop = timedelta(minutes=parser.parse_args().hop)
    frame = payments(3000)
    windowed = tiles(frame, hop)
    aggregations: Any = {name: ("amount", own) for name, (own, _) in FUNCTIONS.items()}
    print(f"Feast {feast.__version__}, hops of {hop.seconds // 60} min, of 400 values differ:")
    print(f"{'':28}" + "".join(f"{name:>7}" for name in FUNCTIONS))
    for at, rows in (("the end of a hop", windowed), ("a payment", frame)):
        moments = rows[rows.ts > rows.ts.min() + HOUR][["card", "ts"]]
        moments = moments.sample(400, random_state=1).sort_values("ts").reset_index(drop=True)
        ours = rolling(
            frame, at=moments, by="card", on="ts", window=TimeWindow("1 hour"),
            aggregations=aggregations,
        )  # fmt: skip
        theirs = pd.merge_asof(moments, windowed.sort_values("ts"), on="ts", by="card")
        for name, found in (("Feast", theirs), ("mta.feast", ours)):
            wrong = differing(frame, moments, found)
            assert name == "Feast" or not any(wrong.values()), wrong
            print(f"{name + ' at ' + at:28}" + "".join(f"{each:7}" for each in wrong.values()))


if __name__ == "__main__":
    main()
