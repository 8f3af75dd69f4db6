"""Windows over a data frame, with a column for each aggregation, in memory or out of core.

    peaks = {"peak": ("kw", Max())}
    rolling(meters, by="meter", on="time", window="1 hour", aggregations=peaks)

returns ``meters``, a pandas, polars or Arrow table, with a new column ``peak``: for each row, the
largest ``kw`` of its meter in the hour up to its time.

With ``at``, windows are as of the times of other rows, a point-in-time table of aggregates:

    events      key, time, values      each is added to the window of its key
    questions   key, time              answered from the events of the key up to that time

In memory, events and questions are one batch. With a store, they are processed in order of time, in
batches, and only the windows are retained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast, get_args
from uuid import uuid4

import numpy as np

from mta.columns.reading import Scaled, objects
from mta.columns.schemas import Array, LongDecimals, Objects, Schema
from mta.dataframes import open_data_frame
from mta.dataframes.base import Column, DataFrame, Result, is_known
from mta.errors import InvalidTime, InvalidValue, UnsuitableKey
from mta.frames.base import Frame, by_rows, require_answerable
from mta.frames.shorthand import Size, frames_of
from mta.kernels.native import inverse, order_by
from mta.keyed.keys import codes_of, common_codes
from mta.keyed.windows import KeyedWindows
from mta.monoids.base import AbstractMonoid, empties
from mta.monoids.basic import ArgMax, ArgMin, CheckedSum, Max, Min
from mta.monoids.decimals import LongSum
from mta.monoids.distinct import MostFrequent
from mta.monoids.nulls import CountValues, SkipNulls
from mta.monoids.product import (
    Aggregations,
    Pairs,
    Product,
    column_names,
    names_of,
    own_columns,
    pairs_of,
    result_name,
    skip_nulls,
)
from mta.monoids.text import Collect, CollectDistinct, MaxText, MinText
from mta.times import TimeUnit, require_unit, to_count, to_times
from mta.windows.settings import Nan, Nulls
from stores import StoreLike

_Frame = TypeVar("_Frame")
#: The maximum number of rows in a batch if the windows are in a store.
_CHUNK = 1 << 20

#: The name of the column of row numbers; no public name starts with a zero byte.
_ROW = "\0row"


def rolling(  # noqa: PLR0913 (public: explicit keywords)
    frame: _Frame,
    *,
    window: Size | Mapping[str, Size],
    aggregations: Aggregations,
    by: str | Sequence[str] | None = None,
    on: str | None = None,
    at: _Frame | None = None,
    time_unit: TimeUnit | None = None,
    nulls: Nulls = "skip",
    nan: Nan = "raise",
    min_samples: int | None = None,
    store: StoreLike | None = None,
) -> _Frame:
    """Return a pandas, polars or Arrow table with a column for each aggregation, in row order.

    The result of a row covers the window of its key that ends with the row. Rows may be in any
    order of time; rows of one time count in row order. Minima, maxima, first and last values keep
    the type of their column, with unit and zone of datetimes, and precision and scale of decimals.
    A sum of integers or booleans has 64 bits, and a sum of decimals has 38 digits.

    ``at`` is another table of the same library, with the columns ``by`` and ``on``, whose rows are
    questions. These rows are returned with aggregates as of their own times: over the events of
    their key (the rows of ``frame``) up to and including that time. No aggregate includes a later
    event, so the table can serve as a point-in-time training set. A key without events has the
    result of an empty window. Needs ``on``, and windows by count, time or calendar.

    Sorts by time, then takes 0.1 to 1 us per row and aggregation, more for text. Raises
    UnsuitableKey, InvalidValue (a NaN, a missing column, or a column of a type that the aggregation
    does not read), ResultOutOfRange, InvalidTime, and the errors of the store.

    Args:
        frame: The table.
        window: A frame, a duration ("24 hours"), a number of rows, or a mapping of names to these;
            new columns are then called ``aggregation_window``. If a frame by time has
            ``ties="peers"``, all rows of one key and time have the result of the last of them.
        aggregations: For the name of each new column, a pair of column and aggregation, as for
            ``Product``.
        by: The key column, or several; without it, all rows share one window. In pandas, a key
            column may be a named level of the index.
        on: The time column, or in pandas a named level of the index; without it, the rows are in
            order.
        at: The table of questions.
        time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        nulls: How to treat a null in an aggregated column. With "skip", aggregations ignore the
            null, as in SQL, and its row still has a result; a result of no values is null, and
            counts are 0. "raise" raises InvalidValue, "drop_row" removes the row, and "accept"
            aggregates NaN instead. In pandas, NaN is null.
        nan: How to treat a NaN in polars and Arrow, where NaN is not null: "raise" raises
            InvalidValue, "skip" treats NaN as null, and "propagate" treats NaN as a value.
        min_samples: The number of values below which a result is null.
        store: Where to store the events of the windows; by default in memory.

    >>> import pandas as pd
    >>> from mta import Max, rolling
    >>> frame = pd.DataFrame({"room": ["hall", "attic", "hall"], "watts": [9.0, 5.0, 3.0]})
    >>> rolling(frame, by="room", window=2, aggregations={"peak": ("watts", Max())}).peak.tolist()
    [9.0, 5.0, 9.0]
    """
    names = [] if by is None else _key_names(by)
    times_of = [] if on is None else names_of([on], "on=", 'on="time"')
    require_unit(time_unit)
    values = Values(nulls, nan)
    if min_samples is not None:
        min_samples = to_count(min_samples, "min_samples", 0)
    windows = window if isinstance(window, Mapping) else {"": window}
    frames = frames_of(windows)
    _require_times(on, frames, at, frame)
    pairs = pairs_of(aggregations)
    table, read = open_data_frame(frame), _read_by(pairs, frames)
    table.require([*names, *read, *times_of])
    table, columns = values.columns(table, read, pairs)
    asked = table if at is None else _asked(at, table, [*names, *times_of])
    called = {(alias, name): result_name(alias, name) for name in frames for alias in pairs}
    _require_free([*called.values()], asked)
    typed = {alias: _typed(alias, *pair, columns) for alias, pair in pairs.items()}
    keys, asked_keys = _keys(table, asked, names)
    if on is not None and asked is not table:
        _require_zones(on, table, asked)
    times = _times(table, on, time_unit)
    late = {} if times is None else {"allowed_lateness": 0}
    settings: dict[str, Any] = {"nulls": values.judged, **late}
    if store is None:  # no rows follow, so no key needs a standalone window
        settings["promote_at"] = min(max(len(table), 1), 1 << 24)
    # A unique name, because the store may have other windows.
    rowwise = {name: by_rows(frame) for name, frame in frames.items()}
    of_all = rowwise if windows is window else rowwise[""]
    product = Product(typed).with_parts(skip_nulls(min_samples=min_samples))
    given = {n: c.accepted() if nulls == "accept" else c.given() for n, c in columns.items()}
    rows = KeyedWindows(product, of_all, store, f"rolling-{uuid4().hex}", **settings)
    moments = None if at is None else _times(asked, on, time_unit)
    with _discarded(rows, product, given):
        events = KeyedEvents(keys, given, times)
        if moments is None:
            found = _results(rows, events)
        else:
            found = _answers(rows, events, asked_keys, moments)
    if times is not None and moments is None:  # all events of a time precede its questions
        _take_peers(found, called, frames, keys, times)
    results = {}
    for (alias, _), result in called.items():
        like = [columns[each] for each in own_columns(*pairs[alias])]
        results[result] = _result(found[result], pairs[alias][1].bare, typed[alias], like)
    return cast(_Frame, asked.with_columns(results))


@contextmanager
def _discarded(windows: KeyedWindows, product: Product, given: dict[str, Any]) -> Iterator[None]:
    """Delete windows after a call; an error about a value names its column."""
    try:
        yield
    except InvalidValue as error:
        raise _explained(error, product, given) from None
    finally:
        if windows.store is not None:
            windows.delete_pages()
        windows.close()


def _key_names(by: Any) -> list[str]:
    """Return the names of the key columns. Raises TypeError and ValueError."""
    names = names_of(by, "by=", 'by="meter"')
    if not names:
        raise ValueError(
            "by= is empty: name the columns of the key, or leave it out for one window"
        )
    return names


def _require_times(on: str | None, frames: Mapping[str, Frame], at: Any, frame: Any) -> None:
    """Raise ValueError if times are needed and ``on`` names no column."""
    if on is None and at is not None:
        raise ValueError("at= needs on=, the column of the time in both tables")
    if on is None and any(frame.needs_times for frame in frames.values()):
        raise ValueError(f"a window by time needs on=, the column of the time{_hint(frame)}")


def _asked(at: Any, table: DataFrame, needed: Sequence[str]) -> DataFrame:
    """Return the table of questions. Raises TypeError and InvalidValue."""
    asked = open_data_frame(at)
    if type(asked) is not type(table):
        raise TypeError(
            f"at= is {type(at).__module__}.{type(at).__name__}, and the events are of another "
            "library: convert one of them"
        )
    try:
        asked.require(needed)
    except InvalidValue as error:
        raise InvalidValue(f"at=, the table of questions: {error}") from None
    return asked


def _require_zones(on: str, table: DataFrame, asked: DataFrame) -> None:
    """Raise InvalidTime if only one table has datetimes with a time zone."""
    zones = table.zone(on), asked.zone(on)
    if None not in zones and bool(zones[0]) != bool(zones[1]):
        zoned, naive = ("frame", "at=") if zones[0] else ("at=", "frame")
        raise InvalidTime(
            f"column {on!r} has the time zone {zones[0] or zones[1]} in {zoned}, and none in "
            f"{naive}: set the zone of its times there, or convert both to UTC and drop the zone"
        )


@dataclass(frozen=True)
class Values:
    """How to treat nulls and NaN. Raises ValueError for invalid choices."""

    nulls: Nulls
    nan: Nan

    def __post_init__(self) -> None:
        for name, value, choices in (("nulls", self.nulls, Nulls), ("nan", self.nan, Nan)):
            if value not in get_args(choices):
                raise ValueError(f"{name} is one of {get_args(choices)}, not {value!r}")

    @property
    def judged(self) -> Nulls:
        """Return the ``nulls`` setting of windows that read columns with marked nulls."""
        return "accept" if self.nulls == "accept" or self.nan == "propagate" else "raise"

    def columns(
        self, table: DataFrame, read: Sequence[str], pairs: Pairs
    ) -> tuple[DataFrame, dict[str, Column]]:
        """Return the frame without dropped rows, and its columns. Raises InvalidValue."""
        columns = {name: table.column(name) for name in read}
        if self.nulls == "accept":
            return table, columns
        valued = {name for pair in pairs.values() for name in own_columns(*pair)}
        bad = np.zeros(len(table), bool)
        for name, column in columns.items():
            if self.nan == "skip":
                columns[name] = column = column.with_nans_as_nulls()
            nulls, nans = column.nulls, column.nans
            if nans is not None and self.nan == "raise" and self.nulls != "drop_row":
                raise _null(name, "NaN", nans, "nan='skip' or nan='propagate'")
            if name not in valued:  # a filter, in which null means false
                continue
            if nulls is not None and self.nulls == "raise":
                raise _null(name, "nulls or NaN", nulls, "nulls='skip'")
            if self.nulls == "drop_row":
                for mask in (nulls, nans if self.nan == "raise" else None):
                    bad |= False if mask is None else mask
        if not bad.any():
            return table, columns
        fewer = table.rows(~bad)
        return fewer, self.columns(fewer, read, pairs)[1]


def _null(name: str, what: str, mask: np.ndarray, choice: str) -> InvalidValue:
    return InvalidValue(
        f"column {name!r} has {int(mask.sum())} {what} in {len(mask)} rows, the first in row "
        f"{int(np.argmax(mask))}: fill them, drop these rows, or choose {choice}"
    )


def _hint(frame: Any) -> str:
    """Return a hint if the times of a pandas frame are in its index."""
    times = str(getattr(getattr(frame, "index", None), "dtype", "")).startswith("datetime")
    return ": name the index, frame.rename_axis('time'), and give on='time'" if times else ""


def _read_by(pairs: Pairs, frames: Mapping[str, Frame]) -> list[str]:
    """Return the names of the columns to read."""
    read = [name for columns, _ in pairs.values() for name in column_names(columns)]
    for frame in frames.values():
        for _, columns, _ in frame.observers:
            read += column_names(columns)
    return list(dict.fromkeys(read))


def _require_free(called: list[str], table: DataFrame) -> None:
    """Raise ValueError if two columns would have one name."""
    taken = [name for name in called if called.count(name) > 1 or name in table.names]
    if taken:
        raise ValueError(f"there would be two columns {taken[0]!r}: give one another name")


def _keys(
    table: DataFrame, asked: DataFrame, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each row and question, equal for equal keys. Raises UnsuitableKey."""
    count = len(table)
    if not names:
        return np.zeros(count, "i8"), np.zeros(len(asked), "i8")
    codes = []
    for name in names:
        try:
            if asked is table:
                codes.append(codes_of([table.raw(name)]))
            else:
                codes.append(np.concatenate(common_codes(table.raw(name), asked.raw(name))))
        except UnsuitableKey as error:
            raise UnsuitableKey(f"column {name!r}: {error}") from None
    joint = codes_of(codes)
    return joint[:count], joint[count:]


