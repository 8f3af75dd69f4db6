"""The results of a run of events over FlatFAT in pages, as vector expressions.

While the front stays in one leaf block and the new events fit into another, the result after each
of them is

    suffix(F) in the front's block  (x)  (what follows the block, and the new events so far)

and a scan gives the suffixes from all slots of a block at one combine each, where ``suffix`` would
walk the levels of the block for every one of them. Where the front is in the open block as well,
that block's slots are parted at the back pointer as it was when they were scanned. Windows that are
short beside the run are folds of ranges instead (``folds.sliding``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.fronts import fronts_upto, rows_at
from mta.folds.sliding import Events, ShortRun, short_run_of
from mta.monoids.base import Partial
from mta.policies.base import AbstractPolicy

if TYPE_CHECKING:
    from mta.reactive.paged_flat_fat import PagedFlatFAT


class Scan:
    """The suffix folds from each of the positions ``start`` to ``stop`` on, up to ``stop``."""

    __slots__ = ("right", "right_at", "start", "stop", "suffixes")

    def __init__(self, start: int, stop: int, suffixes: Rows) -> None:
        self.start, self.stop, self.suffixes = start, stop, suffixes
        #: The aggregate from ``stop`` to a back, and which back.
        self.right: Partial = None
        self.right_at = -1


class Runner:
    """Runs of events into one FlatFAT; remembers the scan of the front's block."""

    def __init__(self, tree: PagedFlatFAT) -> None:
        self._tree = tree
        self._scan: Scan | None = None

    def forget(self) -> None:
        """Events that were scanned have changed."""
        self._scan = None

    def run(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        """Insert, evict and query for as many events as the front's and the open block serve.

        About two combines an event, and one more for the scan. Returns how many, their results in
        ``out``; 0 when the policy cannot tell ahead. When the store fails, nothing has changed.
        """
        tree, monoid = self._tree, self._tree.monoid
        count = min(tree.room(), stop - start)
        new = monoid.inputs.cut(rows, start, start + count)
        coming = None if times is None else times[start : start + count]
        found = self._run_short(policy, new, coming, count)
        if found is None:
            found = self._run_long(policy, new, coming, count)
        if found is None:
            return 0
        partials, front, count = found
        try:
            path = tree.path_to(front)
            monoid.outputs.put_many(out, start, monoid.lower_rows(partials))
        except Exception:
            self.forget()  # it has the new events in it
            raise
        new = monoid.inputs.cut(new, 0, count)
        tree.levels.append_many(new, None if coming is None else coming[:count], count)
        tree.move_front(front, path)
        return count

    def _run_long(
        self, policy: AbstractPolicy, new: Rows, coming: np.ndarray | None, count: int
    ) -> tuple[Rows, int, int] | None:
        """The results, the front after them, and how many they are."""
        tree, monoid = self._tree, self._tree.monoid
        told = policy.fronts(tree, coming, count)
        if told is None:
            return None
        fronts, count = told
        if isinstance(fronts, int):
            lifted = monoid.lift_rows(monoid.inputs.cut(new, 0, count), count)
            return monoid.prefixes(lifted, count, tree.query()), fronts, count
        if not len(tree):
            return None
        scan = self._scanned()
        fronts = fronts_upto(fronts, scan.stop, count)
        count = len(fronts)
        if not count:
            return None
        lifted = monoid.lift_rows(monoid.inputs.cut(new, 0, count), count)
        if scan.right_at != tree.back:
            scan.right = tree.fold_from(scan.stop)
        rights = monoid.prefixes(lifted, count, scan.right)
        scan.right, scan.right_at = monoid.partials.at(rights, count - 1), tree.back + count
        lefts = rows_at(monoid, scan.suffixes, fronts, scan.start)
        return monoid.combine_rows(lefts, rights, count), int(fronts[-1]), count

    def _scanned(self) -> Scan:
        """The suffix folds of the front's block; one combine an event of it, once."""
        tree, scan = self._tree, self._scan
        block = tree.front_block()
        end = block.first + block.group.count
        is_open = block.group is tree.levels.tails[0]
        known = scan is not None and scan.start <= tree.front < scan.stop
        if scan is not None and known and (scan.stop == end or is_open):
            return scan
        inside, count = tree.front - block.first, block.group.count
        rows = tree.levels.partials(0, block.group, inside, count)
        suffixes = tree.monoid.suffixes(rows, count - inside, tree.monoid.identity)
        self._scan = scan = Scan(tree.front, end, suffixes)
        return scan

    def _run_short(
        self, policy: AbstractPolicy, new: Rows, coming: np.ndarray | None, count: int
    ) -> tuple[Rows, int, int] | None:
        """The same for a window in the open block that would need scan after scan."""
        tree, monoid, leaf = self._tree, self._tree.monoid, self._tree.levels.tails[0]
        count = short_run_of(monoid, len(tree), count)
        if not count or tree.front < leaf.first:
            return None
        inside = tree.front - leaf.first
        times = None if leaf.times is None else leaf.times[inside : leaf.count]
        held = Events(monoid.inputs.cut(leaf.rows, inside, leaf.count), times, len(tree))
        some = Events(
            monoid.inputs.cut(new, 0, count), None if coming is None else coming[:count], count
        )
        told = ShortRun(monoid, tree.front, [held], some).folds(policy)
        if told is None:
            return None
        fronts, folds = told
        return folds, int(fronts[-1]), len(fronts)
