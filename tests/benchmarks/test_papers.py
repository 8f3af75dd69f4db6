"""The papers' experiments: what is timed is right, and combines are those of the theorems."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

from benchmarks.papers import break_even
from benchmarks.papers.break_even import Beside, Slid, baseline, slots
from benchmarks.papers.daba import experiments as in_order
from benchmarks.papers.fiba import experiments as fiba
from benchmarks.papers.operators import operators
from benchmarks.papers.pba import experiments as boundaries
from benchmarks.papers.pba.power_sums import PowerSums, slices_of
from benchmarks.papers.pba.sides import (
    Side,
    Slices,
    a_combine,
    by_rounds,
    verify,
)
from benchmarks.papers.reactive import experiments as reactive
from benchmarks.papers.reactive import prior
from benchmarks.papers.reactive.operators import reactive_operators
from benchmarks.report.experiment import Progress
from mta import Monoid
from mta.algorithms import IN_ORDER, PBA, SBA, RecalculateFromScratch, TwoStacks
from mta.logs.finger_tree import FingerTree

VALUES = np.random.default_rng(3).normal(size=120)


def joined() -> Monoid:
    return Monoid("", lambda a, b: a + b, name="join")


def test_slices_of_a_stream_with_silences() -> None:
    drawn = random.Random(5)
    busy = sorted(drawn.randrange(40_000) / 1000 for _ in range(200))
    times = [*busy, 95.5, 95.6, 99.0]
    letters = [drawn.choice("abc") for _ in times]
    for reach, slide in ((10, 2), (7, 3)):
        inner = TwoStacks(joined())
        window = Slices(inner, reach * 1_000_000, slide * 1_000_000, timed=True)
        found = [one for one in window.instances(letters, times) if one[1]]
        assert found == list(SBA.timed(joined(), reach, slide).instances(letters, times))
        inner.check()


def test_a_wrong_side_is_not_timed() -> None:
    right = by_rounds(8)[0]
    with pytest.raises(AssertionError, match="wrong answers other than TwoStacks"):
        verify(
            [right, Side("wrong", right.make, right.fill, lambda window, data: 9.0)],
            (VALUES,),
            8,
            4,
        )


def test_combines_are_counted() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 5 * boundaries.COUNTED).tolist()
    found = boundaries.counted(partial(by_rounds, boundaries.COUNTED), (values,))
    assert found["TwoStacks"] == 3
    assert found["SlickDeque"] < 2
    assert 3 < found["SBA"] <= 4
    assert found["RecalculateFromScratch"] == pytest.approx(boundaries.COUNTED, abs=1)
    assert a_combine(joined(), "a", "b", times=10) > 0


def test_power_sums_are_what_they_say() -> None:
    values = np.array([1.0, 2.0, 4.0, 0.5])
    (found,) = slices_of(PowerSums(3), values, 4)
    powers = [(values**i).sum() for i in (1, 2, 3)]
    logs = [(np.log(values) ** i).sum() for i in (1, 2, 3)]
    assert found.tolist() == pytest.approx([0.5, 4.0, 4, *powers, *logs])


NAMES = list(reactive.PAPER_TABLE_3)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactive, "REPEATS", 1)
    monkeypatch.setattr(break_even, "REPEATS", 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_both_sides_answer_right(name: str, size: int) -> None:
    """RA and ISS beside a fold of the last values, whatever is changed at once."""
    one = reactive_operators()[name]
    for slid in (reactive.reactive(one, size), Slid(baseline(name)(one.monoid), one, size)):
        came = size
        for m in {1, min(3, size), size}:
            reactive.one_by_one(slid, m, 5)
            slid.require_right()
            came += 5 * m
            lifted = [one.monoid.lift(value) for value in one.values[came - size : came]]
            right = one.monoid.lower(one.monoid.fold(lifted, size))
            assert one.monoid.same(slid.window.query(), right)


def test_a_wrong_answer_is_not_timed() -> None:
    class Wrong(RecalculateFromScratch):
        def _query(self) -> Any:
            return super()._query() + 1

    one = reactive_operators()["Sum"]
    slid = Slid(Wrong(one.monoid), one, 8)
    with pytest.raises(AssertionError, match=r"Wrong, Sum: -?\d+ instead of -?\d+"):
        slid.require_right()
    peer = Slid(RecalculateFromScratch(one.monoid), one, 8)
    with pytest.raises(AssertionError, match="instead of"):
        Beside(lambda window: (slid, 2), lambda window: (peer, 2), 8).row()


def test_a_change_of_full_slots_makes_one_path_of_combines() -> None:
    """Figure 7: log2 n for what commutes; beside it at most two paths and two walks."""
    rows = reactive.update(2**-12, Progress("ra_update"))
    for row in rows:
        n, path = row["window"], math.log2(slots(row["window"]))
        if row["operator"] != "ArgMax" and n == slots(n):
            assert row["combines"] == path
        assert row["combines"] <= 2 * (1 + path) + 2 * path + 1
    assert {row["slots"] for row in rows} == {"all slots in use", "three quarters in use"}
    assert all(f.agrees for f in reactive.found_update(rows) if "combines" in f.what)


@pytest.mark.parametrize("label", reactive.CHANGES)
def test_changes_cost_what_the_paper_s_theorem_says(label: str) -> None:
    """Figure 10: at most 1 + ceil(log2(n/m)) combines a tuple, in slots that are all in use."""
    n = 1024
    m = reactive.CHANGES[label](n)
    found = reactive.combines(reactive_operators()["SampleStdDev"], n, m)
    assert found is not None and found <= 1 + math.ceil(math.log2(n / m))


@pytest.mark.parametrize("name", prior.PAPER_TABLE_4)
@pytest.mark.parametrize("label", prior.CHANGED)
def test_base_intervals_combine_as_often_as_ra(name: str, label: str) -> None:
    """The same complexity: where all slots are in use, log2 n for a single change of both."""
    one = reactive_operators()[name]
    for window in (64, 512):
        m = reactive.CHANGES[label](window)
        ra, aw = (prior.combines(side, one, window, m) for side in ("RA", "AW"))
        assert aw == ra == reactive.combines(one, window, m)
        if m == 1:
            assert aw == math.log2(window)


@pytest.fixture(autouse=True)
def small_of_fiba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny windows and one operator."""
    monkeypatch.setattr(fiba, "ROUNDS", 20)
    monkeypatch.setattr(fiba, "scaled", lambda exponent, size, least=8: least)
    monkeypatch.setattr(fiba, "OPERATORS", ("Sum",))
    monkeypatch.setattr(fiba, "MIN_ARITIES", (2, 4))


