"""Out-of-order windows after the FiBA papers: B-trees by time, with fingers, in pages.

- ``node``, ``btree``: nodes and their rows, and the classic B-tree
- ``fingers``, ``bulk``: FiBA, one event at a time and many at once
- ``node_cache``, ``pages``: nodes as pages, and a tree as pages and snapshots, read by position
- ``parts``: what keeps snapshots small
- ``aggregator``: a window's structure, and that of windows that share events
"""

from mta.fiba.aggregator import FiBA
from mta.fiba.btree import Tree
from mta.fiba.fingers import FingerTree

__all__ = ["FiBA", "FingerTree", "Tree"]
