"""The lookup of one key step by step: between two steps, an event loop can have pages read."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: Yields names of pages, receives these pages (None for a missing one), and returns the result.
Steps = Generator[Sequence[str], list[Any], T]


class Lookup(Generic[T]):
    """A lookup that has started; ``store.view_many(lookup.wanted, lookup.take)`` is the next step.

    The constructor and ``take`` raise the errors of the steps.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        #: The names of the pages that the next step needs; empty once there is a result.
        self.wanted: Sequence[str] = ()
        self.result: T | None = None
        self._go_on(None)

    def take(self, pages: list[Any]) -> None:
        """Continue with the wanted pages, which may be views valid only during the call."""
        self._go_on(pages)

    def _go_on(self, pages: Any) -> None:
        try:
            self.wanted = self._steps.send(pages)
        except StopIteration as end:
            self.wanted, self.result = (), end.value


class NotCached(Exception):
    """Some of the needed pages are not in memory; ``pages`` has their names."""

    def __init__(self, lookup: Lookup[Any], pages: Sequence[str]) -> None:
        super().__init__(f"{len(pages)} pages are not in memory")
        self.lookup, self.pages = lookup, pages
