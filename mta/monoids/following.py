"""Aggregations without a type follow their columns: they take the type of the first values.

``Max()``, ``"last"`` and similar aggregations read doubles. If the first values that windows get
are no numbers, the aggregation is created again for their type:

    text, bytes, tuples ...    any objects, all of one Python type
    datetimes, dates           "M8[us]", "M8[D]"; arrays keep their unit
    durations                  "m8[us]"
    decimals                   ``Decimals`` with as many places as the first values have

Other numbers stay doubles, so that integers and floats can follow each other.

>>> from mta.monoids.basic import Max
>>> following(Max(), ["b", "a"]), following(Max(), [1, 2.5])
(MaxText, Max)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from mta.columns.kinds import schema_of_kind
from mta.columns.reading import as_objects, is_missing
from mta.columns.schemas import (
    Array,
    Decimals,
    NullableColumn,
    Objects,
    Presence,
    Record,
    Schema,
)
from mta.errors import InvalidValue
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Columns, Product, own_columns

#: Types whose values a column of doubles reads.
_NUMBERS = (int, float, bool, np.number, np.bool_, Decimal)

#: The types of objects that snapshots name.
_OBJECTS: dict[str, type] = {kind.__name__: kind for kind in (str, bytes, tuple, list, dict)}
#: All types that columns may give.
_TYPES: list[Any] = [
    str,
    *(f"{kind}8[{unit}]" for kind in "Mm" for unit in ("D", "h", "m", "s", "ms", "us", "ns")),
    *map(Decimals, range(19)),
]


def following(monoid: AbstractMonoid, values: Any) -> AbstractMonoid:
    """Return the monoid for the types of a batch of values; the same if they are numbers.

    Raises InvalidValue for a column of objects of several types.
    """
    return _typed(monoid, lambda name, at: _type_of(_column(values, name, at), name))


def following_columns(
    monoid: AbstractMonoid, columns: Iterable[tuple[str, str]], types: Mapping[str, str]
) -> AbstractMonoid:
    """Return the monoid for the types of stored columns: pairs of name and kind."""
    kinds: dict[str, list[str]] = {}
    for name, kind in columns:
        kinds.setdefault(name, []).append(kind)

    def type_of(name: str, at: int | None) -> Any:
        del at
        known = filter(None, map(schema_of_kind, kinds.get(name, ())))
        schemas = [each.bare for each in known if not isinstance(each, Presence)]  # of any type
        if any(isinstance(each, Array) and each.dtype.kind in "biuf" for each in schemas):
            is_double = [each for each in schemas if repr(each) == "Array('<f8')"]
            if is_double or not any(isinstance(each, Decimals) for each in schemas):
                return None
        for each in schemas:
            if isinstance(each, Decimals):
                return each
            if isinstance(each, Array) and each.dtype.kind in "mM":
                return each.kind[1:]
        return Objects(_OBJECTS.get(types[name])) if name in types else None

    return _typed(monoid, type_of)


def named_types(
    monoid: AbstractMonoid, name: str, types: Mapping[str, str]
) -> Iterator[AbstractMonoid]:
    """Yield a monoid for other types of columns, which may be the one with this name.

    ``types`` has the type of each column of objects, as ``types_of`` returns them.
    """
    if not isinstance(monoid, Product):
        yield from _of_each_type(monoid, [""], types)
        return
    pairs = dict(monoid.aggregations)
    for alias, (columns, part) in monoid.aggregations.items():
        names = [""] if columns is None else own_columns(columns, part)
        each_type = _of_each_type(part, names, types)
        typed = (each for each in each_type if f"{alias}={each.name}(" in name)
        pairs[alias] = (columns, next(typed, part))
    yield Product(pairs)


def _of_each_type(
    monoid: AbstractMonoid, names: list[str], types: Mapping[str, str]
) -> Iterator[AbstractMonoid]:
    width = _width(monoid)
    if width is None:
        return
    own = [_OBJECTS.get(types.get(name, "")) for name in names]
    texts = [str if kind is None else Objects(kind) for kind in own]
    for each in _TYPES:
        chosen = texts if each is str and len(texts) == (width or 1) else [each] * (width or 1)
        yield monoid.of_types(*chosen)


def types_of(monoid: AbstractMonoid) -> dict[str, str]:
    """Return the name of the type of each column of objects of one type."""
    found: dict[str, str] = {}
    for (name, _), schema in monoid.stored.items():
        found |= _named(name, schema)
    return found


def _named(name: str, schema: Schema) -> dict[str, str]:
    only = schema.only if isinstance(schema, Objects) else None
    return {} if only is None else {name: only.__name__}


def _typed(monoid: AbstractMonoid, type_of: Callable[[str, int | None], Any]) -> AbstractMonoid:
    """Return a monoid, or a product's parts, for the types of their columns."""

    def change(columns: Columns, part: AbstractMonoid) -> AbstractMonoid:
        names = None if columns is None else own_columns(columns, part)
        return _one(part, names, type_of)

    return monoid.with_parts(change)


def _one(
    monoid: AbstractMonoid, names: list[str] | None, type_of: Callable[[str, int | None], Any]
) -> AbstractMonoid:
    width = _width(monoid)
    if width is None:
        return monoid
    if names is None:
        types = [type_of("", at) for at in (range(width) if width else [None])]
    else:
        types = [type_of(name, None) for name in names]
    return monoid if all(each is None for each in types) else monoid.of_types(*types)


def _width(monoid: AbstractMonoid) -> int | None:
    """Return how many columns a monoid without a type reads; 0 for one, None if it has a type."""
    bare = monoid.bare
    if not bare.follows_column or isinstance(bare.inputs, Objects):
        return None
    return len(bare.inputs.schemas) if isinstance(bare.inputs, Record) else 0


def _column(values: Any, name: str, at: int | None) -> Any:
    """Return the values of a column of a batch; none if the batch does not have it."""
    try:
        if name:
            return values[name]
        return values if at is None else values[at]
    except (KeyError, TypeError, IndexError):
        return []


def _type_of(values: Any, name: str) -> Any:
    """Return the type of a column as for ``of_types``; None for numbers, and without values."""
    if isinstance(values, NullableColumn):
        return None
    array = np.asarray(values) if hasattr(values, "dtype") or hasattr(values, "to_numpy") else None
    if array is not None and array.dtype.kind in "mM" and len(array):
        return None if np.isnat(array).all() else array.dtype.str[1:]
    rows = [row for row in as_objects(values) if not is_missing(row)]
    kinds = set(map(type, rows))
    if Decimal in kinds and kinds <= {Decimal, int}:
        return Decimals(max(_places(row) for row in rows))
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        return None
    for kind, unit in ((datetime, "M8[us]"), (date, "M8[D]"), (timedelta, "m8[us]")):
        if all(issubclass(each, kind) for each in kinds):
            return unit
    if all(issubclass(kind, (np.datetime64, np.timedelta64)) for kind in kinds):
        return np.asarray(rows).dtype.str[1:]
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        shown = f"column {name!r}" if name else "the column"
        raise InvalidValue(
            f"{shown} has values of several types: {names}; nothing was inserted; convert them to "
            "one type"
        )
    return Objects(kinds.pop())


def _places(number: Decimal | int) -> int:
    """Return the digits after the decimal point; 0 for infinity."""
    exponent = Decimal(number).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
