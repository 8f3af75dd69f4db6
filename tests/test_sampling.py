"""What of a family of tests runs by default."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.support.sampling import covering, parts, some


@pytest.mark.parametrize("together", [1, 2, 3])
def test_few_combinations_have_each_of_so_many_values_together(together: int) -> None:
    every = list(product(range(5), range(4), range(3)))
    tuples = [set(combinations(enumerate(values), together)) for values in every]
    taken = covering(tuples)
    assert set().union(*(tuples[at] for at in taken)) == set().union(*tuples)
    assert len(taken) == {1: 5, 2: 20, 3: 60}[together]


def test_some_values_and_one_part_run_by_default_and_all_others_are_the_rest() -> None:
    def left_out(values: list[object]) -> list[bool]:
        return [bool(value.marks) for value in values]  # type: ignore[attr-defined]

    assert left_out(some("abc", by_default=2)) == [False, False, True]
    assert left_out(parts(3)) == [False, True, True]
    assert [value.values for value in some([(1, "a"), "b"], by_default=1)] == [(1, "a"), ("b",)]


@pytest.mark.sample
@pytest.mark.parametrize("one", range(3))
@pytest.mark.parametrize("two", ["a", "b", "c"])
@pytest.mark.parametrize("three", [{}, [], ()])
def test_a_sampled_family_is_not_run_whole(
    one: int, two: str, three: object, request: pytest.FixtureRequest
) -> None:
    names = [item.name for item in request.session.items]
    assert sum(name.startswith("test_a_sampled_family") for name in names) < 27
