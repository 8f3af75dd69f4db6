"""Windows whose events come late, against a sorted list: results, revisions, handles, pages.

Every result is that of the window which ends with its event, out of all events that are there.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from mta import CountWindow, FiBA, Monoid, TimeWindow, Window
from mta.audit.walk import audit, live_keys
from mta.errors import LateEvent, NotRevisable
from mta.policies.base import AbstractPolicy
from stores import MemoryStore, PageStore, open_store

#: (time in seconds, value)
Event = tuple[int, str]


class CrowdedFiBA(FiBA):
    """Hardly any node stays in memory."""

    resident_nodes = 3


def joined() -> Monoid:
    """Concatenation: order matters and nothing can be subtracted."""
    return Monoid(identity="", combine=lambda left, right: left + right, name="joined")


@dataclass
class Stream:
    """A sorted list and a window over the same events."""

    random: Random
    policy: AbstractPolicy
    lateness: int
    store: PageStore | None
    events: list[Event] = field(default_factory=list)
    newest: int | None = None

    def __post_init__(self) -> None:
        arities = {"arity": self.random.choice([2, 3, 8]), "leaf_arity": self.random.choice([2, 5])}
        self.options: dict[str, Any] = {
            "aggregator": CrowdedFiBA, "late": "drop", "lateness": self.lateness,
        }  # fmt: skip
        self.window = Window(joined(), self.policy, self.store, "late", **arities, **self.options)

    def draw(self) -> tuple[list[str], list[int], list[bool]]:
        """Values and times of a batch, and which are accepted."""
        base, random = self.newest or 0, self.random
        steps = [0, 0, 1, 2, 3, 5, 8, -1, -2, -7, -20]
        times = [base + random.choice(steps) for _ in range(random.choice([0, 1, 3, 8, 30]))]
        values = [chr(97 + random.randrange(26)) for _ in times]
        ok = [self.newest is None or time >= self.newest - self.lateness for time in times]
        return values, times, ok

    def take(self, values: list[str], times: list[int], ok: list[bool]) -> list[int | None]:
        """Bring a batch into the list; for each event, where it stands in the batch."""
        tagged: list[tuple[int, str, int | None]] = [(t, v, None) for t, v in self.events]
        batch = [(t, v, i) for i, (t, v) in enumerate(zip(times, values, strict=True)) if ok[i]]
        for event in sorted(batch, key=lambda event: event[0]):
            tagged.insert(bisect_right([time for time, _, _ in tagged], event[0]), event)
        self.events = [(time, value) for time, value, _ in tagged]
        if batch:
            newest = max(time for time, _, _ in batch)
            self.newest = newest if self.newest is None else max(self.newest, newest)
        return [tag for _, _, tag in tagged]

    def result(self, position: int) -> str:
        """The window that ends with the event of a position."""
        return "".join(value for _, value in self._window(position, self.events[position][0]))

    def _window(self, position: int, time: int) -> list[Event]:
        if isinstance(self.policy, CountWindow):
            return self.events[max(0, position + 1 - self.policy.size) : position + 1]
        assert isinstance(self.policy, TimeWindow)
        oldest = time - self.policy.size / 1e6
        return [event for event in self.events[: position + 1] if event[0] > oldest]

    def extend(self) -> None:
        values, times, ok = self.draw()
        wanted = self.random.choice(["all", "last"])
        results = list(self.window.extend(values, times, wanted))  # type: ignore[arg-type]
        tags = self.take(values, times, ok)
        expected = {tag: self.result(at) for at, tag in enumerate(tags) if tag is not None}
        if wanted == "all":
            assert results == [expected[tag] for tag in sorted(expected)]

    def revise(self) -> None:
        values, times, ok = self.draw()
        revision = self.window.revise(values, times)
        tags = self.take(values, times, ok)
        first = next((at for at, tag in enumerate(tags) if tag is not None), len(tags))
        assert revision.index.tolist() == [-1 if tag is None else tag for tag in tags[first:]]
        assert revision.times.astype(int).tolist() == [t * 10**6 for t, _ in self.events[first:]]
        assert list(revision.values) == [value for _, value in self.events[first:]]
        assert list(revision.results) == [self.result(at) for at in range(first, len(tags))]

    def insert(self) -> None:
        values, times, ok = self.draw()
        for value, time in list(zip(values, times, strict=True))[:3]:
            accepted = self.newest is None or time >= self.newest - self.lateness
            self.window.insert(value, time)
            self.take([value], [time], [accepted])
        del ok

    def assert_same(self) -> None:
        expected = self._window(len(self.events) - 1, self.newest or 0) if self.events else []
        assert self.window.query() == "".join(value for _, value in expected)
        assert len(self.window) == len(expected)


POLICIES = [CountWindow(1), CountWindow(7), CountWindow(40), TimeWindow(3), TimeWindow(40)]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("lateness", [0, 5, 1000])
@pytest.mark.parametrize("scheme", [None, "memory"])
def test_a_window_of_late_events_is_a_sorted_list(
    policy: AbstractPolicy, lateness: int, scheme: str | None
) -> None:
    for seed in range(6):
        store = None if scheme is None else open_store(f"{scheme}://")
        stream = Stream(Random(seed), policy, lateness, store)
        kept: list[tuple[bytes, list[Event], int | None]] = []
        for _ in range(30):
            action = stream.random.choice(["insert", "extend", "extend", "revise", "save", "back"])
            if action == "save" and store is not None:
                handle = stream.window.checkpoint()
                kept = [*kept, (handle, list(stream.events), stream.newest)][-2:]
            elif action == "back" and kept:
                kept = kept[: stream.random.choice([1, len(kept)])]
                handle, events, stream.newest = kept[-1]
                stream.events = list(events)
                stream.window = stream.window.sibling(handle)
                assert not audit(stream.window).damaged
            elif action in ("insert", "extend", "revise"):
                getattr(stream, action)()
            stream.assert_same()
        stream.window.check()


@pytest.mark.parametrize("lateness", [0, 20])
def test_pages_that_nobody_needs_disappear(lateness: int) -> None:
    store = MemoryStore()
    stream = Stream(Random(1), TimeWindow(40), lateness, store)
    for _ in range(40):
        for _ in range(3):
            stream.extend()
        handle = stream.window.checkpoint()
        again = stream.window.sibling(handle)
        assert set(live_keys(again)) == set(store.keys())
    assert len(set(store.keys())) < 200


def test_a_replayed_batch_writes_the_same_pages() -> None:
    store, other = MemoryStore(), MemoryStore()
    stream = Stream(Random(2), CountWindow(60), 30, store)
    for _ in range(10):
        stream.extend()
    handle = stream.window.checkpoint()
    keys = sorted(store.keys())
    pages = zip(keys, store.get_many(keys), strict=True)
    other.put_many({key: page for key, page in pages if page is not None})
    values, times, _ = [*"xyzw" * 9], [(stream.newest or 0) + i % 7 - 5 for i in range(36)], None
    handles = []
    for place in (store, other):
        window = Window.restore(handle, joined(), CountWindow(60), place, **stream.options)
        window.extend(values, times)
        handles.append(window.checkpoint())
    assert handles[0] == handles[1]
    assert set(store.keys()) == set(other.keys())


def test_what_is_later_than_allowed_is_refused_or_dropped() -> None:
    options: dict[str, Any] = {"arity": 2, "aggregator": FiBA, "lateness": "5 seconds"}
    window = Window(joined(), TimeWindow(100), **options)
    window.extend(["a", "b"], [10, 20])
    with pytest.raises(LateEvent, match=r"by more than 5.0 s older .* greater lateness"):
        window.insert("c", 14.9)
    with pytest.raises(LateEvent, match=r"1 events of the batch .* at index 1"):
        window.extend(["d", "e"], [30, 14])
    assert window.query() == "ab"
    window.insert("c", 15)
    assert window.query() == "acb"
    dropping = Window(joined(), TimeWindow(100), late="drop", **options)
    dropping.extend(["a", "b"], [10, 20])
    assert list(dropping.extend(["c", "d"], [14, 16])) == ["ad"]
    assert dropping.stats().late == 1 and dropping.last_accepted.tolist() == [False, True]


def test_a_batch_is_taken_in_order_of_time_and_answered_in_its_own() -> None:
    window = Window(joined(), CountWindow(2), arity=2, aggregator=FiBA)
    assert list(window.extend(["c", "a", "b", "d"], [3, 1, 2, 4])) == ["bc", "a", "ab", "cd"]


def test_what_cannot_be_revised_says_so() -> None:
    with pytest.raises(NotRevisable, match="Amortized MTA takes events in order"):
        Window(joined(), CountWindow(2)).revise(["a"], [1])
    with pytest.raises(ValueError, match="choose aggregator=FiBA"):
        Window(joined(), CountWindow(2), lateness=5)
