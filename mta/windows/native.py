"""Single events that a kernel takes: what is prefetched for them is loaded into a native buffer.

As in ``single``, which prefetches; here what is prefetched goes into a block (``kernels.block``),
and each event is one call, until one needs more. For aggregations whose partials are a number, or a
mean's, products of these, and windows by count or time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from mta.columns.schemas import Array, Row
from mta.folds.sliding import Events
from mta.frames.base import AbstractPolicy
from mta.frames.windows import CountWindow, TimeWindow
from mta.kernels.block import Block, Loaded, ProductBlock
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import Product
from mta.times import to_time
from mta.windows.single import (
    EXACT,
    SECOND,
    UNIT,
    UNKNOWN,
    Ahead,
    Moved,
    Owner,
    SingleEvents,
    busy,
)


def block_for(monoid: AbstractMonoid, policy: AbstractPolicy) -> Block | ProductBlock | None:
    """The block that takes single events of a window; None where there is no kernel for them."""
    if type(policy) not in (CountWindow, TimeWindow):
        return None
    if not isinstance(monoid, Product):
        return _block_of(monoid)
    blocks = [_block_of(part) for part in monoid.monoids]
    known = [block for block in blocks if block is not None]
    if monoid.picks_doubles is None or not known or len(known) < len(blocks):
        return None
    return ProductBlock(monoid.aliases, known, monoid.places)


def _block_of(monoid: AbstractMonoid) -> Block | None:
    if not isinstance(monoid, ColumnarMonoid) or not monoid.kernel_lowers:
        return None
    takes_doubles = isinstance(monoid.inputs, Array) and monoid.inputs.dtype == np.dtype("<f8")
    return Block.of(monoid.kernel) if takes_doubles else None


class NativeEvents(SingleEvents):
    """The single events of one window, which a block takes."""

    __slots__ = ("_event", "_evictions", "_pick", "_shown", "block")

    def __init__(self, owner: Owner, block: Block | ProductBlock, paged: bool) -> None:
        self.block = block
        #: Picks the columns of an event of a product.
        self._pick = owner.monoid.picks_doubles if isinstance(owner.monoid, Product) else None
        self._use_block()
        #: The result, if it is known.
        self._shown: Any = None
        super().__init__(owner, True, paged)

    def _use_block(self) -> None:
        #: The result after an event of a value and a time; None where it goes another way.
        self._event: Callable[[Any, float], Any] = (
            self.block.event if self._pick is None else self._event_of_product
        )

    def _reset(self) -> None:
        super()._reset()
        self.block.clear()
        #: How many evictions are prefetched.
        self._evictions = 0

    def insert(self, value: Any, time: Any) -> None:
        """Add an event; of a double it is one call."""
        if self._owner.busy:
            raise busy()
        shown = None
        if not self._timed:
            shown = self._event(value, 0.0)
        elif time.__class__ is float:
            micros = (time * SECOND + UNIT) - UNIT  # rounds, half to even
            shown = self._event(value, micros)
            if shown is not None and micros > self._intake.newest:  # type: ignore[operator]
                self._intake.newest = micros
        if shown is None:
            self._take_otherwise(value, time)
        else:
            self._shown = shown

    def result(self) -> Any:
        """The result, which mostly is known."""
        if self._shown is None or self._owner.busy:
            return self.query("")
        return self._shown if self._pick is None else self._shown.copy()

    def _event_of_product(self, value: Any, micros: float) -> Any:
        """The results after an event whose columns are all doubles; else None."""
        assert self._pick is not None
        if not self._held:
            return None
        try:
            row = self._pick(value)
        except (KeyError, TypeError, IndexError):
            return None
        return None if row is None else self.block.event(row, micros)

    def _take_otherwise(self, value: Any, time: Any) -> None:
        """Add an event that is no double, or for which nothing is prefetched."""
        owner, micros = self._owner, 0.0
        owner.busy = True
        try:
            row = self._reader.read(value)
            if row is not None and self._timed:
                micros = -inf if time is None else float(to_time(time))
            if row is None or not (self._takes(row, micros) or self._takes_next(row, micros)):
                self._insert_otherwise(value, time)
        finally:
            owner.busy = False

    def _takes(self, row: Row, micros: float) -> bool:
        """Whether there is room for the event; then it is in, and its result is known."""
        shown = self.block.event(row, micros)
        if shown is None:
            return False
        if self._timed:
            newest = self._intake.newest
            self._intake.newest = micros if newest is None else max(micros, newest)
        self._shown = shown
        return True

    def _takes_next(self, row: Row, micros: float) -> bool:
        """Whether the block takes it after prefetching again."""
        newest = self._intake.newest
        is_late = self._timed and newest is not None and micros < newest
        if is_late and not self._may_be_late(micros):
            return False
        return self._renew() and self._takes(row, micros)

    def found(self, which: Any) -> Any:
        if self._shown is None:
            if not self._held:
                return UNKNOWN
            self.note(self._combine(*self.block.aggregates()))
        return self._shown if self._pick is None else self._shown.copy()

    def note(self, fold: Partial) -> None:
        self._shown = fold if self._lower is None else self._lower(fold)

    def write_back(self) -> None:
        super().write_back()
        self._shown = None

    def length(self) -> int | None:
        if not self._held:
            return None
        stands = self.block.stands()
        return stands.entered - stands.left

    # --- the native buffer ----------------------------------------------------------------------

    @property
    def _is_waiting(self) -> bool:
        return self._held and self.block.stands().came > 0

    def _load(self, ahead: Ahead) -> None:
        """Load it into the block."""
        (window,) = ahead.windows.values()
        last, bound = (self._last, self._bound) if self._timed else (-EXACT, EXACT)
        by_count = window.by_count
        found, lag = window.found, window.lag
        loaded = Loaded(
            self._room, window.spare if by_count else inf, last, bound,
            None if by_count else window.size, ahead.late_from,
            float(self._intake.allowed_lateness or 0),
            *((0.0, 0, 0) if lag is None else (float(lag.delay), lag.rows, lag.waiting.size)),
        )  # fmt: skip
        self._evictions = found.size - 1
        self.block.load(loaded, found.folds, found.right, found.leaving)
        if lag is not None:
            self.block.put_waiting(lag.waiting.rows, lag.waiting.times)
        self._use_block()

    def _has_evictions(self) -> bool:
        return self._held and self.block.stands().left < self._evictions

    def _evict(self) -> None:
        self.block.evict()
        self._shown = None

    def _sync(self) -> None:
        came, left, entered = self.block.stands()
        if came or left:
            times = self.block.times().astype("<i8") if self._timed else None
            new = Events(self.block.values(), times, came)
            moved = Moved(entered, left, self.block.aggregates()[1])
            self._owner.write_back(new, {"": moved})
