"""A store call fails, and then one of the recovery from it; and what a buffer before it hides.

The program under test does what a user's would: it saves snapshots, and when a call fails, it
starts again from its newest snapshot. ``test_after_a_failed_call`` has each call of each operation.
"""

from __future__ import annotations

import threading
from itertools import count

import pytest

from mta import Window
from mta.algorithms import AmortizedMTA
from mta.errors import StoreUnavailable
from mta.logs.base import Aggregator
from stores import MemoryStore, PageStore, WriteBuffer
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.faulty import Gated
from tests.support.patience import LONG, send_what_is_held, set_deadline

EVENTS, SIZE, ARITY, LEAF = 36, 20, 2, 2


class Program:
    """Writes events into a window; keeps nothing but the newest snapshot when it starts again."""

    def __init__(self, store: PageStore, tree: type[Aggregator] = AmortizedMTA) -> None:
        self.store, self.structure = store, tree
        self.snapshot: bytes | None = None
        self.saved = 0

    def start(self) -> Window:
        """The window as it was saved."""
        if self.snapshot is None:
            return oracle.begin(self.store, SIZE, ARITY, LEAF, aggregator=self.structure)
        window = oracle.reopen(self.snapshot, self.store, SIZE, aggregator=self.structure)
        assert window.structure().back == self.saved
        return window

    def step(self, window: Window) -> None:
        """One event, or a batch; then, often, a snapshot."""
        back = window.structure().back
        if back % 4:
            window.insert(oracle.event(back))
            assert window.query() == oracle.text(back + 1, SIZE)
        else:
            results = window.extend(oracle.events(back, back + 9))
            assert results[-1] == oracle.text(back + 9, SIZE)
        if window.structure().back % 3 == 0:
            self.save(window)

    def save(self, window: Window) -> None:
        """Take a snapshot, and only then forget the one before."""
        self.snapshot = window.checkpoint()
        self.saved = window.structure().back

    def run(self) -> None:
        """From the newest snapshot to the end, everything read at the end."""
        window = self.start()
        while window.structure().back < EVENTS:
            self.step(window)
        self.save(window)
        oracle.assert_whole(window, SIZE)
        oracle.assert_whole(self.start(), SIZE)


def number_of_calls(tree: type[Aggregator]) -> int:
    store = FaultyStore(MemoryStore())
    Program(store, tree).run()
    return store.calls


@pytest.mark.parametrize("tree", oracle.TREES)
def test_the_recovery_fails_too(tree: type[Aggregator]) -> None:
    """Call N fails, and then call M of the run that recovers from it, for all N and some M."""
    for nth in range(1, number_of_calls(tree), 31):
        for then in count(1):
            store = FaultyStore(MemoryStore())
            program = Program(store, tree)
            store.fail(nth)
            with pytest.raises(StoreUnavailable):
                program.run()
            store.fail(then)
            try:
                program.run()
            except StoreUnavailable:
                program.run()
            if store.fired == 1 or then > 10:
                break


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21])
def test_behind_a_buffer_a_call_that_fails_once_is_not_noticed(nth: int) -> None:
    faulty = FaultyStore(MemoryStore())
    faulty.fail(nth, operations=["put", "delete", "get"])
    with WriteBuffer(faulty, 2048, deadline=LONG) as store:
        Program(store).run()
    assert faulty.fired == 1


@pytest.mark.parametrize("nth", [1, 4, 9])
def test_behind_a_buffer_an_outage_is_reported_in_time_and_nothing_is_lost(nth: int) -> None:
    faulty = FaultyStore(MemoryStore())
    store = WriteBuffer(faulty, 2048, deadline=0.15)
    program = Program(store)
    faulty.fail(nth, forever=True, operations=["put", "delete", "get"])
    with pytest.raises(StoreUnavailable):
        program.run()
    faulty.heal()
    send_what_is_held(store)
    program.run()
    store.close()


def test_behind_a_buffer_that_gave_up_on_a_hung_store_the_next_call_waits_for_it() -> None:
    hung = Gated(MemoryStore())
    hung.gate.clear()
    with WriteBuffer(hung, 300, deadline=0.3) as store:
        store.put_many({"w/1": b"1"})
        with pytest.raises(StoreUnavailable, match="no answer"):
            store.put_many({"w/2": b"2"})
        set_deadline(store, LONG)
        threading.Timer(0.05, hung.gate.set).start()
        store.put_many({"w/2": b"2"})
        store.flush()
        assert store.get_many(["w/1", "w/2"]) == [b"1", b"2"]
