"""A frame and its columns, whatever library they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np

from mta.columns.schemas import Decimals, NullableColumn
from mta.errors import InvalidValue

#: The digits of a sum of decimals, as SQL has it; its scale is the column's.
SUM_DIGITS = 38


class Moments:
    """Datetimes, dates, durations or times of day, in their own unit.

    As an array they are datetime64 or timedelta64, as a list what the library makes of them, or
    numpy's where that would lose nanoseconds.
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
        """As Python values."""
        return self._listed()

    def take(self, rows: np.ndarray) -> Moments:
        """Those of some rows."""

        def listed() -> list[Any]:
            every = self._listed()
            return [every[row] for row in rows.tolist()]

        return Moments(self._array[rows], listed)


@dataclass(frozen=True)
class Column:
    """A column of a frame, as aggregations read it."""

    name: str
    dtype: str
    """Its type, as the library calls it."""
    type: Any
    """Its type as monoids take it (``AbstractMonoid.of_types``)."""
    values: Any
    """An array of numbers or booleans, ``Moments``, or a list of decimals, text or other values.

    Text and other values are None where they are null, all others zero.
    """
    restored: Callable[[np.ndarray], Any]
    """Makes a column of this type of results that are values of this column."""
    ordered: bool = True
    """Whether the smallest and the largest value are those by Python's order."""
    nulls: np.ndarray | None = None
    """Which values are null; None if none is."""
    nans: np.ndarray | None = None
    """Which values are NaN, where the library tells these from nulls; None if none is."""

    def given(self) -> Any:
        """The values as windows take them."""
        if self.type is str:
            return self.values
        return NullableColumn(self.values, None if self.nulls is None else ~self.nulls)

    def accepted(self) -> Any:
        """As ``given``, with NaN as a value for a null. Raises InvalidValue if there is none."""
        if self.nulls is None:
            return self.given()
        if self.type is not None or not isinstance(self.values, np.ndarray):
            raise InvalidValue(
                f"column {self.name!r} has {int(self.nulls.sum())} nulls, and {self.dtype} has no "
                "NaN to stand for them, which nulls='accept' needs: choose nulls='skip'"
            )
        return NullableColumn(np.where(self.nulls, np.nan, self.values))

    def with_nans_as_nulls(self) -> Column:
        """The column, with each NaN as a null."""
        if self.nans is None:
            return self
        nulls = self.nans if self.nulls is None else self.nulls | self.nans
        return replace(self, nulls=nulls, nans=None)

    @property
    def is_numeric(self) -> bool:
        """Whether its values can be added up."""
        whole = isinstance(self.type, str) and self.type[0] in "bui"
        return self.type is None or isinstance(self.type, Decimals) or whole


class Result(NamedTuple):
    """A column of results."""

    values: np.ndarray
    """A masked array where numbers or moments among them are null; other nulls are None."""
    form: Literal["value", "sum", "list", "own"]
    """Values of a column, sums of one, lists of its values, or results of the monoid's own type."""
    like: Column | None
    """The last column that the aggregation reads."""
    sql: str | None = None
    """The type of a monoid's own results that are no numbers, where it is known."""


class Frame(ABC):
    """A frame of some library."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    @property
    def levels(self) -> list[str]:
        """The names of other columns that can be read."""
        return []

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def raw(self, name: str) -> Any:
        """A column as the library has it, for keys and times."""

    @abstractmethod
    def column(self, name: str) -> Column:
        """A column as aggregations read it."""

    @abstractmethod
    def rows(self, mask: np.ndarray) -> Frame:
        """The rows that a mask marks."""

    @abstractmethod
    def with_columns(self, results: Mapping[str, Result]) -> Any:
        """The frame with more columns behind its own."""

    def require(self, names: Sequence[str]) -> None:
        """Raise InvalidValue unless there is one column of each name."""
        known = [*self.names, *self.levels]
        for name in names:
            if known.count(name) > 1:
                where = ", one of them a level of the index" if name in self.levels else ""
                raise InvalidValue(f"there are several columns {name!r}{where}: rename one")
            if name not in known:
                close = get_close_matches(name, [n for n in known if isinstance(n, str)])
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
                raise InvalidValue(f"there is no column {name!r}{hint}; there are {known}")


def marked(mask: np.ndarray) -> np.ndarray | None:
    """A mask; None where it marks nothing."""
    return mask if mask.any() else None


def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Results and which of them are null; None if none is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values, None
    return values.data, marked(np.ma.getmaskarray(values))


def flattened(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of lists end to end, and where each list begins, and the last one's end."""
    flat = [value for each in values for value in each]
    ends = np.cumsum([0, *map(len, values)])
    if flat and isinstance(flat[0], (np.datetime64, np.timedelta64)):
        return np.array(flat), ends
    found = np.empty(len(flat), object)
    found[:] = flat
    return found, ends
