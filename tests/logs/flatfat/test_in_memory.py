"""The Reactive Aggregator in memory: the paper's Figure 5, its thresholds, and a list beside it."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mta import Monoid
from mta.errors import EmptyWindow
from mta.in_order.reactive import ReactiveAggregator
from mta.monoids.base import AbstractMonoid
from tests.support.counted import Counted, hash_of, rolling_hash
from tests.support.machines import run_machine
from tests.support.naive import joined

FIFO = pytest.mark.parametrize("fifo", [False, True])


def slots_of(window: ReactiveAggregator) -> list[Any]:
    """What the slots hold, as Figure 5 draws them."""
    return [window.fat.leaf(slot) for slot in range(window.capacity)]


def window_of(text: str, capacity: int, fifo: bool = False) -> ReactiveAggregator:
    window = ReactiveAggregator(joined(), capacity, fifo)
    for letter in text:
        window.insert(letter)
    return window


# --- Figure 5 -----------------------------------------------------------------------------------


def test_figure_5_a_window_of_four_numbers() -> None:
    numbers = Monoid((), lambda a, b: a + b, lift=lambda number: (number,), name="in order")
    window = ReactiveAggregator(numbers, capacity=4)

    def step(slots: list[int | None], front: int, back: int, result: list[int]) -> None:
        assert slots_of(window) == [() if number is None else (number,) for number in slots]
        # The paper's pointers are at the oldest and at the newest event, and count from 1.
        assert (window._front, (window._front + window._used - 1) % 4) == (front - 1, back - 1)
        assert window.query() == tuple(result)
        window.check()

    window.insert(4)
    step([4, None, None, None], 1, 1, [4])
    window.insert(7)
    step([4, 7, None, None], 1, 2, [4, 7])
    window.insert(3)
    step([4, 7, 3, None], 1, 3, [4, 7, 3])
    window.insert(2)
    step([4, 7, 3, 2], 1, 4, [4, 7, 3, 2])
    window.evict()
    step([None, 7, 3, 2], 2, 4, [7, 3, 2])
    assert not window.is_inverted
    window.insert(9)
    step([9, 7, 3, 2], 2, 1, [7, 3, 2, 9])
    assert window.is_inverted
    assert window.fat.aggregate() == (9, 7, 3, 2)  # what the root alone would have answered


def test_an_inverted_buffer_of_a_commutative_operation_is_read_at_the_root() -> None:
    counted = Counted()
    ordered = ReactiveAggregator(counted.max, 4)
    commuting = ReactiveAggregator(
        Monoid(counted.max.identity, counted.max.combine, name="max", commutative=True), 4
    )
    for window in (ordered, commuting):
        for value in (4, 7, 3, 2):
            window.insert(value)
        window.evict()
        window.insert(9)
        assert window.query() == 9 and window.is_inverted
    counted.of(commuting.query, at_most=0)
    before = counted.combines
    assert ordered.query() == 9
    assert counted.combines == before + 2  # 7, then 3 and 2, then 9


# --- holes, compact and resize ------------------------------------------------------------------


def test_an_eviction_in_the_middle_leaves_a_hole() -> None:
    window = window_of("abcdef", 8)
    window.evict(2)
    window.evict(4)
    assert slots_of(window) == ["a", "b", "", "d", "", "f", "", ""]
    assert window.query() == "abdf" and len(window) == 4
    window.evict(0)
    window.evict(1)
    assert window.oldest() == 3  # the front skips the hole
    assert window.query() == "df"
    window.check()


def test_a_full_buffer_is_compacted_when_a_quarter_of_it_is_holes() -> None:
    window = window_of("abcdefgh", 8)
    window.evict(3)
    window.evict(5)
    window.insert("i")  # 6 of 8: at most 3/4
    assert window.capacity == 8
    assert slots_of(window) == ["a", "b", "c", "e", "g", "h", "i", ""]
    assert window.query() == "abceghi"
    window.check()


def test_a_full_buffer_with_fewer_holes_is_doubled_without_them() -> None:
    window = window_of("abcdefgh", 8)
    window.evict(3)
    window.insert("i")  # 7 of 8: more than 3/4
    assert window.capacity == 16
    assert slots_of(window)[:9] == ["a", "b", "c", "e", "f", "g", "h", "i", ""]
    window.check()


def test_compaction_of_an_inverted_buffer_keeps_order_and_positions() -> None:
    window = window_of("abcdefgh", 8)
    for _ in range(4):
        window.evict()
    for letter in "ijkl":
        window.insert(letter)
    assert window.is_inverted
    window.evict(5)
    window.evict(10)
    window.insert("m")
    assert window.capacity == 8
    assert window.query() == "eghijlm"
    window.check()
    for position, left in [(9, "eghilm"), (12, "eghil"), (4, "ghil")]:
        window.evict(position)
        assert window.query() == left
        window.check()


@FIFO
def test_fewer_than_a_quarter_halve_the_capacity(fifo: bool) -> None:
    window = window_of("x" * 64, 4, fifo)
    assert window.capacity == 64
    sizes = []
    for _ in range(64):
        window.evict()
        sizes.append((len(window), window.capacity))
    changes = [b for a, b in itertools.pairwise(sizes) if a[1] != b[1]]
    assert changes == [(15, 32), (7, 16), (3, 8), (1, 4)]
    assert len(window) == 0 and window.capacity == 4  # never below its first capacity


def test_after_a_resize_the_buffer_is_between_three_eighths_and_half_full() -> None:
    """Observation (i) of section 5.1.1, for windows larger than a few events."""
    window, draw, seen = window_of("", 4), random.Random(5), set()
    capacity = window.capacity
    for step in range(4000):
        grows = draw.random() < (0.8 if step // 400 % 2 == 0 else 0.2)
        if grows:
            window.insert("x")
        elif len(window):
            window.evict(window.oldest() if draw.random() < 0.5 else None)
        if window.capacity != capacity:
            capacity = window.capacity
            seen.add(capacity)
            # Shrinking leaves just under half, doubling half and the new event.
            assert 3 / 8 * capacity - 1 <= len(window) <= capacity / 2 + 1
    assert len(seen) > 4


# --- bounds -------------------------------------------------------------------------------------


@FIFO
@pytest.mark.parametrize("columnar", [False, True])
def test_a_query_costs_what_changed_since_the_last(columnar: bool, fifo: bool) -> None:
    """m changes and a query: m (1 + ceil(log2(n/m))) combines, and the two walks."""
    n, counted, draw = 1024, Counted(), random.Random(1)
    monoid: AbstractMonoid = counted.columnar_hash if columnar else counted.max
    window = ReactiveAggregator(monoid, n, fifo)
    rows, count = monoid.rows(list(range(700)))
    window.bulk_insert(rows, count)
    window.query()
    for m in [1, 2, 3, 8, 50, 64, 200, 300] * 4:
        new, count = monoid.rows([draw.randrange(1000) for _ in range(m)])

        def slide(new: Any = new, m: int = m) -> None:
            if m % 2:
                for value in list(new):
                    window.evict()
                    window.insert(value)
            else:
                window.bulk_evict(m)
                window.bulk_insert(new, m)

        counted.of(slide, at_most=0)
        changed = 2 * m
        bound = changed * (1 + math.ceil(math.log2(n / changed))) + 2 * math.log2(n) + 1
        counted.of(window.query, at_most=int(bound))
        counted.of(window.query, at_most=int(2 * math.log2(n) + 1))  # nothing changed
    assert window.capacity == n
    window.check()


@FIFO
def test_resize_and_compact_are_paid_for_by_events(fifo: bool) -> None:
    """Windows that grow and shrink for ever: amortised O(log n) combines per event."""
    counted, draw = Counted(), random.Random(2)
    window = ReactiveAggregator(counted.max, 2, fifo)
    steps = 0
    for phase in range(6):
        for _ in range(800):
            grows = draw.random() < (0.75 if phase % 2 == 0 else 0.25)
            if grows or not len(window):
                window.insert(draw.random())
            elif fifo or draw.random() < 0.3:
                window.evict()
            else:
                window.evict(draw.choice(list_of_positions(window)))
            window.query()
            steps += 1
    # Changes go up 2 paths of at most 11 rows; a query walks 2; the rest is paid for by events.
    assert counted.combines <= steps * (4 * 11 + 8)


def list_of_positions(window: ReactiveAggregator) -> list[int]:
    return [int(window._positions[s]) for s in window._ring(0, window._used) if window._live[s]]


def test_a_fifo_window_compacts_nothing() -> None:
    counted = Counted()
    window = ReactiveAggregator(counted.joined, 64, fifo=True)
    for letter in "a" * 48:
        window.insert(letter)
    window.query()
    for _ in range(20):
        window.evict()
    assert window.query() == "a" * 28
    counted.of(window.compact, at_most=0)
    assert slots_of(window)[20:48] == ["a"] * 28  # where they were
    window.check()
    assert window.fat.aggregate() == "a" * 28


# --- against a list -----------------------------------------------------------------------------


class ReactiveMachine(RuleBasedStateMachine):
    """A Reactive Aggregator and a list of positions and letters side by side."""

    fifo = False
    columnar = False

    @initialize(exponent=st.integers(0, 4))
    def begin(self, exponent: int) -> None:
        monoid: AbstractMonoid = rolling_hash() if self.columnar else joined()
        self.window = ReactiveAggregator(monoid, 2**exponent, self.fifo)
        self.events: list[tuple[int, str]] = []
        self.inserted = 0

    def row(self, letter: str) -> Any:
        return self.window.monoid.row(ord(letter)) if self.columnar else letter

    @rule(letter=st.sampled_from("abcdxyz"))
    def insert(self, letter: str) -> None:
        assert self.window.insert(self.row(letter)) == self.inserted
        self.events.append((self.inserted, letter))
        self.inserted += 1

    @rule(text=st.text("abcdxyz", max_size=40))
    def bulk_insert(self, text: str) -> None:
        values = [ord(c) for c in text] if self.columnar else list(text)
        self.window.bulk_insert(*self.window.monoid.rows(values))
        self.events += [(self.inserted + i, letter) for i, letter in enumerate(text)]
        self.inserted += len(text)

    @precondition(lambda self: self.events)
    @rule()
    def evict(self) -> None:
        self.window.evict()
        del self.events[0]

    @rule(part=st.floats(0, 1))
    def bulk_evict(self, part: float) -> None:
        count = round(part * len(self.events))
        self.window.bulk_evict(count)
        del self.events[:count]

    @precondition(lambda self: self.events and not self.fifo)
    @rule(data=st.data())
    def evict_anywhere(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 4))):
            if self.events:
                at = data.draw(st.integers(0, len(self.events) - 1))
                self.window.evict(self.events.pop(at)[0])

    @rule(data=st.data())
    def evict_what_is_not_there(self, data: st.DataObject) -> None:
        with pytest.raises(EmptyWindow):
            self.window.bulk_evict(len(self.events) + 1)
        gone = set(range(-2, self.inserted + 2)) - {position for position, _ in self.events}
        for call in (self.window.evict, self.window.bulk_evict):
            with pytest.raises(TypeError):
                call(1.0)
        with pytest.raises(ValueError if self.fifo else EmptyWindow):
            self.window.evict(data.draw(st.sampled_from(sorted(gone))))

    @precondition(lambda self: self.window.fifo is False)
    @rule()
    def compact(self) -> None:
        self.window.compact()
        assert self.window._used == len(self.window)

    @rule()
    def query(self) -> None:
        text = "".join(letter for _, letter in self.events)
        found = self.window.query()
        assert (tuple(found) == hash_of(text)) if self.columnar else (found == text)

    @invariant()
    def is_consistent(self) -> None:
        if hasattr(self, "window"):
            assert len(self.window) == len(self.events)
            assert self.window.back == self.inserted
            assert self.window.oldest() == (self.events[0][0] if self.events else None)

    def teardown(self) -> None:
        if hasattr(self, "window"):
            self.query()


class CheckedMachine(ReactiveMachine):
    """The same, with all invariants checked, so all changes propagated, after every step."""

    @invariant()
    def passes_its_check(self) -> None:
        if hasattr(self, "window"):
            self.window.check()
            self.query()


@pytest.mark.sample(1)
@FIFO
@pytest.mark.parametrize("columnar", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_a_reactive_aggregator_is_a_list(columnar: bool, fifo: bool, checked: bool) -> None:
    base = CheckedMachine if checked else ReactiveMachine
    run_machine(base, 12, fifo=fifo, columnar=columnar)


@FIFO
def test_a_check_leaves_what_waits(fifo: bool) -> None:
    """It must not do what the next query has to do."""
    window = window_of("abcdef", 8, fifo)
    window.evict()
    before = window.fat.aggregate()
    window.check()
    assert window.fat.aggregate() == before != "bcdef"
    assert window.query() == "bcdef"


# --- corners ------------------------------------------------------------------------------------


def test_a_combine_that_raises_leaves_its_change_for_the_next_query() -> None:
    broken = [False]

    def combine(left: str, right: str) -> str:
        if broken[0]:
            raise RuntimeError("on purpose")
        return left + right

    window = ReactiveAggregator(Monoid("", combine, name="fragile"), 4)
    window.insert("a")
    window.query()
    window.insert("b")
    broken[0] = True
    with pytest.raises(RuntimeError):
        window.query()
    broken[0] = False
    assert window.query() == "ab"
    window.check()
