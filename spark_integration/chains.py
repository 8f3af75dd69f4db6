"""Multiple windows in one query: chained, joined or united.

By default, Spark allows multiple ``transformWithState`` operators in a query, but only one
``applyInPandasWithState``. Chained windows are detected immediately, joined or united windows only
when the query starts (``writers.py``).
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

from spark_integration.errors import InvalidRequest
from spark_integration.runners.state_pages import is_state_url

#: The setting of whether Spark checks for operations that a stream does not support.
CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
WHAT_TO_DO = (
    "and Spark refuses two such operators in one query, although they work: set "
    f"{CHECKS} to 'false' in the session, or use store='spark://state' for both, or write the "
    "results of the first windows to files or a topic and read these in another query"
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
            f"the DataFrame comes from windows whose counts are also called {metrics!r}: choose "
            f"another name here, such as metrics='{metrics}_2'"
        )
    checks = df.sparkSession.conf.get(CHECKS, "true") == "true"
    if checks and not is_state_url(store) and "FlatMapGroupsInPandasWithState" in plan:
        raise InvalidRequest(f"the DataFrame comes from other windows with a state, {WHAT_TO_DO}")
