"""Sliding windows for PySpark: ``from spark_integration import sliding_aggregate``.

PySpark is an extra, so it is imported only when one of these names is asked for.

- ``sliding``: ``sliding_aggregate`` itself
- ``boundary``: the Parallel Boundary Aggregator, over streams and batches
- ``history``: the windows that a stream goes on from, made of a batch
- ``request``, ``options``, ``plan``: from what is asked to plain data for the workers
- ``kafka``: topics as streams of events
- ``publishing``: windows for other processes to read, after each committed batch
- ``chains``: multiple windows in one query
- ``writers``: output modes and triggers that Spark cannot run windows with
- ``step``: one micro-batch of some keys, without Spark
- ``runners``: how Spark calls the step
- ``session``, ``java``, ``versions``: a local Spark, and what differs between its versions
- ``starting``: the settings that a query starts with, where the session has none
- ``checkpoint``, ``inspection``: what a query has left, and a look into its windows
- ``migration``: its state with other buckets, or in another store
- ``reports``: the counts of queries, to whoever watches them
- ``interpreter``: whether the workers' Python has the packages
- ``errors``, ``cli``: what goes wrong, and the command line
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mta.errors import MissingDependency
from mta.keyed.standalone import small_groups
from stores.installing import pip_install

if TYPE_CHECKING:
    from .boundary import boundary_aggregate
    from .history import delete_history, save_history
    from .inspection import events_of_key, inspect_query
    from .interpreter import check_workers
    from .kafka import check_topic, parse_messages, read_topic
    from .options import History
    from .reports import report_counts
    from .runners.workers import executor_store
    from .sliding import recommended_conf, sliding_aggregate

#: What is exported of Spark, and the module that has it.
_HOMES = {
    "History": "options",
    "boundary_aggregate": "boundary",
    "check_topic": "kafka",
    "check_workers": "interpreter",
    "delete_history": "history",
    "events_of_key": "inspection",
    "executor_store": "runners.workers",
    "inspect_query": "inspection",
    "parse_messages": "kafka",
    "read_topic": "kafka",
    "recommended_conf": "sliding",
    "report_counts": "reports",
    "save_history": "history",
    "sliding_aggregate": "sliding",
}
__all__ = [
    "History", "boundary_aggregate", "check_topic", "check_workers", "delete_history",
    "events_of_key", "executor_store", "inspect_query", "parse_messages", "read_topic",
    "recommended_conf", "report_counts", "save_history", "sliding_aggregate", "small_groups",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("pyspark", "pandas", "pyarrow") or find_spec(missing):  # a part of it
            raise
        raise MissingDependency(f"{name} needs {missing}: {pip_install('spark')}") from error
    except ImportError:
        import_module(f"{__name__}.versions")  # which says what library does not suit another
        raise
    return getattr(home, name)
