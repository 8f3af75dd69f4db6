"""Random operations on the classic tree and on FiBA, against a plain list, each step checked."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mta.errors import EmptyWindow
from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.bulk import insert_sorted
from mta.logs.finger_tree.fingers import after_time
from mta.monoids.base import AbstractMonoid
from tests.support.counted import hash_of, rolling_hash
from tests.support.machines import run_machine
from tests.support.naive import joined

LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: Minimal arities of inner nodes and of leaves; large leaves under small nodes, and the reverse.
ARITIES = [(2, None), (2, 5), (3, None), (4, 2), (8, None), (8, 3)]
BY_ARITY = pytest.mark.parametrize("arities", ARITIES, ids=str)


@dataclass
class Timeline:
    """The oracle: times and letters in order, those of equal time as they came."""

    times: list[int] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.times)

    def insert(self, time: int, letter: str) -> None:
        at = bisect_right(self.times, time)
        self.times.insert(at, time)
        self.letters.insert(at, letter)

    def evict(self, time: int) -> bool:
        at = bisect_left(self.times, time)
        found = at < len(self) and self.times[at] == time
        if found:
            self.drop(at, at + 1)
        return found

    def drop(self, start: int, stop: int) -> None:
        del self.times[start:stop], self.letters[start:stop]

    def text(self, start: int = 0, stop: int | None = None) -> str:
        return "".join(self.letters[start:stop])


class Pair:
    """A tree and a timeline to which the same is done; columns hold a letter's code."""

    def __init__(self, kind: type[Tree], arities: tuple[int, int | None], columnar: bool) -> None:
        self.columnar = columnar
        monoid: AbstractMonoid = rolling_hash() if columnar else joined()
        self.tree = kind(monoid, *arities)
        self.list = Timeline()

    def rows(self, letters: str) -> Any:
        values = [ord(letter) for letter in letters] if self.columnar else list(letters)
        return self.tree.monoid.rows(values)[0]

    def insert(self, time: int, letter: str) -> None:
        self.tree.insert(time, self.rows(letter)[0])
        self.list.insert(time, letter)

    def evict(self, time: int) -> None:
        assert self.tree.evict(time) == self.list.evict(time)

    def evict_oldest(self, count: int = 1) -> None:
        newest = self.fingers.evict_oldest(count)
        assert newest == (self.list.times[count - 1] if count else 0)
        self.list.drop(0, count)

    def append(self, times: list[int], letters: str) -> None:
        count = len(times)
        self.fingers.append(np.array(times, "<i8"), self.rows(letters), count)
        for time, letter in zip(times, letters, strict=True):
            self.list.insert(time, letter)

    def remove_at(self, position: int) -> None:
        self.fingers.remove(*self.fingers.entry_at(position))
        self.list.drop(position, position + 1)

    def insert_sorted(self, times: list[int], letters: str) -> None:
        count = len(times)
        insert_sorted(self.fingers, np.array(times, "<i8"), self.rows(letters), count)
        for time, letter in zip(times, letters, strict=True):
            self.list.insert(time, letter)

    @property
    def fingers(self) -> FingerTree:
        assert isinstance(self.tree, FingerTree)
        return self.tree

    # --- comparing ------------------------------------------------------------------------------

    def agrees(self, found: Any, text: str) -> None:
        assert (tuple(found) == hash_of(text)) if self.columnar else (found == text)

    def check(self) -> None:
        tree, oracle = self.tree, self.list
        tree.check()
        assert len(tree) == len(oracle)
        self.agrees(tree.query(), oracle.text())
        codes = [ord(c) for c in oracle.letters] if self.columnar else oracle.letters
        assert list(tree.entries()) == list(zip(oracle.times, codes, strict=True))

    def ask_positions(self, start: int, stop: int) -> None:
        tree = self.fingers
        found = tree.fold_between(tree.at_position(start), tree.at_position(stop))
        self.agrees(found, self.list.text(start, max(start, stop)))
        if start < len(self.list) and not self.columnar:
            most = 2 + max(stop - start, 0)
            end = tree.longest_prefix(start, "..", lambda text: len(text) <= most)
            assert end == max(start, stop)

    def ask_times(self, first: int, last: int) -> None:
        """The closed, the open and the half-open ranges, and how much is before their ends."""
        tree, times = self.fingers, self.list.times
        starts = [(after_time(first - 1), bisect_left(times, first)),
                  (after_time(first), bisect_right(times, first))]  # fmt: skip
        stops = [(after_time(last - 1), bisect_left(times, last)),
                 (after_time(last), bisect_right(times, last))]  # fmt: skip
        for cut, start in starts:
            assert tree.rank(cut) == start
            for end, stop in stops:
                self.agrees(tree.fold_between(cut, end), self.list.text(start, max(start, stop)))


# --- hypothesis ---------------------------------------------------------------------------------

TIMES = st.integers(-5, 60)


