"""Programs in Go that tests need, built where there is a ``go`` on the PATH."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest


def built(name: str) -> Path:
    """The program of the folder of this name beside this module, from the cache or built here.

    Skips where it cannot be had, and says so.
    """
    source = Path(__file__).parent / name
    texts = [
        path.read_bytes() for path in sorted(source.rglob("*")) if path.suffix in (".go", ".mod")
    ]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256(b"".join(texts)).hexdigest()[:12]
    program = Path(cache) / "mta-windows-tests" / f"{name}-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"NOT TESTED: no go on the PATH to build {name} with")
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_name(f"{program.name}-{os.getpid()}")
    command = [go, "build", "-o", str(draft), "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=500)
    if done.returncode:
        pytest.skip(f"NOT TESTED: {name} was not built: {done.stderr[-500:]}")
    draft.replace(program)
    return program
