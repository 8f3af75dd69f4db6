"""The Spark that all commands of these tests share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_integration.session import local_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session that the commands use, for what needs one before any command has started it."""
    return local_session()
