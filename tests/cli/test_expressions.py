import pytest

from mta import CalendarWindow, CountWindow, SessionWindow, TimeWindow
from spark_integration.cli.expressions import (
    Aggregation,
    parse_aggregation,
    parse_window,
    parse_windows,
)
from spark_integration.errors import InvalidRequest

FILTERED = "n=sum(v) filter (where b)"


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
        ("sum(a) FILTER (WHERE b = ')')", ("sum_a_b", "sum", "a", (), "", "b = ')'")),
        ("n=count filter(where f(b))", ("n", "count", "", (), "", "f(b)")),
        ("max(net in/out)", ("max_net_in_out", "max", "net in/out")),
        ("max(net, in)", ("max_net_in", "max", "net, in")),
        ("quantile(watts, 0.9)", ("quantile_watts_0_9", "quantile", "watts", (), "0.9")),
        ("corr(watts, volts)", ("corr_watts_volts", "corr", "watts", ("volts",))),
        ("d=decayed_sum(a, half_life='5m')", ("d", "decayed_sum", "a", (), "half_life='5m'")),
    ],
)
def test_aggregation(text, expected):
    assert parse_aggregation(text, ["volts", "watts"]) == Aggregation(*expected)


@pytest.mark.parametrize(
    "text",
    ["max", "count", "rank(x, 'min', pct=True)", "p=regr_slope(y, x) filter (where z > 0)"],
)
def test_an_aggregation_reads_back_what_it_prints(text):
    aggregation = parse_aggregation(text, ["watts"])
    assert parse_aggregation(str(aggregation), []) == aggregation


def test_an_aggregation_that_reads_times_is_given_the_column_of_the_time():
    pairs = {
        text: parse_aggregation(text, ["v"]).pair("ts")
        for text in ("max", "count", "count(v)", "integral(v, 'linear')", "corr(v, w)", FILTERED)
    }
    assert pairs == {
        "max": (("v",), "max()"),
        "count": ((), "count()"),
        "count(v)": (("v",), "count()"),
        FILTERED: (("v",), "sum()", "__filter_n"),
        "integral(v, 'linear')": (("ts", "v"), "integral('linear')"),
        "corr(v, w)": (("v", "w"), "corr()"),
    }


def test_the_names_in_a_filter_are_found_beside_its_texts():
    aggregation = parse_aggregation(
        """n=count(*) filter (where `a b` > "c" and D.e = 'f''g')""", []
    )
    names = ("a b", "c", "d", "E", "f", "g", "count")
    assert [name for name in names if aggregation.mentions(name)] == ["a b", "d", "E"]


@pytest.mark.parametrize(
    "text",
    ["", "peak=", "max(a)b", "a=b=max(c)", "max(watts", "sum(a) filter (b)", "sum(a) where b"],
)
def test_malformed_aggregation(text):
    with pytest.raises(InvalidRequest, match="not of the form"):
        parse_aggregation(text, ["watts"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("medain(watts)", "no aggregation 'medain'; did you mean 'median'"),
        ("corr(watts)", "names 1 of the 2 columns that corr reads"),
        ("quantile(watts, 7)", "quantiles are numbers from 0 to 1"),
        ("nth_value(watts)", "missing 1 required positional argument"),
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
    [("1000 events", 1000), ("1 event", 1), ("2^20 events", 1 << 20), ("10_000 rows", 10_000)],
)
def test_count_window(text, size):
    assert parse_window(text).fingerprint == CountWindow(size).fingerprint


@pytest.mark.parametrize("text", ["24 hours", "1 day", "90 seconds", " 24 hours "])
def test_time_window(text):
    assert parse_window(text).fingerprint == TimeWindow(text.strip()).fingerprint


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("1 day, closed left", TimeWindow("1 day", closed="left")),
        ("1 day, delay 1 hour", TimeWindow("1 day", delay="1 hour")),
        ("1 day,closed both , delay 5m", TimeWindow("1 day", closed="both", delay="5m")),
        ("1 day, ties peers", TimeWindow("1 day", ties="peers")),
        ("100 events, exclude current", CountWindow(100, exclude_current=True)),
    ],
)
def test_a_window_may_end_before_the_row(text, policy):
    assert repr(parse_window(text)) == repr(policy)
    assert repr(parse_windows(["a=" + text, "b=1 day"])["a"]) == repr(policy)


@pytest.mark.parametrize(
    "text",
    ["1 day, open left", "1 day, closed", "1 day, exclude all", "1 day, exclude current",
     "9 events, closed left", "session 1 day, closed left", "1 day, delay soon", "1 day, 5"],
)  # fmt: skip
def test_a_wrong_end_is_refused(text):
    with pytest.raises(InvalidRequest, match="--window"):
        parse_window(text)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("3 months, zone UTC", CalendarWindow("3 months")),
        ("1 day, zone Asia/Kolkata", CalendarWindow("1 day", "Asia/Kolkata")),
        (
            "1 year, zone UTC, closed left, delay 5m",
            CalendarWindow("1 year", closed="left", delay="5m"),
        ),
        ("month to date", CalendarWindow.to_date("month")),
        ("week to date, zone Asia/Kolkata", CalendarWindow.to_date("week", "Asia/Kolkata")),
    ],
)
def test_a_window_may_be_of_the_calendar(text, policy):
    assert repr(parse_window(text)) == repr(policy)


@pytest.mark.parametrize(
    "text",
    [
        "3 months",
        "9 hours, zone Asia/Kolkata",
        "1 day, zone Mars",
        "fortnight to date",
        "1 day, offset 9h",
    ],
)
def test_what_no_calendar_has_is_refused(text):
    with pytest.raises(InvalidRequest, match="--window"):
        parse_window(text)


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
