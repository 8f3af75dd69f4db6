"""Plans as the driver makes them, and what a bucket's state holds, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from mta import CountWindow, Max, Product, Sum
from mta.audit.keyed import OpaqueKeys
from mta.keyed.lsm import PendingDeletions
from mta.keyed.snapshot import KeyedSnapshot
from spark_integration.options import Options
from spark_integration.plan import Plan
from spark_integration.step.states import State
from stores import PageStore

#: What a plan has of its own under the name of an option, or beside the options.
_OF_PLANS = {field.name for field in fields(Plan)} - {"options"}


def make_plan(**changes: Any) -> Plan:
    """Peak and sum of ``watts`` over the last 100 events of each ``device``."""
    settings: dict[str, Any] = {
        "by": ("device",),
        "key_types": ("string",),
        "on": "ts",
        "monoid": Product({"peak": ("watts", Max()), "sum": ("watts", Sum())}),
        "window": CountWindow(100),
        "columns": ("device", "ts", "watts"),
        "results": {"peak": pa.float64(), "sum": pa.float64()},
        "store": "memory://",
        "name": "test",
        "buckets": 1,
        "arity": 4,
        "leaf_arity": 4,
    }
    settings |= changes
    settings |= {"aggregations": settings["monoid"].aggregations}
    options = Options.of(**{name: settings[name] for name in settings if name not in _OF_PLANS})
    own = {name: settings[name] for name in settings if name in _OF_PLANS}
    return Plan(options=options, **own)


def changed(plan: Plan, **changes: Any) -> Plan:
    """A plan with some of its options or own fields changed."""
    own = {name: changes.pop(name) for name in _OF_PLANS & changes.keys()}
    return replace(plan, options=plan.options.changed(**changes), **own)


def snapshot_in(state: bytes) -> bytes:
    """The snapshot of the bucket's windows."""
    return State.decode(state).snapshot


def keys_of(state: bytes | None, store: PageStore) -> set[Any]:
    """The keys that have a window."""
    if state is None:
        return set()
    return {key for key, _ in OpaqueKeys(snapshot_in(state), store).summaries()}


def snapshots_of(state: bytes | None, store: PageStore) -> dict[Any, bytes]:
    """The snapshots of keys with standalone windows."""
    return {} if state is None else dict(OpaqueKeys(snapshot_in(state), store).snapshots())


def pending_of(state: bytes | None) -> list[str]:
    """The names of the windows that wait for the deletion of their pages."""
    if state is None:
        return []
    groups = KeyedSnapshot.decode(snapshot_in(state)).pending.groups
    lists = [entry for _, entries in groups for entry in entries if isinstance(entry, list)]
    return sorted({key.partition("/")[0] for keys in lists for key in keys})


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
        # Deleted already, where a batch after this one has started.
        keyed.snapshot.pending = PendingDeletions()
        needed |= set(keyed.live_keys())
    assert counted == Counter(events.column("device").to_pylist())
    found = set(store.keys() if keys is None else keys)
    assert needed <= found, "live pages are missing"
    assert len(found - needed - reachable) <= orphans, "pages that no snapshot names"
    return len(found)
