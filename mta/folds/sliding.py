"""The results of a window while it slides over events in hand, in the way that takes the least.

    rows      0 1 2 3 4 5 6 7        the fold of rows [f, i] for each row i of some
    fronts        0 0 2 3 3 7        from row 2 on: [0, 2] [0, 3] [2, 4] [3, 5] [3, 6] [7, 7]

Fronts never decrease, and that is all that is asked of them. There are four ways:

- for monoids that answer ranges of events from these (``mta.monoids.ranges``), the ranges: none;
- where a row may be folded in twice, two blocks that overlap: one combine a row (``overlaps``);
- under any other monoid of columns, a suffix and a prefix within blocks: four (``blocks``);
- for monoids of plain functions, a stack and one aggregate, row by row: three (*Two-Stacks*).

Rows of many keys may stand side by side, as no range crosses from one key's rows to another's:
fronts do not decrease where a new key begins, and no row is ever looked at for the sake of another.

Cursors fold so what windows share (``Hand``). A structure of one window goes by its own stack while
that lasts; a window that is short beside the batch would use it up again and again, and is put side
by side with the events to come (``ShortRun``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.blocks import Blocks
from mta.folds.fronts import EachFront, Fronts, as_array, fronts_upto, known, moved, rows_at
from mta.folds.overlaps import Overlaps, may_overlap
from mta.folds.scans import flattened, scan_each
from mta.kernels import native
from mta.kernels.native import Sweep
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts
from mta.monoids.product import Product
from mta.monoids.ranges import RangeFolds

#: How many events of a batch are folded range by range at once: as many as this, or as have so many
#: bytes of partials, which is more unless these are wide.
_RUN, _MOST_RUN, _RUN_BYTES = 1 << 12, 1 << 16, 1 << 20
#: As many events at once of a window whose front moves by one.
_STEADY = 1 << 13
#: The longest window for which that is done; for a longer one a stack is faster.
SHORT = 256
#: How long it may become in the run, lest a window that is now longer, now shorter, go by the stack
#: time and again.
_LONGEST_SHORT = 4 * SHORT


class SlidingFolds:
    """Lifted events, and their folds; what is computed for one window serves all others."""

    def __init__(self, monoid: AbstractMonoid, lifted: Rows, count: int) -> None:
        self.monoid, self.lifted, self.count = monoid, lifted, count

    @cached_property
    def _blocks(self) -> Blocks | Overlaps:
        kind = Overlaps if may_overlap(self.monoid) else Blocks
        return kind(self.monoid, self.lifted, self.count)

    @property
    def _has_blocks(self) -> bool:
        return "_blocks" in self.__dict__

    @cached_property
    def prefixes(self) -> Rows:
        """The folds of the first 1, 2, ... rows; one combine a row."""
        if self._has_blocks:
            return self._blocks.prefixes_of_all()
        return self.monoid.prefixes(self.lifted, self.count, self.monoid.identity)

    @cached_property
    def total(self) -> Partial:
        """The fold of all rows; one combine a row, none where the prefixes are known."""
        if "prefixes" in self.__dict__:
            return self.monoid.partials.at(self.prefixes, self.count - 1)
        return self.monoid.fold(self.lifted, self.count)

    def suffixes(self, start: int, right: Partial) -> Rows:
        """The folds from row ``start``, and from each after it, to the end, joined to ``right``.

        One combine a row.
        """
        if self._has_blocks:
            return self._blocks.suffixes_of_all(start, right)
        rows, count = self.monoid.partials.cut(self.lifted, start, self.count), self.count - start
        return self.monoid.suffixes(rows, count, right)

    def folds(self, fronts: EachFront, first: int) -> Rows:
        """The fold from each front, which never decrease, to the rows from the ``first`` on.

        At most four combines a row, all but those of plain functions whole-group.

        >>> from mta import Sum
        >>> two_keys = SlidingFolds(Sum(), np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), 6)
        >>> two_keys.folds(np.array([0, 0, 1, 3, 3, 4]), first=0).tolist()
        [1.0, 3.0, 5.0, 10.0, 30.0, 50.0]
        """
        monoid = self.monoid
        if monoid.folds_ranges:
            return self._range_folds(known(fronts), first)
        if not monoid.is_columnar:
            return two_stacks(monoid, self.lifted, known(fronts), first)
        if in_any_order(self.monoid):
            found = self._swept(known(fronts), first)
            if found is not None:
                return found
        if isinstance(self._blocks, Overlaps):
            return self._blocks.folds(fronts, first)
        return self._blocks.folds(known(fronts), first)

    def _range_folds(self, fronts: range | np.ndarray, first: int) -> Rows:
        """As ``folds``, where parts of the monoid have the results of ranges; no combine there."""
        monoid, lifted, count = self.monoid, self.lifted, self.count
        if isinstance(monoid, Parts):
            parts = zip(monoid.monoids, lifted, strict=True)
            return tuple([SlidingFolds(m, rows, count).folds(fronts, first) for m, rows in parts])
        starts = as_array(fronts, len(fronts))
        return RangeFolds(monoid, lifted, starts, np.arange(len(fronts)) + first + 1)

    def _swept(self, fronts: range | np.ndarray, first: int) -> Rows | None:
        """As ``folds``, by a kernel that goes from row to row; 3 combines a row."""
        monoid, schema, begin = self.monoid, self.monoid.partials, int(fronts[0])
        one, found = schema.one(monoid.identity), schema.new(len(fronts))
        stop = first + len(fronts)
        rows = schema.cut(self.lifted, begin, stop)
        own = fronts if isinstance(fronts, range) else fronts.copy()
        sweep = Sweep(rows, one, 0, 0, first - begin, moved(own, -begin), one, turns=True)
        return None if sweep_into(sweep, monoid, found, lowered=False) is None else found


def sweep_into(sweep: Sweep, monoid: AbstractMonoid, out: Rows, lowered: bool) -> Rows | None:
    """Partials or results of a sweep into ``out``; then the aggregate on the right, as one row.

    None where there is no kernel for the monoid, or numpy's way must go.
    """
    if isinstance(monoid, Parts):
        found = []
        for part, of_part in enumerate(monoid.monoids):
            of_columns = sweep._replace(
                rows=sweep.rows[part], stack=sweep.stack[part], right=sweep.right[part]
            )
            swept = sweep_into(of_columns, of_part, out[part], lowered)
            if swept is None:
                return None
            found.append(swept)
        return tuple(found)
    if not isinstance(monoid, ColumnarMonoid) or monoid.kernel is None:
        return None
    return native.sweep(monoid.kernel, sweep, out, lowered)


def has_kernel(monoid: AbstractMonoid) -> bool:
    """Whether a kernel sweeps over a monoid's rows."""
    return native.compiled is not None and _every(monoid, _names_kernel)


