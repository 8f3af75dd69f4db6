"""The one local Spark session that suites share, as a fixture to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Java compiles in one step, as no test runs long enough for the second one to pay. Queries of few
#: rows are not planned anew while they run, nor does Spark write Java for them, which takes longer
#: than they do. The suites of the commands and of other versions of Spark run as users do.
QUICK = {
    **dict.fromkeys(
        ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"),
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    ),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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
