"""The packages of Delta and Iceberg for the PySpark that is installed."""

from __future__ import annotations

import pytest

from tests.support.maven import fetched


def package_of(kind: str) -> str:
    """The jars of a format, as ``spark.jars`` takes them; skips where it has no release."""
    pyspark = pytest.importorskip("pyspark")
    version = ".".join(pyspark.__version__.split(".")[:2])
    artifact = {
        "delta": f"io.delta:delta-spark_{version}_2.13:4.4.0",
        "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-{version}_2.13:1.12.0",
    }[kind]
    jars = fetched(artifact)
    if not jars:
        pytest.skip(
            f"NOT TESTED: Maven Central did not give {artifact}; 'nox -s tables' runs this "
            "with a PySpark that has a release of it"
        )
    return ",".join(map(str, jars))
