"""Several windows in one query: behind one another, joined or united.

Spark takes several states of ``transformWithState`` in a query, and by itself no several ones of
``applyInPandasWithState``. Windows behind windows are seen at once. That windows are joined or
united is known only where the query starts; so Spark's refusal is caught there, and said in words
that help. Its own are about functions that the user has not called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from spark_integration.carriers.packing import BLOB
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.errors import InvalidRequest

#: Whether Spark looks for what a stream cannot do.
CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
_ours: set[Callable[..., Any]] = set()
_REFUSAL = "Multiple applyInPandasWithStates"
_WHAT_TO_DO = (
    "and Spark refuses two such in one query, though they work: set "
    f"{CHECKS} to 'false' in the session, or keep the pages of both by store='spark://state', or "
    "write the first ones' results out and read them in a query of their own"
)


def check_chain(df: DataFrame, store: str, metrics: str) -> None:
    """Raises InvalidRequest where windows behind windows are not what Spark takes.

    Reads the plan so far, which Spark Connect does not show.
    """
    jdf = getattr(df, "_jdf", None)
    if jdf is None or not df.isStreaming:
        return
    plan = jdf.queryExecution().logical().toString()
    if re.search(rf"CollectMetrics {re.escape(metrics)},", plan):
        raise InvalidRequest(
            f"the DataFrame comes from windows whose counts are called {metrics!r} already: give "
            f"these ones another name, as metrics='{metrics}_2'"
        )
    checks = df.sparkSession.conf.get(CHECKS, "true") == "true"
    if checks and not is_state_url(store) and "FlatMapGroupsInPandasWithState" in plan:
        raise InvalidRequest(f"the DataFrame comes from other windows with a state, {_WHAT_TO_DO}")


def explain_refusal(results: DataFrame) -> None:
    """Have a stream's start raise InvalidRequest where Spark refuses windows for others in it.

    PySpark has no hook there, so its method is wrapped: once for each kind of writer.
    """
    if not results.isStreaming:
        return
    writer = type(results.writeStream)
    for name in ("start", "toTable"):
        method = getattr(writer, name)
        if method not in _ours:
            ours = _explained(method)
            _ours.add(ours)
            setattr(writer, name, ours)


def _explained(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def start(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except AnalysisException as error:
            if _REFUSAL not in str(error) or BLOB not in str(error):
                raise
            raise InvalidRequest(
                f"the query has windows and others with a state beside them, {_WHAT_TO_DO}"
            ) from error

    return start
