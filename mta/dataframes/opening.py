"""Which library a frame is of."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mta.dataframes.base import Frame

#: By library and class, the module and the class here; subclasses are frames as well.
_FRAMES = {
    ("pandas", "DataFrame"): ("of_pandas", "PandasFrame"),
    ("polars", "DataFrame"): ("of_polars", "PolarsFrame"),
    ("pyarrow", "Table"): ("of_arrow", "ArrowFrame"),
    ("pyarrow", "RecordBatch"): ("of_arrow", "ArrowFrame"),
}


def open_frame(frame: Any) -> Frame:
    """A data frame of any library. Raises TypeError for what is none."""
    for base in type(frame).__mro__:
        library = base.__module__.partition(".")[0]
        if (library, base.__name__) == ("polars", "LazyFrame"):
            raise TypeError(
                "rolling computes at once, and a LazyFrame has no rows yet: give frame.collect()"
            )
        if found := _FRAMES.get((library, base.__name__)):
            opened: Frame = getattr(import_module(f"mta.dataframes.{found[0]}"), found[1])(frame)
            return opened
    raise TypeError(
        f"rolling takes a pandas or polars DataFrame or an Arrow table, not {type(frame)!r}; "
        "for columns by themselves there is KeyedWindows.extend"
    )
