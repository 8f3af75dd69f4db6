"""A checkpoint that fails, at any of its store calls, takes nothing from the snapshots before it.

Whatever is refused, and whatever answer is lost, each of the ``retain`` snapshots that were given
out is still the window that it was; and once the store is back nothing is left over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from mta import (
    CountWindow,
    EveryCount,
    Monoid,
    SharedWindows,
    SlicedWindow,
    TriggeredWindow,
    Window,
    pages,
)  # fmt: skip
from mta.algorithms import FiBA, SteadyMTA
from mta.audit.walk import live_keys
from mta.errors import NotPageable, StoreUnavailable
from mta.logs.base import Aggregator
from stores import MemoryStore, PageStore
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.naive import CrowdedFiBA

SIZE, RETAIN = 24, 2
SETTINGS: dict[str, Any] = {"arity": 2, "leaf_arity": 2}
#: How many events come between two snapshots.
EVENTS = 19


FRAMES = {"long": CountWindow(SIZE), "short": CountWindow(3)}


def single(tree: type[Aggregator], **late: Any) -> Callable[[PageStore], Any]:
    return lambda store: oracle.begin(store, SIZE, 2, 2, aggregator=tree, **late)


def shared(**late: Any) -> Callable[[PageStore], Any]:
    return lambda store: SharedWindows(oracle.joined(), FRAMES, store, "w", **late, **SETTINGS)


#: How windows of each kind begin; slices are of two events each.
KINDS: dict[str, Callable[[PageStore], Any]] = {
    **{tree.__name__: single(tree) for tree in (*oracle.TREES, SteadyMTA)},
    "late": single(FiBA, allowed_lateness=10),
    "shared": shared(),
    "shared, by time": shared(allowed_lateness=5),
    "triggered": lambda store: TriggeredWindow(oracle.begin(store, SIZE, 2, 2), EveryCount(7)),
    "sliced": lambda store: SlicedWindow(
        oracle.joined(), CountWindow(SIZE), 2, store, "w", **SETTINGS
    ),
}


def take(kind: str, window: Any, start: int, stop: int) -> None:
    """Events that tell their positions; of each six late ones the last come first."""
    if kind == "late":
        for at in sorted(range(start, stop), key=lambda at: (at // 6, -at)):
            window.extend([oracle.event(at)], [at])
    else:
        times = range(start, stop) if kind == "shared, by time" else None
        window.extend(oracle.events(start, stop), times)


def assert_is(window: Any, back: int) -> None:
    """Assert that a window is that of so many events, every page read."""
    if isinstance(window, SlicedWindow):  # whole slices
        structure: Any = window.engine.structure()
        assert "".join(structure.events()) == oracle.text(back // 2 * 2, SIZE)
    elif isinstance(window, SharedWindows):
        assert window.query() == {n: oracle.text(back, each.size) for n, each in FRAMES.items()}
    else:
        assert window.query() == oracle.text(back, SIZE)
    window.check()


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("fault", ["refused", "answer lost", "refused for long"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_fails_deletes_nothing_that_a_retained_snapshot_needs(
    kind: str, fault: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 24)  # parts of an event or two
    known: dict[str, Any] = {"aggregations": oracle.joined()}
    if kind == "CrowdedFiBA":  # a class that no snapshot can name
        known["aggregator"] = CrowdedFiBA
    for nth in count(1 + part, 4):
        memory = MemoryStore()
        store = FaultyStore(memory)
        window, snapshots, back = KINDS[kind](store), list[tuple[bytes, int]](), 0
        for _ in range(5):
            take(kind, window, back, back + EVENTS)
            back += EVENTS
            snapshots.append((window.checkpoint(), back))
        take(kind, window, back, back + EVENTS)
        back += EVENTS
        store.fail(nth, forever=fault == "refused for long", applied=fault == "answer lost")
        for _ in range(3):  # whoever tries again deletes no more
            try:
                snapshots.append((window.checkpoint(), back))
                break
            except StoreUnavailable:
                continue
        fired = store.fired
        store.heal()
        for snapshot, then in snapshots[-RETAIN:]:
            assert_is(type(window).restore(snapshot, memory, **known), then)
        for _ in range(RETAIN + 1):
            take(kind, window, back, back + EVENTS)
            back += EVENTS
            window.checkpoint()
        assert_is(window, back)
        assert set(live_keys(window)) == set(memory.keys()), "pages that nobody needs"
        if not fired:
            break
    assert nth > 4, "hardly a call was made"


def test_a_checkpoint_that_cannot_be_written_is_not_one_that_was_taken() -> None:
    """Results to be given are no plain data: however often that is tried, no page goes."""
    store = FaultyStore(MemoryStore())
    words = Monoid("", lambda a, b: a + b, lower=lambda text: {text}, name="sets of words")
    window = Window(words, CountWindow(SIZE), store, "w", **SETTINGS)
    due = TriggeredWindow(window, EveryCount(7))
    due.extend(oracle.events(0, 60))
    snapshot = due.checkpoint()
    store.fail(30, operations=["put"])
    with pytest.raises(StoreUnavailable) as error:
        due.extend(oracle.events(60, 160))
    assert any("returned by the next call" in note for note in error.value.__notes__)
    for _ in range(RETAIN + 1):
        with pytest.raises(NotPageable):
            due.checkpoint()
    again = TriggeredWindow.restore(
        snapshot, store, aggregations=words, window=CountWindow(SIZE), trigger=EveryCount(7)
    )
    assert again.query() == {oracle.text(60, SIZE)}
    again.check()
