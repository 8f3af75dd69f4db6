"""The unit of systemd, and the memory of a device in a cgroup of 64 MB."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
UNIT = EXAMPLES / "device" / "mta-device.service"
LIMIT = 64_000_000


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: no systemd-analyze: install systemd")
    unit, program = tmp_path / UNIT.name, Path(sys.executable).with_name("mta")
    unit.write_text(UNIT.read_text().replace("/opt/mta/bin/mta", str(program)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert rated.returncode == 0, rated.stdout[-300:]


def memory_group() -> AbstractContextManager[Path | None]:
    """A memory cgroup, as the example of an edge device makes it."""
    path = EXAMPLES / "edge" / "measure.py"
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location("measure_of_edge", path)
        assert spec is not None and spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    group: AbstractContextManager[Path | None] = module.memory_group(LIMIT)
    return group


def test_a_device_runs_in_64_mb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All memory counts: anonymous, and the pages of files that the kernel caches."""
    config = tmp_path / "config.toml"
    config.write_text(f"""
        folder = "{tmp_path}/state"
        keys = "device"
        time = "ts"
        input = "json"
        emit_every = "1 hour"
        snapshot_every = "1 second"
        frames = {{ day = "1 day", few = 1000 }}
        aggregations = {{ peak = ["watts", "max"], mean = ["watts", "mean"] }}
    """)
    count, keys = 100_000, 50
    events = tmp_path / "events"
    with events.open("w") as file:
        for n in range(count):
            event = {"device": f"d{n % keys}", "ts": n, "watts": n * 7919 % 1009}
            file.write(json.dumps(event) + "\n")
    with memory_group() as group:
        if group is None:
            pytest.skip("NOT TESTED: no right to create a cgroup (needs root)")
        enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        command = [
            "sh",
            "-c",
            enter,
            str(group),
            sys.executable,
            "-m",
            "mta",
            "device",
            str(config),
        ]
        with events.open("rb") as lines:
            done = subprocess.run(
                command, stdin=lines, capture_output=True, text=True, timeout=600,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        assert done.returncode == 0, done.stderr[-500:]
        assert f"{count:,} events" in done.stderr
        peak = next(
            int((group / name).read_text())
            for name in ("memory.max_usage_in_bytes", "memory.peak")
            if (group / name).exists()
        )
    assert peak <= LIMIT
    with capsys.disabled():
        sys.stdout.write(f"\n{count:,} events, {keys} keys: {peak / 1e6:.1f} MB at most in total\n")
