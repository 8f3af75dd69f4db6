"""After any failed store call, in any call of a window, the window is one that its list knows.

Call N of the store fails, for all N that there are, once, for ever, or after it was applied. Then
the store is back, and whoever comes first (a query, its length, a snapshot, an event, a range, the
events themselves) finds the events that the error's note counts, and none that was due to leave.

Events tell their times, a second each, so that windows by count and by time hold as many. A call
that raises has taken in what its note says, and no more; what it has taken in makes others leave.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from mta import CountWindow, SharedWindows, Sum, TimeWindow, Window, pages
from mta.algorithms import AmortizedMTA, LogMTA, SteadyMTA
from mta.errors import StoreUnavailable
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.frames import BoundWindow
from mta.frames.base import Frame
from mta.logs.base import Aggregator
from stores import MemoryStore, PageStore
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.naive import CrowdedFiBA, letters, pages_of, window_of
from tests.support.random_windows.lists import Stream

Event = tuple[int, str]
#: How much of a call that failed was done.
NOTE = re.compile(r"\d+ of \d+ events .*(accepted|removed)")
#: The most letters that a bounded window holds.
LETTERS = 60


def tag(time: int) -> str:
    """The value of the event at a time."""
    return f"{time}."


@dataclass
class Listed(Stream):
    """All events in order of time, and where the window begins."""

    frame: Frame = field(kw_only=True)
    front: int = 0
    newest: int = -1

    @property
    def held(self) -> list[str]:
        """The values in the window."""
        return [value for _, value in self.events[self.front :]]

    @property
    def text(self) -> str:
        """The result over the window."""
        return "".join(self.held)

    def add(self, event: Event) -> int:
        """Take in an event."""
        count, at = len(self), super().add(event)
        if len(self) > count:
            self._moved(at, 1)
        return at

    def retract(self, time: int) -> None:
        """Take out the newest event of a time."""
        at = self.after(time) - 1
        del self.events[at]
        self._moved(at, -1)

    def _moved(self, at: int, count: int) -> None:
        self.front += count * (at < self.front)
        self.front = max(self.front, self._cut(self.frame))

    def _cut(self, frame: Frame) -> int:
        if isinstance(frame, BoundWindow):
            fits = (sum(map(len, self.held[at:])) <= LETTERS for at in range(len(self.held) + 1))
            return self.front + list(fits).index(True)
        start: int = window_of(frame, [time for time, _ in self.events], self.newest).start
        return start

    def following(self, count: int, gap: int = 1, late: int = 0, mark: str = "") -> list[Event]:
        """So many events to come, the first of them so late."""
        first = self.newest - late
        times = range(first + gap, first + gap * (count + 1), gap)
        return [(time, mark + tag(time)) for time in times]


#: A call and what it adds to the list when so many of its events are in, 1 for all of another call.
Call = Callable[[Any, Listed], tuple[Callable[[], Any], Callable[[int], None], int]]


def try_out(call: Call, window: Any, *lists: Listed) -> None:
    """Make a call, and have in the list of each window what it did, whether it fails or not."""
    runs = [call(window, listed) for listed in lists]
    try:
        runs[0][0]()
        done = runs[0][2]
    except StoreUnavailable as error:
        notes = [note for note in getattr(error, "__notes__", []) if NOTE.match(note)]
        done = int(notes[0].split()[0]) if notes else 0
    for _, add, _ in runs:
        add(done)


def insert(ahead: int = 1, late: int = 0) -> Call:
    """A single event."""

    def call(window: Any, listed: Listed) -> Any:
        event = (listed.newest + ahead - late, f"one {tag(listed.newest + ahead - late)}")
        run = lambda: window.insert(event[1], float(event[0]))  # noqa: E731
        return run, lambda n: listed.add(event) if n else None, 1

    return call


def extend(count: int, emit: str = "all", gap: int = 1, late: int = 0) -> Call:
    """A batch."""

    def call(window: Any, listed: Listed) -> Any:
        batch = listed.following(count, gap, late, "in a batch ")
        values, times = [value for _, value in batch], [time for time, _ in batch]
        run = lambda: window.extend(values, times, emit=emit)  # noqa: E731
        return run, lambda n: [listed.add(event) for event in batch[:n]], count

    return call


def revise(count: int, late: int = 0) -> Call:
    """A batch whose corrections are asked for."""

    def call(window: Any, listed: Listed) -> Any:
        batch = listed.following(count, 1, late, "revised ")
        values, times = [value for _, value in batch], [time for time, _ in batch]
        run = lambda: window.revise(values, times)  # noqa: E731
        return run, lambda n: [listed.add(event) for event in batch[:n]], count

    return call


def evict(count: int) -> Call:
    """The oldest events leave, as many as there are at most."""

    def call(window: Any, listed: Listed) -> Any:
        some = min(count, len(listed.held))

        def add(n: int) -> None:
            listed.front += some * n

        return lambda: window.evict(some), add, 1

    return call


def retract(back: int) -> Call:
    """The event of a time before the newest is taken out."""

    def call(window: Any, listed: Listed) -> Any:
        time = listed.newest - back
        run = lambda: window.retract(time)  # noqa: E731
        return run, lambda n: listed.retract(time) if n else None, 1

    return call


def evict_at(places: list[int]) -> Call:
    """Events leave from anywhere, the oldest ones of the window last."""

    def call(window: Any, listed: Listed) -> Any:
        inside = [place for place in places if place < len(listed.held)]
        first = next((at for at, place in enumerate(inside) if place != at), len(inside))
        order = inside[first:] + inside[:first]

        def add(n: int) -> None:
            gone = {listed.front + place for place in order[:n]}
            kept = [event for at, event in enumerate(listed.events) if at not in gone]
            # The positions of older events move on, as if others had been there before them.
            listed.events[:] = [(-1, "gone.")] * len(gone) + kept
            listed.front += len(gone)

        positions = [window.structure().front + place for place in inside]
        return lambda: window.structure().evict_at(positions), add, len(inside)

    return call


def reading(read: Callable[[Any], Any]) -> Call:
    """What changes nothing."""
    return lambda window, listed: (lambda: read(window), lambda n: None, 1)


IN_ORDER: list[type[Aggregator]] = [
    AmortizedMTA, SteadyMTA, LogMTA, PagedFlatFAT, PagedReactiveAggregator,
]  # fmt: skip
#: Each structure, by how many seconds its events may be late, and what becomes of equal times.
WINDOWS = [
    *((tree, 0, "append") for tree in IN_ORDER), (CrowdedFiBA, 0, "append"),
    *((CrowdedFiBA, 7, existing) for existing in ("append", "replace", "combine")),
]  # fmt: skip
BOUND = BoundWindow(letters(), at_most=LETTERS)
FRAMES = [CountWindow(20), TimeWindow(20), CountWindow(20) | TimeWindow(15), BOUND]
#: Windows over the same events; where one is taken out, an older one may come back by count.
MANY = (
    {"long": CountWindow(20), "short": TimeWindow(9)},
    {"long": TimeWindow(20), "short": TimeWindow(9)},
)
KINDS: list[tuple[type[Aggregator] | None, int | None, str, Any]] = [
    *((*each, frame) for each in WINDOWS for frame in FRAMES if not each[1] or frame is not BOUND),
    (None, None, "append", MANY[0]), (None, 0, "append", MANY[1]), (None, 7, "append", MANY[1]),
    (None, 7, "replace", MANY[1]),
]  # fmt: skip
FAULTS: dict[str, dict[str, bool]] = {
    "once": {}, "for ever": {"forever": True}, "answer lost": {"applied": True},
}  # fmt: skip
CALLS: dict[str, Call] = {
    "insert": insert(), "insert, and most leave": insert(ahead=17), "extend": extend(17),
    "extend, the last result": extend(17, "last"), "extend long": extend(70),
    "extend long, the last result": extend(70, "last"),
    "extend apart, the last result": extend(3, "last", gap=9), "evict one": evict(1),
    "evict some": evict(8), "evict all": evict(99), "query": reading(lambda window: window.query()),
    "range": reading(lambda window: window.range_by_position(40, 55, partial=True)),
    "coverage": reading(lambda window: window.coverage()),
    "checkpoint": reading(lambda window: window.checkpoint()),
}  # fmt: skip
BY_TIME: dict[str, Call] = {"retract the newest": retract(0), "retract": retract(9)}
LATE: dict[str, Call] = {
    "insert late": insert(late=6),
    "extend late": extend(12, late=6),
    "extend late, the last result": extend(12, "last", late=6),
    "revise": revise(9, late=6),
}


#: Where events are taken out from anywhere.
HOLES: dict[str, Call] = {
    "evict from anywhere": evict_at([0, 1, 3, 8, 9, 15]),
    "evict one from the middle": evict_at([7]),
    "compact": reading(lambda window: window.structure().compact()),
}  # fmt: skip


class Kept:
    """A window, or two, in a snapshot, with all pages, and a list for each."""

    def __init__(self, tree: Any, lateness: int | None, existing: str, frame: Any) -> None:
        self.frame, self.is_single = frame, tree is not None
        self.kind: Any = Window if self.is_single else SharedWindows
        self.options: dict[str, Any] = {"aggregator": tree} if self.is_single else {}
        if lateness or not self.is_single:
            self.options |= {"allowed_lateness": lateness, "on_duplicate": existing}
        frames = [frame] if self.is_single else frame.values()
        store, self.lists = (
            MemoryStore(),
            [Listed(True, None, on_duplicate=existing, frame=each) for each in frames],
        )
        sizes: dict[str, Any] = {"arity": 2, "leaf_arity": 5}
        window = self.kind(oracle.joined(), frame, store, "w", **sizes, **self.options)
        for some in (1, 13, 5, 13, 1, 13, 13, 13):
            try_out(extend(some), window, *self.lists)
            if tree is PagedReactiveAggregator and not frame.needs_times:
                try_out(evict_at([2, 5, 11]), window, *self.lists)
            self.snapshot = window.checkpoint()
        self.pages = pages_of(store)

    def open(self) -> tuple[Any, FaultyStore, list[Listed]]:
        """The same again, in a store of its own."""
        memory = MemoryStore()
        memory.put_many(self.pages)
        store = FaultyStore(memory)
        return self.restore(self.snapshot, store), store, [listed.copy() for listed in self.lists]

    def restore(self, snapshot: bytes, store: PageStore) -> Any:
        return self.kind.restore(
            snapshot, store, aggregations=oracle.joined(), window=self.frame, **self.options
        )

    def texts(self, lists: list[Listed]) -> Any:
        """What a query returns."""
        texts = [listed.text for listed in lists]
        return texts[0] if self.is_single else dict(zip(self.frame, texts, strict=True))

    def assert_is(self, window: Any, store: PageStore, lists: list[Listed], first: int) -> None:
        """Whoever looks first, and all who come after, see the lists."""
        listed = lists[0]

        def again() -> None:
            restored = self.restore(window.checkpoint(), store)
            assert restored.query() == self.texts(lists)
            restored.check()

        def insert_another() -> None:
            try_out(insert(), window, *lists)
            assert window.query() == self.texts(lists)

        def extend_by_some() -> None:
            batch, expected = listed.following(3), []
            found = window.extend([value for _, value in batch], [time for time, _ in batch])
            for event in batch:
                for each in lists:
                    each.add(event)
                expected.append(self.texts(lists))
            for at, texts in enumerate(expected):
                assert (
                    found[at] if self.is_single else {n: f[at] for n, f in found.items()}
                ) == texts

        def range_is() -> None:
            back = len(listed.events)
            assert window.range_by_position(back - len(listed.held), back) == listed.text

        looks: list[Callable[[], Any]] = [
            lambda: _same(window.query(), self.texts(lists)), again, insert_another, range_is,
            extend_by_some,
        ]  # fmt: skip
        if self.is_single:
            looks += [
                lambda: _same(len(window), len(listed.held)),
                lambda: _same(_values(window), listed.held),
            ]
        first %= len(looks)
        for look in looks[first:] + looks[:first]:
            look()
        window.check()


def _same(found: Any, expected: Any) -> None:
    assert found == expected


def _values(window: Window) -> list[str]:
    """The events of a window, without what its frame looks at."""
    rows = window.structure().events()
    return [row[0] for row in rows] if window.frame is BOUND else list(rows)


def calls_of(tree: Any, lateness: int | None, frame: Any) -> dict[str, Call]:
    """All calls that may fail."""
    calls = dict(CALLS) if tree else {n: c for n, c in CALLS.items() if not n.startswith("evict")}
    if lateness is not None and (tree is None or tree.by_time) and frame is not BOUND:
        calls |= BY_TIME
    if lateness and (tree is None or isinstance(frame, CountWindow | TimeWindow)):
        calls |= {name: call for name, call in LATE.items() if tree or name != "revise"}
    has_holes = tree is PagedReactiveAggregator and not frame.needs_times
    return calls | (HOLES if has_holes else {})


@pytest.mark.sample
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(("tree", "lateness", "existing", "frame"), KINDS)
def test_a_window_is_its_list_whichever_call_failed(
    tree: Any,
    lateness: int | None,
    existing: str,
    frame: Any,
    part: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 24)  # parts of an event or two
    monkeypatch.setattr("mta.logs.base._CHUNK", 7)
    kept, made = Kept(tree, lateness, existing, frame), 0
    for name, call in calls_of(tree, lateness, frame).items():
        for fault, how in FAULTS.items():
            for nth in count(1 + part, 5):
                window, store, lists = kept.open()
                for _ in range(made % 3):  # then more is in memory
                    try_out(insert(), window, *lists)
                store.fail(nth, **how)
                try_out(call, window, *lists)
                fired = store.fired
                store.heal()
                try:
                    kept.assert_is(window, store, lists, first=nth + made)
                except Exception as error:
                    raise AssertionError(f"{name}, store call {nth}, {fault}: {error!r}") from error
                made += 1
                if not fired:
                    break
    assert made > 40, "hardly a call was made"


@pytest.mark.parametrize("tree", [AmortizedMTA, SteadyMTA])
@pytest.mark.parametrize("call", [evict(500), extend(3, "last"), insert()])
def test_a_restored_window_whose_open_leaf_cannot_be_read_stays_as_it_was(
    tree: type[Aggregator], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are read when they are first needed, as where the front comes to another tree."""
    monkeypatch.setattr(pages, "PART_BYTES", 160)
    frame, memory = CountWindow(680), MemoryStore()
    listed = Listed(True, None, frame=frame)
    window = Window(oracle.joined(), frame, memory, "w", arity=2, leaf_arity=100, aggregator=tree)
    try_out(extend(690), window, listed)
    snapshot = window.checkpoint()
    for nth in count(1):
        store, copy = FaultyStore(memory), listed.copy()
        window = Window.restore(
            snapshot, store, aggregations=oracle.joined(), window=frame, aggregator=tree
        )
        store.fail(nth, operations=["get"])
        try_out(call, window, copy)
        fired = store.fired
        store.heal()
        assert (window.query(), len(window)) == (copy.text, len(copy.held)), f"store call {nth}"
        window.check()
        if not fired:
            break
    assert nth > 1


@pytest.mark.parametrize("tree", IN_ORDER)
def test_a_batch_whose_eviction_failed_is_evicted_from_before_the_next_answer(
    tree: type[Aggregator],
) -> None:
    store = FaultyStore(MemoryStore())
    window = Window(Sum(), CountWindow(20), store, "w", arity=4, leaf_arity=4, aggregator=tree)
    window.extend([1.0] * 16, emit="last")
    store.fail(operations=["get"], forever=True)
    with pytest.raises(StoreUnavailable) as error:
        window.extend([1.0] * 17, emit="last")
    assert error.value.__notes__ == ["17 of 17 events of the batch were accepted"]
    store.heal()
    assert (window.query(), len(window)) == (20.0, 20)
    again = Window.restore(
        window.checkpoint(), store, aggregations=Sum(), window=CountWindow(20), aggregator=tree
    )
    assert again.query() == 20.0
