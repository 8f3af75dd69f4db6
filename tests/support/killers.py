"""Writers that are killed with ``kill -9`` at random times, with options drawn on each restart."""

from __future__ import annotations

import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from mta.audit.walk import live_keys
from stores import open_store
from tests.support import oracle
from tests.support.patience import LONG
from tests.support.shared_scenarios import SharedLife
from tests.support.writers import Life, Noted, start, write_for_ever

_BUFFERS = ("0", "2KiB", "64KiB", "8MiB")
_CACHES = ("0", "4KiB", "16MiB")


class Killer:
    """Writers of multiple windows, one after the other, each killed at a random moment."""

    def __init__(self, folder: Path, redis: str, seed: int) -> None:
        self.folder, self.random = folder, Random(seed)
        prefix = f"{'&' if '?' in redis else '?'}prefix=kill{seed}"
        self.stores = [f"file://{folder / 'pages'}?map_size=1GiB", redis + prefix]
        self.scenarios: list[Noted] = []
        self.kills = self.events = self.found_new = 0

    def kill_one(self) -> None:
        """Let a writer write for a while, kill it, and look at what it left."""
        random = self.random
        if not self.scenarios or random.random() < 0.1:
            self.scenarios.append(self._born(random))
        life = random.choice(self.scenarios[-4:])
        options = f"&write_buffer={random.choice(_BUFFERS)}&cache={random.choice(_CACHES)}"
        before, _ = life.noted()
        drawn = (options, random.choice((2, 2, 3, 6)), random.choice((1, 10, 100, 1000)),
                 random.choice((0.05, 0.3, 1.0)), random.randrange(1 << 32))  # fmt: skip
        writer = start(write_for_ever, life, *drawn)
        if random.random() < 0.7:
            _wait_for_a_note(life, writer)
        writer.join(random.uniform(0, 0.1))
        assert writer.exitcode is None, f"the writer of {life} with {drawn} ended by itself"
        writer.kill()
        writer.join()
        try:
            back = life.assert_nothing_lost()
        except Exception as error:
            error.add_note(f"kill {self.kills}, {life}, written with {drawn}")
            raise
        self.kills += 1
        self.found_new += back > before
        self.events += back - before

    def sweep(self) -> int:
        """Delete what no window names, and look again: how many pages that were."""
        swept = 0
        for address in self.stores:
            with open_store(address) as store:
                alive = set()
                for life in self.scenarios:
                    if life.store == address:
                        alive.update(live_keys(life.open_on(store)))
                garbage = set(store.keys()) - alive
                store.delete_many(garbage)
                store.flush()
                swept += len(garbage)
        for life in self.scenarios:
            life.assert_nothing_lost()
        return swept

    def clean(self) -> None:
        """Leave nothing in stores that others use too."""
        for address in self.stores:
            with open_store(address) as store:
                store.delete_many(list(store.keys()))

    def _born(self, random: Random) -> Noted:
        return Life(
            str(self.folder),
            f"w{len(self.scenarios)}",
            random.choice(self.stores),
            random.choice((1, 30, 400, 3000)),
            random.choice((2, 3, 8, 64)),
            random.choice((2, 3, 8, 64)),
            random.choice(oracle.TREES).__name__,
        )


def _wait_for_a_note(life: Noted, writer: BaseProcess) -> None:
    """Until the writer has noted something, or has ended."""
    before, until = life.noted_bytes(), time.monotonic() + LONG
    while life.noted_bytes() == before and time.monotonic() < until and writer.exitcode is None:
        time.sleep(0.001)


class SharedKiller(Killer):
    """Writers of four windows over one stream, in order or with late events."""

    def _born(self, random: Random) -> SharedLife:
        sizes = [random.choice((1, 30, 400, 3000)) for _ in range(4)]
        return SharedLife(
            str(self.folder),
            f"s{len(self.scenarios)}",
            random.choice(self.stores),
            (min(sizes[:2]), max(sizes[:2]), min(sizes[2:]), max(sizes[2:])),
            random.choice((2, 3, 8, 64)),
            random.choice((2, 3, 8, 64)),
            random.random() < 0.3,
        )


def run(killer: Killer, kills: int) -> None:
    """Kill so many writers, and sweep every hundred."""
    began, swept = time.monotonic(), 0
    while killer.kills < kills:
        killer.kill_one()
        if killer.kills % 100 == 0:
            swept += killer.sweep()
            oracle.say(f"{killer.kills} kills, {time.monotonic() - began:.0f} s")
    swept += killer.sweep()
    killer.clean()
    assert killer.found_new > kills // 4, "the writers were killed before they saved anything"
    oracle.say(
        f"{killer.kills} kills of {len(killer.scenarios)} windows, {killer.events} events saved, "
        f"nothing lost; {swept} pages were left over"
    )
