"""``mta plan``: numbers out of options, and errors that say what to give."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mta.cli.commands import CommandLine
from mta.cli.console import Exit

ASKED = ["plan", "--keys", "1M", "--events-per-second", "20k", "--window", "24 hours"]


def test_a_plan_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert CommandLine().run([*ASKED, "--aggregations", "5", "--store", "redis"]) == Exit.DONE
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert [*lines] == [
        "keys", "store", "traffic", "requests", "checkpoint", "buckets", "cores", "memory",
    ]  # fmt: skip
    assert lines["keys"] == "1,729.0 events each; each with pages of its own"


def test_a_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*ASKED[:-1], "20 events", "--json", "--buckets", "16"]
    assert CommandLine().run(asked) == Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["buckets"] == 16 and found["events_per_key"] == 20 and not found["standalone"]
    assert found["store_bytes"] > 20 * 1_000_000 * 8
    assert 1 <= found["partitions"] <= 16
    assert found["events_per_second_and_core"] * found["cores"] >= 20_000


def test_more_events_a_second_want_more_cores(capsys: pytest.CaptureFixture[str]) -> None:
    cores = []
    for rate in ("2k", "2M", "20M"):
        asked = [*ASKED[:3], "--events-per-second", rate, "--window", "20 events", "--json"]
        CommandLine().run(asked)
        cores.append(json.loads(capsys.readouterr().out)["cores"])
    assert cores == sorted(set(cores))


def test_an_object_store_is_asked_once_per_bucket_and_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    CommandLine().run([*ASKED, "--store", "s3", "--buckets", "20", "--batch", "10 seconds"])
    assert "requests    2.0 a second with a warm cache on disk" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--keys", "0", "above 0, such as 800, 50k or 10M"),
        ("--keys", "many", "above 0, such as 800, 50k or 10M"),
        ("--events-per-second", "-3", "above 0"),
        ("--window", "session 30 minutes", "write '30 days' or '1000 events'"),
        ("--window", "0 events", "write '30 days'"),
        ("--aggregations", "0", "whole number of at least 1"),
        ("--batch", "soon", "soon"),
        ("--key-bytes", "1M", "up to 65536"),
        ("--buckets", "x", "whole number of at least 1"),
    ],
)
def test_an_option_that_cannot_be_is_named(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        CommandLine().run([*ASKED, f"{option}={value}"])
    assert caught.value.code == Exit.USAGE
    error = capsys.readouterr().err
    assert option in error and says in error


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--store", "cassandra"], "'cassandra' is none of file, memory, redis"),
        (["--store", "redis", "--measure"], "give the URL of a store to measure in"),
        (["--store", "redis://127.0.0.1:1", "--measure"], "127.0.0.1:1"),
    ],
)
def test_a_store_that_cannot_be_is_named(
    given: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CommandLine().run([*ASKED, *given]) in (Exit.USAGE, Exit.UNAVAILABLE)
    assert says in capsys.readouterr().err


def test_the_constants_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mta import TimeWindow
    from mta.planning import plan

    few = plan.Workload(50, 500, TimeWindow("4 seconds"), 1, 1)
    monkeypatch.setattr(plan, "SHAPES", (few, replace(few, aggregations=3)))
    monkeypatch.setattr(plan, "_FILLING", 500)
    assert CommandLine().run([*ASKED, "--store", "memory://planned", "--measure", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"] and all(cost >= 0 for cost in found["costs"].values())
    assert any(found["costs"].values()) and found["events_per_second_and_core"] > 0
