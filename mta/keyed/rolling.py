"""Windows over a data frame, a column for each aggregation: one call, exact, also out of core.

    peaks = {"peak": ("kw", Max())}
    rolling(meters, by="meter", on="time", window="1 hour", aggregations=peaks)

gives ``meters`` back, a pandas, polars or Arrow table, with a column ``peak``: for each row the
largest ``kw`` of its meter in the hour up to its time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

import numpy as np

from mta.columns.schemas import Decimals
from mta.errors import InvalidValue
from mta.kernels.segments import inverse
from mta.keyed.windows import KeyedWindows
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Aggregations, Columns, Product, column_names
from mta.policies.base import AbstractPolicy
from mta.policies.windows import CountWindow, TimeWindow
from mta.times import Duration, TimeUnit, is_duration, require_unit, to_times
from stores import StoreLike

_Frame = TypeVar("_Frame")
#: How many rows are swept at once where the windows are in a store.
_CHUNK = 1 << 20

Size = AbstractPolicy | Duration | int


def rolling(
    frame: _Frame,
    *,
    by: str | Sequence[str],
    window: Size | Mapping[str, Size],
    aggregations: Aggregations,
    on: str | None = None,
    time_unit: TimeUnit | None = None,
    store: StoreLike | None = None,
) -> _Frame:
    """A pandas, polars or Arrow table with a column for each aggregation, in the order of its rows.

    A row's result is that of its key's window which ends with the row: ``by`` names the columns of
    the key, ``on`` that of the time. Rows may be in any order of time; those of one time count in
    the order in which they stand. Times that are numbers count ``time_unit`` ("s", "ms", "us" or
    "ns"), unless that is given seconds. Without ``on`` rows are in order as they stand. ``window``
    is a policy, a duration ("24 hours"), a number of rows, or several of these by name; then
    columns are called aggregation_window. With ``store`` what windows hold is there, not in memory.

    Results are of their column's type: whole numbers, decimals and text are exact. Sorts by time,
    then takes 0.1 to 1 us a row and aggregation, of text more. Raises UnsuitableKey, InvalidValue
    (a null or NaN, a column that is not there), ResultOutOfRange, InvalidTime, and what a store
    raises.
    """
    names = [by] if isinstance(by, str) else list(by)
    if not names:
        raise ValueError("by= names the columns of the key: at least one")
    require_unit(time_unit)
    windows = window if isinstance(window, Mapping) else {"": window}
    policies = {name: _policy(size) for name, size in windows.items()}
    if on is None and any(policy.needs_times for policy in policies.values()):
        raise ValueError("a window by time needs on=, the column of the time")
    product = Product(aggregations)
    named = isinstance(window, Mapping)
    columns = [f"{alias}_{name}" if named else alias for alias in aggregations for name in windows]
    table = _opened(frame, [*names, *product.columns, *([] if on is None else [on])])
    product = Product({a: _typed(*pair, table) for a, pair in product.aggregations.items()})
    taken = [name for name in columns if columns.count(name) > 1 or name in table.names]
    if taken:
        raise ValueError(f"there would be two columns {taken[0]!r}: give one another name")
    keys = tuple(table.column(name) for name in names)
    values = {name: table.column(name) for name in product.columns}
    times = None if on is None else to_times(table.column(on), time_unit)
    late: dict[str, Any] = {} if times is None else {"lateness": 0}
    of_all = policies if isinstance(window, Mapping) else policies[""]
    # A name of its own: others may be at work in the same store.
    rows = KeyedWindows(product, of_all, store, f"rolling-{uuid4().hex}", **late)
    try:
        found = _swept(rows, keys if len(keys) > 1 else keys[0], values, times, len(table))
    finally:
        if store is not None:
            rows.delete_pages()
        rows.close()
    if not isinstance(window, Mapping):
        return cast(_Frame, table.with_columns(found))
    joined = {
        f"{alias}_{name}": column
        for name, results in found.items()
        for alias, column in results.items()
    }
    return cast(_Frame, table.with_columns(joined))


def _typed(
    columns: Columns, monoid: AbstractMonoid, table: _Table
) -> tuple[Columns, AbstractMonoid]:
    """The aggregation by a monoid of its columns' types."""
    types = [_type_of(table.column(name)) for name in column_names(columns)]
    return columns, monoid.of_types(*types)


