"""A process that writes into a window until it is killed, and notes outside how far it got.

Before a snapshot is saved, a line ``pending BACK`` is added to the window's log, and ``saved BACK``
after it. So a window that is opened after a kill must end at a position that was pending, and not
before the last one that was saved.
"""

from __future__ import annotations

import multiprocessing
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from mta import SharedWindows, Window
from stores import PageStore, open_store
from tests.support import oracle

AnyWindow = Window | SharedWindows


class Noted(ABC):
    """What a writer leaves: a window, or several, their newest snapshot, and how far it got."""

    folder: str
    name: str
    store: str
    """The address, with an option at least, so that others can be added."""

    @abstractmethod
    def open_on(self, store: PageStore, retain: int = 2) -> AnyWindow:
        """The windows as they were saved, or new ones, on an open store."""

    @abstractmethod
    def insert(self, window: AnyWindow, at: int) -> None:
        """Add one event, the next one at position ``at``."""

    @abstractmethod
    def extend(self, window: AnyWindow, start: int, stop: int) -> None:
        """Add the events at some positions as one batch."""

    @abstractmethod
    def assert_whole(self, window: AnyWindow) -> int:
        """Assert that the windows are exactly the events up to their back; return that."""

    @property
    def snapshot(self) -> Path:
        """Where its newest snapshot is saved."""
        return Path(self.folder, f"{self.name}.snapshot")

    @property
    def log(self) -> Path:
        """Where the pending and the saved positions are noted."""
        return Path(self.folder, f"{self.name}.log")

    def open(self, options: str = "", retain: int = 2) -> AnyWindow:
        """The windows as they were saved, or new ones; ``options`` are of the store."""
        return self.open_on(open_store(self.store + options), retain)

    def noted(self) -> tuple[int, set[int]]:
        """The last position that was saved, and all that were pending; 0 is where it began."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        marks = [(word, int(back)) for word, _, back in (line.partition(" ") for line in lines)]
        saved = [back for word, back in marks if word == "saved"]
        return saved[-1] if saved else 0, {0} | {back for word, back in marks if word == "pending"}

    def noted_bytes(self) -> int:
        """How long the log is."""
        return self.log.stat().st_size if self.log.exists() else 0

    def assert_nothing_lost(self) -> int:
        """Open the window, and assert that it is whole and has everything acknowledged."""
        window = self.open("&write_buffer=0&cache=0")
        try:
            back = self.assert_whole(window)
        finally:
            store = window.engine.store
            assert store is not None
            store.close()
        saved, pending = self.noted()
        assert back >= saved, f"position {saved} was acknowledged, the window ends at {back}"
        assert back in pending, f"the window ends at {back}, where no snapshot was taken"
        return back


@dataclass(frozen=True)
class Life(Noted):
    """A window, and how it was made; that much stays the same from one writer to the next."""

    folder: str
    name: str
    store: str
    size: int
    arity: int
    leaf_arity: int
    aggregator: str

    def open_on(self, store: PageStore, retain: int = 2) -> Window:
        tree = oracle.tree_of(self.aggregator)
        if self.snapshot.exists():
            snapshot = self.snapshot.read_bytes()
            return oracle.reopen(snapshot, store, self.size, aggregator=tree, retain=retain)
        return oracle.begin(
            store, self.size, self.arity, self.leaf_arity,
            name=self.name, aggregator=tree, retain=retain,
        )  # fmt: skip

    def insert(self, window: AnyWindow, at: int) -> None:
        window.insert(oracle.event(at))

    def extend(self, window: AnyWindow, start: int, stop: int) -> None:
        window.extend(oracle.events(start, stop))

    def assert_whole(self, window: AnyWindow) -> int:
        assert isinstance(window, Window)
        return oracle.assert_whole(window, self.size)


def nothing(point: str) -> None:
    """Do nothing at a point."""


def save(life: Noted, window: AnyWindow, at: Callable[[str], None] = nothing) -> None:
    """Take a snapshot and save it, with marks before and after."""
    snapshot = window.checkpoint()
    back = window.engine.structure().back
    at("between pages and snapshot")
    _note(life, f"pending {back}")
    draft = life.snapshot.with_suffix(".draft")
    draft.write_bytes(snapshot)
    draft.replace(life.snapshot)
    at("after the snapshot")
    _note(life, f"saved {back}")


def _note(life: Noted, line: str) -> None:
    log = os.open(life.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{line}\n".encode())
    os.close(log)


def write_for_ever(
    life: Noted, options: str, retain: int, batch: int, often: float, seed: int
) -> None:
    """Insert events one by one and in batches, and save a snapshot from time to time."""
    random = Random(seed)
    window = life.open(options, retain)
    while True:
        back = window.engine.structure().back
        if random.random() < 0.3:
            life.insert(window, back)
        else:
            life.extend(window, back, back + random.randint(1, batch))
        if random.random() < often:
            save(life, window)


_context = multiprocessing.get_context("forkserver")
# With what they import besides, as each writer would otherwise do so by itself.
_context.set_forkserver_preload(["tests.support.writers", "pytest", "lmdb", "redis"])


def start(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """A new process, forked from one that has nothing open."""
    process = _context.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process
