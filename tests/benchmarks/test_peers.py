"""Peers and public benchmarks: the sides answer as plain lists do, or within their bounds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from benchmarks.ours import peers
from benchmarks.ours.approximate import (
    CLOCK,
    CONFIDENCE,
    ExponentialHistogram,
    HistogramADWIN,
    delays,
    drifting,
)
from benchmarks.public import experiments
from benchmarks.public.experiments import (
    exact_counts,
    exact_counts_of_lists,
    hot_items,
    hot_items_of_lists,
    peaks,
    peaks_of_lists,
)
from benchmarks.public.streams import (
    FIRST_AUCTION,
    SECOND,
    START,
    Bids,
    bids,
    records,
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


VALUES = np.random.default_rng(3).normal(100, 10, 60)


@pytest.mark.parametrize("function", peers.MONOIDS)
@pytest.mark.parametrize("size", [2, 7, 100])
@pytest.mark.parametrize("name", peers.SINGLES)
def test_every_result_one_by_one(name: str, size: int, function: str) -> None:
    module, rolling = peers.SINGLES[name]
    pytest.importorskip(module)
    found, expected = rolling(function, size, VALUES), peers.with_pandas(function, size, VALUES)
    assert len(found) == len(VALUES)
    assert np.allclose(found[1:], expected[1:], rtol=1e-9)


def test_bids_are_nexmark_s() -> None:
    stream = bids(92_000)
    assert stream.times[-1] - START == pytest.approx(10 * SECOND, rel=1e-3)  # of 100,000 events
    assert (np.diff(stream.times) >= 0).all() and (stream.times % 1000 == 0).all()
    auctions = stream.auctions - FIRST_AUCTION
    assert np.mean(auctions % 100 == 0) == pytest.approx(0.5, abs=0.01)  # the hot ones
    opened = np.arange(92_000) // 46 * 3 + 2
    assert (auctions <= opened + 10).all() and (auctions >= opened - 200).all()
    again = bids(1_000)
    assert (again.times == stream.times[:1_000]).all()


def slowly(count: int, seconds: int) -> Bids:
    """Bids over more seconds than they take, so that windows fill and empty."""
    gaps = np.random.default_rng(5).integers(0, 2 * seconds * SECOND // count, count)
    return Bids(bids(count).auctions, START + np.cumsum(gaps))


def test_query_5_is_that_of_plain_lists() -> None:
    stream = slowly(2_000, 60)
    found = list(hot_items(stream))
    assert found == list(hot_items_of_lists(stream))
    assert len(found) >= 25 and len({tuple(hot) for _, hot, _ in found}) > 1


def test_a_bid_at_a_boundary_is_of_the_next_hop() -> None:
    times = START + np.array([0, 2, 2, 4, 12, 13, 14, 17]) * SECOND
    stream = Bids(np.array([7, 7, 7, 8, 9, 9, 9, 9]), times)
    found = list(hot_items(stream))
    assert found == list(hot_items_of_lists(stream))
    assert found[:2] == [(START + 2 * SECOND, [7], 1), (START + 4 * SECOND, [7], 3)]


def test_counts_after_every_bid_are_those_of_plain_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "BATCH", 333)
    stream = slowly(1_500, 40)
    assert exact_counts(stream).tolist() == exact_counts_of_lists(stream)


def test_peaks_are_those_of_plain_lists() -> None:
    stream = records(1_000, 50)
    assert peaks(stream, None).tolist() == peaks_of_lists(stream, 1_000)
    assert (peaks(stream, "memory://") == peaks(stream, None)).all()
