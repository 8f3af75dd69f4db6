"""The ids of recent events, by which a retry is recognized, and gets the answer of the first try.

An id belongs to a key and to the time that the client gave, so two keys may use the same id. Memory
holds 16 bytes per event with an id, for ``retry_for`` after the event, and up to twice
``snapshot_every`` longer; the answers of all but the newest events are in the store. So the window
in which a retry is safe is ``retry_for``, and memory is bounded by the rate of events in it.

    since the last state   digest -> answer     in a dictionary, and in the log
    before                 sorted digests       one page for each state; answers in the store

An answer is stored with the key of its event, so that answers of erased keys are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from mta.errors import CorruptSnapshot
from mta.service.log import Ids, Page, ShardLog
from mta.snapshots import entries

#: The digest of an event without an id.
NO_ID = b""
_BYTES = 16


class Retries:
    """The ids of one shard. Raises the errors of the store, and CorruptSnapshot."""

    def __init__(self, log: ShardLog) -> None:
        assert log.head is not None
        self._log = log
        self._recent: dict[bytes, tuple[bytes, Any]] = {}
        self._pages = [(page, self._read(page)) for page in log.head.pages]

    def __len__(self) -> int:
        return len(self._recent) + sum(page.size for page, _ in self._pages)

    def _read(self, page: Page) -> np.ndarray:
        data = self._log.page("ids", page.number)
        if len(data) != page.size * _BYTES:
            raise CorruptSnapshot(
                f"the size of page {page.number} of the ids differs from its header"
            )
        return np.frombuffer(data, f"S{_BYTES}")

    def add(self, digests: Sequence[bytes], answers: Sequence[bytes], keys: Sequence[Any]) -> None:
        """Note the answers of accepted events with ids."""
        self._recent.update(zip(digests, zip(answers, keys, strict=True), strict=True))
        self._recent.pop(NO_ID, None)

    def answers(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the answers of the digests that are known."""
        found = {each: self._recent[each][0] for each in digests if each in self._recent}
        wanted = np.array([each for each in digests if each and each not in found], f"S{_BYTES}")
        for page, ids in self._pages if len(wanted) else ():
            at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            known = np.flatnonzero(ids[at] == wanted)
            if len(known):
                answers = self._answers(page)
                for row in known.tolist():
                    digest = wanted[row].ljust(_BYTES, b"\0")
                    found[digest] = answers[int(at[row])][0]
        return found

    def _answers(self, page: Page) -> list[Any]:
        return _unpacked(self._log.page("answers", page.number), page.size)

    def erase(self, keys: Sequence[Any]) -> Mapping[int, Ids]:
        """Drop the ids of keys; return the new content of each stored page that had one.

        Reads the answers of all pages. The pages count once a new state of the log names them.
        """
        gone = {msgpack.packb(key) for key in keys}
        self._recent = {
            digest: (answer, key)
            for digest, (answer, key) in self._recent.items()
            if msgpack.packb(key) not in gone
        }
        changed = dict[int, Ids]()
        for page, ids in self._pages:
            entries = self._answers(page)
            kept = [at for at, (_, key) in enumerate(entries) if msgpack.packb(key) not in gone]
            if len(kept) < page.size:
                answers = msgpack.packb([entries[at] for at in kept])
                changed[page.number] = ids[kept].tobytes(), answers, len(kept)
        return changed

    def packed(self) -> Ids:
        """Return the page of the newest ids, their answers, and their number, for a new state."""
        ids = sorted(self._recent)
        answers: bytes = msgpack.packb([self._recent[each] for each in ids])
        return b"".join(ids), answers, len(ids)

    def renew(self) -> None:
        """Note that the log has a new state, with a page of the newest ids."""
        assert self._log.head is not None
        known = {page.number: ids for page, ids in self._pages}
        self._pages = [
            (page, known[page.number] if page.number in known else self._read(page))
            for page in self._log.head.pages
        ]
        self._recent = {}


def _unpacked(data: bytes, size: int) -> list[Any]:
    try:
        found = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException) as error:
        raise CorruptSnapshot(f"a page of answers cannot be read: {error}") from error
    if not isinstance(found, list) or len(found) != size:
        raise CorruptSnapshot("the size of a page of answers differs from its header")
    return entries("answers", found, bytes, lambda _: True)
