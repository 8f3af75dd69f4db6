"""Reads data frames of pandas, polars and Arrow, and converts results to their types.

- ``base``: frames and columns of any library
- ``of_pandas``, ``of_polars``, ``of_arrow``: one module per library, the only one to import it
- ``sql_types``: types of results, named as in SQL
- ``opening``: opens a frame of any library
"""
