"""A process that reads the published features of card payments, and measures how often it can.

``benchmarks.spark.payments`` runs it. It reads a JSON object from its standard input, and writes
one: the reads per second, and the answers for some cards.
"""

from __future__ import annotations

import json
import sys
from time import monotonic, perf_counter, sleep
from typing import Any

import numpy as np

from mta import open_published
from mta.published import PublishedWindows

AT_ONCE = 1000
#: The number of reads that are not counted, and the seconds until the last batch must be published.
WARM, PATIENCE = 100, 60.0


def read(
    store: str, name: str, cards: list[str], last: int, seconds: float, at: int
) -> dict[str, Any]:
    """Read features as of a moment, in microseconds; ``last`` is the batch that must be read."""
    published = open_published(store, name)
    try:
        _await(published, last)
        moment = np.datetime64(at, "us")
        answers = published.query(cards, at=moment)
        found = {"card": cards} | {name: _plain(column) for name, column in answers.items()}
        random = np.random.default_rng(2)
        asked = np.array(cards, object)[random.integers(0, len(cards), 1 << 16)]
        for card in asked[:WARM]:
            published.query(card, at=moment)
        singles = _timed(published, list(asked), moment, seconds)
        many = [list(asked[first : first + AT_ONCE]) for first in range(0, len(asked), AT_ONCE)]
        batches = _timed(published, many, moment, seconds)
        p50, p99 = np.percentile(singles, [50, 99]) * 1e6
        return {
            "single": len(singles) / singles.sum(),
            "many": AT_ONCE * len(batches) / batches.sum(),
            "p50_us": p50, "p99_us": p99, "answers": found,
        }  # fmt: skip
    finally:
        published.close()


def _await(published: PublishedWindows, last: int) -> None:
    until = monotonic() + PATIENCE
    while published.status().batch < last:
        if monotonic() > until:
            raise TimeoutError(f"batch {last} is not published: {published.status()}")
        sleep(0.05)
        published.refresh()


def _timed(
    published: PublishedWindows, asked: list[Any], moment: np.datetime64, seconds: float
) -> np.ndarray:
    """Return the seconds of each of some reads, until they have taken ``seconds``."""
    spent, until = [], perf_counter() + seconds
    for each in asked:
        began = perf_counter()
        published.query(each, at=moment)
        spent.append(perf_counter() - began)
        if began > until:
            break
    return np.array(spent)


def _plain(column: Any) -> list[Any]:
    plain: list[Any] = column.tolist()
    return plain


if __name__ == "__main__":
    json.dump(read(**json.load(sys.stdin)), sys.stdout)