def _type_of(column: Any) -> Any:
    """The type of a column of any library, as monoids take it; None where doubles will do."""
    name = str(getattr(column, "dtype", None) or column.type).lower().removesuffix("[pyarrow]")
    if whole := re.fullmatch(r"(u?int)\d+", name):
        return f"{whole[1]}64"
    if places := re.fullmatch(r"decimal\d*\(.*?(\d+)\)", name.replace("precision=", "")):
        return Decimals(int(places[1]))
    if name in ("object", "category"):
        return str if isinstance(next(iter(column), None), str) else None
    return str if re.match("(large_)?str|utf8", name) else None


def _policy(size: Size) -> AbstractPolicy:
    if isinstance(size, AbstractPolicy):
        return size
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if whole and not is_duration(size):
        return CountWindow(size)  # type: ignore[arg-type]
    return TimeWindow(size)


def _swept(
    windows: KeyedWindows, keys: Any, values: dict[str, Any], times: np.ndarray | None, count: int
) -> Any:
    """Results of all rows: at once in memory, else in order of time and part by part."""
    moments = None if times is None else times.view("M8[us]")
    if windows.store is None or count <= _CHUNK:
        return windows.extend(keys, values or range(count), moments)
    order = np.arange(count) if times is None else np.argsort(times, kind="stable")
    parts = []
    for at in range(0, count, _CHUNK):
        some = order[at : at + _CHUNK]
        of_keys = tuple(_taken(k, some) for k in keys) if isinstance(keys, tuple) else None
        found = windows.extend(
            _taken(keys, some) if of_keys is None else of_keys,
            {name: _taken(column, some) for name, column in values.items()} or range(len(some)),
            None if moments is None else moments[some],
        )
        windows.checkpoint(barrier=False)
        parts.append(found)
    return _joined(parts, inverse(order))


def _taken(column: Any, rows: np.ndarray) -> Any:
    """Some rows of a column of any library."""
    if hasattr(column, "iloc"):
        return column.iloc[rows]
    if hasattr(column, "take"):
        return column.take(rows)
    return column[rows]


def _joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    """Results of parts as results of all, in another order."""
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts], order) for name in parts[0]}
    return np.concatenate(parts)[order]


# --- frames ---------------------------------------------------------------------------------------


class _Table(Protocol):
    @property
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def column(self, name: str) -> Any: ...
    def with_columns(self, found: Mapping[str, Any]) -> Any: ...


class _Pandas:
    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    @property
    def names(self) -> list[str]:
        return list(self._frame.columns)

    def column(self, name: str) -> Any:
        return self._frame[name]

    def with_columns(self, found: Mapping[str, Any]) -> Any:
        return self._frame.assign(**found)


class _Polars(_Pandas):
    def with_columns(self, found: Mapping[str, Any]) -> Any:
        series = self._frame.get_columns()[0].__class__ if self._frame.width else None
        assert series is not None
        lists = {n: c.tolist() if c.dtype == object else c for n, c in found.items()}
        return self._frame.with_columns([series(name, lists[name]) for name in found])


class _Arrow(_Pandas):
    @property
    def names(self) -> list[str]:
        return list(self._frame.column_names)

    def with_columns(self, found: Mapping[str, Any]) -> Any:
        frame = self._frame
        for name, column in found.items():
            frame = frame.append_column(name, [column])
        return frame


_KINDS = {"pandas": _Pandas, "polars": _Polars, "pyarrow": _Arrow}


def _opened(frame: Any, names: Sequence[str]) -> _Table:
    kind = _KINDS.get(type(frame).__module__.partition(".")[0])
    if kind is None or not hasattr(frame, "columns") or not hasattr(frame, "shape"):
        raise TypeError(
            f"rolling takes a pandas or polars DataFrame or an Arrow table, not {type(frame)!r}; "
            "for columns by themselves there is KeyedWindows.extend"
        )
    table = kind(frame)
    missing = [name for name in names if name not in table.names]
    if missing:
        raise InvalidValue(f"there is no column {missing[0]!r}; there are {table.names}")
    twice = [name for name in names if table.names.count(name) > 1]
    if twice:
        raise InvalidValue(f"there are several columns {twice[0]!r}")
    return table
