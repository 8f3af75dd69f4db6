"""Exponential histograms, as peers of exact windows: within their bounds, and as soon alarmed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks.ours.approximate import (
    CLOCK,
    CONFIDENCE,
    ExponentialHistogram,
    HistogramADWIN,
    delays,
    drifting,
)
from mta import Count, CountWindow, Product, Sum, Window
from mta.frames import ADWIN


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_a_count_is_within_the_bound(k: int, share: float) -> None:
    random, size = Random(k), 200
    histogram = ExponentialHistogram(size, k)
    bits = [int(random.random() < share) for _ in range(3000)]
    exact = Window(Sum("int64"), CountWindow(size)).extend(bits)
    for bit, right in zip(bits, exact.tolist(), strict=True):
        assert abs(histogram.add(bit) - right) <= max((right + k - 2) / (2 * (k - 1)), 0.5)
    assert len(histogram) <= (k + 1) * (np.log2(size) + 2)


def test_a_change_is_seen_as_soon_as_in_buckets() -> None:
    values, changed = drifting(0.25)
    peer = HistogramADWIN(CONFIDENCE, CLOCK)
    theirs = [peer.add(value) for value in values.tolist()]
    guest = Product({"n": Count(), "sum": ("x", Sum())})
    ours = Window(guest, ADWIN(CONFIDENCE, "x", clock=CLOCK)).extend({"x": values})["n"].tolist()
    assert ours[changed[0] - 1] == theirs[changed[0] - 1] == changed[0], "no false alarm"
    assert max(delays(ours, changed)) <= max(delays(theirs, changed)) + 4 * CLOCK
    assert max(delays(theirs, changed)) < 1024
