"""What the workers of these tests import."""

from __future__ import annotations

import os
import sys

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.support.spark.home import DAEMON, HOME


def test_workers_import_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    """And not out of Spark's zip, which they would have to compile, nor each for itself."""
    if os.environ["SPARK_HOME"] != str(HOME):
        pytest.skip("SPARK_HOME is set: workers import what is there")

    def look(_: int) -> tuple[str, bool]:
        return pyspark.__file__, DAEMON in sys.orig_argv

    found = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert found == [(pyspark.__file__, True)]
