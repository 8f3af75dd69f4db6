"""Reads key columns as distinct keys in order, and a code for each event.

All keys of one set of windows are of one kind (``mta.keyed.key_types``). Internally, a key is its
bytes and their hash. The hash is a one-to-one mix of the bits for kinds whose keys are 64-bit
integers, and xxh3_64 for the other kinds.

Keys are ordered by hash and then by bytes, so keys with equal hashes are adjacent. A lookup
compares the bytes of all keys together, and goes key by key only where hashes collide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import numpy as np
import xxhash

from mta.columns.reading import NEVER_MISSING, is_missing, objects
from mta.errors import UnsuitableKey
from mta.kernels.native import bounds_of, group, inverse, items_of
from mta.keyed.key_types import (
    ALLOWED,
    MAX_KEY_BYTES,
    WHOLE,
    ZONED,
    as_key,
    column_of,
    kind_of,
    null_key,
    of_moments,
    packed_keys,
    parts_of,
    unpacked,
)

#: The hash of a key's bytes. Tests replace it with a narrower hash to provoke collisions.
hash_of: Callable[[bytes], int] = xxhash.xxh3_64_intdigest
#: The bounds of a single integer key, and a mask of its bits.
_WORD, _WORD_BITS = np.array([0, 8]), (1 << 64) - 1
#: Fewer hashes than this are sorted at once.
_FEW = 1 << 12


@dataclass(slots=True)
class Keys:
    """Distinct keys in order. Key i has the bytes ``blob[bounds[i] : bounds[i + 1]]``."""

    kind: str
    hashes: np.ndarray
    blob: np.ndarray
    bounds: np.ndarray

    @classmethod
    def none(cls, kind: str) -> Keys:
        """Return an empty set of keys of a kind."""
        return cls(kind, np.zeros(0, "u8"), np.zeros(0, "u1"), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def is_whole(self) -> bool:
        """Return whether keys are integers, which have distinct hashes."""
        return self.kind in WHOLE

    def take(self, places: np.ndarray) -> Keys:
        """Return the keys at some places; they are in order if the places increase."""
        if self.is_whole:
            blob = self.blob.view("<i8")[places].view("u1")
            return Keys(self.kind, self.hashes[places], blob, _bounds_of_whole(len(places)))
        starts = self.bounds[places]
        lengths = self.bounds[places + 1] - starts
        blob = self.bytes_at(starts, lengths)
        return Keys(self.kind, self.hashes[places], blob, bounds_of(lengths))

    def bytes_at(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return ranges of the blob, concatenated."""
        nothing = np.zeros(len(starts), np.int64)
        return np.frombuffer(items_of([self.blob.data], 1, nothing, starts, lengths), "u1")

    def cut(self, start: int, stop: int) -> Keys:
        """Return the keys from ``start`` to ``stop``, as views."""
        bounds = self.bounds[start : stop + 1]
        blob = self.blob[bounds[0] : bounds[-1]]
        return Keys(self.kind, self.hashes[start:stop], blob, bounds - bounds[0])

    def packed(self, place: int) -> bytes:
        """Return the bytes of one key."""
        return self.blob[self.bounds[place] : self.bounds[place + 1]].tobytes()

    def at(self, place: int) -> Any:
        """Return one key as a public value."""
        return unpacked(self.kind, self.packed(place))

    def as_column(self) -> np.ndarray:
        """Return all keys as public values: an array of their type, or objects."""
        if self.is_whole:
            return column_of(self.kind, self.blob.view("<i8"))
        return objects([self.at(place) for place in range(len(self))])

    def find(self, wanted: Keys) -> np.ndarray:
        """Return the place of each wanted key in these keys, -1 for a missing key."""
        hashes, count = self.hashes, len(wanted.hashes)
        if not len(hashes) or not count:
            return np.full(count, -1)
        if self.same_as(wanted):
            return np.arange(count)
        places = hashes.searchsorted(wanted.hashes)
        np.minimum(places, len(hashes) - 1, out=places)
        places[hashes[places] != wanted.hashes] = -1
        if self.is_whole:  # integers are hashed one to one
            return places
        hits = np.flatnonzero(places >= 0)
        if not same_bytes(self, places[hits], wanted, hits).all():
            for hit in hits.tolist():
                places[hit] = self._find_one(int(places[hit]), wanted, hit)
        return places

    def same_as(self, others: Keys) -> bool:
        """Return whether these are the same keys; cheap if they differ."""
        mine, other = self.hashes, others.hashes
        if len(mine) != len(other) or not (mine == other).all():
            return False
        return self.is_whole or (
            np.array_equal(self.bounds, others.bounds) and np.array_equal(self.blob, others.blob)
        )

    def _find_one(self, place: int, wanted: Keys, at: int) -> int:
        """Return the place of a key; ``place`` is the first key with the same hash."""
        packed = wanted.packed(at)
        while place < len(self) and self.hashes[place] == wanted.hashes[at]:
            if self.packed(place) == packed:
                return place
            place += 1
        return -1


