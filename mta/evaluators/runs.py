"""Many events at once, each with its result: runs over several leaf groups, new ones and old ones.

A window slides over a batch in *bulks*. In a bulk the leftmost tree stays as it is, and nothing is
sealed before its end; so the result after each event is

    combine(stack entry at the front, aggregate from the middle to the event)

about two combines, all of them whole-group: one stretch for each leaf group that the front goes
through, whatever leaf groups the new events fill.

    leaf groups       [. . x x] [x x x x] ... [x x .]|      front and middle before
    new events                                       [y] [y y y y] [y y y y] [y .]
    stretches         ----- ---------                        two: the front comes into the second

At its end the leaf groups that the new events filled are sealed together, in one store call, and
the leftmost tree is taken anew, from groups that are in hand. When the store fails, no event of the
bulk is in.

A window that is shorter than the bulk would use up the leftmost tree again and again. Its events
are put side by side with the new ones, as they mostly lie in one batch already, and *Two-Stacks*
goes over all of them; what lies in between is never folded by way of the tree, and where no
snapshot needs it, its pages are not written.

So it is with a longer window and a batch that is longer still: what comes and leaves within it
needs no page, unless a snapshot does. The stack of a whole window is in memory then, which is no
more than the caller's batch and its results are. Where the last result alone is wanted, nothing is
folded but what stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.evaluators.tree import MonoidTree
from mta.folds.fronts import EachFront, Fronts, as_array, fronts_upto, rows_at
from mta.folds.sliding import Events, SlidingFolds, has_kernel, kernel_lowers, scans, sweep_into
from mta.frames.windows import CountWindow, TimeWindow
from mta.kernels.native import Sweep
from mta.kernels.scans import MOST_ONES, zeros
from mta.kernels.segments import ranks
from mta.logs.base import Batch
from mta.logs.levels.queues import TOGETHER
from mta.logs.levels.search import Frame
from mta.monoids.base import Partial

#: The values of one bulk have at most so many bytes, or so many events if that is more.
_BYTES, _EVENTS = 1 << 21, 1 << 16


class StackEntries(NamedTuple):
    """What is left of the middle for each front of a stretch."""

    rows: Rows
    """The stack's entries between two places; one entry for a front that stays."""
    places: tuple[int, int]
    """The positions of the first entry and of the last."""
    fronts: Fronts


class GroupStretch(NamedTuple):
    """The next events of a bulk whose fronts are in one leaf group."""

    size: int
    front: int
    """The last of their fronts."""
    path: list[Frame]
    """The path to it."""
    left: StackEntries


