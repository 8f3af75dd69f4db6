"""Frames and columns of any library, and types of results, named as in SQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from mta.columns.reading import Scaled, objects
from mta.columns.schemas import Decimals, LongDecimals, NullableColumn
from mta.errors import InvalidValue, ResultOutOfRange

Converted = TypeVar("Converted")
#: The digits of a sum of decimals, as in SQL; its scale is that of the column.
SUM_DIGITS = 38
#: The types of columns of decimals: of up to 18 digits, and longer ones.
DECIMALS = (Decimals, LongDecimals)
#: More than each integer of a column of ``Decimals``.
_DIGITS_END = 1 << 63


class TemporalColumn:
    """Datetimes, dates, durations or times of day, in their own unit.

    Converts to an array of datetime64 or timedelta64, and to a list of the values that the library
    returns, or of numpy scalars if these values would lose nanoseconds.
    """

    def __init__(self, whole: np.ndarray, listed: Callable[[], list[Any]]) -> None:
        self._array, self._listed = whole, listed

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array if dtype is None else self._array.astype(dtype)

    def tolist(self) -> list[Any]:
        return self._listed()

    def take(self, rows: np.ndarray) -> TemporalColumn:
        def listed() -> list[Any]:
            every = self._listed()
            return [every[row] for row in rows.tolist()]

        return TemporalColumn(self._array[rows], listed)


@dataclass(frozen=True)
class Column:
    """A column of a frame, in the form that aggregations read."""

    name: str
    dtype: str
    """The type of the column, as the library names it."""
    type: Any
    """The type of the column, in the terms of monoids (``AbstractMonoid.of_types``)."""
    values: Any
    """An array of numbers or booleans, a ``TemporalColumn``, ``Scaled`` decimals, or a list.

    A null is None among text and other values, and zero among all others.
    """
    restored: Callable[[np.ndarray], Any]
    """Converts results that are values of this column to a column of the same type."""
    ordered: bool = True
    """Whether minima and maxima of the type follow Python's order of the values."""
    nulls: np.ndarray | None = None
    """Which values are null; None if none is."""
    nans: np.ndarray | None = None
    """Which values are NaN, if NaN is not null in the library; None if none is."""

    def given(self) -> Any:
        """Return the values in the form that windows accept."""
        if self.type is str:
            return self.values
        return NullableColumn(self.values, None if self.nulls is None else ~self.nulls)

    def accepted(self) -> Any:
        """Return ``given`` with NaN for nulls. Raises InvalidValue if the type has no NaN."""
        if self.nulls is None:
            return self.given()
        if self.type is not None or not isinstance(self.values, np.ndarray):
            raise InvalidValue(
                f"column {self.name!r} has {int(self.nulls.sum())} nulls, which nulls='accept' "
                f"replaces by NaN, and {self.dtype} has no NaN: choose nulls='skip'"
            )
        return NullableColumn(np.where(self.nulls, np.nan, self.values))

    def with_nans_as_nulls(self) -> Column:
        """Return the column with nulls instead of NaN."""
        if self.nans is None:
            return self
        nulls = self.nans if self.nulls is None else self.nulls | self.nans
        return replace(self, nulls=nulls, nans=None)

    @property
    def is_numeric(self) -> bool:
        """Return whether the values can be added."""
        whole = isinstance(self.type, str) and self.type[0] in "bui"
        return self.type is None or isinstance(self.type, DECIMALS) or whole


class Result(NamedTuple):
    """A column of results."""

    values: np.ndarray
    """A masked array if numbers or times are null; other nulls are None."""
    form: Literal["value", "sum", "list", "counts", "own"]
    """What results are: values of a column, sums or lists of these, lists of values and their
    counts, or of the monoid's type."""
    like: Column | None
    """The last column that the aggregation reads."""
    sql: str | None = None
    """The SQL type of results of the monoid's own type that are not numbers, if known."""


