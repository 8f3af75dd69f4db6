"""Keyed windows over random batches, beside one window a key and beside plain lists."""

from __future__ import annotations

import math
import random
import sys
import time
from typing import Any

import pytest

from mta import CountWindow, KeyedWindows, TimeWindow
from mta.keyed import keys as hashing
from stores import MemoryStore
from tests.keyed.scenarios import EMPTY, FRAMES, KINDS, MONOIDS, PLAIN, Life, at, same
from tests.support.naive import window_of
from tests.support.sampling import some

SEEDS = some(range(25), by_default=8)
SIZES = [
    {"promote_at": 2, "page_bytes": 1, "cache_bytes": 1},
    {"promote_at": 5, "page_bytes": 200, "cache_bytes": 1 << 20},
    {"promote_at": 1000, "page_bytes": 100, "cache_bytes": 300},
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("tiny")
def test_a_life_beside_one_window_a_key(seed: int) -> None:
    Life(seed).run()


@pytest.mark.parametrize("seed", range(3))
def test_a_life_of_the_usual_sizes(seed: int) -> None:
    Life(20_000 + seed).run()


@pytest.mark.parametrize("seed", some(range(6), by_default=3))
@pytest.mark.usefixtures("tiny")
def test_a_life_whose_hashes_collide(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "hash_of", lambda key: sum(key) % 3)
    Life(10_000 + seed).run()


@pytest.mark.soak
@pytest.mark.usefixtures("tiny")
def test_many_scenarios() -> None:
    """Ten minutes of them; the seed of one that fails is in its message."""
    first = time.time_ns() % 10**9
    sys.stdout.write(f"seeds from {first} on\n")
    end, seed = time.monotonic() + 600, first
    while time.monotonic() < end:
        try:
            Life(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        seed += 1


# --- plain lists ----------------------------------------------------------------------------------


def _plainly(name: str, held: list[float]) -> Any:
    """What a plain list says of a window's values, which may be none."""
    return PLAIN[name](held) if held else EMPTY.get(name, math.nan)


@pytest.mark.parametrize("seed", some(range(24), by_default=8))
@pytest.mark.usefixtures("tiny")
def test_results_are_those_of_plain_lists(seed: int) -> None:
    rng = random.Random(seed)
    frame = rng.choice(FRAMES)()
    monoid = rng.choice([make() for make in MONOIDS if make().name.partition(" ")[0] in PLAIN])
    named = frame if isinstance(frame, dict) else {"": frame}
    key_of = KINDS[rng.choice(list(KINDS))]
    lateness = rng.choice([None, None, 40, 10**6])
    late: dict[str, Any] = {"timed": True} if lateness is None else {"allowed_lateness": lateness}
    store = MemoryStore()
    sizes: dict[str, Any] = rng.choice(SIZES)
    windows = KeyedWindows(monoid, frame, store, **sizes, **late)
    events: dict[int, list[tuple[int, int, float]]] = {}
    now = number = 0
    for _ in range(15):
        batch = []
        for _ in range(rng.choice([1, 7, 30])):
            now += rng.choice([0, 1, 5])
            moment = now - (0 if lateness is None else rng.choice([0, 3, 40]))
            batch.append((rng.randrange(6), moment, float(rng.randrange(50))))
        for key, moment, value in batch:
            events.setdefault(key, []).append((moment, number, value))
            number += 1
        keys, times, values = zip(*batch, strict=True)
        found = windows.extend([key_of(key) for key in keys], list(values), list(times))
        for row, key in enumerate(keys):
            line = sorted(events[key])
            times = [moment for moment, _, _ in line]
            place = [n for _, n, _ in line].index(number - len(batch) + row)
            for name, each in named.items():
                span = window_of(each, times[: place + 1], times[place])
                held = [value for _, _, value in line][span]
                ours = at(found[name] if name else found, row)
                plain = _plainly(monoid.name.partition(" ")[0], held)
                assert same(ours, plain), (seed, row, each, monoid)
        if rng.random() < 0.6:
            snapshot = windows.checkpoint()
            windows = KeyedWindows.restore(
                snapshot, store, aggregations=monoid, window=frame, **sizes, **late
            )
            windows.check()


# --- expiring -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", some(range(8), by_default=2))
@pytest.mark.usefixtures("tiny")
def test_expiring_changes_no_result(seed: int) -> None:  # noqa: C901, PLR0912, PLR0915
    """It takes just the keys whose windows are empty, and events go on as though it had not."""
    rng = random.Random(seed)
    frame = rng.choice([TimeWindow(10), TimeWindow(40), CountWindow(4) | TimeWindow(20),
                         {"a": TimeWindow(5), "b": CountWindow(3) | TimeWindow(15)}])  # fmt: skip
    frames = frame.values() if isinstance(frame, dict) else [frame]
    lifetime = max(int(p.lifetime or 0) for p in frames) // 10**6
    monoid = rng.choice(MONOIDS[:4] + MONOIDS[-2:-1])()
    sizes: dict[str, Any] = rng.choice(SIZES)
    if rng.random() < 0.3:
        sizes = sizes | {"allowed_lateness": 0}
    if rng.random() < 0.3:
        sizes = sizes | {"retain": 4}
    stores = [rng.choice([None, MemoryStore()]), None]
    ours, other = (KeyedWindows(monoid, frame, store, **sizes) for store in stores)
    newest: dict[int, int] = {}
    now, count = 1000, rng.choice([5, 40])
    for step in range(25):
        keys = [rng.randrange(count) for _ in range(rng.choice([1, 5, 30]))]
        times = []
        for key in keys:
            now += rng.choice([0, 0, 1, 2])
            newest[key] = now
            times.append(now)
        values = [rng.randrange(100) for _ in keys]
        found, expected = (w.extend(keys, values, times) for w in (ours, other))
        names = frame if isinstance(frame, dict) else [None]
        for name in names:
            one, two = (f if name is None else f[name] for f in (found, expected))
            assert all(same(at(one, row), at(two, row)) for row in range(len(keys))), (seed, step)
        assert ours.last_accepted is None
        if rng.random() < 0.5:
            moment = now - rng.choice([0, 0, 5])
            gone = {key for key, at in newest.items() if at <= moment - lifetime}
            assert set(ours.expire(before=moment).tolist()) == gone, (seed, step)
            for key in gone:
                del newest[key]
        earliest = ours.earliest()
        if newest:
            assert earliest is not None and earliest <= min(newest.values()) * 10**6
        assert len(ours) == len(newest)
        assert set(ours.keys()) == newest.keys()
        if rng.random() < 0.3:
            ours.check()
        if stores[0] is not None and rng.random() < 0.5:
            snapshot = ours.checkpoint()
            if rng.random() < 0.5:
                ours = KeyedWindows.restore(
                    snapshot, stores[0], aggregations=monoid, window=frame, **sizes
                )
    # Once nothing comes any more, all are expired, and what it took to know them goes with them.
    assert set(ours.expire(before=now + lifetime).tolist()) == newest.keys()
    assert ours.earliest() is None
    if stores[0] is not None:
        for _ in range(sizes.get("retain", 2) + 1):
            ours.checkpoint()
        assert ours.stats().standalone == len(ours) == 0
        ours.extend([1], [1], [now + lifetime])
        ours.check()
        ours.delete_pages()
        assert sorted(stores[0].keys()) == []
