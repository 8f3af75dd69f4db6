"""The FiBA papers: B-trees by time, with fingers, in pages.

- ``node``, ``btree``: nodes and their rows, and the classic B-tree
- ``fingers``, ``bulk``: FiBA, one event at a time and many at once
- ``node_cache``, ``pages``: nodes as pages, and a tree as pages and snapshots, read by position
- ``log``: the events by time, for multiple windows
"""

from mta.logs.finger_tree.btree import Tree
from mta.logs.finger_tree.fingers import FingerTree

__all__ = ["FingerTree", "Tree"]
