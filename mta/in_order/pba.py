"""PBA, the Parallel Boundary Aggregator (KDD 2021 paper, section 4): see ``boundary``.

At a boundary a thread begins to compute lcs of the chunk before it, while the stream goes on into
csa of the one after it: the two need nothing of each other. With the optimal chunk size lcs is
there when the first window needs it.

When this pays in Python: a thread runs beside another only while it is inside numpy, which releases
the interpreter's lock. So the monoid must be columnar (a ``Monoid`` of Python functions is correct
here, and slower than with SBA), and chunks must be so large that folding one takes longer than
handing it over. By ``mta bench pba_thread`` with Max, the value with which a chunk begins takes
21 us in place of 25 at a range of 2^12, 22 in place of 54 at 2^14, 66 in place of 715 at 2^18;
below 2^12 SBA is faster. What the thread adds to throughput it needs an idle core for.

>>> from mta import Max
>>> window = PBA(Max(), 10, 2, chunk_size=5)
>>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
>>> [(end, float(result)) for end, result in window.instances(stream)][-3:]
[(16, 7.0), (18, 9.0), (20, 9.0)]
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import numpy as np

from mta.columns.schemas import Rows
from mta.in_order.boundary import BoundaryAggregator
from mta.in_order.chunks import LeftCumulative
from mta.monoids.base import AbstractMonoid


class ParallelLeftCumulative(LeftCumulative):
    """An lcs buffer that another thread computes, for which one waits when it is asked."""

    def __init__(
        self, monoid: AbstractMonoid, saa: Rows, count: int, thread: ThreadPoolExecutor
    ) -> None:
        super().__init__(monoid, saa, count)
        self._process = os.getpid()
        self._computed = thread.submit(self.compute)

    def wait(self) -> None:
        if self._rows is None and self._process == os.getpid():
            wait([self._computed])
        if self._rows is None:  # it failed, or this process was forked before it was there
            self.compute()


class PBA(BoundaryAggregator):
    """Worst-case O(1) in the stream's thread. Combines a slide: 3 merges there, and beside it
    chunk_size - 2 for each chunk.

    Space: 3 * chunk_size + 2 partials, that is 3n/2 + 5 at a slide of 1; and while an lcs is
    computed a chunk more. The thread begins with the first boundary and ends with the window.
    """

    name = "Parallel Boundary Aggregator"

    _process = 0
    _thread: ThreadPoolExecutor

    def _cumulate(self, saa: Rows, count: int) -> LeftCumulative:
        if self._process != os.getpid():  # none yet, or left behind in the parent
            self._process = os.getpid()
            quietly = partial(np.seterr, all="ignore")  # numpy's warnings are off thread by thread
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="lcs", initializer=quietly)
        return ParallelLeftCumulative(self.monoid, saa, count, self._thread)
