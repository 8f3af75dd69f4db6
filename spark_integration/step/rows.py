"""A bucket's rows in canonical order, cut by key; whole columns at a time.

A micro-batch reaches a worker in any order, and a replay or a speculative twin in another one.
Sorted by key, time and then every other column, the same rows always give the same pages, whose
names are their content: so a replay writes nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from mta.errors import InvalidTime, InvalidValue
from spark_integration.errors import NullKey
from spark_integration.plan import Plan
from stores.errors import WindowStoreError

Ints = npt.NDArray[np.int64]
MICROS = 1_000_000
_ERRORS: dict[str, type[WindowStoreError]] = {
    "key": NullKey,
    "time": InvalidTime,
    "value": InvalidValue,
}
_READABLE = re.compile(r"[A-Za-z0-9._-]{1,32}")


@dataclass(frozen=True)
class Sorted:
    """Rows in canonical order; key i has the rows bounds[i] to bounds[i + 1]."""

    rows: pa.Table
    times: Ints
    """Microseconds since 1970 in UTC, or by the wall clock for a time without a zone."""
    keys: list[bytes]
    """Each key's values as msgpack, without a type: one plan has one type of key."""
    names: list[str]
    """Each key as the last part of its window's name."""
    bounds: list[int]


def complete(rows: pa.Table, plan: Plan) -> pa.Table:
    """The rows that have a key, a time and every value; linear.

    With ``invalid="error"`` other rows raise NullKey, InvalidTime or InvalidValue.
    """
    roles = dict.fromkeys(plan.values, "value") | {plan.time: "time"}
    roles |= dict.fromkeys(plan.keys, "key")
    for name, role in roles.items():
        present = _present(rows.column(name), role)
        if present is None:
            continue
        if plan.invalid == "error":
            raise _ERRORS[role](
                f"null {role}: {rows.num_rows - pc.sum(present).as_py()} of {rows.num_rows} rows "
                f"of a bucket have no {name!r}; filter them out, or set invalid='drop' to drop "
                "and count them"
            )
        rows = rows.filter(present)
    return rows


def _present(column: pa.ChunkedArray, role: str) -> pa.ChunkedArray | None:
    """Which rows have the value; None if all have. A value's NaN is the window's to judge."""
    if role == "time" and pa.types.is_floating(column.type):
        finite = pc.fill_null(pc.is_finite(column), False)
        return None if pc.all(finite, min_count=0).as_py() else finite
    return pc.is_valid(column) if column.null_count else None


def sort_rows(rows: pa.Table, plan: Plan) -> Sorted:
    """The rows by key, time, then all other columns that have an order; O(rows * log rows)."""
    rows = rows.combine_chunks()
    codes, uniques = _key_codes(rows, plan.keys)
    times = to_micros(rows.column(plan.time), plan.time)
    order = _order(rows, codes, times, len(uniques))
    rows = rows.take(pa.array(order))
    counts = np.bincount(codes, minlength=len(uniques))
    bounds = np.concatenate(([0], np.cumsum(counts)))
    packer = msgpack.Packer()
    keys = [packer.pack(key) for key in uniques]
    names = [_name(key, packed) for key, packed in zip(uniques, keys, strict=True)]
    return Sorted(rows, times[order], keys, names, bounds.tolist())


def _order(rows: pa.Table, codes: Ints, times: Ints, groups: int) -> Ints:
    if not len(times):
        return np.empty(0, np.int64)
    first = int(times.min())
    span = int(times.max()) - first + 1
    if span * groups < 1 << 62:
        # Key and time in one number: one vectorised sort instead of a sort per column.
        joint = codes * span + (times - first)
        order = np.argsort(joint)
        joint = joint[order]
        same = joint[1:] == joint[:-1]
    else:
        order = np.lexsort((times, codes))
        same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        _order_ties(rows, order, same)
    return order


