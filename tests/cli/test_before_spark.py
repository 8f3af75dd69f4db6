"""What can be found out without Spark is found out before Spark starts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from mta import Max, TimeWindow
from mta.cli import main
from spark_integration import History, save_history, session, sliding_aggregate
from spark_integration.cli import checkpoints, run
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from spark_integration.request import make_request
from stores import StoreAccessDenied, StoreUnavailable, WindowStoreError
from stores.errors import InvalidStoreURL
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer

ROWS = "device,ts,watts\na,2025-01-01 00:00:00,1\na,2025-01-01 01:00:00,2\n"


@pytest.fixture
def bad_stores(redis_with_password: RedisServer, black_hole: int) -> dict[str, str]:
    """Addresses, and what their errors say is to be done."""
    port = redis_with_password.port
    return {
        f"redis://:wr0ng@127.0.0.1:{port}": "correct the user, password",
        f"redis://127.0.0.1:{port}": "set MTA_STORE_PASSWORD",
        f"redis://reader:readonly@127.0.0.1:{port}": "rights",
        f"redis://:{PASSWORD_IN_URL}@127.0.0.1:{port}/99": "correct the number",
        f"rediss://:{PASSWORD_IN_URL}@127.0.0.1:{port}": "redis:// without TLS",
        "redis://127.0.0.1:1": "correct the host, port and scheme",
        f"redis://127.0.0.1:{black_hole}": "did not answer within 2 s",
        "redis://no-such-host.invalid": "correct the host",
        "redis:/127.0.0.1": "scheme://address",
        "redis://127.0.0.1:port": "check the port",
        "rds://127.0.0.1": "no store with the scheme rds://",
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.csv").write_text(ROWS)
    return tmp_path / "in.csv"


def test_no_command_starts_spark_for_a_store_that_does_not_answer(
    source: Path, tmp_path: Path, bad_stores: dict[str, str],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    started: list[str] = []
    for module in (run, checkpoints):
        monkeypatch.setattr(module, "local_session", lambda **_: started.append("Spark"))
    old, out = tmp_path / "old", tmp_path / "out"
    for folder in ("state", "commits"):
        (old / "checkpoint" / folder).mkdir(parents=True)
    (old / "checkpoint" / "commits" / "0").write_text("v1")
    (old / "job.json").write_text(json.dumps({"store": "redis://nowhere"}))
    for store, says in bad_stores.items():
        reading = [["inspect", old], ["check", old], ["gc", old]]
        if store.partition("://")[2].startswith("reader"):  # may do so
            reading = []
        elif "did not answer" in says:  # each takes two seconds
            reading = [["check", old]]
        for command in (
            ["run", source, "--key", "device", "--value", "watts", "--output", out, "--overwrite"],
            *reading,
        ):
            assert main([*map(str, command), "--store", store]) != 0
            assert says in capsys.readouterr().err, (command, store)
    assert not started
    assert not (out / "job.json").exists()


def test_what_an_earlier_run_left_stays_where_the_store_refuses_the_next(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "results").mkdir(parents=True)
    (out / "job.json").write_text("{}")
    command = ["run", source, "--value", "watts", "--overwrite", "--output", out]
    assert main([*map(str, command), "--store", "redis://127.0.0.1:1"]) != 0
    assert (out / "results").exists()


@pytest.fixture
def stream(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema("device string, ts timestamp, watts double").csv(
        str(source.parent)
    )


def asked(store: str) -> dict[str, object]:
    return {
        "by": "device", "on": "ts", "aggregations": {"peak": ("watts", Max())},
        "window": TimeWindow("1 day"), "store": store,
    }  # fmt: skip


def test_a_query_over_a_stream_is_not_built(stream: DataFrame, bad_stores: dict[str, str]) -> None:
    for store, says in bad_stores.items():
        with pytest.raises(WindowStoreError, match=says) as caught:
            sliding_aggregate(stream, **asked(store))
        assert isinstance(caught.value, StoreAccessDenied | StoreUnavailable | InvalidStoreURL)


def test_a_history_has_a_store_before_a_job_runs(
    spark: SparkSession, bad_stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_integration.history.packed_rows", lambda *_: pytest.fail("a job"))
    rows = spark.createDataFrame(pd.DataFrame(
        {"device": ["a"], "ts": pd.to_datetime(["2025-01-01"]), "watts": [1.0]}
    ))  # fmt: skip
    for store, says in bad_stores.items():
        with pytest.raises(WindowStoreError, match=says):
            save_history(rows, "history", until=2e9, **asked(store))


def test_a_batch_needs_no_store_that_answers(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", 1.0, 1.0)], "device string, ts double, watts double")
    assert sliding_aggregate(rows, **asked("redis://127.0.0.1:1")).count() == 1
    with pytest.raises(InvalidStoreURL):
        sliding_aggregate(rows, **asked("redis://127.0.0.1:port"))


def test_a_pyarrow_that_does_not_suit_numpy_is_named(source: Path, tmp_path: Path) -> None:
    """As pip picks them for PySpark 3.5; whatever PySpark is installed says the same."""
    (tmp_path / "pyarrow").mkdir()
    text = "pyarrow requires NumPy 2.0 or newer, found 1.26.4"
    (tmp_path / "pyarrow" / "__init__.py").write_text(f"raise ImportError({text!r})")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    for command in (["run", source, "--value", "watts"], ["inspect", tmp_path]):
        done = subprocess.run(
            [sys.executable, "-m", "mta", *map(str, command)], cwd=tmp_path,
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (2, f"mta: {text}: pip install 'pyarrow<26'\n")


def test_no_object_of_a_query_shows_its_password(
    stream: DataFrame, redis_with_password: RedisServer
) -> None:
    url = redis_with_password.url.replace("//", f"//:{PASSWORD_IN_URL}@")
    options = Options.of(**asked(url))
    shown = [options, make_request(stream, options).plan, History("h", url), run.Job(store=url)]
    for secret in (PASSWORD, PASSWORD_IN_URL):
        assert not any(secret in repr(each) for each in shown)


def test_sparks_log_is_for_this_user_alone_and_follows_no_link(tmp_path: Path) -> None:
    precious, link, old = tmp_path / "precious", tmp_path / "spark.log", tmp_path / "old.log"
    precious.write_text("precious")
    link.symlink_to(precious)
    old.write_text("of an earlier run\n")
    old.chmod(0o644)
    for path in (link, old):
        with session._open_log(path) as log:
            log.write(b"a line\n")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert precious.read_text() == "precious"
    assert old.read_text() == "of an earlier run\na line\n"


def test_a_log_of_no_name_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """Nothing that this process writes into the shared folder has a name that can be known."""
    script = """
