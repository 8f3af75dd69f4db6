"""The workers' Python is looked at before a query starts."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mta import Count, CountWindow
from spark_integration import check_workers, interpreter, sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.java import ensure_java
from tests.support.spark.home import QUICK_JAVA

ROOT = Path(__file__).parents[2]

#: A job as one writes it first: a session of its own, and nothing set.
JOB = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pyspark.sql import SparkSession
from mta import Count, CountWindow
from spark_integration import check_workers, interpreter, sliding_aggregate

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
events = spark.createDataFrame([("a", 1.0)], "k string, t double")
try:
    sliding_aggregate(
        events, by="k", on="t", aggregations={{"n": (None, Count())}}, window=CountWindow(1),
        store="file:///nowhere",
    )
except ValueError as error:
    print("up front:", error)
interpreter.is_local = lambda context: False  # as on a cluster, where a task is asked
try:
    check_workers(spark)
except ValueError as error:
    print("by a task:", error)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python3"


def counted(spark: SparkSession, store: str) -> Any:
    events = spark.createDataFrame([("a", 1.0)], "k string, t double")
    return sliding_aggregate(
        events, by="k", on="t", aggregations={"n": (None, Count())}, window=CountWindow(1),
        store=store,
    )  # fmt: skip


@pytest.mark.soak
def test_a_job_without_activation_is_reported_what_to_set(bare: Path, tmp_path: Path) -> None:
    """In place of some hundred lines from the workers."""
    (tmp_path / "job.py").write_text(JOB)
    left_out = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PATH": f"{bare.parent}:{os.environ['PATH']}", "JAVA_HOME": str(ensure_java())}
    environment["SPARK_SUBMIT_OPTS"] = QUICK_JAVA  # and not the tests' own daemon of workers
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    up_front, by_a_task = done.stdout.splitlines()
    assert up_front.startswith("up front: Spark's workers run 'python3', which does not have ")
    assert f"PYSPARK_PYTHON={sys.executable} before the session" in up_front
    assert by_a_task.startswith("by a task: the Python of Spark's workers does not have spark")
    assert "--archives" in by_a_task


def test_what_is_amiss_is_named(
    spark: SparkSession, bare: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(bare))
    with pytest.raises(InvalidRequest, match=r"does not have numpy, pandas, pyarrow.*: set the"):
        counted(spark, store)  # the packages of the project itself are on PYTHONPATH
    monkeypatch.setattr(context, "pythonExec", "/no/such/python")
    with pytest.raises(InvalidRequest, match="'/no/such/python', which does not run"):
        counted(spark, store)
    monkeypatch.setattr(interpreter, "NEEDED", ())
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    monkeypatch.setattr(context, "pythonExec", sys.executable + "3")
    old = interpreter.Probed((3, 9), (), "26.0.1", "")
    monkeypatch.setattr(interpreter, "_found_by", lambda *_: old)
    with pytest.raises(InvalidRequest, match=r"is Python 3.9, but this program runs on 3.99"):
        counted(spark, store)


def test_what_executors_are_given_counts(
    spark: SparkSession, bare: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their environment, and the files that were shipped, bring packages too."""
    site = str(Path(pytest.__file__).parents[1])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", f"{ROOT}:{site}")
    assert counted(spark, store).columns == ["k", "t", "n"]


def test_a_good_one_is_let_pass(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers(spark)
    monkeypatch.setattr(interpreter, "is_local", lambda context: False)
    check_workers(spark)


def test_a_cluster_is_asked_by_itself_and_once_it_has_all_never_again(
    spark: SparkSession, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(context: Any) -> interpreter.Probed:
        asked.append(context)
        missing = ("mta", "xxhash") if len(asked) == 1 else ()
        return interpreter.Probed(sys.version_info[:2], missing, "25.0.1", "")

    monkeypatch.setattr(interpreter, "is_local", lambda context: False)
    monkeypatch.setattr(interpreter, "_ask_a_task", ask)
    monkeypatch.setattr(interpreter, "_of_applications", {})
    with pytest.raises(InvalidRequest, match=r"does not have mta, xxhash: install .*--archives"):
        counted(spark, store)
    for _ in range(2):
        assert counted(spark, store).columns == ["k", "t", "n"]
    assert len(asked) == 2


def test_a_pyarrow_that_cannot_be_imported_is_named(
    spark: SparkSession, bare: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it wants a newer numpy than PySpark 3.5 does."""
    site, broken = str(Path(pytest.__file__).parents[1]), tmp_path / "pyarrow.py"
    broken.write_text("raise ImportError('pyarrow requires NumPy 2.0 or newer, found 1.26.4')")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", f"{tmp_path}:{ROOT}:{site}")
    with pytest.raises(InvalidRequest, match=r"cannot import pyarrow \(.* NumPy 2.0 or newer"):
        counted(spark, store)
