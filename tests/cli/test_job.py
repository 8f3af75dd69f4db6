"""The options of ``mta run`` as text: aggregations, windows, and the note of a job."""

from __future__ import annotations

from typing import Any

import pytest

from mta import CountWindow, SessionWindow, TimeWindow
from mta.monoids.product import pairs_of
from spark_integration.cli.expressions import (
    Aggregation,
    described_window,
    parse_aggregation,
    parse_window,
)
from spark_integration.cli.job import Job, read_job
from spark_integration.errors import InvalidRequest
from stores.address import without_credentials


def job(**options):
    return Job.from_options({"input": ["a.csv"], **options})


def test_options_win_over_the_config_file_and_this_over_the_defaults(tmp_path):
    config = tmp_path / "job.toml"
    config.write_text(
        'key = "device"\nwindow = "1 hour"\nfiles-per-batch = 3\n[agg]\npeak = "max"\n'
    )
    made = job(config=str(config), window="2 hours", key=None)
    assert (made.key, made.window, made.files_per_batch) == ("device", "2 hours", 3)
    assert made.agg == ("peak=max",)
    assert made.on_late == "raise"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "windows = '1 hour'",
            "unknown options windows; it can have input, format, delimiter, quote, encoding",
        ),
        ("on_late = 'ignore'", "on_late is 'ignore': it must be one of raise, drop, side"),
        ("follow = 'yes'", "the option follow cannot be 'yes'"),
        ("agg = [1]", "the option agg cannot be"),
        ("key = ", "is not TOML"),
    ],
)
def test_bad_config_file(tmp_path, text, message):
    config = tmp_path / "job.toml"
    config.write_text(text)
    with pytest.raises(InvalidRequest, match=message):
        job(config=str(config))


def test_missing_config_file(tmp_path):
    with pytest.raises(InvalidRequest, match="No such file"):
        job(config=str(tmp_path / "none.toml"))


def test_contradictions():
    with pytest.raises(InvalidRequest, match="no input"):
        job(input=None)
    with pytest.raises(InvalidRequest, match="not both"):
        job(key="device", key_from_file_name=True)
    with pytest.raises(InvalidRequest, match="at least 1"):
        job(files_per_batch=0)
    with pytest.raises(InvalidRequest, match="--cores must be at least 1"):
        job(cores=0)


def test_the_note_of_a_job_tells_what_has_changed(tmp_path):
    first = job(output=str(tmp_path), key="device", store="redis://me:secret@host:6379/0")
    first.save()
    earlier = read_job(tmp_path)
    assert "secret" not in (tmp_path / "job.json").read_text()
    assert first.differences(earlier) == []
    assert first.replace(plot=False, memory="4g").differences(earlier) == []
    changed = first.replace(window="1 hour", key_from_file_name=True).differences(earlier)
    assert changed == [
        "--key-from-file-name was False and is True",
        "--window was '24 hours' and is '1 hour'",
    ]
    same = ["24h", "1 day", "1440 min", "PT24H"]
    for window in same:
        assert first.replace(window=window).differences(earlier, described_window) == []
    for window in ("25h", "24 events", "session 24h"):
        assert first.replace(window=window).differences(earlier, described_window) != []
    changed = first.replace(on_late="side", idle="expire").differences(earlier)
    assert changed == [
        "--on-late was 'raise' and is 'side'",
        "--idle was 'keep' and is 'expire'",
    ]
    assert first.replace(on_late="drop").differences(earlier) == []
    earlier["idle"] = "emit"
    assert first.replace(idle="expire").differences(earlier) == []
    assert first.differences(earlier) == ["--idle was 'emit' and is 'keep'"]
    late = job(output=str(tmp_path), allowed_lateness="1 minute", overwrite=True)
    late.save()
    earlier = read_job(tmp_path)
    assert late.replace(allowed_lateness="9 hours").differences(earlier) == []
    changed = late.replace(allowed_lateness=None, emit_updates=True).differences(earlier)
    assert changed == [
        "--allowed-lateness was '1 minute' and is None",
        "--emit-updates was False and is True",
    ]


