"""What is asked of the structure that keeps a window's events, whatever the algorithm.

A *position* counts events in the order of the window: ``front`` is the oldest one's, ``back`` the
one after the newest. Level queues give an event its position for ever; where events are ordered by
time, one that comes late moves those after it on by one.

The contract is in three parts:

- ``Events``    events come in at the back, one by one and in batches, and leave at the front;
- ``Pages``     what handles, audits and the deletion of pages ask;
- ``Sliding``   the result, runs of results, and the searches for a policy's cut.

``Structure`` is the first two: enough for events that several windows share, each with a cursor.
An ``Aggregator`` is all three: what a window of its own slides over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EmptyWindow
from mta.monoids.base import AbstractMonoid, Partial
from mta.pages.handle import Handle
from mta.pages.page import Group, Layout
from mta.policies.base import AbstractPolicy
from stores import PageStore

#: How to see one observed aggregate in a partial (or in rows): its monoid, and where it stands.
Lens = tuple[AbstractMonoid, Callable[[Any], Any]]

#: A lost page and those lost below it by their keys, or None if they cannot be put together.
Rebuild = Callable[["Named"], dict[str, bytes] | None]


@dataclass(frozen=True, slots=True)
class Setting:
    """What an aggregator is made for."""

    monoid: AbstractMonoid
    store: PageStore | None
    """Where pages go; None keeps everything in memory."""
    window: str
    leaf_arity: int
    arity: int
    timed: bool
    policy: AbstractPolicy
    lateness: int = 0
    """How many microseconds an event may be older than the newest one before its batch."""


@dataclass(frozen=True, slots=True)
class Named:
    """A page as its parent names and describes it."""

    level: int
    number: int
    name: bytes
    fold: Partial
    """The aggregate that the page must have; None where the parent does not know it."""
    last_time: int | None
    first: int
    """The position of the first event below the page."""
    end: int
    needed: bool = True
    """Whether the window itself needs the page, and not only the handles before it."""


class Events(ABC):
    """Events in and out."""

    setting: Setting
    monoid: AbstractMonoid
    #: The position of the oldest event.
    front: int
    #: Whether events are kept in the order of their times, whatever order they come in.
    by_time: bool = False

    @property
    @abstractmethod
    def back(self) -> int:
        """The position after the newest event."""

    def __len__(self) -> int:
        return self.back - self.front

    @abstractmethod
    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event."""

    @abstractmethod
    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""

    @abstractmethod
    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events without their results, in order; at least one, and return how many."""

    @abstractmethod
    def evict_to(self, position: int) -> None:
        """Remove every event before ``position``; when anything fails, nothing has changed.

        Raises EmptyWindow for a position beyond the back.
        """

    @abstractmethod
    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window."""

    def require_events(self, position: int) -> None:
        """Raises EmptyWindow unless there are events up to a position."""
        if position > self.back:
            raise EmptyWindow(
                f"cannot evict {position - self.front} events of a window of {len(self)}"
            )


class Pages(ABC):
    """What is in pages, as handles, audits and the deletion of pages ask for it."""

    @abstractmethod
    def tidy(self) -> None:
        """Before a handle is taken: write the pages it will name, delete those nobody needs."""

    @abstractmethod
    def hold(self, retain: int) -> None:
        """A handle has been taken of what is now: keep its pages until ``retain`` are newer."""

    @abstractmethod
    def delete_pages(self) -> None:
        """Delete every page; the structure is of no use afterwards."""

    @abstractmethod
    def write_state(self) -> list[Any]:
        """What a handle keeps beside its common fields; plain data for msgpack."""

    @abstractmethod
    def take_up_state(self, handle: Handle) -> None:
        """Make an empty structure what the handle says. Raises CorruptHandle or CorruptPage."""

    @property
    @abstractmethod
    def height(self) -> int:
        """How many levels there are."""

    @property
    @abstractmethod
    def page_count(self) -> int:
        """How many pages a handle would name, as far as is known without reading."""

    @property
    @abstractmethod
    def resident_rows(self) -> int:
        """Values and partials in memory."""

    # --- verifying ------------------------------------------------------------------------------

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant, reading all pages. Raises InvariantViolation."""

    @abstractmethod
    def layout_of(self, level: int) -> Layout:
        """How the pages of a level are laid out."""

    @abstractmethod
    def pages(self) -> Iterator[Named]:
        """The pages that are named in memory, those of handles to be kept included."""

    @abstractmethod
    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        """The pages that a page names."""

    @abstractmethod
    def read(self, named: Named) -> Group:
        """One page; one store call. Raises MissingPage or CorruptPage."""

    @abstractmethod
    def difference(self, named: Named, group: Group) -> str | None:
        """What is wrong with a page that can be read, by what its parent says of it."""

    def is_past(self, level: int, number: int) -> bool:
        """Whether who goes on from here can never write, or name again, a page of this place.

        What is not named there now is then of no use to anybody.
        """
        del level, number
        return False

    def rebuilder(self) -> Rebuild | None:
        """What puts a lost page together from what is below it; None where nothing can."""
        return None


class Structure(Events, Pages):
    """Events in pages, as an engine of windows holds them."""

    #: As it stands in handles.
    name: str

    @classmethod
    @abstractmethod
    def begin(cls, setting: Setting) -> Self:
        """An empty structure."""

    def sibling(self, setting: Setting) -> Self:
        """An empty structure of another window with the same monoid, policy and store."""
        return self.begin(setting)


class Sliding(Events):
    """The result of a window, and where its policy cuts."""

    @abstractmethod
    def query(self) -> Partial:
        """The aggregate of the window."""

    def run(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        """Insert, evict and query for as many of the events as one vector expression serves.

        Returns how many, their results in ``out``; 0 when the next one must go by itself.
        """
        del policy, rows, times, start, stop, out
        return 0

    def slide(self, row: Row, time: int | None, size: int) -> None:
        """Add one event and keep the last ``size``; when anything fails, nothing has changed."""
        self.insert(row, time)
        self.settle(lambda: self.back - size)

    def settle(self, cut: Callable[[], int]) -> None:
        """Evict up to the cut after an ``insert``, or take the insertion back."""
        try:
            self.slide_to(cut())
        except Exception:
            self.take_back()
            raise

    def slide_to(self, position: int) -> None:
        """Move the front on to a position that the policy says; as ``evict_to``."""
        self.evict_to(position)

    @abstractmethod
    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events at hand, and the position of the first of them."""

    @abstractmethod
    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``."""

    @abstractmethod
    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest prefix ends whose result is accepted."""

    @abstractmethod
    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""

    @abstractmethod
    def events(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every page once."""


class Aggregator(Structure, Sliding):
    """The structure of a window of its own."""
