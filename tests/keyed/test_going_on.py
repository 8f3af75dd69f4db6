"""Windows that shrink, and snapshots that go on with another lateness."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mta import KeyedWindows, Max, Sum, TimeWindow
from mta.errors import LateEvent, SnapshotMismatch
from stores import MemoryStore

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