def _bounds_of_whole(count: int) -> np.ndarray:
    """Return the bounds of ``count`` integer keys in their blob."""
    return np.arange(0, 8 * count + 1, 8)


def same_bytes(one: Keys, places: np.ndarray, other: Keys, others: np.ndarray) -> np.ndarray:
    """Return which pairs of keys with equal hashes have the same bytes."""
    if not len(places) or one.is_whole:  # integers are hashed one to one
        return np.ones(len(places), bool)
    starts, begins = one.bounds[places], other.bounds[others]
    lengths = one.bounds[places + 1] - starts
    same: np.ndarray = lengths == other.bounds[others + 1] - begins
    if not same.all():
        starts, begins, lengths = starts[same], begins[same], lengths[same]
    equal = one.bytes_at(starts, lengths) == other.bytes_at(begins, lengths)
    if not equal.all():
        unlike = np.repeat(np.arange(len(lengths)), lengths)[~equal]
        same[np.flatnonzero(same)[unlike]] = False
    return same


def merged(parts: Sequence[Keys]) -> tuple[Keys, np.ndarray, np.ndarray]:
    """Return the distinct keys of several sets, the order of all keys, and their places.

    The order has positions in the concatenated sets, by key and then by set. The places are those
    among the distinct keys, in the same order.
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
    """Do the same as ``merged`` for concatenated keys; ``order`` sorts by hash; ties keep it."""
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
    """Return the range of sorted hashes from ``low`` on, and before ``high`` if given.

    >>> range_of(np.array([3, 5, 5, 9], "u8"), 4, 9)
    (1, 3)
    """
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    if high is None:
        return start, len(hashes)
    return start, int(np.searchsorted(hashes, np.uint64(high), side="left"))


# --- arguments ------------------------------------------------------------------------------------


def read_keys(given: Any, kind: str | None) -> tuple[Keys, np.ndarray]:
    """Return the distinct keys of a column, and the place of each event's key among them.

    The column is a list, a numpy, pandas, polars or Arrow column, or a tuple of columns for keys
    with several parts. ``kind`` is the kind of the existing keys, if any. Raises UnsuitableKey.
    """
    found = distinct_keys(given)
    keys, order = _in_order(_kind_of(found, kind), found.packed)
    return keys, inverse(order)[found.codes]


def read_key(given: Any, kind: str | None) -> Keys:
    """Read one key. Raises UnsuitableKey."""
    if kind is not None and _KINDS.get(type(given)) == kind:
        return _one(kind, packed_keys(kind, [given])[0])
    found = distinct_keys([given])
    return _in_order(_kind_of(found, kind), found.packed)[0]


def hash_and_bytes(given: Any, kind: str | None) -> tuple[int, bytes]:
    """Return the hash and the bytes of one key. Raises UnsuitableKey."""
    if kind == "int" and type(given) is int and -(1 << 63) <= given < 1 << 63:
        return mixed(given & _WORD_BITS), given.to_bytes(8, "little", signed=True)
    if kind in ("text", "bytes") and _KINDS.get(type(given)) == kind:
        packed: bytes = packed_keys(kind, [given])[0]
        if len(packed) <= MAX_KEY_BYTES:
            return hash_of(packed), packed
    found = read_key(given, kind)
    return int(found.hashes[0]), found.packed(0)


def of_packed(kind: str, packed: Sequence[bytes]) -> Keys:
    """Return keys from their bytes."""
    return _in_order(kind, np.frombuffer(b"".join(packed), "<i8") if kind in WHOLE else packed)[0]


def _kind_of(found: Distinct, kind: str | None) -> str:
    """Return the kind of distinct keys; it must be ``kind`` if given. Raises UnsuitableKey."""
    if found.kind is None or kind in (None, found.kind):
        return found.kind or kind or "int"
    odd = _in_order(found.kind, found.packed[:1])[0].at(0)
    raise UnsuitableKey(
        f"the key {odd!r:.60} is not of the same kind as earlier keys ({kind}): 1 and '1' are "
        "different keys, so convert the column first"
    )


def _in_order(kind: str, packed: Any) -> tuple[Keys, np.ndarray]:
    """Return distinct integers or bytes as keys in order, and the previous position of each."""
    if len(packed) == 1:
        return _one(kind, packed[0]), np.zeros(1, np.int64)
    if kind in WHOLE:
        blob = np.asarray(packed, "<i8")
        hashes = mixed(blob.view("<u8"))
        order = _order_of(hashes)
        bounds = _bounds_of_whole(len(blob))
        return Keys(kind, hashes[order], blob[order].view("u1"), bounds), order
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    if int(lengths.max(initial=0)) > MAX_KEY_BYTES:
        raise _too_long(kind, packed[int(lengths.argmax())])
    hashes = np.fromiter(map(hash_of, packed), "u8", len(packed))
    every = Keys(kind, hashes, np.frombuffer(b"".join(packed), "u1"), bounds_of(lengths))
    return distinct_of(every, _order_of(hashes))[:2]


def _order_of(hashes: np.ndarray) -> np.ndarray:
    """Return the order of hashes: by their first halves, then of the few that share one."""
    if len(hashes) < _FEW:
        return np.argsort(hashes)
    order = group(hashes >> np.uint64(32), (1 << 32) - 1)
    lined = hashes[order]
    if (lined[1:] < lined[:-1]).any():
        order = order[np.argsort(lined, kind="stable")]
    return order


def _one(kind: str, packed: Any) -> Keys:
    """Return a single key. Servers read single keys, for which columns cost too much."""
    if kind in WHOLE:
        raw = int(packed).to_bytes(8, "little", signed=True)
        hashes = np.array([mixed(int(packed) & _WORD_BITS)], "u8")
        return Keys(kind, hashes, np.frombuffer(raw, "u1"), _WORD)
    if len(packed) > MAX_KEY_BYTES:
        raise _too_long(kind, packed)
    hashes = np.array([hash_of(packed)], "u8")
    return Keys(kind, hashes, np.frombuffer(packed, "u1"), np.array([0, len(packed)]))


def _too_long(kind: str, packed: bytes) -> UnsuitableKey:
    return UnsuitableKey(
        f"the key {unpacked(kind, packed)!r:.60} has {len(packed)} bytes; a key has at most "
        f"{MAX_KEY_BYTES}: take a digest of it"
    )


def mixed(words: Any) -> Any:
    """Hash unsigned integers, an array or a single one, one to one: the finisher of splitmix64."""
    words = ((words ^ (words >> 30)) * 0xBF58476D1CE4E5B9) & _WORD_BITS
    words = ((words ^ (words >> 27)) * 0x94D049BB133111EB) & _WORD_BITS
    return words ^ (words >> 31)


def ints_of_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the integers that have these hashes."""
    words = hashes ^ (hashes >> np.uint64(31)) ^ (hashes >> np.uint64(62))
    words = words * np.uint64(0x319642B2D24D8EC3)  # the inverse of the multiplications in ``mixed``
    words = (words ^ (words >> np.uint64(27)) ^ (words >> np.uint64(54))) * np.uint64(
        0x96DE1B173F119089
    )
    words = words ^ (words >> np.uint64(30)) ^ (words >> np.uint64(60))
    found: np.ndarray = words.view("<i8")
    return found


