import pytest

from mta import CountWindow, SessionWindow, TimeWindow
from spark_integration.cli.expressions import (
    FUNCTIONS,
    Aggregation,
    parse_aggregation,
    parse_window,
)
from spark_integration.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("peak=max(watts)", ("peak", "max", "watts")),
        (" peak = max ( watts ) ", ("peak", "max", "watts")),
        ("max(watts)", ("max_watts", "max", "watts")),
        ("mean", ("mean_volts", "mean", "volts")),
        ("n=count", ("n", "count", "volts")),
        ("max(net in/out)", ("max_net_in_out", "max", "net in/out")),
    ],
)
def test_aggregation(text, expected):
    assert parse_aggregation(text, ["volts", "watts"]) == Aggregation(*expected)


def test_an_aggregation_reads_back_what_it_prints():
    aggregation = parse_aggregation("max", ["watts"])
    assert parse_aggregation(str(aggregation), []) == aggregation


@pytest.mark.parametrize("text", ["", "peak=", "max(a)b", "a=b=max(c)", "max(watts"])
def test_malformed_aggregation(text):
    with pytest.raises(InvalidRequest, match="not of the form"):
        parse_aggregation(text, ["watts"])


def test_unknown_function_names_the_known_ones():
    with pytest.raises(InvalidRequest, match="no function 'median'; there are max, min, mean"):
        parse_aggregation("median(watts)", ["watts"])


def test_aggregation_without_any_column():
    with pytest.raises(InvalidRequest, match=r"write max\(column\)"):
        parse_aggregation("max", [])


def test_every_function_makes_a_monoid():
    for name in FUNCTIONS:
        assert parse_aggregation(name, ["watts"]).monoid().fingerprint


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000 events", 1000), ("1 event", 1), ("2^20 events", 1 << 20), ("10_000 rows", 10_000)],
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
    ["session", "session 5", "session 3 events", "0 events", "yesterday", "24", "-3 hours", ""],
)
def test_bad_window(text):
    with pytest.raises(InvalidRequest, match="--window"):
        parse_window(text)