def _times(table: DataFrame, on: str | None, unit: TimeUnit | None) -> np.ndarray | None:
    """Return the time of each row in microseconds. Raises InvalidTime."""
    if on is None:
        return None
    try:
        return to_times(table.raw(on), unit)
    except InvalidTime as error:
        raise InvalidTime(f"column {on!r}: {error}") from None


def _typed(
    alias: str, given: Any, monoid: AbstractMonoid, columns: dict[str, Column]
) -> tuple[Any, AbstractMonoid]:
    """Return an aggregation for the types of its columns. Raises InvalidValue for other types."""
    read, whole, monoid = [columns[n] for n in own_columns(given, monoid)], monoid, monoid.bare
    filters = column_names(given)[len(read) :]
    for name in filters:
        if columns[name].type != "bool":
            raise InvalidValue(
                f"aggregation {alias!r}: the filter {name!r} is {columns[name].dtype}, not a "
                "column of booleans: add the result of a comparison as a column, and name it"
            )
    # Arguments are stored as numbers: for text, read row numbers in a separate column.
    if isinstance(monoid, (ArgMin, ArgMax)) and monoid.follows_column and _is_object(read[-1]):
        rows, texts = np.arange(len(read[-1].values)), read[-1]
        columns[_ROW] = Column(_ROW, "int64", "int64", rows, lambda found: found, True, texts.nulls)
        given, read = [read[0].name, _ROW, *filters], [read[0], columns[_ROW]]
    if isinstance(monoid, CountValues):
        return given, whole
    found = monoid.of_types(*(column.type for column in read))
    if isinstance(found, (ArgMin, ArgMax)) and isinstance(read[0].type, LongDecimals):
        raise InvalidValue(
            f"aggregation {alias!r}: {monoid.name} compares 64-bit numbers, and column "
            f"{read[0].name!r} has decimals of more than 18 digits: cast it to floats"
        )
    if isinstance(found, CheckedSum) and found is not monoid:
        found.label = f"the aggregation {alias!r}"
    for column, schema in zip(read, found.inputs.columns, strict=False):
        if not _is_readable(column, schema):
            raise InvalidValue(
                f"aggregation {alias!r}: {monoid.name} reads numbers, and column {column.name!r} "
                f"is {column.dtype}: convert it to numbers first, or choose Min, Max, First, Last "
                "or Count"
            )
        if not column.ordered and isinstance(found, (Min, Max, MinText, MaxText)):
            raise InvalidValue(
                f"aggregation {alias!r}: column {column.name!r} is {column.dtype}, whose order is "
                "undefined or differs from that of its values: convert it to text or numbers first"
            )
    return given, SkipNulls(found, filtered=True, refuses=True) if filters else found