class TreeMachine(RuleBasedStateMachine):
    """A classic tree beside a list: what every tree can do."""

    kind: type[Tree] = Tree
    columnar = False
    arities: tuple[int, int | None] = (2, None)

    @initialize(size=st.sampled_from([0, 0, 0, 400]))
    def begin(self, size: int) -> None:
        """With nothing, or with a tree of some levels."""
        self.pair = Pair(self.kind, self.arities, self.columnar)
        for at in range(size):
            self.pair.insert(at * 60 // size, LETTERS[at % 26])

    def newest(self) -> int:
        return self.pair.list.times[-1] if len(self.pair.list) else 0

    @rule(letter=st.sampled_from(LETTERS), ahead=st.integers(0, 2), count=st.integers(1, 20))
    def insert_in_order(self, letter: str, ahead: int, count: int) -> None:
        for _ in range(count):
            self.pair.insert(self.newest() + ahead, letter)

    @rule(time=TIMES, letter=st.sampled_from(LETTERS), count=st.integers(1, 4))
    def insert_anywhere(self, time: int, letter: str, count: int) -> None:
        for _ in range(count):
            self.pair.insert(time, letter)

    @precondition(lambda self: len(self.pair.list))
    @rule(data=st.data())
    def evict_anywhere(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 12))):
            if times := self.pair.list.times:
                self.pair.evict(times[data.draw(st.integers(0, len(times) - 1))])

    @rule(time=TIMES)
    def evict_what_may_be_there(self, time: int) -> None:
        self.pair.evict(time)

    @invariant()
    def is_the_list(self) -> None:
        if hasattr(self, "pair"):
            self.pair.check()


class FingerMachine(TreeMachine):
    """FiBA: the same, with the ends, batches and ranges."""

    kind = FingerTree

    @precondition(lambda self: len(self.pair.list))
    @rule(count=st.integers(1, 20))
    def evict_oldest(self, count: int) -> None:
        for _ in range(min(count, len(self.pair.list))):
            self.pair.evict_oldest()

    @precondition(lambda self: len(self.pair.list))
    @rule(data=st.data())
    def remove_at(self, data: st.DataObject) -> None:
        self.pair.remove_at(data.draw(st.integers(0, len(self.pair.list) - 1)))

    @rule(part=st.floats(0, 1))
    def evict_many(self, part: float) -> None:
        self.pair.evict_oldest(round(part * len(self.pair.list)))

    @rule(text=st.text(LETTERS, max_size=100), data=st.data(), at_the_end=st.booleans())
    def insert_sorted(self, text: str, data: st.DataObject, at_the_end: bool) -> None:
        base = self.newest() if at_the_end else data.draw(TIMES)
        steps = data.draw(st.lists(st.integers(0, 3), min_size=len(text), max_size=len(text)))
        self.pair.insert_sorted(np.cumsum([base, *steps])[1:].tolist(), text)

    @rule(text=st.text(LETTERS, max_size=8), steps=st.lists(st.integers(0, 2), min_size=8))
    def append(self, text: str, steps: list[int]) -> None:
        text = text[: self.pair.fingers.room]
        self.pair.append(np.cumsum([self.newest(), *steps])[1 : len(text) + 1].tolist(), text)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        place = st.integers(0, len(self.pair.list))
        self.pair.ask_positions(data.draw(place), data.draw(place))
        self.pair.ask_times(data.draw(TIMES), data.draw(TIMES))


@BY_ARITY
@pytest.mark.parametrize("machine", [TreeMachine, FingerMachine])
def test_a_tree_is_a_list(machine: type[TreeMachine], arities: tuple[int, int | None]) -> None:
    """Each machine has rows of either form, and so has each arity."""
    columnar = (ARITIES.index(arities) % 2 == 0) == (machine is TreeMachine)
    run_machine(machine, 4, steps=25, arities=arities, columnar=columnar)


@pytest.mark.soak
@BY_ARITY
@pytest.mark.parametrize("columnar", [False, True])
def test_a_tree_is_a_list_for_long(arities: tuple[int, int | None], columnar: bool) -> None:
    run_machine(FingerMachine, 20, steps=150, arities=arities, columnar=columnar)


# --- corners ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Tree, FingerTree])
@pytest.mark.parametrize("arities", [(1, None), (0, None), (-2, None), (2, 1), (2, 0), (1, 4)])
def test_nodes_need_two_places(kind: type[Tree], arities: tuple[int, int | None]) -> None:
    with pytest.raises(ValueError, match="2 or more"):
        kind(joined(), *arities)


@pytest.mark.parametrize("letters", ["", "ab"])
def test_no_more_can_be_evicted_than_there_is(letters: str) -> None:
    tree = FingerTree(joined())
    for time, letter in enumerate(letters):
        tree.insert(time, letter)
    held = len(letters)
    with pytest.raises(EmptyWindow, match=f"evict {held + 1} events of a window of {held}"):
        tree.evict_oldest(held + 1)
    tree.check()
    assert tree.query() == letters and len(tree) == held
    for _ in letters:
        tree.evict_oldest()
    with pytest.raises(EmptyWindow):
        tree.evict_oldest()
    tree.insert(9, "z")
    tree.check()
    assert tree.query() == "z"


@pytest.mark.sample(1)
@BY_ARITY
@pytest.mark.parametrize("size", [1, 10, 150])
def test_every_range_by_position(arities: tuple[int, int | None], size: int) -> None:
    pair = Pair(FingerTree, arities, False)
    pair.insert_sorted(list(range(size)), "".join(random.Random(1).choices(LETTERS, k=size)))
    for start in range(0, size + 1, max(1, size // 10)):
        for stop in range(size + 1):
            pair.ask_positions(start, stop)


@pytest.mark.sample(1)
@BY_ARITY
@pytest.mark.parametrize("size", [5, 64, 300])
def test_every_bulk_eviction(arities: tuple[int, int | None], size: int) -> None:
    for count in range(0, size + 1, 1 if size < 100 else 17):
        pair = Pair(FingerTree, arities, False)
        pair.insert_sorted(list(range(size)), (LETTERS * 12)[:size])
        pair.evict_oldest(count)
        pair.check()
        pair.insert(0, "!")  # at the new front
        pair.check()
