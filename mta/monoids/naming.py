"""The names of users' functions in the names and fingerprints of monoids.

A module-level function has a unique name. Lambdas and nested functions share their names with
functions that do something else, so a digest of the code is added:

    >>> name_of(abs), name_of(lambda a: a) == name_of(lambda b: b)
    ('abs', True)
    >>> name_of(lambda a: a) == name_of(lambda a: a + 1)
    False

The digest covers instructions, constants, the names of globals, defaults, and plain data of the
enclosing function. It does not cover the names of variables, comments, or the position in the file.
Instructions differ between versions of Python: pass a name if snapshots must survive an upgrade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

import numpy as np

_PLAIN = (int, float, complex, str, bytes, date, timedelta, type(None))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, with a digest of its code if the name is not unique."""
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
    if isinstance(value, _PLAIN):
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
