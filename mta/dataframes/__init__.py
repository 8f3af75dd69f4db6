"""Reads data frames of pandas, polars and Arrow, and converts results to their types.

The package itself opens a frame of any library.

- ``base``: frames and columns of any library; types of results, named as in SQL
- ``of_pandas``, ``of_polars``, ``of_arrow``: one module per library, the only one to import it
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mta.dataframes.base import DataFrame

#: The module and the class in this package, by library and class; subclasses are frames too.
_FRAMES = {
    ("pandas", "DataFrame"): ("of_pandas", "PandasDataFrame"),
    ("polars", "DataFrame"): ("of_polars", "PolarsDataFrame"),
    ("pyarrow", "Table"): ("of_arrow", "ArrowDataFrame"),
    ("pyarrow", "RecordBatch"): ("of_arrow", "ArrowDataFrame"),
}


def open_data_frame(frame: Any) -> DataFrame:
    """Open a data frame of any library. Raises TypeError for other objects."""
    for base in type(frame).__mro__:
        library = base.__module__.partition(".")[0]
        if (library, base.__name__) == ("polars", "LazyFrame"):
            raise TypeError(
                "rolling computes eagerly, and a LazyFrame has no rows yet: pass frame.collect()"
            )
        if found := _FRAMES.get((library, base.__name__)):
            opened: DataFrame = getattr(import_module(f"mta.dataframes.{found[0]}"), found[1])(
                frame
            )
            return opened
    raise TypeError(
        f"rolling takes a pandas or polars DataFrame or an Arrow table, not {type(frame)!r}; "
        "for separate columns, use KeyedWindows.extend"
    )