class DataFrame(ABC):
    """A data frame of any library."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    @property
    def levels(self) -> list[str]:
        """Return the names of other readable columns, such as levels of an index."""
        return []

    def __len__(self) -> int:
        return len(self.frame)

    @abstractmethod
    def raw(self, name: str) -> Any:
        """Return a column of the library, for keys and times."""

    @abstractmethod
    def column(self, name: str) -> Column:
        """Return a column in the form that aggregations read."""

    def zone(self, name: str) -> str | None:
        """Return the time zone of a column of datetimes: "" without one; None for other columns."""
        column = self.raw(name)
        dtype = column.dtype if hasattr(column, "dtype") else column.type
        kind = getattr(dtype, "pyarrow_dtype", dtype)
        if not str(kind).lower().startswith(("datetime", "timestamp")):
            return None
        return str(getattr(kind, "tz", None) or getattr(kind, "time_zone", None) or "")

    def rows(self, mask: np.ndarray) -> Self:
        """Return the rows that a mask selects."""
        return type(self)(self.frame.filter(mask))

    @abstractmethod
    def with_columns(self, results: Mapping[str, Result]) -> Any:
        """Return the frame with more columns after the existing ones."""

    @abstractmethod
    def of_arrow(self, table: Any) -> Any:
        """Return an Arrow table as a frame of this library."""

    @abstractmethod
    def beside(self, more: Any) -> Self:
        """Return this frame with the columns of another frame of the library, row by row."""

    @abstractmethod
    def selected(self, columns: Mapping[str, str]) -> Self:
        """Return some columns, by their new names."""

    @abstractmethod
    def without_nans(self, names: Collection[str]) -> Self:
        """Return the frame with nulls instead of NaN in some columns."""

    def require(self, names: Sequence[str]) -> None:
        """Raise InvalidValue unless each name is that of exactly one column."""
        known = [*self.names, *self.levels]
        for name in names:
            if known.count(name) > 1:
                where = ", one of them a level of the index" if name in self.levels else ""
                raise InvalidValue(f"there are several columns {name!r}{where}: rename one")
            if name not in known:
                close = get_close_matches(name, [n for n in known if isinstance(n, str)])
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
                raise InvalidValue(f"there is no column {name!r}{hint}; there are {known}")


def decimals(integers: list[int], places: int) -> tuple[Decimals | LongDecimals, Scaled]:
    """Return the type of a column of decimals, and its values, from integers of the last place.

    The type depends on the values: it determines how fast results are, but not what they are.
    """
    if all(-_DIGITS_END < each < _DIGITS_END for each in integers):
        return Decimals(places), Scaled(np.array(integers, "i8"), places)
    return LongDecimals(places), Scaled(objects(integers), places)


def require_fit(convert: Callable[[], Converted], result: Result) -> Converted:
    """Return converted sums of decimals. Raises ResultOutOfRange for more than 38 digits."""
    try:
        return convert()
    except Exception as error:  # each library raises another error
        raise ResultOutOfRange(
            f"a sum of the decimals of column {result.like and result.like.name!r} has more than "
            f"{SUM_DIGITS} digits ({error}): use Sum('float64'), whose results are doubles"
        ) from error


def type_of(dtype: np.dtype[Any]) -> str | None:
    """Return the type of a column of numbers, in the terms of monoids."""
    return {"b": "bool", "i": "int64", "u": "uint64"}.get(dtype.kind)


def marked(mask: np.ndarray) -> np.ndarray | None:
    """Return a mask, or None if it selects nothing."""
    return mask if mask.any() else None


def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return results, and which of them are null; None if none is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values, None
    return values.data, marked(np.ma.getmaskarray(values))


def flattened(values: Collection[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenated values of lists, and the bounds of each list."""
    flat = [value for each in values for value in each]
    ends = np.cumsum([0, *map(len, values)])
    if flat and isinstance(flat[0], (np.datetime64, np.timedelta64)):
        return np.array(flat), ends
    return objects(flat), ends


def counted(values: np.ndarray, like: Column) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Return the values and the counts of lists of (value, count), and the bounds of each list."""
    pairs, ends = flattened(values)
    own = [value for value, _ in pairs]
    is_moment = isinstance(like.type, str) and like.type[0] in "mM"
    column = np.array(own, like.type) if is_moment else objects(own)
    return column, [count for _, count in pairs], ends


# --- types of results (``AbstractMonoid.result_type``) --------------------------------------------


class Maker(NamedTuple):
    """How a library constructs types."""

    scalars: dict[str, Any]
    """The scalar types by name; the names are ``SCALARS``."""
    array: Callable[[Any], Any]
    struct: Callable[[dict[str, Any]], Any]


SCALARS = ("double", "bigint", "string", "binary", "timestamp", "interval day to second")


def is_known(text: str) -> bool:
    """Return whether a type consists of arrays, structs and known scalar types.

    >>> is_known("array<struct<item: string, estimate: bigint>>"), is_known("map<string, int>")
    (True, False)
    """
    if text.startswith("array<"):
        return is_known(text[6:-1])
    if text.startswith("struct<"):
        return all(is_known(kind) for _, kind in _fields(text))
    return text in SCALARS


def read_type(text: str, make: Maker) -> Any:
    """Return a library's type for the name of a type."""
    if text.startswith("array<"):
        return make.array(read_type(text[6:-1], make))
    if text.startswith("struct<"):
        return make.struct({name: read_type(kind, make) for name, kind in _fields(text)})
    return make.scalars[text]


def plain_value(value: Any, text: str) -> Any:
    """Return a result as lists, dictionaries and scalars.

    >>> plain_value([("a", 2)], "array<struct<item: string, estimate: bigint>>")
    [{'item': 'a', 'estimate': 2}]
    """
    if value is None:
        return None
    if text.startswith("array<"):
        return [plain_value(item, text[6:-1]) for item in value]
    if text.startswith("struct<"):
        pairs = zip(value, _fields(text), strict=True)
        return {name: plain_value(item, kind) for item, (name, kind) in pairs}
    return bytes(value) if text == "binary" else value


def _fields(text: str) -> list[tuple[str, str]]:
    """Return the names and types of the fields of a struct, none of which is a struct."""
    fields = (field.partition(": ") for field in text[7:-1].split(", "))
    return [(name, kind) for name, _, kind in fields]
