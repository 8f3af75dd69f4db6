"""Window slide policies (WSP): which of the oldest events leave after each insertion.

A policy answers with a *cut*: the position of the oldest event that stays. Count and time policies
cut by arithmetic and by search in sorted times. A policy on an aggregate is searched for in the
tree (MTA paper, 4.1.3 and 4.1.4), which finds the right cut only if it is *monotone on prefixes*:

    evicts(prefix, total) is true  =>  it is true for every shorter prefix of the same window.

The paper never states this law; ``Policy(..., checked=True)`` reports where it is broken.
The order of arguments is always (prefix, total).

Here is what policies and windows ask of each other, and how policies are joined: ``|`` and ``&``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from mta.errors import UnsupportedOperation
from mta.folds.sliding import Fronts, as_array
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Columns
from mta.recipes import Recorded

Ties = Literal["rows", "peers"]


class View(Protocol):
    """What a policy may ask of the window, right after an insertion.

    Aggregates are those that the asking policy observes, as results (``lower`` is applied).
    """

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def total(self, policy: AbstractPolicy) -> Any:
        """The result over the whole window."""

    def first_after(self, time: int) -> int:
        """The position of the oldest event whose time is later."""

    def longest_prefix(
        self, policy: AbstractPolicy, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Where the longest prefix ends whose result is accepted.

        ``total`` is all that ``accepts`` depends on beside the prefix, if it is nothing else: then
        nothing is searched while both are as they were when nothing left.
        """

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""

    def all_prefixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every prefix and where it ends; reads the whole window."""

    def all_suffixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every suffix and where it begins; reads the whole window."""


class TimeSearch(Protocol):
    """What a policy on times asks for, for a whole run of events at once."""

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """The position of the oldest event that is less than ``age`` old at each of some times.

        These never decrease. Positions before the window's front may be answered with that front.
        """


class End(NamedTuple):
    """Where a frame ends: how much before the moment that it is asked for.

    A frame has all events up to that time and position, but for those before its start.
    """

    delay: int = 0
    """How much earlier than the moment the newest times are, in microseconds."""
    rows: int = 0
    """How many of the newest events are left out."""


#: The end of a frame that has the newest event.
NEWEST = End()


class AbstractPolicy(Recorded, ABC):
    """A rule that says how much of the window's front leaves after an insertion.

    That is where a frame starts. Where it ends is ``end``; events behind it stay for later frames.
    """

    #: Where frames end.
    end = NEWEST
    #: Whether frames have all events of their last time ("peers"), or those up to a row ("rows").
    ties: Ties = "rows"

    #: Whether events must carry times.
    needs_times = False
    #: Whether cuts depend on positions and times alone, never on values.
    positional = False
    #: Whether a late event may bring back older ones, as one that joins two sessions does. Where
    #: events may come late, those are retained. ``cut`` then looks at positions, times and totals
    #: alone.
    merges = False

    @property
    def observers(self) -> tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]:
        """The aggregates, beside the window's own, that policies decide on."""
        return ()

    @property
    def lifetime(self) -> int | None:
        """How long after the newest event time alone has emptied the window, in microseconds.

        None where no passing of time does that.
        """
        return None

    @abstractmethod
    def cut(self, view: View, time: int | None) -> int:
        """The position of the oldest event that stays, after an insertion at ``time``."""

    @property
    def predictable(self) -> bool:
        """Whether ``cuts`` knows where a whole run of events is cut, before any is stored."""
        return False

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        """The cut after each of ``count`` events from position ``start`` on.

        A cut may lie before the first event. Raises TypeError unless the policy is ``predictable``.
        """
        raise TypeError(f"{self!r} must be asked after every event")

    @abstractmethod
    def describe(self) -> str:
        """The policy and its parameters, the same in every process."""

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes, equal for equal policies."""
        return hashlib.blake2b(self.describe().encode(), digest_size=16).digest()

    def __repr__(self) -> str:
        return self.describe()

    def __or__(self, other: AbstractPolicy) -> AbstractPolicy:
        """An event leaves as soon as one of the two says so."""
        return Both(self, _policy(other), any_of=True)

    def __and__(self, other: AbstractPolicy) -> AbstractPolicy:
        """An event leaves only when both say so."""
        return Both(self, _policy(other), any_of=False)


class Both(AbstractPolicy):
    """Two policies at once: their cuts are positions, so either is the larger or the smaller."""

    def __init__(self, one: AbstractPolicy, other: AbstractPolicy, any_of: bool) -> None:
        if (one.end, one.ties) != (other.end, other.ties):
            raise ValueError(
                f"{one!r} and {other!r} end at different events: a frame has one end, so give both "
                "the same closed=, delay=, ties= or exclude_current="
            )
        self.one, self.other, self.any_of = one, other, any_of
        self.end, self.ties = one.end, one.ties
        self.needs_times = one.needs_times or other.needs_times
        self.positional = one.positional and other.positional
        self.merges = not self.positional and all(p.positional or p.merges for p in (one, other))

    @property
    def observers(self) -> tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]:
        return self.one.observers + self.other.observers

    @property
    def lifetime(self) -> int | None:
        known = [side.lifetime for side in (self.one, self.other) if side.lifetime is not None]
        if self.any_of:
            return min(known, default=None)
        return max(known) if len(known) == 2 else None

    def cut(self, view: View, time: int | None) -> int:
        choose = max if self.any_of else min
        return choose(self.one.cut(view, time), self.other.cut(view, time))

    @property
    def predictable(self) -> bool:
        return self.one.predictable and self.other.predictable

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        one, other = (p.cuts(search, start, times, count) for p in (self.one, self.other))
        choose = np.maximum if self.any_of else np.minimum
        cuts: np.ndarray = choose(as_array(one, count), as_array(other, count))
        return cuts

    def describe(self) -> str:
        sign = "|" if self.any_of else "&"
        return f"({self.one.describe()} {sign} {self.other.describe()})"


def by_rows(policy: AbstractPolicy) -> AbstractPolicy:
    """The same policy with ``ties="rows"``."""
    if policy.ties == "rows":
        return policy
    found = copy(policy)
    found.ties = "rows"
    found.__dict__.pop("fingerprint", None)
    args, kwargs = policy.constructed_with
    found.constructed_with = args, {name: kwargs[name] for name in kwargs if name != "ties"}
    if isinstance(found, Both):
        found.one, found.other = by_rows(found.one), by_rows(found.other)
    return found


def _policy(other: Any) -> AbstractPolicy:
    if not isinstance(other, AbstractPolicy):
        raise TypeError(f"a policy is joined with another policy, not with {other!r}")
    return other


def require_answerable(policy: AbstractPolicy) -> None:
    """Raises UnsupportedOperation if a window cannot be asked for as of any moment."""
    if not policy.predictable:
        raise UnsupportedOperation(
            f"{policy!r} looks at values, and cannot be asked for a moment between events: take "
            "windows by count, time or calendar"
        )
    if policy.end.rows:
        raise UnsupportedOperation(
            f"{policy!r} leaves out the row that is asked about, and a question is no event: leave "
            "exclude_current out"
        )


def lifetime_of(policies: Iterable[AbstractPolicy]) -> int | None:
    """How long after its newest event time has emptied all windows, in microseconds.

    None where time alone does not empty each of them.
    """
    found = [policy.lifetime for policy in policies]
    known = [lifetime for lifetime in found if lifetime is not None]
    return max(known) if len(known) == len(found) else None
