"""What the workers of these tests import."""

from __future__ import annotations

import os

import pyspark
import pytest
from pyspark.sql import SparkSession


def test_workers_import_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    """And not out of Spark's zip, which they would have to compile: see ``support.spark.home``."""
    if "mta-tests-spark-" not in os.environ["SPARK_HOME"]:
        pytest.skip("SPARK_HOME is set: workers import what is there")
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]
