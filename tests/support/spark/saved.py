"""What a bucket's state holds."""

from __future__ import annotations

from typing import Any

from mta.audit.keyed import OpaqueKeys
from mta.keyed.snapshot import UnreadSnapshot
from spark_integration.step.states import State
from stores import PageStore


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


def pending_of(state: bytes | None) -> list[bytes]:
    """The snapshots of windows that wait for the deletion of their pages."""
    if state is None:
        return []
    groups = UnreadSnapshot.decode(snapshot_in(state)).snapshot.pending.groups
    return [entry for _, entries in groups for entry in entries if isinstance(entry, bytes)]
