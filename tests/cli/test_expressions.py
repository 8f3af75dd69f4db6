import pytest

from mta import CountWindow, SessionWindow, TimeWindow
from spark_integration.cli.expressions import Aggregation, parse_aggregation, parse_window
from spark_integration.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("peak=max(watts)", ("peak", "max", "watts")),
        (" peak = max ( watts ) ", ("peak", "max", "watts")),
        ("max(watts)", ("max_watts", "max", "watts")),
        ("mean", ("mean_volts", "mean", "volts")),
        ("n=count", ("n", "count", "")),
        ("count(*)", ("count", "count", "")),
        ("count()", ("count", "count", "")),
        ("count(watts)", ("count_watts", "count", "watts")),
        ("max(net in/out)", ("max_net_in_out", "max", "net in/out")),
        ("max(net, in)", ("max_net_in", "max", "net, in")),
    ],
)
def test_aggregation(text, expected):
    assert parse_aggregation(text, ["volts", "watts"]) == Aggregation(*expected)


@pytest.mark.parametrize("text", ["max", "count", "count(watts)", "n=time_weighted_mean(watts)"])
def test_an_aggregation_reads_back_what_it_prints(text):
    aggregation = parse_aggregation(text, ["watts"])
    assert parse_aggregation(str(aggregation), []) == aggregation


def test_an_aggregation_that_reads_times_is_given_the_column_of_the_time():
    pairs = {
        text: parse_aggregation(text, ["v"]).pair("ts")
        for text in ("max", "count", "count(v)", "integral(v)")
    }
    assert pairs == {
        "max": (("v",), "max"),
        "count": ((), "count"),
        "count(v)": (("v",), "count"),
        "integral(v)": (("ts", "v"), "integral"),
    }


@pytest.mark.parametrize("text", ["", "peak=", "max(a)b", "a=b=max(c)", "max(watts"])
def test_malformed_aggregation(text):
    with pytest.raises(InvalidRequest, match=r"not of the form .* write the query with --sql"):
        parse_aggregation(text, ["watts"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("medain(watts)", "no aggregation 'medain'; did you mean 'median'"),
        ("corr(watts)", r"corr reads several columns; .* --sql"),
        ("nth_value(watts)", r"missing 1 required positional argument.* --sql"),
    ],
)
def test_a_mistake_is_named(text, message):
    with pytest.raises(InvalidRequest, match=message):
        parse_aggregation(text, ["watts"])


def test_aggregation_without_any_column():
    with pytest.raises(InvalidRequest, match=r"write max\(column\)"):
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
