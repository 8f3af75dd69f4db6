"""A home of Spark for the tests, whose Python workers start in a fifth of the time."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

DAEMON = "tests.support.spark.worker_daemon"

#: Java compiles in one step and collects on one thread, as no test runs long enough for more to
#: pay, and takes the 20,000 classes that a query loads for sound: to look through them is a sixth
#: of the processor's time of a short run.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def set_up_home() -> None:
    """Let Spark's Java find all of the installed PySpark but the zip of its Python sources.

    Workers import that zip before all else, and compile what they need of it each time, which is
    1.3 s of a core. Java waits 10 s, not to be configured, for the worker that begins a query with
    ``spark://state``, and ends the query with "Python worker failed to connect back": ten busy
    processes beside it are enough. Without the zip workers import the package as it is installed.
    What is imported for a query, they have from the daemon that forks them (``worker_daemon.py``).
    """
    package = find_spec("pyspark")
    if package is None or package.origin is None or "SPARK_HOME" in os.environ:
        return
    installed = Path(package.origin).parent
    home = Path(tempfile.mkdtemp(prefix="mta-tests-spark-"))
    for part in ("bin", "jars"):
        (home / part).symlink_to(installed / part)
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(f"spark.python.daemon.module {DAEMON}\n")
    os.environ["SPARK_HOME"] = str(home)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
