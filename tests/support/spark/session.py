"""The one local Spark session that suites share, as a fixture to import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.home import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Queries of few rows are not planned again while they run, nor does Spark write Java for them,
#: which takes longer than they do. With other versions of Spark, the suites run as users do.
QUICK = {
    **dict.fromkeys(
        ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), QUICK_JAVA
    ),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "2",  # of few commits; by default 50
}


def quick_environment() -> dict[str, str]:
    """Variables by which a program starts a session as quick as the tests' own."""
    conf = {name: value for name, value in QUICK.items() if value != QUICK_JAVA}
    properties = " ".join(f"-D{name}={value}" for name, value in conf.items())
    java = os.environ.get("SPARK_SUBMIT_OPTS", QUICK_JAVA)
    return {"SPARK_SUBMIT_OPTS": f"{java} {properties}"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores; whoever asks first starts it."""
    pytest.importorskip("pyspark")
    from spark_integration.session import local_session

    session = local_session("tests", cores=2, memory="1g", conf=QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
