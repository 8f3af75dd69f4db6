"""The processes that serve declared windows, and who of them lives.

Records, in the group "service:" and the name:

    members            msgpack array of the ids of processes
    beat/ID            msgpack array [number, place, pid, started]

Each process puts its beat again with another number, several times per ``takeover_after``. The
others compare only whether the number has changed, by their own monotonic clocks; so wrong clocks
do no harm. A process without a new beat for ``takeover_after`` counts as dead. So does a process of
the same machine that is not running, at once.

Being wrong about this is safe: it only moves shards. The store decides who owns a shard.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

from mta.errors import StoreUnavailable
from stores import PageStore, RecordPut

#: How often a change of the list is tried.
_TRIES = 50


def place() -> str:
    """Return what distinguishes machines, and containers with other numbers of processes."""
    parts = []
    with suppress(OSError):
        parts = [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            os.readlink("/proc/self/ns/pid"),
        ]
    return " ".join(parts)


def started(pid: int) -> int:
    """Return when a process started, in ticks since the boot; 0 if it is not running."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


class Members:
    """The members as one of them sees them. Raises the errors of the store."""

    def __init__(self, store: PageStore, name: str, own: str, takeover_after: float) -> None:
        self._store, self._group, self.own = store, f"service:{name}", own
        self._takeover_after = takeover_after
        self._number = 0
        self._place, self._me = place(), (os.getpid(), started(os.getpid()))
        #: The last beat of each member, and when it came.
        self._seen: dict[str, tuple[bytes | None, float]] = {}
        #: When members were looked at last; a pause of this process is no death of the others.
        self._looked = time.monotonic()

    def beat(self) -> None:
        """Put the next beat; one store call."""
        self._number += 1
        data = msgpack.packb([self._number, self._place, *self._me])
        self._store.put_records([RecordPut(self._key(self.own), data, {})])

    def _key(self, member: str) -> str:
        return f"{self._group}/beat/{member}"

    def look(self) -> set[str]:
        """Return the ids of the living members, of which this process is one."""
        listed = self._listed()[1]
        beats = self._store.get_records([self._key(each) for each in listed])
        now = time.monotonic()
        paused, self._looked = now - self._looked > self._takeover_after, now
        for member, beat in zip(listed, beats, strict=True):
            before = self._seen.get(member)
            if before is None or before[0] != beat or paused:
                self._seen[member] = beat, now
        dead = {each for each in listed if self._is_dead(each, now)} - {self.own}
        if dead or self.own not in listed:
            self._change(dead)
        return {*listed, self.own} - dead

    def _is_dead(self, member: str, now: float) -> bool:
        beat, came = self._seen[member]
        if now - came > self._takeover_after:
            return True
        with suppress(ValueError, TypeError, msgpack.UnpackException):
            _, where, pid, since = msgpack.unpackb(beat or b"")
            return bool(where) and where == self._place and started(pid) != since
        return False

    def leave(self) -> None:
        """Leave the list, so that the others take over at once."""
        self._change({self.own})

    def _listed(self) -> tuple[bytes | None, list[str]]:
        (data,) = self._store.get_records([f"{self._group}/members"])
        found: Any = []
        with suppress(ValueError, msgpack.UnpackException):
            found = msgpack.unpackb(data or b"\x90")
        return data, [each for each in found if isinstance(each, str)]

    def _change(self, without: set[str]) -> None:
        """Remove members from the list, and add this process unless it is one of them."""
        key = f"{self._group}/members"
        for _ in range(_TRIES):
            before, listed = self._listed()
            after = sorted(({*listed} | {self.own}) - without)
            expected: bytes | bool = False if before is None else before
            put = RecordPut(key, msgpack.packb(after), {key: expected})
            if after == listed or self._store.put_records([put])[0]:
                self._store.delete_records([self._key(each) for each in without])
                for each in without:
                    self._seen.pop(each, None)
                return
        raise StoreUnavailable("the list of processes changes all the time: retry")
