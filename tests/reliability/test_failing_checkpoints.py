"""A checkpoint that fails, at any of its store calls, takes nothing from the snapshots before it.

Whatever is refused, and whatever answer is lost, each of the ``retain`` snapshots that were given
out is still the window that it was; and once the store is back nothing is left over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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

SIZE, RETAIN = 24, 2
SETTINGS: dict[str, Any] = {"arity": 2, "leaf_arity": 2}
#: How many events come between two snapshots.
EVENTS = 19


class Kind(ABC):
    """Windows of one kind, over events that tell their positions."""

    @abstractmethod
    def begin(self, store: PageStore) -> Any: ...

    @abstractmethod
    def again(self, snapshot: bytes, store: PageStore) -> Any: ...

    def take(self, window: Any, start: int, stop: int) -> None:
        window.extend(oracle.events(start, stop))

    def assert_is(self, window: Any, back: int) -> None:
        """Assert that a window is that of so many events, every page read."""
        assert window.query() == oracle.text(back, SIZE)
        window.check()

    def live(self, window: Any) -> set[str]:
        """The pages that a window still needs, or a snapshot before it."""
        return set(live_keys(window))


class Single(Kind):
    def __init__(self, tree: type[Aggregator], lateness: float = 0) -> None:
        self.options: dict[str, Any] = {"aggregator": tree}
        if lateness:
            self.options["allowed_lateness"] = lateness

    def begin(self, store: PageStore) -> Any:
        return oracle.begin(store, SIZE, 2, 2, **self.options)

    def again(self, snapshot: bytes, store: PageStore) -> Any:
        return oracle.reopen(snapshot, store, SIZE, **self.options)


class Late(Single):
    """Of each six events the last ones come first."""

    def take(self, window: Any, start: int, stop: int) -> None:
        order = sorted(range(start, stop), key=lambda at: (at // 6, -at))
        for at in order:
            window.extend([oracle.event(at)], [at])


class Shared(Kind):
    def __init__(self, lateness: float | None) -> None:
        self.late: dict[str, Any] = {"allowed_lateness": lateness}
        self.frames = {"long": CountWindow(SIZE), "short": CountWindow(3)}

    def begin(self, store: PageStore) -> Any:
        return SharedWindows(oracle.joined(), self.frames, store, "w", **self.late, **SETTINGS)

    def again(self, snapshot: bytes, store: PageStore) -> Any:
        return SharedWindows.restore(
            snapshot, store, aggregations=oracle.joined(), window=self.frames, **self.late
        )

    def take(self, window: Any, start: int, stop: int) -> None:
        times = None if self.late["allowed_lateness"] is None else range(start, stop)
        window.extend(oracle.events(start, stop), times)

    def assert_is(self, window: Any, back: int) -> None:
        assert window.query("long") == oracle.text(back, SIZE)
        assert window.query("short") == oracle.text(back, 3)
        window.check()


class Triggered(Kind):
    def begin(self, store: PageStore) -> Any:
        return TriggeredWindow(oracle.begin(store, SIZE, 2, 2), EveryCount(7))

    def again(self, snapshot: bytes, store: PageStore) -> Any:
        monoid, frame = oracle.joined(), CountWindow(SIZE)
        return TriggeredWindow.restore(
            snapshot, store, aggregations=monoid, window=frame, trigger=EveryCount(7)
        )


class Sliced(Kind):
    """The results of whole slices, of two events each."""

    def begin(self, store: PageStore) -> Any:
        return SlicedWindow(oracle.joined(), CountWindow(SIZE), 2, store, "w", **SETTINGS)

    def again(self, snapshot: bytes, store: PageStore) -> Any:
        return SlicedWindow.restore(
            snapshot, store, aggregations=oracle.joined(), window=CountWindow(SIZE), slide=2
        )

    def assert_is(self, window: Any, back: int) -> None:
        whole = "".join(window.engine.structure().events())
        assert whole == oracle.text(back // 2 * 2, SIZE)
        window.check()


KINDS: dict[str, Kind] = {
    **{tree.__name__: Single(tree) for tree in (*oracle.TREES, SteadyMTA)},
    "late": Late(FiBA, lateness=10),
    "shared": Shared(None),
    "shared, by time": Shared(5),
    "triggered": Triggered(),
    "sliced": Sliced(),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("fault", ["refused", "answer lost", "refused for long"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_checkpoint_that_fails_deletes_nothing_that_a_retained_snapshot_needs(
    kind: Kind, fault: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 24)  # parts of an event or two
    for nth in count(1 + part, 4):
        memory = MemoryStore()
        store = FaultyStore(memory)
        window, snapshots, back = kind.begin(store), list[tuple[bytes, int]](), 0
        for _ in range(5):
            kind.take(window, back, back + EVENTS)
            back += EVENTS
            snapshots.append((window.checkpoint(), back))
        kind.take(window, back, back + EVENTS)
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
            kind.assert_is(kind.again(snapshot, memory), then)
        for _ in range(RETAIN + 1):
            kind.take(window, back, back + EVENTS)
            back += EVENTS
            window.checkpoint()
        kind.assert_is(window, back)
        assert kind.live(window) == set(memory.keys()), "pages that nobody needs"
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
