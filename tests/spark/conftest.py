"""One local Spark session for all tests of this folder, and rows to feed it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.support.spark.session import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.spark.jobs import Job

__all__ = ["spark"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/pages"


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    from tests.support.spark.jobs import Job  # not with libraries that cannot be imported

    return Job(spark, tmp_path)
