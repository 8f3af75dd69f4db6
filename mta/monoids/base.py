"""Monoids: what a window computes, as ``lower(combine(lift(e1), combine(lift(e2), ...)))``.

``combine`` must be associative, and ``identity`` must be its neutral element. ``combine`` need not
be commutative or invertible (MTA paper, section 3.3; Reactive Aggregator paper, section 2). There
are two ways to write a monoid:

- ``Monoid``: plain Python functions on any object, called once per combine
- ``ColumnarMonoid``: numpy functions; one definition serves single events, groups and batches

Aggregators never call ``lift`` in a loop. They call methods for whole groups (``lift_rows``,
``fold``, ``prefixes``, ``suffixes``), which each kind of monoid implements in its fastest way.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, Unpack, overload

import numpy as np

from mta.columns import codec
from mta.columns.reading import (
    NEVER_MISSING,
    PLAIN,
    as_given,
    is_missing,
    missing,
    objects,
    plain,
    read_column,
    read_value,
)
from mta.columns.schemas import Array, Nullable, Objects, Record, Row, Rows, Schema
from mta.columns.texts import TextColumn
from mta.errors import InvalidValue, NotPageable
from mta.monoids.equality import Scale, same
from mta.recipes import Recorded, name_of

Partial = Any
#: Returns a changed aggregation, given its columns in a Product, or None, and itself.
ChangePart = Callable[[Any, "AbstractMonoid"], "AbstractMonoid"]

if TYPE_CHECKING:  # typing.TypeVar has defaults from Python 3.13
    from typing_extensions import TypeVar

    In = TypeVar("In", default=Any)
    Held = TypeVar("Held", default=Any)
    Out = TypeVar("Out", default=Any)
else:
    from typing import TypeVar

    In, Held, Out = TypeVar("In"), TypeVar("Held"), TypeVar("Out")


class AbstractMonoid(Recorded, ABC, Generic[Out]):
    """The operations that an aggregator calls on a monoid, for one event or for a group.

    Costs are in combines; ``n`` is the number of rows. Schemas give the layout of rows: ``inputs``
    for the values of events, ``partials`` for aggregates, ``outputs`` for results.
    """

    name: str
    identity: Partial
    inputs: Schema
    partials: Schema
    outputs: Schema
    #: The result for a window without events.
    empty: Out
    #: The SQL type of results, such as "array<double>", if ``empty`` and the input columns do not
    #: determine it.
    result_type: str | None = None
    #: combine(a, b) equals combine(b, a).
    commutative: bool = False
    #: combine(a, b) is always a or b.
    selective: bool = False
    #: Combining whole groups costs much less than combining row by row.
    is_columnar: bool = False
    #: Without values, the result is a value: 0 for a count, [] for a list.
    never_null: bool = False
    #: Returns the number of values in a partial, or in each row of partials, if these store it.
    values_in: Callable[[Any], Any] | None = None
    #: The names of the results; one aggregation has one without a name.
    aliases: tuple[str, ...] = ("",)
    #: Whether the result is a dictionary of results by name.
    names_results: bool = False
    #: Reads the columns of an event if all are doubles and only NaN is rejected; returns None
    #: for an event with other values.
    picks_doubles: Callable[[Any], Row | None] | None = None
    #: Whether results are values of the last input column and have its type.
    follows_column: bool = False
    #: Whether results are computed from ranges of events; see ``mta.monoids.ranges``.
    folds_ranges: bool = False
    #: ``combine``, ``lift`` and ``lower`` use Python numbers or the user's objects, never numpy.
    is_plain: bool = False
    #: inverse(combine(a, b), a) equals b; None if the monoid is not invertible.
    inverse: Callable[[Partial, Partial], Partial] | None = None
    #: combine(a, b) on two partials.
    combine: Callable[[Partial, Partial], Partial]
    #: The partial aggregate of one event.
    lift: Callable[[Row], Partial]
    #: The result of a partial aggregate.
    lower: Callable[[Partial], Out]

    @cached_property
    def identity_row(self) -> Rows:
        """The identity as one row; not to be changed."""
        return self.partials.one(self.identity)

    def identities(self, count: int) -> Rows:
        """Return rows of identities."""
        return self.partials.take(self.identity_row, np.zeros(count, np.intp))

    @property
    def joins_values(self) -> bool:
        """Whether two events can be merged into one, whose value is the two values combined."""
        return self.lift is same_value and repr(self.inputs) == repr(self.partials)

    def join_values(self, older: Row, newer: Row) -> Row:
        """Merge the values of two events; 1 combine. Requires ``joins_values``."""
        return self.combine(older, newer)

    def values_of(self, partials: Rows) -> Rows:
        """Convert partials back to values. Requires ``joins_values``."""
        return partials

    @cached_property
    def stored(self) -> dict[tuple[str, str], Schema]:
        """The stored columns of an event, by name and type; values have one without a name."""
        return {("", repr(self.inputs)): self.inputs}

    def by_alias(self) -> dict[str, tuple[Any, AbstractMonoid]]:
        """Return the columns of each result, by its name, and the aggregation of these columns."""
        return {"": (None, self)}

    @property
    def kernel_lowers(self) -> bool:
        """Whether a compiled loop computes results as well as partials."""
        return False

    def given(self, rows: Rows) -> Any:
        """Return input rows as values that ``rows`` accepts."""
        return as_given(rows, self.inputs)

    def with_more(self, observers: Sequence[tuple[Any, AbstractMonoid]]) -> AbstractMonoid:
        """Return the monoid that also reads the columns of aggregates that frames read."""
        del observers
        return self

    def pick_for(self, columns: Any, observer: AbstractMonoid) -> Callable[[Any], Any]:
        """Return what selects the values of an aggregate of ``with_more`` from input rows.

        Raises ValueError if these are not among the values of events.
        """
        if columns is not None:
            raise ValueError(f"the frame reads {columns!r}, but the events have no named columns")
        own, wanted = self.inputs, observer.inputs
        if isinstance(wanted, Record) and not wanted.schemas:
            return lambda row: ()
        if isinstance(own, Objects) and isinstance(wanted, Array):
            return lambda row: (
                np.asarray(row, wanted.dtype)
                if isinstance(row, list)
                else wanted.at(np.asarray([row], wanted.dtype), 0)
            )
        if isinstance(own, Array) and isinstance(wanted, Objects):
            return lambda row: row.tolist() if isinstance(row, np.ndarray) else plain(row)
        if repr(own) != repr(wanted):
            raise ValueError(f"{observer.name} cannot read the values that {self.name} reads")
        return same_value

    def with_parts(self, change: ChangePart) -> AbstractMonoid:
        """Return a changed monoid: of several aggregations, each with its columns is changed."""
        return change(None, self)

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` undoes a combine on the left."""
        return self.inverse is not None

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes: a hash of the name, layout and identity, equal in every process."""
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
        """Whether the monoid rejects values that its input columns accept."""
        return True

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        """Types whose values, except NaN, are input rows without conversion."""
        return frozenset()

    # --- events coming in -------------------------------------------------------------------

    def row(self, value: Any) -> Row:
        """Convert one event's value to an input row. Raises InvalidValue for a wrong type."""
        if not isinstance(self.inputs, Record):
            return read_value(value, self.inputs)
        schemas = self.inputs.schemas
        if not schemas:
            return ()
        if not isinstance(value, (tuple, list)) or len(value) != len(schemas):
            raise InvalidValue(f"{self.name} takes {len(schemas)} values per event, not {value!r}")
        return tuple(read_value(v, s) for v, s in zip(value, schemas, strict=True))

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        """Convert a batch to input rows; return them and their number. Raises InvalidValue."""
        if not isinstance(self.inputs, Record):
            column = read_column(values, self.inputs)
            return column, len(column)
        schemas = self.inputs.schemas
        if not schemas:
            if count is None and not hasattr(values, "__len__"):
                raise InvalidValue(f"a batch must be a column of values, not {values!r}")
            return (), len(values) if count is None else count
        if not isinstance(values, tuple) or len(values) != len(schemas):
            raise InvalidValue(f"{self.name} takes a batch as a tuple of {len(schemas)} columns")
        columns = tuple(read_column(v, s) for v, s in zip(values, schemas, strict=True))
        if len({len(column) for column in columns}) > 1:
            raise InvalidValue(f"the columns of {self.name} differ in length")
        return columns, len(columns[0])

    @abstractmethod
    def is_valid(self, row: Row) -> bool:
        """Whether a row can be aggregated: it holds no null and no NaN."""

    @abstractmethod
    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        """Return a mask of the rows that hold a null or a NaN; None if there are none."""

    # --- aggregates -------------------------------------------------------------------------

    @abstractmethod
    def lift_rows(self, rows: Rows, count: int) -> Rows:
        """Apply ``lift`` to each row."""

    @abstractmethod
    def lower_rows(self, partials: Rows) -> Rows:
        """Apply ``lower`` to each row."""

    @abstractmethod
    def fold(self, partials: Rows, count: int) -> Partial:
        """Combine all rows in order; n - 1 combines. Returns the identity if there are none."""

    def folds(self, partials: Rows, count: int, size: int) -> Rows:
        """Fold each ``size`` of ``count`` rows, with the same bits as ``fold``."""
        cut = self.partials.cut
        parts = [cut(partials, start, start + size) for start in range(0, count, size)]
        return self.partials.gathered([self.fold(part, size) for part in parts])

    @abstractmethod
    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        """Combine ``left`` with the first 1, 2, ... n rows; n combines."""

    @abstractmethod
    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        """Combine the last n, n - 1, ... 0 rows with ``right``: n + 1 rows; n combines."""

    @abstractmethod
    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        """Combine row by row; a single row is combined with every row of the other side."""

    def results(self, outputs: Rows) -> Any:
        """Convert output rows to what the caller gets: an array, or a dictionary of arrays."""
        if isinstance(self.outputs, Nullable):
            return outputs.shown()
        return objects(outputs) if isinstance(self.outputs, Objects) else outputs

    def of_types(self, *types: Any) -> AbstractMonoid:
        """Return this monoid for columns of the given types, unless it was created with a type.

        A type is the name of an integer, boolean, datetime or duration dtype, ``Decimals``, ``str``
        for text and other objects, ``Objects`` for objects of one type, or None for columns read as
        float64.
        """
        return self

    @property
    def bare(self) -> AbstractMonoid:
        """The monoid that aggregates values; for a wrapper that skips nulls, the wrapped monoid."""
        return self

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Whether two partials represent the same events, up to rounding; see ``equality``.

        ``scale`` is the scale of the partials that were folded into both. Sketches compare their
        estimates, as different sketches can represent the same events.
        """
        return same(one, other, None if scale is None else scale.widened())


#: The types whose values ``plain`` returns unchanged.
_PLAIN = PLAIN | {type(None)}


class Refold:
    """A fold that a check computes again, with the scale of the rounding errors it allows.

    >>> total = Monoid(identity=0.0, combine=lambda a, b: a + b, name="total")
    >>> fold = Refold(total, [1e17, 3.0, -1e17])
    >>> fold.partial, fold.agrees(3.0), Refold(total, [3.0]).agrees(0.0)
    (0.0, True, False)
    """

    __slots__ = ("monoid", "partial", "scale")

    def __init__(self, monoid: AbstractMonoid, partials: Iterable[Partial] = ()) -> None:
        rows = list(partials)
        self.monoid, self.scale = monoid, Scale.of_rows(rows, len(rows))
        self.partial = reduce(monoid.combine, rows, monoid.identity)

    @classmethod
    def of_rows(cls, monoid: AbstractMonoid, rows: Rows, count: int) -> Self:
        """Fold a group of partials with whole-group combines."""
        fold = cls(monoid)
        fold.partial, fold.scale = monoid.fold(rows, count), Scale.of_rows(rows, count)
        return fold

    def __add__(self, other: Self) -> Self:
        """Combine this fold with a fold of the rows after it."""
        fold = type(self)(self.monoid)
        fold.partial = self.monoid.combine(self.partial, other.partial)
        fold.scale = self.scale + other.scale
        return fold

    def agrees(self, found: Partial) -> bool:
        """Whether a partial represents the same events, up to rounding."""
        return self.monoid.same(found, self.partial, self.scale)

    def __repr__(self) -> str:
        return repr(self.partial)


class Promises(TypedDict, Generic[Held], total=False):
    """The properties that a ``Monoid`` can declare for its ``combine``."""

    commutative: bool
    selective: bool
    inverse: Callable[[Held, Held], Held] | None


class Monoid(AbstractMonoid[Out], Generic[In, Held, Out]):
    """An aggregation of plain Python functions over any objects.

    A snapshot can only be restored with an aggregation of the same name and identity. Without a
    ``name``, the name is made of the names of the functions. A lambda is named by a digest of its
    code, which differs between versions of Python: pass a ``name`` to restore snapshots after an
    upgrade.

    Args:
        identity: The partial result of no events.
        combine: Combines the partial results of two neighboring parts, the older one first.
        lift: Converts a value to a partial result; by default, the value is the partial result.
        lower: Converts a partial result to the result; by default, they are the same.
        name: The name in snapshots.
        commutative: Whether ``combine(a, b)`` equals ``combine(b, a)``.
        selective: Whether ``combine`` always returns one of its two arguments.
        inverse: Removes an older part from a partial result; some in-memory algorithms need it.
        empty: The result for a window without events; by default ``lower(identity)``.

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
        is_usual = kind.row is AbstractMonoid.row and kind.is_valid is Monoid.is_valid
        # A summary adds values later, and may refuse one then.
        as_given = is_usual and type(self.inputs) is type(self.partials) is Objects
        if isinstance(self.inputs, Objects) and self.inputs.only is not None:
            return frozenset({self.inputs.only}) if as_given else frozenset()
        return NEVER_MISSING | {float} if as_given else frozenset()

    @property
    def is_bare(self) -> bool:
        """Whether results equal partials, for an empty window too."""
        return self._lower is None and self.empty is self.identity

    def is_valid(self, row: Row) -> bool:
        return not is_missing(row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        if type(self).is_valid is Monoid.is_valid:
            return missing(rows)
        return any_of([np.array([not self.is_valid(row) for row in rows], dtype=bool)])

    # Comprehensions instead of map, reduce and accumulate: calling a Python function from Python
    # costs half as much as calling it from C.

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
        """Return an array of numbers if all results have one type that it stores exactly."""
        if isinstance(outputs, TextColumn):
            return outputs.shown()
        kinds = set(map(type, outputs))
        if not kinds <= _PLAIN:
            outputs = [plain(output) for output in outputs]
            kinds = set(map(type, outputs))
        if kinds == {int} and min(outputs) >= -(1 << 63) and max(outputs) < 1 << 63:
            return np.array(outputs, np.int64)
        return np.array(outputs) if kinds in ({float}, {bool}) else objects(outputs)


def any_of(masks: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """Return the rows marked in any of the masks; None if there are none."""
    found: np.ndarray | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found if found is not None and found.any() else None


def as_output(result: Any) -> Row:
    """Convert a result to an output row; a product's dictionary becomes a tuple."""
    return tuple(result.values()) if isinstance(result, dict) else result


def empties(monoid: AbstractMonoid, count: int) -> Rows:
    """Return the output rows of ``count`` windows without events."""
    one = monoid.outputs.one(as_output(monoid.empty))
    return monoid.outputs.take(one, np.zeros(count, np.intp))


def same_value(value: Any) -> Any:
    """Return the value unchanged: the default ``lift`` and ``lower``."""
    return value


def lift_where(monoid: AbstractMonoid, rows: Rows, count: int, where: np.ndarray | None) -> Rows:
    """Lift the rows that a mask marks, or all; the other rows become the identity."""
    if where is None:
        return monoid.lift_rows(rows, count)
    if isinstance(rows, TextColumn) and monoid.identity is None:
        lifted = monoid.lift_rows(rows, count)
        if lifted is rows:
            return rows.where(where)
    schema, identities = monoid.partials, _identities(monoid)
    if identities is not None:
        lifted = monoid.lift_rows(rows, count)
        if not isinstance(lifted, tuple):
            return np.where(where, lifted, identities[0])
        pairs = zip(lifted, identities, strict=True)
        return tuple([np.where(where, column, identity) for column, identity in pairs])
    places = np.flatnonzero(where)
    room = monoid.identities(count)
    if len(places):
        there = monoid.lift_rows(monoid.inputs.take(rows, places), len(places))
        schema.put_at(room, places, there)
    return room


@lru_cache(maxsize=256)
def _identities(monoid: AbstractMonoid) -> tuple[np.ndarray, ...] | None:
    """Return the identity as columns of one number; None if partials are not numbers."""
    schema = monoid.partials
    if not monoid.is_columnar or not all(isinstance(each, Array) for each in schema.columns):
        return None
    one = monoid.identity_row
    return one if isinstance(one, tuple) else (one,)
