"""Cursors: several windows over one structure, each a front of its own that reads shared events.

A cursor is to stored events what the stack is to Amortized MTA: it holds the *suffix folds* S of
the leaf that its front is in, each reaching to the end of what was stored when it was folded. For a
run of events in hand, whose prefix folds P all cursors share, the results are then one vector
expression:

    positions   ... [ . . f . . ) . . . . . . . . ) . . . . [ e0 e1 e2 ...
                      S[f]: from f to where it was folded     P: the events in hand
                                                    G: what has been stored since

    result after e_i  =  S[f_i] (x) G (x) P_i           where f_i is the front after e_i

Only when the front leaves the leaf is the next leaf read (or as many as the run passes through).
What follows it is folded out of the structure, at once for the leaves after it too, and what has
been stored since is put to its right: O(1) combines a leaf amortised. So a window costs about two
whole-group combines an event, and the scan of each leaf, whatever its length. Where the front has
come to events in hand (short windows), results are folds of ranges of them (``folds.sliding``).

A cursor writes nothing, and all it holds beside its front can be had again from the structure: when
a call fails, its front is where it was, or it is behind and is put in its place later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.folds.fronts import EachFront, Fronts, as_array, count_below, joined, moved, rows_at
from mta.folds.sliding import sweep_goes_on, sweep_into
from mta.frames.base import AbstractPolicy
from mta.kernels.native import Sweep
from mta.kernels.segments import ranks
from mta.logs.base import Aggregator, Batch, Lens, OrderedEvents
from mta.logs.leaves import Chunk, Leaf, suffixes_of
from mta.monoids.base import AbstractMonoid, Partial, same_value
from mta.monoids.product import Observed

#: For fewer events fronts are searched for one by one.
_FEW = 1024
#: A leaf of so many events is searched by itself, and not put together with others.
_MANY = 4096


class ObservedWindow(ABC):
    """A window whose partials hold, beside its own aggregate, those that policies observe.

    ``lenses`` say where, by the policy's ``id``.
    """

    #: The window's oldest event, and the position after its newest.
    front: int
    back: int

    def __init__(self, monoid: AbstractMonoid, lenses: Mapping[int, Lens] | None = None) -> None:
        self.monoid, self._lenses = monoid, lenses or {}
        observed = isinstance(monoid, Observed)
        self._own: Lens = part_of(monoid, 0) if observed else (monoid, same_value)

    def lens(self, policy: AbstractPolicy) -> Lens:
        """How to see what a policy observes in a partial."""
        return self._lenses.get(id(policy), self._own)

    @abstractmethod
    def query(self) -> Partial:
        """The aggregate of the window."""

    @abstractmethod
    def partials(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on."""

    def total(self, policy: AbstractPolicy) -> Any:
        """The result over the whole window; costs as ``query``."""
        monoid, pick = self.lens(policy)
        return monoid.lower(pick(self.query()))

    def all_prefixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every prefix and where it ends; reads the whole window."""
        monoid, pick = self.lens(policy)
        prefix = monoid.identity
        for position, event in enumerate(self.partials(), self.front + 1):
            prefix = monoid.combine(prefix, pick(event))
            yield position, monoid.lower(prefix)

    def all_suffixes(self, policy: AbstractPolicy) -> Iterable[tuple[int, Any]]:
        """The result of every suffix and where it begins, longest first; reads the whole window."""
        monoid, pick = self.lens(policy)
        suffix: Partial = monoid.identity
        results = []
        for event in reversed(list(self.partials())):
            suffix = monoid.combine(pick(event), suffix)
            results.append(monoid.lower(suffix))
        return enumerate(reversed(results), self.front)


class WindowView(ObservedWindow):
    """A structure of one window, for the policies that observe something in it."""

    def __init__(self, structure: Aggregator, observers: Sequence[AbstractPolicy]) -> None:
        monoid = structure.monoid
        lenses = {id(policy): part_of(monoid, i) for i, policy in enumerate(observers, 1)}
        super().__init__(monoid, lenses)
        self._structure = structure
        #: The front and the total when a policy, by its ``id``, let nothing leave.
        self._kept: dict[int, tuple[int, Any]] = {}

    @property
    def front(self) -> int:  # type: ignore[override]
        """The position of the oldest event."""
        return self._structure.front

    @property
    def back(self) -> int:  # type: ignore[override]
        """The position after the newest event."""
        return self._structure.back

    def query(self) -> Partial:
        return self._structure.query()

    def partials(self) -> Iterator[Partial]:
        return self._structure.events()

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``."""
        oldest = self._structure.oldest_time()
        if oldest is None or oldest > time:
            return self._structure.front
        return self._structure.first_after(time)

    def longest_prefix(
        self, policy: AbstractPolicy, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Where the longest prefix ends whose result is accepted; see ``frames.View``."""
        structure, asked = self._structure, None
        # Where events are kept by time, another one may be at the front by now.
        if isinstance(total, int | float | np.integer) and not structure.by_time:
            asked = structure.front, total
            if self._kept.get(id(policy)) == asked:
                return structure.front
        found = structure.longest_prefix(self.lens(policy), accepts)
        if asked is not None and found == structure.front:
            self._kept[id(policy)] = asked
        return found

    def kept_total(self, policy: AbstractPolicy) -> Any:
        """The total for which a policy lets nothing leave from this front; None if there is none.

        It is asked anew where that is not known: a search.
        """
        front = self._structure.front
        if self._kept.get(id(policy), (-1, None))[0] != front and front < self.back:
            policy.cut(self, None)
        kept, total = self._kept.get(id(policy), (-1, None))
        return total if kept == front else None

    def longest_suffix(self, policy: AbstractPolicy, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""
        return self._structure.longest_suffix(self.lens(policy), accepts)


def part_of(monoid: AbstractMonoid, index: int) -> Lens:
    """How to see the window's own aggregate (0), or one that policies observe, in a partial."""
    assert isinstance(monoid, Observed)
    return monoid.monoids[index], lambda partial: partial[index]


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
        self._stamp = events.stamp
        #: A leaf that was looked at last.
        self._leaf: Leaf | None = None
        #: S: the folds from each position of some leaves, ``_origin`` to ``_stop``, to what was the
        #: back when they were folded; None while they are not needed.
        self._suffixes: Rows = None
        self._origin = self._stop = 0
        #: G: the aggregate from there to the back; None where nothing has come since.
        self._grown: Partial | None = None
        #: Folds from where later leaves begin, by position, to what was the back when they were
        #: folded, as S is for events; and the aggregate from there to where S was folded.
        self._later: tuple[np.ndarray, Rows] | None = None
        self._since: Partial | None = None
        #: Where the window stood when its aggregate was asked for, and what that was.
        self._asked = (-1, -1, -1)  # nowhere: not yet
        self._result: Partial = None

    def __len__(self) -> int:
        return self.back - self.front

    def place(self, front: int, back: int) -> None:
        """Be the window from ``front`` to ``back``; no store call until something is asked."""
        self._forget()
        self.front, self.back = front, back

    def settle(self, time: int | None) -> None:
        """Stand where the policy says after the newest event, as far back as events are kept."""
        stood = self.front, self.back
        self.place(self.events.kept_from, self.events.back)
        try:
            if self.front < self.back:
                self.move(self.policy.cut(self, time))
        except Exception:
            self.place(*stood)
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
        if self._suffixes is None or not self._origin <= self.front < self._stop:
            self._hold(range(self.front - self.back, self.front - self.back + 1), 0, 1, self.back)
        first = self.monoid.partials.at(self._suffixes, self.front - self._origin)
        return first if self._grown is None else self.monoid.combine(first, self._grown)

    def step(self, row: Row, time: int | None) -> None:
        """Take in the next event, which is in the structure already; amortised O(1) combines."""
        self._fresh()
        if self._keeps_up():
            self._grow(self.monoid.lift(row))
        self.back += 1
        try:
            self.move(self.policy.cut(self, time))
        except Exception:
            self.place(self.front, self.back - 1)
            raise

    def run(self, hand: Chunk) -> Rows | None:
        """The aggregate after each event in hand, vectorised; None if the policy cannot tell ahead.

        Events before the hand must be in the structure. Where the hand does not begin at the back
        of this window, windows are taken to be as the policy has them there.
        """
        if not self.policy.foreseen:
            return None
        schema = self.monoid.partials
        out = schema.new(hand.count)
        for at, folds in self.pieces(hand):
            schema.put_many(out, at, folds)
        return out

    def pieces(self, hand: Chunk) -> Iterator[tuple[int, Rows]]:
        """As ``run``, in pieces: where each begins, and its aggregates; none where run has none.

        The window moves on when the last piece has been taken.
        """
        if not self.policy.foreseen or not hand.count:
            return
        for done, fronts, is_stored in self._stretches(hand):
            yield done, self._folds(hand, done, fronts, is_stored)

    def run_into(self, hand: Chunk, batch: Batch, start: int) -> bool:
        """As ``run``, results into those of a batch from ``start`` on; False if it cannot tell.

        To the same bits; by a kernel in one pass, if there is one.
        """
        if not self.policy.foreseen:
            return False
        monoid, right = self.monoid, None
        if sweep_goes_on(monoid):
            right = monoid.partials.one(monoid.identity)
        for done, fronts, is_stored in self._stretches(hand):
            at, end = start + done, done + len(fronts)
            if not is_stored:
                right = None  # what is folded for them serves the others too
            if right is not None:
                out = monoid.outputs.cut(batch.results, at, start + end)
                right = self._sweep(hand, done, fronts, right, out)
            if right is None:
                batch.put(at, self._folds(hand, done, fronts, is_stored))
            elif end == hand.count:
                hand.sliding.total = monoid.partials.at(right, 0)
        return True

    def _stretches(self, hand: Chunk) -> Iterator[tuple[int, EachFront, bool]]:
        """Pieces of the events in hand: where each begins, its fronts, and if these are stored.

        For those that are, folds are held by then. First come those that are in hand themselves.
        """
        self._fresh()
        oldest = self.events.kept_from
        if hand.first != self.back:
            self.place(oldest, oldest)  # behind, until the run is done
        self.front = max(self.front, oldest)  # time alone may have emptied the window
        fronts, done = self._fronts(hand), 0
        stored = count_below(fronts, 0)
        if stored < hand.count:
            yield stored, fronts[stored:], False
        while done < stored:
            end = self._hold(fronts, done, stored, hand.first)
            yield done, fronts[done:end], True
            done = end
        self.back = hand.stop
        self.move(hand.first + int(fronts[-1]))
        if self._keeps_up():
            self._grow(hand.sliding.total)

    def _folds(self, hand: Chunk, done: int, fronts: EachFront, is_stored: bool) -> Rows:
        """The aggregates after the events of such a piece."""
        if not is_stored:
            return hand.sliding.folds(fronts, done)
        monoid, schema, count = self.monoid, self.monoid.partials, len(fronts)
        folds = rows_at(monoid, self._suffixes, fronts, self._origin - hand.first)
        if self._grown is not None:
            folds = monoid.combine_rows(folds, schema.one(self._grown), count)
        prefixes = schema.cut(hand.sliding.prefixes, done, done + count)
        return monoid.combine_rows(folds, prefixes, count)

    def _sweep(
        self, hand: Chunk, done: int, fronts: EachFront, right: Rows, out: Rows
    ) -> Rows | None:
        """The results of a piece with stored fronts by a kernel, if one takes its rows.

        ``right`` is the fold of those before them in hand; that with them is answered.
        """
        monoid, schema, origin = self.monoid, self.monoid.partials, self._origin - hand.first
        first, last = int(fronts[0]), int(fronts[-1])
        stack = schema.cut(self._suffixes, first - origin, last + 1 - origin)
        if self._grown is not None:
            stack = monoid.combine_rows(stack, schema.one(self._grown), last + 1 - first)
        sweep = Sweep(hand.sliding.lifted, stack, first, last, done, fronts, right)
        return sweep_into(sweep, monoid, out, lowered=True)

    def _fronts(self, hand: Chunk) -> EachFront:
        """The front after each event in hand, never before what is kept or where it was.

        Counted from the first event in hand, before which it is negative.
        """
        fronts = self.policy.cuts(_CursorTimes(self, hand), 0, hand.times, hand.count)
        stood = self.front - hand.first
        if isinstance(fronts, int):
            return np.full(hand.count, max(fronts, stood))
        if fronts[0] >= stood:
            return fronts
        held: np.ndarray = np.maximum(as_array(fronts, hand.count), stood)
        return held

    def take_in(self, row: Row) -> None:
        """Take in the next event, which is in the structure already; the front stays, 1 combine."""
        self._fresh()
        self.back += 1
        try:
            if self._keeps_up():
                self._grow(self.monoid.lift(row))
        except Exception:  # whoever asks for the result will see
            self._forget()

    # --- the leaves that the front is in and comes to -------------------------------------------

    def _forget(self) -> None:
        self._leaf = self._suffixes = self._later = None
        self._asked = (-1, -1, -1)

    def _fresh(self) -> None:
        """Forget what is held if events have changed positions since."""
        if self._stamp != self.events.stamp:
            self._stamp = self.events.stamp
            self._forget()

    def _keeps_up(self) -> bool:
        """Whether newer events are noted beside S; where there is none, later folds are dropped."""
        if self._suffixes is None:
            self._later = None
        return self._suffixes is not None

    def _grow(self, newer: Partial) -> None:
        """Newer events have come."""
        self._grown = self._joined(self._grown, newer)

    def _joined(self, older: Partial | None, newer: Partial | None) -> Partial | None:
        """Two aggregates together, either of which may be None for nothing."""
        if older is None or newer is None:
            return newer if older is None else older
        return self.monoid.combine(older, newer)

    def move(self, front: int) -> None:
        """Move the front on, and let go of leaves that it has left."""
        self.front = max(front, self.front)
        if self._suffixes is not None and self.front >= self._stop:
            self._suffixes = None
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
        """Remember a leaf as the last one; not a hand, which is only kept as long as its batch."""
        self._leaf = None if isinstance(leaf, Chunk) else leaf
        return leaf

    def _hold(self, fronts: EachFront, start: int, stop: int, back: int) -> int:
        """Hold the suffix folds for fronts from index ``start`` on, which reach to ``back``.

        For as many of the fronts, counted from the back, as lie in leaves that follow one another;
        answers with the index where they end. What is held already has been kept up to the back.
        """
        front = back + int(fronts[start])
        if self._suffixes is None or not self._origin <= front < self._stop:
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
            self._suffixes = None
            right, later, since = self._behind(leaves[-1].stop, back)
            self._suffixes = suffixes_of(leaves, front, right, self.monoid)
            self._origin, self._stop, self._grown = front, leaves[-1].stop, None
            self._later, self._since = later, since
            self._look_at(leaves[-1])
        return min(stop, count_below(fronts, self._stop - back))

    def _behind(
        self, position: int, back: int
    ) -> tuple[Partial, tuple[np.ndarray, Rows], Partial | None]:
        """The aggregate from the end of a leaf to the back; O(1) combines a leaf amortised.

        Beside it the folds from later leaves on, and what has come since these were folded.
        """
        partials = self.monoid.partials
        if self._later is not None:
            starts, folds = self._later
            at = int(starts.searchsorted(position))
            if at < len(starts) and starts[at] == position:
                since = self._joined(self._since, self._grown)
                return self._joined(partials.at(folds, at), since), self._later, since
        later = self.events.folds_behind(position, back)
        return partials.at(later[1], 0), later, None

    # --- single events --------------------------------------------------------------------------

    @property
    def grown(self) -> Partial | None:
        """G, where the folds S are held; None where nothing has come since."""
        return self._grown if self._suffixes is not None else None

    def at_hand(self, most: int) -> tuple[Rows, int, np.ndarray]:
        """S, how long it is, and the times from the front on, for so many evictions at most.

        No store call. Each as far as it is held: S is empty before anybody has asked for the
        window's aggregate.
        """
        self._fresh()
        times, front, schema = np.empty(0, "<i8"), self.front, self.monoid.partials
        folds, size = schema.new(0), 0
        if self._suffixes is not None and self._origin <= front < self._stop:
            stop = min(front + most + 1, self._stop)
            folds = schema.cut(self._suffixes, front - self._origin, stop - self._origin)
            size = stop - front
        leaf = self._leaf
        if leaf is not None and leaf.times is not None and leaf.first <= front < leaf.stop:
            times = leaf.times[front - leaf.first : front - leaf.first + most + 1]
        return folds, size, times

    def catch_up(self, count: int, gone: int, grown: Partial | None) -> None:
        """Take in events that are in the structure by now, be without the oldest, and have this G.

        For as many evictions as were at hand.
        """
        self.back += count
        if self._keeps_up():
            self._grown = grown
        self.move(self.front + gone)

    def come_late(self, position: int) -> bool:
        """Keep what is held of the leaf at the front, though events from a position on have moved.

        Whether it can be: ``catch_up`` must then say what has come since.
        """
        is_before = self._stop <= position
        if self._suffixes is None or not self._origin <= self.front < self._stop or not is_before:
            return False
        self._later = self._since = None
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


class _CursorTimes:
    """The times a cursor's policy may search: stored ones from the front on, then those in hand.

    Positions are counted from the first event in hand; those of stored events are negative. Times
    are searched a stretch at a time: a hand of the batch under way that has been stored, or leaves
    that follow one another, put together; at last the hand itself.
    """

    def __init__(self, cursor: Cursor, hand: Chunk) -> None:
        self._cursor, self._hand = cursor, hand

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """The position of the oldest event that is less than ``age`` old at each of some times.

        Leaf by leaf; where a whole leaf is passed over, the next is looked up from the top.
        """
        cursor, hand, count = self._cursor, self._hand, len(times)
        position, done = cursor.front, 0
        until = int(times[-1]) - age if count >= _FEW else None
        pieces: list[EachFront] = []
        while done < count and position < hand.first:
            first, stored, stop, end = self._gather(position, times, age, done, until)
            at = position - first
            if done == 0 and at < len(stored) and times[-1] - age < stored[at]:
                return position - hand.first
            position = stop
            if end > done:
                pieces.append(moved(ranks(stored, times[done:end], age), first - hand.first))
                done = end
            else:
                position = max(position, cursor.events.first_after(int(times[end]) - age))
        if done < count:
            assert hand.times is not None
            pieces.append(ranks(hand.times, times[done:], age))
        return joined(pieces)

    def _gather(
        self, position: int, times: np.ndarray, age: int, done: int, until: int | None
    ) -> tuple[int, np.ndarray, int, int]:
        """The stored times from a leaf on, and through more while some of the searches end there.

        Leaves of many events are not put together. ``until`` as of ``OrderedEvents.leaf``.

        Answers with the positions of the first event and after the last, and where those of
        ``times`` end that they serve.
        """
        cursor, back = self._cursor, self._hand.first
        leaf = start = cursor.leaf(position, back, until=until)
        stop = leaf.first
        gathered: list[np.ndarray] = []
        while leaf.first == stop and not (gathered and isinstance(leaf, Chunk)):
            gathered += [group.times for group in leaf.groups if group.times is not None]
            stop, end = leaf.stop, done + int(times[done:].searchsorted(gathered[-1][-1] + age))
            if end in (done, len(times)) or stop == back:
                break
            if leaf.count >= _MANY or isinstance(leaf, Chunk):
                break
            done, leaf = end, cursor.leaf(stop, back, until=until)
        if stop == start.stop:
            return start.first, start.searched, stop, end
        return start.first, np.concatenate(gathered), stop, end
