"""The keys of windows: what users hand in, as distinct keys in order, and a code for each event.

A key is an integer of 64 bits, text, bytes, or a tuple of these, and all keys of one set of windows
are of one kind. Inside it is its bytes, and it goes by the hash of these:

    kind     bytes                                   hash
    "int"    8, little-endian                        a mix of its 64 bits, one to one
    "text"   UTF-8                                   xxh3_64
    "bytes"  as they are                             xxh3_64
    "tuple"  msgpack array                           xxh3_64

Keys are ordered by hash and then by bytes. So two of equal hash stand side by side, and what looks
one up compares the bytes of all at once; it goes key by key only where hashes have met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgpack
import numpy as np
import xxhash

from mta.columns.reading import is_missing, plain
from mta.errors import UnsuitableKey
from mta.kernels.ranges import bytes_of
from mta.kernels.segments import bounds_of, inverse

KINDS = ("int", "text", "bytes", "tuple")
#: No key has more bytes, so that several always fit into a page.
MAX_KEY_BYTES = 1024
_INTS = np.iinfo("i8")
_PARTS: tuple[type, ...] = (int, str, bytes)
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

    def take(self, places: np.ndarray) -> Keys:
        """Those at some places; in order where these grow."""
        starts = self.bounds[places]
        lengths = self.bounds[places + 1] - starts
        if self.kind == "int":
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
        """All of them, as users know them: integers, or objects."""
        if self.kind == "int":
            return self.blob.view("<i8").copy()
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

    That is where it stood in all of them, one set after the other, and its place among the
    distinct keys.
    """
    kind = parts[0].kind
    hashes = np.concatenate([part.hashes for part in parts])
    sizes = np.cumsum([0, *(len(part.blob) for part in parts)])
    bounds = np.concatenate(
        [part.bounds[:-1] + size for part, size in zip(parts, sizes, strict=False)] + [sizes[-1:]]
    )
    every = Keys(kind, hashes, np.concatenate([part.blob for part in parts]), bounds)
    return lined_up(every, np.argsort(hashes, kind="stable"))


def lined_up(every: Keys, order: np.ndarray) -> tuple[Keys, np.ndarray, np.ndarray]:
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
    if isinstance(given, tuple):
        columns = [_distinct(column) for column in given]
        if len({len(codes) for _, codes in columns}) != 1:
            raise UnsuitableKey("a tuple of columns has at least one, and all are of one length")
        distinct, codes = _tuples(columns)
    else:
        distinct, codes = _distinct(given)
    keys, order = _in_order(distinct, kind)
    return keys, inverse(order)[codes]


def ranked_bytes(blob: np.ndarray, bounds: np.ndarray) -> tuple[Keys, np.ndarray]:
    """Bytes, one after the other, as distinct keys, and the place of each one's among these.

    Raises UnsuitableKey.
    """
    every = _hashed("bytes", blob, bounds)
    keys, order, places = lined_up(every, np.argsort(every.hashes))
    return keys, places[inverse(order)]


def read_key(given: Any, kind: str | None) -> Keys:
    """One key. Raises UnsuitableKey."""
    return _in_order([plain(given)], kind)[0]


def of_packed(kind: str, packed: Sequence[bytes]) -> Keys:
    """Keys out of their bytes."""
    return _in_order([unpacked(kind, key) for key in packed], kind)[0]


def unpacked(kind: str, packed: bytes) -> Any:
    """A key's bytes as users know it."""
    if kind == "int":
        return int.from_bytes(packed, "little", signed=True)
    if kind == "text":
        return packed.decode()
    return tuple(msgpack.unpackb(packed)) if kind == "tuple" else packed


def _distinct(column: Any) -> tuple[Any, np.ndarray]:
    """A column's distinct values, in any order, and the place of each row's value among them.

    By the column's own library where it has one: they hash, which is faster than to sort.
    """
    module = type(column).__module__.partition(".")[0]
    if module == "polars" and hasattr(column, "to_arrow") and not hasattr(column, "columns"):
        column, module = _of_polars(column)
    if module == "pyarrow" and hasattr(column, "null_count"):
        return _of_arrow(column)
    if hasattr(column, "factorize"):  # pandas
        return _of_pandas(column)
    if isinstance(column, np.ndarray):
        return _of_numpy(column)
    if isinstance(column, (str, bytes)) or not isinstance(column, Sequence):
        raise UnsuitableKey(
            f"keys are a column with a key for each event, not {type(column).__name__}: give a "
            "list, a numpy, pandas, polars or Arrow column, or a tuple of columns"
        )
    return _of_objects(list(column))