def test_credentials_leave_the_address():
    assert without_credentials("redis://u:p@ss@host:1/2") == "redis://host:1/2"
    assert without_credentials("file:///a/b@c") == "file:///a/b@c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("peak=watts:max", ("peak", ("watts",), "max")),
        (" peak = watts : max ", ("peak", ("watts",), "max")),
        ("watts:max", ("watts_max", ("watts",), "max")),
        ("mean", ("volts_mean", ("volts",), "mean")),
        ("n=count", ("n", (), "count")),
        ("count", ("count", (), "count")),
        ("watts:count", ("watts_count", ("watts",), "count")),
        ("p=watts:quantile(quantiles=0.9)", ("p", ("watts",), "quantile(quantiles=0.9)")),
        ("net in/out:max", ("net_in_out_max", ("net in/out",), "max")),
        ("a:b:corr", ("a_b_corr", ("a", "b"), "corr")),
        ("watts:string_agg(':')", ("watts_string_agg", ("watts",), "string_agg(':')")),
    ],
)
def test_aggregation(text: str, expected: tuple[Any, ...]) -> None:
    found = parse_aggregation(text, ["volts", "watts"])
    assert found == Aggregation(*expected)
    assert parse_aggregation(str(found), []) == found


@pytest.mark.parametrize("text", ["max", "quantile(0.9)", "std", "count", "median", "mode"])
def test_results_are_named_as_by_python_functions(text: str) -> None:
    pair = text if text == "count" else ("watts", text)
    assert [parse_aggregation(text, ["watts"]).name] == list(pairs_of(pair))


def test_an_aggregation_that_reads_times_is_given_the_column_of_the_time() -> None:
    pairs = {
        text: parse_aggregation(text, ["v"]).pair("ts")
        for text in ("max", "count", "v:count", "v:integral")
    }
    assert pairs == {
        "max": (("v",), "max"),
        "count": ((), "count"),
        "v:count": (("v",), "count"),
        "v:integral": (("ts", "v"), "integral"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write name=column:aggregation"),
        ("peak=", "write name=column:aggregation"),
        ("a=b=c:max(", "write name=column:aggregation"),
        ("max(watts)", "such as watts:max"),
        ("watts:medain", "no aggregation 'medain'; did you mean 'median'"),
        ("watts:corr", "Correlation reads 2"),
        ("watts:volts:max", "max.*column"),
        ("watts:nth_value", r"missing 1 required positional argument.* --sql"),
        ("watts:__import__('os')", "no aggregation '__import__'"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        parse_aggregation(text, ["watts"])


def test_aggregation_without_any_column() -> None:
    with pytest.raises(InvalidRequest, match=r"write column:aggregation, such as watts:max"):
        parse_aggregation("max", [])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000 events", 1000),
        ("1 event", 1),
        ("24", 24),
        ("2^20 events", 1 << 20),
        ("10_000 rows", 10_000),
    ],
)
def test_count_window(text, size):
    assert parse_window(text).fingerprint == CountWindow(size).fingerprint


@pytest.mark.parametrize("text", ["24 hours", "1 day", "90 seconds", " 24 hours "])
def test_time_window(text):
    assert parse_window(text).fingerprint == TimeWindow(text.strip()).fingerprint


@pytest.mark.parametrize("text", ["session 30 minutes", " session  30 minutes "])
def test_session_window(text):
    assert parse_window(text).fingerprint == SessionWindow("30 minutes").fingerprint


@pytest.mark.parametrize(
    "text",
    ["session", "session 5", "session 3 events", "0 events", "yesterday", "-3 hours", "",
     "day=24 hours", "1 day, closed left", "3 months, zone UTC"],
)  # fmt: skip
def test_bad_window(text):
    with pytest.raises(InvalidRequest, match=r"--window .* write the query with --sql"):
        parse_window(text)
