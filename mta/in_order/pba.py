"""PBA, the Parallel Boundary Aggregator (KDD 2021 paper, section 4): see ``boundary``.

At a boundary a thread begins to compute lcs of the chunk before it, while the stream goes on into
csa of the one after it: the two need nothing of each other. With the optimal chunk size lcs is
there when the first window needs it.

When this pays in Python: a thread runs beside another only while it is inside numpy, which releases
the interpreter's lock. So the monoid must be columnar (a ``Monoid`` of Python functions is correct
here, and slower than with SBA), and chunks must be so large that folding one takes longer than
starting a thread.

>>> from mta import Max
>>> window = PBA(Max(), 10, 2, chunk_size=5)
>>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
>>> [(end, float(result)) for end, result in window.instances(stream)][-3:]
[(16, 7.0), (18, 9.0), (20, 9.0)]
"""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

from mta.columns import Rows
from mta.in_order.boundary import BoundaryAggregator
from mta.in_order.chunks import LeftCumulative
from mta.monoid import AbstractMonoid


class ParallelLeftCumulative(LeftCumulative):
    """An lcs buffer that a thread computes, until it is asked for."""

    def __init__(self, monoid: AbstractMonoid, saa: Rows, count: int) -> None:
        super().__init__(monoid, saa, count)
        self._thread: Thread | None = Thread(target=self._try, name="lcs", daemon=True)
        self._thread.start()

    def _try(self) -> None:
        with suppress(Exception):  # which then happens again in the thread that asks
            self.compute()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._rows is None:  # the thread failed, or this process was forked while it ran
            self.compute()


class PBA(BoundaryAggregator):
    """Worst-case O(1) in the stream's thread. Combines a slide: 3 merges there, and beside it
    chunk_size - 2 for each chunk.

    Space: 3 * chunk_size + 2 partials; that is 3n/2 + 5 at a slide of 1.
    """

    name = "Parallel Boundary Aggregator"

    def _cumulate(self, saa: Rows, count: int) -> LeftCumulative:
        return ParallelLeftCumulative(self.monoid, saa, count)
