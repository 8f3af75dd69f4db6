"""What users do wrong or stop halfway: a message that helps, and the next try goes through."""

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from mta.cli import main
from mta.cli.commands import command_line
from mta.cli.console import Exit, as_options
from spark_integration.cli import checkpoints, run
from spark_integration.cli.demo import _rolling
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.cli.job import Job
from spark_integration.cli.plot import _figure, _panels
from spark_integration.cli.progress import explain
from spark_integration.cli.run import claimed
from spark_integration.cli.sources import open_source, plan_batches
from spark_integration.errors import CorruptState, InvalidRequest
from stores.errors import StoreAccessDenied
from tests.support.console import mta
from tests.support.faulty import eventually
from tests.support.patience import LONG

ROWS = "ts,watts\n2025-01-01 00:00:00,1\n2025-01-01 01:00:00,2\n"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.csv").write_text(ROWS)
    os.utime(folder / "b.csv", (2_000, 2_000))
    return folder


def job_in(tmp_path, **options):
    return Job(input=("in",), output=str(tmp_path / "out"), **options)


@pytest.mark.parametrize("text", ["", "ts,watts\n"])
def test_a_first_file_without_rows_hides_no_other(source, text):
    (source / "a.csv").write_text(text)
    os.utime(source / "a.csv", (1_000, 1_000))
    job = Job(input=(str(source),), time="ts", value=("watts",))
    found = open_source(job)
    assert (len(found.files), len(found.sample)) == (2, 2)
    assert not plan_batches(job, found).out_of_order


def test_settings_of_a_run_that_never_began_bind_nobody(tmp_path):
    run._prepare_folder(job_in(tmp_path, store="ftp://mistyped"))
    run._prepare_folder(job_in(tmp_path))
    job_in(tmp_path).checkpoint.mkdir()
    with pytest.raises(InvalidRequest, match="--window was '24 hours' and is '1 hour'"):
        run._prepare_folder(job_in(tmp_path, window=("1 hour",)))


def test_results_whose_checkpoint_is_gone_are_not_mixed_with_new_ones(tmp_path):
    job = job_in(tmp_path)
    run._prepare_folder(job)
    (job.result_folder / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(InvalidRequest, match=r"whose checkpoint is gone.*another --output"):
        run._prepare_folder(job)
    run._prepare_folder(job.replace(overwrite=True))
    assert not job.result_folder.exists()


def test_a_folder_in_which_a_run_works_is_left_to_it(source, tmp_path):
    out = tmp_path / "out"
    command = ["run", str(source), "--output", str(out), "--overwrite"]
    with claimed(out):
        (out / "job.json").write_text("{}")
        (out / "results").mkdir()
        assert f"(process {os.getpid()}) is using {out}: wait" in mta(*command, code=2).err
        assert (out / "results").exists()
    with claimed(out):
        pass  # once it has ended


def test_an_output_that_cannot_be_a_folder_is_named(source):
    done = mta("run", source, "--output", source / "b.csv", code=2)
    assert "b.csv: File exists" in done.err


def test_a_stop_before_the_first_batch_loses_nothing(source, tmp_path, monkeypatch):
    def stop(job, found):
        os.kill(os.getpid(), signal.SIGINT)
        return plan_batches(job, found)

    command = ["run", str(source), "--output", str(tmp_path / "out"), "--no-plot"]
    with monkeypatch.context() as patched:
        patched.setattr(run.sources, "plan_batches", stop)
        printed = mta(*command, code=130).out
    assert "stopped; run the same command to continue from here" in printed
    assert "no rows" not in printed
    mta(*command)
    assert len(pd.read_parquet(tmp_path / "out" / "results")) == 2


def test_a_named_input_without_rows_ends_with_an_error_after_the_others_were_read(source, tmp_path):
    (source / "empty.csv").write_text("ts,watts\n")
    out = tmp_path / "out"
    files = [str(source / name) for name in ("b.csv", "empty.csv")]
    done = mta("run", *files, "--value", "watts", "--output", out, "--no-plot", code=2)
    assert f"no rows in {source / 'empty.csv'}: " in done.err
    assert len(pd.read_parquet(out / "results")) == 2


def test_the_reason_why_a_file_cannot_be_read_is_reported():
    error, read, reason = Exception("cannot read 2.csv"), Exception("read"), Exception("header: a")
    error._cause, read._cause = read, reason
    assert explain(error) == "cannot read 2.csv\nheader: a"


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ("set on_invalid='drop' to drop them", "set --on-invalid drop to drop them"),
        ("set allowed_lateness, or on_late='side'", "set --allowed-lateness, or --on-late side"),
        ('choose on_late="drop"', "choose --on-late drop"),
        ("have no 'late'", "have no 'late'"),
        ("emit_every is 9 with idle='expire'", "--emit-every '9 events' with --idle expire"),
        ("emit_updates is True, but", "--emit-updates, but"),
        ("by names column 'a', on='b'", "--key names column 'a', --time b"),
    ],
)  # fmt: skip
def test_errors_name_options_as_they_are_typed(reported, shown):
    assert as_options(reported, command_line().options("run")) == shown