def _is_object(column: Column) -> bool:
    return column.type is str or isinstance(column.type, LongDecimals)


def _is_readable(column: Column, schema: Schema) -> bool:
    if not isinstance(schema, Array) or column.is_numeric:
        return True
    return column.type is not str and schema.dtype.kind == np.dtype(column.type).kind


def _result(
    values: Any, monoid: AbstractMonoid, pair: tuple[Any, AbstractMonoid], read: Sequence[Column]
) -> Result:
    """Return the results of an aggregation, with the column that determines their type."""
    like, typed = read[-1] if read else None, pair[1].bare
    if like is not None and _ROW in column_names(pair[0]):
        rows, given = values.tolist(), like.values
        given = given.shown() if isinstance(given, Scaled) else given
        values = objects([None if row is None else given[row] for row in rows])
    if monoid.follows_column and like is not None:
        return Result(values, "value", like)
    if isinstance(typed, (CheckedSum, LongSum)):
        return Result(values, "sum", like)
    if isinstance(monoid, (Collect, CollectDistinct)):
        return Result(values, "list", like)
    if isinstance(monoid, MostFrequent):
        return Result(values, "counts", like)
    if not len(values) and isinstance(typed.outputs, Objects) and type(typed.empty) in _NUMBERS:
        values = np.zeros(0, type(typed.empty))
    sql = typed.result_type
    return Result(values, "own", like, sql if sql is not None and is_known(sql) else None)


