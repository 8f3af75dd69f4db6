"""The order in which the processes of a run take the tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.order import OWN_JAVA, begin_with_the_longest


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)


PLAIN = [item(f"tests/windows/test_{at}.py::test") for at in range(5)]
SPARK = [item(f"{OWN_JAVA[0]}::test_b", "job", "spark"), item("tests/cli/test_b.py::test")]
OWN = [item(f"{OWN_JAVA[0]}::test"), item(f"{OWN_JAVA[-1]}::test")]
ITEMS = [*PLAIN[:4], *OWN, *SPARK, *PLAIN[4:]]


def test_shares_begin_with_spark_and_with_javas_of_their_own() -> None:
    first, second, third = (begin_with_the_longest(ITEMS, 3)[at : at + 3] for at in (0, 3, 6))
    assert first == [*SPARK, PLAIN[0]]
    assert second == [*OWN, PLAIN[1]]
    assert third == PLAIN[2:5]


@pytest.mark.parametrize("shares", [1, 2, 4, 20])
def test_each_test_is_there_once(shares: int) -> None:
    ordered = begin_with_the_longest(ITEMS, shares)
    assert sorted(each.nodeid for each in ordered) == sorted(each.nodeid for each in ITEMS)
    assert ordered[:2] == SPARK
