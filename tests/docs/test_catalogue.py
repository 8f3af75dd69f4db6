"""The page of the catalogue: every aggregation of other libraries, and its name here or why not.

Each row of its tables has a function of theirs, the name by which the aggregation is given here, or
"no", and a remark on how the two differ, or the reason why there is none.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator

import pytest

from mta.monoids.catalogue import AGGREGATIONS, NAMES
from tests.support.documents import DOCS

PAGE = (DOCS / "catalogue.md").read_text()
_ROW = re.compile(r"^\| `(.+?)` \| (?:`(.+)`|no) \| (.*) \|$", re.MULTILINE)


def rows_of(library: str) -> list[tuple[str, str, str]]:
    """Each function of a library, its name here, "" without one, and the remark."""
    table = PAGE.partition(f"\n### {library}\n")[2].partition("\n### ")[0]
    return _ROW.findall(table)


def _of_spark() -> Iterator[str]:
    import pyspark.sql.functions as functions

    source = inspect.getsource(functions)
    sections = re.split(r"^    # (.*)$", source, flags=re.MULTILINE)
    for title, names in zip(sections[1::2], sections[2::2], strict=True):
        if title.lower() in ("aggregate functions", "window functions"):
            yield from re.findall(r'^    "(\w+)",$', names, re.MULTILINE)
    for name in dir(functions):  # older versions have no sections
        text = inspect.getdoc(getattr(functions, name)) or ""
        if text.startswith(("Aggregate function", "Window function")):
            yield name


def _of_pandas() -> Iterator[str]:
    from pandas.api.typing import Expanding, ExponentialMovingWindow, Rolling

    for kind, prefix in ((Rolling, ""), (Expanding, ""), (ExponentialMovingWindow, "ewm.")):
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield prefix + name


def _of_polars() -> Iterator[str]:
    import polars as pl

    values = {"x": [3.0, 1.0, 2.0], "n": [3, 1, 2], "b": [True, False, True], "s": ["b", "a", "c"]}
    frame = pl.DataFrame(values)
    for name, method in inspect.getmembers(pl.Expr, inspect.isfunction):
        if name.startswith("rolling"):
            yield name
        elif not name.startswith("_") and name != "inspect":
            heights = {
                _height(frame, method, column, arguments)
                for column in values
                for arguments in ((), (1,), (0.5,), (pl.col("n"),))
            }
            if heights - {None} and heights <= {1, None}:
                yield name


def _height(frame: object, method: Callable[..., object], column: str, arguments: object) -> object:
    """How many rows a method makes of three; None where it takes no such arguments."""
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return frame.select(method(pl.col(column), *arguments)).height  # type: ignore
        except BaseException:  # a panic of Rust is none of Python's exceptions
            return None


def _of_duckdb() -> Iterator[str]:
    import duckdb

    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type='aggregate'"
    for (name,) in duckdb.sql(query).fetchall():
        yield name


LISTED: dict[str, Callable[[], Iterator[str]]] = {
    "Spark": _of_spark, "pandas": _of_pandas, "polars": _of_polars, "DuckDB": _of_duckdb,
}  # fmt: skip


def _names() -> Iterator[str]:
    yield "| names | aggregation | |\n|---|---|---|\n"
    for factory, names in AGGREGATIONS:
        kind = getattr(factory, "func", factory)
        arguments = [*getattr(factory, "args", ()), *getattr(factory, "keywords", {}).values()]
        given = ", ".join(map(repr, arguments)).replace("True", "distinct=True")
        about = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
        shown = ", ".join(f"`{name}`" for name in names.split())
        yield f"| {shown} | `{kind.__name__}({given})` | {about.replace('``', '`')} |\n"


def test_the_table_of_names_has_every_name_with_its_aggregation() -> None:
    table = PAGE.partition("<!-- names -->\n")[2].partition("<!-- end of names -->")[0]
    assert table == "".join(_names())


@pytest.mark.parametrize("library", LISTED)
def test_every_function_of_an_installed_library_is_here_or_has_a_reason(library: str) -> None:
    try:
        functions = set(LISTED[library]())
    except ImportError as error:
        pytest.skip(f"{library} is not installed: {error}")
    assert len(functions) > 15
    assert functions <= {function for function, *_ in rows_of(library)}


@pytest.mark.parametrize("library", LISTED)
def test_every_name_in_the_tables_is_known_and_every_reason_says_something(library: str) -> None:
    rows = rows_of(library)
    assert len(rows) == len(PAGE.partition(f"\n### {library}\n")[2].partition("\n### ")[0]
                            .strip().splitlines()) - 4 > 15  # fmt: skip
    assert [function for function, *_ in rows] == sorted({function for function, *_ in rows})
    for function, name, remark in rows:
        assert name in NAMES if name else len(remark) > 5, function
