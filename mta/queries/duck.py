"""Expressions over tables in memory, and joins of them, by DuckDB; times have the zone UTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mta.dataframes import open_data_frame
from mta.errors import InvalidQuery, MissingDependency
from stores.errors import pip_install


def select(query: str, tables: Mapping[str, Any]) -> Any:
    """Return the result of a query as a table of the library of the first table.

    Raises InvalidQuery if DuckDB refuses it, and MissingDependency.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependency(
            f"WHERE, joins and expressions need duckdb: {pip_install('sql')}"
        ) from error
    first = open_data_frame(next(iter(tables.values())))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        try:
            return first.of_arrow(connection.sql(query).to_arrow_table())
        except duckdb.Error as error:
            said, *_ = str(error).splitlines()
            raise InvalidQuery(f"DuckDB refuses a part of the query: {said}") from error
