"""Mixed faults under one printed seed, and an auditor who knows the total at any time."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from mta.audit.walk import audit, live_keys
from mta.errors import CorruptPage, StoreUnavailable
from stores import HeadCache, MemoryStore, PageStore, WriteBuffer
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.patience import send_what_is_held

#: What a program must expect of a store that fails, or that gives back what was damaged.
EXPECTED = (StoreUnavailable, CorruptPage)
Kind = TypeVar("Kind", bound="Soak")


class Soak:
    """A program, its store and the faults, all drawn from one seed.

    The auditor is ``oracle``: it knows the result at every position, so every answer is compared.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.name = f"soak{seed}"  # a memory that survives those who close it
        self._connect()
        self.size = self.random.choice((10, 100, 500))
        self.structure = self.random.choice(oracle.TREES)
        self.retain = self.random.choice((2, 3))
        self.store: PageStore = self.faulty
        sizes = self.random.choice((2, 3, 7)), self.random.choice((2, 4, 16))
        self.window = oracle.begin(
            self.store, self.size, *sizes, aggregator=self.structure, retain=self.retain
        )
        self.snapshot, self.saved = self.window.checkpoint(), 0
        self.answers = self.failures = self.restarts = 0

    def _connect(self) -> None:
        self.memory = MemoryStore(self.name)
        seed = self.random.randrange(1 << 32)
        self.faulty = FaultyStore(self.memory, seed=seed, sleep=lambda seconds: None)

    def step(self) -> None:
        """One thing that a program, a network or an operator does."""
        what = self.random.choices(
            (self.insert, self.extend, self.save, self.restart, self.break_something, self.heal),
            (30, 20, 15, 4, 10, 12),
        )[0]
        try:
            what()
        except EXPECTED:
            self.failures += 1
            if self.random.random() < 0.5:
                self.heal()

    def insert(self) -> None:
        back = self.window.structure().back
        try:
            self.window.insert(oracle.event(back))
        except EXPECTED:
            self._audit(back)
            raise
        self._audit(back + 1)

    def extend(self) -> None:
        back, count = self.window.structure().back, self.random.choice((2, 20, 200))
        try:
            results = self.window.extend(oracle.events(back, back + count))
        except EXPECTED:
            self._audit(self.window.structure().back)
            raise
        for i in range(0, count, 7):
            assert results[i] == oracle.text(back + i + 1, self.size)
        self._audit(back + count)

    def save(self) -> None:
        self.snapshot = self.window.checkpoint()
        self.saved = self.window.structure().back

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
        self.reopen()

    def reopen(self) -> None:
        self.window = oracle.reopen(
            self.snapshot, self.store, self.size, aggregator=self.structure, retain=self.retain
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

    def heal(self) -> None:
        self.faulty.heal()

    def finish(self) -> None:
        """Everything is well again: nothing saved is missing, and nothing else is there."""
        self.heal()
        if isinstance(self.store, WriteBuffer):
            send_what_is_held(self.store)
        self.save()
        oracle.assert_whole(self.window, self.size)
        self.window = oracle.reopen(
            self.snapshot, self.memory, self.size, aggregator=self.structure
        )
        oracle.assert_whole(self.window, self.size)
        alive = set(live_keys(self.window))
        self.memory.delete_many(set(self.memory.keys()) - alive)
        oracle.assert_whole(self.window, self.size)
        assert not audit(self.window).damaged

    def _audit(self, back: int) -> None:
        assert self.window.structure().back == back
        assert self.window.query() == oracle.text(back, self.size)
        self.answers += 1


def run(kind: type[Kind], seed: int, steps: int) -> Kind:
    """One life of so many steps under one seed."""
    soak = kind(seed)
    for number in range(steps):
        try:
            soak.step()
        except Exception as error:
            error.add_note(f"step {number} of MTA_SOAK_SEED={seed}")
            raise
    soak.finish()
    return soak


def run_long(kind: type[Kind], of: str, steps: int) -> list[Kind]:
    """Lives of up to 500 steps, each under the next seed; says what they met."""
    first = oracle.seed(of)
    soaks = [
        run(kind, first + number, min(500, steps - done))
        for number, done in enumerate(range(0, steps, 500))
    ]
    answers, failures, restarts = (
        sum(getattr(soak, what) for soak in soaks) for what in ("answers", "failures", "restarts")
    )
    oracle.say(f"{steps} steps, {failures} failures, {restarts} restarts, {answers} right answers")
    assert answers > steps // 10
    return soaks
