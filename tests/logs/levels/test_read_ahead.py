"""Reading ahead: which pages are asked for, how many, and when, counted without a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mta import CountWindow, Max, Window
from mta.algorithms import AmortizedMTA
from mta.pages import Group
from stores import MemoryStore
from stores.base import Capabilities, WrapperStore
from tests.support.naive import IN_ORDER

LEAF = 4
BOTH = pytest.mark.parametrize("aggregator", IN_ORDER)


class Ahead(WrapperStore):
    """A store whose hints are followed at once, or not before ``answer`` is called."""

    def __init__(self, room: int = 1 << 20) -> None:
        super().__init__(MemoryStore())
        self.room = room
        self.prompt = True
        self.asked: list[str] = []
        self.found: list[str] = []
        self.waited: list[str] = []
        self.here: dict[str, bytes | None] = {}

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.store.capabilities, read_ahead=self.room)

    def prefetch(self, keys: Sequence[str]) -> None:
        self.asked += keys
        if self.prompt:
            self.answer()

    def answer(self) -> None:
        self.here.update(zip(self.asked, self.store.get_many(self.asked), strict=True))

    def peek(self, key: str) -> bytes | None:
        page = self.here.get(key)
        if page is not None:
            self.found.append(key)
        return page

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.waited += keys
        return self.store.get_many(keys)

    def leaves(self, keys: Sequence[str]) -> list[int]:
        """The numbers of the leaf groups among the keys."""
        return [int(key.split("/")[2]) for key in keys if key.split("/")[1] == "0"]


def window_of(
    store: Ahead, size: int, arity: int = 4, aggregator: type[AmortizedMTA] = AmortizedMTA
) -> Window:
    return Window(
        Max(), CountWindow(size), store, leaf_arity=LEAF, arity=arity, aggregator=aggregator
    )


def feed(window: Window, events: int) -> None:
    start = window.stats().inserted
    for i in range(start, start + events):
        window.insert(float(i % 97))


@pytest.mark.sample(1)
@BOTH
@pytest.mark.parametrize("arity", [2, 3, 16])
def test_across_every_border_the_front_finds_its_pages(
    arity: int, aggregator: type[AmortizedMTA]
) -> None:
    """Of five hundred groups, whose names stand in groups of several levels, none is waited for."""
    store = Ahead()
    window = window_of(store, 1200, arity, aggregator)
    feed(window, 1250)
    height = window.stats().levels
    assert 1 <= len(store.waited) <= height  # the first pages of all
    store.waited.clear()
    store.found.clear()
    feed(window, 2000)
    assert store.waited == []
    assert store.leaves(store.found) == list(range(13, 513))
    window.check()


@BOTH
def test_each_page_is_asked_for_once(aggregator: type[AmortizedMTA]) -> None:
    store = Ahead()
    window = window_of(store, 1200, 4, aggregator)
    feed(window, 5000)
    asked = Counter(store.asked)
    assert set(asked.values()) == {1}
    opened = (5000 - 1200) // LEAF
    assert opened - 1 <= len(store.leaves(store.asked)) <= opened + 8
    assert len(asked) <= (opened + 8) * (1 + 1 / 3) + 3 * 8


def test_the_depth_doubles_while_the_front_has_to_wait_and_stays_within_the_cache() -> None:
    store = Ahead(room=1)
    window = window_of(store, 2000, arity=512)
    feed(window, 2001)
    assert store.asked == []  # there is room for no page at all
    page = len(store.store.get_many([next(store.store.keys())])[0] or b"")
    for room, most in ((20, 20), (1000, 512)):
        store = Ahead(room=room * page + page // 2)
        store.prompt = False  # the answers come too late, every time
        window = window_of(store, 4000, arity=2048)
        feed(window, 4001)
        depths = []
        for _ in range(300):
            feed(window, LEAF)
            depths.append(max(store.leaves(store.asked)) - store.leaves(store.waited)[-1])
        assert depths[0] == 8
        assert max(depths) == most
    store.answer()
    store.prompt = True
    store.waited.clear()
    feed(window, 400 * LEAF)
    assert store.waited == []


def test_pages_that_the_cache_has_lost_are_asked_for_again() -> None:
    store = Ahead()
    window = window_of(store, 2000, arity=64)
    feed(window, 2600)
    for _ in range(3):
        store.here.clear()  # others needed the room
        store.waited.clear()
        feed(window, 40 * LEAF)
        assert 1 <= len(store.waited) <= 5
        assert store.waited.count(store.waited[0]) == 1


def test_a_window_restored_for_a_few_events_asks_for_little() -> None:
    store = Ahead()
    window = window_of(store, 4000, arity=64)
    feed(window, 5000)
    snapshot = window.checkpoint()
    store.asked.clear()
    store.here.clear()
    again = Window.restore(snapshot, store, aggregations=Max(), window=CountWindow(4000))
    feed(again, 2 * LEAF)
    assert len(store.leaves(store.asked)) <= 8 + 2
    assert len(store.asked) <= 8 + 2 + 3


def test_a_jump_asks_from_where_it_ends() -> None:
    store = Ahead()
    window = window_of(store, 4000, arity=8)
    feed(window, 4100)
    store.asked.clear()
    for count in (2001, LEAF):
        window.evict(count)
        window.query()
    assert min(store.leaves(store.asked)) > (100 + 2000) // LEAF
    assert len(store.leaves(store.asked)) <= 2 * 8


def test_a_damaged_inner_page_is_the_readers_to_tell() -> None:
    """Reading ahead passes over it; whoever needs it gets the error."""
    store = Ahead()
    window = window_of(store, 1200, arity=4)
    feed(window, 1250)
    for key in list(store.here):
        page = store.here[key]
        if page is not None and key.split("/")[1] != "0":
            store.here[key] = page[:-1]
    feed(window, 8 * LEAF)
    assert window.query() == 96.0


def test_a_group_with_too_few_names_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Ahead()
    window = window_of(store, 1200, arity=4)
    feed(window, 1250)
    pager, empty = window.structure().levels.pager, Group(None, None, [], 0)
    monkeypatch.setattr(pager, "peek", lambda level, number, name: empty)
    feed(window, 40 * LEAF)
    assert window.query() == 96.0
    window.check()


def test_a_store_that_does_not_read_ahead_gets_no_hints() -> None:
    store = Ahead(room=0)
    window = window_of(store, 1200)
    feed(window, 3000)
    assert (store.asked, store.found) == ([], [])
    assert store.waited
