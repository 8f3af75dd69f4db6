"""Several aggregations over one stream, in one structure (MTA paper, section 5.8).

A product of monoids is a monoid: partials are tuples, combined part by part. Each distinct column
of the events is stored once, however many aggregations read it.

If columns were added later, some stored events do not have them (``MissingColumns``). For each of
these columns, the aggregation also reads a column of marks, which say whether an event has a value.
An event without a value is lifted to the identity, as if it were not in the window.

    >>> from mta.monoids.basic import Max
    >>> late = MissingColumns(Max(), 1)
    >>> rows = np.array([0.0, -3.0, -5.0]), np.array([False, True, True])
    >>> partials = late.lift_rows(rows, 3)
    >>> late.lower(late.fold(partials, 3)), late.lower(late.identity)
    (-3.0, nan)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np

from mta.columns.reading import as_given, plain, read_column, read_value
from mta.columns.schemas import Array, Record, Row, Rows, Schema
from mta.errors import InvalidValue
from mta.monoids.base import AbstractMonoid, ChangePart, Out, Partial, lift_where, same_value
from mta.monoids.basic import Count
from mta.monoids.catalogue import named, named_pair
from mta.monoids.logical import AnyTrue
from mta.monoids.nulls import CountValues, SkipNulls, is_filter, with_row
from mta.monoids.parts import Parts, Pick, Place, call_text, written


class EventTimes(Enum):
    """Replaces the columns of an aggregation that reads the times of events, in microseconds."""

    EVENT_TIMES = "times of events"

    def __repr__(self) -> str:
        return self.value


EVENT_TIMES = EventTimes.EVENT_TIMES
#: The columns that an aggregation reads: one, several, none (Count), or the event times.
Columns = str | Sequence[str] | EventTimes | None
#: By name of the result: the columns and the monoid, or a monoid that reads no column. A text is
#: the name of an aggregation (``mta.monoids.catalogue``).
Named = Mapping[
    str,
    tuple[Columns, AbstractMonoid | str]
    | tuple[Columns, AbstractMonoid | str, str]
    | AbstractMonoid
    | str,
]
#: A pair of column and aggregation.
Pair = tuple[Columns, AbstractMonoid | str] | tuple[Columns, AbstractMonoid | str, str]
#: Named aggregations, or one without a name.
Shorthand = Named | Pair | str
Aggregations = Shorthand | AbstractMonoid
#: Aggregations, each as a pair.
Pairs = dict[str, tuple[Columns, AbstractMonoid]]


def result_name(alias: str, window: str) -> str:
    """Return the column of an aggregation over a window, as ``peak_day``; either may be empty."""
    return f"{alias}_{window}" if alias and window else alias or window


def result_columns(found: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the results of multiple windows to columns.

    >>> result_columns({"day": {"peak": 1, "low": 2}}), result_columns({"day": 3})
    ({'peak_day': 1, 'low_day': 2}, {'day': 3})
    """
    columns = {}
    for window, results in found.items():
        for alias, column in (results if isinstance(results, dict) else {"": results}).items():
            columns[result_name(alias, window)] = column
    return columns


def require_distinct(monoid: AbstractMonoid, windows: Iterable[str]) -> None:
    """Raise ValueError if two results of multiple windows would have the same name."""
    seen = set[str]()
    for name in [result_name(alias, window) for window in windows for alias in monoid.aliases]:
        if name in seen:
            raise ValueError(
                f"two results would be named {name!r}: rename an aggregation or a window"
            )
        seen.add(name)


class NamedRows(dict[str, Any]):
    """A Product's input rows, also as a dictionary; ``rows`` may store a column as two types."""

    rows: Rows
    stored: list[tuple[str, str]]


