"""Which pages must and which may be in the store, reckoned from the events alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa


def check_places(
    keys: Iterable[str], events: pa.Table, before: pa.Table, window: int, arity: int
) -> int:
    """Assert that exactly the pages of live events are there, each place once; count them.

    ``keys`` are the store's, for count windows of ``window`` events in groups of ``arity``.
    ``before`` are the events of which a handle may still be needed: those of all batches but the
    last one or more. A page may stay while a handle from then can reach it.
    """
    now, then = (Counter(t.column("device").to_pylist()) for t in (events, before))
    found = Counter()
    for key in keys:
        name, level, number, _ = key.split("/")
        found[name.rpartition(":")[2], int(level), int(number)] += 1
    assert all(count == 1 for count in found.values()), "a place with pages of two contents"
    for device, level, number in found:
        end = (number + 1) * arity ** (level + 1)
        assert max(0, then[device] - window) < end <= now[device], (device, level, number)
    for device, count in now.items():
        front = max(0, count - window)
        for number in range(front // arity, (count - 1) // arity):
            assert (device, 0, number) in found, f"a live page is missing: {device} {number}"
    return len(found)
