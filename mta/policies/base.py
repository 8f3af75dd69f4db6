"""Window slide policies (WSP): which of the oldest events leave after each insertion.

A policy answers with a *cut*: the position of the oldest event that stays. Count and time policies
cut by arithmetic and by search in sorted times. A policy on an aggregate is searched for in the
tree (MTA paper, 4.1.3 and 4.1.4), which finds the right cut only if it is *monotone on prefixes*:

    evicts(prefix, total) is true  =>  it is true for every shorter prefix of the same window.

The paper never states this law; ``Policy(..., checked=True)`` reports where it is broken.
The order of arguments is always (prefix, total).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np

from mta.errors import PolicyNotMonotone
from mta.folds.fronts import Fronts, as_array
from mta.monoids.base import AbstractMonoid
from mta.monoids.naming import name_of
from mta.monoids.product import Columns
from mta.times import to_duration


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

    def longest_prefix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest prefix ends whose result is accepted."""

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""

    def all_prefixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every prefix and where it ends; reads the whole window."""

    def all_suffixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every suffix and where it begins; reads the whole window."""


class Run(Protocol):
    """What a policy may ask of the window before a run of insertions."""

    @property
    def front(self) -> int:
        """The position of the oldest event."""

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window."""

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events that are at hand, and the position of the first."""


class AbstractPolicy(ABC):
    """A rule that says how much of the window's front leaves after an insertion."""

    #: Whether events must carry times.
    needs_times = False
    #: Whether cuts depend on positions and times alone, never on values.
    positional = False

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

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        """The front after each of the next events, for as many of ``count`` as can be told.

        None where the policy must be asked after a single insertion.
        """
        del run, times, count
        return None

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
        return _Both(self, other, any_of=True)

    def __and__(self, other: AbstractPolicy) -> AbstractPolicy:
        """An event leaves only when both say so."""
        return _Both(self, other, any_of=False)


class CountWindow(AbstractPolicy):
    """The last ``size`` events.

    >>> CountWindow(3)
    CountWindow(3)
    """

    positional = True

    def __init__(self, size: int) -> None:
        number = isinstance(size, Real) and not isinstance(size, bool)
        if not number or not size >= 1 or size % 1:  # so that NaN and infinity are refused too
            raise ValueError(f"a count window holds at least 1 event, not {size!r}")
        self.size = int(size)

    def cut(self, view: View, time: int | None) -> int:
        return view.back - self.size

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        room = self.size - (run.back - run.front)
        if room > 0:
            return run.front, min(count, room)
        first = run.back + 1 - self.size
        return range(first, first + count), count

    def describe(self) -> str:
        return f"CountWindow({self.size})"


class TimeWindow(AbstractPolicy):
    """The events of the last ``size``: now - size < t <= now, where now is the newest time.

    An event exactly ``size`` old is outside, as in pandas. Seconds, a timedelta, or text such as
    "90 seconds", "5 minutes", "24 hours", "30 days", "250 milliseconds".

    >>> TimeWindow("1 hour")
    TimeWindow(3600000000 us)
    """

    needs_times = True
    positional = True

    def __init__(self, size: float | str | timedelta) -> None:
        self.size = to_duration(size)

    @property
    def lifetime(self) -> int:
        return self.size

    def cut(self, view: View, time: int | None) -> int:
        assert time is not None
        return view.first_after(time - self.size)

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        assert times is not None
        oldest, first_time = times[:count] - self.size, run.oldest_time()
        if first_time is None:
            first_time = times[0]  # the window is empty: the run itself brings the oldest event
            count = int(np.searchsorted(oldest, first_time))
        if oldest[count - 1] < first_time:
            return run.front, count
        first, head = run.head_times()
        known = int(np.searchsorted(oldest, head[-1]))
        if known == 0:
            return None
        return first + np.searchsorted(head, oldest[:known], side="right"), known

    def describe(self) -> str:
        return f"TimeWindow({self.size} us)"


