"""``mta bench fiba`` at its smallest: all tables and plots, right results, exact distances."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from mta import Monoid
from mta.fiba import FingerTree
from spark_integration.bench import fiba
from spark_integration.bench.in_order_operators import Operator, operators


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tiny windows, one operator, and a folder of the test's own."""
    monkeypatch.setattr(fiba, "OUTPUT", tmp_path)
    monkeypatch.setattr(fiba, "ROUNDS", 20)
    monkeypatch.setattr(fiba, "scaled", lambda exponent, size, least=8: least)
    monkeypatch.setattr(fiba, "OPERATORS", ("Sum",))
    monkeypatch.setattr(fiba, "MIN_ARITIES", (2, 4))


def table(name: str) -> list[dict[str, str]]:
    with (fiba.OUTPUT / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_figure_of_the_paper_is_measured_and_drawn() -> None:
    found = fiba.run(0.001)
    assert {figure.limit for figure in found} == {"", "<= 0.1"}
    for number in (11, 12, 13, 14):
        for kind in ("png", "svg"):
            assert (fiba.OUTPUT / f"figure_{number}.{kind}").stat().st_size > 5000
    distances = {int(row["distance"]) for row in table("distance")}
    assert {0, 128, 255} <= distances
    assert {row["algorithm"] for row in table("distance")} == set(fiba.trees())
    assert {row["algorithm"] for row in table("in_order")} == set(fiba.queues())
    assert len(table("latency")) == 2 * len(fiba.trees())
    assert {row["algorithm"] for row in table("sharing")} == {
        f"FiBA {arity} {kind}" for arity in (2, 4) for kind in ("twin", "range")
    }
    for name in ("distance", "in_order", "sharing"):
        assert all(float(row["rounds_a_second"]) > 0 for row in table(name))


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
        def insert(self, time: int, row: object, existing: object = "append") -> None:
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
    for small in (4, 16, 64):
        answers.clear()
        fiba.Shared(one, 2, 64, small).range(30)
        ranges = answers.copy()
        answers.clear()
        fiba.Shared(one, 2, 64, small).twin(30)
        assert len(ranges) == 60
        assert ranges == answers
        assert [len(text) for text in ranges] == [64, small] * 30
