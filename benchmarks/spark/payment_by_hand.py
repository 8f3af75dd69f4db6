"""The features of card payments by a handwritten function, with a card's payments in Spark's state.

Workers import this module, which needs no plotting libraries.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.spark.payment_data import FEATURES, LATENESS, WINDOWS
from mta import TimeWindow

#: A card's payments as a list in JSON; Spark 4.3 fails to read a state with arrays.
STATE = "payments string"
_TYPES = {"payments": "bigint", "spent": "bigint", "merchants": "bigint", "country": "string"}
RESULT_TYPES = ", ".join(
    ("card string", "ts timestamp",
     *(f"{name} {_TYPES.get(name.partition('_')[0], 'double')}" for name in FEATURES))
)  # fmt: skip


def by_hand(df: DataFrame, folder: Path) -> DataFrame:
    """Run a function per card, with the card's payments in Spark's state."""
    del folder
    return df.groupBy("card").applyInPandasWithState(
        features_by_hand, RESULT_TYPES, STATE, "append", GroupStateTimeout.NoTimeout
    )


_LENGTHS = {name: window.size for name, window in WINDOWS.items()}
_OLDEST = _LENGTHS["month"] + TimeWindow(LATENESS).size


def features_by_hand(
    key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Add a card's payments of a micro-batch to its state, and return their features."""
    rows = pd.concat(list(parts))
    new = rows["ts"].to_numpy().astype("M8[us]").astype("i8").tolist()
    columns = (new, *(rows[name].tolist() for name in ("cents", "merchant", "country", "declined")))
    payments = list(zip(*columns, strict=True))
    if state.exists:
        payments += json.loads(state.get[0])
    payments.sort(key=lambda payment: payment[0])
    times = [payment[0] for payment in payments]
    found = [_features(payments, times, time) for time in new]
    retained = payments[bisect_left(times, times[-1] - _OLDEST) :]
    state.update((json.dumps(retained),))
    results = pd.DataFrame(found, columns=list(FEATURES))
    results.insert(0, "ts", rows["ts"].to_numpy())
    results.insert(0, "card", key[0])
    yield results


def _features(payments: list[Any], times: list[int], time: int) -> list[Any]:
    """Return the features of the payment at a time."""
    end = bisect_left(times, time)
    frames = {
        name: payments[bisect_left(times, time - length) : end] for name, length in _LENGTHS.items()
    }

    def value(feature: str) -> Any:
        what, name = feature.split("_")
        frame = frames[name]
        if what == "payments":
            return len(frame)
        if what == "merchants":
            return len({payment[2] for payment in frame})
        if not frame:
            return None
        if what == "country":
            return frame[-1][3]
        if what == "declined":
            return sum(payment[4] for payment in frame) / len(frame)
        spent = sum(payment[1] for payment in frame)
        return spent if what == "spent" else spent / len(frame)

    return [value(feature) for feature in FEATURES]
