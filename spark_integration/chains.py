"""Multiple windows in one query: chained, joined or united.

By default, Spark allows multiple ``transformWithState`` in a query, but only one
``applyInPandasWithState``. Chained windows are detected immediately. Joined or united windows are
only known when the query starts (``writers.py``).
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

from spark_integration.errors import InvalidRequest
from spark_integration.runners.state_pages import is_state_url

#: Whether Spark checks for operations that a stream does not support.
CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
WHAT_TO_DO = (
    "and Spark refuses two such in one query, though they work: set "
    f"{CHECKS} to 'false' in the session, or keep the pages of both by store='spark://state', or "
    "write the first ones' results out and read them in a query of their own"
)


def check_chain(df: DataFrame, store: str, metrics: str) -> None:
    """Raises InvalidRequest if Spark does not support the chained windows.

    Reads the plan so far, which Spark Connect does not expose.
    """
    jdf = getattr(df, "_jdf", None)
    if jdf is None or not df.isStreaming:
        return
    plan = jdf.queryExecution().logical().toString()
    if re.search(rf"CollectMetrics {re.escape(metrics)},", plan):
        raise InvalidRequest(
            f"the DataFrame comes from windows whose counts are called {metrics!r} already: give "
            f"these ones another name, such as metrics='{metrics}_2'"
        )
    checks = df.sparkSession.conf.get(CHECKS, "true") == "true"
    if checks and not is_state_url(store) and "FlatMapGroupsInPandasWithState" in plan:
        raise InvalidRequest(f"the DataFrame comes from other windows with a state, {WHAT_TO_DO}")
