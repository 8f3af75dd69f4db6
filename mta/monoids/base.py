"""Monoids: what a window computes, as ``lower(combine(lift(e1), combine(lift(e2), ...)))``.

``combine`` must be associative and ``identity`` its neutral element; it need be neither commutative
nor invertible (MTA paper, section 3.3; Reactive Aggregator paper, section 2). There are two ways to
write one:

- ``Monoid``: plain Python functions on any object, called once per combine;
- ``ColumnarMonoid``: functions on numpy arrays, so that one definition serves a single event, a
  whole group and a batch.

An aggregator never calls ``lift`` in a loop itself: it asks for whole groups (``lift_rows``,
``fold``, ``prefixes``, ``suffixes``), and each kind of monoid answers in the way that suits it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack, overload

import numpy as np

from mta.columns import codec
from mta.columns.reading import (
    NEVER_MISSING,
    PLAIN,
    is_missing,
    missing,
    objects,
    plain,
    read_column,
    read_value,
)
from mta.columns.schemas import Objects, Row, Rows, Schema
from mta.errors import NotPageable
from mta.monoids.equality import Scale, same
from mta.monoids.naming import name_of
from mta.recipes import Recorded

Partial = Any

if TYPE_CHECKING:  # Python's own has defaults from 3.13 on
    from typing_extensions import TypeVar

    In = TypeVar("In", default=Any)
    Held = TypeVar("Held", default=Any)
    Out = TypeVar("Out", default=Any)
else:
    from typing import TypeVar

    In, Held, Out = TypeVar("In"), TypeVar("Held"), TypeVar("Out")


class AbstractMonoid(Recorded, ABC, Generic[Out]):
    """What aggregators ask of a monoid, one event or one group at a time.

    Costs are in combines; ``n`` is the number of rows. Rows are loaded out as the schema says:
    ``inputs`` for the values of events, ``partials`` for aggregates, ``outputs`` for results.
    """

    name: str
    identity: Partial
    inputs: Schema
    partials: Schema
    outputs: Schema
    #: The result on a window without events.
    empty: Out
    #: The SQL type of results, such as "array<double>", if it does not follow from ``empty`` and
    #: columns that are read.
    result_type: str | None = None
    #: combine(a, b) equals combine(b, a).
    commutative: bool = False
    #: combine(a, b) is always a or b.
    selective: bool = False
    #: Whole-group combines cost much less than as many single ones.
    is_columnar: bool = False
    #: The result of no values is a value, as 0 of a count and [] of a list.
    never_null: bool = False
    #: How many values a partial is of, or each row of partials, where partials say so.
    values_in: Callable[[Any], Any] | None = None
    #: Results of ranges of events follow from the events; see ``mta.monoids.ranges``.
    folds_ranges: bool = False
    #: ``combine``, ``lift`` and ``lower`` do not call numpy: they take and return Python's own
    #: numbers, or a user's objects.
    is_plain: bool = False
    #: inverse(combine(a, b), a) equals b; None where there is no such function.
    inverse: Callable[[Partial, Partial], Partial] | None = None
    #: combine(a, b) on two partials.
    combine: Callable[[Partial, Partial], Partial]
    #: The partial aggregate of one event.
    lift: Callable[[Row], Partial]
    #: The result that a partial aggregate stands for.
    lower: Callable[[Partial], Out]

    @property
    def joins_values(self) -> bool:
        """Whether two events can be one, whose value is the combination of theirs."""
        return self.lift is same_value and repr(self.inputs) == repr(self.partials)

    def join_values(self, older: Row, newer: Row) -> Row:
        """The value of two events as one; 1 combine. Only where ``joins_values``."""
        return self.combine(older, newer)

    def values_of(self, partials: Rows) -> Rows:
        """The values that partials are. Only where ``joins_values``."""
        return partials

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` undoes a combine on the left."""
        return self.inverse is not None

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes, the same in every process for the same name, layout and identity."""
        return hashlib.blake2b(repr(self._identifies()).encode(), digest_size=16).digest()

    def _identifies(self) -> tuple[Any, ...]:
        try:
            identity: Any = codec.pack(self.identity)
        except NotPageable:
            identity = type(self.identity).__qualname__
        return (type(self).__name__, self.name, self.inputs, self.partials, identity)

    def __repr__(self) -> str:
        return self.name

    @property
    def has_own_rule(self) -> bool:
        """Whether the monoid refuses values that its input columns would take."""
        return True

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        """Types whose values are valid input rows as they are, except for NaN."""
        return frozenset()

    # --- events coming in -------------------------------------------------------------------

    @abstractmethod
    def row(self, value: Any) -> Row:
        """One event's value as an input row. Raises InvalidValue for a wrong type."""

    @abstractmethod
    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        """A batch of values as input rows, and how many. Raises InvalidValue for a wrong type."""

    @abstractmethod
    def is_valid(self, row: Row) -> bool:
        """Whether a row holds a value that may be aggregated (no null, no NaN)."""

    @abstractmethod
    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        """A mask of the rows that hold a null or a NaN; None when there are none."""

    # --- aggregates -------------------------------------------------------------------------

    @abstractmethod
    def lift_rows(self, rows: Rows, count: int) -> Rows:
        """``lift`` for each row."""

    @abstractmethod
    def lower_rows(self, partials: Rows) -> Rows:
        """``lower`` for each row."""

    @abstractmethod
    def fold(self, partials: Rows, count: int) -> Partial:
        """All rows combined in order; n - 1 combines, the identity when there are none."""

    @abstractmethod
    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        """``left`` combined with the first 1, 2, ... n rows; n combines."""

    @abstractmethod
    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        """The last n, n-1, ... 0 rows combined with ``right``: n + 1 rows; n combines."""

    @abstractmethod
    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        """Row by row; one side may be a single row, which then serves for every row."""

    @abstractmethod
    def results(self, outputs: Rows) -> Any:
        """Output rows as the caller gets them: an array, or a dictionary of arrays."""

    def of_types(self, *types: Any) -> AbstractMonoid:
        """This monoid for columns of these types, where it was made without any.

        A type is a dtype of integers, booleans, datetimes or durations by name, ``Decimals``,
        ``str`` for text and other objects, or None where doubles will do.
        """
        return self

    @property
    def bare(self) -> AbstractMonoid:
        """What aggregates values: the monoid itself, or that which skips nulls in its place."""
        return self

    @property
    def follows_column(self) -> bool:
        """Whether results are values of the last column that it reads, of that column's type."""
        return False

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Whether two partials stand for the same events, up to rounding; see ``equality``.

        ``scale`` is that of the partials that both were folded of. Sketches, of which many stand
        for the same events, compare what they answer.
        """
        return same(one, other, None if scale is None else scale.widened())


class Refold:
    """A fold computed again by a check, with its scale: how far the stored one may differ from it.

    >>> total = Monoid(identity=0.0, combine=lambda a, b: a + b, name="total")
    >>> fold = Refold(total, [1e17, 3.0, -1e17])
    >>> fold.partial, fold.agrees(3.0), Refold(total, [3.0]).agrees(0.0)
    (0.0, True, False)
    """

    __slots__ = ("monoid", "partial", "scale")

    def __init__(self, monoid: AbstractMonoid, partials: Iterable[Partial] = ()) -> None:
        rows, combine, fold = list(partials), monoid.combine, monoid.identity
        for partial in rows:
            fold = combine(fold, partial)
        self.monoid, self.partial, self.scale = monoid, fold, Scale.of_rows(rows, len(rows))

    @classmethod
    def of_rows(cls, monoid: AbstractMonoid, rows: Rows, count: int) -> Self:
        """Of a group of partials at once."""
        fold = cls(monoid)
        fold.partial, fold.scale = monoid.fold(rows, count), Scale.of_rows(rows, count)
        return fold

    def __add__(self, other: Self) -> Self:
        """Both folds, side by side."""
        fold = type(self)(self.monoid)
        fold.partial = self.monoid.combine(self.partial, other.partial)
        fold.scale = self.scale + other.scale
        return fold

    def agrees(self, found: Partial) -> bool:
        """Whether a partial stands for the same events, up to the rounding of what went in."""
        return self.monoid.same(found, self.partial, self.scale)

    def __repr__(self) -> str:
        return repr(self.partial)


class Promises(TypedDict, Generic[Held], total=False):
    """What a ``Monoid`` may promise of its ``combine``."""

    commutative: bool
    selective: bool
    inverse: Callable[[Held, Held], Held] | None


class Monoid(AbstractMonoid[Out], Generic[In, Held, Out]):
    """An aggregation of plain Python functions over any objects.

    A snapshot is only restored with an aggregation of the same name and identity. Without a name it
    is called by its functions, and a lambda by a digest of its code, which differs between versions
    of Python. The name that an error shows can be given as ``name``.

    Args:
        identity: The partial result of no events.
        combine: Joins the partial results of two neighboring parts, the older one first.
        lift: Turns a value into a partial result; unless it is given, they are the same.
        lower: Turns a partial result into the result; unless it is given, they are the same.
        name: The name in snapshots.
        commutative: Whether the order of the parts does not matter.
        selective: Whether ``combine`` always returns one of its two arguments.
        inverse: Takes an older part out of a partial result; some algorithms in memory need it.
        empty: The result on a window without events; ``lower(identity)`` unless it is given.

    >>> longest = Monoid(identity="", combine=lambda a, b: a if len(a) >= len(b) else b)
    >>> longest.fold(["to", "be", "or not"], 3)
    'or not'
    """

    @overload
    def __init__(
        self: Monoid[In, Held, Held],
        identity: Held,
        combine: Callable[[Held, Held], Held],
        lift: Callable[[In], Held] | None = None,
        lower: None = None,
        name: str | None = None,
        *,
        empty: Held = ...,
        **promises: Unpack[Promises[Held]],
    ) -> None: ...

    @overload
    def __init__(
        self,
        identity: Held,
        combine: Callable[[Held, Held], Held],
        lift: Callable[[In], Held] | None = None,
        lower: Callable[[Held], Out] | None = None,
        name: str | None = None,
        *,
        empty: Out = ...,
        **promises: Unpack[Promises[Held]],
    ) -> None: ...

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        identity: Any,
        combine: Callable[[Any, Any], Any],
        lift: Callable[[Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
        name: str | None = None,
        *,
        commutative: bool = False,
        selective: bool = False,
        inverse: Callable[[Any, Any], Any] | None = None,
        empty: Any = ...,
    ) -> None:
        self.identity = identity
        self.is_plain = True
        self.combine = combine
        self.commutative = commutative
        self.selective = selective
        self.inverse = inverse
        self.inputs = self.partials = self.outputs = Objects()
        self._lift, self._lower = lift, lower
        self.lift = lift or same_value
        self.lower = lower or same_value
        self.empty = self.lower(identity) if empty is ... else empty
        self.name = name or ".".join(name_of(f) for f in (lift, combine, lower) if f is not None)

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        kind = type(self)
        of_ours = kind.row is Monoid.row and kind.is_valid is Monoid.is_valid
        return NEVER_MISSING | {float} if of_ours else frozenset()

    @property
    def is_bare(self) -> bool:
        """Whether results are partials as they are, on an empty window too."""
        return self._lower is None and self.empty is self.identity

    def row(self, value: Any) -> Row:
        return read_value(value, self.inputs)

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        rows = read_column(values, self.inputs)
        return rows, len(rows)

    def is_valid(self, row: Row) -> bool:
        return not is_missing(row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        if type(self).is_valid is Monoid.is_valid:
            return missing(rows)
        return any_of([np.array([not self.is_valid(row) for row in rows], dtype=bool)])

    # Comprehensions, not map, reduce and accumulate: a Python function called from Python code
    # costs half of one called from C.

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        lift = self._lift
        return rows if lift is None else [lift(row) for row in rows]

    def lower_rows(self, partials: Rows) -> Rows:
        lower = self._lower
        return partials if lower is None else [lower(partial) for partial in partials]

    def fold(self, partials: Rows, count: int) -> Partial:
        if not count:
            return self.identity
        combine, rows = self.combine, iter(partials)
        fold = next(rows)
        for partial in rows:
            fold = combine(fold, partial)
        return fold

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        combine = self.combine
        return [left := combine(left, partial) for partial in partials]

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        combine, last = self.combine, right
        scan = [right := combine(partial, right) for partial in reversed(partials)]
        scan.reverse()
        scan.append(last)
        return scan

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        combine = self.combine
        lefts = left if len(left) == count else [left[0]] * count
        rights = right if len(right) == count else [right[0]] * count
        return [combine(a, b) for a, b in zip(lefts, rights, strict=True)]

    def results(self, outputs: Rows) -> Any:
        """An array of numbers where all are of one kind and it holds them as they are."""
        kinds = set(map(type, outputs))
        if not kinds <= PLAIN:
            outputs = [plain(output) for output in outputs]
            kinds = set(map(type, outputs))
        if kinds == {int} and min(outputs) >= -(1 << 63) and max(outputs) < 1 << 63:
            return np.array(outputs, np.int64)
        return np.array(outputs) if kinds in ({float}, {bool}) else objects(outputs)


def any_of(masks: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """The rows that any of the masks marks; None when there are none."""
    found = [mask for mask in masks if mask is not None]
    mask = reduce(np.logical_or, found) if found else None
    return mask if mask is not None and mask.any() else None


def as_output(result: Any) -> Row:
    """A result as a row of outputs: those of a product's columns as a tuple."""
    return tuple(result.values()) if isinstance(result, dict) else result


def empties(monoid: AbstractMonoid, count: int) -> Rows:
    """Outputs of so many windows without events."""
    one = monoid.outputs.one(as_output(monoid.empty))
    return monoid.outputs.take(one, np.zeros(count, np.intp))


def same_value(value: Any) -> Any:
    """What ``lift`` and ``lower`` are where there is nothing to do."""
    return value
