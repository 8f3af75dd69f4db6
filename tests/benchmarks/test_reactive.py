"""The Reactive Aggregator's experiments: what is timed is right, and counts are the paper's."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from benchmarks.papers import break_even
from benchmarks.papers.break_even import Beside, Slid, baseline, judged, search, slots
from benchmarks.papers.daba import break_even as in_order_break_even
from benchmarks.papers.mta.algorithms import Reactive
from benchmarks.papers.operators import operators
from benchmarks.papers.reactive import experiments as reactive
from benchmarks.papers.reactive import prior
from benchmarks.papers.reactive.operators import reactive_operators
from benchmarks.report.experiment import Progress, Row, Rows
from mta.in_order import BaseIntervals, RecalculateFromScratch

NAMES = list(reactive.PAPER_TABLE_3)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactive, "REPEATS", 1)
    monkeypatch.setattr(break_even, "REPEATS", 1)


# --- the operators ------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", NAMES)
def test_bulk_operations_answer_right(name: str) -> None:
    slid = reactive.reactive(reactive_operators()[name], 24)
    reactive.in_bulk(slid, 24, 3)
    slid.require_right()
    reactive.in_bulk(slid, 5, 7)
    slid.require_right()


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


@pytest.mark.parametrize("name", ["Count", "Collect"])
def test_the_papers_baselines_combine_nothing(name: str) -> None:
    """Count reads the size, Collect makes one list; the others fold n values."""
    for some, combines in ((name, 0), ("Max", 20)):
        one, counter = reactive.counted(reactive_operators()[some])
        slid = Slid(baseline(some)(one.monoid), one, 20)
        counter.count = 0
        slid.seconds(1)
        assert counter.count == combines


def test_what_commutes_says_so() -> None:
    """As a test of the flags: swapped partials give the same, where an operator says they do."""
    for name, one in reactive_operators().items():
        a, b = (one.monoid.lift(value) for value in one.values[:2])
        if one.monoid.commutative:
            assert one.monoid.same(one.monoid.combine(a, b), one.monoid.combine(b, a)), name
    assert not reactive_operators()["ArgMax"].monoid.commutative
    assert not reactive_operators()["Collect"].monoid.commutative


# --- break-even ---------------------------------------------------------------------------------


@pytest.mark.parametrize("even", range(1, 65))
def test_search_finds_one_break_even(even: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(break_even, "CLOSE", 0)
    asked: list[int] = []
    assert search(lambda n: bool(asked.append(n)) or n >= even, 64) == (even, even)
    assert max(asked) <= max(4, 4 * even)  # nothing dear is measured once it is known


@pytest.mark.parametrize("first", range(6, 9))
@pytest.mark.parametrize("last", [*range(9, 17), None])
def test_search_finds_the_smallest_and_that_from_which_on_all_are(
    first: int, last: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that fills its slots pays, larger ones not yet."""
    monkeypatch.setattr(break_even, "CLOSE", 0)
    faster = {*range(first, 9), *(range(last, 33) if last else ())}
    found = search(lambda n: n in faster, 32)
    assert found == (first, None if last is None else first if last == 9 else last)


def test_a_break_even_is_judged_by_a_factor_and_by_what_was_tried() -> None:
    def row(window: int | None, tried: int = 1024) -> Row:
        return {"window": window, "onward": window, "tried": tried}

    assert judged("", 100, row(81), "x").agrees and judged("", 100, row(124), "x").agrees
    assert judged("", 100, row(79), "x").reason == "x"
    assert judged("", 100, row(126), "x").reason == "x"
    assert judged("", None, row(None), "x").agrees
    assert judged("", None, row(5), "x").agrees is False
    assert judged("", 800, row(None), "x").agrees is False  # 1000 were tried
    assert judged("", 900, row(None), "x").agrees is None  # 1125 were not
    assert judged("", 900, row(None), "x").seen == "none to 1,024"


class Counted(Slid):
    """Tells combines a round in place of seconds."""

    def __init__(self, ours: bool, window: int) -> None:
        one, self.counter = reactive.counted(reactive_operators()["Max"])
        side = Reactive(one.monoid, slots(window)) if ours else baseline("Max")(one.monoid)
        super().__init__(side, one, window)

    def seconds(self, rounds: int) -> float:
        self.counter.count = 0
        super().seconds(rounds)
        return self.counter.count / rounds


