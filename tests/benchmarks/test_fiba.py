"""The FiBA paper's experiments at their smallest: every tree, right results, exact distances."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from benchmarks.papers.fiba import experiments as fiba
from benchmarks.papers.operators import Operator, operators
from benchmarks.report.experiment import Progress
from mta import Monoid
from mta.logs.finger_tree import FingerTree


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny windows and one operator."""
    monkeypatch.setattr(fiba, "ROUNDS", 20)
    monkeypatch.setattr(fiba, "scaled", lambda exponent, size, least=8: least)
    monkeypatch.setattr(fiba, "OPERATORS", ("Sum",))
    monkeypatch.setattr(fiba, "MIN_ARITIES", (2, 4))


def test_every_tree_and_distance_is_measured() -> None:
    rows = fiba.at_distances(0.001, Progress("distance"))
    assert {0, 128, 255} <= {row["distance"] for row in rows}
    assert {row["algorithm"] for row in rows} == set(fiba.trees())
    rows = fiba.in_order(0.001, Progress("in order"))
    assert {row["algorithm"] for row in rows} == set(fiba.queues())
    rows = fiba.sharing(0.001, Progress("sharing"))
    assert {row["algorithm"] for row in rows} == {
        f"FiBA {arity} {kind}" for arity in (2, 4) for kind in ("twin", "range")
    }
    assert all(row["rounds_a_second"] > 0 for row in rows)


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


def test_two_trees_and_one_with_ranges_answer_the_same() -> None:
    answers: list[str] = []

    def lower(partial: str) -> str:
        answers.append(partial)
        return partial

    texts = Monoid("", lambda a, b: a + b, lower=lower, name="joined")
    one = Operator("joined", texts, "abcdefghijklmnopqrstuvwxyz"[:13])
    asked, twins = fiba.Shared(one, 2, 64), fiba.Shared(one, 2, 64)
    for small in (64, 16, 4):
        answers.clear()
        asked.range(small, 30)
        ranges = answers.copy()
        answers.clear()
        twins.twin(small, 30)
        assert len(ranges) == 60
        assert ranges == answers
        assert [len(text) for text in ranges] == [64, small] * 30
