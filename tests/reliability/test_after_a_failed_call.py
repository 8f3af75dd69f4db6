"""After any failed store call, in any call of a window, the window is one that its list knows.

Call N of the store fails, for all N that there are, once, for ever, or after it was applied. Then
the store is back, and whoever comes first (a query, its length, a snapshot, an event, a range, the
events themselves) finds the events that the error's note counts, and none that was due to leave.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from typing import Any

import pytest

from mta import (
    CountWindow,
    EveryCount,
    SharedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
    pages,
)
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
from tests.support.failed_calls import (
    LETTERS,
    Call,
    Listed,
    evict,
    extend,
    insert,
    reading,
    retract,
    revise,
    tag,
    try_out,
)
from tests.support.naive import CrowdedFiBA, letters, pages_of

IN_ORDER: list[type[Aggregator]] = [
    AmortizedMTA, SteadyMTA, LogMTA, PagedFlatFAT, PagedReactiveAggregator,
]  # fmt: skip
#: Each structure, and by how many seconds its events may be late.
WINDOWS = [*((tree, 0) for tree in IN_ORDER), (CrowdedFiBA, 0), (CrowdedFiBA, 7)]
BOUND = BoundWindow(letters(), at_most=LETTERS)
FRAMES = [CountWindow(20), TimeWindow(20), CountWindow(20) | TimeWindow(15), BOUND]
FAULTS: dict[str, dict[str, bool]] = {
    "once": {}, "for ever": {"forever": True}, "answer lost": {"applied": True},
}  # fmt: skip
CALLS: dict[str, Call] = {
    "insert": insert(),
    "insert, and most leave": insert(ahead=17),
    "extend": extend(17),
    "extend, the last result": extend(17, "last"),
    "extend long": extend(70),
    "extend long, the last result": extend(70, "last"),
    "extend apart, the last result": extend(3, "last", gap=9),
    "evict one": evict(1),
    "evict some": evict(8),
    "evict all": evict(99),
    "query": reading(lambda window: window.query()),
    "range": reading(lambda window: window.range_by_position(40, 55, partial=True)),
    "coverage": reading(lambda window: window.coverage()),
    "checkpoint": reading(lambda window: window.checkpoint()),
}
BY_TIME: dict[str, Call] = {"retract the newest": retract(0), "retract": retract(9)}
LATE: dict[str, Call] = {
    "insert late": insert(late=6),
    "extend late": extend(12, late=6),
    "extend late, the last result": extend(12, "last", late=6),
    "revise": revise(9, late=6),
}


class Kept:
    """A window in its snapshot, with all its pages, and its list."""

    def __init__(self, tree: type[Aggregator], lateness: int, frame: Frame) -> None:
        self.frame = frame
        self.options: dict[str, Any] = {"aggregator": tree}
        if lateness:
            self.options["allowed_lateness"] = lateness
        store, self.listed = MemoryStore(), Listed(frame)
        sizes: dict[str, Any] = {"arity": 2, "leaf_arity": 5}
        window = Window(oracle.joined(), frame, store, "w", **sizes, **self.options)
        for some in (1, 13, 5, 13, 1, 13, 13, 13):
            try_out(extend(some), window, self.listed)
            self.snapshot = window.checkpoint()
        self.pages = pages_of(store)

    def open(self) -> tuple[Window, FaultyStore, Listed]:
        """The same again, in a store of its own."""
        memory = MemoryStore()
        memory.put_many({key: data for key, data in self.pages.items() if data is not None})
        store = FaultyStore(memory)
        return self.restore(self.snapshot, store), store, self.listed.copy()

    def restore(self, snapshot: bytes, store: PageStore) -> Window:
        return Window.restore(
            snapshot, store, aggregations=oracle.joined(), window=self.frame, **self.options
        )

    def assert_is(self, window: Window, store: PageStore, listed: Listed, first: int) -> None:
        """Whoever looks first, and all who come after, see the list."""

        def again() -> None:
            restored = self.restore(window.checkpoint(), store)
            assert (restored.query(), len(restored)) == (listed.text, len(listed.held))
            restored.check()

        def insert_another() -> None:
            try_out(insert(), window, listed)
            assert window.query() == listed.text

        def extend_by_some() -> None:
            batch, expected = listed.following(3), []
            found = window.extend([value for _, value in batch], [time for time, _ in batch])
            for event in batch:
                listed.add(event)
                expected.append(listed.text)
            assert list(found) == expected

        def range_is() -> None:
            back = window.stats().inserted
            assert window.range_by_position(back - len(listed.held), back) == listed.text

        looks: list[Callable[[], Any]] = [
            lambda: _same(window.query(), listed.text),
            lambda: _same(len(window), len(listed.held)),
            lambda: _same(_values(window), listed.held),
            range_is,
            again,
            insert_another,
            extend_by_some,
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


@pytest.mark.sample
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(
    ("tree", "lateness", "frame"),
    [(*each, frame) for each in WINDOWS for frame in FRAMES if not each[1] or frame is not BOUND],
)
def test_a_window_is_its_list_whichever_call_failed(
    tree: type[Aggregator], lateness: int, frame: Frame, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 24)  # parts of an event or two
    kept, made = Kept(tree, lateness, frame), 0
    calls = CALLS | (BY_TIME if tree.by_time and frame is not BOUND else {})
    if lateness:
        calls |= LATE if isinstance(frame, CountWindow | TimeWindow) else {}
    for name, call in calls.items():
        for fault, how in FAULTS.items():
            for nth in count(1 + part, 5):
                window, store, listed = kept.open()
                for _ in range(made % 3):  # then more is in memory
                    try_out(insert(), window, listed)
                store.fail(nth, **how)
                try_out(call, window, listed)
                fired = store.fired
                store.heal()
                try:
                    kept.assert_is(window, store, listed, first=nth + made)
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
    frame, memory, listed = CountWindow(680), MemoryStore(), Listed(CountWindow(680))
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


SHARED: dict[str, Call] = {
    **{name: call for name, call in CALLS.items() if name.startswith(("insert", "extend"))},
    "query": CALLS["query"],
    "range": CALLS["range"],
    "checkpoint": CALLS["checkpoint"],
}


@pytest.mark.parametrize("lateness", [None, 0, 7])
def test_several_windows_are_their_lists_whichever_call_failed(
    lateness: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mta.logs.base._CHUNK", 7)
    frames: dict[str, Frame] = {"long": CountWindow(20), "short": TimeWindow(9)}
    if lateness is not None:  # where one is taken out, an older event may come back by count
        frames["long"] = TimeWindow(20)
    options: dict[str, Any] = {"allowed_lateness": lateness}
    store, lists = MemoryStore(), [Listed(frame) for frame in frames.values()]
    windows = SharedWindows(oracle.joined(), frames, store, "w", arity=2, leaf_arity=5, **options)
    for some in (1, 13, 5, 13, 13, 13):
        _try_on_all(extend(some), windows, lists)
        snapshot = windows.checkpoint()
    pages = {key: data for key, data in pages_of(store).items() if data is not None}
    calls = SHARED | (BY_TIME if lateness is not None else {}) | (LATE if lateness else {})
    calls.pop("revise", None)

    def restored(snapshot: bytes, store: PageStore) -> SharedWindows:
        return SharedWindows.restore(
            snapshot, store, aggregations=oracle.joined(), window=frames, **options
        )

    for (name, call), (fault, how) in product(calls.items(), FAULTS.items()):
        for nth in count(1):
            memory = MemoryStore()
            memory.put_many(pages)
            faulty = FaultyStore(memory)
            windows, copies = restored(snapshot, faulty), [one.copy() for one in lists]
            if nth % 2:
                _try_on_all(insert(), windows, copies)
            faulty.fail(nth, **how)
            _try_on_all(call, windows, copies)
            fired = faulty.fired
            faulty.heal()
            try:
                if nth % 3:
                    again = restored(windows.checkpoint(), memory)
                    assert again.query() == _texts(frames, copies)
                _go_on_as(windows, frames, copies)
            except Exception as error:
                raise AssertionError(f"{name}, store call {nth}, {fault}: {error!r}") from error
            if not fired:
                break


def _go_on_as(windows: SharedWindows, frames: dict[str, Frame], lists: list[Listed]) -> None:
    """The windows are their lists, now and after one more event."""
    assert windows.query() == _texts(frames, lists)
    _try_on_all(insert(), windows, lists)
    assert windows.query() == _texts(frames, lists)
    windows.check()


def _try_on_all(call: Call, windows: SharedWindows, lists: list[Listed]) -> None:
    """Make a call once; each list has what it did."""
    runs = [call(windows, listed) for listed in lists]
    once: list[Any] = []

    def run() -> Any:
        if not once:
            try:
                once.append((runs[0][0](), None))
            except StoreUnavailable as error:
                once.append((None, error))
        if once[0][1] is not None:
            raise once[0][1]
        return once[0][0]

    for (_, add, many), listed in zip(runs, lists, strict=True):
        try_out(lambda _w, _l, a=add, m=many: (run, a, m), windows, listed)


def _texts(frames: dict[str, Frame], lists: list[Listed]) -> dict[str, str]:
    return {name: listed.text for name, listed in zip(frames, lists, strict=True)}


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tree", [*IN_ORDER, CrowdedFiBA])
def test_results_that_are_due_come_whichever_call_failed(
    tree: type[Aggregator], fault: str, part: int
) -> None:
    """What a failed call did not take in is given again; no result is lost, none comes twice."""
    every, batch, last, frame = 7, 17, 102, TimeWindow(20)

    def text(at: int) -> str:
        return "".join(map(tag, range(max(0, at - 20), at)))

    expected = [(at, text(at)) for at in [*range(every, last, every), last]]
    for nth in count(1 + part, 6):
        store = FaultyStore(MemoryStore())
        window = Window(oracle.joined(), frame, store, "w", arity=2, leaf_arity=2, aggregator=tree)
        due, found = TriggeredWindow(window, EveryCount(every)), list[tuple[int, str]]()
        store.fail(nth, **FAULTS[fault])
        at = 0
        while at < last:
            times = range(at, min(at + batch, last))
            try:
                moments, results = due.extend([tag(time) for time in times], times)
            except StoreUnavailable as error:
                store.heal()
                at += next(int(n.split()[0]) for n in error.__notes__ if "were accepted" in n)
                assert due.query() == text(at)
                due = TriggeredWindow.restore(
                    due.checkpoint(),
                    store,
                    aggregations=oracle.joined(),
                    window=frame,
                    trigger=due.trigger,
                    aggregator=tree,
                )
                continue
            found += zip(moments.tolist(), results, strict=True)
            at = times.stop
        moments, results = due.flush()  # and what was still to be given
        assert [*found, *zip(moments.tolist(), results, strict=True)] == expected
        if not store.fired:
            break
    assert nth > 5