def _order_ties(rows: pa.Table, order: Ints, same: npt.NDArray[np.bool_]) -> None:
    """Sort the runs of rows with equal key and time, in place, by all columns with an order."""
    tied = np.concatenate((same, [False])) | np.concatenate(([False], same))
    at = np.flatnonzero(tied)
    starts = ~np.concatenate(([False], same))
    by = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    some = rows.select(by).take(pa.array(order[at]))
    some = some.append_column("__run", pa.array(np.cumsum(starts)[at]))
    sort_keys = [(name, "ascending") for name in ("__run", *by)]
    order[at] = order[at][pc.sort_indices(some, sort_keys=sort_keys).to_numpy()]


def _key_codes(rows: pa.Table, names: tuple[str, ...]) -> tuple[Ints, list[tuple[Any, ...]]]:
    """A small number for each row's key, and the keys in the order of their numbers."""
    codes, uniques = _encode(_plain(rows.column(names[0])))
    keys = [(value,) for value in uniques.to_pylist()]
    for name in names[1:]:
        more, uniques = _encode(_plain(rows.column(name)))
        # At most rows * rows, so this fits; encoding again keeps the numbers small.
        joint = pa.array(codes * max(len(uniques), 1) + more)
        codes, pairs = _encode(pa.chunked_array([joint]))
        values = uniques.to_pylist()
        keys = [(*keys[p // len(values)], values[p % len(values)]) for p in pairs.to_pylist()]
    return codes, keys


def _encode(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A key column as numbers, text or bytes, which msgpack writes in one way only."""
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.int32())
    if pa.types.is_temporal(kind):
        return column.cast(pa.int64())
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return pc.add(column, 0.0)  # -0.0 becomes 0.0, as Spark's own grouping has it
    return column


def key_columns(keys: Sequence[bytes], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Packed keys as the columns they came from, of these types."""
    values = zip(*map(msgpack.unpackb, keys), strict=True)
    return [_typed(list(column), kind) for column, kind in zip(values, types, strict=True)]


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    """What ``_plain`` has made of a column, turned back."""
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


def _name(key: tuple[Any, ...], packed: bytes) -> str:
    """Readable where the key is short and plain; the two kinds cannot meet."""
    text = str(key[0])
    if len(key) == 1 and _READABLE.fullmatch(text):
        return f"k:{text}"
    return f"x:{xxhash.xxh3_128_hexdigest(packed)}"


def to_micros(column: pa.ChunkedArray, name: str) -> Ints:
    """A column of timestamps, dates or numbers of seconds as microseconds since 1970; linear.

    Raises InvalidTime for numbers that are too large to be seconds.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        moments = column.cast(pa.timestamp("us", getattr(kind, "tz", None)))
        micros: Ints = moments.cast(pa.int64()).to_numpy()
        return micros
    seconds = to_numpy(column)
    if len(seconds) and max(seconds.max(), -seconds.min()) > np.iinfo(np.int64).max // MICROS:
        raise InvalidTime(
            f"column {name!r} has a time of {seconds.max()} seconds, which is beyond the range of "
            "microseconds in 64 bits: divide it down to seconds, or cast it to timestamp"
        )
    whole = np.rint(seconds * MICROS) if seconds.dtype.kind == "f" else seconds
    micros = whole.astype(np.int64)
    return micros if seconds.dtype.kind == "f" else micros * MICROS


def from_micros(micros: Ints, kind: pa.DataType) -> pa.Array:
    """What ``to_micros`` has made of a column of a type, turned back; linear."""
    if pa.types.is_date(kind):
        moments = pa.array(micros, pa.int64()).cast(pa.timestamp("us"))
        return moments.cast(kind, safe=False)
    if pa.types.is_timestamp(kind):
        return pa.array(micros, pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)
    if pa.types.is_integer(kind):
        return pa.array(micros // MICROS).cast(kind)
    return pa.array(micros / MICROS).cast(kind, safe=False)


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """A value column for ``Window.extend``: numbers without a copy, decimals as float64."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values: npt.NDArray[Any] = column.to_numpy()
    return values
