"""Steps that go wrong once, for a real Spark to make good.

``marker`` is a file that does not exist yet: the attempt that makes it is the one that goes wrong.
The rest of a step's arguments are plan, store and watermark.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_integration.step import step as steps
from stores.testing import FaultyStore

State = bytes | None


def first(marker: str) -> bool:
    """Whether this call is the first of all processes' with this marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def dying_at_the_end(marker: str) -> steps.Step:
    """A worker that is killed when its pages are out and its snapshot is not."""

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        done = steps.step(state, rows, *rest)
        if state is not None and first(marker):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return step


def dying_inside(marker: str, *puts: int) -> steps.Step:
    """A worker that is killed when it has put so many pages, and these are in the store.

    Of several numbers each kills one worker, and has a marker of its own, with the number.
    """

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        def die(put: float) -> None:
            if first(f"{marker}.{put:.0f}"):
                store.flush()
                os.kill(os.getpid(), signal.SIGKILL)

        plan, store, watermark = rest
        fragile = FaultyStore(store, sleep=die)
        for put in puts:
            fragile.delay(put, nth=put, operations=["put"])
        return steps.step(state, rows, plan, fragile, watermark)

    return step


def losing_its_host_once(marker: str) -> steps.Step:
    """A step whose worker of a standalone cluster dies, with executor and Python, at its end."""

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        done = steps.step(state, rows, *rest)
        if state is not None and first(marker):
            rest[1].flush()
            pid = os.getpid()
            while b"deploy.worker.Worker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            Path(marker).write_text(str(pid))
            os.killpg(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return step


def freezing_once(marker: str, server: int) -> steps.Step:
    """A step that begins with the stop of a server's process."""

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        if state is not None and first(marker):
            os.kill(server, signal.SIGSTOP)
        return steps.step(state, rows, *rest)

    return step


def slow_once(marker: str, seconds: float) -> steps.Step:
    """One attempt that hangs when its pages are out; every attempt has its rows in its own order.

    Beside the marker are a file for each attempt of its bucket that began, and for the slow one
    another if it was let to its end.
    """

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        order = np.random.default_rng(os.getpid()).permutation(rows.num_rows)
        done = steps.step(state, rows.take(pa.array(order)), *rest)
        bucket = str(sorted(set(rows.column("device").to_pylist())))
        if state is not None and first(marker):
            Path(marker).write_text(bucket)
            time.sleep(seconds)
            Path(f"{marker}.ended").touch()
        elif Path(marker).exists() and Path(marker).read_text() == bucket:
            Path(f"{marker}.twin").touch()
        return done

    return step
