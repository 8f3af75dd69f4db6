"""Which pages must and which may be in the store: those that the states of a query name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgpack
import pyarrow as pa

from mta.audit.description import describe_handle
from mta.audit.keyed import OpaqueKeys
from mta.audit.walk import live_keys
from mta.keyed.doomed import Doomed
from mta.windows.opaque import restore_opaque
from spark_integration.step.states import read_handles, read_root
from stores import PageStore


def check_places(
    states: Iterable[bytes],
    store: PageStore,
    events: pa.Table,
    window: int,
    orphans: int = 0,
    keys: Iterable[str] | None = None,
) -> int:
    """Assert that the pages are whole and hold what they must, and nothing else is there; count.

    ``states`` are those after ``events``, for count windows of ``window`` events; where they are
    roots, no key has a window by itself. So many pages more may be there as ``orphans`` says:
    those of attempts that were given up. ``keys`` are the store's, if it cannot list them.
    """
    needed: set[str] = set()
    reachable: set[str] = set()
    counted: Counter[str] = Counter()
    for state in states:
        root = read_root(state)
        if root is not None:
            keyed = OpaqueKeys(root, store)
            assert keyed.audit().damaged == []
            summaries = list(keyed.summaries())
            reachable |= set(keyed.live_keys())
            keyed.root.doomed = Doomed()  # deleted already, where a batch after this one has begun
            needed |= set(keyed.live_keys())
        else:
            handles = read_handles(state).items()
            summaries = [(key, describe_handle(handle)) for key, handle in handles]
            for _, handle in handles:
                needed |= set(live_keys(restore_opaque(handle, store)))
        for key, summary in summaries:
            (device,) = msgpack.unpackb(key)
            counted[device] += summary.back
            assert summary.events >= min(window, summary.back), device
    assert counted == Counter(events.column("device").to_pylist())
    found = set(store.keys() if keys is None else keys)
    assert needed <= found, "live pages are missing"
    assert len(found - needed - reachable) <= orphans, "pages that no state names"
    return len(found)
