"""Kafka: the reasons against messages, and a real broker that is down, killed and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation, SparkSession

from spark_integration import check_topic, parse_messages
from spark_integration.errors import InvalidRequest
from tests.support.documents import ROOT
from tests.support.faulty import eventually
from tests.support.kafka import connector
from tests.support.patience import LONG
from tests.support.spark.session import quick_environment

#: Readings that are sent at once.
HOUR = 60
#: Seconds that the broker and the sessions may take on a machine that has much else to do.
MOST = 1800
FORM = "device string, ts timestamp, watts double"
GOOD = '{"device": "a", "ts": "2024-01-01T00:00:00Z", "watts": 5}'


def with_watts(text: str) -> str:
    return GOOD.replace("5}", text + "}")


def with_time(text: str) -> str:
    return GOOD.replace('"2024-01-01T00:00:00Z"', text)


def with_device(text: str) -> str:
    return GOOD.replace('"a"', text)


MESSAGES: dict[str | bytes | None, str | None] = {
    GOOD: None,
    with_watts('5, "more": [1]'): None,
    None: "no message",
    b"\xff\xfe": "no UTF-8",
    GOOD.replace('"a"', '"\u00e9"').encode("latin-1"): "no UTF-8",
    "": "no JSON object",
    "null": "no JSON object",
    "5": "no JSON object",
    f"[{GOOD}]": "no JSON object",
    GOOD[:-1]: "no JSON object",
    with_watts("5.5.5"): "no JSON object",
    "{}": "no device",
    GOOD.replace("device", "Device"): "no device",
    with_watts("null"): "no watts",
    with_watts('"72F"'): "watts is no double",
    with_watts("[5]"): "watts is no double",
    GOOD.replace("2024-01", "2024-13"): "ts is no timestamp",
    with_time("1704067200"): None,  # seconds since 1970
    with_time("-1"): None,
    with_time("1704067200000"): "ts is no timestamp",
    with_time(" 1704067200000000"): "ts is no timestamp",
    with_time("1704067200000000000"): "ts is no timestamp",
    with_time("-1704067200000"): "ts is no timestamp",
    with_time("1" + 50 * "0"): "ts is no timestamp",
    with_time("1704067200.5"): "ts is no timestamp",
    with_time('"12024-01-01T00:00:00Z"'): "ts is no timestamp",
    with_time("true"): "ts is no timestamp",
    with_watts("1e400"): "watts is no double",
    with_watts("-1e400"): "watts is no double",
    with_watts("1" + 400 * "0"): "watts is no double",
    with_watts('1e400, "info": "inf"'): "watts is no double",
    with_watts('"Infinity"'): None,
    with_watts('5, "more": 1704067200000'): None,
    with_device(r'"\ud83d\ude00"'): None,
    with_device(r'"\uD83D\uDE00\u0041"'): None,
    with_device(r'"\\ud800"'): None,  # an escaped backslash, and letters
    with_device(r'"\ud800"'): "no UTF-8",
    with_device(r'"x\uDFFFx"'): "no UTF-8",
    with_device(r'"\\\ud800"'): "no UTF-8",
    with_device(r'"\ud83d\ud83d\ude00"'): "no UTF-8",
    with_device(r'"\ude00\ud83d"'): "no UTF-8",
    with_device(r'"\\ud83d\ude00"'): "no UTF-8",
    with_device('{"id": "a"}'): "device is no string",
    with_device('{"id": {"x": 1}}'): "device is no string",
    with_device("{}"): "device is no string",
    with_device('["a"]'): "device is no string",
    with_device("[[1], {}]"): "device is no string",
    with_device("[]"): "device is no string",
    with_device(r'"{\"id\": 1}"'): None,  # text
    with_device('"[a]"'): None,
    with_device('"["'): None,
    with_device("7"): None,
}


def test_each_message_has_its_event_or_the_reason_against_it(spark: SparkSession) -> None:
    values = [text.encode() if isinstance(text, str) else text for text in MESSAGES]
    messages = spark.createDataFrame([(value,) for value in values], "value binary")
    counts = Observation("messages")
    rows = parse_messages(messages, FORM, metrics=counts).collect()
    found = {text: row.reason for text, row in zip(MESSAGES, rows, strict=True)}
    assert found == MESSAGES
    for row in rows:
        if row.reason is None:  # as Python reads it
            expected = json.loads(row.value)
            assert row.event.watts == float(expected["watts"])
            assert row.event.device == str(expected["device"])
    by_reason = {reason: count for reason, count in counts.get.items() if count}
    reasons = [reason or "readable" for reason in MESSAGES.values()]
    assert by_reason == {reason: reasons.count(reason) for reason in reasons}


def test_a_field_that_may_be_missing_must_be_readable(spark: SparkSession) -> None:
    messages = spark.createDataFrame([(with_watts("null"),), (with_watts('"x"'),)], "value string")
    rows = parse_messages(messages, FORM, optional=["watts"], metrics=Observation("m")).collect()
    assert [row.reason for row in rows] == [None, "watts is no double"]


def test_arguments_that_do_not_fit_are_refused(spark: SparkSession) -> None:
    messages = spark.createDataFrame([(GOOD,)], "value string")
    with pytest.raises(InvalidRequest, match="optional names 'volts'; the fields are"):
        parse_messages(messages, FORM, optional=["volts"])
    with pytest.raises(InvalidRequest, match="schema is 'int': name fields"):
        parse_messages(messages, "int")
    with pytest.raises(InvalidRequest, match="column is 'body'; there are value"):
        parse_messages(messages, FORM, column="body")
    with pytest.raises(InvalidRequest, match="there is already a column 'reason': rename"):
        parse_messages(messages, "reason string")
    with pytest.raises(InvalidRequest, match="timeout is 'soon'"):
        check_topic(spark, "localhost:9092", "readings", timeout="soon")


def test_a_session_without_the_connector_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidRequest, match=r"--packages org.apache.spark:spark-sql-kafka-0-10_2"):
        check_topic(spark, "localhost:9092", "readings")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What ``tests.support.spark.kafka_session`` finds, run once for all processes of the tests."""
    jars, run = connector(), os.environ.get("PYTEST_XDIST_TESTRUNUID")
    shared = Path(tempfile.gettempdir()) / f"mta-tests-kafka-{run or os.getpid()}"
    result = shared / "result.json"
    try:
        shared.mkdir()
    except FileExistsError:
        eventually(result.exists, MOST)
    else:
        folder = tmp_path_factory.mktemp("kafka")
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.spark.kafka_session", folder, jars, str(HOUR)],
            cwd=ROOT, capture_output=True, text=True, timeout=MOST,
            env={**os.environ, **quick_environment(), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        last = done.stdout.splitlines()[-1:] if done.returncode == 0 else []
        written = result.with_suffix(".new")
        written.write_text(json.dumps({"last": last, "error": done.stderr[-3000:]}))
        written.replace(result)
    seen = json.loads(result.read_text())
    assert seen["last"], seen["error"]
    return json.loads(seen["last"][0])


def test_a_topic_that_is_missing_is_named(found: Any) -> None:
    assert found["missing"]["kind"] == "NoSuchTopic"
    assert (
        "has no topic 'nothing': correct the name, or create the topic" in found["missing"]["text"]
    )


def test_a_broker_that_is_down_is_named_in_bounded_time(found: Any) -> None:
    assert found["down"]["kind"] == "BrokerUnavailable"
    assert "did not describe the topic 'readings' within 2 seconds" in found["down"]["text"]
    assert found["down"]["seconds"] < LONG


def test_a_query_starts_at_the_oldest_message(found: Any) -> None:
    assert found["first"] == {"n": list(range(1, HOUR + 1)), "repeated": 0}


def test_a_batch_that_is_written_again_is_passed_over(found: Any) -> None:
    assert found["replayed"] == {"n": list(range(1, 2 * HOUR + 1)), "repeated": HOUR}


def test_a_broker_that_dies_ends_the_query_in_bounded_time_and_nothing_is_lost(found: Any) -> None:
    assert found["lost"]["kind"] == "StreamingQueryException"
    assert "Timeout" in found["lost"]["text"]
    assert found["lost"]["seconds"] < LONG
    assert found["started again"] == {"n": list(range(1, 3 * HOUR + 1)), "repeated": HOUR}


@pytest.mark.proves("PySpark", "Kafka in and out")
def test_the_example_equals_lists(found: Any) -> None:
    """``make soak`` runs its job in a process that is killed."""
    printed = found["example"]
    assert "1 x late" in printed
    assert printed.endswith("all 801 results equal lists, each once\n")