@pytest.mark.parametrize("arguments", [
    ["demo", "--events", "0"], ["demo", "--keys", "-1"], ["inspect", "out", "--limit", "none"],
])  # fmt: skip
def test_numbers_of_things_are_at_least_one(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert f"whole number of at least 1, not {arguments[-1]!r}" in capsys.readouterr().err


def test_the_demo_checks_every_window_that_it_can_run():
    rows = pd.DataFrame({"ts": pd.date_range("2025-01-01", periods=4, freq="h"), "watts": range(4)})
    total = parse_aggregation("watts:sum", ())
    for window, expected in [("2^1 events", [0, 1, 3, 5]), ("2events", [0, 1, 3, 5]),
                             ("3 hours", [0, 1, 3, 6])]:  # fmt: skip
        assert _rolling(rows, total, Job(time="ts", window=window)).tolist() == expected


def test_one_event_is_drawn_without_a_warning():
    rows = pd.DataFrame({"key": "a", "time": pd.to_datetime(["2025-01-01"])})
    for name in ("watts", "peak"):
        rows[f"min {name}"] = rows[f"max {name}"] = 1.0
    with warnings.catch_warnings(action="error"):
        _figure(rows, ["a"], _panels([parse_aggregation("peak=watts:max", ())]), "")


@pytest.mark.parametrize("store", [None, "redis://:wrong@host/0"])
def test_whoever_leaves_the_password_to_the_note_is_reported(tmp_path, monkeypatch, store):
    def refuse(*_, **__):
        raise StoreAccessDenied("refused")

    monkeypatch.setattr("spark_integration.cli.checkpoints.check", refuse)
    given = ["--store", store] if store else []
    done = mta("check", tmp_path, *given, code=Exit.DENIED)
    assert ("give the store's full address with --store" in done.err) == (not store)


@pytest.mark.soak
def test_ctrl_c_while_spark_starts_leaves_no_java_behind(source, tmp_path):
    command = [sys.executable, "-m", "mta", "run", str(source), "--time", "ts"]
    options = ["--value", "watts", "--output", str(tmp_path / "out")]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        while "starting Spark" not in job.stdout.readline():
            assert job.poll() is None
        log = str(tmp_path / "out" / "spark.log").encode()
        eventually(lambda: any(log in command for command in _commands()))
        time.sleep(0.5)  # Java is on its way up
        job.send_signal(signal.SIGINT)
        _, complaints = job.communicate(timeout=10 * LONG)
    assert (job.returncode, complaints) == (130, "mta: stopping as soon as Spark has started\n")
    eventually(lambda: not any(log in command for command in _commands()))


def _commands():
    """The command line of every process that is still there."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            yield path.read_bytes()


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"\xff", b"null"])
def test_a_damaged_note_of_a_run_is_named(tmp_path, note):
    (tmp_path / "job.json").write_bytes(note)
    for command in ("inspect", "check", "gc"):
        assert (
            f"{tmp_path / 'job.json'} is damaged" in mta(command, tmp_path, code=Exit.DAMAGED).err
        )


@pytest.mark.parametrize(
    "sighting", ["{", '{"page": 3}', '{"page": [1, 2, 3]}', '{"page": ["1", 2]}']
)
def test_a_damaged_note_of_unneeded_pages_is_named(tmp_path, sighting):
    path = tmp_path / "gc.json"
    path.write_text(sighting)
    with pytest.raises(CorruptState, match=r"gc\.json is damaged.*delete it"):
        checkpoints.note(path, ["page"], checkpoints.Sighting(1.0, 2))
