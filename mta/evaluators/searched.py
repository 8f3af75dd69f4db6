"""The times that a predictable policy searches while its window runs past a chunk of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mta.folds.sliding import Fronts, joined
from mta.kernels.segments import ranks
from mta.logs.base import OrderedEvents
from mta.logs.leaves import Chunk, Leaf

#: For fewer events only the leaves with their fronts are read.
_FEW = 1024
#: A leaf of so many events is searched separately, not concatenated with others.
_MANY = 4096


class SearchedTimes:
    """Stored times from a window's front on, then those of a chunk (``frames.TimeSearch``).

    Positions are counted from the first event of the chunk; those of stored events are negative.
    Times are searched in pieces: a stored chunk of the batch, or consecutive leaves, concatenated;
    finally the chunk itself.

    ``leaf`` reads the leaf that has a position, up to a time (``until`` of ``OrderedEvents.leaf``).
    """

    def __init__(
        self,
        front: int,
        events: OrderedEvents,
        chunk: Chunk,
        leaf: Callable[[int, int | None], Leaf],
    ) -> None:
        self._front, self._events, self._chunk, self._leaf = front, events, chunk, leaf

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """Return the position of the oldest event less than ``age`` old at each of some times.

        Leaf by leaf; if a whole leaf is skipped, the next is searched from the top.
        """
        chunk, count, position, done = self._chunk, len(times), self._front, 0
        until = int(times[-1]) - age if count >= _FEW else None
        found, searched = np.empty(count, np.int64), []
        while done < count and position < chunk.first:
            first, stored, stop, end = self._gather(position, times, age, done, until)
            at = position - first
            if done == 0 and at < len(stored) and times[-1] - age < stored[at]:
                return position - chunk.first
            position = stop
            if end > done:
                searched.append((done, end, stored, first - chunk.first))
                done = end
            else:
                position = max(position, self._events.first_after(int(times[end]) - age))
        if done < count:
            assert chunk.times is not None
            searched.append((done, count, chunk.times, 0))
        pieces = []
        for start, end, stored, shift in searched:
            piece = ranks(stored, times[start:end], age, found[start:end])
            if isinstance(piece, range):
                pieces.append(range(piece.start + shift, piece.stop + shift))
        if len(pieces) == len(searched) and (whole := joined(pieces)) is not None:
            return whole
        for start, end, _, shift in searched:
            found[start:end] += shift
        return found

    def _gather(
        self, position: int, times: np.ndarray, age: int, done: int, until: int | None
    ) -> tuple[int, np.ndarray, int, int]:
        """Return the stored times from a leaf on, as far as searches end close to each other.

        Leaves of many events are not concatenated. For ``until`` see ``OrderedEvents.leaf``.
        Returns the positions of the first event and after the last, and the end of the served part
        of ``times``.
        """
        leaf = start = self._leaf(position, until)
        stop = leaf.first
        gathered: list[np.ndarray] = []
        while leaf.first == stop and not (gathered and isinstance(leaf, Chunk)):
            gathered += [group.times for group in leaf.groups if group.times is not None]
            stop, end = leaf.stop, done + int(times[done:].searchsorted(gathered[-1][-1] + age))
            if end in (done, len(times)) or stop == self._chunk.first:
                break
            if leaf.count >= _MANY or isinstance(leaf, Chunk):
                break
            done, leaf = end, self._leaf(stop, until)
        if stop == start.stop:
            return start.first, start.searched, stop, end
        return start.first, np.concatenate(gathered), stop, end
