"""The one local Spark session that suites share, as a fixture to import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.home import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Queries of few rows are not planned again while they run, nor does Spark write Java for them,
#: which takes longer than they do. The suites of the commands and of other versions of Spark run as
#: users do.
QUICK = {
    **dict.fromkeys(
        ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), QUICK_JAVA
    ),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def quick_environment(folder: Path) -> dict[str, str]:
    """Variables by which a program starts a session as quick as the tests' own."""
    java = QUICK["spark.driver.extraJavaOptions"]
    conf = {name: value for name, value in QUICK.items() if value != java}
    conf["spark.databricks.delta.snapshotPartitions"] = "2"  # of few commits; by default 50
    lines = "".join(f"{name} {value}\n" for name, value in conf.items())
    (folder / "spark-defaults.conf").write_text(lines)
    return {"SPARK_CONF_DIR": str(folder), "JAVA_TOOL_OPTIONS": java}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores; whoever asks first starts it."""
    pytest.importorskip("pyspark")
    from spark_integration.session import local_session

    session = local_session("tests", cores=2, memory="1g", conf=QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
