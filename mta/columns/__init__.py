"""Columns: how values and partials lie in memory and in pages.

- ``schemas``: arrays, lists, tables and records of columns
- ``reading``: what users hand in, as columns
- ``codec``: plain data as bytes
"""
