"""Multiple windows over one stream whose store counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta import CountWindow, Max
from mta.windows.shared import SharedWindows
from stores import MemoryStore
from stores.testing.counting import CountingStore

LEAF, ARITY, N = 64, 8, 20_000
FOUR = {
    "five": CountWindow(50),
    "hour": CountWindow(400),
    "day": CountWindow(3_000),
    "month": CountWindow(9_000),
}


def counted_windows(frames: dict[str, Any], **options: Any) -> tuple[SharedWindows, CountingStore]:
    store = CountingStore(MemoryStore())
    sizes = {"leaf_arity": LEAF, "arity": ARITY}
    return SharedWindows(Max(), frames, store=store, **sizes, **options), store


def values(count: int) -> np.ndarray:
    return np.random.default_rng(3).random(count)
