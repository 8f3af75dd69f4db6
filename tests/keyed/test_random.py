"""Random lives of keyed windows, beside plain lists; see ``scenarios``."""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import pytest

from mta.keyed import keys as hashing
from tests.keyed.scenarios import Life
from tests.support.sampling import some


@pytest.mark.parametrize("seed", some(range(80), by_default=16))
@pytest.mark.usefixtures("tiny")
def test_keyed_windows_are_lists_and_report_what_is_incomplete(seed: int) -> None:
    Life(seed).run()


@pytest.mark.usefixtures("tiny")
def test_the_lateness_grows_when_all_keys_of_a_part_of_the_tree_are_gone() -> None:
    Life(955844162).run()


@pytest.mark.parametrize("seed", some(range(6), by_default=3))
@pytest.mark.usefixtures("tiny")
def test_keys_whose_hashes_collide_have_lists_of_their_own(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "hash_of", lambda key: sum(key) % 3)
    Life(10_000 + seed).run()


def test_windows_of_the_usual_sizes_have_incomplete_results() -> None:
    """And keys that are standalone for a time."""
    histories = [Life(seed) for seed in range(8)]
    assert sum(life.run() for life in histories) > 20
    moves = [two - one for life in histories for one, two in pairwise(life.standalone)]
    assert sum(move > 0 for move in moves) > 5 < sum(move < 0 for move in moves)


@pytest.mark.soak
@pytest.mark.usefixtures("tiny")
def test_many_scenarios() -> None:
    """Ten minutes of them; the seed of one that fails is in its message."""
    first = time.time_ns() % 10**9
    sys.stdout.write(f"seeds from {first} on\n")
    end, seed = time.monotonic() + 600, first
    while time.monotonic() < end:
        try:
            Life(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        seed += 1
