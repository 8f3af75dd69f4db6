"""Folds of many ranges of rows at once, under any monoid."""