_NUMBERS = (bool, int, float)


def _explained(error: InvalidValue, product: Product, columns: Mapping[str, Any]) -> InvalidValue:
    """Return an error that names the column of the values that windows refused."""
    for alias, (given, monoid) in product.aggregations.items():
        names = column_names(given)
        if not names:
            continue
        values = tuple(columns[name] for name in names)
        what = f"aggregation {alias!r} of column {', '.join(map(repr, names))}"
        try:
            rows, count = monoid.rows(values if len(names) != 1 else values[0], len(values[0]))
        except InvalidValue as cause:
            return InvalidValue(f"{what}: {cause}")
        invalid = monoid.invalid(rows, count)
        if invalid is not None:
            return InvalidValue(
                f"{what}: {int(invalid.sum())} of {count} values are null, NaN or outside what "
                f"{monoid.bare.name} takes, the first in row {int(np.argmax(invalid))}: change "
                "these values, or drop these rows, before the call"
            )
    return error


def _take_peers(
    found: dict[str, Any], called: Mapping[tuple[str, str], str], frames: Mapping[str, Frame],
    keys: np.ndarray, times: np.ndarray,
) -> None:  # fmt: skip
    """Give all rows of a key and time the result of the last of them, if their frame says so."""
    of_peers = [result for (_, name), result in called.items() if frames[name].ties == "peers"]
    if not of_peers:
        return
    order = order_by(keys, times)
    changes = (np.diff(keys[order]) != 0) | (np.diff(times[order]) != 0)
    ends = np.flatnonzero(np.append(changes, True)[: len(order)])
    last = np.empty(len(order), np.int64)
    last[order] = np.repeat(order[ends], np.diff(ends, prepend=-1))
    for result in of_peers:
        found[result] = taken(found[result], last)


