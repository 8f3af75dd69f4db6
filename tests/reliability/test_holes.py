"""The same mixed faults where events are taken out of the middle, with a list as auditor."""

from __future__ import annotations

import pytest

from mta.audit.walk import audit, live_keys
from mta.evaluators.reactive import PagedReactiveAggregator
from stores import WriteBuffer
from tests.support import oracle
from tests.support.patience import send_what_is_held
from tests.support.sampling import some
from tests.support.soaks import EXPECTED, Soak, run, run_long


class HoledSoak(Soak):
    """A program that also evicts from anywhere, so that pages are written again and retired."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.name, self.structure = f"holes{seed}", PagedReactiveAggregator
        self._connect()
        self.store = self.faulty
        sizes = self.random.choice((2, 3, 7)), self.random.choice((2, 4, 16))
        self.window = oracle.begin(
            self.store, self.size, *sizes, aggregator=self.structure, retain=self.retain
        )
        self.snapshot = self.window.checkpoint()
        self.events: list[str] = []
        #: How many events had come in when the list was brought up to date.
        self.seen = 0
        #: The events when the snapshot was taken, and how many were taken out in all.
        self.then: list[str] = []
        self.taken = 0

    def insert(self) -> None:
        if self.random.random() < 0.5:
            super().insert()
        else:
            self.take()

    def extend(self) -> None:
        back, count = self.window.structure().back, self.random.choice((2, 20, 200))
        try:
            results = self.window.extend(oracle.events(back, back + count))
        except EXPECTED:
            self._audit(self.window.structure().back)
            raise
        self._audit(back + count)
        assert results[-1] == "".join(self.events)

    def take(self) -> None:
        """Evict some events; where that fails, the error says how many are gone."""
        count = min(len(self.events), self.random.choice((1, 3, 30)))
        places = sorted(self.random.sample(range(len(self.events)), count))
        oldest = next((i for i, place in enumerate(places) if place != i), len(places))
        order = places[oldest:] + places[:oldest]
        tree = self.window.structure()
        assert isinstance(tree, PagedReactiveAggregator)
        try:
            tree.evict_at([tree.front + place for place in places])
        except EXPECTED as error:
            count = int(error.__notes__[-1].split()[0])
            raise
        finally:
            gone = set(order[:count])
            self.events = [event for i, event in enumerate(self.events) if i not in gone]
            self.taken += count
            self._audit(tree.back)

    def save(self) -> None:
        super().save()
        self.then = list(self.events)

    def reopen(self) -> None:
        self.events, self.seen = list(self.then), self.saved
        super().reopen()

    def finish(self) -> None:
        """Everything is well again: what was saved is there, as it was taken out."""
        self.heal()
        if isinstance(self.store, WriteBuffer):
            send_what_is_held(self.store)
        self.store.flush()
        self.save()
        self.window = oracle.reopen(
            self.snapshot, self.memory, self.size, aggregator=self.structure
        )
        alive = set(live_keys(self.window))
        self.memory.delete_many(set(self.memory.keys()) - alive)
        self.window.check()
        assert self.window.query() == "".join(self.events)
        assert not audit(self.window).damaged

    def _audit(self, back: int) -> None:
        """The window is the list, with what has come in since the last time."""
        assert self.window.structure().back == back
        self.events = (self.events + oracle.events(self.seen, back))[-self.size :]
        self.seen = back
        assert self.window.query() == "".join(self.events)
        assert len(self.window) == len(self.events)
        self.answers += 1


@pytest.mark.parametrize("seed", some(range(6), by_default=1))
def test_mixed_faults_with_holes(seed: int) -> None:
    soak = run(HoledSoak, seed, 300)
    assert soak.answers > 50
    assert soak.failures
    assert soak.taken > 100


@pytest.mark.soak
def test_mixed_faults_with_holes_for_long() -> None:
    soaks = run_long(HoledSoak, "mixed faults with holes", 5 * oracle.kills(2000))
    taken = sum(soak.taken for soak in soaks)
    oracle.say(f"{taken} events taken out")
    assert taken
