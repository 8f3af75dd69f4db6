"""Bloom filters: what they find, how they err, and their bytes."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from mta import CountWindow, Window
from mta.aggregations import BloomFilter, Members
from mta.errors import InvalidValue


def test_a_bloom_filter_misses_nothing_and_errs_as_promised() -> None:
    monoid = BloomFilter(2000, 0.02)
    inside = [f"in {i}" for i in range(2000)]
    seen = monoid.lower(monoid.fold(inside, 2000))
    assert all(map(seen.might_contain, inside))
    wrong = sum(seen.might_contain(f"out {i}") for i in range(20_000))
    assert 0.01 < wrong / 20_000 < 0.03
    assert abs(seen.error - 0.02) < 0.004 and abs(seen.distinct - 2000) < 60
    assert len(seen) == 16 + monoid.bits // 8 and monoid.bits <= 8.2 * 2000


def test_members_go_anywhere_as_bytes() -> None:
    window = Window(BloomFilter(50), CountWindow(5))
    window.extend(["a", "b", 7, 2.5, b"raw", ("a", 1)])
    seen = window.query()
    again = Members(bytes(seen))
    assert again == seen and pickle.loads(pickle.dumps(seen)) == seen
    for value in ("b", 7, 7.0, np.int64(7), 2.5, b"raw", ("a", 1)):
        assert again.might_contain(value)
    assert not again.might_contain("a") and not again.might_contain("7")
    assert "about 5" in repr(again)
    for wrong in (b"", b"abc", seen[:-1], seen + b"x", b"B" + seen[1:], seen[:8] + bytes(8)):
        with pytest.raises(InvalidValue, match="not a Bloom filter"):
            Members(wrong)
    with pytest.raises(InvalidValue):
        Members(seen[:6] + bytes(2) + seen[8:])  # no digest at all
    assert Members(seen[:16] + b"\xff" * (len(seen) - 16)).distinct == math.inf


def test_the_places_of_a_value_never_change() -> None:
    """Earlier pages and results hold them."""
    seen = BloomFilter(10).lower(BloomFilter(10).fold(["a", 1], 2))
    assert seen.hex() == PINNED_MEMBERS


PINNED_MEMBERS = "626c6f6f6d310900800000000000000010460840008000000900100020092186"


@pytest.mark.parametrize(("capacity", "error"), [(0, 0.1), (10, 0), (10, 1), (10**12, 0.01)])
def test_bloom_filters_that_make_no_sense(capacity: int, error: float) -> None:
    with pytest.raises(ValueError, match="Bloom filter"):
        BloomFilter(capacity, error)
