"""The lookup of one key step by step, so that an event loop can have pages read between two."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
#: Yields the names of pages, is sent these pages (None for one that is gone), and returns.
Steps = Generator[Sequence[str], list[Any], T]


class Lookup(Generic[T]):
    """Steps under way; a store's ``view_many(lookup.wanted, lookup.take)`` is the next one.

    Raises what the steps raise, as does ``take``.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        #: The names of the pages that the next step needs; none once there is a result.
        self.wanted: Sequence[str] = ()
        self.result: T | None = None
        self._go_on(None)

    def take(self, pages: list[Any]) -> None:
        """Go on with the pages that are wanted, which may end with the call."""
        self._go_on(pages)

    def _go_on(self, pages: Any) -> None:
        try:
            self.wanted = self._steps.send(pages)
        except StopIteration as end:
            self.wanted, self.result = (), end.value


class NotCached(Exception):
    """Pages that are needed are not in memory; ``pages`` are their names."""

    def __init__(self, lookup: Lookup[Any], pages: Sequence[str]) -> None:
        super().__init__(f"{len(pages)} pages are not in memory")
        self.lookup, self.pages = lookup, pages
