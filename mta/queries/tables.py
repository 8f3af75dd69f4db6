"""Window functions in SQL over tables in memory, or out of core with a store.

    sql("SELECT *, max(kw) OVER (PARTITION BY k ORDER BY t ROWS 9 PRECEDING) FROM r", r=frame)

returns ``frame``, a pandas, polars or Arrow table, with one more column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mta.dataframes import open_data_frame
from mta.dataframes.base import DataFrame
from mta.errors import InvalidQuery, MissingDependency
from mta.keyed.rolling import rolling
from mta.times import TimeUnit
from mta.windows.settings import Nan
from stores import StoreLike
from stores.errors import pip_install

if TYPE_CHECKING:
    from mta.frames.base import Ties
    from mta.queries.compiler import Bound, Item, Query
    from mta.queries.frames import Axis

#: The name of the table over which expressions are computed, and of the condition of WHERE.
_TABLE, _WHERE = "__rows", "__where"


def sql(
    query: str,
    /,
    *,
    dialect: str = "spark",
    ties: Ties = "peers",
    time_unit: TimeUnit | None = None,
    nan: Nan = "raise",
    store: StoreLike | None = None,
    **tables: Any,
) -> Any:
    """Return the result of a SELECT with window functions, in row order.

    Window functions are computed by the windows of this package: in one pass for each PARTITION BY
    and ORDER BY, with any frame that ends with the current row or before it. WHERE, joins, WITH and
    expressions are computed by DuckDB. ``docs/sql.md`` lists what is supported. Costs the same as
    ``rolling``, plus a millisecond to compile.

    Raises InvalidQuery, which shows the position in the query, and the errors of ``rolling``.

    Args:
        query: The SELECT.
        dialect: The dialect of the query, as sqlglot names it, such as "duckdb" or "postgres".
        ties: With "peers", RANGE ... CURRENT ROW includes later rows of the same time, as SQL says;
            with "rows", it does not.
        time_unit: The unit of ORDER BY columns that are numbers: "s", "ms", "us" or "ns". Frames
            may then be intervals.
        nan: As for ``rolling``.
        store: Where to store the events of the windows; by default in memory.
        tables: The tables that the query names: pandas, polars or Arrow, all of one library.

    >>> import pandas as pd
    >>> from mta import sql
    >>> frame = pd.DataFrame({"at": [1, 2, 3], "watts": [9.0, 5.0, 7.0]})
    >>> query = "SELECT at, max(watts) OVER (ORDER BY at ROWS 1 PRECEDING) AS peak FROM r"
    >>> sql(query, r=frame)["peak"].tolist()
    [9.0, 9.0, 7.0]
    """
    parsed = parse(query, dialect)
    frame, bound = read_rows(parsed, tables)
    table = open_data_frame(frame)
    passes = bound.passes(lambda name: _axis(table, name, time_unit), time_unit, ties, False)
    columns = table.names
    for each in passes:
        frame = rolling(
            frame, by=each.by or None, on=each.on, window=each.window,
            aggregations=each.aggregations, nan=nan, store=store,
            time_unit=time_unit if _axis(table, each.on, time_unit) != "number" else "us",
        )  # fmt: skip
        if nan != "propagate":  # such as the deviation of one value
            frame = open_data_frame(frame).without_nans(set(each.result_names().values())).frame
    return selected(frame, bound.items(passes, columns))


def parse(query: str, dialect: str) -> Query:
    """Return a query. Raises InvalidQuery, and MissingDependency without sqlglot."""
    try:
        from mta.queries.compiler import Query
    except ModuleNotFoundError as error:
        if error.name != "sqlglot":
            raise
        raise MissingDependency(f"SQL needs sqlglot: {pip_install('sql')}") from error
    return Query(query, dialect)


def read_rows(query: Query, tables: dict[str, Any]) -> tuple[Any, Bound]:
    """Return the rows before the windows, and the query for their columns."""
    given = {name.lower(): name for name in tables}
    for table in query.tables:
        if table.name.lower() not in given:
            known = f"the call has {', '.join(tables)}" if tables else "the call has no table"
            remedy = f"pass it by its name, such as sql(query, {table.name}=frame)"
            raise query.text.error(table, f"there is no table {table.name!r}: {known}", remedy)
    if query.table is None:
        bound = query.bind(None)
        return _duck(query.before(bound, "duckdb"), tables), bound
    frame = tables[given[query.table.name.lower()]]
    opened = open_data_frame(frame)
    bound = query.bind([*opened.names, *opened.levels])
    wanted = dict(bound.computed)
    if query.where is not None:
        wanted[_WHERE] = query.where
    if not wanted:
        return frame, bound
    name = query.table.alias_or_name
    texts = [f"{each.sql('duckdb')} AS {_quoted(name)}" for name, each in wanted.items()]
    more = _duck(f"SELECT {', '.join(texts)} FROM {_quoted(name)}", {name: frame})
    opened = opened.beside(more)
    if query.where is not None:
        passes = opened.column(_WHERE)
        opened = opened.rows(passes.values & (True if passes.nulls is None else ~passes.nulls))
        opened = opened.selected({name: name for name in opened.names if name != _WHERE})
    return opened.frame, bound


def _axis(table: DataFrame, name: str, unit: TimeUnit | None) -> Axis:
    """Return what a column of ORDER BY contains. Raises InvalidQuery for floats."""
    table.require([name])
    kind = table.column(name).type
    if kind is None:
        raise InvalidQuery(
            f"ORDER BY {name}: the column has floats, which are not exact; cast it to a timestamp "
            "or to an integer"
        )
    whole = kind in ("int64", "uint64", "bool")
    return ("number" if unit is None else "numeric time") if whole else "time"


def selected(frame: Any, items: list[Item]) -> Any:
    """Return the items of the SELECT list."""
    opened = open_data_frame(frame)
    others = [item for item in items if item.column is None]
    if others:
        texts = [
            f"{item.expression.sql('duckdb')} AS {_quoted(item.name)}"
            for item in others if item.expression is not None
        ]  # fmt: skip
        more = open_data_frame(_duck(f"SELECT {', '.join(texts)} FROM {_TABLE}", {_TABLE: frame}))
        more = more.selected({f"{_TABLE} {name}": name for name in more.names})
        opened = opened.beside(more.frame)
    return opened.selected(
        {item.name: item.column or f"{_TABLE} {item.name}" for item in items}
    ).frame


def _duck(query: str, tables: dict[str, Any]) -> Any:
    from mta.queries.duck import select

    return select(query, tables)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
