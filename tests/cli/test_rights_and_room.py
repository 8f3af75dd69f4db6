"""Missing rights and full disks: what the commands say, and with which code they end.

Nothing is forbidden to root, as whom tests run; so a command here runs without what lets root pass
over the modes of files, and is a user like any other who owns them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from mta.cli.exits import Exit
from tests.support.console import Console
from tests.support.faulty import eventually

ROWS = "device,ts,watts\na,2025-01-01 00:00:00,1\na,2025-01-01 01:00:00,2\n"
#: Bytes that are free on a disk that is nearly full.
ROOM = 1 << 19
_DROP_FROM_BOUNDS = 24  # PR_CAPBSET_DROP
_PASS_OVER_MODES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_libc = ctypes.CDLL(None, use_errno=True)


def without_privileges() -> None:
    """Before a program is run: it and all that it starts heed the modes of files."""
    for capability in _PASS_OVER_MODES if os.geteuid() == 0 else ():
        if _libc.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "privileges cannot be dropped")


@pytest.fixture(scope="module")
def command() -> Iterator[Console]:
    """Commands with the rights that the modes of files give their owner."""
    try:
        console = Console(without_privileges)
    except subprocess.SubprocessError:
        pytest.skip("NOT TESTED: root cannot drop its privileges here")
    with console:
        yield console


def test_a_run_is_checked_by_who_may_only_read_it(command: Console, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(ROWS)
    out = tmp_path / "out"
    made = command("run", tmp_path / "in.csv", "--key", "device", "--value", "watts", "--output",
                   out, "--no-plot")  # fmt: skip
    assert made.code == 0, made.err
    for path in [out, *out.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for name in ("inspect", "check"):
        done = command(name, out)
        assert done.code == 0, done.err
        assert "1 key" in done.out
    assert "damaged   none" in done.out
    (out / "pages" / "data.mdb").chmod(0)
    done = command("check", out)
    assert done.code == Exit.DENIED
    assert "to read on data.mdb" in done.err
    done = command("gc", out, "--store", f"file://{tmp_path / 'pages'}")
    assert done.code == Exit.DENIED, done.err
    assert "gc.json" in done.err


def test_input_that_may_not_be_read_is_named(command: Console, tmp_path: Path) -> None:
    folder, closed = tmp_path / "in", tmp_path / "closed"
    (folder / "below").mkdir(parents=True)
    (folder / "good.csv").write_text(ROWS)
    (folder / "below" / "other.csv").write_text(ROWS)
    (folder / "_hidden").mkdir(mode=0)  # as Spark's own, which nobody wants to read
    closed.mkdir(mode=0o555)
    for unreadable, mode in ((folder, 0o755), (folder / "below", 0o755),
                             (folder / "below" / "other.csv", 0o644)):  # fmt: skip
        unreadable.chmod(0)
        done = command("run", folder, "--value", "watts", "--output", tmp_path / "out")
        unreadable.chmod(mode)
        assert done.code == Exit.DENIED
        assert f"mta: {unreadable} cannot be read by this user" in done.err
        assert "starting Spark" not in done.out
    done = command("run", folder, "--value", "watts", "--output", closed / "out")
    assert done.code == Exit.DENIED
    assert f"--output {closed / 'out'}: Permission denied" in done.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)],
                             capture_output=True, check=False)  # fmt: skip
    if mounted.returncode:
        pytest.skip("NOT TESTED: no right to mount a small file system")
    yield disk
    # The Java that has its log there ends after the process that has started it.
    eventually(lambda: not subprocess.run(["umount", str(disk)], check=False).returncode)


def test_a_full_disk_ends_the_run_and_the_next_one_continues(
    small_disk: Path, tmp_path: Path
) -> None:
    """Where pages fill it, and where Spark's results do; the first run starts Spark there."""
    rows = pd.DataFrame({"ts": pd.date_range("2025-01-01", periods=40_000, freq="s")})
    rows["watts"] = rows.index * 0.7
    rows.to_csv(tmp_path / "in.csv", index=False)
    filler = small_disk / "filler"
    with Console() as command:
        for name, store in (("pages", []), ("results", ["--store", f"file://{tmp_path}/pages"])):
            out = small_disk / name
            given = ["run", tmp_path / "in.csv", "--value", "watts", "--output", out, "--no-plot"]
            filler.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - ROOM))
            failed = command(*given, *store)
            assert failed.code == Exit.NO_SPACE, failed
            assert "make room" in failed.err
            assert "Traceback" not in failed.err
            filler.unlink()
            done = command(*given, *store)
            assert done.code == 0, done.err
            assert len(pd.read_parquet(out / "results")) == 40_000
