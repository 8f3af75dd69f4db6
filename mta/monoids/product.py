"""Several aggregations over one stream, in one structure (MTA paper, section 5.8).

A product of monoids is a monoid: partials are tuples, combined side by side. Every distinct column
of the events is stored once, however many aggregations read it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import repeat
from operator import add
from typing import Any

import numpy as np

from mta.columns.reading import as_given, plain, read_column, read_value
from mta.columns.schemas import Array, Objects, Record, Row, Rows, Schema
from mta.errors import InvalidValue
from mta.monoids.base import AbstractMonoid, Out, Partial, any_of, same_value
from mta.monoids.columnar import larger, positive_zero, smaller
from mta.monoids.equality import Scale

#: Takes what a part reads out of the input rows (or out of one input row).
Pick = Callable[[Any], Any]


class EventTimes(Enum):
    """Stands in place of columns where an aggregate reads the times of events, in microseconds."""

    EVENT_TIMES = "times of events"

    def __repr__(self) -> str:
        return self.value


EVENT_TIMES = EventTimes.EVENT_TIMES
#: What an aggregation reads: a column, several, or none (Count). Policies may read event times.
Columns = str | Sequence[str] | EventTimes | None
#: What results are called, and for each the columns and the monoid, or a monoid that reads none.
Aggregations = Mapping[str, tuple[Columns, AbstractMonoid] | AbstractMonoid]
#: The same, each as a pair.
Pairs = dict[str, tuple[Columns, AbstractMonoid]]


def result_name(alias: str, window: str) -> str:
    """The column of an aggregation over a window, as ``peak_day``; either name may be empty."""
    return f"{alias}_{window}" if alias and window else alias or window


def result_columns(found: Mapping[str, Any]) -> dict[str, Any]:
    """The results of several windows as columns.

    >>> result_columns({"day": {"peak": 1, "low": 2}}), result_columns({"day": 3})
    ({'peak_day': 1, 'low_day': 2}, {'day': 3})
    """
    columns = {}
    for window, results in found.items():
        for alias, column in (results if isinstance(results, dict) else {"": results}).items():
            columns[result_name(alias, window)] = column
    return columns


def require_distinct(monoid: AbstractMonoid, windows: Iterable[str]) -> None:
    """Raise ValueError where two results of several windows would have the same name."""
    aliases, seen = monoid.aliases if isinstance(monoid, Product) else ("",), set[str]()
    for name in [result_name(alias, window) for window in windows for alias in aliases]:
        if name in seen:
            raise ValueError(
                f"two results would be called {name!r}: rename an aggregation or a window"
            )
        seen.add(name)


class NamedRows(dict[str, Any]):
    """Input rows of a Product, as a dictionary too: a column may be stored as of two kinds."""

    rows: Rows
    stored: list[tuple[str, str]]


class Place:
    """The pick of one column."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, rows: Any) -> Any:
        return rows[self.at]


