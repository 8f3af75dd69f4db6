"""Missing rights and full disks: what the commands say, and with which code they end.

Nothing is forbidden to root, as whom tests run; so a command here runs without what lets root pass
over the modes of files, and is a user like any other who owns them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from mta.cli.exits import Exit
from tests.support.documents import ROOT

ROWS = "device,ts,watts\na,2025-01-01 00:00:00,1\na,2025-01-01 01:00:00,2\n"
_DROP_FROM_BOUNDS = 24  # PR_CAPBSET_DROP
_PASS_OVER_MODES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_libc = ctypes.CDLL(None, use_errno=True)


def without_privileges() -> None:
    """Before a program is run: it and all that it starts heed the modes of files."""
    for capability in _PASS_OVER_MODES if os.geteuid() == 0 else ():
        if _libc.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "privileges cannot be dropped")


def command(*arguments: object, privileged: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``mta`` with the rights that the modes of files give their owner."""
    program = [sys.executable, "-m", "spark_integration.cli", *map(str, arguments)]
    before = None if privileged else without_privileges
    try:
        return subprocess.run(
            program, preexec_fn=before, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.SubprocessError:
        pytest.skip("NOT TESTED: root cannot drop its privileges here")


def test_a_run_is_checked_by_who_may_only_read_it(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(ROWS)
    out = tmp_path / "out"
    made = command("run", tmp_path / "in.csv", "--key", "device", "--value", "watts", "--output",
                   out, "--no-plot")  # fmt: skip
    assert made.returncode == 0, made.stderr
    for path in [out, *out.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for name in ("inspect", "check"):
        done = command(name, out)
        assert done.returncode == 0, done.stderr
        assert "1 key" in done.stdout
    assert "damaged   none" in done.stdout
    (out / "pages" / "data.mdb").chmod(0)
    done = command("check", out)
    assert done.returncode == Exit.DENIED
    assert "to read on data.mdb" in done.stderr
    done = command("gc", out, "--store", f"file://{tmp_path / 'pages'}")
    assert done.returncode == Exit.DENIED, done.stderr
    assert "gc.json" in done.stderr


def test_input_that_may_not_be_read_is_named(tmp_path: Path) -> None:
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
        assert done.returncode == Exit.DENIED
        assert f"mta: {unreadable} may not be read by this user" in done.stderr
        assert "starting Spark" not in done.stdout
    done = command("run", folder, "--value", "watts", "--output", closed / "out")
    assert done.returncode == Exit.DENIED
    assert f"--output {closed / 'out'}: Permission denied" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)],
                             capture_output=True, check=False)  # fmt: skip
    if mounted.returncode:
        pytest.skip("NOT TESTED: no right to mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("store", ["disk", "elsewhere"])
def test_a_full_disk_ends_the_run_and_the_next_one_continues(
    small_disk: Path, tmp_path: Path, store: str
) -> None:
    """Where pages fill it, and where Spark's results do."""
    rows = pd.DataFrame({"ts": pd.date_range("2025-01-01", periods=40_000, freq="s")})
    rows["watts"] = rows.index * 0.7
    rows.to_csv(tmp_path / "in.csv", index=False)
    out, filler = small_disk / "out", small_disk / "filler"
    given = ["run", tmp_path / "in.csv", "--value", "watts", "--output", out, "--no-plot"]
    if store == "elsewhere":
        given += ["--store", f"file://{tmp_path / 'pages'}"]
    filler.write_bytes(b"x" * (5 << 19))
    failed = command(*given, privileged=True)
    assert failed.returncode == Exit.NO_SPACE, failed.stdout + failed.stderr
    assert "make room" in failed.stderr
    assert "Traceback" not in failed.stderr
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    done = command(*given, privileged=True)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(out / "results")) == 40_000
