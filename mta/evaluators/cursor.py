"""Cursors: multiple windows over one log, each a front of its own that reads shared events.

A cursor is to stored events what the stack is to Amortized MTA: it holds the *suffix folds* S of
the leaf that its front is in, each reaching to the end of what was stored when it was folded. For a
chunk of a batch, whose prefix folds P all cursors share, the results are then one vector
expression:

    positions   ... [ . . f . . ) . . . . . . . . ) . . . . [ e0 e1 e2 ...
                      S[f]: from f to where it was folded     P: the chunk
                                                    G: what has been stored since

    result after e_i  =  S[f_i] (x) G (x) P_i           where f_i is the front after e_i

S is the top of a *stack* (MTA paper, 4.2; Algorithms 4 to 7). Below it are the suffix folds of the
groups on the path from the root of the log to that leaf, each reaching to what was the back when it
was folded, with the aggregate of what has come between that and the entry above it:

    level 2   [ a b c d ]        path: b is open       folds from c, d, and the end of the group
    level 1   [ p q r s ]        below b: q is open    folds from r, s, and the end of the group
    level 0   [ . . f . ]        below q: the leaf     S

Only when the front leaves the leaf is the next leaf read (or as many as the run passes through).
What follows it is the next fold of the entry below; a group of the path is folded once, and an
entry that is used up passes on what has come since: O(1) combines per event amortized at any arity.
So a window costs about two whole-group combines per event, and the scan of each leaf, whatever its
length. Where the front has come to the chunk itself (short windows), its events become the stack
(``folds.sliding``).

A cursor writes nothing, and all it holds beside its front can be had again from the structure: when
a call fails, its front is where it was, or it is behind and is put in its place later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.evaluators.ends import Frames, frame_results, stop_of
from mta.evaluators.observed import ObservedWindow
from mta.evaluators.searched import SearchedTimes
from mta.evaluators.stack import Folds
from mta.folds.sliding import (
    EachFront,
    Events,
    SlidingFolds,
    as_array,
    count_below,
    has_kernel,
    kernel_lowers,
    rows_at,
    sweep_into,
)
from mta.frames.base import NEWEST, AbstractPolicy
from mta.kernels.native import Sweep
from mta.logs.base import Batch, Lens, OrderedEvents, PathGroup, Prefetched, Recent
from mta.logs.leaves import Chunk, Leaf, suffixes_of
from mta.logs.ranges import Positions
from mta.monoids.base import AbstractMonoid, Partial

#: A window that has come further than this is folded from the log.
_NEAR = 1024
#: Where the window has no more than so many events for each new one, results that follow from all
#: of them together take less than those that follow from folds.
_ANSWERED = 24


class Cursor(ObservedWindow):
    """One window over shared events: its policy and its front.

    ``lenses`` say where in a partial the aggregates stand that policies observe, by the policy's
    ``id``. A cursor is also what its policy sees of the window (``policy.View``).
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        policy: AbstractPolicy,
        events: OrderedEvents,
        lenses: Mapping[int, Lens] | None = None,
    ) -> None:
        super().__init__(monoid, lenses)
        self.policy, self.events = policy, events
        self.front = self.back = events.kept_from
        #: How many events behind the back it knows of: those that a frame which ends before the
        #: newest event has yet to come to.
        self.waiting = 0
        self._stamp = events.stamp
        #: A leaf that was looked at last.
        self._leaf: Leaf | None = None
        #: The last entry of the stack before and after the last ``accept``.
        self._undo: tuple[Folds, Folds] | None = None
        #: The folds along the path to the front, the outermost first; S is the last one.
        self._stack: list[Folds] = []
        #: Where the window was when its aggregate was asked for, and what that was.
        self._asked = (-1, -1, -1)  # nowhere: not yet
        self._result: Partial = None

    def __len__(self) -> int:
        return self.back - self.front

    @property
    def ends_early(self) -> bool:
        """Whether the window ends before the newest event."""
        return self.policy.end != NEWEST

    @property
    def taken(self) -> int:
        """The position after the newest event that it knows of."""
        return self.back + self.waiting

    def place(self, front: int, back: int) -> None:
        """Be the window from ``front`` to ``back``; no store call until something is asked."""
        self._reset()
        self.front, self.back, self.waiting = front, back, 0

    def settle(self, time: int | None) -> None:
        """Stand where the policy says after the newest event, as far back as events are kept."""
        events = self.events
        if self.ends_early and events.kept_from < events.back:
            view = Positions(lambda: events.back, events.first_after)
            self.follow(max(self.policy.cut(view, time), events.kept_from), time)
            return
        previous = self.front, self.back
        self.place(events.kept_from, events.back)
        try:
            if self.front < self.back:
                self.move(self.policy.cut(self, time))
        except Exception:
            self.place(*previous)
            raise

    def query(self) -> Partial:
        """The aggregate of the window; 1 combine, and at a new leaf what it takes to read it.

        None where nothing has changed since it was asked for.
        """
        if self.front == self.back:
            return self.monoid.identity
        self._fresh()
        now = self.front, self.back, self._stamp
        if self._asked != now:
            self._asked, self._result = now, self._find()
        return self._result

    def _find(self) -> Partial:
        front = self.front
        if not self._is_held(front):
            self._drop(front)
            if self._stack[-1].knows(front) if self._stack else self.events.path(front):
                return self._behind(front, self.back)  # a leaf begins here: it need not be read
            self.hold()
        return self._at(self._stack[-1], front)

    def _at(self, folds: Folds, position: int) -> Partial:
        """The aggregate from a position of the last entry of the stack on, up to the back."""
        fold = self.monoid.partials.at(folds.rows, folds.index(position))
        for behind in (folds.right, folds.since):
            fold = fold if behind is None else self.monoid.combine(fold, behind)
        return fold

    def step(self, row: Row, time: int | None) -> None:
        """Take in the next event, which is in the structure already; amortised O(1) combines."""
        self._fresh()
        if self._stack:
            self._grow(self.monoid.lift(row))
        self.back += 1
        try:
            self.move(self.policy.cut(self, time))
        except Exception:
            self.place(self.front, self.back - 1)
            raise

    def run(self, chunk: Chunk) -> Rows | None:
        """The aggregate after each event of a chunk, vectorized; None if no cut is known ahead.

        Events before the chunk must be in the log. Where it does not begin at the back of this
        window, windows are taken to be as the policy has them there.
        """
        if not self.policy.predictable:
            return None
        schema = self.monoid.partials
        out = schema.new(chunk.count)
        for done, fronts, is_stored in self._stretches(chunk):
            schema.put_many(out, done, self._folds(chunk, done, fronts, is_stored))
        return out

    def results(self, chunk: Chunk) -> Rows | None:
        """The result after each event of a chunk, as ``run`` has the aggregates."""
        if self.policy.predictable and (self.ends_early or self._answers_ranges(chunk)):
            self._fresh()
            if self.ends_early and (found := self._early_results(chunk)) is not None:
                return found
            is_next = not self.ends_early and chunk.first == self.back
            oldest = self.front if is_next else 0  # time alone may have moved it further
            outputs, *last = frame_results(self.monoid, self.policy, self.events, chunk, oldest)
            self.place(*last)
            self.waiting = chunk.stop - self.back
            return outputs
        folds = self.run(chunk)
        return None if folds is None else self.monoid.lower_rows(folds)

    def _early_results(self, chunk: Chunk) -> Rows | None:
        """The results of frames that end earlier, by the folds that are held of their events.

        None where results that follow from all of their events take less.
        """
        monoid, events, schema = self.monoid, self.events, self.monoid.partials
        if not monoid.folds_ranges or chunk.first != events.back:
            return None
        frames = Frames(monoid, events, chunk)
        starts, stops = frames.bounds(self.policy, events.kept_from, 0, chunk.count)
        first, last = int(starts[0]), int(stops[0])
        if last - first <= chunk.count * _ANSWERED or (starts >= stops).any():
            return None
        if not self.front <= first < self.back <= last <= self.back + _NEAR:
            self.place(first, min(last, chunk.first))
        back, count = self.back, int(stops[-1]) - self.back
        coming = SlidingFolds(monoid, frames.lifted(back, back + count), count)
        prefixes, out = schema.new(count + 1), schema.new(chunk.count)
        schema.put(prefixes, 0, monoid.identity)
        schema.put_many(prefixes, 1, coming.prefixes)
        fronts, ends, done = starts - back, stops - back, 0
        stored = count_below(fronts, 0)
        while done < stored:
            end = self._hold(fronts, done, stored, back)
            folds, right = self._held_folds(fronts[done:end], back), ends[done:end]
            folds = monoid.combine_rows(folds, schema.take(prefixes, right), end - done)
            schema.put_many(out, done, folds)
            done = end
        if stored < chunk.count:
            schema.put_many(out, stored, coming.between(fronts[stored:], ends[stored:]))
        self.move(int(starts[-1]))
        self._have(back + count, lambda: coming.total)
        self.waiting = chunk.stop - self.back
        return monoid.lower_rows(out)

    def run_into(self, chunk: Chunk, batch: Batch, start: int) -> bool:
        """As ``results``, into those of a batch from ``start`` on; False if it cannot tell.

        By a kernel in one pass, if there is one.
        """
        if not self.policy.predictable:
            return False
        if self.ends_early or self._answers_ranges(chunk):
            batch.put_results(start, self.results(chunk))
            return True
        monoid, right = self.monoid, None
        swept = has_kernel(monoid)
        if swept:
            right = monoid.partials.one(monoid.identity)
        for done, fronts, is_stored in self._stretches(chunk):
            at, end, found = start + done, done + len(fronts), None
            if swept and (right is not None or not is_stored):
                found = self._sweep(chunk, done, fronts, right if is_stored else None, batch, at)
            if is_stored:
                right = found
            if found is None:
                batch.put(at, self._folds(chunk, done, fronts, is_stored))
            elif end == chunk.count and is_stored:
                chunk.sliding.total = monoid.partials.at(found, 0)
        return True

    def _answers_ranges(self, chunk: Chunk) -> bool:
        """Whether the results follow from all events of the window for less than its folds take."""
        return self.monoid.folds_ranges and len(self) <= chunk.count * _ANSWERED

    def _stretches(self, chunk: Chunk) -> Iterator[tuple[int, EachFront, bool]]:
        """Pieces of a chunk: where each begins, its fronts, and whether these are stored.

        For those that are, folds are held by then. First come those that are in the chunk itself.
        """
        self._fresh()
        oldest = self.events.kept_from
        if chunk.first != self.back:
            self.place(oldest, oldest)  # behind, until the run is done
        self.front = max(self.front, oldest)  # time alone may have emptied the window
        fronts, done = self._fronts(chunk), 0
        stored = count_below(fronts, 0)
        if stored < chunk.count:
            yield stored, fronts[stored:], False
        while done < stored:
            end = self._hold(fronts, done, stored, chunk.first)
            yield done, fronts[done:end], True
            done = end
        self.move(chunk.first + int(fronts[-1]))
        self._have(chunk.stop, lambda: chunk.sliding.total)

    def _have(self, back: int, newer: Callable[[], Partial]) -> None:
        """Have the events up to a new back, with their aggregate, where the front is by then."""
        previous, self.back = self.back, back
        if self.front >= previous:
            self._stack.clear()
        elif self._stack:
            self._grow(newer())

    def _folds(self, chunk: Chunk, done: int, fronts: EachFront, is_stored: bool) -> Rows:
        """The aggregates after the events of such a piece."""
        if not is_stored:
            return chunk.sliding.folds(fronts, done)
        folds, count = self._held_folds(fronts, chunk.first), len(fronts)
        prefixes = self.monoid.partials.cut(chunk.sliding.prefixes, done, done + count)
        return self.monoid.combine_rows(folds, prefixes, count)

    def _held_folds(self, fronts: EachFront, back: int) -> Rows:
        """The aggregates from fronts, counted from the back, up to it; all of them held."""
        monoid, top = self.monoid, self._stack[-1]
        folds = rows_at(monoid, top.rows, fronts, top.start - back)
        if (behind := self._joined(top.right, top.since)) is None:
            return folds
        return monoid.combine_rows(folds, monoid.partials.one(behind), len(fronts))

    def _sweep(
        self, chunk: Chunk, done: int, fronts: EachFront, right: Rows | None, batch: Batch, at: int
    ) -> Rows | None:
        """The results of a piece by a kernel, if one takes its rows, into those of a batch.

        With stored fronts ``right`` is the fold of the events of the chunk before it, and that with
        them is answered; without, fronts are in the chunk, whose events become the stack.
        """
        monoid, schema = self.monoid, self.monoid.partials
        first, last, lifted = int(fronts[0]), int(fronts[-1]), chunk.sliding.lifted
        stops = range(done + 1, done + 1 + len(fronts))
        if right is None:
            one = schema.one(monoid.identity)
            sweep = Sweep(lifted, one, 0, 0, done, fronts, stops, one, turns=True)
        else:
            top = self._stack[-1]
            origin = top.start - chunk.first
            stack = schema.cut(top.rows, first - origin, last + 1 - origin)
            if (behind := self._joined(top.right, top.since)) is not None:
                stack = monoid.combine_rows(stack, schema.one(behind), last + 1 - first)
            sweep = Sweep(lifted, stack, first, last, done, fronts, stops, right)
        if kernel_lowers(monoid):
            out = monoid.outputs.cut(batch.results, at, at + len(fronts))
            return sweep_into(sweep, monoid, out, lowered=True)
        out = schema.new(len(fronts))
        found = sweep_into(sweep, monoid, out, lowered=False)
        if found is not None:
            batch.put(at, out)
        return found

    def _fronts(self, chunk: Chunk) -> EachFront:
        """The front after each event of a chunk, never before what is retained or where it was.

        Counted from the first event of the chunk, before which it is negative.
        """

        def leaf(position: int, until: int | None) -> Leaf:
            return self.leaf(position, chunk.first, until=until)

        search = SearchedTimes(self.front, self.events, chunk, leaf)
        fronts = self.policy.cuts(search, 0, chunk.times, chunk.count)
        previous = self.front - chunk.first
        if isinstance(fronts, int):
            return np.full(chunk.count, max(fronts, previous))
        if fronts[0] >= previous:
            return fronts
        held: np.ndarray = np.maximum(as_array(fronts, chunk.count), previous)
        return held

    def take_in(self, row: Row) -> None:
        """Take in the next event, which is in the structure already; the front stays, 1 combine."""
        self._fresh()
        self.back += 1
        try:
            if self._stack:
                self._grow(self.monoid.lift(row))
        except Exception:  # whoever asks for the result will see
            self._reset()

    def follow(self, front: int, time: int | None) -> None:
        """Be the frame from a front on that ends before the newest event, as of a time.

        All events are in the log. Where the bounds have moved on by a few events, what is held
        stays: a combine per event. At most one page read per level.
        """
        events = self.events
        back = max(stop_of(self.policy, events, events.back, time), front)
        self._fresh()
        self._follow(front, back)
        self.waiting = events.back - back

    def _follow(self, front: int, back: int) -> None:
        is_near = self.front <= front < self.back <= back <= self.back + _NEAR
        if not (self._stack and is_near):
            if (front, back) != (self.front, self.back):
                self.place(front, back)
            return
        while self.back < back:
            leaf = self.events.leaf(self.back).before(back, self.monoid)
            rows = leaf.partials(self.back, leaf.stop, self.monoid)
            self._grow(self.monoid.fold(rows, leaf.stop - self.back))
            self.back = leaf.stop
        self.move(front)

    # --- the leaves that the front is in and comes to -------------------------------------------

    def _reset(self) -> None:
        self._leaf = None
        self._stack.clear()
        self._asked = (-1, -1, -1)

    def __copy__(self) -> Cursor:
        other = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(other, name, value)
        other._stack = [folds.again() for folds in self._stack]
        return other

    def _fresh(self) -> None:
        """Forget what is held if events have changed positions since."""
        if self._stamp != self.events.stamp:
            self._stamp = self.events.stamp
            self._reset()

    def _grow(self, newer: Partial) -> None:
        """Newer events have come."""
        top = self._stack[-1]
        top.since = self._joined(top.since, newer)

    def _pop(self) -> None:
        """Drop the last entry of the stack, which is used up; at most 1 combine."""
        if len(self._stack) > 1:
            below = self._stack[-2]
            below.since = self._joined(below.since, self._stack[-1].since)
        self._stack.pop()

    def _joined(self, older: Partial | None, newer: Partial | None) -> Partial | None:
        """Two aggregates together, either of which may be None for nothing."""
        if older is None or newer is None:
            return newer if older is None else older
        return self.monoid.combine(older, newer)

    def move(self, front: int) -> None:
        """Move the front on, and release the leaf that it has left."""
        self.front = max(front, self.front)
        if self._leaf is not None and self.front >= self._leaf.stop:
            self._leaf = None

    def leaf(self, position: int, back: int, upto: int = 0, until: int | None = None) -> Leaf:
        """The leaf that holds a position, without the events from ``back`` on.

        All else as of ``OrderedEvents.leaf``.
        """
        leaf = self._leaf
        if leaf is None or not leaf.first <= position < leaf.stop:
            leaf = self.events.leaf(position, upto, until).before(back, self.monoid)
        return leaf

    def _look_at(self, leaf: Leaf) -> Leaf:
        """Remember a leaf as the last one; not a chunk, which lives as long as its batch."""
        self._leaf = None if isinstance(leaf, Chunk) else leaf
        return leaf

    def _hold(self, fronts: EachFront, start: int, stop: int, back: int) -> int:
        """Hold the suffix folds for fronts from index ``start`` on, which reach to ``back``.

        For as many of the fronts, counted from the back, as lie in leaves that follow one another;
        answers with the index where they end. What is held already has been kept up to the back.
        """
        front, stack = back + int(fronts[start]), self._stack
        if stack and stack[-1].starts is None and front >= stack[-1].stop:
            self._pop()
        if not self._is_held(front):
            room, last = 2 * (stop - start), back + int(fronts[stop - 1])
            upto = last + 1 if last - front < room else 0  # else fronts may pass leaves over
            leaves = [self.leaf(front, back, upto)]
            room = 0 if isinstance(leaves[0], Chunk) else room - leaves[0].count
            while room > 0 and leaves[-1].stop <= last:
                following = int(fronts[count_below(fronts, leaves[-1].stop - back)])
                leaf = self.leaf(back + following, back, upto)
                if leaf.first != leaves[-1].stop or isinstance(leaf, Chunk):
                    break
                leaves.append(leaf)
                room -= leaf.count
            stack.append(self._of_leaves(leaves, front, self._behind(leaves[-1].stop, back)))
            stack[-1].reach = back
            self._look_at(leaves[-1])
        return min(stop, count_below(fronts, stack[-1].stop - back))

    def _of_leaves(self, leaves: Sequence[Leaf], front: int, right: Partial) -> Folds:
        """S, over leaves that follow one another, from a front on; one combine per event."""
        folds = suffixes_of(leaves, front, right, self.monoid)
        return Folds(front, leaves[-1].stop, folds)

    def _of_group(self, group: PathGroup, right: Partial) -> Folds:
        """The folds from each element of a group of the path on; one combine per element."""
        rows = self.monoid.suffixes(group.rows, group.size, right)
        return Folds(group.start, group.stop, rows, group.starts, group.level)

    def _is_held(self, position: int) -> bool:
        """Whether the folds of the leaf that has a position are there."""
        top = self._stack[-1] if self._stack else None
        return top is not None and top.starts is None and top.start <= position < top.stop

    def _behind(self, position: int, back: int) -> Partial:
        """The aggregate from the end of a leaf to the back; O(1) combines a leaf amortised.

        The groups of the path that are not folded yet are read, and their folds put on the stack.
        """
        events, stack, partials = self.events, self._stack, self.monoid.partials
        while stack and stack[-1].stop < position:
            self._pop()
        if stack and stack[-1].knows(position):
            return self._at(stack[-1], position)
        groups = events.path(position, stack[-1].level if stack else None)
        if back < events.back:
            cut = [group.before(back, self.monoid) for group in groups]
            groups = [group for group in cut if group.size]
            if not groups:
                stack.clear()
                return events.fold(position, back)
        if not groups:
            starts, rows = events.folds_behind(position, back)
            stack[:] = [Folds(position, int(starts[-1]), rows, starts)] * (len(starts) > 1)
            return partials.at(rows, 0)
        end = groups[0].stop
        right = self._at(stack[-1], end) if stack else events.fold(end, back)
        for group in groups:
            if not group.size:
                continue
            stack.append(self._of_group(group, right))
            right = self._at(stack[-1], group.start)
        return right

    def _drop(self, position: int) -> None:
        """Drop the entries of the stack that are used up where the front has come to a position."""
        stack = self._stack
        while stack and stack[-1].stop < position + (stack[-1].starts is None):
            self._pop()

    # --- single events --------------------------------------------------------------------------

    def hold(self) -> None:
        """Have the folds S from the front on; a page read per level where it is in another leaf.

        They reach to the events that others may precede; these are beside them, as what has come
        since.
        """
        front, back = self.front, self.back
        if self._is_held(front):
            return
        reach = self.events.settled(front) if back == self.events.back else back
        if reach < back:
            self.place(front, reach)
        try:
            self._hold(range(front - reach, front - reach + 1), 0, 1, reach)
            since = self.events.fold(reach, back) if reach < back else None
        except Exception:
            self.place(front, back)
            raise
        if reach < back:
            self.sync(back - reach, 0, since)

    def prepare_ahead(self) -> None:
        """Have what ``ahead`` answers from: S, reaching no further than it may, and its leaf.

        A page read per level at most; mostly nothing is to be done.
        """
        self._fresh()
        if not self.is_held or self._stack[-1].reach > self.events.settled(self.front):
            self.place(self.front, self.back)
            self.hold()
        self.look_at_leaf()

    def look_at_leaf(self) -> None:
        """Have the leaf of the front, with its times; at most a page read per level."""
        self._look_at(self.leaf(self.front, self.back))

    @property
    def is_held(self) -> bool:
        """Whether the folds S from the front on are there."""
        return self._is_held(self.front)

    def grown_by(self, newer: Partial) -> Folds | None:
        """The last entry of the stack with newer events; None where that cannot be known."""
        if self.front == self.back:
            return Folds(self.back, self.back + 1, self.monoid.partials.one(newer))
        if not self._stack:
            return None
        grown = self._stack[-1].again()
        grown.since = self._joined(grown.since, newer)
        return grown

    def accept(self, count: int, grown: Folds | None) -> None:
        """Have newer events, which are in the log, and what ``grown_by`` has answered for them."""
        self._undo = None
        if grown is None or self.front == self.back:
            self._stack.clear()
        else:
            self._undo = self._stack.pop(), grown
        if grown is not None:
            self._stack.append(grown)
        self.back += count

    def take_back(self) -> None:
        """Undo the last ``accept``, of one event, which is in the log no more."""
        self._asked, undo = (-1, -1, -1), self._undo
        if undo is not None and self._stack and self._stack[-1] is undo[1]:
            self._stack[-1] = undo[0]
            self.back -= 1
        else:
            self.place(self.front, self.back - 1)

    def moved_on(self, front: int) -> Cursor:
        """The same window from a later front on, with its aggregate; at most a page per level.

        This one stays as it is, unless all that needs is there.
        """
        if self._is_held(front) or front >= self.back:
            self.move(front)
            return self
        moved = copy(self)
        moved.move(front)
        moved.query()
        return moved

    def have(self, fold: Rows) -> None:
        """Have the aggregate of the window as it stands, one row."""
        if self.front < self.back:
            self._stack = [Folds(self.front, self.front + 1, fold)]

    def shrink(self, most: int) -> None:
        """Hold no more folds than of so many events, as a batch has ended."""
        if self._stack and (top := self._stack[-1]).starts is None:
            start, size = max(self.front, top.start), top.stop - top.start
            if start >= top.stop or self.monoid.partials.row_bytes is None:
                return
            stop = min(top.stop, start + most)
            if stop - start < size:
                rows = self.monoid.partials.new(stop - start)
                cut = self.monoid.partials.cut(top.rows, start - top.start, stop - top.start)
                self.monoid.partials.put_many(rows, 0, cut)
                top.start, top.stop, top.rows = start, stop, rows

    def entries(self) -> Iterator[tuple[int, Partial]]:
        """The positions from which aggregates to the back are known, and these."""
        since: Partial | None = None
        at = self.monoid.partials.at
        for folds in reversed(self._stack):
            since = self._joined(folds.since, since)
            stop = folds.stop
            starts = range(folds.start, stop) if folds.starts is None else folds.starts
            for position in map(int, starts):
                if self.front <= position < self.back:
                    behind = self._joined(folds.right, since)
                    fold = self._joined(at(folds.rows, folds.index(position)), behind)
                    yield position, fold

    @property
    def resident_rows(self) -> int:
        """How many folds are held."""
        return sum(f.stop - f.start if f.starts is None else len(f.starts) for f in self._stack)

    @property
    def grown(self) -> Partial | None:
        """G, where the folds S are held; None where nothing has come since."""
        return self._stack[-1].since if self._is_held(self.front) else None

    def prefetched(self, most: int) -> Prefetched:
        """S, the times from the front on, and G, for so many evictions at most; see ``sync``.

        No store call. Each as far as it is held: S is empty before anybody has asked for the
        window's aggregate.
        """
        self._fresh()
        times, front, schema = np.empty(0, "<i8"), self.front, self.monoid.partials
        folds, size = schema.new(0), 0
        if self._is_held(front):
            top = self._stack[-1]
            stop = min(front + most + 1, top.stop)
            folds, size = schema.cut(top.rows, front - top.start, stop - top.start), stop - front
            if top.right is not None:
                folds = self.monoid.combine_rows(folds, schema.one(top.right), size)
        leaf = self._leaf
        if leaf is not None and leaf.times is not None and leaf.first <= front < leaf.stop:
            times = leaf.times[front - leaf.first : front - leaf.first + most + 1]
        return Prefetched(folds, size, self.grown, times[: size or None], most)

    def ahead(self, most: int, newest: Events | None = None) -> Prefetched:
        """As ``prefetched``, with what late events need.

        ``newest`` are the newest events of the log, if others may come late among them.
        """
        found = self.prefetched(most)
        leaving = found.leaving
        if newest is None or newest.times is None or not newest.size:
            return found
        if len(leaving) < min(found.size, 1):
            return found
        if found.size:  # late ones go behind all that may leave, as far as its times are known
            found = found.cut(len(leaving), self.monoid)
        late_from = float(max([newest.times[0], *leaving[-1:]]))
        reach = self._stack[-1].reach if found.size else self.back
        recent = Recent(newest, partial(self.events.fold, reach, self.back - newest.size))
        return found._replace(late_from=late_from, recent=recent)

    def sync(self, count: int, gone: int, grown: Partial | None, late: int | None = None) -> None:
        """Take in events that are in the structure by now, be without the oldest, and have this G.

        For as many evictions as were prefetched. ``late`` is the position of the first that came
        among stored events. Of a frame that ends earlier, ``count`` are those that it came to, and
        without a G it is to be placed again.
        """
        if self.ends_early:
            if grown is None:
                self.place(self.front, self.front)
                return
            self.waiting = self.events.back - self.back - count
        if late is not None and not self._come_late(late):
            self.place(self.front + gone, self.back + count)
            return
        self.back += count
        if self._is_held(self.front):
            self._stack[-1].since = grown
        elif count:
            self._stack.clear()
        self.move(self.front + gone)

    def _come_late(self, position: int) -> bool:
        """Keep S, though events from a position on have moved; whether it can be kept."""
        if not self._is_held(self.front) or self._stack[-1].stop > position:
            return False
        del self._stack[:-1]  # folds of later leaves, which the event may have changed
        self._asked, self._stamp = (-1, -1, -1), self.events.stamp
        if self._leaf is not None and self._leaf.stop > position:
            self._leaf = None
        return True

    # --- what the policy asks ---------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``, from the front on."""
        if self.front == self.back:
            return self.front
        leaf = self._look_at(self.leaf(self.front, self.back))
        assert leaf.times is not None
        if leaf.times[self.front - leaf.first] > time:
            return self.front
        if leaf.times[-1] > time:
            return leaf.first + int(leaf.times.searchsorted(time, side="right"))
        return max(leaf.stop, self.events.first_after(time))

    def longest_prefix(
        self, policy: AbstractPolicy, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Where the longest prefix ends whose result is accepted; O(log n) folds of ranges."""
        monoid, pick = self.lens(policy)
        prefix, position, step, growing = monoid.identity, self.front, 1, True
        while step:
            end = position + step
            if end <= self.back:
                longer = monoid.combine(prefix, pick(self.events.fold(position, end)))
                if accepts(monoid.lower(longer)):
                    prefix, position = longer, end
                    step *= 1 + growing
                    continue
            growing = False
            step //= 2
        return position

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted; O(log n) folds of ranges."""
        monoid, pick = self.lens(policy)

        def refused(position: int) -> bool:
            fold = self.query() if position == self.front else self.events.fold(position, self.back)
            return not accepts(monoid.lower(pick(fold)))

        if self.front == self.back or not refused(self.front):
            return self.front
        low, step = self.front, 1
        while low + step < self.back and refused(low + step):
            low, step = low + step, 2 * step
        high = min(low + step, self.back)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if refused(middle) else (low, middle)
        return high

    def partials(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every leaf once."""
        position = self.front
        while position < self.back:
            leaf = self.events.leaf(position).before(self.back, self.monoid)
            rows = leaf.partials(position, leaf.stop, self.monoid)
            for i in range(leaf.stop - position):
                yield self.monoid.partials.at(rows, i)
            position = leaf.stop
