"""Report Spark's failures without their stack traces, which go to the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from mta.cli.console import FULL_DISK
from stores.errors import WindowStoreError

MAKE_ROOM = (
    "make room on the disk of the output folder, and on the disk of Spark's temporary files "
    "(spark.local.dir), and run the command again: it continues where it stopped"
)


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
