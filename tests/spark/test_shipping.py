"""The commands of docs/install.md that ship the packages, on a cluster whose nodes lack them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from spark_integration.java import ensure_java
from tests.support.documents import DOCS, ROOT, blocks
from tests.support.servers import free_port
from tests.support.spark.drivers import standalone_cluster
from tests.support.spark.home import QUICK_JAVA
from tests.support.spark.session import QUICK

#: Windows over two files, one after the other; and where the workers have the package from.
JOB = """
import os
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from mta import Count, CountWindow, Max
from spark_integration import recommended_conf, sliding_aggregate

spark = SparkSession.builder.getOrCreate()
here = os.getcwd()
rows = spark.range(4000).selectExpr("concat('d', id % 7) k", "double(id) t", "double(id % 97) v")
rows.repartition(2).write.mode("overwrite").parquet(f"{here}/in")
windows = sliding_aggregate(
    spark.readStream.schema(rows.schema).parquet(f"{here}/in"), by="k", on="t",
    aggregations={"peak": ("v", Max()), "n": (None, Count())}, window=CountWindow(100),
    store=f"file://{here}/pages", buckets=4,
)
writer = windows.writeStream.format("parquet").trigger(availableNow=True)
writer.option("checkpointLocation", f"{here}/checkpoint").start(f"{here}/out").awaitTermination()

def place(_rows):
    import mta
    import socket
    yield mta.__file__

found = spark.read.parquet(f"{here}/out")
print("rows:", found.count(), "right:", found.where("n = least(100, 1 + floor(t / 7))").count())
print("from:", *set(spark.sparkContext.parallelize([0], 1).mapPartitions(place).collect()))
"""
BLOCKS = [block for block in blocks(DOCS / "install.md", "") if "spark-submit" in block]
#: Spark as it is installed, which brings its workers PySpark.
HOME = str(Path(pyspark.__file__).parent)
#: What the nodes have, of the project: nothing.
NEVER = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "SPARK_REMOTE")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a job in it, whose kernels are compiled if those of this one are."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("mta", "stores", "spark_integration"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "job.py").write_text(JOB)
    built = f"build/lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}/mta/kernels"
    (folder / built).mkdir(parents=True)
    for kernels in (ROOT / "mta" / "kernels").glob("*.abi3.so"):
        shutil.copyfile(kernels, folder / built / kernels.name)
    return folder


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder, free_port(), HOME, path="", workers=1) as url:
        yield url


def submit(place: Path, master: str, commands: str, **environment: str) -> str:
    """Run commands as a user types them, in the checkout; gives what they print, errors last."""
    conf = place / "conf"
    conf.mkdir(exist_ok=True)
    settings = {
        "spark.master": master, "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.driver.memory": "512m", "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2", **QUICK,
    }  # fmt: skip
    lines = (f"{name} {value}" for name, value in settings.items())
    (conf / "spark-defaults.conf").write_text("\n".join(lines))
    path = [str(Path(HOME, "bin")), str(Path(sys.executable).parent), os.environ["PATH"]]
    given = {name: value for name, value in os.environ.items() if name not in NEVER}
    given |= {"SPARK_HOME": HOME, "SPARK_CONF_DIR": str(conf), "PATH": os.pathsep.join(path)}
    given["SPARK_SUBMIT_OPTS"] = QUICK_JAVA  # and not the tests' own daemon of workers
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=place, text=True, capture_output=True,
        # What is imported is compiled by itself; pip would compile the tests of pandas, too.
        env={**given, "JAVA_HOME": str(ensure_java()), "PIP_COMPILE": "0", **environment},
        timeout=1800,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"{done.stdout}\n{done.stderr[-5000:]}")
    return done.stdout


@pytest.mark.soak  # an environment is made and packed, and seven Javas start
@pytest.mark.proves("PySpark", "shipping the packages to a cluster")
def test_an_environment_is_shipped_and_then_the_packages_alone(place: Path, master: str) -> None:
    of_environment, of_wheel = BLOCKS
    said = submit(place, master, of_environment)
    assert "rows: 4000 right: 4000" in said
    assert "/environment/lib/" in said.partition("from: ")[2]
    with tarfile.open(place / "environment.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "/pyspark" in name]

    # The nodes have the libraries now, in the environment, and the project no more.
    for name in ("in", "out", "checkpoint", "pages"):
        shutil.rmtree(place / name)
    libraries = place / "environment" / "bin" / "python"
    # Isolated: in a checkout pip would find its .egg-info first, and leave the installed one alone.
    uninstall = [libraries, "-I", "-m", "pip", "-q", "uninstall", "-y", "mta-windows"]
    subprocess.run(uninstall, check=True)
    for name in ("mta", "stores", "spark_integration"):
        shutil.rmtree(place / name)
    nodes = {"PYSPARK_PYTHON": str(libraries), "PYSPARK_DRIVER_PYTHON": str(libraries)}
    said = submit(place, master, of_wheel, **nodes)
    assert "rows: 4000 right: 4000" in said
    assert "mta_windows.zip/mta/" in said.partition("from: ")[2]
