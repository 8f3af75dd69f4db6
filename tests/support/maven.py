"""Artifacts from Maven Central, with all that they need, fetched once into a cache folder.

Fetched by Ivy, which PySpark brings for its own ``--packages``: Java and a network are enough.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from spark_integration.java import find_java
from stores.errors import MissingDependency

#: Seconds for a download of a hundred megabytes.
PATIENCE = 600


def jars(artifact: str, *, alone: bool = False) -> list[Path]:
    """As ``fetched``; skips the test where Maven Central does not give the artifact."""
    found = fetched(artifact, alone=alone)
    if not found:
        pytest.skip(f"NOT TESTED: Maven Central did not give {artifact}")
    return found


def fetched(artifact: str, *, alone: bool = False) -> list[Path]:
    """The jars of ``group:name:version``, and of what it needs unless it is asked for ``alone``.

    Empty where Maven Central does not give it. Skips the test where nothing can be fetched.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mta-windows-tests")
    folder = cache / artifact.replace(":", "_")
    cache.mkdir(parents=True, exist_ok=True)
    # Several processes that run tests may ask at once.
    with (cache / "fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(artifact, folder, ["-notransitive"] if alone else [])
    return sorted(folder.glob("*.jar"))


def _fetch(artifact: str, folder: Path, options: Sequence[str]) -> None:
    """Make the folder; it is there whole or not at all."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        pytest.skip(f"NOT TESTED: no PySpark to fetch {artifact} with")
    (ivy,) = Path(spark.origin).parent.glob("jars/ivy-*.jar")
    try:
        java = find_java()
    except MissingDependency as error:
        pytest.skip(f"NOT TESTED: no Java to fetch {artifact} with ({error})")
    aside = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    command = [str(java), "-jar", str(ivy), "-cache", str(aside / "ivy"), *options]
    command += ["-confs", "default", "-dependency", *artifact.split(":")]
    command += ["-retrieve", f"{aside}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0 and [*aside.glob("jars/*.jar")]:
            (aside / "jars").rename(folder)
    except subprocess.TimeoutExpired:
        return
    finally:
        shutil.rmtree(aside, ignore_errors=True)
