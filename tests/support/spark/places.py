"""Which pages must and which may be in the store: those that the snapshots of a query name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from mta.audit.keyed import OpaqueKeys
from mta.keyed.lsm import PendingDeletions
from stores import PageStore


def check_places(
    snapshots: Iterable[bytes],
    store: PageStore,
    events: pa.Table,
    window: int,
    orphans: int = 0,
    keys: Iterable[str] | None = None,
) -> int:
    """Assert that the pages are whole and hold what they must, and nothing else is there; count.

    ``snapshots`` are those after ``events``, for count windows of ``window`` events. So many pages
    more may be there as ``orphans`` says: those of attempts that were given up. ``keys`` are the
    store's, if it cannot list them.
    """
    needed: set[str] = set()
    reachable: set[str] = set()
    counted: Counter[str] = Counter()
    for snapshot in snapshots:
        keyed = OpaqueKeys(snapshot, store)
        assert keyed.audit().damaged == []
        reachable |= set(keyed.live_keys())
        for device, summary in keyed.summaries():
            counted[device] += summary.back
            assert summary.events >= min(window, summary.back), device
        keyed.snapshot.pending = (
            PendingDeletions()
        )  # deleted already, where a batch after this one has started
        needed |= set(keyed.live_keys())
    assert counted == Counter(events.column("device").to_pylist())
    found = set(store.keys() if keys is None else keys)
    assert needed <= found, "live pages are missing"
    assert len(found - needed - reachable) <= orphans, "pages that no snapshot names"
    return len(found)
