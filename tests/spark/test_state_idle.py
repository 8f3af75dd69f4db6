"""Silent keys and late rows with the pages in Spark's own state: its timers are others.

What is expected is imported from ``test_idle_stream.py``, and runs with the job of this file: by
``make soak``, as by default ``test_changes.py`` has keys expire there, and replays are those of
``test_state_stream.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import test_idle_stream as over_any_store
from tests.spark.test_idle_stream import IdleJob
from tests.support.sampling import rest_of

test_restarts_and_replays_give_every_row_once = rest_of(
    over_any_store.test_restarts_and_replays_give_every_row_once
)
test_a_key_that_stops_goes_with_its_pages = rest_of(
    over_any_store.test_a_key_that_stops_goes_with_its_pages
)
test_a_killed_worker_is_made_good_by_the_restart = rest_of(
    over_any_store.test_a_killed_worker_is_made_good_by_the_restart
)
test_events_before_1970_are_never_idle = rest_of(
    over_any_store.test_events_before_1970_are_never_idle
)
test_late_rows_come_out_beside_the_results = rest_of(
    over_any_store.test_late_rows_come_out_beside_the_results
)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> IdleJob:
    job = IdleJob(spark, tmp_path)
    job.store = "spark://state"
    return job