class RunningTree(MonoidTree):
    """Level queues whose head path has stacks of suffix folds, over which batches slide."""

    # --- a bulk ---------------------------------------------------------------------------------

    @property
    def _most_events(self) -> int:
        """Of one bulk, whose groups are in memory until its end; fewer where values are wide."""
        size = self.monoid.inputs.row_bytes  # none of objects, and 0 of what is but counted
        return max(_EVENTS, _BYTES // size) if size else _EVENTS

    def _run_long(self, batch: Batch, start: int) -> int:
        room, left = self.room(), batch.count - start
        if left >= 2 * self.levels.leaf_arity:
            # No group above the leaves is sealed on the way, so that all pages go at once.
            most = min(self.levels.leaf_room, TOGETHER) * self.levels.leaf_arity
            room += max(0, min(most, self._most_events - room))
            self._discard()
        new = batch.part(start, start + min(room, left))
        if not new.size:
            return 0
        self.levels.in_hand = {}
        try:
            return (
                self._run_over(batch, start)
                or self._run_short(batch, start, new)
                or self._run_on(batch, start, new)
            )
        finally:
            self.levels.in_hand = None

    def _run_on(self, batch: Batch, start: int, new: Events) -> int:
        """A bulk that ends with the leftmost tree at the latest; 0 if the front leaves it at once.

        About two combines an event.
        """
        at, last = 0, None
        stretch = self._first_stretch(new)
        right = self.right
        while stretch is not None:
            stop = at + stretch.size
            # Of a front that stays, as much at once as the kernel prefetches (``kernels.scans``).
            most = MOST_ONES if isinstance(stretch.left.fronts, int) else stretch.size
            for first in range(at, stop, most):
                count = min(most, stop - first)
                right = self._stretch(batch, start + first, new, first, count, stretch.left, right)
            at, last = stop, stretch
            stretch = self._next_stretch(last.path, new, at) if at < new.size else None
        if last is not None:
            taken = new if at == new.size else batch.part(start, start + at)
            self._take(taken, last.front, last.path, right)
        return at

    def _first_stretch(self, new: Events) -> GroupStretch | None:
        """The first events, from the present front on; None if the front leaves its group."""
        ahead = self.setting.policy.fronts(self, new.times, new.size)
        if ahead is None:
            return None
        fronts, count = ahead
        if isinstance(fronts, int):
            return GroupStretch(count, fronts, self.path, self._one_left(self.left, fronts))
        self.open_path()
        return self._in_one_group(self.path, fronts, count) if self.path else None

    def _next_stretch(self, path: list[Frame], new: Events, at: int) -> GroupStretch | None:
        """The events from one on, from the front at the end of a path on.

        None where the front leaves the leftmost tree.
        """
        policy, times = self.setting.policy, None if new.times is None else new.times[at:]
        while path := self._gone_on(path):
            frame, further = path[-1], None
            held = frame.group.times
            if held is not None:
                held = held[frame.next : frame.stop]
            view = Ahead(frame.first + frame.next, self.back + at, held)
            ahead = policy.fronts(view, times, new.size - at)
            if ahead is None:
                if type(policy) is TimeWindow and times is not None:
                    further = self._next_leaf(path, int(times[0]) - policy.size)
            else:
                fronts, count = ahead
                if isinstance(fronts, int):
                    left = self._one_left(self._after(frame), fronts)
                    return GroupStretch(count, fronts, path, left)
                stretch = self._in_one_group(path, fronts, count)
                if stretch is not None:
                    return stretch
                front = int(fronts[0])
                if front < self.middle:
                    further = self._opened(self._path_from(path, front), front)
            if further is None:
                return None
            path = further
        return None

    def _one_left(self, left: Partial, front: int) -> StackEntries:
        """What is left of the middle at a front that stays."""
        return StackEntries(self.monoid.partials.one(left), (0, 0), front)

    def _in_one_group(
        self, path: list[Frame], fronts: EachFront, count: int
    ) -> GroupStretch | None:
        """The events whose fronts are in the leaf group at the end of a path; None without any."""
        frame = path[-1]
        fronts = fronts_upto(fronts, self._position(frame, frame.stop), count)
        count = len(fronts)
        if not count:
            return None
        front = int(fronts[-1])
        lefts = self._lefts(frame, frame.next, frame.stop + 1)
        places = frame.first + frame.next, frame.first + frame.stop
        path = [*path[:-1], frame.moved_on(front - frame.first)]
        return GroupStretch(count, front, path, StackEntries(lefts, places, fronts))

    def _stretch(
        self,
        batch: Batch,
        start: int,
        new: Events,
        at: int,
        count: int,
        left: StackEntries,
        right: Partial,
    ) -> Partial:
        """The results of events while the front is in one group; what is right of the middle then.

        Two combines an event.
        """
        monoid, schema = self.monoid, self.monoid.partials
        lefts, places, fronts = left
        if has_kernel(monoid):
            lifted = monoid.lift_rows(monoid.inputs.cut(new.rows, at, at + count), count)
            each = zeros(count, "i8") if isinstance(fronts, int) else fronts
            sweep = Sweep(lifted, lefts, *places, 0, each, schema.one(right))
            swept = self._swept(batch, start, sweep, count)
            if swept is not None:
                return schema.at(swept, 0)
        if not isinstance(fronts, int):
            lefts = rows_at(monoid, lefts, fronts, places[0])
        rows = monoid.inputs.cut(new.rows, at, at + count)
        rights = monoid.prefixes(monoid.lift_rows(rows, count), count, right)
        batch.put(start, monoid.combine_rows(lefts, rights, count))
        return schema.at(rights, count - 1)

    def _swept(self, batch: Batch, start: int, sweep: Sweep, count: int) -> Rows | None:
        """Results by a kernel, and the aggregate on the right in the end; None without one."""
        monoid = self.monoid
        if not has_kernel(monoid):
            return None
        lowered = kernel_lowers(monoid)
        schema = monoid.outputs if lowered else monoid.partials
        out = schema.cut(batch.results, start, start + count) if lowered else schema.new(count)
        swept = sweep_into(sweep, monoid, out, lowered)
        if swept is None:
            return None
        if not lowered:
            batch.put(start, out)
        return swept

    def _take(self, new: Events, front: int, path: list[Frame], right: Partial) -> None:
        """Have the events of a bulk in, and the front where it is then."""
        if not self.levels.fits(new.size):
            self._renew(new, front, path)
            return
        self.levels.append_many(*new)
        self.right = right
        if front == self.middle > self.front:
            self._new_tree(front)  # which begins at a border: no page is read
        elif front > self.front:
            self._advance(front, self._path_from(path, front))

    def _renew(self, new: Events, front: int, path: list[Frame]) -> None:
        """Have events in, the front where it is then, and the leftmost tree from there on.

        Groups of the ``path`` are in hand, so at most one page is read a level, and before anything
        changes. One store call to write; when that or a read fails, nothing has changed.
        """
        levels = self.levels
        for frame in path:
            levels.have_in_hand(frame.level, frame.first, frame.group)
        if front < self.back:
            levels.open_to(front)
        if levels.fits(new.size):
            levels.append_many(*new)
        else:
            levels.extend(*new, unneeded=front if self.discards else 0)
        self._new_tree(front)  # of groups that are in hand

    def _gone_on(self, path: list[Frame]) -> list[Frame]:
        """The path to the leaf group that has the next front; empty where the leftmost tree ends.

        A page a level.
        """
        if not _is_open(path):
            if self.front == self.middle:  # to take another tree would change the right
                return []
            self.open_path()
            path = self.path
        head = path[-1]
        if head.next < head.stop:
            return path
        border = self._position(head, head.stop)
        return [] if border == self.middle else self._opened(self._path_from(path, border), border)

    def _opened(self, path: list[Frame], position: int) -> list[Frame]:
        """A path with its leaf group open; a page read a level."""
        while path[-1].level:
            self._open(path, position)
        return path

    def _next_leaf(self, path: list[Frame], time: int) -> list[Frame] | None:
        """The path to the leaf group after that at the end of a path.

        None where the leftmost tree ends there, and where all its events are not later than a time.
        """
        leaf = path[-1]
        position = self._position(leaf, leaf.stop)
        if position >= self.middle:
            return None
        path = self._path_from(path, position)
        while path[-1].level:
            frame = path[-1]
            assert frame.group.times is not None
            if frame.group.times[frame.next] <= time:
                return None
            self._open(path, position)
        return path

    # --- a window that is shorter than the bulk ------------------------------------------------

    def _run_short(self, batch: Batch, start: int, new: Events) -> int:
        """A bulk for which the window is short; 0 where it is not. At most four combines an event.

        Reads each leaf page once whose events are not in the batch.
        """
        held, policy = len(self), self.setting.policy
        if held > self._most_events or new.size <= 1:
            return 0
        if type(policy) is CountWindow:
            if policy.size > new.size:
                return 0
        elif (
            type(policy) is not TimeWindow
            or new.times is None
            or int(new.times[-1]) - policy.size < int(new.times[0])
        ):
            return 0
        rows, times = self._beside(batch, start, held, new)
        fronts: range | np.ndarray
        if isinstance(policy, CountWindow):
            first = held + 1 - policy.size
            fronts = range(first, first + new.size)
            if first < 0:
                fronts = np.maximum(np.arange(first, first + new.size), 0)
        else:
            assert times is not None and new.times is not None
            fronts = ranks(times, new.times, policy.size)
        monoid, size = self.monoid, held + new.size
        lifted, one = monoid.lift_rows(rows, size), monoid.partials.one(monoid.identity)
        sweep = Sweep(lifted, one, 0, 0, held, fronts, one, turns=True)
        if self._swept(batch, start, sweep, new.size) is None:
            batch.put(start, SlidingFolds(monoid, lifted, size).folds(fronts, held))
        front = self.front + int(fronts[-1])
        self._renew(new, front, self.path)
        return new.size

    # --- a window that is shorter than the batch ------------------------------------------------

    def _run_over(self, batch: Batch, start: int) -> int:
        """All that is left of a batch at least twice as long as the window, which lies in it; or 0.

        About two combines an event; a stack of a window's length. Pages are written of what is in
        the window in the end, and of nothing else. When the store fails, no event is in.
        """
        held, count, policy = len(self), batch.count - start, self.setting.policy
        size = policy.size if isinstance(policy, CountWindow) else held
        if (
            not self.discards
            or type(policy) not in (CountWindow, TimeWindow)
            or not _EVENTS < size <= count // 2
            or held > start
            or not scans(self.monoid)
            or not self._stack_fits(size, count)
        ):
            return 0
        beside, new = batch.part(start - held, batch.count), batch.part(start, batch.count)
        monoid, origin, at = self.monoid, self.front, 0
        front, right, stack = origin, monoid.identity, self._stack(beside, origin, 0, held)

        def view(front: int, last: int) -> Ahead:
            """The window now, and the times of its events up to the one at a position."""
            seen = (
                None if beside.times is None else beside.times[front - origin : last + 1 - origin]
            )
            return Ahead(front, self.back + at, seen)

        while at < count:
            some, times = min(_EVENTS, count - at), None if new.times is None else new.times[at:]
            bottom, top, lefts = stack[-1]
            places = bottom, top
            ahead = policy.fronts(view(front, top), times, some)
            fronts: Fronts = range(0)
            if ahead is not None:
                fronts, some = ahead
            if isinstance(fronts, int):
                entry = front - bottom
                lefts, places = monoid.partials.cut(lefts, entry, entry + 1), (0, 0)
            else:
                fronts = fronts_upto(fronts, top, some)
                some = len(fronts)
                if not some:
                    stack.pop()
                    front = top
                    if not stack:
                        found = policy.fronts(view(top, self.back + at), times, 1)
                        assert found is not None
                        front = int(as_array(*found)[0])
                        if self.back + at - front < _EVENTS:
                            break
                        right = monoid.identity
                        stack = self._stack(beside, origin, front - origin, held + at)
                    continue
                front = int(fronts[-1])
            left = StackEntries(lefts, places, fronts)
            right = self._stretch(batch, start + at, new, at, some, left, right)
            at += some
        if at:
            self._renew(batch.part(start, start + at), front, self.path)
        return at

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """As ever; all at once where a leaf group's worth of them leaves again before the last.

        What comes and leaves so is neither written nor folded, unless a snapshot was taken.
        """
        coming = None if times is None else times[start:stop]
        front = self._front_after(coming, stop - start)
        least = self.back + self.levels.leaf_arity
        if front < least or not (self.discards and self.monoid.is_columnar):
            return super().extend(rows, times, start, stop)
        new = Events(self.monoid.inputs.cut(rows, start, stop), coming, stop - start)
        self.levels.in_hand = {}
        try:
            self._renew(new, front, self.path)
        finally:
            self.levels.in_hand = None
        return new.size

    def _front_after(self, times: np.ndarray | None, count: int) -> int:
        """The front after so many more events, at these times, if it is one of theirs; or 0."""
        policy = self.setting.policy
        if type(policy) is CountWindow:
            return max(0, self.back + count - policy.size)
        if type(policy) is TimeWindow and times is not None:
            last = int(times[-1])
            return self.back + int(times.searchsorted(last - policy.size, side="right"))
        return 0

    def _stack_fits(self, size: int, count: int) -> bool:
        """Whether the stack of a window takes no more memory than a batch and its results do."""
        monoid = self.monoid
        taken, values, results = (
            schema.row_bytes for schema in (monoid.partials, monoid.inputs, monoid.outputs)
        )
        return taken is not None and size * taken <= count * ((values or 0) + (results or 0))

    def _stack(self, events: Events, origin: int, start: int, stop: int) -> list[Piece]:
        """The stack of some events, the first of which is at the ``origin``; a combine for each."""
        monoid, right = self.monoid, self.monoid.identity
        pieces = (
            []
            if start < stop
            else [Piece(origin + stop, origin + stop, monoid.partials.one(right))]
        )
        while start < stop:
            begin = max(start, stop - _EVENTS)
            rows, count = monoid.inputs.cut(events.rows, begin, stop), stop - begin
            folds = monoid.suffixes(monoid.lift_rows(rows, count), count, right)
            pieces.append(Piece(origin + begin, origin + stop, folds))
            right, stop = monoid.partials.at(folds, 0), begin
        return pieces

    def _beside(
        self, batch: Batch, start: int, held: int, new: Events
    ) -> tuple[Rows, np.ndarray | None]:
        """The window's events and the new ones after them: mostly a piece of the batch itself."""
        missing, stop = held - start, start + new.size
        if missing <= 0:
            found = batch.part(start - held, stop)
            return found.rows, found.times
        schema, timed = self.monoid.inputs, self.levels.timed
        rows, at = schema.new(held + new.size), 0
        times = np.empty(held + new.size, np.int64) if timed else None
        for group, begin, end in self.leaves():
            end = min(end, begin + missing - at)
            schema.put_many(rows, at, schema.cut(group.rows, begin, end))
            if times is not None and group.times is not None:
                times[at : at + end - begin] = group.times[begin:end]
            at += end - begin
            if at == missing:
                break
        ours = batch.part(0, stop)
        schema.put_many(rows, missing, ours.rows)
        if times is not None and ours.times is not None:
            times[missing:] = ours.times
        return rows, times


class Piece(NamedTuple):
    """The entries of a stack from one position to another one, and the one that is there."""

    bottom: int
    top: int
    folds: Rows


class Ahead:
    """The window as it will be when some of a bulk's events are in: what a policy asks of it.

    ``times`` are those of its oldest events, as many as are at hand.
    """

    def __init__(self, front: int, back: int, times: np.ndarray | None) -> None:
        self.front, self.back, self._times = front, back, times

    def oldest_time(self) -> int | None:
        """The time of the oldest event; None in an empty window."""
        return int(self.head_times()[1][0]) if self.front < self.back else None

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events at hand, and the position of the first of them."""
        assert self._times is not None
        return self.front, self._times


def _is_open(path: list[Frame]) -> bool:
    return bool(path) and not path[-1].level
