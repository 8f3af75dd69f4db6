"""The order in which the processes of a run take the tests."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.order import OWN_JAVA, begin_elsewhere, begin_with_the_longest


def item(nodeid: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=nodeid, fixturenames=fixtures)


PLAIN = [item(f"tests/windows/test_{at}.py::test") for at in range(5)]
SPARK = [item(f"{OWN_JAVA[0]}::test_b", "job", "spark")]
ELSEWHERE = [item("tests/cli/test_b.py::test"), item("tests/docs/test_b.py::test", "spark")]
OWN = [item(f"{OWN_JAVA[0]}::test"), item(f"{OWN_JAVA[-1]}::test")]
ITEMS = [*PLAIN[:4], *OWN, *ELSEWHERE, *SPARK, *PLAIN[4:]]


@pytest.mark.parametrize("shares", [1, 2, 4, 20])
def test_each_test_is_there_once(shares: int) -> None:
    ordered = begin_with_the_longest(ITEMS, shares)
    assert sorted(each.nodeid for each in ordered) == sorted(each.nodeid for each in ITEMS)
    assert ordered[:1] == SPARK


def test_each_process_collects_all_files_and_begins_at_a_share_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("spark", "cli", "docs", "__pycache__"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    for file in ("test_order.py", "conftest.py"):
        (tmp_path / "tests" / file).touch()
    monkeypatch.chdir(tmp_path)
    every = [f"tests/{name}" for name in ("cli", "docs", "spark", "test_order.py")]
    for process in range(4):
        found = begin_elsewhere(["tests"], process, 4)
        assert found == every[process:] + every[:process]
    assert begin_elsewhere(["tests/cli", "mta"], 1, 2) == ["mta", "tests/cli"]
