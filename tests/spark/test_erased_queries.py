"""``mta erase`` for a stopped query: the keys leave checkpoint and store, and the rest goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import CountWindow
from mta.cli import main
from spark_integration import migration
from spark_integration.errors import InvalidRequest
from tests.support.spark.events import last_n, make_events, oracle, write_files
from tests.support.spark.jobs import FOLDS, Job, spread

SECRET = ["d-of-a-person", "d-standalone"]


def raw(*folders: Path) -> bytes:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files if path.suffix != ".parquet")


def test_keys_are_gone_and_every_other_row_counts_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, events = Job(spark, tmp_path), spread(make_events(3000, 20))
    names = [
        "d-standalone" if n % 3 else SECRET[0] if n % 51 == 0 else f"d{n % 20}" for n in range(3000)
    ]
    events = events.set_column(0, "device", pa.array(names))
    write_files(events.slice(0, 2000), job.input, files=2)
    window = {"window": CountWindow(1100)}
    job.run(**window)
    home = tmp_path / "home"  # which no worker of the session has open
    shutil.copytree(tmp_path / "pages", home)
    job.store = home.as_uri()
    assert b"d-of-a-person" in raw(home, job.checkpoint / "state")
    keys = [option for key in [*SECRET, "nobody"] for option in ("--key", key)]
    assert main(["erase", str(job.checkpoint), "--store", job.store, *keys]) == 0
    said = capsys.readouterr().out
    assert "erased    2 keys of 3 keys, after batch 1" in said and "no window has 'nobody'" in said
    found = raw(home, job.checkpoint)
    assert not [key for key in SECRET if key.encode() in found]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint",
        "home",
        "input",
        "pages",
    ]
    before, job.batches = job.batches, {}
    write_files(events.slice(2000), job.input, files=1, first=2)
    job.run(**window)
    assert [*job.batches] == [2]
    job.batches |= before
    others = pa.compute.invert(pa.compute.is_in(events["device"], pa.array(SECRET)))
    rows = [row for row in job.results() if row[0] not in SECRET]
    assert rows == oracle(events.filter(others), last_n(1100), FOLDS)
    # A key that was erased begins again.
    later = [row for row in job.batches[2] if row.device == SECRET[0]]
    assert min(row.n for row in later) == 1


def test_an_erasure_that_was_killed_between_its_steps_is_finished(tmp_path: Path) -> None:
    checkpoint = tmp_path / "cp"
    new, old = tmp_path / ".cp.new", tmp_path / ".cp.old"
    for folder, text in ((new, "new"), (old, "old")):
        folder.mkdir()
        (folder / "text").write_text(text)
    migration.finish(checkpoint)
    assert (checkpoint / "text").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["cp"]
    checkpoint.rename(new)
    old.mkdir()
    checkpoint.mkdir()
    with pytest.raises(InvalidRequest, match="a query has been started"):
        migration.finish(checkpoint)
    new.rename(tmp_path / "elsewhere")
    migration.finish(checkpoint)
    assert checkpoint.is_dir() and not old.exists()


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", str(tmp_path / "none"), "--key", "a", "--store", "memory://"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["erase", str(tmp_path)])
    assert "--key" in capsys.readouterr().err
