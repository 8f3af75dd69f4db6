"""The Spark that all commands of these tests share."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from spark_integration.session import local_session
from tests.support.spark.session import quick_environment


@pytest.fixture(scope="session", autouse=True)
def _quick() -> None:
    """Let the commands start sessions as quick as those of the other suites."""
    os.environ.update(quick_environment())


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session that the commands use, for what needs one before any command has started it."""
    return local_session()
