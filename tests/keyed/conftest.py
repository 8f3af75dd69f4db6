"""Sizes so small that a few events make runs, indexes of indexes, merges and lists."""

from __future__ import annotations

import pytest

from mta.keyed import doomed, tiers, windows


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays in the root, and everything is a power of two."""
    monkeypatch.setattr(windows, "_INLINE", 0)
    monkeypatch.setattr(tiers, "_TOP", 2)
    monkeypatch.setattr(tiers, "_FANOUT", 3)
    monkeypatch.setattr(tiers, "_TIER_BITS", 1)
    monkeypatch.setattr(tiers, "_FIRST_TIER", 300)
    monkeypatch.setattr(tiers, "_AT_ONCE", 2)
    monkeypatch.setattr(doomed, "ROOM", 150)
    monkeypatch.setattr(doomed, "_LIST_BYTES", 80)
