"""Out-of-order windows after the FiBA papers: B-trees by time, with fingers, in pages.

The tree, in memory: ``node`` with its rows in a ``shelf``, ``btree`` (the classic one), ``fingers``
(FiBA), ``bulk`` (many events at once), ``spans`` (positions, times and ranges), ``invariants``.

In pages: ``keeper`` (all nodes in memory) and ``paging`` (nodes as pages), ``pages``, ``state`` in
the handle, ``walk`` for audits.

As a window's structure: ``events`` by position, ``aggregator``, and ``kept`` for several windows.
"""

from mta.fiba.aggregator import FiBA
from mta.fiba.btree import Tree
from mta.fiba.fingers import FingerTree

__all__ = ["FiBA", "FingerTree", "Tree"]
