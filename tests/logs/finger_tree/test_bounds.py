"""FiBA's bounds, by counting combines and splits, merges and moves; constants are stated.

Distances are exact: the inserted value has just so many younger ones. Each constant is what was
counted, rounded up; all of it is deterministic.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from mta import CountWindow, Monoid, Sum, Window
from mta.algorithms import FiBA
from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.bulk import insert_sorted
from mta.logs.finger_tree.fingers import after_time
from tests.support.counted import Counted
from tests.support.naive import joined
from tests.support.sampling import some
from tests.support.trees import Visits, coins, spent

MIN_ARITIES = pytest.mark.parametrize("min_arity", some([2, 8, 4], by_default=2))
GAP = 1 << 20


class Sliding:
    """A window of a fixed size into which values come at any distance."""

    def __init__(self, kind: type[Tree], min_arity: int, size: int) -> None:
        self.counted = Counted()
        self.tree = kind(self.counted.max, min_arity)
        self.times = [i * GAP for i in range(size)]
        for time in self.times:
            self.tree.insert(time, 1.0)

    def slide(self, distance: int) -> None:
        """Evict the oldest, insert before so many others, query."""
        if isinstance(self.tree, FingerTree):
            self.tree.evict_oldest()
        else:
            self.tree.evict(self.times[0])
        del self.times[0]
        at = len(self.times) - distance
        time = self.times[at - 1] + 1 if at else self.times[0] - 1
        self.tree.insert(time, 1.0)
        self.times.insert(at, time)
        self.tree.query()

    def mean(self, distance: int, rounds: int = 100) -> float:
        """Combines a round, once the tree is as such rounds leave it."""
        for _ in range(rounds):
            self.slide(distance)
        self.counted.combines = 0
        for _ in range(rounds):
            self.slide(distance)
        return self.counted.combines / rounds


def fiba(min_arity: int, size: int, counted: Counted, gap: int = 1) -> FingerTree:
    """A tree of some values that came in order, in batches; no combine is counted."""
    tree, draw = FingerTree(counted.max, min_arity), random.Random(size)
    while len(tree) < size:
        count = min(draw.randint(1, 64), size - len(tree))
        times = np.arange(len(tree), len(tree) + count) * gap
        insert_sorted(tree, times, [1.0] * count, count)
    counted.combines = 0
    return tree


# --- one at a time ------------------------------------------------------------------------------


@pytest.mark.parametrize(("min_arity", "slope"), some([(2, 8), (8, 15), (4, 11)], by_default=2))
def test_a_round_at_distance_d_takes_o_of_log_d(min_arity: int, slope: float) -> None:
    """Theorem 3.4: evict, insert and query are at most 10 + slope * log2(d + 2) on average."""
    n = 2**13
    window = Sliding(FingerTree, min_arity, n)
    # From far to near, so that each distance is reached among values that came in order.
    distances = [n - 1, *(2**k for k in range(12, -1, -1)), 0]
    means = {d: window.mean(d) for d in distances}
    for d, mean in means.items():
        assert mean <= 10 + slope * math.log2(d + 2), means
    assert means[0] < means[16] < means[256], means
    assert means[n - 1] < means[256], means  # a stack: nothing is restructured
    window.tree.check()


@MIN_ARITIES
def test_a_round_of_the_classic_tree_costs_the_same_at_any_distance(min_arity: int) -> None:
    n = 2**11
    classic, fingers = (Sliding(kind, min_arity, n) for kind in (Tree, FingerTree))
    means = {d: classic.mean(d) for d in (n // 2, 256, 16, 0)}
    assert max(means.values()) <= 1.1 * min(means.values()), means
    assert fingers.mean(0) <= means[0] / 4


@MIN_ARITIES
def test_in_order_a_round_costs_the_same_in_any_window(min_arity: int) -> None:
    means = {n: Sliding(FingerTree, min_arity, n).mean(0, rounds=500) for n in (2**8, 2**10, 2**12)}
    assert max(means.values()) <= min(17, 1.1 * min(means.values())), means


@MIN_ARITIES
def test_a_query_takes_two_combines(min_arity: int) -> None:
    counted = Counted()
    tree = FingerTree(counted.max, min_arity)
    for i in range(500):
        tree.insert(i * 7 % 500, 1.0)
        assert counted.cost(tree.query) <= 2


@MIN_ARITIES
def test_an_insert_in_order_without_overflow_takes_one_combine(min_arity: int) -> None:
    counted = Counted()
    tree = fiba(min_arity, 1000, counted)
    cheap = sum(counted.cost(lambda i=i: tree.insert(i, 1.0)) == 1 for i in range(1000, 2000))
    # A leaf that was split has MIN_ARITY + 1 places of 2 * MIN_ARITY.
    assert cheap >= 1000 * (min_arity - 1) // min_arity


@pytest.mark.parametrize("kind", [Tree, FingerTree])
@pytest.mark.parametrize("arities", [(2, None), (3, None), (4, 2), (2, 6), (8, None)], ids=str)
def test_no_operation_is_billed_more_than_two_coins(
    kind: type[Tree], arities: tuple[int, int | None]
) -> None:
    """Lemma C.1: so n operations take at most 2n splits, merges and moves."""
    draw, tree = random.Random(1), kind(joined(), *arities)
    times: list[int] = []
    seen = set()
    for step in range(900):
        had, before = coins(tree), dict(tree.steps)
        if not times or draw.random() < (0.75 if step // 150 % 2 == 0 else 0.25):
            times.append(draw.randrange(200) if draw.random() < 0.7 else 1000 + step)
            tree.insert(times[-1], "x")
        else:
            at = draw.randrange(len(times)) if draw.random() < 0.5 else times.index(min(times))
            assert tree.evict(times.pop(at))
        taken = {name: tree.steps[name] - before[name] for name in before}
        assert sum(taken.values()) + coins(tree) - had <= 2
        seen.update(name for name, count in taken.items() if count)
    assert seen == {"split", "merge", "move"}
    assert spent(tree) <= 2 * 900


# --- in bulk ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("min_arity", "slope"), [(2, 4.5), (4, 6.5), (8, 10)])
def test_a_bulk_eviction_takes_o_of_log_m(min_arity: int, slope: float) -> None:
    """Whatever the window: the tree shrinks from 2^13 to 2^8 values on the way.

    Amortised: a row of evictions may take the way down the left spine once more.
    """
    counted = Counted()
    tree = fiba(min_arity, 2**13, counted)
    for m in (1, 2, 4, 16, 64, 256, 512, 1024, 1024, 256, 64, 16, 4, 2, 1):
        rounds, spine = max(3, 200 // m), 6 * min_arity * tree.root.level
        counted.combines = 0
        for _ in range(rounds):
            tree.evict_oldest(min(m, tree.size))
        assert counted.combines <= rounds * slope * math.log2(m + 2) + spine, m
    assert len(tree) < 2**8
    tree.check()


def batch(n: int, d: int, m: int, spread: bool) -> np.ndarray:
    """Sorted times among those of a window, whose gap is 1000: over its last d, or at one place."""
    if spread:
        return (n - d) * 1000 + (np.arange(m) * 1000 * d // m) + 1
    return (n - d) * 1000 + 1 + np.arange(m)


@pytest.mark.sample(1)
@MIN_ARITIES
@pytest.mark.parametrize("spread", [True, False])
def test_a_bulk_insertion_takes_o_of_m_log_d_over_m(min_arity: int, spread: bool) -> None:
    """At most m combines a value, and those of m paths that meet after log2(d / m) levels."""
    n, slope = 2**11, min_arity / 4 + 3.5
    for d in (2**5, 2**8, 2**11):
        for m in (1, 4, 16, 64, 256):
            if m > d:
                continue
            counted = Counted()
            tree = fiba(min_arity, n, counted, gap=1000)
            times = batch(n, d, m, spread)
            insert_sorted(tree, times, [1.0] * m, m)
            taken = counted.combines
            paths = m * math.log2(2 * d / m) if spread else math.log2(2 * d)
            top = 4 * min_arity * math.log2(2 * d) / math.log2(min_arity)
            assert taken <= 2 * m + slope * paths + top, (d, m)


@MIN_ARITIES
@pytest.mark.parametrize("m", [1, 16, 128])
def test_sliding_in_batches_costs_the_same_in_any_window(min_arity: int, m: int) -> None:
    """At most 1 combine a value and 15 * log2(m + 2) for the batch as a whole, whatever n is."""
    for n in (2**8, 2**11):
        counted = Counted()
        tree, newest = fiba(min_arity, n, counted), n
        rounds = 2 * n // m
        for _ in range(rounds):
            tree.evict_oldest(min(m, tree.size))
            insert_sorted(tree, np.arange(newest, newest + m), [1.0] * m, m)
            newest += m
        assert counted.combines / rounds <= m + 15 * math.log2(m + 2) + min_arity
        assert len(tree) == n


# --- ranges -------------------------------------------------------------------------------------


@MIN_ARITIES
def test_a_range_takes_o_of_log_of_its_length_and_of_its_distance(min_arity: int) -> None:
    """Theorem 4.2, for constant arity: 3 * MIN_ARITY combines on either side of each level."""
    n, counted, draw = 2**12, Counted(), random.Random(3)
    tree = fiba(min_arity, n, counted)
    for _ in range(300):
        length, distance = (2 ** draw.randrange(12) for _ in range(2))
        stop = max(0, n - distance)
        start = max(0, stop - length)
        levels = math.log(length + 2, min_arity) + math.log(distance + 2, min_arity)
        for cuts in (
            (tree.at_position(start), tree.at_position(stop)),
            (after_time(start - 1), after_time(stop - 1)),
        ):
            counted.combines = 0
            assert tree.fold_between(*cuts) == (1.0 if stop else float("-inf"))
            assert counted.combines <= 3 * min_arity * levels
        counted.combines = 0
        assert tree.rank(after_time(start - 1)) == start
        assert counted.combines == 0


# --- nodes --------------------------------------------------------------------------------------


def of_ones(size: int, min_arity: int) -> tuple[Window, FiBA, list[int]]:
    """A window that came in order, its tree, and its times."""
    window = Window(
        Monoid(float("-inf"), max, name="max"), CountWindow(1 << 30), None, "w",
        arity=min_arity, leaf_arity=min_arity, aggregator=FiBA, allowed_lateness="365 days",
    )  # fmt: skip
    times = [i * GAP for i in range(size)]
    window.extend([1.0] * size, np.array(times, "M8[us]"), emit="last")
    fiba = window.structure()
    assert isinstance(fiba, FiBA)
    return window, fiba, times


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [1 << 10, 1 << 15])
@pytest.mark.parametrize("min_arity", [2, 4])
def test_what_is_near_the_newest_is_found_by_the_finger(
    monkeypatch: pytest.MonkeyPatch, size: int, min_arity: int
) -> None:
    """Insertions at distance d, and ranges that begin there, visit O(log d) nodes."""
    window, fiba, times = of_ones(size, min_arity)
    visits = Visits(monkeypatch)
    for distance in (0, 1, 2, 4, 16, 64, 256, 900):
        high = 1 + math.log(distance + 1, min_arity)
        steps, inserted = 30, 0
        for _ in range(steps):
            at = len(times) - distance
            time = times[at - 1] + (1 if distance else GAP)
            inserted += visits.of(lambda time=time: fiba.insert(1.0, time))
            times.insert(at, time)
            assert visits.of(lambda time=time: fiba.first_after(time)) <= 3 * high + 2
            start = fiba.back - distance - 1
            assert visits.of(lambda start=start: fiba.fold(start, fiba.back)) <= 3 * high + 2
            stop = start + distance // 2
            assert visits.of(lambda start=start, stop=stop: fiba.fold(start, stop)) <= 4 * high + 2
        assert inserted <= steps * (3 * high + 3)  # splits amortised
    window.check()
    assert window.range_by_position(0, 5) == 1.0


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [1 << 10, 1 << 15])
@pytest.mark.parametrize("min_arity", [2, 4])
def test_a_correction_near_an_end_visits_few_nodes(
    monkeypatch: pytest.MonkeyPatch, size: int, min_arity: int
) -> None:
    """The paper's insert at a time that is there, and its evict, at distance d: O(log d) nodes."""
    window, fiba, times = of_ones(size, min_arity)
    visits = Visits(monkeypatch)
    fiba.tree.load_left()
    ends = [(end, d) for end in (False, True) for d in (0, 1, 2, 4, 16, 64, 256)]
    # One tree for all, as it takes long to make: it keeps its shape until events are taken out.
    for existing in ("replace", "combine"):
        fiba.setting = replace(fiba.setting, on_duplicate=existing)  # type: ignore[arg-type]
        for from_oldest, distance in ends:
            high = 1 + math.log(distance + 1, min_arity)
            time = times[distance if from_oldest else len(times) - distance - 1]
            found = [visits.of(lambda time=time: fiba.insert(0.0, time)) for _ in range(16)]
            assert max(found) <= 4 * high + 4, (existing, distance, from_oldest, found)
    for from_oldest, distance in ends:
        high = 1 + math.log(distance + 1, min_arity)
        steps, found = 16, []
        for _ in range(steps):
            time = times.pop(distance if from_oldest else len(times) - distance - 1)
            found.append(visits.of(lambda time=time: fiba.retract(time)))
        # merges and moves amortised
        assert sum(found) <= steps * (6 * high + 6), (distance, from_oldest, found)
    window.check()
    assert len(fiba) == len(times)


@pytest.mark.parametrize("held", [0, 3, 9, 14])
@pytest.mark.parametrize("count", [1, 4, 13, 40])
def test_a_batch_in_order_becomes_leaves_at_once(held: int, count: int) -> None:
    """As full as may be, whatever the last leaf has; nothing of the caller's is kept."""
    tree = FingerTree(Sum(), 4, 8)
    times, values = np.arange(held + count), np.arange(held + count, dtype=float)
    insert_sorted(tree, times[:held], values[:held].copy(), held)
    given = times[held:].copy(), values[held:].copy()
    insert_sorted(tree, *given, count)
    given[0][:], given[1][:] = 0, -1.0
    assert [(time, row) for time, row in tree.entries()] == list(enumerate(values.tolist()))
    assert tree.query() == values.sum()
    tree.check()
    leaves = sorted((n for n in tree.nodes() if not n.level), key=lambda leaf: leaf.time_at(0))
    assert all(leaf.arity == 2 * tree.least(0) for leaf in leaves[:-2])
    for leaf in leaves:
        assert leaf.entries._capacity <= 2 * leaf.count + 4
