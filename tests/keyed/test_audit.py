"""What reads snapshots without their monoid: live pages are just those that are in the store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import KeyedWindows, Max, TimeWindow
from mta.audit.keyed import OpaqueKeys
from stores import MemoryStore


@pytest.mark.sample(1)
@pytest.mark.parametrize("retain", [2, 4])
@pytest.mark.parametrize("late", [{}, {"allowed_lateness": 3}])
@pytest.mark.usefixtures("tiny")
def test_every_page_in_the_store_is_live_and_no_other(retain: int, late: dict[str, Any]) -> None:
    store = MemoryStore()
    windows = KeyedWindows(
        Max(), TimeWindow(30), store, "w", promote_at=3, page_bytes=200, leaf_arity=2, arity=2,
        retain=retain, **late,
    )  # fmt: skip
    for step in range(16):
        keys = [f"key {(step * 3 + n) % 40}" for n in range(30)]
        windows.extend(keys, np.arange(30.0), [step * 10 + n // 10 for n in range(30)])
        if step % 3 == 2:
            windows.expire(before=step * 10)
        snapshot = windows.checkpoint()
        opaque = OpaqueKeys(snapshot, store)
        assert set(opaque.live_keys()) == set(store.keys())
        if step % 3 == 0:
            found = opaque.audit()
            assert found.pages > 0 and not found.damaged
