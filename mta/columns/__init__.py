"""Columns: how values and partials are stored in memory and in pages.

- ``schemas``: arrays, lists, tables and records of columns
- ``texts``: columns of text, as integers and distinct texts
- ``kinds``: the types of columns as text
- ``reading``: converts the values that users pass to columns
- ``codec``: plain data as bytes
"""
