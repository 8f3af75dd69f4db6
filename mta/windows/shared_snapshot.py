"""The format of the snapshot of multiple windows over one stream.

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, events, windows]
    magic    = "mta-shared"
    version  = 1
    events   = bytes, the snapshot of the events that the windows share (``snapshot``)
    windows  = array of [name, policy, front], in the order of their names
    name     = text, 1 to 200 bytes, unique
    policy   = [text, 16-byte fingerprint]
    front    = position of the window's oldest event, from the front of the events to their back

All other state of a cursor follows from the events, so a snapshot does not store it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from mta.errors import SnapshotMismatch
from mta.frames.base import AbstractPolicy
from mta.pages import Snapshot, corrupt, seal, unseal

MAGIC = "mta-shared"
VERSION = 1
MAX_NAME_BYTES = 200
#: The magic as it appears at the start of these snapshots, after the length of the array.
_SHARED = msgpack.packb(MAGIC)


class WindowState(NamedTuple):
    """One window of a snapshot."""

    name: str
    policy: tuple[str, bytes]
    front: int


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """The fields of a snapshot; the module's docstring describes them."""

    events: bytes
    windows: list[WindowState]

    def encode(self) -> bytes:
        return seal(MAGIC, VERSION, [self.events, sorted(self.windows)])

    @staticmethod
    def decode(data: bytes) -> SharedSnapshot:
        return unseal(data, MAGIC, VERSION, "one of multiple windows", _validated)

    def fronts_for(self, windows: Mapping[str, AbstractPolicy]) -> dict[str, int]:
        """Return the front of each window. Raises SnapshotMismatch if the windows differ."""
        if [window.name for window in self.windows] != sorted(windows):
            raise SnapshotMismatch(
                f"the snapshot has the windows {[window.name for window in self.windows]}, not "
                f"{sorted(windows)}; use SharedWindows.restore for other windows"
            )
        for window in self.windows:
            policy = windows[window.name]
            if policy.fingerprint != window.policy[1]:
                raise SnapshotMismatch(
                    f"the snapshot's window {window.name!r} has the policy {window.policy[0]}, not "
                    f"{policy.describe()}; use SharedWindows.restore for other windows"
                )
        return {window.name: window.front for window in self.windows}

    def fronts_of(self, windows: Mapping[str, AbstractPolicy]) -> dict[str, int]:
        """Return the front of each window with the same name and policy."""
        same = (w for w in self.windows if w.name in windows)
        return {w.name: w.front for w in same if windows[w.name].fingerprint == w.policy[1]}


def shared_snapshot(data: bytes) -> SharedSnapshot | None:
    """Return the snapshot of multiple windows; None for a single window. Raises CorruptSnapshot."""
    is_shared = bytes(data[1 : 1 + len(_SHARED)]) == _SHARED
    return SharedSnapshot.decode(data) if is_shared else None


def _validated(values: list[Any]) -> SharedSnapshot:
    if [type(value) for value in values] != [bytes, list]:
        raise corrupt("its fields are of the wrong number or types")
    data, states = values
    events = Snapshot.decode(data)
    windows = [_window(fields, events) for fields in states]
    names = [window.name for window in windows]
    if names != sorted(set(names)):
        raise corrupt("the names of its windows are not unique and in order")
    return SharedSnapshot(data, windows)


def _window(fields: Any, events: Snapshot) -> WindowState:
    if not isinstance(fields, list) or [type(value) for value in fields] != [str, list, int]:
        raise corrupt("a window has the wrong types")
    name, policy, front = fields
    if [type(value) for value in policy] != [str, bytes] or len(policy[1]) != 16:
        raise corrupt("a window's fingerprint has the wrong type")
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise corrupt("the name of a window is invalid")
    if not events.front <= front <= events.back:
        raise corrupt(f"the front of window {name!r} is not among the events")
    return WindowState(name, (policy[0], policy[1]), front)
