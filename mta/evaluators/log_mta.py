"""Log MTA (MTA paper, section 4.1): every new leaf walks one branch of the tree.

Level queues evaluated by range folds. The paper keeps both side branches up to date: an insertion
propagates along the right branch (Algorithm 1), an eviction prunes and recomputes the left branch
(Algorithm 2), and the result is at the root. Here the left branch is folded when the front reaches
a leaf, by one range fold of the levels (``LeafReader.fold``), together with the leaf's own events,
once for all of them; while the front is in that leaf, the right branch is one running fold. Nothing
else is remembered.

In place of the printed Algorithm 1, which overflows the root and loses an aggregate there, sealed
groups move up as in ``logs.levels.queues``. Figure 2's bulk eviction, a maximum over times with a
window of four units, when 8 arrives after 1 to 4:

    [1 2] [3 4] [8 .]   with 4 evicted at the top   ->   [8 .]

Costs, in combines: insert 1, and levels if a group is sealed; query 1, and if the front has reached
another leaf, after one eviction or many, at most 2 * arity * levels, and one page read per level.
"""

from __future__ import annotations

from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.cursor import Cursor
from mta.monoids.base import Partial


class RangeEvaluator(Cursor):
    """A window that folds a range of the log at each leaf, in O(log n), and keeps no stack."""

    def _behind(self, position: int, back: int) -> Partial:
        self._stack.clear()
        return self.events.fold(position, back)


class LogMTA(AmortizedMTA):
    """A window with O(log n) insertion, eviction and bulk eviction."""

    name = "Log MTA"
    evaluator = RangeEvaluator
