"""The one local Spark session that suites share, as a fixture to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Java compiles in one step, as no test runs long enough for the second one to pay, and queries of
#: a few rows are not planned anew while they run. The suites of the commands run as users do.
QUICK = {
    **dict.fromkeys(
        ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"),
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    ),
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores; whoever asks first starts it."""
    pytest.importorskip("pyspark")
    from spark_integration.session import local_session

    session = local_session("tests", cores=2, memory="1g", conf=QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
