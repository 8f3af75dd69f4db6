"""Windows that shrink, and snapshots that go on with another lateness."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mta import KeyedWindows, Max, Sum, TimeWindow
from mta.errors import LateEvent, SnapshotMismatch
from stores import MemoryStore
from tests.support.sampling import some

SIZES: dict[str, Any] = {"promote_at": 16, "leaf_arity": 4, "arity": 2, "page_bytes": 300}
SIZE = 20


# --- windows that shrink --------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("lateness", [None, 6])
@pytest.mark.parametrize("frame", [TimeWindow(SIZE), {"a": TimeWindow(7), "b": TimeWindow(SIZE)}])
@pytest.mark.parametrize("stored", [False, True])
def test_a_window_goes_and_comes_back_with_its_events(
    frame: Any, lateness: int | None, stored: bool
) -> None:
    """Bursts of 60 events make it standalone, and 30 s with one event each 9 s vectorized again."""
    store = MemoryStore() if stored else None
    late: dict[str, Any] = {} if lateness is None else {"allowed_lateness": lateness}
    windows = KeyedWindows(Sum(), frame, store, "w", **late, **SIZES)
    known: list[tuple[float, float]] = []
    standalone, now, rng = [], 0.0, np.random.default_rng(5)
    for _ in range(4):
        for steps in ([0.1] * 60, [9.0] * 8):
            for part in np.array_split(np.array(steps), 4):
                times = now + np.cumsum(part)
                now = float(times[-1])
                if lateness is not None:
                    times = times - rng.uniform(0, lateness / 2, len(times)).round(1)
                    now = max(now, float(times.max()))
                values = rng.integers(0, 9, len(times)).astype(float)
                windows.extend(["k"] * len(times), values, times)
                windows.extend(["other"], [1.0], [now])
                known += zip(times.tolist(), values.tolist(), strict=True)
                newest = max(time for time, _ in known)
                sizes = [7, SIZE] if isinstance(frame, dict) else [SIZE]
                found = windows.query("k")
                found = list(found.values()) if isinstance(frame, dict) else [found]
                expected = [sum(v for t, v in known if t > newest - size + 1e-9) for size in sizes]
                assert found == expected
                standalone.append(windows.stats().standalone)
                if store is not None:
                    snapshot = windows.checkpoint()
                    windows = KeyedWindows.restore(
                        snapshot, store, aggregations=Sum(), window=frame, **late, **SIZES
                    )
        windows.check()
    goes = sum(one < other for one, other in pairwise(standalone))
    comes = sum(one > other for one, other in pairwise(standalone))
    assert goes >= 3 and comes >= 3
    if store is not None:
        for _ in range(4):
            windows.checkpoint()
        assert not [key for key in list(store.keys()) if ":" in key]  # its pages are gone


# --- another lateness -----------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("promote_at", [2, 1000])
@pytest.mark.parametrize("seed", some(range(8), by_default=3))
def test_another_lateness_gives_exact_results_or_late_events(seed: int, promote_at: int) -> None:
    """Whatever is taken in has the result of all events; what the snapshot has is taken in."""
    rng, store, frame = np.random.default_rng(seed), MemoryStore(), TimeWindow(SIZE)
    sizes = {**SIZES, "promote_at": promote_at, "on_late": "drop"}
    lateness, snapshot = 10, b""
    windows = KeyedWindows(Sum(), frame, store, "w", allowed_lateness=lateness, **sizes)
    known: dict[int, list[tuple[int, float]]] = {}
    floors: dict[int, int] = {}
    now, taken, refused = 1000, 0, 0
    for step in range(60):
        if step % 4 == 3:
            snapshot = windows.checkpoint()
            lateness = int(rng.choice([0, 10, 40, 90]))
            windows = KeyedWindows.restore(
                snapshot,
                store,
                aggregations=Sum(),
                window=frame,
                allowed_lateness=lateness,
                **sizes,
            )
        now += int(rng.integers(0, 9))
        count = int(rng.integers(1, 5))
        keys = rng.integers(0, 3, count)
        times = now - rng.integers(0, 100, count)
        values = rng.integers(1, 99, count).astype(float)
        # The least that must be taken: what is as late as was ever allowed.
        newest = {key: max(t for t, _ in rows) for key, rows in known.items()}
        for key, last in newest.items():
            floors[key] = max(floors.get(key, 0), last - lateness)
        found = windows.extend(keys, values, times)
        accepted = windows.last_accepted
        accepted = np.ones(count, bool) if accepted is None else accepted
        for key in set(keys[accepted].tolist()):
            mine = (keys == key) & accepted
            rows = zip(times[mine].tolist(), values[mine].tolist(), strict=True)
            known.setdefault(key, []).extend(rows)
        for key, time, is_in in zip(keys.tolist(), times.tolist(), accepted.tolist(), strict=True):
            # By each lateness there was, as of then; a key that lags is held to the least of them.
            assert not is_in or time >= floors.get(key, 0)
        for at, place in enumerate(np.flatnonzero(accepted).tolist()):
            key, time = int(keys[place]), int(times[place])
            rows = sorted(known[key])
            whole = sum(v for t, v in rows if time - SIZE < t < time)
            ties = [(t, v) for t, v in rows if t == time]
            taken += 1
            if len(ties) == 1:
                assert found[at] == whole + ties[0][1]
        refused += int((~accepted).sum())
    assert taken > 40 and refused > 10


def test_what_was_kept_for_more_is_taken_at_once() -> None:
    store, frame = MemoryStore(), TimeWindow(SIZE)
    windows = KeyedWindows(Max(), frame, store, "w", allowed_lateness=10)
    windows.extend(["a", "b"] * 50, np.arange(100.0), np.arange(100))
    snapshot = windows.checkpoint()
    with pytest.raises(SnapshotMismatch, match="lateness"):
        KeyedWindows.restore(snapshot, store, allowed_lateness=None)
    windows = KeyedWindows.restore(
        snapshot, store, aggregations=Max(), window=frame, allowed_lateness=50
    )
    assert KeyedWindows.restore(snapshot, store).checkpoint() == snapshot  # nothing has come
    windows.extend(["a"], [500.0], [88])
    with pytest.raises(LateEvent, match="key 'a'"):
        windows.extend(["a"], [0.0], [87])
    snapshot = windows.checkpoint()
    windows = KeyedWindows.restore(
        snapshot, store, aggregations=Max(), window=frame, allowed_lateness=50
    )
    windows.extend(["a", "new"], [1.0, 1.0], [200, 200])
    windows.extend(["a", "new"], [2.0, 2.0], [150, 150])
    with pytest.raises(LateEvent, match="key 'b'"):
        windows.extend(["b"], [0.0], [87])
