"""A home of Spark for the tests, whose Java and Python workers start in a fraction of the time."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

DAEMON = "tests.support.spark.worker_daemon"

#: Java compiles in one step and collects on one thread, as no test runs long enough for more to
#: pay, and takes the 20,000 classes that a query loads for sound: to look through them is a sixth
#: of the processor's time of a short run.
QUICK_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
#: In the environment of the Python that runs the tests, so that it suits that PySpark.
HOME = Path(sys.prefix, "mta-tests-spark")
#: Spark's classes as Java has loaded them once (``classes.py``), without which a session and its
#: first query take half as much again of the processor's time. Java passes over an archive that
#: does not suit it or its class path.
CLASSES = HOME / "classes.jsa"
#: Hadoop's local file system starts a process, ``chmod``, for each file and folder that it creates:
#: ten for a micro-batch, a sixth of its processor time. This one, made by ``classes.py``, does not.
FILES = HOME / "files.jar"
FILES_CLASS = "QuickLocalFileSystem"
QUICK_JAVA = (
    f"{QUICK_START} -Xlog:cds*=off -XX:SharedArchiveFile={CLASSES}"
    if CLASSES.exists()
    else QUICK_START
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
    # Without files of configuration: an archive of classes wants an empty folder in their place.
    (HOME / "conf").mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars"):
        with suppress(FileExistsError):
            (HOME / part).symlink_to(Path(package.origin).parent / part)
    os.environ["SPARK_HOME"] = str(HOME)
    options = f"{QUICK_JAVA} -Dspark.python.daemon.module={DAEMON}"
    if FILES.exists():
        os.environ["SPARK_DIST_CLASSPATH"] = str(FILES)  # the end of every Java's class path
        options += f" -Dspark.hadoop.fs.file.impl={FILES_CLASS}"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
