from typing import Any

import pytest

from mta import CountWindow, SessionWindow, TimeWindow
from mta.monoids.product import pairs_of
from spark_integration.cli.expressions import Aggregation, parse_aggregation, parse_window
from spark_integration.errors import InvalidRequest


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
