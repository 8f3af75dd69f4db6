"""Scripts as users write them, run in this process on the Spark that the suites share."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def as_a_users(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Give scripts a session of their own, and resolve their relative paths in a folder.

    The session has Spark's defaults where the commands of this project choose other ones, except
    for what only saves time. It ends with the context, and not with a script.
    """
    from pyspark.sql import SparkSession

    from spark_integration.session import session_conf
    from spark_integration.sliding import recommended_conf

    session = spark.newSession()
    for name in session_conf(2).keys() - recommended_conf(2, local_disk=True).keys():
        if session.conf.isModifiable(name):
            session.conf.unset(name)
    context = spark.sparkContext
    hadoop = context._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(context._jsc.hadoopConfiguration())
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(SparkSession, "_instantiatedSession", session)
        patch.setattr(SparkSession, "stop", lambda _session: None)
        before = files.getWorkingDirectory()
        files.setWorkingDirectory(hadoop.Path(str(folder)))
        try:
            yield
        finally:
            files.setWorkingDirectory(before)


def run_script(path: Path, *options: object) -> str:
    """Run a script in this process; return what it prints."""
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(path), *map(str, options)])
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()
