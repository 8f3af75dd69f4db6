"""The progress of a run: files, rows and rows that cannot be used, batch by batch; and its failure.

The stack traces of Spark's errors go to the log; the command shows only the cause.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from mta.cli.console import FULL_DISK, ProgressLine, plural, say
from spark_integration.checkpoint import last_batch
from spark_integration.cli.stream import INPUT_METRICS
from spark_integration.runners.packing import METRICS
from stores.errors import WindowStoreError

POLL_SECONDS = 0.25
#: What a write buffer's error promises to callers that keep their windows; a command does not.
HELD_PAGES = re.compile(r"[;:] \d+ bytes are held and will be sent when it is back: retry then")
_WHAT_TO_DO = (
    "nothing is lost: when the cause is removed, start the same command again; it continues "
    "after the last finished batch"
)
MAKE_ROOM = (
    "make room on the disk of the output folder, and on the disk of Spark's temporary files "
    "(spark.local.dir), and run the command again: it continues where it stopped"
)


@dataclass
class Reason:
    """Why some rows could not be used: the reason, their number, and the first of them."""

    text: str
    rows: int = 0
    example: dict[str, Any] = field(default_factory=dict)

    def describe(self, unit: str) -> str:
        """Return a line of text; ``unit`` is what row numbers count in a file, "line" or "row"."""
        found = f": {self.example['found']!r}" if self.example.get("found") else ""
        where = f"{self.example['file']}, {unit} {self.example['row']:,}"
        return f"{self.rows:,} x {self.text}, first in {where}{found}"


@dataclass
class Progress:
    """What the query has read so far; ``seconds`` are of the clock or, with ``follow``, of work."""

    rows: int = 0
    late: int = 0
    ahead: int = 0
    invalid: int = 0
    batches: int = 0
    files: int = 0
    """The files with content that this run and earlier runs have read."""
    all_files: int | None = None
    """The number of files in the input; None for a folder that receives new files."""
    reasons: Sequence[Reason] = ()
    seconds: float = 0.0
    busy_seconds: float = 0.0
    stopped: bool = False
    last_batch: int = field(default=-1, repr=False)
    earlier: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self.earlier = self.files

    def update(self, query: StreamingQuery) -> None:
        """Add the batches that have ended since the last call."""
        for progress in query.recentProgress:
            if progress["batchId"] > self.last_batch and progress["numInputRows"]:
                metrics = progress["observedMetrics"]
                counts = metrics[METRICS]
                self.files += progress["numInputRows"]  # the rows of the source are files
                self.rows += counts["rows_read"]
                self.late += counts["rows_late"]
                self.ahead += counts["rows_ahead"]
                self.invalid += counts["rows_invalid"]
                for at, reason in enumerate(self.reasons if INPUT_METRICS in metrics else ()):
                    reason.rows += metrics[INPUT_METRICS][f"n{at}"]
                    if not reason.example:
                        reason.example = json.loads(metrics[INPUT_METRICS][f"e{at}"] or "{}")
                self.batches += 1
                self.busy_seconds += progress["durationMs"]["triggerExecution"] / 1000
                self.last_batch = progress["batchId"]

    @property
    def rate(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        of = "" if self.all_files is None else f" of {self.all_files:,}"
        left, read = "", self.files - self.earlier
        if self.all_files is not None and read:
            remaining = max(0, self.all_files - self.files) * self.seconds / read
            left = f", about {duration(remaining)} left"
        rows = plural(self.rows, "row")
        return f"file {self.files:,}{of} done, {rows}, {self.rate:,.0f} rows/s{left}"

    def __str__(self) -> str:
        return (
            f"{plural(self.rows, 'row')} in {plural(self.batches, 'batch')}, "
            f"{self.seconds:.1f} s, {self.rate:,.0f} rows/s"
        )


def duration(seconds: float) -> str:
    """Return a waiting time as text.

    >>> duration(8.2), duration(200), duration(9000)
    ('8 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def files_done(checkpoint: Path, files: Sequence[Path]) -> int:
    """Return how many of the files the committed batches of a checkpoint have read."""
    batch = last_batch(checkpoint / "commits")
    if batch < 0:
        return 0
    offset = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    newest = json.loads(offset)["logOffset"] if offset.startswith("{") else -1
    logs = (checkpoint / "sources" / "0").glob("[0-9]*")
    entries = [json.loads(line) for log in logs for line in log.read_text().splitlines()[1:]]
    paths = {entry["path"] for entry in entries if entry["batchId"] <= newest}
    return len({unquote(path).removeprefix("file://") for path in paths} & set(map(str, files)))


def follow_query(
    query: StreamingQuery, progress: Progress, stop: threading.Event, *, by_work: bool
) -> None:
    """Show the progress until the query ends or ``stop`` is set. Raises RunFailed.

    ``by_work`` counts only the seconds of work, without the wait for files.
    """
    line, began = ProgressLine(), time.monotonic()
    while query.isActive and not stop.wait(POLL_SECONDS):
        progress.update(query)
        now = time.monotonic() - began
        progress.seconds = progress.busy_seconds if by_work else now
        line.show(f"{progress.line()}; {_doing(query)}", now)
    if stop.is_set():
        line.end()
        say("stopping: Spark ends its current tasks")
        query.stop()
        progress.stopped = True
    progress.update(query)
    progress.seconds = progress.busy_seconds if by_work else time.monotonic() - began
    line.end()
    if failure := query.exception():
        cause = HELD_PAGES.sub("", explain(failure))
        raise RunFailed(f"{cause}\n{_WHAT_TO_DO}") from failure
    if progress.stopped:
        say("stopped; run the same command to continue from here")


def _doing(query: StreamingQuery) -> str:
    """Return what Spark is doing, and how many tasks of its current stages are done."""
    message = str(query.status["message"]).partition("[")[0].strip()
    text = message[:1].lower() + message[1:]
    context = SparkContext._active_spark_context
    if context is None:
        return text
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    of = sum(stage.numTasks for stage in stages if stage is not None)
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return f"{text}, task {done} of {of}" if of else text


# --- failures -------------------------------------------------------------------------------------


class RunFailed(WindowStoreError, RuntimeError):
    """Spark stopped with an error: correct the cause and run again, to continue from there."""


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an exception of Spark into a RunFailed with the cause."""
    try:
        yield
    except PySparkException as error:
        raise RunFailed(explain(error)) from error


@contextmanager
def unlogged() -> Iterator[None]:
    """Suppress the JSON that Spark would log for a refused expression."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def explain(error: PySparkException) -> str:
    """Return the cause at the bottom of a failed query's stack traces, without the traces."""
    text = str(error).partition("=== Streaming Query ===")[0].strip()
    if "Traceback (most recent call last)" in text:
        # The last line of a Python traceback is the first line that is not indented.
        last = text.rpartition("Traceback (most recent call last):\n")[2]
        if match := re.search(r"^\S.*(?:\n(?!\s*at |\s*SQLSTATE).+)*", last, re.MULTILINE):
            return re.sub(r"^[\w.]+\.(\w+: )", r"\1", match.group().strip())
    if raised := re.search(r"InvalidInput: .+?(?=(?: SQLSTATE: \w+)*$)", text, re.MULTILINE):
        return raised[0]  # our own text, around which Spark's versions add different words
    causes = re.findall(r"(?:Caused by: |^)[\w.$]+(?:Exception|Error): (.+)", text, re.MULTILINE)
    cause = causes[-1] if causes else text.split("\n\tat ")[0].strip()
    # The error names the file that could not be read; the cause of its cause says why.
    below = _snapshot(error)
    if full := next((words for words in FULL_DISK if words in f"{text}\n{below}"), None):
        return f"{cause.partition(full)[0].strip()}\n{full}: {MAKE_ROOM}".strip()
    return cause if not below or below in text else f"{cause}\n{below}"


def _snapshot(error: BaseException) -> str:
    """Return the text of the last known cause of an error, '' if no cause is known."""
    cause = getattr(error, "_cause", None)
    if cause is None:
        return ""
    return _snapshot(cause) or str(cause).partition("\n\tat ")[0].strip()
