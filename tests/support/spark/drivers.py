"""Spark drivers in processes of their own, the workers below them, and a cluster on one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from spark_integration.java import ensure_java
from tests.support.faulty import eventually
from tests.support.spark.checkpoints import entries
from tests.support.spark.driver import begin
from tests.support.spark.home import DAEMON, QUICK_JAVA

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATIENCE = 600.0
"""How long anything may take on a machine that has much else to do; nothing waits for it idly."""


class Driver:
    """One query, whose driver is started, killed and started again on the same folder.

    ``program`` is the module that runs it.
    """

    def __init__(
        self, folder: Path, store: str, program: str = "tests.support.spark.driver", **job: Any
    ) -> None:
        self.folder, self.store, self.program = folder, store, program
        self.log = folder / "driver.log"
        self.input, self.output = folder / "input", folder / "output"
        self.checkpoint = folder / "checkpoint"
        self.job: dict[str, Any] = {
            "folder": str(folder),
            "store": store,
            "master": "local[2]",
            "files": 1,
            "window": 50,
            "arity": 4,
            "buckets": 2,
            "memory": "1g",
            "plain": False,
            "fault": None,
            "conf": {},
            **job,
        }
        self.process: subprocess.Popen[str] | None = None
        #: How many of its Python workers were killed since it was started.
        self.killed = 0

    def start(self, *more: Driver, **changes: Any) -> None:
        """Return when the query has started; the queries of ``more`` follow it in its session."""
        self.killed = 0
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [
            sys.executable,
            "-m",
            self.program,
            json.dumps([{**self.job, **changes}, *(other.job for other in more)]),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "started\n", self.why()

    def kill(self) -> None:
        """Kill the driver, its Java and its executors at once; Python workers find out later."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self, patience: float = PATIENCE) -> None:
        """Wait for the end of the input."""
        assert self.process is not None
        try:
            assert self.process.wait(patience) == 0, self.why()
        except BaseException:
            self.kill_if_alive()
            raise

    def go_on_in(self, session: SparkSession) -> None:
        """Run the query to the end of the input in a session that is there: no Java is started."""
        begin(session, self.job).awaitTermination()

    def kill_if_alive(self) -> None:
        """For the end of a test that failed."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def batches(self, log: str) -> int:
        """How many micro-batches have started ("offsets") or are committed ("commits")."""
        return len(entries(self.checkpoint, log))

    def wait_for_commits(self, count: int) -> None:
        """Until so many batches are committed, or the driver has ended."""
        assert self.process is not None
        process = self.process
        eventually(lambda: self.batches("commits") >= count or process.poll() is not None, PATIENCE)

    def why(self) -> str:
        """What the driver said last."""
        return self.log.read_text(errors="replace")[-3000:]


def workers_below(root: int) -> list[int]:
    """The Python workers, not their daemons, of all executors below a process."""
    parents, daemons = {}, set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        pid = int(entry.name)
        parents[pid] = int(stat.rpartition(")")[2].split()[1])
        if any(daemon.encode() in command for daemon in ("pyspark.daemon", DAEMON)):
            daemons.add(pid)
    return sorted(
        pid for pid in daemons if parents[pid] in daemons and root in _ancestors(pid, parents)
    )


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


@contextmanager
def standalone_cluster(
    folder: Path, port: int, home: str = "", path: str = str(ROOT), workers: int = 2
) -> Iterator[str]:
    """A master and workers of one core, each with an address of its own; gives the URL.

    Spark is the one in ``home``, by default the tests' own. Workers also find modules in ``path``.
    On ``local-cluster`` all executors have one host's name, and Spark never runs a task's second
    attempt on the host of its first.
    """
    ensure_java()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir"]
    started = []
    try:
        with (folder / "cluster.log").open("ab") as log:
            started.append(_spark_class(master, log, home, path))
            for host in (f"127.0.0.{2 + number}" for number in range(workers)):
                here = [*worker, str(folder / host), "--host", host, url]
                started.append(_spark_class(here, log, home, path))
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _spark_class(arguments: list[str], log: Any, home: str, path: str) -> subprocess.Popen[bytes]:
    home = home or _find_spark_home()
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_HOME": home}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["SPARK_DAEMON_MEMORY"] = "256m"
    environment["SPARK_DAEMON_JAVA_OPTS"] = QUICK_JAVA
    environment.pop("SPARK_LOCAL_IP", None)  # each has its own
    command = [str(Path(home, "bin", "spark-class")), f"org.apache.spark.deploy.{arguments[0]}"]
    return subprocess.Popen(
        [*command, *arguments[1:]], env=environment, stdout=log, stderr=log, start_new_session=True
    )