def _of_numpy(column: np.ndarray) -> tuple[Any, np.ndarray]:
    if column.ndim != 1:
        raise UnsuitableKey(f"keys have one dimension, not {column.ndim}")
    if isinstance(column, np.ma.MaskedArray):
        if column.mask.any():
            raise _null()
        column = column.data
    if column.dtype.kind in "iu":
        return _of_integers(column)
    if column.dtype.kind in "mM":  # as a list they may be integers
        raise UnsuitableKey(f"keys are integers, text or bytes, not {column.dtype}")
    return _of_objects(column.tolist())


def _of_polars(column: Any) -> tuple[Any, str]:
    """A polars column as an Arrow one, where that is possible, else as a list."""
    if str(column.dtype) not in _POLARS:
        return column.to_list(), "builtins"
    try:
        return column.to_arrow(), "pyarrow"
    except ModuleNotFoundError:
        return column.to_list(), "builtins"


#: What polars has that Arrow has too; what it calls objects are addresses there.
_POLARS = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)) | {
    "String",
    "Binary",
    "Categorical",
}


def _of_pandas(column: Any) -> tuple[Any, np.ndarray]:
    codes, distinct = column.factorize()
    if len(codes) and codes.min() < 0:
        raise _null()
    if getattr(distinct.dtype, "kind", "") in ("i", "u"):
        return np.asarray(distinct), codes
    values = distinct.tolist()
    kinds = {value.__class__ for value in values}
    # To pandas 1 and True are one value, and text ends where it has a zero.
    certain = kinds == {bytes} or (
        kinds == {str} and (hasattr(column.dtype, "categories") or "\0" not in "".join(column))
    )
    return (values, codes) if certain else _of_objects(column.tolist())


def _of_arrow(column: Any) -> tuple[Any, np.ndarray]:
    if column.null_count:
        raise _null()
    if not len(column):
        return [], np.zeros(0, np.int64)
    own = hasattr(column.type, "index_type")
    try:
        encoded = column if own else column.dictionary_encode()
    except NotImplementedError:
        return _of_objects(column.to_pylist())
    if hasattr(encoded, "chunks"):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if hasattr(encoded, "chunks"):  # in some versions
            encoded = encoded.chunk(0)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    distinct = encoded.dictionary.to_pylist()
    if own:
        # A dictionary of the user's own may hold a value twice, or one that no row has.
        used, places = np.unique(codes, return_inverse=True)
        distinct, again = _of_objects([distinct[at] for at in used.tolist()])
        codes = again[places]
    return distinct, codes


def _of_integers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(column):
        return column, np.zeros(0, np.int64)
    least, most = int(column.min()), int(column.max())
    _require_small(most)
    span = most - least + 1
    wide = column.astype(np.int64, copy=False)  # differences of short ones do not fit
    if span > 4 * len(column) + 1024:
        return np.unique(wide, return_inverse=True)
    seen = np.zeros(span, bool)
    seen[wide - least] = True
    ranks = np.cumsum(seen) - 1
    return np.flatnonzero(seen) + least, ranks[wide - least]


def _of_objects(values: list[Any]) -> tuple[list[Any], np.ndarray]:
    kinds = {value.__class__ for value in values}
    if not kinds <= _KIND_OF.keys():
        values = [plain(value) for value in values]  # 1 and np.int64(1) are one key
    if tuple in kinds:
        values = [tuple(map(plain, v)) if isinstance(v, tuple) else v for v in values]
    places: dict[Any, int] = {}
    try:
        if tuple in kinds:
            # (1, 2) and (True, 2) are equal, and only one of them is a key.
            codes = [places.setdefault((_classes(v), v), len(places)) for v in values]
        else:
            codes = [places.setdefault((v.__class__, v), len(places)) for v in values]
    except TypeError:
        odd = next(value for value in values if not _hashable(value))
        raise UnsuitableKey(
            f"the key {odd!r:.60} is none: keys are integers, text, bytes or tuples of these"
        ) from None
    return [value for _, value in places], np.array(codes, np.int64)


