"""Results of standalone windows at boundaries: each as ``TriggeredWindow`` has it by itself."""

from __future__ import annotations

import numpy as np
import pytest

from mta import (
    Collect,
    CountWindow,
    EveryPeriod,
    KeyedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.frames import BoundWindow
from mta.frames.base import Frame
from mta.keyed.work import Boundaries, Found
from stores.memory import MemoryStore
from stores.testing import CountingStore
from tests.support.key_by_key import KeyByKey, lists

SIZES = {"arity": 4, "leaf_arity": 4}
FRAMES: dict[str, Frame] = {
    "short": TimeWindow(9),
    "long": TimeWindow(40),
    "few": CountWindow(6),
    "bound": BoundWindow(Sum(), at_most=90.0),
    "either": TimeWindow(25) | CountWindow(6),
}
SETS = [tuple(FRAMES), ("long",), ("few",), ("bound",), ("either",)]


def events(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.arange(count, dtype="f8"), np.cumsum(rng.choice([0, 0.5, 1, 7, 60], count))


def found_at(
    windows: KeyedWindows, keys: np.ndarray, values: np.ndarray, times: np.ndarray, want: Boundaries
) -> Found:
    """What a batch makes due."""
    return windows.bucket.advance(windows.read(keys, values, times), want).found


@pytest.mark.sample(1)
@pytest.mark.parametrize("period", [2, 30])
@pytest.mark.parametrize("batches", [1, 30])
@pytest.mark.parametrize("names", SETS)
def test_each_window_of_a_key_is_as_it_is_alone(
    names: tuple[str, ...], batches: int, period: int
) -> None:
    """A window by itself may have fewer boundaries in a gap: time empties it earlier, or never."""
    values, times = events(300, batches)
    keys = np.random.default_rng(batches).integers(0, 3, 300)
    trigger, store = EveryPeriod(period), MemoryStore()
    monoid = lists() if batches % 2 else Collect()
    frames = {name: FRAMES[name] for name in names}
    window = frames if len(names) > 1 else frames[names[0]]
    windows = KeyedWindows(monoid, window, store, "many", timed=True, **SIZES)
    alone = {
        (key, name): TriggeredWindow(Window(Collect(), frame, None, **SIZES), trigger)
        for key in range(3)
        for name, frame in frames.items()
    }
    parts = np.array_split(np.arange(300), batches)
    for part in parts:
        ends = part is parts[-1]
        own = np.unique(keys[part])
        found = found_at(windows, keys[part], values[part], times[part], Boundaries(trigger, ends))
        assert found.times is not None
        # Keys are in the order of their hashes.
        order = windows.read(own, values[: len(own)], times[: len(own)]).keys.as_column()
        for place, key in enumerate(order.tolist()):
            rows = part[keys[part] == key]
            here = np.flatnonzero(found.of == place)
            for number, name in enumerate(names):
                due = alone[key, name].extend(values[rows], times[rows])
                at = np.searchsorted(found.times[here], due.moments.astype("i8"))
                assert found.times[here][at].tolist() == due.moments.astype("i8").tolist()
                assert [found.outputs[number][i] for i in here[at]] == list(due.results)
                if ends:
                    (moment,), (result,) = alone[key, name].flush()
                    assert found.times[here[-1]] == int(moment.astype("i8"))
                    assert found.outputs[number][int(here[-1])] == result
        windows.check()
        windows = windows.restore_like(windows.checkpoint())


def test_between_boundaries_events_are_only_inserted() -> None:
    """Windows longer than what is in memory: reads come with boundaries, not with events."""
    total = KeyByKey(0.0, lambda a, b: a + b, "total")
    frames = {"a": TimeWindow(500), "b": TimeWindow(2000)}
    times, reads = np.arange(8192), []
    for period in (64, 1024):
        store = CountingStore(MemoryStore())
        windows = KeyedWindows(total, frames, store, "reads", **SIZES)
        keys, trigger = np.zeros(8192, "i8"), EveryPeriod(period)
        found = found_at(windows, keys, times * 1.0, times, Boundaries(trigger))
        sums = [sum(range(max(0, at - 1999), at + 1)) for at in range(0, 8192 - 1, period)]
        assert list(found.outputs[1]) == sums
        reads.append(store.counts.get.pages)
        levels = windows.window(0).stats().levels
        assert reads[-1] <= len(sums) * len(frames) * 6 * levels
    assert reads[1] < reads[0] / 2 < 8192 / 8
