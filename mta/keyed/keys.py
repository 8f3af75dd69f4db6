"""The keys of windows: what users hand in, as distinct keys in order, and a code for each event.

All keys of one set of windows are of one kind (``mta.keyed.key_types``). Inside a key is its bytes,
and it goes by the hash of these: of a kind whose keys are whole numbers of 64 bits a mix of the
bits, one to one, and of the others xxh3_64.

Keys are ordered by hash and then by bytes. So two of equal hash stand side by side, and what looks
one up compares the bytes of all at once; it goes key by key only where hashes have met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from mta.errors import UnsuitableKey
from mta.kernels.ranges import bytes_of
from mta.kernels.segments import bounds_of, inverse
from mta.keyed.key_columns import Distinct, distinct_keys
from mta.keyed.key_types import MAX_KEY_BYTES, WHOLE, column_of, unpacked

#: How a key's bytes are hashed; tests take a narrower one, so that hashes meet.
hash_of: Callable[[bytes], int] = xxhash.xxh3_64_intdigest


@dataclass(slots=True)
class Keys:
    """Distinct keys in order. Key i has the bytes ``blob[bounds[i] : bounds[i + 1]]``."""

    kind: str
    hashes: np.ndarray
    blob: np.ndarray
    bounds: np.ndarray

    @classmethod
    def none(cls, kind: str) -> Keys:
        """No keys, of a kind."""
        return cls(kind, np.zeros(0, "u8"), np.zeros(0, "u1"), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def is_whole(self) -> bool:
        """Whether keys are whole numbers, of which no two have one hash."""
        return self.kind in WHOLE

    def take(self, places: np.ndarray) -> Keys:
        """Those at some places; in order where these grow."""
        starts = self.bounds[places]
        lengths = self.bounds[places + 1] - starts
        if self.is_whole:
            blob = self.blob.reshape(-1, 8)[places].reshape(-1)
        else:
            blob = np.frombuffer(self.bytes_at(starts, lengths), "u1")
        return Keys(self.kind, self.hashes[places], blob, bounds_of(lengths))

    def bytes_at(self, starts: np.ndarray, lengths: np.ndarray) -> bytes:
        """Ranges of the bytes of all keys."""
        return bytes_of([self.blob.data], np.zeros(len(starts), np.int64), starts, lengths)

    def cut(self, start: int, stop: int) -> Keys:
        """Those from ``start`` to ``stop``, as views."""
        bounds = self.bounds[start : stop + 1]
        blob = self.blob[bounds[0] : bounds[-1]]
        return Keys(self.kind, self.hashes[start:stop], blob, bounds - bounds[0])

    def packed(self, place: int) -> bytes:
        """The bytes of one."""
        return self.blob[self.bounds[place] : self.bounds[place + 1]].tobytes()

    def at(self, place: int) -> Any:
        """One, as users know it."""
        return unpacked(self.kind, self.packed(place))

    def as_column(self) -> np.ndarray:
        """All of them, as users know them: an array of their type, or objects."""
        if self.is_whole:
            return column_of(self.kind, self.blob.view("<i8"))
        found = np.empty(len(self), object)
        found[:] = [self.at(place) for place in range(len(self))]
        return found

    def find(self, wanted: Keys) -> np.ndarray:
        """The place of each wanted key here, -1 of those that are not here."""
        if not len(self) or not len(wanted):
            return np.full(len(wanted), -1)
        if self.same_as(wanted):
            return np.arange(len(self))
        places = np.minimum(np.searchsorted(self.hashes, wanted.hashes), len(self) - 1)
        places[self.hashes[places] != wanted.hashes] = -1
        hits = np.flatnonzero(places >= 0)
        if not same_bytes(self, places[hits], wanted, hits).all():
            for hit in hits.tolist():
                places[hit] = self._find_one(int(places[hit]), wanted, hit)
        return places

    def same_as(self, others: Keys) -> bool:
        """Whether these are the same keys; hardly any work where they are not."""
        return (
            len(self) == len(others)
            and np.array_equal(self.hashes, others.hashes)
            and np.array_equal(self.bounds, others.bounds)
            and np.array_equal(self.blob, others.blob)
        )

    def _find_one(self, place: int, wanted: Keys, at: int) -> int:
        """The place of a key among those of its hash, the first of which is at ``place``."""
        packed = wanted.packed(at)
        while place < len(self) and self.hashes[place] == wanted.hashes[at]:
            if self.packed(place) == packed:
                return place
            place += 1
        return -1


def same_bytes(one: Keys, places: np.ndarray, other: Keys, others: np.ndarray) -> np.ndarray:
    """Whether pairs of keys have the same bytes."""
    starts, begins = one.bounds[places], other.bounds[others]
    lengths = one.bounds[places + 1] - starts
    same: np.ndarray = lengths == other.bounds[others + 1] - begins
    if not same.all():
        starts, begins, lengths = starts[same], begins[same], lengths[same]
    bytes_of_one, bytes_of_other = one.bytes_at(starts, lengths), other.bytes_at(begins, lengths)
    if bytes_of_one != bytes_of_other:
        equal = np.frombuffer(bytes_of_one, "u1") == np.frombuffer(bytes_of_other, "u1")
        unlike = np.repeat(np.arange(len(lengths)), lengths)[~equal]
        same[np.flatnonzero(same)[unlike]] = False
    return same


def merged(parts: Sequence[Keys]) -> tuple[Keys, np.ndarray, np.ndarray]:
    """The distinct keys of several sets; each key of each set, in the order of keys and sets.

    That is where it was in all of them, one set after the other, and its place among the
    distinct keys.
    """
    kind = parts[0].kind
    hashes = np.concatenate([part.hashes for part in parts])
    sizes = np.cumsum([0, *(len(part.blob) for part in parts)])
    bounds = np.concatenate(
        [part.bounds[:-1] + size for part, size in zip(parts, sizes, strict=False)] + [sizes[-1:]]
    )
    every = Keys(kind, hashes, np.concatenate([part.blob for part in parts]), bounds)
    return distinct_of(every, np.argsort(hashes, kind="stable"))


def distinct_of(every: Keys, order: np.ndarray) -> tuple[Keys, np.ndarray, np.ndarray]:
    """Keys as they come, in an order of their hashes, as ``merged``; those that are equal as one.

    Equal ones stay in that order.
    """
    hashes = every.hashes
    lined = hashes[order]
    first = np.ones(len(order), bool)
    near = np.flatnonzero(lined[1:] == lined[:-1]) + 1
    if same_bytes(every, order[near], every, order[near - 1]).all():
        first[near] = False
    else:
        order = np.array(sorted(order.tolist(), key=lambda at: (hashes[at], every.packed(at))))
        first[near] = ~same_bytes(every, order[near], every, order[near - 1])
    return every.take(order[first]), order, np.cumsum(first) - 1


def range_of(hashes: np.ndarray, low: int, high: int | None) -> tuple[int, int]:
    """Where those from ``low`` on begin among hashes in order, and those from ``high`` on if given.

    >>> range_of(np.array([3, 5, 5, 9], "u8"), 4, 9)
    (1, 3)
    """
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    if high is None:
        return start, len(hashes)
    return start, int(np.searchsorted(hashes, np.uint64(high), side="left"))


# --- what users hand in ---------------------------------------------------------------------------


def read_keys(given: Any, kind: str | None) -> tuple[Keys, np.ndarray]:
    """A column of keys as its distinct keys, and for each event the place of its key among them.

    A list, a numpy, pandas, polars or Arrow column, or a tuple of columns for keys of several
    parts. ``kind`` is that of the keys so far. Raises UnsuitableKey.
    """
    found = distinct_keys(given)
    keys, order = _in_order(_kind_of(found, kind), found.packed)
    return keys, inverse(order)[found.codes]


def ranked_bytes(blob: np.ndarray, bounds: np.ndarray) -> tuple[Keys, np.ndarray]:
    """Bytes, one after the other, as distinct keys, and the place of each one's among these.

    Raises UnsuitableKey.
    """
    every = _hashed("bytes", blob, bounds)
    keys, order, places = distinct_of(every, np.argsort(every.hashes))
    return keys, places[inverse(order)]


def read_key(given: Any, kind: str | None) -> Keys:
    """One key. Raises UnsuitableKey."""
    found = distinct_keys([given])
    return _in_order(_kind_of(found, kind), found.packed)[0]


def of_packed(kind: str, packed: Sequence[bytes]) -> Keys:
    """Keys out of their bytes."""
    return _in_order(kind, np.frombuffer(b"".join(packed), "<i8") if kind in WHOLE else packed)[0]


def _kind_of(found: Distinct, kind: str | None) -> str:
    """The kind of distinct keys, which is that of the keys so far. Raises UnsuitableKey."""
    if found.kind is None or kind in (None, found.kind):
        return found.kind or kind or "int"
    odd = found.packed[0]
    odd = unpacked(found.kind, odd.tobytes() if found.kind in WHOLE else odd)
    raise UnsuitableKey(
        f"the key {odd!r:.60} is not of the kind of those before it ({kind}): 1 and '1' are two "
        "keys, so convert the column first"
    )


def _in_order(kind: str, packed: Any) -> tuple[Keys, np.ndarray]:
    """Distinct keys as whole numbers or bytes, in order, and where each of these was."""
    if kind in WHOLE:
        blob = np.asarray(packed, "<i8")
        hashes = hashes_of_ints(blob)
        order = np.argsort(hashes)
        bounds = np.arange(0, 8 * len(blob) + 1, 8)
        return Keys(kind, hashes[order], blob[order].view("u1"), bounds), order
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    every = _hashed(kind, np.frombuffer(b"".join(packed), "u1"), bounds_of(lengths))
    return distinct_of(every, np.argsort(every.hashes))[:2]


def _hashed(kind: str, blob: np.ndarray, bounds: np.ndarray) -> Keys:
    """Keys by their bytes, as they come."""
    lengths = np.diff(bounds)
    found = Keys(kind, np.zeros(len(lengths), "u8"), blob, bounds)
    longest = int(lengths.max(initial=0))
    if longest > MAX_KEY_BYTES:
        odd = found.at(int(lengths.argmax()))
        raise UnsuitableKey(
            f"the key {odd!r:.60} has {longest} bytes; a key has at most {MAX_KEY_BYTES}: take a "
            "digest of it"
        )
    if len(lengths) and int(lengths.min()) == longest:
        found.hashes[:] = _hashes(blob[bounds[0] : bounds[-1]], len(lengths))
    elif len(lengths):
        # Those of one length are cut out of the bytes together.
        by_length = np.argsort(lengths, kind="stable")
        lined = lengths[by_length]
        cuts = [0, *(np.flatnonzero(np.diff(lined)) + 1).tolist(), len(lined)]
        raw = np.frombuffer(found.bytes_at(bounds[by_length], lined), "u1")
        ends = bounds_of(lined)
        for start, stop in pairwise(cuts):
            of = by_length[start:stop]
            found.hashes[of] = _hashes(raw[ends[start] : ends[stop]], len(of))
    return found


def _hashes(raw: np.ndarray, count: int) -> np.ndarray:
    """The hash of each of so many pieces of one length."""
    pieces = raw.view(f"V{len(raw) // count}").tolist() if len(raw) else [b""] * count
    return np.fromiter(map(hash_of, pieces), "u8", count)


def hashes_of_ints(keys: np.ndarray) -> np.ndarray:
    """The bits of integers stirred, one to one (the finisher of splitmix64)."""
    words = keys.view("<u8")
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = words ^ (words >> np.uint64(31))
    return found


def ints_of_hashes(hashes: np.ndarray) -> np.ndarray:
    """The integers of some hashes."""
    words = hashes ^ (hashes >> np.uint64(31)) ^ (hashes >> np.uint64(62))
    words = words * np.uint64(0x319642B2D24D8EC3)  # what undoes the products of ``hashes_of_ints``
    words = (words ^ (words >> np.uint64(27)) ^ (words >> np.uint64(54))) * np.uint64(
        0x96DE1B173F119089
    )
    words = words ^ (words >> np.uint64(30)) ^ (words >> np.uint64(60))
    found: np.ndarray = words.view("<i8")
    return found
