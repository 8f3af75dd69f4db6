"""What of a family of tests runs by default, as the mark ``sample`` says; soaks run the rest.

A family is a test with parameters whose combinations, seeds or failing calls prove the same code
again. ``sample(n)`` leaves as many of them as have each n parameters' values together once, two if
it does not say, and none if n is 0. What is left out gets the mark ``soak``, and is not deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest

REST = pytest.mark.sample(0)


def some(values: Iterable[Any], by_default: int) -> list[Any]:
    """The values of a parameter, or tuples of several, of which the first few run by default."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[REST] if at >= by_default else [],
        )
        for at, value in enumerate(values)
    ]


def parts(count: int) -> list[Any]:
    """The parts of a long loop, of which the first runs by default: ``every[part::count]``."""
    return some(range(count), 1)


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Give the mark ``soak`` to the tests that are outside the sample of their family."""
    families: dict[str, list[tuple[pytest.Item, int]]] = {}
    for item in items:
        together = [mark.args[0] if mark.args else 2 for mark in item.iter_markers("sample")]
        if 0 in together:
            item.add_marker(pytest.mark.soak)
        elif together:
            families.setdefault(item.nodeid.partition("[")[0], []).append((item, together[0]))
    for family in families.values():
        taken = covering([_tuples(item, together) for item, together in family])
        for at, (item, _) in enumerate(family):
            if at not in taken:
                item.add_marker(pytest.mark.soak)


def _tuples(item: pytest.Item, together: int) -> set[tuple[tuple[str, int], ...]]:
    """The combinations of so many values that a test has."""
    # Values need not be hashable; those of one parameter are the same objects in all tests.
    values = [(name, id(value)) for name, value in item.callspec.params.items()]  # type: ignore[attr-defined]
    return set(combinations(sorted(values), together))


def covering(sets: list[set[Any]]) -> set[int]:
    """Sets whose union is that of all, few of them: each is the one with most that is new.

    Of several such sets it is the one whose elements were taken least: all about equally often.
    """
    missing: set[Any] = set().union(*sets)
    taken: set[int] = set()
    times: Counter[Any] = Counter()
    while missing:
        most = max(len(each & missing) for each in sets)
        equal = [at for at, each in enumerate(sets) if len(each & missing) == most]
        best = min(equal, key=lambda at: sum(times[element] for element in sets[at]))
        taken.add(best)
        times.update(sets[best])
        missing -= sets[best]
    return taken
