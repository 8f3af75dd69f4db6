"""The order in which the processes of a run take the tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.order import OWN_JAVA, begin_with_the_longest


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)


PLAIN = [item(f"tests/windows/test_{at}.py::test") for at in range(5)]
SPARK = [item(f"{OWN_JAVA[0]}::test_b", "job", "spark")]
ELSEWHERE = [item("tests/cli/test_b.py::test"), item("tests/docs/test_b.py::test", "spark")]
OWN = [item(f"{OWN_JAVA[0]}::test"), item(f"{OWN_JAVA[-1]}::test")]
ITEMS = [*PLAIN[:4], *OWN, *ELSEWHERE, *SPARK, *PLAIN[4:]]


def test_shares_begin_with_spark_and_with_javas_of_their_own() -> None:
    ordered = begin_with_the_longest(ITEMS, 3)
    assert ordered[:3] == [*SPARK, *PLAIN[:2]]
    assert ordered[3:6] == [*ELSEWHERE, PLAIN[2]]
    assert ordered[6:] == [*OWN, *PLAIN[3:]]


@pytest.mark.parametrize("shares", [1, 2, 4, 20])
def test_each_test_is_there_once(shares: int) -> None:
    ordered = begin_with_the_longest(ITEMS, shares)
    assert sorted(each.nodeid for each in ordered) == sorted(each.nodeid for each in ITEMS)
    assert ordered[:1] == SPARK


def test_of_two_shares_the_first_begins_with_all_on_spark() -> None:
    ordered = begin_with_the_longest(ITEMS, 2)
    assert ordered[:5] == [*SPARK, *ELSEWHERE, *PLAIN[:2]]
    assert ordered[5:] == [*OWN, *PLAIN[2:]]
