"""What a window of events that tell their own position must be."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from mta import CountWindow, Window
from mta.audit.walk import audit
from mta.logs.base import Aggregator
from stores import PageStore, WindowStoreError, open_store
from tests.support.naive import AGGREGATORS, joined

#: The aggregators that all of this holds for.
TREES = AGGREGATORS


def event(position: int) -> str:
    """The event at a position."""
    return f"{position}."


def events(start: int, stop: int) -> list[str]:
    """The events of some positions."""
    return [event(position) for position in range(start, stop)]


def text(back: int, size: int) -> str:
    """The result of a count window after the event before ``back``."""
    return "".join(events(max(0, back - size), back))


def begin(
    store: str | PageStore, size: int, arity: int, leaf_arity: int | None = None, **options: object
) -> Window:
    """A new window of so many events."""
    sizes: dict[str, Any] = {"arity": arity, "leaf_arity": leaf_arity, "name": "w", **options}
    return Window(joined(), CountWindow(size), store, **sizes)


def reopen(snapshot: bytes, store: str | PageStore, size: int, **options: object) -> Window:
    """The window that a snapshot describes."""
    return Window.restore(
        snapshot, store, aggregations=joined(), window=CountWindow(size), **options
    )  # type: ignore[arg-type]


def assert_whole(window: Window, size: int, deep: bool = True) -> int:
    """Assert that a window is exactly the events up to its back, every page read; return that."""
    back = window.structure().back
    assert len(window) == min(size, back), f"{len(window)} events at position {back}"
    assert window.query() == text(back, size), f"a wrong result at position {back}"
    if deep:
        assert list(window.structure().events()) == events(max(0, back - size), back), "holes"
        found = audit(window)
        assert not [damage for damage in found.damaged if damage.needed], found.damaged
    return back


class Stream:
    """Events one by one through a small window, and how many it has accepted."""

    def __init__(self, store: PageStore, size: int = 300, arity: int = 8) -> None:
        self.size, self.fed = size, 0
        self.window = begin(store, size, arity, name=f"w{uuid4().hex[:8]}")

    def insert(self) -> None:
        """One event; it counts only if the window has accepted it."""
        self.window.insert(event(self.fed))
        self.fed += 1

    def feed(self, count: int) -> None:
        for _ in range(count):
            self.insert()
            assert self.window.query() == text(self.fed, self.size)

    def feed_until_refused(self, most: int = 100_000) -> WindowStoreError:
        for _ in range(most):
            try:
                self.insert()
            except WindowStoreError as error:
                return error
        raise AssertionError(f"{most} events were accepted")

    def check_restored(self, url: str) -> None:
        """What a new process would find after a checkpoint equals the events, and goes on."""
        snapshot = self.window.checkpoint()
        with open_store(url) as store:
            again = reopen(snapshot, store, self.size)
            assert assert_whole(again, self.size) == self.fed
            again.check()
            again.insert(event(self.fed))
            assert again.query() == text(self.fed + 1, self.size)


def tree_of(name: str) -> type[Aggregator]:
    """An aggregator by its name."""
    return {tree.__name__: tree for tree in TREES}[name]


def seed(of: str) -> int:
    """The seed of a run: ``MTA_SOAK_SEED``, or one that is drawn and printed."""
    given = os.environ.get("MTA_SOAK_SEED")
    drawn = int(given) if given else Random().randrange(1 << 32)
    say(f"{of}: MTA_SOAK_SEED={drawn}")
    return drawn


def kills(otherwise: int) -> int:
    """How many kills a long run makes."""
    return int(os.environ.get("MTA_SOAK_KILLS", otherwise))


def say(line: str) -> None:
    """Print a line where a failed test or ``pytest -s`` shows it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def open_files(sockets: bool = True) -> int:
    """How many file descriptors this process has."""
    links = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return sum(sockets or not link.startswith("socket:") for link in links)
