"""Folds of many ranges of rows at once, under any monoid.

- ``sliding``: where windows begin, and the one entry, which takes the way that costs the least
- ``blocks``: ranges of any length, by prefix and suffix folds; many short ones
"""
