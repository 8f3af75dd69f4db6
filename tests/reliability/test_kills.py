"""``kill -9`` of a writer at random times: of one window, and of several over one stream.

The options are drawn on each restart. Events over one stream tell their own time, a second each, so
a window by time of so many seconds holds as many events as one by count. Where they come late,
those of each four come in the order 3, 2, 1, 0: what has come tells what is missing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from mta import CountWindow, SharedWindows, TimeWindow
from mta.audit.walk import audit, live_keys
from mta.frames.base import Frame
from stores import PageStore, open_store
from tests.support import oracle
from tests.support.naive import window_of
from tests.support.patience import LONG
from tests.support.s3_server import S3Server
from tests.support.writers import AnyWindow, Life, Noted, start, write_for_ever

#: How late an event may be, in seconds.
LATENESS = 3


@dataclass(frozen=True)
class SharedLife(Noted):
    """Windows over one stream, and how they were made."""

    folder: str
    name: str
    store: str
    sizes: tuple[int, int, int, int]
    """Two by count, two by time, in the order of their names."""
    arity: int
    leaf_arity: int
    late: bool

    @property
    def frames(self) -> dict[str, Frame]:
        """The windows by their names."""
        few, many, short, long = self.sizes
        return {
            "count, few": CountWindow(few),
            "count, many": CountWindow(many),
            "time, short": TimeWindow(short),
            "time, long": TimeWindow(long),
        }

    def open_on(self, store: PageStore, retain: int = 2) -> SharedWindows:
        options: dict[str, Any] = {
            "retain": retain,
            "allowed_lateness": LATENESS if self.late else None,
        }
        if self.snapshot.exists():
            snapshot = self.snapshot.read_bytes()
            joined = oracle.joined()
            return SharedWindows.restore(snapshot, store, aggregations=joined, **options)
        options |= {"arity": self.arity, "leaf_arity": self.leaf_arity}
        return SharedWindows(oracle.joined(), self.frames, store, self.name, **options)

    def time_of(self, position: int) -> int:
        """The time of the event that comes at a position, in seconds, which it also tells."""
        return position ^ 3 if self.late else position

    def insert(self, window: AnyWindow, at: int) -> None:
        time = self.time_of(at)
        window.insert(oracle.event(time), time)

    def extend(self, window: AnyWindow, start: int, stop: int) -> None:
        times = [self.time_of(position) for position in range(start, stop)]
        window.extend([oracle.event(time) for time in times], times)

    def held(self, frame: Frame, back: int) -> list[int]:
        """The times of the events in a window once so many have come."""
        first = max(0, back - max(self.sizes) - 2 * LATENESS)
        times = sorted(map(self.time_of, range(first - first % 4, back)))
        return times[window_of(frame, times, times[-1])] if times else []

    def assert_whole(self, window: AnyWindow) -> int:
        assert isinstance(window, SharedWindows)
        back = window.engine.structure().back
        self._assert_answers(window, back)
        window.check()
        found = audit(window)
        assert not [damage for damage in found.damaged if damage.needed], found.damaged
        self._assert_goes_on(window, back)
        return back

    def _assert_answers(self, window: SharedWindows, back: int) -> None:
        sizes = window.stats().windows
        for name, frame in self.frames.items():
            times = self.held(frame, back)
            assert sizes[name] == len(times), f"{name} has {sizes[name]} events at {back}"
            assert window.query(name) == _text(times), f"a wrong result of {name} at {back}"
        longest = max(self.frames, key=lambda name: sizes[name])
        front = back - sizes[longest]
        assert window.range_by_position(front, back) == window.query(longest)

    def _assert_goes_on(self, window: SharedWindows, back: int) -> None:
        """Take in what follows, never to be saved: every result of every window is right."""
        for first, stop in ((back, back + 5), (back + 5, back + 6), (back + 6, back + 60)):
            times = [self.time_of(position) for position in range(first, stop)]
            results = window.extend([oracle.event(time) for time in times], times)
            for name, frame in self.frames.items() if not self.late else ():
                expected = [_text(self.held(frame, at + 1)) for at in range(first, stop)]
                assert results[name].tolist() == expected, f"wrong results of {name} after {first}"
            self._assert_answers(window, stop)


def _text(times: list[int]) -> str:
    return "".join(map(oracle.event, times))


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


def test_kills_at_random_times(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), 6)


@pytest.mark.soak
def test_thousands_of_kills(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), oracle.kills(2000))


def test_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), 6)


@pytest.mark.parametrize("cached", [True, False])
def test_kills_of_a_writer_to_an_object_store(
    tmp_path: Path, s3_server: S3Server, cached: bool
) -> None:
    killer = Killer(tmp_path, "redis://unused", oracle.seed("s3 kills"))
    options = (f"cache_dir={tmp_path}/cache",) if cached else ()
    killer.stores = [s3_server.url(uuid4().hex, *options)]
    run(killer, 5)


@pytest.mark.soak
def test_many_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), oracle.kills(2000) // 2)
