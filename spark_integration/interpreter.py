"""Check that the Python of Spark's workers has the needed packages, before a query starts.

Spark runs its workers with ``PYSPARK_PYTHON``, or else with the first ``python3`` on ``PATH``,
which belongs to a virtual environment only if that environment is active. Without this check, the
error about a missing package is at the end of hundreds of lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_integration.errors import InvalidRequest
from spark_integration.versions import check_pyarrow

#: The packages that a worker imports, except PySpark, which Spark provides.
NEEDED = (
    "spark_integration", "mta", "stores", "numpy", "pandas", "pyarrow", "msgpack", "lmdb", "xxhash",
)  # fmt: skip

#: This is source text because the workers may not have this module. It assigns ``found``.
_PROBE = """
import sys
from importlib.util import find_spec

missing = [name for name in names if find_spec(name) is None]
found = {"python": list(sys.version_info[:2]), "missing": missing, "pyarrow": "", "error": ""}
try:
    import pyarrow
    found["pyarrow"] = pyarrow.__version__
except ImportError as error:
    found["error"] = "" if "pyarrow" in missing else str(error)
"""


class Probed(NamedTuple):
    """The versions in a worker's Python."""

    python: Sequence[int]
    missing: Sequence[str]
    pyarrow: str
    """The version of pyarrow."""
    error: str
    """Why pyarrow cannot be imported, empty if it can."""


def check_workers(spark: SparkSession, *, streams: bool = True) -> None:
    """Raise InvalidRequest, which says what to do, if the workers' Python is missing a package.

    On a local master, this starts the workers' Python once (about 50 ms) if it is not the driver's.
    On a cluster, it runs a job of one task once per application, which needs an executor.
    ``sliding_aggregate`` calls this function. With Spark Connect nothing is checked, because the
    workers belong to the server.

    Args:
        spark: The session.
        streams: Whether to check also that a stream with its pages in a store can run: some
            versions of PySpark cannot run one with every version of pyarrow.
    """
    context = context_of(spark)
    if context is None:
        return
    local = is_local(context)
    probed = _of_this_machine(context) if local else _of_a_cluster(context)
    if what := _what_is_amiss(probed):
        raise InvalidRequest(
            f"Spark's workers run {context.pythonExec!r}, which {what}: set the environment's "
            f"PYSPARK_PYTHON={sys.executable} before the session is created"
            if local
            else f"the Python of Spark's workers {what}: install mta-windows on every node, or "
            "ship an environment that has it (spark-submit --archives "
            "environment.tar.gz#environment, with PYSPARK_PYTHON=./environment/bin/python); "
            "docs/install.md says how"
        )
    if streams:
        check_pyarrow(spark.version, probed.pyarrow)


def context_of(spark: SparkSession) -> SparkContext | None:
    """Return the context of a session in this process; None with Spark Connect."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    return spark.sparkContext


def is_local(context: SparkContext) -> bool:
    """Return whether the workers run on this machine."""
    return (context.master or "").startswith("local")


def _of_this_machine(context: SparkContext) -> Probed:
    if context.pythonExec == sys.executable:
        return Probed(sys.version_info[:2], (), pa.__version__, "")
    # Use the executors' environment, and the files that were shipped to them.
    environment = {**os.environ, **context.environment}
    shipped = getattr(context, "_python_includes", None) or ()
    root = SparkFiles.getRootDirectory() if shipped else ""
    paths = [*(os.path.join(root, name) for name in shipped), environment.get("PYTHONPATH", "")]
    return _found_by(context.pythonExec, os.pathsep.join(filter(None, paths)), os.getcwd())


@cache
def _found_by(python: str, path: str, _folder: str) -> Probed:
    """Probe an interpreter; if it does not run, the result has the error."""
    script = f"import json\nnames = {NEEDED!r}\n{_PROBE}\nprint(json.dumps(found))"
    try:
        done = subprocess.run(
            [python, "-c", script],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return Probed(**json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return Probed((), (), "", f"does not run ({error})")


#: The result for each application, by the application's id.
_of_applications: dict[str, Probed] = {}


def _of_a_cluster(context: SparkContext) -> Probed:
    """Probe the Python that runs tasks; only a result without problems is cached."""
    known = _of_applications.get(context.applicationId)
    if known is None:
        known = _ask_a_task(context)
        if not _what_is_amiss(known):
            _of_applications[context.applicationId] = known
    return known


def _ask_a_task(context: SparkContext) -> Probed:
    source, names = _PROBE, NEEDED

    # Inside a function, so that it is pickled by value: the worker may not have this module.
    def probe(_rows: Iterable[int]) -> Iterable[dict[str, Any]]:
        scope: dict[str, Any] = {"names": names}
        exec(source, scope)
        yield scope["found"]

    try:
        return Probed(**context.parallelize([0], 1).mapPartitions(probe).first())
    except (Py4JError, PySparkException) as error:
        lines = [line.strip() for line in str(error).splitlines()]
        causes = [line for line in lines if "Exception: " in line or "Error: " in line]
        return Probed((), (), "", f"does not run a task ({(causes or lines)[-1]})")


def _what_is_amiss(probed: Probed) -> str:
    """Return what prevents a query from running there; '' if nothing does."""
    if not probed.python:
        return probed.error
    if probed.missing:
        return f"does not have {', '.join(probed.missing)}"
    if tuple(probed.python) != sys.version_info[:2]:
        ours = ".".join(map(str, sys.version_info[:2]))
        return f"is Python {'.'.join(map(str, probed.python))}, but this program runs on {ours}"
    return f"cannot import pyarrow ({probed.error})" if probed.error else ""
