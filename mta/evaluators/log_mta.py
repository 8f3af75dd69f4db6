"""Log MTA (MTA paper, section 4.1): every new leaf walks one branch of the tree.

Log MTA evaluates level queues by range folds. The paper keeps both side branches up to date. An
insertion propagates along the right branch (Algorithm 1), and an eviction prunes and recomputes the
left branch (Algorithm 2). The result is at the root. Here, the left branch is folded when the front
reaches a leaf, by one range fold of the levels (``LeafReader.fold``) and the suffix folds of the
leaf's events. While the front is in that leaf, the right branch is one running fold. Nothing else
is remembered.

The printed Algorithm 1 overflows the root and loses an aggregate there. Instead, sealed groups move
up as in ``logs.levels.queues``. Figure 2 shows a bulk eviction: a maximum over times with a window
of four units, when 8 arrives after 1 to 4:

    [1 2] [3 4] [8 .]   with 4 evicted at the top   ->   [8 .]

Costs are in combines. An insert takes 1, and one per level if a group is sealed. A query takes 1.
If the front has reached another leaf, after one or many evictions, a query takes at most 2 * arity
* levels, and one page read per level.
"""

from __future__ import annotations

from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.cursor import Cursor
from mta.monoids.base import Partial


class RangeEvaluator(Cursor):
    """A window that folds a range of the log at each leaf, in O(log n), without a stack."""

    def _behind(self, position: int, back: int) -> Partial:
        self._stack.clear()
        return self.events.fold(position, back)


class LogMTA(AmortizedMTA):
    """A window with O(log n) insertion, eviction and bulk eviction."""

    name = "Log MTA"
    evaluator = RangeEvaluator
