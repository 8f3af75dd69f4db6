"""The parts of the experiment ``flink`` that need no Flink."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from benchmarks import running
from benchmarks.spark import flink


def test_without_its_jars_the_report_names_the_missing_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(flink, "find_spec", lambda name: None)
    assert running.bench(["flink"], folder=str(tmp_path)) == 1
    assert "needs apache-flink-libraries, which is missing" in capsys.readouterr().out


def test_the_files_share_the_rows_and_each_is_in_the_order_of_time(tmp_path: Path) -> None:
    flink.write_readings(tmp_path / "readings", 1_001)
    parts = [flink.read_results(path) for path in sorted((tmp_path / "readings").iterdir())]
    assert [part.num_rows for part in parts] == [501, 500]
    for part in parts:
        assert part["ts"].to_pylist() == sorted(part["ts"].to_pylist())


def test_a_wrong_result_of_one_row_is_an_error() -> None:
    ours = pa.table({"device": ["a", "b"], "ts": [1, 2], "peak": [3.0, 4.0]})
    flink.require_equal(ours, ours.take([1, 0]))
    with pytest.raises(AssertionError, match="other rows"):
        flink.require_equal(ours, ours.set_column(2, "peak", pa.array([3.0, 5.0])))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="NOT TESTED: no /proc")
def test_cpu_time_includes_that_of_children() -> None:
    before = flink.cpu_seconds()
    work = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert flink.cpu_seconds() - before >= 0.4
