"""Policies on an aggregate: a bound on it, and rules of your own (MTA paper, 4.1.3 and 4.1.4)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from mta.errors import PolicyNotMonotone
from mta.frames.base import AbstractPolicy, View
from mta.monoids.base import AbstractMonoid
from mta.monoids.basic import Max
from mta.monoids.increasing_run import LongestIncreasingRun
from mta.monoids.naming import name_of
from mta.monoids.product import Columns, column_names


class Policy(AbstractPolicy):
    """A policy of your own: ``evicts(prefix, total)`` says whether a prefix must leave.

    ``prefix`` is the result over the oldest events, ``total`` that over the whole window, both of
    the monoid ``on`` (a monoid, or a pair of column and monoid), or of the window's own monoid.
    Costs O(1) combines while few events leave, O(arity * log n) and one page per level otherwise.
    ``checked`` tries every prefix after every insertion, and raises PolicyNotMonotone. Give it a
    ``name``: a snapshot is only restored with a policy of the same name and monoid (without one, as
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
        if not callable(evicts):
            raise TypeError(f"evicts is a function of (prefix, total), not {evicts!r}")
        self.evicts = evicts
        self.on = None if on is None else _observed(on)
        self.name = name or name_of(evicts)
        self.checked = checked

    @property
    def observers(self) -> tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]:
        return () if self.on is None else ((self, *self.on),)

    @property
    def is_searched(self) -> bool:
        """Whether nothing but the front, the total and a search decides what leaves."""
        return not self.checked and type(self).cut is Policy.cut

    def cut(self, view: View, time: int | None) -> int:
        total = view.total(self)
        if self.checked:
            prefixes = view.all_prefixes(self)
            verdicts = [(end - 1, self.evicts(part, total)) for end, part in prefixes]
            _require_monotone(self, verdicts)
        return view.longest_prefix(self, lambda prefix: self.evicts(prefix, total), total)

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
        self.on = _observed(on)
        self.at_most = float("inf") if at_most is None else _bound(at_most)
        self.at_least = float("-inf") if at_least is None else _bound(at_least)
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


class SinceMax(Policy):
    """Keeps what follows the oldest maximum of a column, that event included (MTA paper, 5.6).

    What is older than the maximum can never be in a later result, for the maximum stays in the
    window longer than all that came before it: ``CountWindow(2**20) | SinceMax()``. Evicts a prefix
    while its maximum is below the window's: "the older subwindow not containing the maximum".
    Monotone, as a shorter prefix has no larger maximum. With ``own`` it reads the window's own
    result, which is a maximum then, and not one beside it.
    """

    def __init__(self, column: Columns = None, checked: bool = False, own: bool = False) -> None:
        if own and column is not None:
            raise ValueError("own=True reads the window's own result: name no column beside it")
        super().__init__(
            lambda prefix, total: bool(prefix < total),
            on=None if own else (column, Max()),
            name="since the maximum",
            checked=checked,
        )


class SinceLongestRun(Policy):
    """Keeps what follows the start of the longest increasing run, that event included.

    As SinceMax, for runs. Evicts a prefix while it has no event of that run. Monotone, as a shorter
    prefix has fewer events. It reads the result of the window's own monoid, LongestIncreasingRun,
    or with ``columns`` (value and time) one beside it.
    """

    def __init__(self, columns: Columns = None, time: Any = "f8", checked: bool = False) -> None:
        super().__init__(
            lambda prefix, total: prefix.events <= total.before,
            on=None if columns is None else (columns, LongestIncreasingRun(time)),
            name="since the longest run",
            checked=checked,
        )

    def cut(self, view: View, time: int | None) -> int:
        """Where the run begins is known from the total: no search."""
        if self.checked:
            return super().cut(view, time)
        total = view.total(self)
        return int(view.back - total.events + total.before)


def _observed(on: Any) -> tuple[Columns, AbstractMonoid]:
    """What a policy observes, as a pair of column and monoid."""
    if isinstance(on, AbstractMonoid):
        return None, on
    if isinstance(on, tuple) and len(on) == 2 and isinstance(on[1], AbstractMonoid):
        return on
    raise TypeError(f"a policy is on a monoid, or on a pair of column and monoid, not on {on!r}")


def _bound(value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or value != value:
        raise ValueError(f"a bound is a number, not {value!r}")
    return float(value)


def _described(on: tuple[Columns, AbstractMonoid]) -> str:
    names, monoid = column_names(on[0]), on[1]
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
