"""Out-of-order windows after the FiBA paper."""

from mta.fiba.aggregator import FiBA
from mta.fiba.btree import Tree
from mta.fiba.fingers import FingerTree

__all__ = ["FiBA", "FingerTree", "Tree"]
