"""SBA, the Sequential Boundary Aggregator (KDD 2021 paper, section 5.1): see ``boundary``.

PBA in one thread: at each boundary the stream waits until lcs is computed, so one slide in
``chunk_size`` takes chunk_size - 2 combines more. The example of Figure 2:

>>> from mta import Monoid
>>> window = SBA(Monoid(float("-inf"), max), 10, 2, chunk_size=5)
>>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
>>> list(window.instances(stream))
[(10, 6), (12, 6), (14, 7), (16, 7), (18, 9), (20, 9)]
"""

from __future__ import annotations

from mta.columns.schemas import Rows
from mta.in_order.boundary import BoundaryAggregator
from mta.in_order.chunks import LeftCumulative


class SBA(BoundaryAggregator):
    """Amortised O(1). Combines a slide: 3 merges, and chunk_size - 2 at a boundary.

    Space: 3 * chunk_size + 2 partials, that is 3n/2 + 5 at a slide of 1; and while an lcs is
    computed a chunk more.
    """

    name = "Sequential Boundary Aggregator"

    def _cumulate(self, saa: Rows, count: int) -> LeftCumulative:
        lcs = LeftCumulative(self.monoid, saa, count)
        lcs.compute()
        return lcs
