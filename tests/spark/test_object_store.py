"""A stream whose pages are in S3: exact, and how many requests a micro-batch makes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, BUCKETS = 6, 2


@pytest.mark.proves("stores", "a Spark stream with a restart", "s3")
def test_a_micro_batch_makes_two_requests_a_bucket_at_most(
    spark: SparkSession, tmp_path: Path, s3_server: S3Server
) -> None:
    from tests.support.spark.events import last_n, make_events, oracle, spread, write_files
    from tests.support.spark.jobs import FOLDS, WINDOW, Job

    job = Job(spark, tmp_path)
    job.store = s3_server.url(uuid4().hex, f"cache_dir={tmp_path}/cache")
    events = spread(make_events(BATCHES * 400, keys=20))
    write_files(events, job.input, files=BATCHES)
    counts: list[Counter[str]] = []
    job.run(lambda batch: counts.append(s3_server.requests()), arity=64, leaf_arity=64)
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    made = [(after - before).total() for before, after in pairwise(counts)]
    assert max(made) <= 2 * BUCKETS
    assert sum(made) <= 1.25 * BUCKETS * len(made), "on average little more than a put"
    # The driver and its workers are other processes than those that have written.
    job.remove_commit(BATCHES - 1)
    job.run(arity=64, leaf_arity=64)
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    job.check_places(events)
