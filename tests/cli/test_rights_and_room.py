"""Missing rights, full disks and passwords: what the commands say, and with which code they end.

Nothing is forbidden to root, as whom tests run; so a command here runs without what lets root pass
over the modes of files, and is a user like any other who owns them. The commands share a process,
whose Spark the first run starts, with its log in the output of that run.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from mta.cli.console import Exit
from stores import open_store
from tests.support.console import Console
from tests.support.faulty import eventually
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer

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
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the process of the commands prints besides their own lines."""
    return tmp_path_factory.mktemp("console") / "printed"


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    """A file system of its own; None where there is no right to mount one."""
    disk = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)],
                             capture_output=True, check=False)  # fmt: skip
    yield None if mounted.returncode else disk
    # The Java that has its log there ends after the process that has started it.
    if not mounted.returncode:
        eventually(lambda: not subprocess.run(["umount", str(disk)], check=False).returncode)


@pytest.fixture(scope="module")
def command(small_disk: Path | None, printed: Path) -> Iterator[Console]:
    """Commands with the rights that the modes of files give their owner."""
    try:
        console = Console(without_privileges, errors=printed, MTA_STORE_PASSWORD=PASSWORD)
    except subprocess.SubprocessError:
        pytest.skip("NOT TESTED: root cannot drop its privileges here")
    with console:
        yield console


@pytest.mark.soak
def test_a_full_disk_ends_the_run_and_the_next_one_continues(
    command: Console, small_disk: Path | None, tmp_path: Path
) -> None:
    """Where pages fill it, and where Spark's results do; the first run starts Spark there."""
    if small_disk is None:
        pytest.skip("NOT TESTED: no right to mount a small file system")
    rows = pd.DataFrame({"ts": pd.date_range("2025-01-01", periods=40_000, freq="s")})
    rows["watts"] = rows.index * 0.7
    rows.to_csv(tmp_path / "in.csv", index=False)
    filler = small_disk / "filler"
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


def test_a_run_shows_its_password_nowhere(
    command: Console, small_disk: Path | None, printed: Path, tmp_path: Path,
    redis_with_password: RedisServer,
) -> None:  # fmt: skip
    """Neither one of the URL nor one of the environment, which Spark's workers have here."""
    (tmp_path / "in.csv").write_text(ROWS)
    bare = redis_with_password.url
    url = bare.replace("//", f"//:{PASSWORD_IN_URL}@")
    texts = []
    for store, name in ((url, "of-url"), (bare, "of-environment")):
        out = tmp_path / name
        given = ["run", tmp_path / "in.csv", "--key", "device", "--value", "watts", "--output", out]
        done = command(*given, "--no-plot", "--store", store)
        assert done.code == 0, done.err
        assert len(pd.read_parquet(out / "results")) == 2
        texts += [done.out, done.err]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    # The log of Spark is in the output of the first run of the process.
    logs = [log for folder in (small_disk, tmp_path) if folder for log in folder.rglob("spark.log")]
    texts += [file.read_bytes().decode("latin-1") for file in [printed, *files, *logs]]
    (log,) = logs
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    for secret in (PASSWORD, PASSWORD_IN_URL):
        assert not any(secret in text for text in texts)


def test_a_run_is_checked_by_who_may_only_read_it(command: Console, tmp_path: Path) -> None:
    rows = (f"a,{1_700_000_000 + n},{n}" for n in range(5000))  # enough for pages
    (tmp_path / "in.csv").write_text("\n".join(["device,ts,watts", *rows]))
    out = tmp_path / "out"
    made = command("run", tmp_path / "in.csv", "--key", "device", "--value", "watts", "--output",
                   out, "--no-plot", "--window", "4000 events")  # fmt: skip
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
    assert "read access to data.mdb" in done.err
    with open_store(f"file://{tmp_path / 'pages'}") as another:
        another.put_many({"another/0/0": b"page"})
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