@pytest.mark.parametrize("times", [1, 3, 10])
def test_break_even_windows_are_where_the_rows_say(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In combines, which can be tried at every window."""
    monkeypatch.setattr(break_even, "CLOSE", 0)

    def build(ours: bool, window: int) -> tuple[Slid, int]:
        return Counted(ours, window), slots(window)

    beside = Beside(partial(build, True), partial(build, False), 128)
    faster = [n for n in range(1, 129) if beside.seconds(n)[1] > times * beside.seconds(n)[0]]
    onward = next(n for n in faster if n - 129 + len(faster) == faster.index(n))
    row = beside.row(times)
    assert (row["window"], row["onward"]) == (faster[0], onward)
    assert row["tried"] == 128


def test_table_3_has_a_row_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reactive, "TABLE_3", 6)
    rows = reactive.break_even(2**-8, Progress("ra_break_even"))
    assert [(row["operator"], row["times"]) for row in rows] == list(product(NAMES, (1, 10)))
    for row in rows:
        assert row["tried"] == 16 and 1 <= (row["window"] or 1) <= (row["onward"] or 16) <= 16
        assert row["round_ns"] > 0 and row["value_ns"] > 0
    assert len(reactive.found_break_even(rows)) == len(rows) + 1


def test_daba_s_table_3_has_the_reactive_aggregator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order_break_even, "operators", lambda: {"Max": operators()["Max"]})
    monkeypatch.setattr(in_order_break_even, "LARGEST", 4)
    rows = in_order_break_even.break_even(2**-8, Progress("daba_break_even"))
    assert set(in_order_break_even.ALGORITHMS) <= {row["algorithm"] for row in rows}
    assert "RecalculateFromScratch" not in {row["algorithm"] for row in rows}


def test_why_a_break_even_differs_is_read_from_the_rows() -> None:
    rows: Rows = [
        {"operator": operator, "algorithm": name, "window": 10, "onward": 10, "tried": 4096}
        | {"round_ns": 700.0 if name == "FOA" else 100.0}
        | {"value_ns": 30.0 if operator == "Max" else 10.0, "recalculating_ns": 180.0}
        for operator in in_order_break_even.PAPER
        for name in in_order_break_even.ALGORITHMS
    ]
    found = {one.what: one for one in in_order_break_even.found_break_even(rows)}
    assert len(found) == 45
    why = found["FOA, Max: break-even window"].reason
    assert "costs 7.0 times one of Two-Stacks, in the paper 4.0 times" in why
    assert "Recalculating costs 3.0 times as much a value as for Sum, in the paper 1.1" in why
    why = found["TwoStacks, Sum: break-even window"].reason
    assert "beside its values, 80 ns a round, is 80% of a round of Two-Stacks, 100:" in why
    assert found["TwoStacks, Bloom: break-even window"].agrees
    assert found["DABA, Collect: break-even window"].agrees is False


# --- figures ------------------------------------------------------------------------------------


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


def test_a_tumbling_window_is_combined_once() -> None:
    """Figure 8: n - 1 combines, one by one and in bulk."""
    for n, fire in product((1, 2, 64), (reactive.one_by_one, reactive.in_bulk)):
        assert reactive.combines(reactive_operators()["Max"], n, n, fire) == (n - 1) / n


def test_findings_do_without_combines_of_large_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the full form, which counts combines of smaller windows alone."""
    monkeypatch.setattr(reactive, "MOST_COUNTED", 16)
    for one in reactive.EXPERIMENTS[2:]:
        rows = one.run(2**-12, Progress(one.name))
        counted = [row for row in rows if row["combines"] is not None]
        assert 0 < len(counted) < len(rows) or one.name == "ra_resize"
        assert one.findings(rows) and all(draw(rows) for draw in one.plots.values())
    rows = reactive.tumbling(2**-12, Progress("ra_tumbling"))
    for row in rows:
        row["us"] = row["window"] * (1.0 if row["algorithm"] == "ISS" else 4.0)
    reasons = [found.reason for found in reactive.found_tumbling(rows) if found.agrees is False]
    assert len(reasons) == 4
    assert all("At window 16 RA makes 0.94 combines a tuple and ISS 1.00" in r for r in reasons)


def test_capacities_oscillate_between_n_and_2n(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 9: doubled by the tuple after the n-th, halved when half of them are left."""
    seen: list[tuple[int, int]] = []
    inner = Reactive.resize

    def resize(self: Reactive, capacity: int) -> None:
        seen.append((len(self), capacity))
        inner(self, capacity)

    monkeypatch.setattr(Reactive, "resize", resize)
    slid = reactive.reactive(reactive_operators()["SampleStdDev"], 32)
    reactive.oscillating(slid, 60)
    assert seen == [(32, 64), (15, 32)] * 4
    slid.size = len(slid.window)
    slid.require_right()


@pytest.mark.parametrize("label", reactive.CHANGES)
def test_changes_cost_what_the_paper_s_theorem_says(label: str) -> None:
    """Figure 10: at most 1 + ceil(log2(n/m)) combines a tuple, in slots that are all in use."""
    n = 1024
    m = reactive.CHANGES[label](n)
    found = reactive.combines(reactive_operators()["SampleStdDev"], n, m)
    assert found is not None and found <= 1 + math.ceil(math.log2(n / m))


def test_findings_tell_a_linear_ra_from_a_logarithmic_one() -> None:
    cells: Rows = [
        {"operator": "Max", "slots": "all slots in use", "window": 2**k}
        | {"us": 2.0**k, "combines": 2.0**k}
        for k in range(3, 12)
    ]
    assert [finding.agrees for finding in reactive.found_update(cells)] == [None] + [False] * 3
    for cell in cells:
        cell |= {"us": 3 + math.log2(cell["window"]), "combines": math.log2(cell["window"])}
    assert [finding.agrees for finding in reactive.found_update(cells)] == [None] + [True] * 3


# --- beside Arasu and Widom: Figure 11 and Table 4 ------------------------------------------------


def test_base_intervals_are_measured_beside_ra_in_every_cell() -> None:
    rows = prior.measure(2**-12, Progress("ra_prior"))
    assert [(row["operator"], row["change"], row["window"]) for row in rows[::2]] == prior.cells(
        2**-12
    )
    assert [row["algorithm"] for row in rows] == ["RA", "AW"] * (len(rows) // 2)
    assert {row["operator"] for row in rows} == set(prior.PAPER_TABLE_4)
    assert {row["change"] for row in rows if row["operator"] == "Max"} == set(prior.CHANGED)
    assert all(row["us"] > 0 for row in rows)


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


def test_a_wrong_peer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(BaseIntervals):
        def decomposed(self) -> list[Any]:
            return super().decomposed()[-2:]

    wrong = {"RA": prior.reactive, "AW": lambda one, size: Slid(Wrong(one.monoid), one, size)}
    monkeypatch.setattr(prior, "SIDES", wrong)
    with pytest.raises(AssertionError, match=r"Wrong, Sum: \S+ instead of"):
        prior.in_turns(reactive_operators()["Sum"], 50, 1, 1e-3)


def test_table_4_is_held_against_its_entries_and_between_them() -> None:
    def rows(times: float) -> Rows:
        return [
            {"operator": operator, "change": change, "m": 1, "window": 2**k, "algorithm": side}
            | {"us": us * (k + 1), "combines": float(k) if k < 14 else None}
            for operator in prior.PAPER_TABLE_4
            for change in (prior.CHANGED if operator == "Max" else prior.CHANGED[:1])
            for k in ((3, *range(6, 19)) if operator == "Max" else (3, 13, 18))
            for side, us in (("RA", 1.0), ("AW", times))
        ]

    found = {one.what: one for one in prior.found(rows(1.3))}
    entry = found["Max: AW to RA at window 8,192"]
    assert (entry.paper, entry.agrees) == ("1.25 times", True)
    assert found["Max: AW to RA at window 262,144"].paper == "1.25 to 1.37 times"
    assert found["Sum: AW to RA at window 262,144"].agrees
    small = found["Sum: AW to RA at window 8"]
    assert small.agrees is False and "AW makes 3.00 combines a tuple and RA 3.00" in small.reason
    assert found["Max, m = 1: RA is faster"].agrees
    assert found["AW: Max, m = 1, a tuple: combines"].agrees
    widens = found["Max, m = 1: AW to RA as windows grow"]
    assert widens.agrees is False and "At window 8,192 AW makes 13.00 combines" in widens.reason
    slower = {one.what: one for one in prior.found(rows(0.9))}
    assert slower["Max, m = 64: RA is faster"].agrees is False
    assert slower["Max: AW to RA at window 8,192"].agrees is False
