"""A window of text over a store, and beside it a plain list that knows the right answer."""

from __future__ import annotations

from collections import deque
from uuid import uuid4

from mta import CountWindow, Monoid, Window
from stores import PageStore, WindowStoreError, open_store

JOINED = Monoid(identity="", combine=lambda a, b: a + b, name="joined")
"""Neither commutative nor invertible: a lost, doubled or swapped event shows."""


class Stream:
    """Numbered events through a small window; ``feed`` checks each answer against the list."""

    def __init__(self, store: PageStore, size: int = 300, arity: int = 8) -> None:
        self.store, self.frame = store, CountWindow(size)
        self.window = Window(
            JOINED, self.frame, store=store, name=f"w{uuid4().hex[:8]}", arity=arity
        )
        self.events: deque[str] = deque(maxlen=size)
        self.fed = 0

    @property
    def oracle(self) -> str:
        return "".join(self.events)

    def insert(self) -> None:
        """One event; it counts only if the window has accepted it."""
        event = f"<{self.fed}>"
        self.window.insert(event)
        self.events.append(event)
        self.fed += 1

    def feed(self, events: int) -> None:
        for _ in range(events):
            self.insert()
            assert self.window.query() == self.oracle

    def feed_until_refused(self, most: int = 100_000) -> WindowStoreError:
        for _ in range(most):
            try:
                self.insert()
            except WindowStoreError as error:
                return error
        raise AssertionError(f"{most} events were accepted")

    def check_restored(self, url: str) -> None:
        """What a new process would find after a checkpoint equals the list, and goes on."""
        snapshot = self.window.checkpoint()
        with open_store(url) as store:
            again = Window.restore(snapshot, store, aggregations=JOINED, window=self.frame)
            assert again.query() == self.oracle
            again.check()
            again.insert("<next>")
            self.events.append("<next>")
            assert again.query() == self.oracle
