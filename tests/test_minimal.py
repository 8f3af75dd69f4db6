"""The minimal Amortized MTA: results of lists, and the paper's bounds in combines."""

from __future__ import annotations

import random

import pytest

from mta.minimal import MinimalMTA


class Counting:
    """Text whose joins are counted: neither commutative nor invertible."""

    def __init__(self) -> None:
        self.combines = 0

    def __call__(self, left: str, right: str) -> str:
        self.combines += 1
        return left + right


@pytest.mark.parametrize("seed", range(20))
def test_results_are_those_of_a_list(seed: int) -> None:
    rng, window, kept = random.Random(seed), MinimalMTA[str](Counting()), list[str]()
    for at in range(600):
        if rng.random() < rng.choice([0.3, 0.6]) and kept:
            count = rng.choice([1, 1, 1, rng.randint(1, len(kept))])
            window.evict(count)
            del kept[:count]
        else:
            window.insert(f"{at} ")
            kept.append(f"{at} ")
        assert len(window) == len(kept)
        if kept and rng.random() < 0.7:
            assert window.query() == "".join(kept)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_a_slide_takes_at_most_seven_combines_amortized(size: int) -> None:
    counting = Counting()
    window = MinimalMTA[str](counting)
    for _ in range(4000):
        window.insert("x")
        if len(window) > size:
            window.evict()
        assert len(window.query()) == len(window)
    assert counting.combines <= 7 * 4000


def test_a_bulk_eviction_takes_a_logarithmic_number_of_combines() -> None:
    counting = Counting()
    window = MinimalMTA[str](counting)
    for _ in range(10_000):
        window.insert("x")
    window.query()
    before = counting.combines
    window.evict(9_000)
    assert window.query() == "x" * 1000
    assert counting.combines - before <= 4 * 14


def test_an_empty_window_has_no_result() -> None:
    window = MinimalMTA[int](max)
    window.insert(1)
    with pytest.raises(IndexError, match="cannot evict 2 events of a window of 1"):
        window.evict(2)
    window.evict()
    with pytest.raises(IndexError, match="no events"):
        window.query()
    window.insert(2)
    assert window.query() == 2
