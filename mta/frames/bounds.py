"""Frames on an aggregate: bounds, and custom rules (MTA paper, 4.1.3 and 4.1.4)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from mta.errors import FrameNotMonotone
from mta.frames.base import Frame, View
from mta.monoids.base import AbstractMonoid
from mta.monoids.basic import Max
from mta.monoids.increasing_run import LongestIncreasingRun
from mta.monoids.product import Columns, column_names
from mta.recipes import name_of


class CustomFrame(Frame):
    """A custom frame: ``evicts(prefix, total)`` says whether to evict the oldest events.

    Costs O(1) combines while few events are evicted; otherwise O(arity * log n) combines and one
    page read per level. You can restore a snapshot only with a frame that has the same name and
    aggregation.

    Args:
        evicts: A function of two results: ``prefix`` of the oldest events, ``total`` of the whole
            window. It must be monotone: if it evicts a prefix, it evicts each shorter prefix.
        on: The aggregation of these results, or a pair of column and aggregation. The default is
            the aggregation of the window.
        name: The name in snapshots. The default name is formed as for ``Monoid``.
        checked: Whether to verify after every insertion, on every prefix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.

    >>> from mta import Max
    >>> CustomFrame(lambda prefix, total: total - prefix >= 4, on=Max(), name="four units")
    CustomFrame(four units, on=Max)
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
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
        return () if self.on is None else ((self, *self.on),)

    @property
    def is_searched(self) -> bool:
        """Whether only the front, the total and a search decide which events to evict."""
        return not self.checked and type(self).cut is CustomFrame.cut

    def cut(self, view: View, time: int | None) -> int:
        total = view.total(self)
        if self.checked:
            prefixes = view.all_prefixes(self)
            verdicts = [(end - 1, self.evicts(part, total)) for end, part in prefixes]
            _require_monotone(self, verdicts)
        return view.longest_prefix(self, lambda prefix: self.evicts(prefix, total), total)

    def describe(self) -> str:
        return f"CustomFrame({self.name}, on={_described(self.on) if self.on else 'the window'})"


class BoundWindow(Frame):
    """The longest run of newest events whose aggregate stays within bounds.

    The MTA paper's "sum of the window at most 10" is ``BoundWindow(Sum(), at_most=10)``. The
    aggregate must only grow, or only fall, as older events are added to it, as for counts, maxima,
    and sums of values of at least 0. If a single event breaks the bound, the window is empty. Costs
    the same as ``CustomFrame``.

    Args:
        on: The aggregation, or a pair of column and aggregation.
        at_most: The upper bound, for an aggregate that grows.
        at_least: The lower bound, for an aggregate that falls.
        checked: Whether to verify after every insertion, on every suffix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.

    >>> from mta import Sum, Window
    >>> from mta.frames import BoundWindow
    >>> Window(Sum(), BoundWindow(Sum(), at_most=10)).extend([4.0, 5.0, 3.0, 2.0]).tolist()
    [4.0, 9.0, 8.0, 10.0]
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
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
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


class SinceMax(CustomFrame):
    """The events since the oldest maximum of a column, including that event (MTA paper, 5.6).

    Use it to shorten another window: ``CountWindow(2**20) | SinceMax()``. Events older than the
    maximum never affect a later result, because the maximum stays in the window longer than they
    do. The frame evicts a prefix while its maximum is below the window's maximum: "the older
    subwindow not containing the maximum".

    Args:
        column: The column, if events have several columns.
        checked: Whether to verify after every insertion, on every prefix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.
        own: Whether to read the result of the window's own aggregation, which must be a maximum,
            instead of an additional aggregation.

    >>> from mta import Count, Product, Window
    >>> from mta.frames import SinceMax
    >>> Window(Product({"n": Count()}), SinceMax("x")).extend({"x": [1.0, 5.0, 3.0]})["n"].tolist()
    [1, 1, 2]
    """

    def __init__(self, column: Columns = None, checked: bool = False, own: bool = False) -> None:
        if own and column is not None:
            raise ValueError("own=True reads the window's own result: name no column with it")
        super().__init__(
            lambda prefix, total: bool(prefix < total),
            on=None if own else (column, Max()),
            name="since the maximum",
            checked=checked,
        )


class SinceLongestRun(CustomFrame):
    """The events since the start of the longest increasing run, including that event.

    Like ``SinceMax``, for runs: the frame evicts a prefix while it has no event of that run. It
    reads the result of the window's own LongestIncreasingRun, or, if you give ``columns``, of an
    additional one.

    Args:
        columns: The columns of the value and the time.
        time: The type of the times, as for ``LongestIncreasingRun``.
        checked: Whether to verify after every insertion, on every prefix, that the rule is
            monotone. Raises FrameNotMonotone if not. Meant for tests.

    >>> from mta import Window
    >>> from mta.aggregations import LongestIncreasingRun
    >>> from mta.frames import SinceLongestRun
    >>> window = Window(LongestIncreasingRun(), SinceLongestRun(), name="run")
    >>> _ = window.extend(([3.0, 1.0, 2.0, 3.0], range(4)))
    >>> len(window)
    3
    """

    def __init__(self, columns: Columns = None, time: Any = "f8", checked: bool = False) -> None:
        super().__init__(
            lambda prefix, total: prefix.events <= total.before,
            on=None if columns is None else (columns, LongestIncreasingRun(time)),
            name="since the longest run",
            checked=checked,
        )

    def cut(self, view: View, time: int | None) -> int:
        """Return the start of the run, which the total gives without a search."""
        if self.checked:
            return super().cut(view, time)
        total = view.total(self)
        return int(view.back - total.events + total.before)


def _observed(on: Any) -> tuple[Columns, AbstractMonoid]:
    """Return what a frame observes, as a pair of column and monoid."""
    if isinstance(on, AbstractMonoid):
        return None, on
    if isinstance(on, tuple) and len(on) == 2 and isinstance(on[1], AbstractMonoid):
        return on
    raise TypeError(f"a frame is on a monoid, or on a pair of column and monoid, not on {on!r}")


def _bound(value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or value != value:
        raise ValueError(f"a bound is a number, not {value!r}")
    return float(value)


def _described(on: tuple[Columns, AbstractMonoid]) -> str:
    names, monoid = column_names(on[0]), on[1]
    return f"{monoid.name}({', '.join(names)})" if names else monoid.name


def _require_monotone(frame: Frame, verdicts: list[tuple[int, bool]]) -> None:
    """Raise FrameNotMonotone if a verdict (whether to evict) is true after a false one."""
    kept = None
    for position, leaves in verdicts:
        if leaves and kept is not None:
            raise FrameNotMonotone(
                f"{frame!r} keeps the event at position {kept} but evicts the newer one at "
                f"{position}; a frame that keeps a prefix must keep every longer prefix"
            )
        if not leaves and kept is None:
            kept = position
