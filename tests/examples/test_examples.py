"""Every example at a small size, to its end.

Each compares its results with pandas, and fails if they differ; the tests read its last line. An
example that is about processes, memory or imports runs in a process of its own. The others run in
the process of the tests, on the Spark that the suites share.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.patience import LONG
from tests.support.servers import RedisServer
from tests.support.spark.scripts import as_a_users, run_script
from tests.support.spark.session import quick_environment, spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {
    "device": ["device.py"],
    "edge": ["edge.py", "measure.py"],
    "feast": ["cards.py", "features.py", "tiling.py"],  # run by "nox -s feast"
    "feature_store": ["feature_store.py"],
    "history_first": ["history_first.py"],
    "kafka": ["job.py", "readings.py"],
    "late_sensors": ["late_sensors.py"],
    "recovery": ["recovery.py"],
    "serving": ["serving.py"],
    "spend_limit": ["gateway.py"],
    "spark_redis": ["spark_redis.py"],
    "sql": ["sql.py"],
    "tables": ["job.py", "tables.py"],
}


def run(
    script: str,
    *options: object,
    fails: bool = False,
    path: Path | None = None,
    patience: float = 600,
) -> str:
    """What an example prints; both streams where it is to fail. Modules of ``path`` come first."""
    command = [sys.executable, str(EXAMPLES / script), *map(str, options)]
    known = [str(path)] if path else []
    places = os.pathsep.join([*known, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience,
        env=os.environ | quick_environment() | ({"PYTHONPATH": places} if places else {}),
    )  # fmt: skip
    assert bool(done.returncode) == fails, f"{done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if fails else "")


def test_every_example_is_described_and_run_here() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("*/*.py")} == set(SCRIPTS)
    for folder, scripts in SCRIPTS.items():
        assert sorted(path.name for path in (EXAMPLES / folder).glob("*.py")) == scripts
        readme = (EXAMPLES / folder / "README.md").read_text()
        assert all(f"examples/{folder}/{script}" in readme for script in scripts)


def test_gateways_share_limits_that_survive_a_kill() -> None:
    output = run("spend_limit/gateway.py", "--requests", 60, "--users", 3)
    assert output.endswith("no limit was exceeded, and every answer equals a list\n")
    refused = re.search(r"240 from four gateways, (\d+) refused", output)
    assert refused is not None
    assert int(refused[1]) > 20


def test_a_device_with_simulated_sensors_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = run("device/device.py", "--events", 3000)
    assert "all results are those of plain lists: 3,000 readings" in output
    assert (tmp_path / "device-output" / "device.png").stat().st_size > 10_000


def test_edge_goes_on_where_it_ended_and_needs_the_core_alone(tmp_path: Path) -> None:
    """As after ``pip install .``: nothing that an extra brings is imported."""
    bare, device = tmp_path / "bare", tmp_path / "device"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(
        "import sys\nfor name in ('pandas', 'pyarrow', 'polars', 'redis', 'pyspark', 'couchbase', "
        "'obstore'):\n    sys.modules[name] = None\n"
    )
    options = "--folder", device, "--window", 40_000, "--events", 1 << 17
    first, second = (run("edge/edge.py", *options, path=bare) for _ in range(2))
    assert first.startswith("0 readings in the window, at position 0\n")
    assert second.startswith("40,000 readings in the window, at position 131,072\n")
    assert "262,144 readings" in second
    for output in (first, second):
        assert output.endswith("results equal numpy's: peak to the bit, mean to 1e-9\n")


def test_edge_memory_is_measured_from_outside(tmp_path: Path) -> None:
    sizes = "--folder", tmp_path, "--window", 1 << 16, "--events", 1 << 17
    output = run("edge/measure.py", *sizes)
    assert output.endswith("the last results equal a fold of the window by numpy\n")
    bare, highest, more = _measured(output)
    assert 0 < bare < highest
    assert more < 64
    output = run("edge/measure.py", *sizes, "--at-most", 0.1, fails=True)
    assert "that is more than 0.1 MiB" in output
    assert not list(tmp_path.iterdir())


def test_edge_and_its_comparison_run_within_64_mb(tmp_path: Path) -> None:
    """All that the kernel holds for it counts: code, cached pages of the disk, and the oracle."""
    sys.path.insert(0, str(EXAMPLES / "edge"))
    try:
        measure = importlib.import_module("measure")
    finally:
        sys.path.pop(0)
    with measure.memory_group(64 * 10**6) as group:
        if group is None:
            pytest.skip("NOT TESTED: this user may not create a memory cgroup")
        enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        command = ["sh", "-c", enter, str(group), sys.executable, str(EXAMPLES / "edge/edge.py")]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10 * LONG,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("results equal numpy's: peak to the bit, mean to 1e-9\n")


def test_edge_limit_is_one(tmp_path: Path) -> None:
    """With less memory than the interpreter alone needs, the device does not come to its end."""
    sizes = "--folder", tmp_path, "--window", 1 << 16, "--events", 1 << 17
    output = run("edge/measure.py", *sizes, "--limit", 8, fails=True)
    assert "the device did" in output


@pytest.mark.soak
def test_edge_holds_2_to_the_25_within_64_mib(tmp_path: Path) -> None:
    output = run("edge/measure.py", "--folder", tmp_path)
    assert "a window of 33,554,432 over 67,108,864 readings, 64 MB" in output
    assert _measured(output)[2] < 64


def _measured(output: str) -> list[float]:
    """MiB bare, at most, and the difference."""
    found = re.search(r"([\d.]+) MiB bare, ([\d.]+) at most: ([\d.]+) MiB more", output)
    assert found is not None, output
    return [float(number) for number in found.groups()]


def test_recovery_after_kills() -> None:
    sizes = "--window", 12_000, "--events", 30_000, "--batch", 2000
    output = run("recovery/recovery.py", *sizes, "--kills", 2)
    killed = [int(at.replace(",", "")) for at in re.findall(r"^killed at ([\d,]+)$", output, re.M)]
    assert len(killed) == 2
    assert killed == sorted(set(killed))
    restored = [int(size.replace(",", "")) for size in re.findall(r"restored ([\d,]+) ev", output)]
    # What was acknowledged is there; a checkpoint more may have been made before the signal came.
    assert len(restored) == 2
    for at, size in zip(killed, restored, strict=True):
        assert min(at, 12_000) <= size <= 12_000
    assert output.endswith("all 30,000 results equal pandas: high to the bit, mean to 1e-9\n")


def test_features_of_history_and_stream() -> None:
    sizes = "--payments", 1500, "--cards", 8, "--live", 60
    script = EXAMPLES / "feature_store" / "feature_store.py"
    first, second = (run_script(script, *sizes) for _ in range(2))
    assert first == second
    assert "stream    60 payments one by one" in first
    assert "all 13,500 features equal pandas, those of the stream too\n" in first
    assert "in its last week, asked for today for the first time" in first


def test_late_sensors_put_results_right() -> None:
    sizes = "--events", 3000, "--masts", 5, "--batch", 40
    script = EXAMPLES / "late_sensors" / "late_sensors.py"
    first, second = (run_script(script, *sizes) for _ in range(2))
    assert first == second
    corrected = sum(int(count) for count in re.findall(r"(\d+) results put right", first))
    refused = sum(int(count) for count in re.findall(r"(\d+) readings too late", first))
    assert corrected > 0
    assert refused > 0
    assert f"all {3000 - refused:,} results on the dashboard equal pandas" in first


def run_on(spark: SparkSession, folder: Path, script: str, *options: object) -> str:
    """What an example prints that runs on the shared Spark."""
    with as_a_users(spark, folder):
        return run_script(EXAMPLES / script, *options)


def test_spark_with_pages_in_redis(spark: SparkSession, tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")
    server = RedisServer(tmp_path)  # skips, and says so, where there is none
    try:
        sizes = "--events", 3000, "--meters", 2, "--files", 2
        output = run_on(
            spark, tmp_path, "spark_redis/spark_redis.py", "--store", server.url, *sizes
        )
        assert "more files have come, the job starts again\n" in output
        assert re.search(r"in Redis: \d+ pages", output)
        assert output.endswith("all 3,000 results equal pandas: peak to the bit, mean to 1e-9\n")
        with redis.Redis(port=server.port) as client:
            assert client.dbsize() == 0  # it leaves nothing behind
    finally:
        server.stop()


@pytest.mark.soak
def test_soak_of_readings_through_kafka(tmp_path: Path) -> None:
    """``tests/spark/test_kafka.py`` runs the example at a small size."""
    pytest.importorskip("pyspark")
    pytest.importorskip("redis")
    from tests.support.kafka import broker, connector

    kills = 5
    server = RedisServer(tmp_path)
    try:
        with broker(tmp_path) as kafka:
            given = "--servers", kafka.servers, "--store", server.url, "--jars", connector()
            sizes = "--events", 200_000, "--limit", 20_000, "--kills", kills
            output = run("kafka/readings.py", *given, *sizes, patience=600 * (kills + 1))
    finally:
        server.stop()
    assert output.count("killed while it wrote batch") == kills
    assert "1 x late" in output
    assert output.endswith("all 200,001 results equal lists, each once\n")


def windows_between_tables(kind: str, *options: object, kills: int) -> None:
    from tests.support.tables import package_of

    jars = package_of(kind)
    given = "--format", kind, "--jars", jars, "--kills", kills
    output = run("tables/tables.py", *given, *options, patience=600 * (kills + 1))
    assert output.count("killed after") == kills
    assert re.findall(r"(\w+): all .* results equal pandas, each once", output) == [
        "peaks", "newest",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_windows_between_tables(kind: str) -> None:
    options = ["--by-batch"] if kind == "delta" else []
    sizes = "--events", 600, "--meters", 4, "--files", 2
    windows_between_tables(kind, *options, *sizes, kills=int(kind == "delta"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_soak_of_windows_between_tables(kind: str) -> None:
    windows_between_tables(kind, kills=3)


def test_features_are_served_while_the_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="NOT TESTED: mta serve, as the extra serve is missing")
    redis = pytest.importorskip("redis")
    server = RedisServer(tmp_path)  # skips, and says so, where there is none
    try:
        sizes = "--payments", 2000, "--cards", 10, "--files", 2
        output = run_on(spark, tmp_path, "serving/serving.py", "--store", server.url, *sizes)
        assert output.count("questions, each answer as a list has it\n") == 2
        assert output.endswith("all 100 answers equal a list of the payments\n")
        with redis.Redis(port=server.port) as client:
            assert client.dbsize() == 0  # it leaves nothing behind
    finally:
        server.stop()


def test_a_query_goes_on_with_another_one(spark: SparkSession, tmp_path: Path) -> None:
    output = run_on(spark, tmp_path, "sql/sql.py", "--folder", tmp_path / "f", "--payments", 4000)
    assert "first day: " in output
    assert output.endswith("results of the stream and 4,000 in memory equal DuckDB\n")


def test_history_first_has_no_gap(spark: SparkSession, tmp_path: Path) -> None:
    options = "--folder", tmp_path / "f", "--events", 8000
    output = run_on(spark, tmp_path, "history_first/history_first.py", *options)
    assert output.count("and is stopped") == 2
    assert output.endswith("results since the cutover equal pandas over the whole year\n")
