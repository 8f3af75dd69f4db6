"""Spark's failures without their stack traces, which go to the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from mta.cli.exits import FULL_DISK
from stores.errors import WindowStoreError

MAKE_ROOM = (
    "make room on the disk of the output folder, and where Spark has its temporary files "
    "(spark.local.dir), and run again: it continues where it was"
)


class RunFailed(WindowStoreError, RuntimeError):
    """Spark stopped with an error: correct the cause and run again, it continues where it was."""


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an exception of Spark into a RunFailed that tells its cause."""
    try:
        yield
    except PySparkException as error:
        raise RunFailed(explain(error)) from error


@contextmanager
def unlogged() -> Iterator[None]:
    """Without what Spark logs of a refused expression, as JSON among a command's output."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


def explain(error: PySparkException) -> str:
    """The cause at the bottom of a failed query's stack traces, without the stacks."""
    text = str(error).partition("=== Streaming Query ===")[0].strip()
    if "Traceback (most recent call last)" in text:
        # The last line of a Python traceback is the first that is not indented.
        last = text.rpartition("Traceback (most recent call last):\n")[2]
        if match := re.search(r"^\S.*(?:\n(?!\s*at |\s*SQLSTATE).+)*", last, re.MULTILINE):
            return re.sub(r"^[\w.]+\.(\w+: )", r"\1", match.group().strip())
    if raised := re.search(r"InvalidInput: .+?(?=(?: SQLSTATE: \w+)*$)", text, re.MULTILINE):
        return raised[0]  # of an expression of ours, around which Spark's versions put their words
    causes = re.findall(r"(?:Caused by: |^)[\w.$]+(?:Exception|Error): (.+)", text, re.MULTILINE)
    cause = causes[-1] if causes else text.split("\n\tat ")[0].strip()
    # Which file could not be read is in the error, and why in the cause of its cause.
    below = _snapshot(error)
    if full := next((words for words in FULL_DISK if words in f"{text}\n{below}"), None):
        return f"{cause.partition(full)[0].strip()}\n{full}: {MAKE_ROOM}".strip()
    return cause if not below or below in text else f"{cause}\n{below}"


def _snapshot(error: BaseException) -> str:
    """What the last of an error's causes says, as far as Spark tells them, else nothing."""
    cause = getattr(error, "_cause", None)
    if cause is None:
        return ""
    return _snapshot(cause) or str(cause).partition("\n\tat ")[0].strip()
