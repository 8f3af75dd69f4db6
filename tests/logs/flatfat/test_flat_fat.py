"""FlatFAT against a plain list: the paper's figures, its bounds in combines, and random updates."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import Max, Product, Sum
from mta.errors import InvariantViolation
from mta.in_order.flat_fat import FlatFAT
from mta.monoids.base import AbstractMonoid
from tests.support.counted import Counted, hash_of, rolling_hash
from tests.support.naive import joined


def fat_of(text: str, monoid: AbstractMonoid | None = None) -> FlatFAT:
    return FlatFAT.new(monoid or joined(), len(text), list(text), len(text))


# --- the paper's figures ------------------------------------------------------------------------


def test_figure_3_a_tree_of_eight() -> None:
    counted = Counted()
    fat = counted.of(lambda: FlatFAT.new(counted.joined, 8, list("abcdefgh"), 8), at_most=7)
    assert counted.combines == 7
    assert counted.of(lambda: fat.aggregate(), at_most=0) == "abcdefgh"
    # T(e), T(c) and a[7], where e covers four and c two.
    assert counted.of(lambda: fat.prefix(7), at_most=2) == "abcdefg"
    assert counted.of(lambda: fat.suffix(1), at_most=3) == "bcdefgh"
    fat.check()


def test_figure_4_updates_go_up_the_marked_nodes() -> None:
    counted = Counted()
    fat = FlatFAT.new(counted.joined, 8, list("abcdefgh"), 8)
    # a[1], a[2], a[4] and a[7]: the nodes a, b, d, then e, f, then g.
    counted.combines = 0
    fat.update([0, 1, 3, 6], ["A", "B", "D", "G"])
    assert counted.combines == 6
    assert fat.aggregate() == "ABcDefGh"
    fat.update([2], ["C"])
    assert counted.combines == 6 + 3
    fat.check()


# --- bounds -------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("columnar", [False, True])
@pytest.mark.parametrize("n", [1, 2, 8, 256, 4096])
def test_combines_are_within_the_bounds_of_theorem_4_2(n: int, columnar: bool) -> None:
    counted = Counted()
    monoid: AbstractMonoid = counted.columnar_hash if columnar else counted.max
    values, _ = monoid.rows(list(range(1, n + 1)))
    fat = counted.of(lambda: FlatFAT.new(monoid, n, monoid.lift_rows(values, n), n), at_most=n - 1)
    draw = random.Random(n)
    for m in sorted({1, 2, 3, 5, n // 7, n // 2, n - 1, n} & set(range(1, n + 1))):
        bound = m * (1 + math.ceil(math.log2(n / m)))
        spread = list(range(0, n, n // m))[:m]  # as far apart as they can be
        for slots in (draw.sample(range(n), m), spread, list(range(m))):
            new, _ = monoid.rows([draw.randrange(1000) for _ in slots])
            partials = monoid.lift_rows(new, m)
            counted.of(lambda s=slots, p=partials: fat.update(s, p), at_most=bound)
        fat.check()
    for slot in range(0, n, max(n // 32, 1)):
        counted.of(lambda slot=slot: fat.prefix(slot + 1), at_most=int(math.log2(n)))
        counted.of(lambda slot=slot: fat.suffix(slot), at_most=int(math.log2(n)))
        stop = draw.randint(slot, n)
        counted.of(lambda s=slot, e=stop: fat.between(s, e), at_most=int(2 * math.log2(n)))
    counted.of(fat.aggregate, at_most=0)


def test_empty_slots_cost_no_combine() -> None:
    counted = Counted()
    fat = FlatFAT(counted.joined, 1024)
    fat.update([700], ["x"])
    assert fat.aggregate() == "x" and counted.combines == 0
    fat.update([3], ["a"])
    assert fat.aggregate() == "ax" and counted.combines == 1
    assert fat.prefix(701) == "ax" and fat.suffix(4) == "x"


# --- against a list -----------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(exponent=st.integers(0, 5), columnar=st.booleans(), data=st.data())
def test_any_updates(exponent: int, columnar: bool, data: st.DataObject) -> None:
    n = 2**exponent
    monoid: AbstractMonoid = rolling_hash() if columnar else joined()
    fat, slots = FlatFAT(monoid, n), [""] * n

    def agrees(found: Any, text: str) -> None:
        assert (tuple(found) == hash_of(text)) if columnar else (found == text)

    for _ in range(data.draw(st.integers(1, 6))):
        chosen = data.draw(st.lists(st.integers(0, n - 1), unique=True))
        letters = [data.draw(st.sampled_from("abcxyz")) for _ in chosen]
        for slot, letter in zip(chosen, letters, strict=True):
            slots[slot] = letter
        values: Any = [ord(letter) for letter in letters] if columnar else letters
        rows, count = monoid.rows(values)
        fat.update(chosen, monoid.lift_rows(rows, count))
        fat.check()
        agrees(fat.aggregate(), "".join(slots))
        for slot in range(n + 1):
            agrees(fat.prefix(slot), "".join(slots[:slot]))
            agrees(fat.suffix(slot), "".join(slots[slot:]))
            for start in range(slot + 1):
                agrees(fat.between(start, slot), "".join(slots[start:slot]))


def test_products_and_numbers() -> None:
    both = Product({"max": ("x", Max()), "sum": ("x", Sum("int64")), "n": ("t", joined())})
    values, count = both.rows({"x": [3, 1, 4, 1], "t": ["a", "bb", "c", ""]})
    fat = FlatFAT.new(both, 4, both.lift_rows(values, count), count)
    assert both.lower(fat.aggregate()) == {"max": 4.0, "sum": 9, "n": "abbc"}
    assert both.lower(fat.prefix(2)) == {"max": 3.0, "sum": 4, "n": "abb"}
    fat.check()


# --- what is refused ----------------------------------------------------------------------------


def test_slots_that_are_not_there_change_nothing() -> None:
    fat = fat_of("abcd")
    for slots in ([4], [-1], [0, 4], [2, -3, 1]):
        with pytest.raises(IndexError, match="slots"):
            fat.update(slots, ["!"] * len(slots))
        assert fat.aggregate() == "abcd"
        fat.check()
    for capacity in (0, -1, 3, 6):
        with pytest.raises(ValueError, match="power of two"):
            FlatFAT(joined(), capacity)


def test_check_finds_a_slot_whose_change_was_not_propagated() -> None:
    fat = fat_of("abcd")
    fat.write([2], ["!"])
    with pytest.raises(InvariantViolation, match="row 3"):
        fat.check()
    fat.propagate([2])
    fat.check()