_INTS = np.iinfo("i8")


class Distinct(NamedTuple):
    """The distinct keys of a column in any order, and the place of each row's key among them."""

    kind: str | None
    """None if there are no rows."""
    packed: Any
    """The keys as an array of integers, or as a list of bytes."""
    codes: np.ndarray

    def of(self, rows: np.ndarray) -> Distinct:
        """Return the keys of other rows, each of which repeats a row of these."""
        return self._replace(codes=self.codes[rows])


_NOTHING = Distinct(None, [], np.zeros(0, np.int64))


def distinct_keys(given: Any) -> Distinct:
    """Return the distinct keys of a column, or of a tuple of columns. Raises UnsuitableKey."""
    if not isinstance(given, tuple):
        return _distinct(given)
    columns = [_distinct(column) for column in given]
    if len({len(column.codes) for column in columns}) != 1:
        raise UnsuitableKey("a tuple of columns needs at least one column, all of equal length")
    return _joined(columns)


def codes_of(columns: Sequence[Any]) -> np.ndarray:
    """Return a number for each row of some columns, equal for equal keys. Raises UnsuitableKey."""
    return _joint([_distinct(column).codes for column in columns])


def common_codes(one: Any, other: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each row of two columns, equal for equal keys. Raises UnsuitableKey."""
    found, others = _distinct(one), _distinct(other)
    if not len(found.codes) or not len(others.codes):
        return found.codes, others.codes + len(found.packed)
    if found.kind != others.kind:
        raise UnsuitableKey(
            f"keys are {found.kind} here and {others.kind} there, and so never equal: convert one "
            "of the columns first"
        )
    codes = _united([found, others]).codes
    return codes[: len(found.codes)], codes[len(found.codes) :]


def _joint(columns: list[np.ndarray]) -> np.ndarray:
    joint, *others = columns
    for codes in others:
        joint = _of_whole(None, joint * (int(codes.max(initial=0)) + 1) + codes).codes
    return joint


def _distinct(column: Any) -> Distinct:
    module = type(column).__module__.partition(".")[0]
    if module == "polars" and hasattr(column, "to_arrow") and not hasattr(column, "columns"):
        return _of_polars(column)
    if module == "pyarrow" and hasattr(column, "null_count"):
        return _of_arrow(column)
    if hasattr(column, "factorize"):
        return _of_pandas(column)
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise UnsuitableKey(f"keys have one dimension, not {column.ndim}")
        return _of_array(column)
    if isinstance(column, (str, bytes)) or not isinstance(column, Sequence):
        raise UnsuitableKey(
            f"keys are a column with a key for each event, not {type(column).__name__}: give a "
            "list, a numpy, pandas, polars or Arrow column, or a tuple of columns"
        )
    return _of_objects(list(column))


def _joined(columns: list[Distinct]) -> Distinct:
    """Return several columns as tuple keys."""
    codes = _joint([column.codes for column in columns])
    if not len(codes):
        return Distinct("tuple", [], codes)
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    parts = []
    for kind, packed, of in columns:
        values = parts_of(str(kind), packed)
        parts.append([values[code] for code in of[first].tolist()])
    pack = msgpack.Packer().pack
    return Distinct("tuple", list(map(pack, zip(*parts, strict=True))), codes)


# --- libraries ------------------------------------------------------------------------------------


def _of_pandas(column: Any) -> Distinct:
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "categories"):
        codes = np.asarray(getattr(column, "cat", column).codes)
        return _of_dictionary(dtype.categories, codes)
    if hasattr(dtype, "pyarrow_dtype"):
        return _of_arrow(column.array.__arrow_array__())
    try:
        codes, distinct = column.factorize()
    except TypeError:  # not all values are hashable
        return _of_objects(column.tolist())
    if len(codes) and codes.min() < 0:
        raise null_key()
    own = distinct.dtype
    if getattr(own, "kind", "") in "iubfmM":
        zone = getattr(own, "tz", None)
        if zone is not None:
            distinct = distinct.tz_convert(None)
        numbers = distinct.to_numpy(dtype=getattr(own, "numpy_dtype", None))
        return _of_array(numbers, zone is not None).of(codes)
    values = distinct.tolist()
    kinds = {value.__class__ for value in values}
    # pandas treats 1 and True as one value, and cuts text at a NUL character.
    certain = kinds == {bytes} or (kinds == {str} and "\0" not in "".join(column))
    return _of_objects(values).of(codes) if certain else _of_objects(column.tolist())


def _of_polars(column: Any) -> Distinct:
    name, dtype = str(column.dtype), column.dtype
    if column.null_count():
        raise null_key()
    if name.startswith(("Bool", "Float", "Date", "Duration")):
        return _of_array(column.to_numpy(), getattr(dtype, "time_zone", None) is not None)
    if name == "Time":
        return _of_clock(column.to_physical().to_numpy(), 1000)
    if name.startswith(_POLARS):
        with suppress(ModuleNotFoundError):  # without pyarrow, read them as objects
            return _of_arrow(column.to_arrow())
    return _of_objects(column.to_list())


#: The polars types that Arrow has too; polars objects would become addresses in Arrow.
_POLARS = (
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    "String", "Binary", "Categorical", "Enum", "Decimal",
)  # fmt: skip


def _of_arrow(column: Any) -> Distinct:
    if column.null_count:
        raise null_key()
    if not len(column):
        return _NOTHING
    kind = column.type
    name = str(kind)
    if hasattr(kind, "index_type"):
        return _of_dictionaries(column)
    if name.startswith(("time32", "time64")):
        whole = _as_numpy(column.cast("int64" if name.startswith("time64") else "int32"))
        return _of_clock(whole, *_UNITS[name[6:]])
    if name.startswith("date64"):
        column = column.cast("date32")
    if name.startswith(("bool", "halffloat", "float", "double", "date", "timestamp", "duration")):
        return _of_array(_as_numpy(column), getattr(kind, "tz", None) is not None)
    try:
        encoded = column.dictionary_encode()
    except NotImplementedError:
        return _of_objects(column.to_pylist())
    return _of_encoded(encoded, name)


#: The Arrow types whose values have the bytes of keys.
_OF_BYTES = {
    "string": "text", "large_string": "text", "binary": "bytes", "large_binary": "bytes",
}  # fmt: skip


def _of_encoded(encoded: Any, name: str) -> Distinct:
    """Return the keys of an Arrow column that is encoded: its dictionary has each value once."""
    if hasattr(encoded, "chunks"):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if hasattr(encoded, "chunks"):  # in some versions
            encoded = encoded.chunk(0)
    codes = _as_numpy(encoded.indices).astype(np.int64, copy=False)
    if name in _OF_BYTES:
        raw = _as_numpy(encoded.dictionary.cast("large_binary"))
        return Distinct(_OF_BYTES[name], raw.tolist(), codes)
    if name.startswith(("int", "uint")):
        return _of_array(_as_numpy(encoded.dictionary)).of(codes)
    return _of_objects(encoded.dictionary.to_pylist()).of(codes)


#: For each unit, how many units equal how many microseconds.
_UNITS = {"[s]": (1, 1_000_000), "[ms]": (1, 1000), "[us]": (1, 1), "[ns]": (1000, 1)}


def _of_dictionaries(column: Any) -> Distinct:
    """Return the keys of chunks; a unified dictionary may be too long for Arrow's indices."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    parts = [_of_dictionary(c.dictionary, _as_numpy(c.indices)) for c in chunks if len(c)]
    return parts[0] if len(parts) == 1 else _united(parts)


def _united(parts: Sequence[Distinct]) -> Distinct:
    """Return the keys of several columns of one kind, one after the other."""
    starts = np.cumsum([0, *(len(part.packed) for part in parts)]).tolist()
    codes = [part.codes + start for part, start in zip(parts, starts, strict=False)]
    kind = parts[0].kind
    if kind in WHOLE:
        found = _of_whole(kind, np.concatenate([part.packed for part in parts]))
    else:
        found = _of_bytes(kind, [key for part in parts for key in part.packed])
    return found.of(np.concatenate(codes))


def _of_dictionary(values: Any, codes: np.ndarray) -> Distinct:
    """Return the keys of rows, given as indices into values, some of which may be duplicates."""
    if len(codes) and int(codes.min()) < 0:
        raise null_key()
    used, places = np.unique(codes, return_inverse=True)
    return _distinct(values.take(used)).of(places)


def _as_numpy(column: Any) -> np.ndarray:
    given = {} if hasattr(column, "chunks") else {"zero_copy_only": False}
    found: np.ndarray = column.to_numpy(**given)
    return found


# --- arrays and lists -----------------------------------------------------------------------------


def _of_array(column: np.ndarray, has_zone: bool = False) -> Distinct:
    if isinstance(column, np.ma.MaskedArray):
        if column.mask.any():
            raise null_key()
        column = column.data
    kind = column.dtype.kind
    if kind in "iu":
        if len(column) and int(column.max()) > _INTS.max:
            raise UnsuitableKey(f"the key {int(column.max())} does not fit 64 bits with a sign")
        return _of_whole("int", column)
    if kind == "b":
        return _of_whole("bool", column.astype("i8"))
    if kind == "f":
        doubles = column.astype("f8")
        if np.isnan(doubles).any():
            raise null_key()
        if (doubles != column).any():
            raise UnsuitableKey(f"some keys of {column.dtype} are not doubles: convert the column")
        return _of_whole("float", (doubles + 0.0).view("i8"))
    if kind in "mM":
        found, whole = of_moments(column)
        return _of_whole(ZONED if has_zone else found, whole)
    return _of_objects(column.tolist())


def _of_clock(whole: np.ndarray, units: int, micros: int = 1) -> Distinct:
    """Return the keys of times of day, of which ``units`` units equal ``micros`` microseconds."""
    found, rest = np.divmod(whole.astype("i8") * micros, units)
    if rest.any():
        raise UnsuitableKey("some keys are finer than a microsecond; round them first")
    return _of_whole("time", found)


def _of_whole(kind: str | None, column: np.ndarray) -> Distinct:
    """Return the keys of a column of integers."""
    if not len(column):
        return _NOTHING
    least, most = int(column.min()), int(column.max())
    span = most - least + 1
    wide = column.astype(np.int64, copy=False)  # differences of narrow integers may overflow
    if span == 1:
        return Distinct(kind, wide[:1], np.zeros(len(column), np.int64))
    if span > 4 * len(column) + 1024:
        hashes = mixed(wide.view("<u8"))  # no two integers have the same
        order = _order_of(hashes)
        lined = hashes[order]
        first = np.append(True, lined[1:] != lined[:-1])
        return Distinct(kind, wide[order[first]], (np.cumsum(first) - 1)[inverse(order)])
    seen = np.zeros(span, bool)
    seen[wide - least] = True
    ranks = np.cumsum(seen) - 1
    return Distinct(kind, np.flatnonzero(seen) + least, ranks[wide - least])


def _of_bytes(kind: str | None, packed: list[Any]) -> Distinct:
    """Return the keys of a list of bytes, or of other objects that are equal for equal keys."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(key, len(places)) for key in packed]
    return Distinct(kind, list(places), np.array(codes, np.int64))


def _of_objects(values: list[Any]) -> Distinct:
    """Return keys from Python values of one type."""
    if not values:
        return _NOTHING
    if not _SIMPLE.issuperset(map(type, values)):
        values = list(map(as_key, values))
    kind = _kind_of_all(values)
    if kind in WHOLE:
        return _of_whole(kind, packed_keys(kind, values))
    if kind == "text" or kind == "bytes":
        found = _of_bytes(kind, values)  # so that only distinct objects are packed
        return found._replace(packed=packed_keys(kind, found.packed))
    found = _of_bytes(kind, packed_keys(kind, values))
    if kind == "tuple":
        _require_unequal(values, found.codes)
    return found


#: Types whose values are keys without a conversion.
_SIMPLE = frozenset({int, str, bytes, bool, float})
#: The simple types whose values are never missing, and the kinds of their keys.
_KINDS = {int: "int", str: "text", bytes: "bytes", bool: "bool"}


def _kind_of_all(values: list[Any]) -> str:
    """Return the common kind of some values. Raises UnsuitableKey."""
    if len(set(map(type, values))) == 1 and type(values[0]) in NEVER_MISSING & _SIMPLE:
        return str(kind_of(values[0]))
    if any(map(is_missing, values)):
        raise null_key()
    kinds: dict[Any, Any] = {}
    for value in values:
        kinds.setdefault(kind_of(value) or type(value), value)
    for kind, value in kinds.items():
        if isinstance(kind, type):
            raise UnsuitableKey(f"the key {value!r:.60} is a {kind.__name__}: {ALLOWED}")
    if len(kinds) > 1:
        raise UnsuitableKey(
            f"keys are all of one type, not {sorted(kinds)}: 1, True and '1' are different keys, "
            "so convert the column first"
        )
    found: str = next(iter(kinds))
    return found


def _require_unequal(values: list[Any], codes: np.ndarray) -> None:
    """Raise UnsuitableKey for different keys that are equal in Python, such as (1,) and (True,)."""
    first: dict[Any, int] = {}
    for value, code in zip(values, codes.tolist(), strict=True):
        if first.setdefault(value, code) != code:
            raise UnsuitableKey(
                f"the key {value!r:.60} equals another key with parts of other types: 1, 1.0 "
                "and True are different keys, so convert the parts first"
            )
