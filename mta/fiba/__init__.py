"""Out-of-order windows after the FiBA papers: B-trees by time, with fingers, in pages.

- ``node``, ``btree``: nodes and their rows, and the classic B-tree
- ``fingers``, ``bulk``: FiBA, one event at a time and many at once
- ``invariants``: what holds in a tree between operations
- ``node_cache``, ``pages``: nodes as pages, and a tree as pages and handles
- ``events``, ``aggregator``, ``kept``: events by position, and a window's structure of them
"""

from mta.fiba.aggregator import FiBA
from mta.fiba.btree import Tree
from mta.fiba.fingers import FingerTree

__all__ = ["FiBA", "FingerTree", "Tree"]
