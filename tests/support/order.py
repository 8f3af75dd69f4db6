"""The order in which the processes of a run take the tests.

``--dist worksteal`` gives each process an equal share of the list, one after the other, and a
process without tests takes half of what is left at the end of the longest share. So each share
begins with what takes longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

#: Files whose tests start Javas of their own, and wait for them.
OWN_JAVA = (
    "tests/spark/test_kafka.py",
    "tests/spark/test_fresh.py",
    "tests/cli/test_rights_and_room.py",
)


def begin_elsewhere(paths: Sequence[str], process: int, processes: int) -> list[str]:
    """What a process collects, the folders of ``tests`` one by one, beginning at its own share.

    The first import of a file compiles it, and pytest rewrites it: from a clean checkout that takes
    longer than all else. So each process does it for a share, and finds it done for the others.
    ``in_order`` gives the items the same order in all processes.
    """
    every: list[Path] = []
    for path in paths:
        folder = Path(path)
        inside = [*folder.glob("test_*.py"), *folder.glob("[!_]*/")]
        every += sorted(inside) if path == "tests" else [folder]
    first = len(every) * process // processes
    return [str(each) for each in every[first:] + every[:first]]


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tests by their files, those of a file as they were collected."""
    return sorted(items, key=lambda item: item.nodeid.partition("::")[0])


def begin_with_the_longest(items: Sequence[pytest.Item], shares: int) -> list[pytest.Item]:
    """The tests, those on the Spark that suites share at the heads of the first of so many shares.

    They are about half of the processor's time. Where there are three shares or more, two processes
    start a Spark at once, and each has its half: one of ``tests/spark``, the other one of the other
    folders. A process that starts a Spark for the last tests spends as much on it as on them. Tests
    with a Java of their own are at the head of the next share.
    """
    suite, elsewhere, own, others = [], [], [], []
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            (suite if item.nodeid.startswith("tests/spark/") else elsewhere).append(item)
        elif item.nodeid.startswith(OWN_JAVA):
            own.append(item)
        elif item.nodeid.startswith("tests/cli/"):  # whose commands start the shared Spark
            elsewhere.append(item)
        else:
            others.append(item)
    heads = [suite, elsewhere, own] if shares > 2 else [suite + elsewhere, own]
    rest, ordered = iter(others), []
    for share, head in enumerate([*heads, *([] for _ in range(shares))], start=1):
        ordered += head
        ordered += islice(rest, max(0, len(items) * share // shares - len(ordered)))
    return ordered
