"""Folds of many ranges of rows in one call, for any monoid.

- ``sliding``: the fronts of windows, and their folds in the cheapest way
- ``blocks``: ranges of any length, by prefix and suffix folds; many short ranges
"""
