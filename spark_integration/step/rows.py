"""A bucket's rows in canonical order, split by key, as whole columns.

The rows of a micro-batch reach a worker in any order, and in a replay or a speculative task in
another order. Sorted by key, time and then all other columns, the same rows always give the same
pages. Pages are named by their content, so a replay writes nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mta.errors import AheadEvent, InvalidTime, InvalidValue
from mta.kernels.segments import bounds_of, group
from mta.keyed.keys import Keys, ranked_bytes
from mta.times import CERTAIN, as_text, clock, doubt_of
from spark_integration.errors import NullKey
from spark_integration.plan import Plan
from spark_integration.step.columns import (
    NO_TIME,
    Ints,
    bytes_in,
    filled,
    joined,
    packed_parts,
    plain,
    shown,
    to_micros,
)
from stores.errors import WindowStoreError

#: The column with the time of the micro-batch, if needed; no user's column has this name.
NOW = "__now"
#: The number of rows in the sample that shows whether most keys of a bucket have one row.
_SOME = 1000
_ERRORS: dict[str, type[WindowStoreError]] = {
    "key": NullKey,
    "time": InvalidTime,
    "value": InvalidValue,
}


@dataclass(frozen=True)
class Sorted:
    """Rows in canonical order; key i has the rows from bounds[i] up to bounds[i + 1]."""

    rows: pa.Table
    times: Ints
    """Microseconds since 1970, in UTC or, for times without a zone, by the wall clock."""
    keys: Keys
    """Each key's values as msgpack, without a type, because a plan has one type of key."""
    bounds: Ints

    def key(self, number: int) -> str:
        """Return a key as text."""
        return shown(self.keys.packed(number))


def split_ahead(rows: pa.Table, plan: Plan) -> tuple[pa.Table, pa.Table | None]:
    """Split rows into those that are not too far ahead of the micro-batch's time, and the others.

    Raises AheadEvent, unless the others are dropped or set aside.
    """
    options = plan.options
    if options.ahead_by is None or NOW not in rows.column_names:
        return rows, None
    now, rows = rows.column(NOW).to_numpy(), rows.drop_columns([NOW])
    times = times_of(rows, plan)
    ahead = times > now + options.ahead_by
    if options.asks is not None:
        ahead &= ~pc.fill_null(rows.column(options.asks), False).to_numpy()
    if not ahead.any():
        return rows, None
    if options.on_ahead == "raise":
        first = int(np.argmax(ahead))
        raise AheadEvent(
            f"{int(ahead.sum())} of {len(ahead)} rows of a bucket are ahead of the micro-batch's "
            f"time, {clock(int(now[first]))}, by more than {as_text(options.ahead_by)}; the first "
            f"has {options.on!r} {clock(int(times[first]))}; correct the source's clock, or set "
            "on_ahead='drop' to drop and count such rows, or on_ahead='side' to emit them with a "
            "mark"
        )
    return rows.filter(pa.array(~ahead)), rows.filter(pa.array(ahead))


def times_of(rows: pa.Table, plan: Plan) -> Ints:
    """Return the times of rows as ``to_micros`` does; ``NO_TIME`` for null."""
    return to_micros(filled(rows.column(plan.options.on)), plan.options.time_unit)


def complete(rows: pa.Table, plan: Plan) -> pa.Table:
    """Return the rows that have a key and a time, and values if the plan requires them; linear.

    With ``on_invalid="raise"``, other rows raise NullKey or InvalidTime; with ``nulls="raise"``,
    null values raise InvalidValue, except in retractions. A time beyond ``TIME_LIMIT`` is invalid,
    and so is NaT, which is such a number. Windows handle NaN in values.
    """
    options = plan.options
    roles = {options.on: "time"}
    if options.nulls in ("raise", "drop_row"):
        roles = {name: "value" for name in plan.values if name in plan.valued} | roles
    roles |= dict.fromkeys(options.keys, "key")
    for name, role in roles.items():
        column = rows.column(name)
        if column.null_count and role == "value" and options.without_values is not None:
            marks = pc.fill_null(rows.column(options.without_values), False)
            good = pc.or_(pc.is_valid(column), marks)
            if not pc.all(good).as_py():
                rows = _kept(rows, good, "null value", f"have no {name!r}", role, plan)
        elif column.null_count:
            rows = _kept(rows, pc.is_valid(column), f"null {role}", f"have no {name!r}", role, plan)
        if role == "time":
            rows = _with_times(rows, plan)
    return rows


def _with_times(rows: pa.Table, plan: Plan) -> pa.Table:
    """Return the rows with valid times; numbers without a unit must be plausible seconds."""
    options = plan.options
    column = rows.column(options.on)
    known = times_of(rows, plan) != NO_TIME
    what = "more than 146,000 years from 1970; is its unit right?"
    if options.time_unit is None and not pa.types.is_temporal(column.type):
        known &= np.abs(column.cast(pa.float64(), safe=False).to_numpy()) < CERTAIN
        if not known.all():
            what = doubt_of(column[int(np.argmin(known))].as_py())
    if known.all():
        return rows
    what = f"have no valid time in {options.on!r}: {what}"
    return _kept(rows, pa.array(known), "bad time", what, "time", plan)


