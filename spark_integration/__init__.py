"""Sliding windows for PySpark: ``from spark_integration import sliding_aggregate``.

PySpark is an extra, so it is imported only when one of these names is asked for.

- ``sliding``: ``sliding_aggregate`` itself
- ``request``, ``options``, ``plan``: from what is asked to plain data for the workers
- ``step``: one micro-batch of some keys, without Spark
- ``carriers``: how Spark calls the step
- ``session``, ``java``, ``versions``: a local Spark, and what differs between its versions
- ``errors``, ``cli``, ``bench``: what goes wrong, the command line, Spark's experiments
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stores.errors import MissingDependency

if TYPE_CHECKING:
    from .sliding import recommended_conf, sliding_aggregate

__all__ = ["recommended_conf", "sliding_aggregate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import sliding
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("pyspark", "pandas", "pyarrow"):
            raise
        raise MissingDependency(
            f"{name} needs {missing}: pip install 'mta-windows[spark]'"
        ) from error
    return getattr(sliding, name)
