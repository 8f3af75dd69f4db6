"""Columns of keys of every library, as distinct keys and the place of each row's key among them.

By the column's own library where it has one: they hash, which is faster than to sort. No library is
imported here: a column brings its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import NEVER_MISSING, is_missing
from mta.errors import UnsuitableKey
from mta.keyed.key_types import (
    ALLOWED,
    BYTES,
    WHOLE,
    ZONED,
    as_key,
    column_of,
    kind_of,
    null_key,
    of_moments,
    packed_keys,
)

_INTS = np.iinfo("i8")


class Distinct(NamedTuple):
    """The distinct keys of a column in any order, and for each row the place of its key."""

    kind: str | None
    """None where there are no rows."""
    packed: Any
    """Whole numbers of the kind as an array, else bytes as a list."""
    codes: np.ndarray


_NOTHING = Distinct(None, [], np.zeros(0, np.int64))


def distinct_keys(given: Any) -> Distinct:
    """A column of keys, or a tuple of columns for keys of several parts. Raises UnsuitableKey."""
    if not isinstance(given, tuple):
        return _distinct(given)
    columns = [_distinct(column) for column in given]
    if len({len(column.codes) for column in columns}) != 1:
        raise UnsuitableKey("a tuple of columns has at least one, and all are of one length")
    return _joined(columns)


def codes_of(columns: Sequence[Any]) -> np.ndarray:
    """For each row of columns side by side a number that is the same for the same key.

    Raises UnsuitableKey.
    """
    return _joint([_distinct(column).codes for column in columns])


def _joint(columns: list[np.ndarray]) -> np.ndarray:
    joint, *others = columns
    for codes in others:
        joint = joint * (int(codes.max(initial=0)) + 1) + codes
        joint = np.unique(joint, return_inverse=True)[1]
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
    """Columns side by side as keys of several parts."""
    joint = _joint([column.codes for column in columns])
    _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
    if not len(codes):
        return Distinct("tuple", [], codes)
    parts = []
    for kind, packed, of in columns:
        if kind in WHOLE:
            parts.append(column_of(kind, packed[of[first]]).tolist())
        else:
            unpack = BYTES[str(kind)].unpack
            parts.append([unpack(packed[code]) for code in of[first].tolist()])
    return Distinct("tuple", packed_keys("tuple", list(zip(*parts, strict=True))), codes)


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
    except TypeError:  # not all values can be hashed
        return _of_objects(column.tolist())
    if len(codes) and codes.min() < 0:
        raise null_key()
    own = distinct.dtype
    if getattr(own, "kind", "") in "iubfmM":
        zone = getattr(own, "tz", None)
        if zone is not None:
            distinct = distinct.tz_convert(None)
        numbers = distinct.to_numpy(dtype=getattr(own, "numpy_dtype", None))
        return _again(_of_array(numbers, zone is not None), codes)
    values = distinct.tolist()
    kinds = {value.__class__ for value in values}
    # To pandas 1 and True are one value, and text ends where it has a zero.
    certain = kinds == {bytes} or (kinds == {str} and "\0" not in "".join(column))
    return _again(_of_objects(values), codes) if certain else _of_objects(column.tolist())


def _of_polars(column: Any) -> Distinct:
    name, dtype = str(column.dtype), column.dtype
    if column.null_count():
        raise null_key()
    if name.startswith(("Bool", "Float", "Date", "Duration")):
        return _of_array(column.to_numpy(), getattr(dtype, "time_zone", None) is not None)
    if name == "Time":
        return _of_clock(column.to_physical().to_numpy(), 1000)
    if name.startswith(_POLARS):
        with suppress(ModuleNotFoundError):  # without pyarrow as objects
            return _of_arrow(column.to_arrow())
    return _of_objects(column.to_list())


#: What polars has that Arrow has too; what it calls objects are addresses there.
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
    return _of_encoded(encoded, are_whole=name.startswith(("int", "uint")))


def _of_encoded(encoded: Any, *, are_whole: bool) -> Distinct:
    """A column that Arrow has encoded: its dictionary has each value once."""
    if hasattr(encoded, "chunks"):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if hasattr(encoded, "chunks"):  # in some versions
            encoded = encoded.chunk(0)
    codes = _as_numpy(encoded.indices).astype(np.int64, copy=False)
    if are_whole:
        return _again(_of_array(_as_numpy(encoded.dictionary)), codes)
    return _again(_of_objects(encoded.dictionary.to_pylist()), codes)


#: How many of a unit make how many microseconds.
_UNITS = {"[s]": (1, 1_000_000), "[ms]": (1, 1000), "[us]": (1, 1), "[ns]": (1000, 1)}


def _of_dictionaries(column: Any) -> Distinct:
    """A column with dictionaries of its own, in each chunk another one.

    They are laid end to end: united by Arrow they may be too long for its type of indices.
    """
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    parts = [_of_dictionary(c.dictionary, _as_numpy(c.indices)) for c in chunks if len(c)]
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.packed) for part in parts)]).tolist()
    codes = [part.codes + start for part, start in zip(parts, starts, strict=False)]
    kind = parts[0].kind
    if kind in WHOLE:
        found = _of_whole(kind, np.concatenate([part.packed for part in parts]))
    else:
        found = _of_bytes(kind, [key for part in parts for key in part.packed])
    return _again(found, np.concatenate(codes))


def _of_dictionary(values: Any, codes: np.ndarray) -> Distinct:
    """Rows by their places among values, which may hold one twice, or one that no row has."""
    if len(codes) and int(codes.min()) < 0:
        raise null_key()
    used, places = np.unique(codes, return_inverse=True)
    return _again(_distinct(values.take(used)), places)


def _as_numpy(column: Any) -> np.ndarray:
    found: np.ndarray = (
        column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    )
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
            raise UnsuitableKey(f"some keys of {column.dtype} are no doubles: convert the column")
        return _of_whole("float", (doubles + 0.0).view("i8"))
    if kind in "mM":
        found, whole = of_moments(column)
        return _of_whole(ZONED if has_zone else found, whole)
    return _of_objects(column.tolist())


def _of_clock(whole: np.ndarray, units: int, micros: int = 1) -> Distinct:
    """Times of day, in units of which so many make so many microseconds."""
    found, rest = np.divmod(whole.astype("i8") * micros, units)
    if rest.any():
        raise UnsuitableKey("some keys are finer than a microsecond; round them first")
    return _of_whole("time", found)


def _of_whole(kind: str | None, column: np.ndarray) -> Distinct:
    """Whole numbers of a kind."""
    if not len(column):
        return _NOTHING
    least, most = int(column.min()), int(column.max())
    span = most - least + 1
    wide = column.astype(np.int64, copy=False)  # differences of short ones do not fit
    if span > 4 * len(column) + 1024:
        return Distinct(kind, *np.unique(wide, return_inverse=True))
    seen = np.zeros(span, bool)
    seen[wide - least] = True
    ranks = np.cumsum(seen) - 1
    return Distinct(kind, np.flatnonzero(seen) + least, ranks[wide - least])


def _of_bytes(kind: str | None, packed: list[bytes]) -> Distinct:
    """Keys of a kind as bytes."""
    places: dict[bytes, int] = {}
    codes = [places.setdefault(key, len(places)) for key in packed]
    return Distinct(kind, list(places), np.array(codes, np.int64))


def _of_objects(values: list[Any]) -> Distinct:
    """Keys as Python values, all of one type."""
    if not values:
        return _NOTHING
    if not _SIMPLE.issuperset(map(type, values)):
        values = list(map(as_key, values))
    kind = _kind_of_all(values)
    if kind in WHOLE:
        return _of_whole(kind, packed_keys(kind, values))
    if kind == "text" or kind == "bytes":
        # Equal objects are equal keys: those that are distinct are packed.
        places: dict[Any, int] = {}
        codes = np.array([places.setdefault(v, len(places)) for v in values], np.int64)
        return Distinct(kind, packed_keys(kind, list(places)), codes)
    found = _of_bytes(kind, packed_keys(kind, values))
    if kind == "tuple":
        _require_unequal(values, found.codes)
    return found


#: Types of which every value is a key as it is.
_SIMPLE = frozenset({int, str, bytes, bool, float})


def _kind_of_all(values: list[Any]) -> str:
    """The one kind of some values. Raises UnsuitableKey."""
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
    """Raise UnsuitableKey for tuples that are equal in Python and different keys: 1 and True."""
    first: dict[Any, int] = {}
    for value, code in zip(values, codes.tolist(), strict=True):
        if first.setdefault(value, code) != code:
            raise UnsuitableKey(
                f"the key {value!r:.60} equals another one whose parts are of other types: 1, 1.0 "
                "and True are different keys, so convert the parts first"
            )


def _again(found: Distinct, codes: np.ndarray) -> Distinct:
    """The keys of rows of which each has one of the rows of ``found``."""
    return found._replace(codes=found.codes[codes])