class Policy(AbstractPolicy):
    """A policy of your own: ``evicts(prefix, total)`` says whether a prefix must leave.

    ``prefix`` is the result over the oldest events, ``total`` that over the whole window, both of
    the monoid ``on`` (a monoid, or a pair of column and monoid), or of the window's own monoid.
    Costs O(1) combines while few events leave, O(arity * log n) and a page a level otherwise.
    ``checked`` tries every prefix after every insertion, and raises PolicyNotMonotone. Give it a
    ``name``: a handle is only restored with a policy of the same name and monoid (without one, as
    for ``Monoid``).

    >>> from mta import Max
    >>> Policy(lambda prefix, total: total - prefix >= 4, on=Max(), name="four units")
    Policy(four units, on=Max)
    """

    def __init__(
        self,
        evicts: Callable[[Any, Any], bool],
        on: AbstractMonoid | tuple[Columns, AbstractMonoid] | None = None,
        name: str | None = None,
        checked: bool = False,
    ) -> None:
        self.evicts = evicts
        self.on = (None, on) if isinstance(on, AbstractMonoid) else on
        self.name = name or name_of(evicts)
        self.checked = checked

    @property
    def observers(self) -> tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]:
        return () if self.on is None else ((self, *self.on),)

    def cut(self, view: View, time: int | None) -> int:
        total = view.total(self)
        if self.checked:
            prefixes = view.all_prefixes(self)
            verdicts = [(end - 1, self.evicts(part, total)) for end, part in prefixes]
            _require_monotone(self, verdicts)
        return view.longest_prefix(self, lambda prefix: self.evicts(prefix, total))

    def describe(self) -> str:
        return f"Policy({self.name}, on={_described(self.on) if self.on else 'the window'})"


class BoundWindow(AbstractPolicy):
    """The longest run of newest events whose aggregate stays within bounds.

    For the MTA paper's "sum of the window at most 10" write ``BoundWindow(Sum(), at_most=10)``.
    Monotone where the aggregate only grows (or only falls) as older events are added to it: sums
    of values that are not negative, counts, maxima. An event that alone breaks the bound leaves
    the window empty. Costs and ``checked`` as for Policy.
    """

    def __init__(
        self,
        on: AbstractMonoid | tuple[Columns, AbstractMonoid],
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        checked: bool = False,
    ) -> None:
        if at_most is None and at_least is None:
            raise ValueError("a bound needs at_most, at_least or both")
        self.on = (None, on) if isinstance(on, AbstractMonoid) else on
        self.at_most = float("inf") if at_most is None else float(at_most)
        self.at_least = float("-inf") if at_least is None else float(at_least)
        self.checked = checked

    @property
    def observers(self) -> tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]:
        return ((self, *self.on),)

    def _keeps(self, result: Any) -> bool:
        return bool(self.at_least <= result <= self.at_most)

    def cut(self, view: View, time: int | None) -> int:
        if self.checked:
            verdicts = [(at, not self._keeps(part)) for at, part in view.all_suffixes(self)]
            _require_monotone(self, verdicts)
        return view.longest_suffix(self, self._keeps)

    def describe(self) -> str:
        return f"BoundWindow({self.at_least} <= {_described(self.on)} <= {self.at_most})"


class _Both(AbstractPolicy):
    """Two policies at once: their cuts are positions, so either is the larger or the smaller."""

    def __init__(self, one: AbstractPolicy, other: AbstractPolicy, any_of: bool) -> None:
        self.one, self.other, self.any_of = one, other, any_of
        self.needs_times = one.needs_times or other.needs_times
        self.positional = one.positional and other.positional

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

    def fronts(self, run: Run, times: np.ndarray | None, count: int) -> tuple[Fronts, int] | None:
        one = self.one.fronts(run, times, count)
        other = self.other.fronts(run, times, count)
        if one is None or other is None:
            return None
        count = min(one[1], other[1])
        choose = np.maximum if self.any_of else np.minimum
        return choose(as_array(one[0], count), as_array(other[0], count)), count

    def describe(self) -> str:
        sign = "|" if self.any_of else "&"
        return f"({self.one.describe()} {sign} {self.other.describe()})"


def _described(on: tuple[Columns, AbstractMonoid]) -> str:
    columns, monoid = on
    names = [columns] if isinstance(columns, str) else list(columns or ())
    return f"{monoid.name}({', '.join(names)})" if names else monoid.name


def _require_monotone(policy: AbstractPolicy, verdicts: list[tuple[int, bool]]) -> None:
    """Verdicts (must it leave?) from the oldest event on must be true, ..., true, false, ..."""
    kept = None
    for position, leaves in verdicts:
        if leaves and kept is not None:
            raise PolicyNotMonotone(
                f"{policy!r} keeps the event at position {kept} but evicts the younger one at "
                f"{position}; once it keeps a prefix it must keep every longer one"
            )
        if not leaves and kept is None:
            kept = position