def _kept(
    rows: pa.Table, good: pa.Array | pa.ChunkedArray, fault: str, what: str, role: str, plan: Plan
) -> pa.Table:
    options = plan.options
    choice = options.nulls if role == "value" else options.on_invalid
    if choice == "raise":
        remedy = "on_invalid='drop' to drop and count them"
        if role == "value":
            remedy = "nulls='skip' to let aggregations ignore nulls, or nulls='drop_row'"
        raise _ERRORS[role](
            f"{fault}: {rows.num_rows - pc.sum(good, min_count=0).as_py()} of {rows.num_rows} rows "
            f"of a bucket {what}; filter them out, or set {remedy}"
        )
    return rows.filter(good)


def sort_rows(rows: pa.Table, plan: Plan) -> Sorted:
    """Sort the rows by key, time, and all other sortable columns; O(rows * log rows)."""
    options = plan.options
    rows = rows.combine_chunks()
    keys, codes = _keys_of(rows, options.keys)
    times = times_of(rows, plan)
    order = _order(rows, codes, times, len(keys), options.retractions)
    rows = rows.take(pa.array(order))
    bounds = bounds_of(np.bincount(codes, minlength=len(keys)))
    return Sorted(rows, times[order], keys, bounds)


def _order(
    rows: pa.Table, codes: Ints, times: Ints, groups: int, leading: str | None = None
) -> Ints:
    if not len(times):
        return np.empty(0, np.int64)
    order = group(codes, groups)
    lined, ends = times[order], np.diff(codes[order]) != 0
    if (ends | (lined[1:] > lined[:-1])).all():
        return order  # the rows of each key are in order
    first = int(times.min())
    span = int(times.max()) - first + 1
    if span * groups < 1 << 62:
        # With key and time in one number, one vectorized sort replaces a sort per column.
        joint = codes * span + (times - first)
        order = np.argsort(joint)
        joint = joint[order]
        same = joint[1:] == joint[:-1]
    else:
        order = np.lexsort((times, codes))
        same = (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        _order_ties(rows, order, same, leading)
    return order


def _order_ties(
    rows: pa.Table, order: Ints, same: npt.NDArray[np.bool_], leading: str | None
) -> None:
    """Sort runs of rows with equal key and time, in place, by all sortable columns.

    Rows that are true in the column ``leading`` come first.
    """
    tied = np.concatenate((same, [False])) | np.concatenate(([False], same))
    at = np.flatnonzero(tied)
    starts = ~np.concatenate(([False], same))
    by = [i for i, field in enumerate(rows.schema) if not pa.types.is_nested(field.type)]
    some = rows.select(by).take(pa.array(order[at]))
    # Columns are named by position, because a user's column may have any name.
    columns = [pa.array(np.cumsum(starts)[at]), *some.columns]
    if leading is not None:
        columns.insert(1, pc.invert(pc.fill_null(some.column(leading), False)))
    some = pa.table(columns, names=[str(place) for place in range(len(columns))])
    sort_keys = [(name, "ascending") for name in some.column_names]
    order[at] = order[at][pc.sort_indices(some, sort_keys=sort_keys).to_numpy()]


def _keys_of(rows: pa.Table, names: tuple[str, ...]) -> tuple[Keys, Ints]:
    """Return the sorted keys of the rows, and the place of each row's key among them."""
    first = plain(rows.column(names[0]))
    distinct = first.combine_chunks()  # still chunked if there are too many bytes
    if len(names) == 1 and isinstance(distinct, pa.Array) and _mostly_distinct(distinct):
        codes = np.arange(len(first))
    else:
        codes, distinct = _encode(first)
    parts = packed_parts(distinct)
    for name in names[1:]:
        more, distinct = _encode(plain(rows.column(name)))
        # The numbers are below rows * rows, so they fit; encoding them again keeps them small.
        joint = pa.array(codes * max(len(distinct), 1) + more)
        codes, pairs = _encode(pa.chunked_array([joint]))
        before, last = np.divmod(pairs.to_numpy(), max(len(distinct), 1))
        parts = [*_taken(parts, before), *_taken(packed_parts(distinct), last)]
    head = msgpack.Packer().pack_array_header(len(names))
    if isinstance(parts[0], pa.Scalar):
        head += parts.pop(0).as_py()
    keys, ranks = ranked_bytes(*bytes_in(joined([pa.scalar(head, pa.large_binary()), *parts])))
    return keys, ranks[codes]


def _taken(parts: list[pa.Array | pa.Scalar], places: Ints) -> list[pa.Array | pa.Scalar]:
    """Return the parts of keys at some places; parts that are equal for all keys stay."""
    at = pa.array(places)
    return [part if isinstance(part, pa.Scalar) else part.take(at) for part in parts]


def _mostly_distinct(column: pa.Array) -> bool:
    """Return whether values have at most two rows each on average, judging by a sample.

    Then it is faster to compare their bytes, which are hashed anyway.
    """
    count = len(column)
    if count < 2 * _SOME:
        return False
    # Sample one random row in each interval, because rows may alternate.
    places = (np.arange(_SOME) + np.random.default_rng(0).random(_SOME)) * (count / _SOME)
    distinct = len(pc.unique(column.take(pa.array(places.astype(np.int64)))))
    # With k values of equally many rows, the sample has _SOME ** 2 / 2 k pairs of equal values.
    return (_SOME - distinct) * count <= _SOME**2


def _encode(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