def kernel_lowers(monoid: AbstractMonoid) -> bool:
    """Whether it has the results, too."""
    if isinstance(monoid, Product):
        return all(map(kernel_lowers, monoid.monoids))
    return isinstance(monoid, ColumnarMonoid) and monoid.kernel_lowers


def in_any_order(monoid: AbstractMonoid) -> bool:
    """Whether a kernel may put rows together in another order, and comes to the same bits."""
    return has_kernel(monoid) and _every(monoid, _is_exact)


def sweep_goes_on(monoid: AbstractMonoid) -> bool:
    """Whether a kernel has the results, and may go on where it has ended before, to the bit."""
    return (
        native.compiled is not None
        and kernel_lowers(monoid)
        and _every(monoid, lambda part: part.kernel is not None and part.kernel.goes_on)
    )


def scans_go_on(monoid: AbstractMonoid) -> bool:
    """Whether numpy's scans may end anywhere and go on from there, to the bit."""
    return _every(monoid, lambda part: bool(part.ufuncs))


def turns(monoid: AbstractMonoid) -> bool:
    """Whether ``turning_folds`` takes the least without a kernel, or is to give a kernel's bits.

    A scan without ufuncs takes log2(n) combines a row, and is not for rows as long as a window.
    """
    return scans_go_on(monoid) or (_every(monoid, _names_kernel) and not _every(monoid, _is_exact))


def _every(monoid: AbstractMonoid, holds: Callable[[ColumnarMonoid], bool]) -> bool:
    """Whether it holds of a monoid of columns, or of each part of one."""
    if isinstance(monoid, Parts):
        return all(_every(part, holds) for part in monoid.monoids)
    return isinstance(monoid, ColumnarMonoid) and holds(monoid)


def _names_kernel(monoid: ColumnarMonoid) -> bool:
    return monoid.kernel is not None


def _is_exact(monoid: ColumnarMonoid) -> bool:
    return monoid.kernel is not None and monoid.kernel.in_any_order


def turning_folds(
    monoid: AbstractMonoid, lifted: Rows, fronts: range | np.ndarray, first: int
) -> Iterator[tuple[int, Rows]]:
    """As ``Sweep`` with ``turns`` and no stack, in pieces: where each of them begins, and folds.

    A combine and two scanned rows a row, about ten calls of numpy's for each window's length.
    """
    schema, at = monoid.partials, 0
    one = schema.one(monoid.identity)
    while at < len(fronts):
        front, middle = int(fronts[at]), first + at + 1
        if isinstance(fronts, range):
            folds = _steady_folds(monoid, lifted, front, middle - front, len(fronts) - at)
            if folds is not None:
                yield at, folds[0]
                at += folds[1]
                continue
        stack = monoid.suffixes(schema.cut(lifted, front, middle), middle - front, monoid.identity)
        yield at, monoid.combine_rows(schema.cut(stack, 0, 1), one, 1)
        stop = len(fronts_upto(fronts, middle - 1, len(fronts)))
        count = stop - at - 1
        if count:
            rows = schema.cut(lifted, middle, middle + count)
            rights = monoid.prefixes(rows, count, monoid.identity)
            lefts = rows_at(monoid, stack, fronts[at + 1 : stop], front)
            yield at + 1, monoid.combine_rows(lefts, rights, count)
        at = stop


