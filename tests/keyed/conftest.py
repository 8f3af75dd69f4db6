"""Sizes so small that a few events make runs, indexes of indexes, merges and lists."""

from __future__ import annotations

import pytest

from mta.keyed import leaves, lsm, standalone, windows


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays in the snapshot, and everything is a power of two."""
    monkeypatch.setattr(windows, "INLINE_BYTES", 0)
    monkeypatch.setattr(lsm, "TOP", 2)
    monkeypatch.setattr(lsm, "FANOUT", 3)
    monkeypatch.setattr(lsm, "_ORDER_BITS", 1)
    monkeypatch.setattr(lsm, "_FIRST_ORDER", 300)
    monkeypatch.setattr(lsm, "_AT_ONCE", 2)
    monkeypatch.setattr(leaves, "ROOM", 150)
    monkeypatch.setattr(leaves, "_LIST_BYTES", 80)
    monkeypatch.setattr(standalone, "_OPEN", 3)
