"""Wind sensors over a bad radio link: readings come late, and earlier results are put right.

Masts send a gust each. Some lose their link for minutes and then send all they had kept. The
dashboard shows the strongest and the mean gust of the last hour for every reading; what a late one
changes is shown again. At the end it equals pandas over the same readings sorted by time.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from mta import Max, Mean, Product, TimeWindow, Window

START = np.datetime64("2025-11-03T00:00:00", "us")
GUSTS = Product({"strongest": ("gust", Max()), "mean": ("gust", Mean())})


def arrivals(events: int, masts: int, seed: int = 1) -> pd.DataFrame:
    """Readings in the order in which they come, with the time when each was taken."""
    random = np.random.default_rng(seed)
    # One every five seconds, no two at the same time.
    seconds = np.arange(events) * 5.0 + random.uniform(0, 4.9, events)
    weather = 9 + 4 * np.sin(2 * np.pi * seconds / 7200)
    gust = np.maximum(0, weather + random.gumbel(0, 2, events))
    mast = random.integers(0, masts, events)
    delay = random.exponential(1.0, events)
    for lost in range(masts):  # from then on each mast is cut off for 3 to 12 minutes
        begin, length = random.uniform(0, seconds[-1]), random.uniform(180, 720)
        cut_off = (mast == lost) & (begin <= seconds) & (seconds < begin + length)
        delay[cut_off] = begin + length - seconds[cut_off] + random.uniform(0, 2, cut_off.sum())
    times = START + (seconds * 1e6).astype("timedelta64[us]")
    rows = pd.DataFrame({"time": times, "mast": mast, "gust": gust, "arrival": seconds + delay})
    return rows.sort_values("arrival", ignore_index=True)


def run(rows: pd.DataFrame, batch: int, store: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The readings that were taken in, and the dashboard: one row of results for each of them."""
    window = Window(
        GUSTS, TimeWindow("1 hour"), store, "gusts",
        allowed_lateness="10 minutes", on_late="drop",
    )  # fmt: skip
    shown: dict[np.datetime64, tuple[float, float]] = {}
    taken = []
    for start in range(0, len(rows), batch):
        part = rows.iloc[start : start + batch]
        late, wrong = window.stats().late, 0
        revision = window.revise({"gust": part.gust.to_numpy()}, part.time.to_numpy())
        accepted = window.last_accepted
        taken.append(part if accepted is None else part[accepted])
        results = zip(revision.results["strongest"], revision.results["mean"], strict=True)
        for time, found in zip(revision.times, results, strict=True):
            wrong += time in shown and shown[time] != found
            shown[time] = found
        refused = window.stats().late - late
        if wrong or refused:
            first = str(revision.times[0])[11:19]
            print(f"batch {start // batch:3}: {len(part)} readings, from {first} on: ", end="")
            print(f"{wrong:4} results put right, {refused} readings too late")
    print(f"{window.stats().late} of {len(rows):,} readings were over 10 minutes late and dropped")
    window.close()
    board = pd.DataFrame.from_dict(shown, orient="index", columns=["strongest", "mean"])
    return pd.concat(taken), board.sort_index()


def compare(taken: pd.DataFrame, board: pd.DataFrame) -> None:
    """The dashboard against pandas over the readings sorted by time."""
    rolling = taken.set_index("time").sort_index().gust.rolling("1h")
    assert len(board) == len(taken), (len(board), len(taken))
    np.testing.assert_array_equal(board.index, rolling.max().index)
    np.testing.assert_array_equal(board.strongest, rolling.max())
    np.testing.assert_allclose(board["mean"], rolling.mean(), rtol=1e-9)
    print(f"all {len(board):,} results on the dashboard equal pandas over the sorted readings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="readings")
    parser.add_argument("--masts", type=int, default=12)
    parser.add_argument("--batch", type=int, default=60, help="readings taken in at once")
    parser.add_argument("--store", default="memory://", help="where the window's pages go")
    options = parser.parse_args()
    rows = arrivals(options.events, options.masts)
    compare(*run(rows, options.batch, options.store))


if __name__ == "__main__":
    main()
