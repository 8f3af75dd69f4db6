"""Out-of-order windows after the FiBA papers: B-trees by time, with fingers, in pages.

The tree: ``node``, ``node_cache`` (nodes in memory and in pages), ``btree`` (the classic one),
``fingers`` (FiBA, and its ranges), ``bulk`` (many events at once), ``invariants``.

As a window's structure: ``events`` by position, ``pages`` with what stands in a handle,
``aggregator``, and ``kept`` for several windows.
"""

from mta.fiba.aggregator import FiBA
from mta.fiba.btree import Tree
from mta.fiba.fingers import FingerTree

__all__ = ["FiBA", "FingerTree", "Tree"]
