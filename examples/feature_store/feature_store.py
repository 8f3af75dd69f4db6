"""Features of payment cards: many windows per card, filled from history and served from a stream.

A fraud model wants to know, at each payment, how many there were with this card, for how much in
all and at most, within the hour, the day and the month. The training set needs these for every
payment of the past (backfill), the service for the payment that is on its way (stream), and both
must be the same numbers. The windows of a card share one structure, whose pages lie in one store
with those of all others; between payments a card is a snapshot of a few kilobytes.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import pandas as pd

from mta import Count, Max, Product, Sum, TimeWindow
from mta.windows.shared import SharedWindows
from stores import PageStore, open_store

START, DAYS = np.datetime64("2025-06-01T00:00:00", "us"), 60
FEATURES = Product({"n": Count(), "sum": ("euros", Sum()), "max": ("euros", Max())})
WINDOWS = {"hour": TimeWindow("1 hour"), "day": TimeWindow("1 day"), "month": TimeWindow("30 days")}
FUNCTIONS = {"n": "count", "sum": "sum", "max": "max"}


def payments(count: int, cards: int, seed: int = 1) -> pd.DataFrame:
    """Two months of payments in the order of time: busy cards and quiet ones, mostly small sums."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.random(count)) * DAYS * 86_400
    card = np.minimum(random.geometric(4 / cards, count), cards) - 1
    euros = random.lognormal(3, 1, count).round(2)
    times = START + (seconds * 1e6).astype("timedelta64[us]")
    return pd.DataFrame({"card": card, "time": times, "euros": euros})


class FeatureStore:
    """The snapshot of each card; the windows themselves are in the page store."""

    def __init__(self, store: PageStore) -> None:
        self.store = store
        self.snapshots: dict[int, bytes] = {}

    def windows(self, card: int) -> SharedWindows:
        """A card's windows as they were left, or new ones: small pages, as there are many cards."""
        if card in self.snapshots:
            return SharedWindows.restore(self.snapshots[card], self.store)
        name = f"card-{card}"
        return SharedWindows(FEATURES, WINDOWS, self.store, name, arity=16, leaf_arity=64)

    def take(self, card: int, rows: pd.DataFrame) -> pd.DataFrame:
        """The features at each of these payments of a card, which become part of its history."""
        windows = self.windows(card)
        found = windows.extend({"euros": rows.euros.to_numpy()}, rows.time.to_numpy())
        # One flush for all cards, before their snapshots leave this process, instead of one for
        # each.
        self.snapshots[card] = windows.checkpoint(wait=False)
        return rows.assign(**found)

    def ask(self, card: int, frame: TimeWindow) -> dict[str, float]:
        """The features of a window that nobody had thought of, over the events that are kept."""
        found: dict[str, float] = self.windows(card).query(frame)
        return found


def run(rows: pd.DataFrame, live: int, features: FeatureStore) -> pd.DataFrame:
    """Backfill all but the last payments, card by card; stream the last, one by one."""
    store, history, stream = features.store, rows.iloc[:-live], rows.iloc[-live:]
    parts = [features.take(int(card), part) for card, part in history.groupby("card")]
    store.flush()
    pages = len(list(store.keys("card-")))
    weight = sum(map(len, features.snapshots.values())) / len(features.snapshots) / 1024
    print(f"backfill  {len(history):,} payments of {len(features.snapshots):,} cards, ", end="")
    print(f"9 features each: {pages:,} pages, a snapshot of {weight:.1f} KiB a card")
    for at in range(len(stream)):
        parts.append(features.take(int(stream.card.iloc[at]), stream.iloc[at : at + 1]))
    store.flush()
    print(f"stream    {live:,} payments one by one; the last one:")
    print(parts[-1].T.to_string(header=False))
    return pd.concat(parts)


def compare(rows: pd.DataFrame, found: pd.DataFrame) -> None:
    """All features, of history and stream alike, against pandas."""
    for card, part in rows.groupby("card"):
        ours, euros = found[found.card == card], part.set_index("time").euros
        for name, length in (("hour", "1h"), ("day", "1D"), ("month", "30D")):
            for feature, function in FUNCTIONS.items():
                expected = getattr(euros.rolling(length), function)().to_numpy()
                np.testing.assert_allclose(ours[f"{feature}_{name}"], expected, rtol=1e-9)
    print(f"all {9 * len(found):,} features equal pandas, those of the stream too")


def ask_again(rows: pd.DataFrame, features: FeatureStore) -> None:
    """A week of the last card, which has no window, from the pages that the month keeps."""
    card = int(rows.card.iloc[-1])
    found = features.ask(card, TimeWindow("7 days"))
    euros = rows[rows.card == card].set_index("time").euros.rolling("7D")
    expected = [getattr(euros, function)().iloc[-1] for function in FUNCTIONS.values()]
    np.testing.assert_allclose([found[feature] for feature in FUNCTIONS], expected, rtol=1e-9)
    print(f"card {card} in its last week, asked for today for the first time: {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=40_000)
    parser.add_argument("--cards", type=int, default=100)
    parser.add_argument("--live", type=int, default=1000, help="how many of them come as a stream")
    parser.add_argument("--store", help="where the pages go; default: a temporary folder")
    options = parser.parse_args()
    rows = payments(options.payments, options.cards)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(options.store or f"file://{folder}") as store,
    ):
        features = FeatureStore(store)
        compare(rows, run(rows, options.live, features))
        ask_again(rows, features)


if __name__ == "__main__":
    main()
