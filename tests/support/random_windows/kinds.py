"""Events and monoids: what a life draws, and what a plain list of it answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from mta import Collect, Count, First, Last, Max, Mean, Min, Monoid, Product, Sum
from mta.aggregations import AbstractMonoid, PopulationStdDev


@dataclass(frozen=True)
class Kind:
    """Events of one sort, a monoid over them, and the same by hand."""

    name: str
    #: Whether events come late: then they are neighbours by their order, not by their numbers.
    monoid: Callable[[bool], AbstractMonoid]
    #: The value of an event with a number that grows with each event that is drawn.
    draw: Callable[[Random, int], Any]
    expect: Callable[[list[Any]], Any]
    #: Whether a result is what is expected of these values.
    agrees: Callable[[Any, list[Any]], bool]
    #: What frames on weights look at, and the weight of a value.
    on: Callable[[], Any] | None = None
    weight: Callable[[Any], int] = lambda value: 0
    columns: tuple[str, ...] = ()
    #: Whether any object is taken as a value.
    takes_anything: bool = False

    def batch(self, values: list[Any]) -> Any:
        """Values as ``extend`` takes them."""
        if not self.columns:
            return values
        return {name: [value[name] for value in values] for name in self.columns}


def rows(results: Any) -> list[Any]:
    """The results of ``extend`` one by one."""
    if isinstance(results, dict):
        columns = {name: list(column) for name, column in results.items()}
        count = len(next(iter(columns.values())))
        return [{name: column[at] for name, column in columns.items()} for at in range(count)]
    return list(results)


# --- (a) neighbours ------------------------------------------------------------------------------


class NotNeighbours(AssertionError):
    """A combine was given what does not lie side by side, or in the wrong order."""


def _neighbours(late: bool) -> Monoid:
    """Partials are (first, last, count) of numbered events: side by side, or at least in order."""

    def combine(left: Any, right: Any) -> Any:
        if not left or not right:
            return left or right
        if left[1] >= right[0] if late else left[1] + 1 != right[0]:
            raise NotNeighbours(f"{left} and {right} were combined")
        return (left[0], right[1], left[2] + right[2])

    def lift(value: str) -> Any:
        number = _number(value)
        return (number, number, 1)

    return Monoid((), combine, lift, name="neighbours")


def _number(value: str) -> int:
    return int(value.partition(":")[0])


def _letters(value: str) -> int:
    return len(value.partition(":")[2])


def _numbered(random: Random, number: int) -> str:
    return f"{number}:{'w' * random.choice([0, 1, 1, 2, 3])}"


def _span(values: list[str]) -> Any:
    return (_number(values[0]), _number(values[-1]), len(values)) if values else ()


def _weights() -> Monoid:
    return Monoid(0, lambda a, b: a + b, lift=_letters, name="letters")


NEIGHBOURS = Kind(
    "neighbours",
    _neighbours,
    _numbered,
    _span,
    lambda found, values: bool(found == _span(values)),
    _weights,
    _letters,
)

# --- (b) all events in order ---------------------------------------------------------------------

_ODD = [
    "", "é", b"bytes", 0, -0.0, 1.5, math.inf, 2**63, -(2**70), True, (1, (2,)), [None], {"k": 1},
]  # fmt: skip


def _anything(random: Random, number: int) -> Any:
    return random.choice(_ODD) if random.random() < 0.3 else f"{number}."


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 1


COLLECTED = Kind(
    "collected",
    lambda late: Monoid((), lambda a, b: a + b, lift=lambda value: (value,), name="collected"),
    _anything,
    tuple,
    lambda found, values: repr(found) == repr(tuple(values)),
    lambda: Monoid(0, lambda a, b: a + b, lift=_length, name="lengths"),
    _length,
    takes_anything=True,
)
TEXT = Kind(
    "text",
    lambda late: Monoid("", lambda a, b: a + b, name="joined"),
    lambda random, number: f"{random.choice('abc')}{number % 10}" * random.choice([0, 1, 1, 2]),
    "".join,
    lambda found, values: bool(found == "".join(values)),
    lambda: Monoid(0, lambda a, b: a + b, lift=len, name="characters"),
    len,
)

# --- in which order combines were made ------------------------------------------------------------


class _Brackets(Monoid):
    """Text with brackets around what each combine returned: equal to any other fold of the same.

    So it shows, better than the rounding of a sum, whether something that must change nothing, as
    a look at a window, has changed how later results are folded.
    """

    def same(self, one: Any, other: Any, scale: Any = None) -> bool:
        return _without_brackets(one) == _without_brackets(other)


def _in_brackets(left: str, right: str) -> str:
    return f"({left}{right})" if left and right else left or right


def _without_brackets(found: str) -> str:
    return found.replace("(", "").replace(")", "")


BRACKETS = Kind(
    "brackets",
    lambda late: _Brackets("", _in_brackets, name="brackets"),
    lambda random, number: f"{random.choice('abc')}{number % 10}",
    "".join,
    lambda found, values: _without_brackets(found) == "".join(values),
    lambda: Monoid(0, lambda a, b: a + b, lift=len, name="characters"),
    len,
)

# --- plain integers of any size ------------------------------------------------------------------

_LONG = [0, 1, -1, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 + 1, -(2**80)]


def _same_integer(found: Any, values: list[int]) -> bool:
    return isinstance(found, (int, np.integer)) and int(found) == sum(values)


INTEGERS = Kind(
    "integers",
    lambda late: Monoid(0, lambda a, b: a + b, name="plain sum"),
    lambda random, number: random.choice([number, *_LONG]),
    sum,
    _same_integer,
    lambda: Monoid(0, lambda a, b: a + b, lift=lambda value: value % 3, name="thirds"),
    lambda value: value % 3,
)

# --- (c) columns ---------------------------------------------------------------------------------

_FLOATS = [0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324, 1e300, -1e300, 1.0, 2.0, 0.1]
_INT64 = [-(2**63), 2**63 - 1, 0, -1, 2**53 + 1]


def _row(random: Random, number: int) -> dict[str, Any]:
    return {"x": random.choice(_FLOATS), "i": random.choice(_INT64), "w": number % 4}


def _chosen(values: list[dict[str, Any]]) -> dict[str, Any]:
    x, i = [value["x"] for value in values], [value["i"] for value in values]
    some = bool(values)
    return {
        "max": max(x, default=math.nan),
        "min": min(x, default=math.nan),
        "first": x[0] if some else math.nan,
        "last": x[-1] if some else math.nan,
        "imax": max(i, default=-(2**63)),
        "imin": min(i, default=2**63 - 1),
        "w": sum(value["w"] for value in values),
        "all": [value["w"] for value in values],
        "n": len(values),
    }


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


CHOSEN = Kind(
    "chosen",
    lambda late: Product(
        {
            "max": ("x", Max()), "min": ("x", Min()), "first": ("x", First()),
            "last": ("x", Last()), "imax": ("i", Max("i8")), "imin": ("i", Min("i8")),
            "w": ("w", Sum("i8")), "all": ("w", Collect()), "n": Count(),
        }
    ),
    _row,
    _chosen,
    lambda found, values: all(_equal(found[k], v) for k, v in _chosen(values).items()),
    lambda: ("w", Sum("i8")),
    lambda value: value["w"],
    columns=("x", "i", "w"),
)  # fmt: skip

#: Profit and loss of mixed sizes: exact sums cancel to nothing beside what was added.
_MIXED = [1e17, -1e17, 1e9, -1e9, 1.0, 0.1, -0.3, 1e-9, 123456.789]
#: The same with what overflows when it is squared, and with infinities.
_HUGE = [*_MIXED, 1e300, -1e300]


def _sums(late: bool) -> Product:
    return Product(
        {"sum": ("x", Sum()), "mean": ("x", Mean()), "dev": ("x", PopulationStdDev()), "n": Count()}
    )


def _close(found: Any, values: list[dict[str, Any]]) -> bool:
    x = [value["x"] for value in values]
    if found["n"] != len(x):
        return False
    if not x:
        return bool(found["sum"] == 0 and found["mean"] != found["mean"])
    total, size = math.fsum(x), math.fsum(map(abs, x))
    mean = total / len(x)
    near = abs(found["sum"] - total) <= 1e-12 * size
    near = near and abs(found["mean"] - mean) <= 1e-12 * size / len(x)
    largest = max(map(abs, x))
    if largest > 1e150:  # squares overflow: the monoid's own tests state the answer
        return near
    dev = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x))
    return near and abs(found["dev"] - dev) <= 1e-6 * largest


def _summed(name: str, choices: list[float]) -> Kind:
    return Kind(
        name,
        _sums,
        lambda random, number: {"x": random.choice(choices)},
        lambda values: f"the sum, mean, deviation and number of {values}",
        _close,
        columns=("x",),
    )


MIXED = _summed("mixed", _MIXED)
KINDS = [
    NEIGHBOURS, COLLECTED, TEXT, INTEGERS, CHOSEN, MIXED, _summed("huge", _HUGE), BRACKETS
]  # fmt: skip