def test_distances_are_exact() -> None:
    window = fiba.Sliding(FingerTree, operators()["Sum"], 50)
    for distance in (49, 20, 3, 0):
        window.rounds(distance, 5)
        for gone, new in window.plan(distance, 4):
            assert window.tree.evict(gone)
            window.tree.insert(new, 1.0)
            times = [time for time, _ in window.tree.entries()]
            assert times == window.times
            assert sum(time > new for time in times) == distance


def test_trees_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fiba.verify(operators()["Sum"])

    class Forgetful(FingerTree):
        def insert(self, time: int, row: object) -> None:
            if len(self) != 40:
                super().insert(time, row)
            else:
                super().insert(time, 0.0)

    monkeypatch.setattr(fiba, "trees", lambda: {"FiBA": FingerTree, "worse": Forgetful})
    with pytest.raises(AssertionError, match="the trees differ"):
        fiba.verify(operators()["Sum"])


def test_every_algorithm_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "LARGEST", 16)
    rows = in_order.throughput(0.001, Progress("throughput"))
    assert {row["algorithm"] for row in rows} == {a.__name__ for a in IN_ORDER if a is not PBA}
    assert all(row["ns"] > 0 for row in rows)
    linear = [f for f in in_order.found_throughput(rows) if f.what.startswith("Recalculate")]
    assert [finding.paper for finding in linear] == ["linear"]


def test_what_is_timed_must_be_right() -> None:
    wrong = Monoid(0.0, lambda a, b: a - b, name="not associative")
    with pytest.raises(AssertionError, match="the algorithms differ"):
        in_order.verify(in_order.Operator("wrong", wrong, [1.0, 2.0, 5.0]))
