"""The trees of the FiBA papers: B-trees by time, with fingers, in pages.

- ``node``, ``btree``: nodes and their rows, and the classic B-tree
- ``fingers``, ``bulk``: FiBA, for single events and for batches
- ``node_cache``, ``pages``: nodes as pages; a tree as pages and snapshots, read by position
- ``log``: events by time, for multiple windows
"""

from mta.logs.finger_tree.btree import Tree
from mta.logs.finger_tree.fingers import FingerTree

__all__ = ["FingerTree", "Tree"]
