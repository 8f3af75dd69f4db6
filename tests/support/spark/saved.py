"""What a bucket's state holds."""

from __future__ import annotations

from mta.audit.keyed import OpaqueKeys
from mta.keyed.root import Unread
from spark_integration.step.states import State
from stores import PageStore


def root_in(state: bytes) -> bytes:
    """The root of the bucket's windows."""
    return State.decode(state).root


def keys_of(state: bytes | None, store: PageStore) -> set[bytes]:
    """The keys that have a window."""
    if state is None:
        return set()
    return {key for key, _ in OpaqueKeys(root_in(state), store).summaries()}


def snapshots_of(state: bytes | None, store: PageStore) -> dict[bytes, bytes]:
    """The snapshots of keys with windows by themselves."""
    return {} if state is None else dict(OpaqueKeys(root_in(state), store).snapshots())


def doomed_of(state: bytes | None) -> list[bytes]:
    """The snapshots of windows that wait for the deletion of their pages."""
    if state is None:
        return []
    groups = Unread.decode(root_in(state)).root.doomed.groups
    return [entry for _, entries in groups for entry in entries if isinstance(entry, bytes)]