class Product(Parts[dict[str, Any]]):
    """Several named aggregations over the columns of one event.

    Events are mappings from column to value; batches are mappings, data frames or Arrow tables.

    Args:
        aggregations: A pair of column and aggregation for each result name. The column is a name,
            several names for an aggregation of several inputs (ArgMax), or None. An aggregation
            that reads no column may replace the pair. An aggregation is a monoid or a name, such as
            ``("watts", "max")`` or ``("watts", "quantile(0.9)")``. A third item is a filter: a
            column of booleans that says which events to aggregate; null is false.

    >>> from mta import Count, Max, Mean, Product
    >>> power = Product({"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": Count()})
    >>> rows, n = power.rows({"watts": [3.0, 5.0, 1.0]})
    >>> power.lower(power.fold(power.lift_rows(rows, n), n))
    {'peak': 5.0, 'mean': 3.0, 'n': 3}
    """

    names_results = True

    def __init__(self, aggregations: Aggregations) -> None:
        self.aggregations = pairs_of(aggregations)
        #: The stored columns of events in order, by name and kind.
        self.stored: dict[tuple[str, str], Schema] = {}
        parts: list[tuple[AbstractMonoid, Pick]] = []
        judges: dict[Hashable, tuple[AbstractMonoid, Pick]] = {}
        described = []
        for alias, (columns, monoid) in self.aggregations.items():
            parts.append((monoid, self.pick_for(columns, monoid)))
            reads = alias if monoid.has_own_rule else (*column_names(columns), repr(monoid.inputs))
            judges.setdefault(reads, parts[-1])
            described.append(f"{alias}={monoid.name}({','.join(column_names(columns))})")
        #: For a part whose number of values is in its own partials or in another part's: the index
        #: of that part, and the function that reads the number from its partials.
        self._counted: dict[int, tuple[int, Callable[[Any], Any]]] = {}
        readers = self._share_counts(parts)
        super().__init__(parts, readers)
        #: The parts that validate events; one of several with the same rule.
        self._judges = tuple(judges.values())
        self.aliases = tuple(self.aggregations)
        #: The distinct columns that are read from events, in order of first use.
        self.columns = tuple(dict.fromkeys(name for name, _ in self.stored))
        self.name = f"Product({', '.join(described)})"
        self.inputs = Record(list(self.stored.values()))
        self.outputs = Record([reader.outputs for reader in readers])
        self.empty = {a: m.empty for a, m in zip(self.aliases, readers, strict=True)}
        lowers, counts = list(map(_lower_of, readers)), list[Callable[[Any], Any]]()
        shown = []
        for i, lower in enumerate(lowers):
            arguments = [f"partial[{i}]"]
            if i in self._counted:
                by, count = self._counted[i]
                arguments.insert(0, f"count{len(counts)}(partial[{by}])")
                counts.append(count)
            shown.append(f"alias{i}: {call_text(lower, f'f{i}', *arguments)}")
        text = f"{{{','.join(shown)}}}"
        self.lower = written("partial", text, f=lowers, alias=self.aliases, count=counts)
        self._columns = tuple((name, schema) for (name, _), schema in self.stored.items())
        of_doubles = all(
            isinstance(s, Array) and s.plain and s.kind == "<f8" for _, s in self._columns
        )
        if of_doubles and self.is_plain and not any(m.has_own_rule for m in readers):
            names, every = [name for name, _ in self._columns], range(len(self._columns))
            row = f"({''.join(f'event[name{i}],' for i in every)})"
            are = "".join(
                f" and row[{i}].__class__ is float and row[{i}] == row[{i}]" for i in every
            )
            text = f"row if (row := {row}) is not None{are} else None"
            self.picks_doubles = written("event", text, name=names)

    def _share_counts(self, parts: list[tuple[AbstractMonoid, Pick]]) -> list[AbstractMonoid]:
        """Count values once for all parts that skip the nulls of the same columns.

        The count comes from the partials of a part that stores it, if there is one. Returns the
        readers of the rows of each part; ``parts`` keeps the monoids that fold them.
        """
        readers, groups = [monoid for monoid, _ in parts], dict[Hashable, list[int]]()
        for i, (columns, monoid) in enumerate(self.aggregations.values()):
            if isinstance(monoid, SkipNulls) and not monoid.needs_samples:
                reads = *column_names(columns), repr(monoid.inputs), monoid.filtered
                groups.setdefault((*reads, monoid.refuses), []).append(i)
        for group in groups.values():
            by = next((i for i in group if readers[i].bare.values_in is not None), None)
            count = itemgetter(0) if by is None else readers[by].bare.values_in
            others = group if by is not None else group[1:]
            for i in others:
                monoid, reader = readers[i].bare, readers[i]
                assert isinstance(reader, SkipNulls) and count is not None
                readers[i], parts[i] = reader.without_samples(), (monoid, parts[i][1])
                self._counted[i] = group[0] if by is None else by, count
        return readers

    def with_more(self, observers: Sequence[tuple[Columns, AbstractMonoid]]) -> Product:
        """Return this product with the aggregates that frames read; its own columns come first.

        >>> from mta import Max, Sum
        >>> Product({"peak": ("watts", Max())}).with_more([("km", Sum())]).columns
        ('watts', 'km')
        """
        return Product(self.aggregations | {f"frame {i}": o for i, o in enumerate(observers)})

    def by_alias(self) -> Pairs:
        return self.aggregations

    @property
    def kernel_lowers(self) -> bool:
        # Counts of values besides what is folded are no part of the loop.
        return not self._counted and all(monoid.kernel_lowers for monoid in self.monoids)

    @property
    def joins_values(self) -> bool:
        """Whether every part joins values, and no two parts read the same column."""
        return len(self.stored) == len(self.monoids) and all(
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
        for monoid, rows, pick in zip(self.monoids, partials, self.picks, strict=True):
            values[pick(range(len(values)))] = monoid.values_of(rows)
        return tuple(values)

    def with_parts(self, change: ChangePart) -> Product:
        pairs = {
            alias: (columns, change(columns, part))
            for alias, (columns, part) in self.aggregations.items()
        }
        parts = zip(pairs.values(), self.aggregations.values(), strict=True)
        return self if all(new is old for (_, new), (_, old) in parts) else Product(pairs)

    def given(self, rows: Rows) -> NamedRows:
        """Return input rows as a dictionary; of a column stored as several types, the exact one."""
        found = NamedRows()
        found.rows, found.stored = rows, list(self.stored)
        for (name, schema), column in zip(self._columns, rows, strict=True):
            kind = schema.bare
            if name not in found or not (isinstance(kind, Array) and kind.dtype.kind == "f"):
                found[name] = as_given(column, schema)
        return found

    def pick_for(self, columns: Columns, observer: AbstractMonoid) -> Pick:
        """Register a monoid's inputs as stored columns; return what selects them from a row."""
        keys = columns_read(columns, observer)
        for key, schema in zip(keys, observer.inputs.columns, strict=True):
            has_rule = getattr(schema, "exact", False) or getattr(schema, "only", None)
            if key not in self.stored or has_rule:
                self.stored[key] = schema
        places = list(map(list(self.stored).index, keys))
        if isinstance(observer.inputs, Record):
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
        if isinstance(values, NamedRows) and values.stored == list(self.stored) and values:
            return values.rows, len(next(iter(values.values())))
        columns = []
        for name, schema in self._columns:
            try:
                given = values[name]
            except (KeyError, TypeError, IndexError):
                raise InvalidValue(
                    f"column {name!r} is missing; a batch needs {list(self.columns)}"
                ) from None
            try:
                columns.append(read_column(given, schema))
            except InvalidValue as error:
                if not is_filter(schema):
                    raise
                raise InvalidValue(
                    f"the filter {name!r} is not a column of booleans ({error}): compare first, "
                    "and name the result"
                ) from None
        lengths = {len(column) for column in columns} or {_length(values, count)}
        if len(lengths) > 1:
            raise InvalidValue(f"the columns differ in length: {sorted(lengths)}")
        return tuple(columns), lengths.pop()

    def lower_rows(self, partials: Rows) -> Rows:
        found = []
        for i, (reader, rows) in enumerate(zip(self.readers, partials, strict=True)):
            if i not in self._counted:
                found.append(reader.lower_rows(rows))
                continue
            by, count = self._counted[i]
            assert isinstance(reader, SkipNulls)
            found.append(reader.lower_rows_of(count(partials[by]), rows))
        return tuple(found)

    def results(self, outputs: Rows) -> Any:
        parts = zip(self.aliases, self.readers, outputs, strict=True)
        return {alias: reader.results(column) for alias, reader, column in parts}


class Observed(Parts[Out]):
    """A monoid with the aggregates that frames read; it returns only the monoid's results.

    If an aggregate reads times, rows are pairs of the monoid's row and the event's time, which
    ``stamped`` adds. Every fold therefore reads the times of its events, wherever they are stored.
    """

    def __init__(
        self, main: AbstractMonoid[Out], observers: Sequence[tuple[Columns, AbstractMonoid]]
    ) -> None:
        self.main = main
        #: Whether rows hold the times of events.
        self.reads_times = any(columns is EVENT_TIMES for columns, _ in observers)
        others = [(columns, m) for columns, m in observers if columns is not EVENT_TIMES]
        self._by_times_alone = not others
        self.reader = main.with_more(others)
        picks = [self.reader.pick_for(columns, monoid) for columns, monoid in others]
        self.inputs, self.outputs, self.empty = self.reader.inputs, main.outputs, main.empty
        own: Pick = same_value
        if self.reads_times:
            self.inputs = Record([self.reader.inputs, Array("i8")])
            own, *picks = [_of_pair(pick) for pick in (own, *picks)]
        rest = iter(picks)
        parts = [
            (monoid, itemgetter(1) if columns is EVENT_TIMES else next(rest))
            for columns, monoid in observers
        ]
        super().__init__([(main, own), *parts])
        self.name = f"{main.name} beside {', '.join(monoid.name for _, monoid in observers)}"

    def stamped(self, rows: Any, times: Any) -> Any:
        """Return a row with its time, or rows with their times."""
        return (rows[0], times) if self.reads_times else rows

    def unstamped(self, rows: Any) -> Any:
        """Return rows without the times of their events, the inverse of ``stamped``."""
        return rows[0] if self.reads_times else rows

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
        """As for the monoid, if frames read no values."""
        return self._by_times_alone and self.main.joins_values

    def join_values(self, older: Row, newer: Row) -> Row:
        return self.main.join_values(older[0], newer[0]), newer[1]

    def lower(self, partial: Partial) -> Any:
        return self.main.lower(partial[0])

    def lower_rows(self, partials: Rows) -> Rows:
        return self.main.lower_rows(partials[0])

    def results(self, outputs: Rows) -> Any:
        return self.main.results(outputs)


def _lower_of(monoid: AbstractMonoid) -> Callable[[Partial], Any]:
    """Return a part's ``lower``, with Python results; it may take the number of values too."""
    lower: Callable[..., Any] = monoid.lower
    if isinstance(monoid, SkipNulls) and monoid.counted_elsewhere:
        lower = monoid.lower_of
    if monoid.is_plain and monoid.is_columnar:
        return lower
    return lambda *partial: plain(lower(*partial))


def _of_pair(pick: Pick) -> Pick:
    return lambda pair: pick(pair[0])


def _length(values: Any, count: int | None) -> int:
    """Return the number of events in a batch from which no column is read."""
    if count is None and isinstance(values, Mapping):
        return max((len(column) for column in values.values()), default=0)
    return len(values) if count is None else count


def reader_of(
    monoid: AbstractMonoid, observers: Iterable[tuple[Columns, AbstractMonoid]]
) -> AbstractMonoid:
    """Return a monoid that also reads the columns that frames read."""
    known = {name for name, _ in monoid.stored}
    more = [pair for pair in observers if not known.issuperset(column_names(pair[0]))]
    return monoid.with_more(more) if more else monoid


def aggregation_of(given: Any) -> AbstractMonoid:
    """Return an aggregation as users write it: a monoid, a name, a pair, or several by name.

    Raises TypeError and ValueError, which say what is allowed.

    >>> aggregation_of("max"), aggregation_of(("watts", "max"))
    (Max, Product(watts_max=Max(watts)))
    """
    if isinstance(given, str):
        return named(given)
    if isinstance(given, tuple | Mapping):
        return Product(given)
    if isinstance(given, type) and issubclass(given, AbstractMonoid):
        name = given.__name__
        raise TypeError(f"an aggregation is an object, and {name} is a class: write {name}()")
    if not isinstance(given, AbstractMonoid):
        raise TypeError(
            "a monoid is one of mta's, or a Monoid of your own; an aggregation may also be a name "
            'such as "max", a pair such as ("watts", "max"), or several by name, such as '
            f'{{"peak": ("watts", "max")}}, not {given!r}'
        )
    return given


def _name_of(given: Any) -> str:
    """Return the name of the result of an aggregation without one, such as ``watts_max``."""
    columns, how, *_ = given if isinstance(given, tuple) and len(given) > 1 else (None, given)
    text = how if isinstance(how, str) else getattr(how, "name", "")
    words = [*(column_names(columns) if isinstance(columns, str | list | tuple) else []), text]
    return re.sub(r"\W+", "_", "_".join(words)).strip("_").lower() if text else ""


def with_name(aggregations: Any) -> Any:
    """Return named aggregations as they are, and one without a name as a mapping of one."""
    if isinstance(aggregations, tuple | str | AbstractMonoid):
        return {_name_of(aggregations): aggregations}
    return aggregations


def pairs_of(aggregations: Any) -> Pairs:
    """Convert aggregations to pairs of columns and monoid.

    One aggregation may come without a name; then its result is called as ``("watts", "max")`` is,
    ``watts_max``.

    Raises ValueError for no aggregation, an unknown name or another number of columns than the
    aggregation reads, and TypeError for anything but a mapping to names of columns and monoids.
    """
    aggregations = with_name(aggregations)
    if not isinstance(aggregations, Mapping):
        raise TypeError(
            f"aggregations is {aggregations!r}: give a mapping of the names of results to pairs of "
            'column and aggregation, such as {"peak": ("watts", "max")}'
        )
    if not aggregations:
        raise ValueError(
            'aggregations is empty: name at least one, such as {"peak": ("watts", Max())}'
        )
    return {alias: _pair_of(alias, given) for alias, given in aggregations.items()}


def _pair_of(alias: str, given: Any) -> tuple[Columns, AbstractMonoid]:
    """Return the columns and the monoid of one aggregation. Raises as ``pairs_of`` does."""
    is_tuple = isinstance(given, tuple) and len(given) in (2, 3)
    items: Any = given if is_tuple else (None, given)
    columns, monoid, *filters = items
    if isinstance(monoid, str):
        try:
            columns, monoid = named_pair(columns, monoid)
        except ValueError as error:
            raise ValueError(f"aggregation {alias!r}: {error}") from error
    if isinstance(monoid, type) and issubclass(monoid, AbstractMonoid):
        name = monoid.__name__
        raise TypeError(f"aggregation {alias!r}: {name} is a class: write {name}()")
    if not isinstance(monoid, AbstractMonoid):
        raise TypeError(
            f"aggregation {alias!r} is {given!r}: give a pair of column and aggregation, such as "
            '("watts", "max") or ("watts", Max()), or one that reads no column, such as Count()'
        )
    if columns is not None and not isinstance(columns, EventTimes):
        names_of(columns, f"aggregation {alias!r}", f'("kw", {monoid.name}())')
    if type(monoid) is Count and (names := column_names(columns) or column_names(monoid.column)):
        columns, monoid = names, CountValues()
    if filters:
        columns, monoid = _filtered(alias, columns, monoid, filters[0])
    _require_columns(alias, columns, monoid)
    return columns, monoid


def _require_columns(alias: str, columns: Columns, monoid: AbstractMonoid) -> None:
    """Raise ValueError unless as many columns are named as the aggregation reads."""
    count, schemas = len(column_names(columns)), monoid.inputs.columns
    if count != len(schemas):
        wanted = (
            f"{len(schemas)}; write (column, aggregation)" if schemas else "none; give it alone"
        )
        raise ValueError(
            f"aggregation {alias!r} names {count} column(s), but {monoid.name} reads {wanted}"
        )


def columns_read(columns: Columns, monoid: AbstractMonoid) -> list[tuple[str, str]]:
    """Return the name and the kind of each named column that an aggregation reads."""
    pairs = zip(column_names(columns), monoid.inputs.columns, strict=False)
    return [(name, repr(schema)) for name, schema in pairs]


def _filtered(
    alias: str, columns: Columns, monoid: AbstractMonoid, by: Any
) -> tuple[Columns, AbstractMonoid]:
    """Aggregate the events for which a column is true. Raises TypeError."""
    if not isinstance(by, str):
        raise TypeError(
            f"aggregation {alias!r}: a filter is the name of a column of booleans, not {by!r}"
        )
    return [*column_names(columns), by], SkipNulls(monoid, filtered=True, refuses=True)


def skip_nulls(skips: bool = True, min_samples: int | None = None) -> ChangePart:
    """Return what makes an aggregation skip or reject nulls.

    Results of fewer than ``min_samples`` values are null; by default, results of no values are.
    """

    def change(_: Columns, one: AbstractMonoid) -> AbstractMonoid:
        if isinstance(one.inputs, Record) and not one.inputs.schemas:
            return one
        if isinstance(one, SkipNulls):
            return SkipNulls(one.monoid, one.filtered, min_samples, not skips)
        return SkipNulls(one, min_samples=min_samples, refuses=not skips)

    return change


def own_columns(columns: Columns, monoid: AbstractMonoid) -> list[str]:
    """Return the columns of values that an aggregation reads: all but its filter."""
    names = column_names(columns)
    return names[:-1] if isinstance(monoid, SkipNulls) and monoid.filtered else names


def names_of(given: Any, what: str, example: str) -> list[str]:
    """Return the columns that an argument names. Raises TypeError if it has no names."""
    if isinstance(given, str):
        return [given]
    names = given if isinstance(given, (list, tuple)) else [given]
    for name in names:
        if not isinstance(name, str):
            shown, *_ = str(name).splitlines()
            raise TypeError(
                f"{what} takes names of columns, such as {example}, not {type(name).__name__} "
                f"{shown:.40}: add what is computed as a column first, and name it"
            )
    return list(names)


def column_names(columns: Columns) -> list[str]:
    """Return the columns that an aggregation reads."""
    if columns is None or isinstance(columns, EventTimes):
        return []
    return [columns] if isinstance(columns, str) else list(columns)


# --- columns that were added later ----------------------------------------------------------------


MARKS = Array("?")


def mark_of(column: tuple[str, str]) -> str:
    """Return the name of the column that marks the values of a column (name, kind)."""
    return "\0".join(("", *column))


class MissingColumns(Parts):
    """A monoid with columns of marks; without marked events, its result is ``empty``."""

    def __init__(self, monoid: AbstractMonoid, marks: int) -> None:
        self.monoid = monoid
        own = monoid.inputs.columns
        self._width = len(own) if isinstance(monoid.inputs, Record) else None
        self.inputs = Record((*own, *[MARKS] * marks))
        self.outputs, self.empty = monoid.outputs, monoid.empty
        self.name = f"{monoid.name} of added columns"
        self.result_type = monoid.result_type
        super().__init__([(AnyTrue("?"), self._marked), (monoid, self._values)])
        self.lift = self._lift_marked  # the base class lifts the parts separately

    def _values(self, rows: Rows) -> Rows:
        return rows[0] if self._width is None else rows[: self._width]

    def _marked(self, rows: Rows) -> Any:
        return reduce(np.logical_and, rows[self._width or 1 :])

    def is_valid(self, row: Row) -> bool:
        return not self._marked(row) or self.monoid.is_valid(self._values(row))

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        found = self.monoid.invalid(self._values(rows), count)
        return None if found is None else found & self._marked(rows)

    def _lift_marked(self, row: Row) -> Partial:
        marked = self._marked(row)
        return marked, self.monoid.lift(self._values(row)) if marked else self.monoid.identity

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        marked = self._marked(rows)
        where = None if marked.all() else marked
        return marked, lift_where(self.monoid, self._values(rows), count, where)

    def lower(self, partial: Partial) -> Any:
        return self.monoid.lower(partial[1]) if partial[0] else self.empty

    def lower_rows(self, partials: Rows) -> Rows:
        marked, rows = partials
        found = self.monoid.lower_rows(rows)
        return found if marked.all() else with_row(self.outputs, found, ~marked, self.empty)

    def results(self, outputs: Rows) -> Any:
        return self.monoid.results(outputs)


def with_missing(monoid: AbstractMonoid, columns: Collection[tuple[str, str]]) -> Product:
    """Wrap the aggregations of columns (name, kind) that some events do not have."""
    aggregations: Pairs = {}
    for alias, (read, part) in monoid.by_alias().items():
        names, reads = column_names(read), dict.fromkeys(columns_read(read, part))
        marks = [mark_of(column) for column in reads if column in columns]
        if marks:
            aggregations[alias] = ([*names, *marks], MissingColumns(part, len(marks)))
        else:
            aggregations[alias] = (names or None, part)
    return Product(aggregations)