class Parts(AbstractMonoid[Out]):
    """Monoids side by side, each on its own pick of the input."""

    def __init__(self, parts: Sequence[tuple[AbstractMonoid, Pick]]) -> None:
        self.monoids = tuple(monoid for monoid, _ in parts)
        self.picks = tuple(pick for _, pick in parts)
        self.identity = tuple(monoid.identity for monoid in self.monoids)
        self.partials = Record([monoid.partials for monoid in self.monoids])
        self.is_columnar = all(monoid.is_columnar for monoid in self.monoids)
        self.folds_ranges = any(monoid.folds_ranges for monoid in self.monoids)
        self.commutative = all(monoid.commutative for monoid in self.monoids)
        self.is_plain = all(monoid.is_plain for monoid in self.monoids)
        lifts = [m.lift if self.is_plain else _lift_of(m) for m in self.monoids]
        every = range(len(self.monoids))
        taken = [
            f"row[{pick.at}]" if isinstance(pick, Place) else f"pick{i}(row)"
            for i, pick in enumerate(self.picks)
        ]
        lifted = [_call(lifts[i], f"lift{i}", taken[i]) for i in every]
        self.lift = _written("row", f"({','.join(lifted)},)", lift=lifts, pick=self.picks)
        combines = [monoid.combine for monoid in self.monoids]
        pairs = [_call(combines[i], f"f{i}", f"a[{i}]", f"b[{i}]") for i in every]
        self.combine = _written("a, b", f"({','.join(pairs)},)", f=combines)
        if all(monoid.inverse for monoid in self.monoids):
            inverses = [monoid.inverse for monoid in self.monoids if monoid.inverse]
            self.inverse = lambda whole, part: tuple(
                f(a, b) for f, a, b in zip(inverses, whole, part, strict=True)
            )

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.name, *(monoid.fingerprint for monoid in self.monoids))

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        parts = zip(self.monoids, self.picks, strict=True)
        return tuple([monoid.lift_rows(pick(rows), count) for monoid, pick in parts])

    def fold(self, partials: Rows, count: int) -> Partial:
        return tuple([m.fold(p, count) for m, p in zip(self.monoids, partials, strict=True)])

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        parts = zip(self.monoids, partials, left, strict=True)
        return tuple([monoid.prefixes(p, count, side) for monoid, p, side in parts])

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        parts = zip(self.monoids, partials, right, strict=True)
        return tuple([monoid.suffixes(p, count, side) for monoid, p, side in parts])

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        parts = zip(self.monoids, left, right, strict=True)
        return tuple([monoid.combine_rows(a, b, count) for monoid, a, b in parts])

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        scales = repeat(None) if scale is None else scale.spread(one)
        parts = zip(self.monoids, one, other, scales, strict=False)
        return all(monoid.same(a, b, part) for monoid, a, b, part in parts)


