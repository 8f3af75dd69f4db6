"""A bucket's rows in canonical order, split by key, as whole columns.

The rows of a micro-batch reach a worker in any order, and in a replay or a speculative task in
another order. Sorted by key, time and then all other columns, the same rows always give the same
pages. Pages are named by their content, so a replay writes nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mta.errors import InvalidTime, InvalidValue
from mta.kernels.native import bounds_of, group
from mta.keyed.keys import Keys, read_keys
from mta.times import CERTAIN, doubt_of
from spark_integration.errors import NullKey
from spark_integration.plan import Plan
from spark_integration.step.columns import NO_TIME, Flags, Ints, to_micros
from stores.errors import WindowStoreError

#: The column with the time of the micro-batch, if needed; no user's column has this name.
NOW = "__now"
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
    bounds: Ints


@dataclass(frozen=True)
class Timed:
    """Rows that have a key and a time, and their times, as in ``Sorted``."""

    rows: pa.Table
    times: Ints

    def take(self, mask: Flags) -> Timed:
        return Timed(self.rows.filter(pa.array(mask)), self.times[mask])


def complete(rows: pa.Table, plan: Plan) -> Timed:
    """Return the rows that have a key and a time, and values if the plan requires them; linear.

    With ``on_invalid="raise"``, other rows raise NullKey or InvalidTime; with ``nulls="raise"``,
    null values raise InvalidValue, except in retractions. A NaN is a null key. A time beyond
    ``TIME_LIMIT`` is invalid, and so is NaT, which is such a number. Windows handle NaN in values.
    """
    options = plan.options
    roles = {options.on: "time"} | dict.fromkeys(options.keys, "key")
    if options.settings.nulls in ("raise", "drop_row"):
        roles = {name: "value" for name in plan.values if name in plan.valued} | roles
    for name, role in roles.items():
        column = rows.column(name)
        if not (column.null_count or (role == "key" and pa.types.is_floating(column.type))):
            continue
        good = pc.invert(column.is_null(nan_is_null=role == "key"))
        if role == "value" and options.without_values is not None:
            good = pc.or_(good, pc.fill_null(rows.column(options.without_values), False))
        if not pc.all(good, min_count=0).as_py():
            rows = _kept(rows, good, f"null {role}", f"have no {name!r}", role, plan)
    column = rows.column(options.on)
    times = to_micros(column, options.time_unit)
    known = times != NO_TIME
    what = "more than 146,000 years from 1970; is its unit right?"
    if options.time_unit is None and not pa.types.is_temporal(column.type):
        # Numbers without a unit must be plausible seconds.
        known &= np.abs(column.cast(pa.float64(), safe=False).to_numpy()) < CERTAIN
        if not known.all():
            what = doubt_of(column[int(np.argmin(known))].as_py())
    if not known.all():
        what = f"have no valid time in {options.on!r}: {what}"
        rows = _kept(rows, pa.array(known), "bad time", what, "time", plan)
    return Timed(rows, times[known])


def _kept(
    rows: pa.Table, good: pa.Array | pa.ChunkedArray, fault: str, what: str, role: str, plan: Plan
) -> pa.Table:
    options = plan.options
    choice = options.settings.nulls if role == "value" else options.on_invalid
    if choice == "raise":
        remedy = "on_invalid='drop' to drop and count them"
        if role == "value":
            remedy = "nulls='skip' to let aggregations ignore nulls, or nulls='drop_row'"
        raise _ERRORS[role](
            f"{fault}: {rows.num_rows - pc.sum(good, min_count=0).as_py()} of {rows.num_rows} rows "
            f"of a bucket {what}; filter them out, or set {remedy}"
        )
    return rows.filter(good)


def sort_rows(timed: Timed, plan: Plan, kind: str | None = None) -> Sorted:
    """Sort the rows by key, time, and all other sortable columns; raises UnsuitableKey."""
    options = plan.options
    rows, times = timed.rows.combine_chunks(), timed.times
    columns = [rows.column(name) for name in options.keys]
    keys, codes = read_keys(columns[0] if len(columns) == 1 else tuple(columns), kind)
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
