"""Reading a window changes neither how later results are folded nor what later pages contain."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mta import CountWindow, SharedWindows, Window
from mta.algorithms import AmortizedMTA, LogMTA, SteadyMTA
from stores import MemoryStore
from tests.support.naive import pages_of
from tests.support.random_windows.kinds import BRACKETS

SIZES: dict[str, Any] = {"arity": 2, "leaf_arity": 4}
#: Windows that end with the newest event and before it, of one log and of a shared one.
FRAMES = {"": CountWindow(8), "delayed": CountWindow(9, delay=1)}

MAKERS: dict[str, Callable[[MemoryStore], Any]] = {
    f"{kind.__name__} {name}": lambda store, frame=frame, kind=kind: Window(
        BRACKETS.monoid(False), frame, store, "w", aggregator=kind, **SIZES
    )
    for kind in (AmortizedMTA, LogMTA, SteadyMTA)
    for name, frame in FRAMES.items()
} | {
    "shared": lambda store: SharedWindows(
        BRACKETS.monoid(False), {"a": CountWindow(8), "b": CountWindow(30)}, store, "w", **SIZES
    ),
}


def range_to_newest(window: Any) -> None:
    structure = window.structure()
    window.range_by_position(structure.front, structure.back)


READS: dict[str, Callable[[Any], Any]] = {
    "check": lambda window: window.check(),
    "coverage": lambda window: window.coverage(),
    "range": range_to_newest,
    "query": lambda window: window.query(),
}


def live(window: Any, store: MemoryStore, read: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """All answers of a window that is read after each batch, and all pages that it wrote."""
    random, answers, pages = Random(8), list[Any](), dict[str, bytes]()
    for _ in range(60):
        batch = [random.choice("abcdef") for _ in range(random.choice([1, 3, 25]))]
        if random.random() < 0.5:
            for value in batch[:3]:
                window.insert(value)
                answers.append(window.query())
        else:
            answers.append(repr(window.extend(batch)))
        read(window)
        pages |= pages_of(store)
    return answers, pages


@pytest.mark.parametrize("maker", MAKERS)
def test_reads_change_no_later_fold(maker: str) -> None:
    stores = {read: MemoryStore() for read in ("none", *READS)}
    if maker == "shared" or "delayed" in maker:  # these are folded when they are queried
        del stores["query"]
    found = {
        name: live(MAKERS[maker](store), store, READS.get(name, lambda window: None))
        for name, store in stores.items()
    }
    for name, (answers, pages) in found.items():
        assert answers == found["none"][0], f"answers differ after {name}"
        assert pages == found["none"][1], f"pages differ after {name}"
