"""Windows of keys that grow and shrink, so that they are standalone for a time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mta import KeyedWindows, Sum, TimeWindow
from stores import MemoryStore

SIZES: dict[str, Any] = {"promote_at": 16, "leaf_arity": 4, "arity": 2, "page_bytes": 300}
SIZE = 20


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
                    windows = KeyedWindows.restore(windows.checkpoint(), store, **SIZES)
        windows.check()
    goes = sum(one < other for one, other in pairwise(standalone))
    comes = sum(one > other for one, other in pairwise(standalone))
    assert goes >= 3 and comes >= 3
    if store is not None:
        for _ in range(4):
            windows.checkpoint()
        assert not [key for key in list(store.keys()) if ":" in key]  # its pages are gone
