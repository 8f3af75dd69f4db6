"""How a monoid or a frame was constructed, as plain data from which any process can rebuild it.

A class that inherits from ``Recorded`` remembers the arguments of its constructor. ``to_plain``
turns these into data that msgpack writes, and ``from_plain`` calls the constructor again. It only
calls classes that the reader lists, with arguments of the types below. Nothing is unpickled.

    recipe   = [class name, array of value, map of text to value]; the name of a class method that
               constructs follows the name of its class, as in "CalendarWindow.to_date"
    value    = nil, boolean, integer, float, text, bytes, or a map of one entry:
               "list" or "tuple": array of value      "map": array of [text, value]
               "dtype": text                          "type": one of ``TYPES`` by name
               "column": repr of a schema             "us": microseconds of a duration
               "recipe": recipe

A function or any other object without a recipe raises ``NoRecipe``, which names the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any, Self

import numpy as np

from mta.columns.kinds import dtype_of, schema_of_kind
from mta.columns.schemas import Coded, Decimals

#: Types that constructors take.
TYPES: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool, bytes)}
_PLAIN = (type(None), bool, int, float, str, bytes)
#: The deepest nesting of values, and the most items in a list of them.
_DEPTH, _ITEMS = 16, 4096


class NoRecipe(ValueError):
    """A value that cannot be written as plain data."""


class Recorded:
    """Remembers the arguments of the constructor."""

    constructed_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    #: The class method that was called in place of the constructor.
    constructed_by = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made.constructed_with = (args, kwargs)
        return made


def recipe_of(made: Recorded, classes: Mapping[str, Callable[..., Any]]) -> list[Any]:
    """Return the recipe of an object of one of the classes, given by name. Raises NoRecipe."""
    kind: type = type(made)
    if classes.get(kind.__name__) is not kind:
        raise NoRecipe(f"{made!r} is of {kind.__qualname__}, which is not one of this package's")
    args, kwargs = made.constructed_with
    return [
        f"{kind.__name__}.{made.constructed_by}".rstrip("."),
        [to_plain(each, classes) for each in args],
        {name: to_plain(each, classes) for name, each in kwargs.items()},
    ]


def to_plain(value: Any, classes: Mapping[str, Callable[..., Any]]) -> Any:
    """Return an argument of a constructor as plain data. Raises NoRecipe."""
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        value = value.item()
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Recorded):
        return {"recipe": recipe_of(value, classes)}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [to_plain(each, classes) for each in value]}
    if isinstance(value, Mapping):
        return {"map": [[str(name), to_plain(each, classes)] for name, each in value.items()]}
    if isinstance(value, timedelta | np.timedelta64):
        return {"us": int(np.timedelta64(value, "us").astype("i8"))}
    if isinstance(value, (Decimals, Coded)):
        return {"column": repr(value)}
    if isinstance(value, type) and value in TYPES.values():
        return {"type": value.__name__}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).str}
    raise NoRecipe(f"{value!r:.80} is not plain data")


def from_plain(value: Any, classes: Mapping[str, Callable[..., Any]], depth: int = 0) -> Any:
    """Return the argument of ``to_plain``. Raises ValueError and TypeError for other data."""
    if depth > _DEPTH:
        raise ValueError("a recipe is nested too deeply")
    if type(value) in _PLAIN:
        return value
    match list(value.items()) if isinstance(value, dict) else []:
        case [("recipe", data)]:
            return rebuilt(data, classes, depth + 1)
        case [("list" | "tuple" as tag, list(items))] if len(items) <= _ITEMS:
            found = [from_plain(each, classes, depth + 1) for each in items]
            return found if tag == "list" else tuple(found)
        case [("map", list(items))] if len(items) <= _ITEMS:
            return {str(name): from_plain(each, classes, depth + 1) for name, each in items}
        case [("type", str(name))] if name in TYPES:
            return TYPES[name]
        case [("us", int(micros))]:
            return timedelta(microseconds=micros)
        case [("column", str(text))] if schema := schema_of_kind(text):
            return schema
        case [("dtype", str(text))]:
            return dtype_of(text)
    raise ValueError(f"a recipe has {value!r:.80}, which is not an argument")


def rebuilt(recipe: Any, classes: Mapping[str, Callable[..., Any]], depth: int = 0) -> Any:
    """Construct the object that a recipe describes.

    Raises ValueError and TypeError for an unknown class, and the errors of the constructor.
    """
    match recipe:
        case [str(name), list(args), dict(kwargs)] if name in classes and len(args) <= _ITEMS:
            return classes[name](
                *[from_plain(each, classes, depth) for each in args],
                **{str(key): from_plain(each, classes, depth) for key, each in kwargs.items()},
            )
    raise ValueError(f"not a recipe of {', '.join(classes)}: {recipe!r:.80}")


# --- names of users' functions --------------------------------------------------------------------


_NAMED_BY_VALUE = (int, float, complex, str, bytes, date, timedelta, type(None))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for names and fingerprints of monoids.

    A module-level function has a unique name. Lambdas and nested functions share their names with
    functions that do something else, so a digest of the code is added:

        >>> name_of(abs), name_of(lambda a: a) == name_of(lambda b: b)
        ('abs', True)
        >>> name_of(lambda a: a) == name_of(lambda a: a + 1)
        False

    The digest covers instructions, constants, the names of globals, defaults, and plain data of the
    enclosing function. It does not cover the names of variables, comments, or the position in the
    file. Instructions differ between versions of Python: pass a name if snapshots must survive an
    upgrade.
    """
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    if "<" not in name and not isinstance(function, partial):
        return name
    described = repr(_described(function, frozenset()))
    return f"{name}#{blake2b(described.encode(), digest_size=6).hexdigest()}"


def _described(value: Any, around: frozenset[int]) -> Any:
    """Describe a value identically in every process; ``around`` stops cycles."""
    if id(value) in around:
        return "itself"
    around |= {id(value)}
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, _NAMED_BY_VALUE):
        return repr(value)
    if isinstance(value, tuple):
        return _all_described(value, around)
    if isinstance(value, frozenset):
        return sorted(map(repr, _all_described(value, around)))
    if isinstance(value, CodeType):
        return value.co_code.hex(), value.co_names, _all_described(value.co_consts, around)
    if isinstance(value, partial):
        given = (value.args, *sorted(value.keywords.items()))
        return _described(value.func, around), _all_described(given, around)
    if isinstance(value, FunctionType) and "<" in value.__qualname__:
        return _described(value.__code__, around), _all_described(_taken(value), around)
    # A value that may change, or differs between processes, is described by its type.
    return getattr(value, "__qualname__", type(value).__qualname__)


def _all_described(values: Iterable[Any], around: frozenset[int]) -> list[Any]:
    return [_described(value, around) for value in values]


def _taken(function: FunctionType) -> list[Any]:
    """Return a function's defaults, and the values of its closure."""
    defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
    return defaults + [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
