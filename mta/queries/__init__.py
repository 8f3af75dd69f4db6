"""Window functions in SQL: ``max(x) OVER (PARTITION BY k ORDER BY t ...)``.

A query becomes passes over windows of the package. Everything else in it, such as WHERE and
expressions, is left to Spark, or to DuckDB for tables in memory.

- ``text``: a parsed query, and errors with a position in it
- ``frames``: frames of SQL as frames of the package
- ``functions``: aggregate functions of SQL as aggregations of the package
- ``compiler``: the passes of a query, and what is computed before and after them
- ``tables``: queries over tables in memory (``mta.sql``)
- ``duck``: expressions over tables in memory; the only module that imports DuckDB
"""
