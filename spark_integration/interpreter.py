"""Whether the Python that Spark's workers run has what they need, found out before a query starts.

Spark runs its workers by ``PYSPARK_PYTHON``, else by the first ``python3`` on ``PATH``, which is
the one of a virtual environment only where that was activated. A worker that lacks a package says
so at the end of hundreds of lines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from spark_integration.errors import InvalidRequest

#: What a worker imports, beside PySpark, which Spark brings it.
NEEDED = (
    "spark_integration", "mta", "stores", "numpy", "pandas", "pyarrow", "msgpack", "lmdb", "xxhash",
)  # fmt: skip

_PROBE = """
import sys
from importlib.util import find_spec
print(*sys.version_info[:2], *(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def check_workers(spark: SparkSession) -> None:
    """Raises InvalidRequest where the workers' Python lacks a package, and says what to do.

    On a local master starts that Python once, about 50 ms; on a cluster runs a job of one task,
    for which an executor must be there. ``sliding_aggregate`` does so by itself on a local master.
    """
    context = context_of(spark)
    if context is None:
        return
    if is_local(context):
        check_interpreter(spark)
        return
    what = _what_is_amiss(_ask_a_task(context))
    if what:
        raise InvalidRequest(
            f"the Python of Spark's workers {what}: install mta-windows on every node, or ship an "
            "environment that has it (spark-submit --archives environment.tar.gz#environment, with "
            "PYSPARK_PYTHON=environment/bin/python); docs/install.md says how"
        )


def check_interpreter(spark: SparkSession) -> None:
    """As ``check_workers``, on a local master; on a cluster nothing is done."""
    context = context_of(spark)
    if context is None or not is_local(context) or context.pythonExec == sys.executable:
        return
    # What the executors' environment adds, and the files that were shipped to them.
    environment = {**os.environ, **context.environment}
    shipped = getattr(context, "_python_includes", None) or ()
    root = SparkFiles.getRootDirectory() if shipped else ""
    paths = [*(os.path.join(root, name) for name in shipped), environment.get("PYTHONPATH", "")]
    what = _found_by(context.pythonExec, os.pathsep.join(filter(None, paths)), os.getcwd())
    if what:
        raise InvalidRequest(
            f"Spark's workers run {context.pythonExec!r}, which {what}: set the environment's "
            f"PYSPARK_PYTHON={sys.executable} before the session is made"
        )


def context_of(spark: SparkSession) -> SparkContext | None:
    """The context of a session in this process; None with Spark Connect, whose is the server's."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    return spark.sparkContext


def is_local(context: SparkContext) -> bool:
    """Whether the workers are started on this machine."""
    return (context.master or "").startswith("local")


@cache
def _found_by(python: str, path: str, _folder: str) -> str:
    """What is amiss with an interpreter, '' for nothing."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *NEEDED],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run ({error})"
    return _what_is_amiss(done.stdout.split())


def _ask_a_task(context: SparkContext) -> list[str]:
    """What ``_PROBE`` prints, by a task."""
    names = NEEDED

    # Inside a function, so that it travels by value: the worker may not have this module.
    def probe(_rows: Iterable[int]) -> Iterable[str]:
        import sys
        from importlib.util import find_spec

        yield from map(str, sys.version_info[:2])
        yield from (name for name in names if find_spec(name) is None)

    return context.parallelize([0], 1).mapPartitions(probe).collect()


def _what_is_amiss(probed: list[str]) -> str:
    version, missing = tuple(map(int, probed[:2])), probed[2:]
    if missing:
        return f"lacks {', '.join(missing)}"
    if version != sys.version_info[:2]:
        ours = ".".join(map(str, sys.version_info[:2]))
        return f"is Python {'.'.join(map(str, version))}, where this program is run by {ours}"
    return ""
