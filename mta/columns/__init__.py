"""Columns: how values and partials lie in memory and in pages.

- ``schemas``: arrays, lists and records of columns, with ``vectors`` for tables of many numbers
- ``codec``: plain data as bytes
"""