import os, tempfile
from pathlib import Path
from spark_integration import session

def launch_gateway(conf, _options):  # where Java would start
    options = conf.get("spark.driver.extraJavaOptions")
    log = Path(options.partition("-Dmta.log=")[2].split('"')[0])
    print(log, oct(log.parent.stat().st_mode & 0o777), oct(log.stat().st_mode & 0o777))
    print(any(str(os.getpid()) in name for name in os.listdir(tempfile.gettempdir())))
    raise SystemExit

session.launch_gateway = launch_gateway
session.local_session(cores=1, memory="1g")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (log, folder, file), (by_number,) = (line.split() for line in done.stdout.splitlines())
    assert (folder, file, by_number) == ("0o700", "0o600", "False")
    assert Path(log).parent.parent == tmp_path
    assert not Path(log).exists(), "it goes with the process"


def test_the_files_of_a_run_follow_no_link(tmp_path: Path) -> None:
    precious, out = tmp_path / "precious", tmp_path / "out"
    precious.write_text("{}")
    out.mkdir()
    for name in ("job.json", "gc.json", run.CLAIM):
        (out / name).symlink_to(precious)
    with pytest.raises(InvalidRequest, match="--output"), run.claimed(out):
        pass
    run.Job(input=("in",), output=str(out)).save()
    checkpoints.note(out / "gc.json", [], checkpoints.Sighting(0.0, 0))
    assert precious.read_text() == "{}"
