"""Data frames: the columns of pandas, polars and Arrow as aggregations read them, and results back.

- ``base``: what a column and a frame are, whatever library they come from
- ``of_pandas``, ``of_polars``, ``of_arrow``: the libraries, each imported in its module alone
- ``sql_types``: types of results that are named as in SQL
- ``opening``: finds the library of a frame
"""
