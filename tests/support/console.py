"""``mta`` in a process of its own, whose commands share the one Spark that the first starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.documents import ROOT


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Console:
    """Runs one command after the other; leaving the context ends the process and its Spark.

    What it prints besides, and its Spark, goes to ``errors``.
    """

    def __init__(
        self, before: Callable[[], None] | None = None, errors: Path | None = None, **more: str
    ) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with ExitStack() as files:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.console"], preexec_fn=before, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=files.enter_context(errors.open("w")) if errors else None,
                env={**os.environ, "PYTHONPATH": path, **more},
            )  # fmt: skip

    def __call__(self, *arguments: object) -> Done:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(argument) for argument in arguments]) + "\n")
        self.process.stdin.flush()
        return Done(*json.loads(self.process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=600)


def mta(*arguments: object, code: int = 0) -> Done:
    """Run one command in this process; it must end with this code."""
    done = _run([str(argument) for argument in arguments])
    assert done.code == code, done
    return done


def _run(arguments: list[str]) -> Done:
    from mta.cli import main

    out, err, code = StringIO(), StringIO(), 1
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as wrong:  # an option that is not there
            code = int(wrong.code or 0)
        except Exception:
            traceback.print_exc()
    return Done(code, out.getvalue(), err.getvalue())


def _serve() -> None:
    answers: Any = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