def _classes(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([part.__class__ for part in value])
    return value.__class__


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _tuples(columns: list[tuple[Any, np.ndarray]]) -> tuple[list[Any], np.ndarray]:
    """Columns side by side as keys of several parts."""
    joint = columns[0][1]
    for distinct, codes in columns[1:]:
        joint = joint * max(len(distinct), 1) + codes
        joint = np.unique(joint, return_inverse=True)[1]
    _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
    parts = [[plain(distinct[code]) for code in of[first]] for distinct, of in columns]
    return list(zip(*parts, strict=True)), codes


def _in_order(distinct: Any, kind: str | None) -> tuple[Keys, np.ndarray]:
    """Distinct values as keys, and where each of these stood among the values."""
    found, packed = _packed(distinct, kind)
    if found == "int":
        blob = np.asarray(packed, "<i8")
        hashes = hashes_of_ints(blob)
        order = np.argsort(hashes)
        bounds = np.arange(0, 8 * len(blob) + 1, 8)
        return Keys(found, hashes[order], blob[order].view("u1"), bounds), order
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    every = _hashed(found, np.frombuffer(b"".join(packed), "u1"), bounds_of(lengths))
    return lined_up(every, np.argsort(every.hashes))[:2]


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


def _packed(distinct: Any, kind: str | None) -> tuple[str, Any]:
    """Distinct values as bytes (integers as they are), and their kind."""
    if isinstance(distinct, np.ndarray):
        kinds: set[type] = {int} if len(distinct) else set()
    else:
        kinds = set(map(type, distinct))
    if not kinds:
        return kind or "int", []
    found = _KIND_OF.get(next(iter(kinds))) if len(kinds) == 1 else None
    if found is None or kind not in (None, found):
        raise _mixed_kinds(distinct, kind, kinds)
    if found == "int":
        if isinstance(distinct, np.ndarray):
            _require_small(int(distinct.max()))
        try:
            return found, np.asarray(distinct, "<i8")
        except OverflowError:
            odd = next(n for n in distinct if not _INTS.min <= n <= _INTS.max)
            raise UnsuitableKey(f"the key {odd} does not fit 64 bits with a sign") from None
    return found, list(distinct) if found == "bytes" else list(map(_bytes_of, distinct))


_KIND_OF: dict[type, str] = {int: "int", str: "text", bytes: "bytes", tuple: "tuple"}


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        if isinstance(value, str):
            return value.encode()
        parts = [plain(part) for part in value]
        if any(map(is_missing, parts)):
            raise _null()
        if not parts or not all(type(part) in _PARTS for part in parts):
            raise TypeError
        packed: bytes = msgpack.packb(parts)
    except (UnicodeEncodeError, OverflowError, TypeError):
        raise UnsuitableKey(
            f"the key {value!r:.60} is none: text is what UTF-8 can write, integers have 64 bits, "
            "and a tuple has at least one part and no tuples within"
        ) from None
    return packed


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


def _require_small(key: int) -> None:
    if key > _INTS.max:
        raise UnsuitableKey(f"the key {key} does not fit 64 bits with a sign")


def _null() -> UnsuitableKey:
    return UnsuitableKey("some keys are null: drop these events, or give them a key")


def _mixed_kinds(distinct: Any, kind: str | None, kinds: set[type]) -> UnsuitableKey:
    if any(map(is_missing, distinct)):
        return _null()
    names = sorted(_KIND_OF.get(kind, kind.__name__) for kind in kinds)
    if kind is None:
        return UnsuitableKey(
            f"keys are all integers, all text, all bytes or all tuples of these, not {names}"
        )
    odd = plain(next(v for v in distinct if _KIND_OF.get(v.__class__) != kind))
    return UnsuitableKey(
        f"the key {odd!r:.60} is not of the kind of those before it ({kind}): 1 and '1' are two "
        "keys, so convert the column first"
    )