# --- batches --------------------------------------------------------------------------------------


class KeyedEvents(NamedTuple):
    """Events in any order; keys are small integers, and times are in microseconds."""

    keys: np.ndarray
    values: dict[str, Any]
    times: np.ndarray | None

    def values_at(self, rows: np.ndarray) -> Any:
        """Return the values of some rows, as ``KeyedWindows.extend`` accepts them."""
        return {name: taken(each, rows) for name, each in self.values.items()} or range(len(rows))


def _results(windows: KeyedWindows, events: KeyedEvents) -> Any:
    """Return the result after each event, in the order of the events."""
    times = None if events.times is None else events.times.view("M8[us]")

    def add(rows: np.ndarray) -> tuple[np.ndarray, Any]:
        moments = None if times is None else times[rows]
        return rows, windows.extend(events.keys[rows], events.values_at(rows), moments)

    return _in_batches(windows, len(events.keys), events.times, add)


def _answers(
    windows: KeyedWindows, events: KeyedEvents, keys: np.ndarray, moments: np.ndarray
) -> Any:
    """Return the results of keys at moments, in windows that contain only these events.

    Raises UnsupportedOperation if a frame reads values, and the errors of ``KeyedWindows.extend``.
    """
    frames = windows.bucket.kind.frames.values()
    for frame in frames:
        require_answerable(frame)
    count = len(events.keys)
    if not count:
        return windows.as_columns([empties(windows.monoid, len(keys)) for _ in frames])
    every = np.concatenate((events.keys, keys))
    times = np.concatenate((cast(np.ndarray, events.times), moments))

    def ask(rows: np.ndarray) -> tuple[np.ndarray, Any]:
        asks = rows >= count
        # The values of questions are ignored, so use those of the first event.
        values = events.values_at(np.where(asks, 0, rows))
        batch = windows.read(every[rows], values, times[rows].view("M8[us]"), asks=asks)
        found = windows.answers(batch)
        return rows[found.at] - count, windows.as_columns(found.outputs)

    return _in_batches(windows, len(every), times, ask)


def _in_batches(
    windows: KeyedWindows, count: int, times: np.ndarray | None,
    process: Callable[[np.ndarray], tuple[np.ndarray, Any]],
) -> Any:  # fmt: skip
    """Process all rows: in memory in one batch, in a store in batches by time.

    ``process`` returns results and the place of each; they are returned in the order of places.
    Rows of one time keep their order, so events precede questions of the same time.
    """
    order, step = np.arange(count), max(count, 1)
    if windows.store is not None and count > _CHUNK:
        step = _CHUNK
        order = order if times is None else np.argsort(times, kind="stable")
    places, parts = [], []
    for start in range(0, max(count, 1), step):
        of_part, found = process(order[start : start + step])
        places.append(of_part)
        parts.append(found)
        if step < count:
            windows.checkpoint(wait=False)
    return joined(parts, inverse(np.concatenate(places)))


def taken(column: Any, rows: np.ndarray) -> Any:
    """Return the values of a column at some rows."""
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column.take(rows)


def joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    """Concatenate the results of parts, then reorder them."""
    if isinstance(parts[0], dict):
        return {name: joined([part[name] for part in parts], order) for name in parts[0]}
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        concatenate: Any = np.ma.concatenate
        return concatenate(parts)[order]
    return np.concatenate(parts)[order]
