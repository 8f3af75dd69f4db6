"""Mixed faults under one printed seed, and a list that knows the window at any time."""

from __future__ import annotations

from random import Random

import pytest

from mta.audit.walk import audit, live_keys
from mta.errors import CorruptPage, StoreUnavailable
from mta.evaluators.reactive import PagedReactiveAggregator
from stores import HeadCache, MemoryStore, PageStore, WriteBuffer
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.patience import send_what_is_held
from tests.support.sampling import some

#: What a program must expect of a store that fails, or that gives back what was damaged.
EXPECTED = (StoreUnavailable, CorruptPage)


class Soak:
    """A program, its store and the faults, all drawn from one seed.

    With ``holes`` the program also evicts from anywhere, so that pages are written again.
    """

    def __init__(self, seed: int, holes: bool) -> None:
        self.random, self.holes = Random(seed), holes
        self.name = f"soak{seed}{holes}"  # a memory that survives those who close it
        self._connect()
        self.size = self.random.choice((10, 100, 500))
        self.structure = PagedReactiveAggregator if holes else self.random.choice(oracle.TREES)
        self.retain = self.random.choice((2, 3))
        self.store: PageStore = self.faulty
        sizes = self.random.choice((2, 3, 7)), self.random.choice((2, 4, 16))
        self.window = oracle.begin(
            self.store, self.size, *sizes, aggregator=self.structure, retain=self.retain
        )
        #: The events in the window now and when the snapshot was taken; how many had come then.
        self.events, self.then = list[str](), list[str]()
        self.back = self.saved = 0
        self.snapshot = self.window.checkpoint()
        self.answers = self.failures = self.restarts = self.taken = 0

    def _connect(self) -> None:
        self.memory = MemoryStore(self.name)
        seed = self.random.randrange(1 << 32)
        self.faulty = FaultyStore(self.memory, seed=seed, sleep=lambda seconds: None)

    def run(self, steps: int) -> Soak:
        """Take so many steps, and look at what is left once everything is well again."""
        for number in range(steps):
            try:
                self.step()
            except Exception as error:
                error.add_note(f"step {number} of {self.name}")
                raise
        self.finish()
        return self

    def step(self) -> None:
        """One thing that a program, a network or an operator does."""
        insert = self.take if self.holes and self.random.random() < 0.5 else self.insert
        what = self.random.choices(
            (insert, self.extend, self.save, self.restart, self.break_something, self.faulty.heal),
            (30, 20, 15, 4, 10, 12),
        )[0]
        try:
            what()
        except EXPECTED:
            self.failures += 1
            if self.random.random() < 0.5:
                self.faulty.heal()

    def insert(self) -> None:
        try:
            self.window.insert(oracle.event(self.back))
        except EXPECTED:
            self._audit(self.back)
            raise
        self._audit(self.back + 1)

    def extend(self) -> None:
        before, count = list(self.events), self.random.choice((2, 20, 200))
        batch = oracle.events(self.back, self.back + count)
        try:
            results = self.window.extend(batch)
        except EXPECTED:
            self._audit(self.window.structure().back)
            raise
        for at in {*range(1, count, 7), count}:
            assert results[at - 1] == "".join([*before, *batch[:at]][-self.size :])
        self._audit(self.back + count)

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
            self._audit(self.back)

    def save(self) -> None:
        self.snapshot = self.window.checkpoint()
        self.saved, self.then = self.back, list(self.events)

    def restart(self) -> None:
        """The process dies: what was buffered or held back is lost, and others serve from here."""
        self.restarts += 1
        self.faulty.crash(keep=self.random.randint(0, self.faulty.held))
        if isinstance(self.store, WriteBuffer):
            self.store.abandon()
            self._connect()
        layers: list[PageStore] = [
            self.faulty,
            WriteBuffer(self.faulty, self.random.choice((512, 1 << 20)), deadline=0.05),
            WriteBuffer(HeadCache(self.faulty, 4096), 4096, deadline=0.05),
        ]
        self.store = self.random.choice(layers)
        self.reopen(self.store)

    def reopen(self, store: PageStore) -> None:
        self.back, self.events = self.saved, list(self.then)
        self.window = oracle.reopen(
            self.snapshot, store, self.size, aggregator=self.structure, retain=self.retain
        )
        self._audit(self.saved)

    def break_something(self) -> None:
        random, faulty = self.random, self.faulty
        nth = random.randint(1, 6)
        match random.randrange(6):
            case 0:
                faulty.fail(nth)
            case 1:
                faulty.fail(nth, applied=True)
            case 2:
                faulty.fail(nth, forever=True)
            case 3:
                faulty.hold(random.choice((None, 3, 30)), shuffle=True, duplicates=0.3)
            case 4:
                faulty.corrupt(nth, flip=random.randrange(10_000))
            case 5:
                faulty.delay(0.01, nth)

    def finish(self) -> None:
        """Everything is well again: nothing saved is missing, and nothing else is there."""
        self.faulty.heal()
        if isinstance(self.store, WriteBuffer):
            send_what_is_held(self.store)
        self.store.flush()
        self.save()
        self._assert_whole()
        self.reopen(self.memory)
        self._assert_whole()
        self.memory.delete_many(set(self.memory.keys()) - set(live_keys(self.window)))
        self._assert_whole()
        assert not audit(self.window).damaged

    def _assert_whole(self) -> None:
        """Every page is read."""
        self.window.check()
        assert list(self.window.structure().events()) == self.events

    def _audit(self, back: int) -> None:
        """The window is the list, with what has come in since the last time."""
        assert self.window.structure().back == back
        self.events = (self.events + oracle.events(self.back, back))[-self.size :]
        self.back = back
        assert self.window.query() == "".join(self.events)
        assert len(self.window) == len(self.events)
        self.answers += 1


@pytest.mark.parametrize(
    ("holes", "seed"),
    [
        *some([(False, seed) for seed in range(10)], 4),
        *some([(True, seed) for seed in range(6)], 1),
    ],
)
def test_mixed_faults(holes: bool, seed: int) -> None:
    soak = Soak(seed, holes).run(300)
    assert soak.answers > 50
    assert soak.failures
    assert soak.taken > 100 or not holes


@pytest.mark.soak
@pytest.mark.parametrize("holes", [False, True])
def test_mixed_faults_for_long(holes: bool) -> None:
    """Lives of up to 500 steps, each under the next seed."""
    first, steps = oracle.seed(f"mixed faults, {holes=}"), (10 - 5 * holes) * oracle.kills(2000)
    soaks = [
        Soak(first + number, holes).run(min(500, steps - done))
        for number, done in enumerate(range(0, steps, 500))
    ]
    met = {
        what: sum(getattr(soak, what) for soak in soaks)
        for what in ("failures", "restarts", "answers", "taken")
    }
    oracle.say(f"{steps} steps: {met}")
    assert met["answers"] > steps // 10
    assert met["taken"] or not holes