def _steady_folds(
    monoid: AbstractMonoid, lifted: Rows, front: int, size: int, count: int
) -> tuple[Rows, int] | None:
    """The next folds of a short window whose front moves by one, and how many: some windows' worth.

    A window becomes the stack as often as there are so many events; many of them do all at once,
    in as many calls as one.
    """
    times = min((count - 1) // size, _STEADY // size)
    if size < 2 or times < 2:
        return None
    cut, many = monoid.partials.cut, times * size
    stacks = scan_each(monoid, cut(lifted, front, front + many), size, backwards=True)
    if stacks is None:
        return None
    rows = cut(lifted, front + size, front + size + many)
    rights = flattened(scan_each(monoid, rows, size, backwards=False), size)
    return monoid.combine_rows(flattened(stacks, size), rights, many), many


def two_stacks(
    monoid: AbstractMonoid, lifted: Rows, fronts: range | np.ndarray, first: int
) -> Rows:
    """As ``SlidingFolds.folds``, row by row, for monoids of plain functions; 3 combines a row.

    The rows before a cut are in a stack of suffix folds, those from there on in one aggregate; when
    a range begins beyond the cut, all rows so far become the stack.
    """
    schema, combine = monoid.partials, monoid.combine
    found = schema.new(len(fronts))
    origin = cut = first
    stack, right = schema.one(monoid.identity), monoid.identity
    for at, start in enumerate(fronts.tolist() if isinstance(fronts, np.ndarray) else fronts):
        last = first + at
        if start > cut or last == first:
            origin, cut, right = start, last, monoid.identity
            rows = schema.cut(lifted, origin, cut)
            stack = monoid.suffixes(rows, cut - origin, monoid.identity)
        right = combine(right, schema.at(lifted, last))
        schema.put(found, at, combine(schema.at(stack, start - origin), right))
    return found


# --- a window that is short beside the batch ------------------------------------------------------


class Events(NamedTuple):
    """Events one after the other: their values as input rows, and times where they are kept."""

    rows: Rows
    times: np.ndarray | None
    size: int


class TellsFronts(Protocol):
    """A policy, as far as it is asked here."""

    def fronts(
        self, run: ShortRun, times: np.ndarray | None, count: int
    ) -> tuple[Fronts, int] | None:
        """The front after each of the next events, for as many of ``count`` as are known."""


def short_run_of(monoid: AbstractMonoid, window: int, coming: int) -> int:
    """How many of the events to come are folded range by range at once; 0 for a longer window.

    Else the run would use up a stack again and again, and a handful of whole-group combines on
    small groups cost about as much as using it up once.
    """
    width = monoid.partials.row_bytes or _RUN_BYTES  # of objects it is not known
    count = min(coming, max(_RUN, min(_MOST_RUN, _RUN_BYTES // width)))
    return count if monoid.is_columnar and window <= min(2 * count, SHORT) else 0


class ShortRun:
    """A short window and the events to come, side by side; what a policy may ask of them.

    ``held`` is the window's events in pieces, ``front`` the position of the first of them.
    """

    def __init__(
        self, monoid: AbstractMonoid, front: int, held: Sequence[Events], new: Events
    ) -> None:
        self._monoid, self.front = monoid, front
        self._pieces, self._new = [*held, new], new
        self.back = front + sum(piece.size for piece in held)

    @cached_property
    def _times(self) -> np.ndarray:
        return np.concatenate([times for _, times, _ in self._pieces if times is not None])

    def oldest_time(self) -> int:
        """The time of the oldest event, which may be one to come."""
        return int(self._times[0])

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of all events, and the position of the first of them."""
        return self.front, self._times

    def folds(self, policy: TellsFronts) -> tuple[np.ndarray, Rows] | None:
        """The front after each of the new events that the policy can tell of, and the aggregate.

        None where it tells of none, where nothing leaves, and where the window becomes long.
        """
        ahead = policy.fronts(self, self._new.times, self._new.size)
        if ahead is None or isinstance(ahead[0], int):
            return None
        fronts, count = as_array(*ahead), ahead[1]
        held = self.back - self.front
        lengths = np.arange(self.back + 1, self.back + 1 + count) - fronts
        if int(lengths.max()) > _LONGEST_SHORT:
            return None
        schema, size = self._monoid.inputs, held + count
        rows, at = schema.new(held + self._new.size), 0
        for piece, _, length in self._pieces:
            schema.put_many(rows, at, piece)
            at += length
        lifted = self._monoid.lift_rows(schema.cut(rows, 0, size), size)
        return fronts, SlidingFolds(self._monoid, lifted, size).folds(fronts - self.front, held)