class Product(Parts[dict[str, Any]]):
    """Named aggregations over the columns of one event.

    >>> from mta import Count, Max, Mean, Product
    >>> power = Product({"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": Count()})
    >>> rows, n = power.rows({"watts": [3.0, 5.0, 1.0]})
    >>> power.lower(power.fold(power.lift_rows(rows, n), n))
    {'peak': 5.0, 'mean': 3.0, 'n': 3}

    An aggregation is a pair of column and monoid: one column's name, several names for a monoid of
    several inputs (ArgMax), or None for one that reads none; a bare monoid is one that reads none.
    Events are mappings from column to value; batches are mappings, data frames or Arrow tables.
    """

    def __init__(self, aggregations: Aggregations) -> None:
        self.aggregations = pairs_of(aggregations)
        self._schemas: dict[tuple[str, str], Schema] = {}
        parts: list[tuple[AbstractMonoid, Pick]] = []
        judges: dict[Hashable, tuple[AbstractMonoid, Pick]] = {}
        described = []
        for alias, (columns, monoid) in self.aggregations.items():
            parts.append((monoid, self._pick(alias, columns, monoid)))
            reads = alias if monoid.has_own_rule else (*column_names(columns), repr(monoid.inputs))
            judges.setdefault(reads, parts[-1])
            described.append(f"{alias}={monoid.name}({','.join(column_names(columns))})")
        super().__init__(parts)
        #: The parts that say which events are valid; one of those that judge alike.
        self._judges = tuple(judges.values())
        self.aliases = tuple(aggregations)
        self.name = f"Product({', '.join(described)})"
        self.inputs = Record(list(self._schemas.values()))
        self.outputs = Record([monoid.outputs for monoid in self.monoids])
        self.empty = {a: m.empty for a, m in zip(self.aliases, self.monoids, strict=True)}
        lowers = [_lower_of(monoid) for monoid in self.monoids]
        shown = [
            f"alias{i}: {_call(lower, f'f{i}', f'partial[{i}]')}" for i, lower in enumerate(lowers)
        ]
        self.lower = _written("partial", f"{{{','.join(shown)}}}", f=lowers, alias=self.aliases)
        self._columns = tuple((name, schema) for (name, _), schema in self._schemas.items())
        #: Takes out an event's columns, where all are doubles and none but a NaN is refused; None
        #: of an event with other values.
        self.picks_doubles: Callable[[Any], Row | None] | None = None
        of_doubles = all(
            isinstance(s, Array) and s.plain and s.kind == "<f8" for _, s in self._columns
        )
        if of_doubles and self.is_plain and not any(m.has_own_rule for m in self.monoids):
            names, every = [name for name, _ in self._columns], range(len(self._columns))
            row = f"({''.join(f'event[name{i}],' for i in every)})"
            are = "".join(
                f" and row[{i}].__class__ is float and row[{i}] == row[{i}]" for i in every
            )
            text = f"row if (row := {row}) is not None{are} else None"
            self.picks_doubles = _written("event", text, name=names)

    def with_more(self, observers: Sequence[tuple[Columns, AbstractMonoid]]) -> Product:
        """The same, and what policies look at; columns of its own stand first, as they stand here.

        >>> from mta import Max, Sum
        >>> Product({"peak": ("watts", Max())}).with_more([("km", Sum())]).columns
        ('watts', 'km')
        """
        return Product(self.aggregations | {f"policy {i}": o for i, o in enumerate(observers)})

    @property
    def joins_values(self) -> bool:
        """Whether every part joins values, and no two parts join those of one column."""
        return len(self._schemas) == len(self.monoids) and all(
            monoid.joins_values for monoid in self.monoids
        )

    def join_values(self, older: Row, newer: Row) -> Row:
        joined = list(older)
        for monoid, pick in zip(self.monoids, self.picks, strict=True):
            place = pick(range(len(joined)))
            joined[place] = monoid.join_values(older[place], newer[place])
        return tuple(joined)

    def values_of(self, partials: Rows) -> Rows:
        values = list(partials)
        for rows, pick in zip(partials, self.picks, strict=True):
            values[pick(range(len(values)))] = rows
        return tuple(values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The distinct columns that are read from events, in the order of first use."""
        return tuple(dict.fromkeys(name for name, _ in self._schemas))

    @property
    def stored(self) -> dict[tuple[str, str], Schema]:
        """The columns of events as they are stored, in their order, by name and kind."""
        return dict(self._schemas)

    def named(self, rows: Rows) -> NamedRows:
        """Input rows as a dictionary of columns; where one is read as several types, exactly."""
        found = NamedRows()
        found.rows, found.stored = rows, list(self._schemas)
        for ((name, _), schema), column in zip(self._schemas.items(), rows, strict=True):
            if name not in found or not (isinstance(schema, Array) and schema.dtype.kind == "f"):
                found[name] = as_given(column, schema)
        return found

    @property
    def places(self) -> tuple[int, ...]:
        """The place in a row of each part's column, for parts of one column each."""
        return tuple([pick.at for pick in self.picks if isinstance(pick, Place)])

    def _pick(self, alias: str, columns: Columns, monoid: AbstractMonoid) -> Pick:
        """Register what a monoid reads as stored columns; return how to take it out of a row."""
        names, inputs = column_names(columns), monoid.inputs
        schemas = inputs.schemas if isinstance(inputs, Record) else [inputs]
        if len(names) != len(schemas):
            wanted = f"{len(schemas)}; write (column, monoid)" if schemas else "none; give it alone"
            raise ValueError(
                f"aggregation {alias!r} names {len(names)} column(s), "
                f"but {monoid.name} reads {wanted}"
            )
        keys = [(name, repr(schema)) for name, schema in zip(names, schemas, strict=True)]
        for key, schema in zip(keys, schemas, strict=True):
            if key not in self._schemas or getattr(schema, "exact", False):
                self._schemas[key] = schema
        places = list(map(list(self._schemas).index, keys))
        if isinstance(inputs, Record):
            return lambda row: tuple([row[place] for place in places])
        return Place(places[0])

    def row(self, value: Any) -> Row:
        try:
            return tuple([read_value(value[name], schema) for name, schema in self._columns])
        except (KeyError, TypeError, IndexError):
            raise InvalidValue(
                f"an event must be a mapping with {list(self.columns)}, not {value!r}"
            ) from None

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        if isinstance(values, NamedRows) and values.stored == list(self._schemas) and values:
            return values.rows, len(next(iter(values.values())))
        columns = []
        for (name, _), schema in self._schemas.items():
            try:
                given = values[name]
            except (KeyError, TypeError, IndexError):
                raise InvalidValue(
                    f"column {name!r} is missing; a batch needs {list(self.columns)}"
                ) from None
            columns.append(read_column(given, schema))
        lengths = {len(column) for column in columns} or {_length(values, count)}
        if len(lengths) > 1:
            raise InvalidValue(f"the columns differ in length: {sorted(lengths)}")
        return tuple(columns), lengths.pop()

    def is_valid(self, row: Row) -> bool:
        return all(monoid.is_valid(pick(row)) for monoid, pick in self._judges)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return any_of([monoid.invalid(pick(rows), count) for monoid, pick in self._judges])

    def lower_rows(self, partials: Rows) -> Rows:
        return tuple([m.lower_rows(p) for m, p in zip(self.monoids, partials, strict=True)])

    def results(self, outputs: Rows) -> Any:
        parts = zip(self.aliases, self.monoids, outputs, strict=True)
        return {alias: monoid.results(column) for alias, monoid, column in parts}


class Observed(Parts[Out]):
    """A monoid, and beside it the aggregates that policies decide on; results are its own alone.

    Where one of these reads times, rows are pairs of what the monoid reads and the event's time,
    which ``stamped`` puts there: so every fold sees the times of its events, wherever they lie.
    """

    reader: AbstractMonoid

    def __init__(
        self, main: AbstractMonoid[Out], observers: Sequence[tuple[Columns, AbstractMonoid]]
    ) -> None:
        self.main, self.reader = main, main
        #: Whether rows hold the times of events too.
        self.reads_times = any(columns is EVENT_TIMES for columns, _ in observers)
        others = [(columns, m) for columns, m in observers if columns is not EVENT_TIMES]
        self._by_times_alone = not others
        picks: list[Pick]
        if isinstance(main, Product):
            self.reader = wider = main.with_more(others)
            picks = list(wider.picks[len(main.monoids) :])
        else:
            picks = [_share(main, columns, monoid) for columns, monoid in others]
        self.inputs, self.outputs, self.empty = self.reader.inputs, main.outputs, main.empty
        own: Pick = same_value
        if self.reads_times:
            self.inputs = Record([self.reader.inputs, Array("i8")])
            own, *picks = [_of_pair(pick) for pick in (own, *picks)]
        rest = iter(picks)
        parts = [
            (monoid, _second if columns is EVENT_TIMES else next(rest))
            for columns, monoid in observers
        ]
        super().__init__([(main, own), *parts])
        self.name = f"{main.name} beside {', '.join(monoid.name for _, monoid in observers)}"

    def stamped(self, rows: Any, times: Any) -> Any:
        """A row with its time, or rows with theirs."""
        return (rows[0], times) if self.reads_times else rows

    def row(self, value: Any) -> Row:
        row = self.reader.row(value)
        return (row, 0) if self.reads_times else row

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        rows, count = self.reader.rows(values, count)
        return (rows, np.zeros(count, "<i8")) if self.reads_times else rows, count

    def is_valid(self, row: Row) -> bool:
        return self.reader.is_valid(row[0] if self.reads_times else row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return self.reader.invalid(rows[0] if self.reads_times else rows, count)

    @property
    def joins_values(self) -> bool:
        """Whether the monoid does, and policies look at no values."""
        return self._by_times_alone and self.main.joins_values

    def join_values(self, older: Row, newer: Row) -> Row:
        return self.main.join_values(older[0], newer[0]), newer[1]

    def lower(self, partial: Partial) -> Any:
        return self.main.lower(partial[0])

    def lower_rows(self, partials: Rows) -> Rows:
        return self.main.lower_rows(partials[0])

    def results(self, outputs: Rows) -> Any:
        return self.main.results(outputs)


def _written(arguments: str, expression: str, **lists: Sequence[Any]) -> Any:
    """A function written out, part by part: a loop over few parts takes longer than they do.

    The text is made of our own words and of numbers; what users name things goes in by name.
    """
    names = {f"{name}{i}": f for name, fs in lists.items() for i, f in enumerate(fs)}
    return eval(f"lambda {arguments}: {expression}", names)


#: What takes less time than a call of it.
_IN_LINE: tuple[tuple[Callable[..., Any], str], ...] = (
    (same_value, "{0}"),
    (positive_zero, "{0} + 0.0"),
    (add, "{0} + {1}"),
    (larger, "{0} if {0} >= {1} or {0} != {0} else {1}"),
    (smaller, "{0} if {0} <= {1} or {0} != {0} else {1}"),
)


def _call(function: Any, name: str, *arguments: str) -> str:
    """The text of a call, or in its place of what the function does.

    >>> _call(add, "f0", "a[0]", "b[0]"), _call(max, "f1", "a[1]", "b[1]")
    ('a[0] + b[0]', 'f1(a[1], b[1])')
    """
    known = next((text for each, text in _IN_LINE if each is function), None)
    return f"{name}({', '.join(arguments)})" if known is None else known.format(*arguments)


def _lift_of(monoid: AbstractMonoid) -> Callable[[Row], Partial]:
    """``lift`` of a part beside parts of another kind: what it gets is first made a row of its own.

    The row may be of numpy's numbers where the part takes Python's, or the other way round; and
    behind a part's own columns it may have those that a policy looks at.
    """
    lift, inputs = monoid.lift, monoid.inputs
    if not monoid.is_columnar:
        return lift
    if isinstance(inputs, Record):
        width = len(inputs.schemas)
        return lambda row: lift(inputs.at(inputs.one(row[:width]), 0))
    return lambda row: lift(inputs.at(inputs.one(row), 0))


def _lower_of(monoid: AbstractMonoid) -> Callable[[Partial], Any]:
    """``lower`` of a part, as one of Python's numbers."""
    lower = monoid.lower
    if monoid.is_plain and monoid.is_columnar:
        return lower
    return lambda partial: plain(lower(partial))


def _of_pair(pick: Pick) -> Pick:
    return lambda pair: pick(pair[0])


def _second(pair: Any) -> Any:
    return pair[1]


def _length(values: Any, count: int | None) -> int:
    """How many events a batch holds of which no column is read."""
    if count is None and isinstance(values, Mapping):
        return max((len(column) for column in values.values()), default=0)
    return len(values) if count is None else count


def _share(main: AbstractMonoid, columns: Columns, monoid: AbstractMonoid) -> Pick:
    """How an observer reads the values of a window whose events have no named columns."""
    if columns is not None:
        raise ValueError(f"the policy reads {columns!r}, but the events have no named columns")
    if isinstance(monoid.inputs, Record) and not monoid.inputs.schemas:
        return lambda row: ()
    if isinstance(main.inputs, Objects) and isinstance(monoid.inputs, Array):
        schema = monoid.inputs
        return lambda row: (
            np.asarray(row, schema.dtype)
            if isinstance(row, list)
            else schema.at(np.asarray([row], schema.dtype), 0)
        )
    if isinstance(main.inputs, Array) and isinstance(monoid.inputs, Objects):
        return lambda row: row.tolist() if isinstance(row, np.ndarray) else plain(row)
    if repr(main.inputs) != repr(monoid.inputs):
        raise ValueError(f"{monoid.name} cannot read the values that {main.name} reads")
    return same_value


def reader_of(
    monoid: AbstractMonoid, observers: Iterable[tuple[Columns, AbstractMonoid]]
) -> AbstractMonoid:
    """What reads all columns of events: those of a monoid, and others that policies look at."""
    if not isinstance(monoid, Product):
        return monoid
    more = [
        (columns, observer)
        for columns, observer in observers
        if not set(column_names(columns)) <= set(monoid.columns)
    ]
    return monoid.with_more(more) if more else monoid


def pairs_of(aggregations: Aggregations) -> Pairs:
    """Aggregations as pairs of columns and monoid. Raises ValueError for none, and TypeError."""
    if not aggregations:
        raise ValueError('aggregations is empty: name at least one, as {"peak": ("watts", Max())}')
    found: Pairs = {}
    for alias, given in aggregations.items():
        pair = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
        columns, monoid = pair
        if isinstance(monoid, type) and issubclass(monoid, AbstractMonoid):
            name = monoid.__name__
            raise TypeError(f"aggregation {alias!r}: {name} is a class: write {name}()")
        if not isinstance(monoid, AbstractMonoid):
            raise TypeError(
                f"aggregation {alias!r} is {given!r}: give a pair of column and monoid, as "
                '("watts", Max()), or a monoid that reads no column, as Count()'
            )
        found[alias] = columns, monoid
    return found


def column_names(columns: Columns) -> list[str]:
    """The columns that an aggregation reads."""
    if columns is None or isinstance(columns, EventTimes):
        return []
    return [columns] if isinstance(columns, str) else list(columns)
