"""Trees out of snapshots, which fold nothing before it is asked for: no step may lose an event.

Nothing here calls ``check`` between steps, but where it is what is tested: a check that folds what
was left undone would hide what has gone wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from mta import (
    CountWindow,
    EveryPeriod,
    FiBA,
    Monoid,
    OnDemand,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.frames.base import Frame
from mta.logs.finger_tree import FingerTree
from mta.logs.finger_tree.bulk import insert_sorted
from stores import MemoryStore, PageStore
from tests.support.oracle import CrowdedFiBA, pages_of
from tests.support.sampling import some
from tests.support.trees import joined

Span = list[int] | None


def neighbours() -> Monoid:
    """Spans of event numbers; combining two that do not meet is an error."""

    def combine(left: Span, right: Span) -> Span:
        if left is None or right is None:
            return left or right
        assert left[1] == right[0], f"{left} and {right} are no neighbours"
        return [left[0], right[1]]

    return Monoid(None, combine, lift=lambda number: [number, number + 1], name="neighbours")


# --- what was found ------------------------------------------------------------------------------


def triggered(store: PageStore) -> TriggeredWindow:
    window = Window(joined(), CountWindow(5), store, "w", aggregator=FiBA)
    return TriggeredWindow(window, OnDemand())


def test_a_window_asked_now_and_then_keeps_what_came_between_two_evictions() -> None:
    store = MemoryStore()
    window = triggered(store)
    window.extend("abcde", range(5))
    snapshot = window.checkpoint()
    window = TriggeredWindow.restore(
        snapshot,
        store,
        aggregations=joined(),
        window=CountWindow(5),
        trigger=OnDemand(),
        aggregator=FiBA,
    )
    window.extend("f", [5])
    window.extend("g", [6])
    assert window.query() == "cdefg"
    window.extend("h", [7])
    assert window.query() == "defgh"


def test_results_of_periods_have_what_came_between_two_evictions() -> None:
    store, frame, trigger = MemoryStore(), TimeWindow(10), EveryPeriod(4)
    window = TriggeredWindow(Window(joined(), frame, store, "w", aggregator=FiBA), trigger)
    window.extend("abcdefghij", range(10))
    restored = TriggeredWindow.restore(
        window.checkpoint(),
        store,
        aggregations=joined(),
        window=frame,
        trigger=trigger,
        aggregator=FiBA,
    )
    for time, letter in enumerate("klmnopqrstuvwxyz", 10):
        found, expected = restored.extend([letter], [time]), window.extend([letter], [time])
        assert list(found.results) == list(expected.results)


# --- the tree itself -----------------------------------------------------------------------------


def unfolded(texts: str, leaf_arity: int) -> FingerTree:
    """A tree as it comes out of a snapshot: no left spine, and no aggregates but up-aggregates."""
    grown = FingerTree(joined(), 2, leaf_arity)
    insert_sorted(grown, np.arange(len(texts)), list(texts), len(texts))
    grown.settle_left()
    tree = FingerTree(joined(), 2, leaf_arity)
    tree.restore([grown.root, *reversed(grown.right)], grown.size)
    return tree


@pytest.mark.parametrize("leaf_arity", [2, 3, 8, 64])
def test_a_leaf_evicted_from_before_it_is_folded_takes_in_what_comes(leaf_arity: int) -> None:
    tree, held = unfolded("ab", leaf_arity), "ab"
    tree.load_left()
    for time, letter in enumerate("cdefgh", 2):
        insert_sorted(tree, np.array([time]), [letter], 1)
        tree.load_left()
        tree.evict_oldest()
        held = held[1:] + letter
        if time > 2:
            assert tree.query() == held


@pytest.mark.parametrize("leaf_arity", [2, 3, 8, 64])
@pytest.mark.parametrize("size", [1, 3, 5, 20, 60])
def test_evictions_without_a_query_between_them(size: int, leaf_arity: int) -> None:
    for seed in range(6):
        random, text = Random(seed), "".join(chr(97 + i % 26) for i in range(size))
        tree, expected, time = unfolded(text, leaf_arity), text, size
        for _ in range(40):
            step = random.randrange(5)
            if step == 0 and expected:
                tree.load_left()
                count = min(random.choice([1, 2, 5]), len(expected))
                if count:
                    tree.evict_oldest(count)
                    expected = expected[count:]
            elif step == 1 and expected:
                tree.load_left()
                tree.evict_oldest()
                expected = expected[1:]
            elif step == 2:
                count = random.randrange(len(expected) // 2 + 1)
                tree.evict_oldest(count)
                expected = expected[count:]
            else:
                count = random.choice([1, 1, 2, 9])
                added = "".join(chr(65 + random.randrange(26)) for _ in range(count))
                insert_sorted(tree, np.arange(time, time + count), list(added), count)
                expected, time = expected + added, time + count
            if random.random() < 0.2:
                assert tree.query() == expected
        assert tree.query() == expected
        tree.check()


# --- windows -------------------------------------------------------------------------------------


def ended(start: int, stop: int) -> Span:
    return [start, stop] if start < stop else None


@pytest.mark.sparse
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("aggregator", [FiBA, CrowdedFiBA])
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("size", [1, 5, 40, 150])
@pytest.mark.parametrize("lateness", [0, 7])
def test_any_steps_with_restores_between_them(  # noqa: C901, PLR0912
    aggregator: type[FiBA], checked: bool, size: int, lateness: int, seed: int
) -> None:
    """The window of the latest or of the snapshot before, between any two steps, asked seldom."""
    random, store = Random(f"{seed} {size} {lateness}"), MemoryStore()
    window = Window(
        neighbours(), CountWindow(size), store, arity=2, leaf_arity=random.choice([2, 5, 64]),
        aggregator=aggregator, allowed_lateness=lateness,
    )  # fmt: skip
    back = front = 0
    snapshots: list[tuple[bytes, int, int]] = []
    for _ in range(80):
        step = random.randrange(9)
        if step < 4:
            count = random.choice([1, 1, 2, 3, 30])
            numbers = list(range(back, back + count))
            back += count
            front = max(front, back - size)
            if step == 0:
                for number in numbers:
                    window.insert(number, number)
            elif step == 1:
                window.extend(numbers, numbers)
            elif step == 2:
                assert list(window.extend(numbers, numbers, "last")) == [[front, back]]
            else:
                rows, micros, count = window.engine.intake.admit_batch(numbers, numbers)
                window.engine.ingest(rows, micros, 0, count)
        elif step == 4:
            count = random.randrange(min(back - front, 3) + 1)
            window.evict(count)
            front += count
        elif step == 5:
            snapshots = [*snapshots, (window.checkpoint(), front, back)][-2:]
        elif step == 6 and snapshots:
            snapshots = snapshots[: random.choice([1, 2])]
            snapshot, front, back = snapshots[-1]
            window = window.restore_like(snapshot)
        elif step == 7:
            assert window.query() == ended(front, back)
        elif back > front:
            start = random.randint(front, back)
            stop = random.randint(start, back)
            assert window.structure().fold(start, stop) == ended(start, stop)
        if checked:
            window.check()
        assert len(window) == back - front
    assert window.query() == ended(front, back)
    window.check()


# --- a check changes nothing ---------------------------------------------------------------------


def steps_of(
    frame: Frame, lateness: int, seed: int, look: Callable[[Window], None]
) -> list[object]:
    """A window's results, snapshots and pages while it is looked at after every step."""
    random, store = Random(seed), MemoryStore()
    window = Window(
        joined(), frame, store, arity=2, leaf_arity=random.choice([2, 5, 30]),
        aggregator=CrowdedFiBA, on_late="drop", allowed_lateness=lateness,
    )  # fmt: skip
    found: list[object] = []
    snapshots: list[bytes] = []
    newest = 0
    for _ in range(60):
        count = random.choice([1, 1, 2, 10, 25])
        times = [newest + random.choice([0, 1, 1, 2, -3]) for _ in range(count)]
        newest = max(newest, *times)
        letters = [chr(97 + random.randrange(26)) for _ in times]
        step = random.randrange(6)
        if step < 2:
            found.append(list(window.extend(letters, times)))
        elif step == 2:
            found.append(list(window.extend(letters, times, "last")))
        elif step == 3:
            rows, micros, count = window.engine.intake.admit_batch(letters, times)
            window.engine.ingest(rows, micros, 0, count)
        elif step == 4:
            snapshots = [*snapshots, window.checkpoint()][-2:]
            found.append((snapshots[-1], pages_of(store)))
        elif snapshots:
            snapshots = snapshots[: random.choice([1, 2])]
            window = window.restore_like(snapshots[-1])
        look(window)
        tree = window.structure().tree
        found.append((tree.has_left, tree.is_folded, tree.size, window.structure().resident_rows))
    return found


@pytest.mark.parametrize("seed", some(range(3), by_default=1))
@pytest.mark.parametrize("lateness", [0, 4])
@pytest.mark.parametrize("frame", [CountWindow(7), CountWindow(90), TimeWindow(40)], ids=repr)
def test_a_check_changes_nothing(frame: Frame, lateness: int, seed: int) -> None:
    alone = steps_of(frame, lateness, seed, lambda window: None)
    assert steps_of(frame, lateness, seed, Window.check) == alone
