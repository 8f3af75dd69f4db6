"""Sliding windows for PySpark: ``from spark_integration import sliding_aggregate``.

PySpark is an extra, so it is imported only when one of these names is used.

- ``sliding``: ``sliding_aggregate`` itself
- ``queries``: window functions in SQL
- ``history``: windows of a batch, from which a stream continues
- ``request``, ``options``, ``plan``: options as plain data for the workers
- ``kafka``: topics as streams of events
- ``publishing``: windows for other processes to read, and counts, after each batch
- ``step``: one micro-batch of some keys, without Spark
- ``runners``: how Spark calls the step
- ``session``, ``java``, ``versions``: a local Spark, and the differences between its versions
- ``starting``: the start of a query: default settings, and what Spark refuses
- ``checkpoint``, ``inspection``: the checkpoint of a query, and its windows
- ``migration``: a query's state with other buckets, or in another store
- ``interpreter``: checks that the workers' Python has the packages
- ``errors``, ``cli``: the errors, and the command line
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mta.errors import MissingDependency
from mta.keyed.standalone import small_groups
from stores.errors import pip_install

if TYPE_CHECKING:
    from .history import delete_history, save_history
    from .inspection import events_of_key, inspect_query
    from .interpreter import check_workers
    from .kafka import check_topic, parse_messages, read_topic
    from .options import History
    from .publishing import report_counts
    from .queries import sql
    from .runners.workers import executor_store
    from .sliding import recommended_conf, sliding_aggregate

#: The exported names that need Spark, with their modules.
_HOMES = {
    "History": "options",
    "check_topic": "kafka",
    "check_workers": "interpreter",
    "delete_history": "history",
    "events_of_key": "inspection",
    "executor_store": "runners.workers",
    "inspect_query": "inspection",
    "parse_messages": "kafka",
    "read_topic": "kafka",
    "recommended_conf": "sliding",
    "report_counts": "publishing",
    "save_history": "history",
    "sliding_aggregate": "sliding",
    "sql": "queries",
}
__all__ = [
    "History", "check_topic", "check_workers", "delete_history",
    "events_of_key", "executor_store", "inspect_query", "parse_messages", "read_topic",
    "recommended_conf", "report_counts", "save_history", "sliding_aggregate", "small_groups",
    "sql",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        # If the library is installed, one of its own modules is missing.
        if missing not in ("pyspark", "pandas", "pyarrow") or find_spec(missing):
            raise
        raise MissingDependency(f"{name} needs {missing}: {pip_install('spark')}") from error
    except ImportError:
        # Raises a clearer error if the versions of libraries conflict.
        import_module(f"{__name__}.versions")
        raise
    return getattr(home, name)
