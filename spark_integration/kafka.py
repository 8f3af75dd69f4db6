"""Kafka topics as streams of events, with named errors for topics and for each message.

Spark's own source starts at the newest message, waits minutes for a broker that is down, and
returns nulls for what ``from_json`` cannot read. ``read_topic`` asks the broker before the query
starts, starts at the oldest message and limits every wait. ``parse_messages`` returns why a message
cannot be used, so that a query can write such messages elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.times import CERTAIN, to_duration
from spark_integration.errors import BrokerUnavailable, InvalidRequest, NoSuchTopic
from spark_integration.interpreter import context_of
from spark_integration.versions import INSTALLED, type_of

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10"
#: The name of the counts of messages by reason, in a query's ``observedMetrics``.
MESSAGES = "messages"
#: The name of the count of messages that can be used.
READABLE = "readable"
#: The column of a message's fields as text, and its field for a text that is not a JSON object.
_TEXT = "_message"
#: Escapes in JSON of any half of a surrogate pair, and of a whole pair.
_SURROGATE = r"\\u[dD][89a-fA-F]"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_FLOATS = (T.DoubleType, T.FloatType)
_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)


def read_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    starting_offsets: str = "earliest",
    timeout: str = "30 seconds",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a topic as a stream: key, value, topic, partition, offset, timestamp of each message.

    Asks the broker once. Raises the errors of ``check_topic``.

    Args:
        spark: The session.
        servers: The brokers to ask first, such as "host:9092,other:9092".
        topic: The name of the topic, or several names separated by commas.
        starting_offsets: Where a query without a checkpoint starts: "earliest", "latest", or
            offsets in Spark's JSON format. A query with a checkpoint continues where it stopped.
        timeout: How long a broker may take to answer one call, here and while the query runs. Spark
            tries several times before the query fails.
        options: Other options of Spark's source, such as "maxOffsetsPerTrigger", and options of
            Kafka's clients with the prefix "kafka.", such as "kafka.security.protocol".
    """
    check_topic(spark, servers, topic, timeout=timeout, options=options)
    limits = dict.fromkeys(
        ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms", "kafkaConsumer.pollTimeoutMs"),
        str(_milliseconds(timeout)),
    )
    source = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": starting_offsets,
        **limits,
        **(options or {}),
    }
    return spark.readStream.format("kafka").options(**source).load()


def check_topic(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    timeout: str = "30 seconds",
    options: Mapping[str, str] | None = None,
) -> None:
    """Check that a broker has the topic, before reading from it or writing to it.

    With Spark Connect, only the server can reach the broker, and nothing is checked. Raises
    NoSuchTopic, BrokerUnavailable after ``timeout``, and InvalidRequest if the session has no
    connector to Kafka.

    Args:
        spark: The session.
        servers: The brokers to ask first, such as "host:9092,other:9092".
        topic: The name of the topic, or several names separated by commas.
        timeout: How long a broker may take to answer.
        options: Options of Kafka's clients with the prefix "kafka.", as for ``read_topic``.
    """
    if context_of(spark) is None:
        return
    milliseconds = _milliseconds(timeout)
    jvm: Any = spark._jvm
    admin = jvm.org.apache.kafka.clients.admin.Admin
    if isinstance(admin, JavaPackage):
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        raise InvalidRequest(
            "the session has no connector to Kafka: start it with spark-submit --packages "
            f"{CONNECTOR}_{scala}:{spark.version}, or set spark.jars.packages to this package"
        )
    given = {name.removeprefix("kafka."): value for name, value in (options or {}).items()
             if name.startswith("kafka.")}  # fmt: skip
    limits = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), str(milliseconds))
    try:
        client = admin.create({"bootstrap.servers": servers, **limits, **given})
        try:
            client.describeTopics([name.strip() for name in topic.split(",")]).allTopicNames().get()
        finally:
            client.close()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        kind = cause.getClass().getSimpleName()
        if kind in ("UnknownTopicOrPartitionException", "InvalidTopicException"):
            raise NoSuchTopic(
                f"Kafka at {servers} has no topic {topic!r}: correct the name, or create the topic"
            ) from error
        raise BrokerUnavailable(
            f"Kafka at {servers} did not describe the topic {topic!r} within {timeout} "
            f"({kind}: {cause.getMessage()}): start the broker, or correct the address or the "
            "options; nothing is lost"
        ) from error


def _milliseconds(timeout: str) -> int:
    try:
        return max(1, to_duration(timeout, "a timeout", least=0) // 1000)
    except ValueError as error:
        raise InvalidRequest(f"timeout is {timeout!r}: {error}") from error


def parse_messages(
    messages: DataFrame,
    schema: str | T.StructType,
    *,
    column: str = "value",
    optional: Sequence[str] = (),
    metrics: str | Observation = MESSAGES,
) -> DataFrame:
    """Return the messages with two more columns: the ``event``, or the ``reason`` against it.

    ``reason`` is null for a message that can be used. Otherwise it is the first of these that
    applies: "no message", "no UTF-8", "no JSON object", "no <field>" or "<field> is no <type>".
    Values that ``from_json`` would change without a word also have a reason: half of a surrogate
    pair ("no UTF-8"), objects and arrays as text, numbers too large for their type, and times
    outside the years 1 to 9999, or numbers for times that are not seconds since 1970. Parses each
    message once, and again if it looks unusual. Raises InvalidRequest for invalid arguments.

    Args:
        messages: A stream or batch with JSON messages in ``column``.
        schema: The fields of an event, such as "device string, ts timestamp, watts double".
            Spark's ``from_json`` reads them.
        column: The column with the messages, of bytes or text.
        optional: The fields that an event may lack.
        metrics: The name of the counts by reason in ``observedMetrics`` of a streaming query. For a
            batch query, pass an ``Observation``.
    """
    kind = type_of(schema) if isinstance(schema, str) else schema
    if not isinstance(kind, T.StructType):
        raise InvalidRequest(
            f"schema is {schema!r}: name fields, such as 'device string, ts timestamp'"
        )
    if unknown := sorted({*optional} - {*kind.names}):
        raise InvalidRequest(f"optional names {unknown[0]!r}; the fields are {kind.names}")
    if taken := sorted({"event", "reason", _TEXT} & {*messages.columns, *kind.names}):
        raise InvalidRequest(
            "parse_messages adds the columns 'event' and 'reason', but there is already a column "
            f"{taken[0]!r}: rename it"
        )
    if column not in messages.columns:
        raise InvalidRequest(f"column is {column!r}; there are {', '.join(messages.columns)}")
    text = F.col(column).cast("string")
    # Parsing the fields as text distinguishes missing fields from fields of another type. Most
    # messages have all fields, and are not parsed a second time.
    texts = T.StructType([T.StructField(name, T.StringType()) for name in [*kind.names, _TEXT]])
    unusual = reduce(or_, _unusual(kind, text))
    parsed = messages.withColumn("event", F.from_json(text, kind)).withColumn(
        _TEXT, F.when(unusual, F.from_json(text, texts, {"columnNameOfCorruptRecord": _TEXT}))
    )
    of_fields = [*_faults_of_fields(kind, optional, text)]
    of_text = [("no message", text.isNull()), ("no UTF-8", ~_is_unicode(text))]
    reason = F.coalesce(_first(of_text), F.when(unusual, _first(of_fields)))
    usable = F.count_if(F.col("reason").isNull()).alias(READABLE)
    counts = (F.count_if(F.col("reason") == why).alias(why) for why, _ in [*of_text, *of_fields])
    parsed = parsed.withColumn("reason", reason).drop(_TEXT)
    parsed = parsed.withColumn("event", F.when(F.col("reason").isNull(), F.col("event")))
    return parsed.observe(metrics, usable, *counts)


def _is_unicode(text: Column) -> Column:
    """Return whether the text is valid, and its escapes have no half of a surrogate pair."""
    others = F.regexp_replace(text, r"\\[^u]", "")  # first, because of escaped backslashes
    halves = F.regexp_replace(others, _PAIR, "").rlike(_SURROGATE)
    is_valid = ~F.when(text.rlike(_SURROGATE), halves).otherwise(F.lit(False))
    return is_valid & F.is_valid_utf8(text) if INSTALLED >= (4, 0) else is_valid


def _unusual(kind: T.StructType, text: Column) -> Iterator[Column]:
    """Yield the signs that a message may be unusable; few usable messages have one."""
    for field in kind:
        value = _value(field.name)
        yield value.isNull()
        if isinstance(field.dataType, T.StringType):
            yield value.rlike(r"^[\[{]")
        elif isinstance(field.dataType, _FLOATS):
            yield F.abs(value) == float("inf")
        elif isinstance(field.dataType, _TIMES):
            yield _is_out_of_range(value)
    if any(isinstance(field.dataType, _TIMES) for field in kind):
        yield text.rlike(r":\s*-?\d{12}")  # a number that is not seconds, or a longer number


def _faults_of_fields(
    kind: T.StructType, optional: Sequence[str], text: Column
) -> Iterator[tuple[str, Column]]:
    """Yield the reasons why an unusual text is not an event, and whether they apply."""
    texts = F.col(_TEXT)
    yield "no JSON object", texts.isNull() | texts[_TEXT].isNotNull()
    for field in kind:
        name, value = field.name, _value(field.name)
        if name not in optional:
            yield f"no {name}", texts[name].isNull()
        unread = texts[name].isNotNull() & value.isNull()
        if isinstance(field.dataType, T.StringType):
            unread = _is_nested(text, name, value)
        elif isinstance(field.dataType, _FLOATS):
            # The text of a number that is too large is also "Infinity": the message itself differs.
            written = text.rlike(rf'"\Q{name}\E"\s*:\s*"?[+-]?(?i:inf)')
            unread |= (F.abs(value) == float("inf")) & ~written
        elif isinstance(field.dataType, _TIMES):
            number = F.regexp_extract(texts[name], r"^-?\d+$", 0)
            unread |= _is_out_of_range(value) | (F.length(number) > 0) & ~(
                F.abs(number.cast("decimal(38, 0)")) < CERTAIN
            )
        yield f"{name} is no {field.dataType.simpleString()}", F.coalesce(unread, F.lit(False))


def _is_nested(text: Column, name: str, value: Column) -> Column:
    """Return whether a field's value is an object or an array, and not text that looks like one."""
    of_objects = T.MapType(T.StringType(), T.StringType())
    kinds = {"{": of_objects, "[": T.ArrayType(T.StringType())}
    nested = F.lit(False)
    for start, kind in kinds.items():
        read = F.from_json(text, T.StructType([T.StructField(name, kind)]))
        nested = F.when(value.startswith(start), read[name].isNotNull()).otherwise(nested)
    return nested


def _is_out_of_range(time: Column) -> Column:
    return ~F.year(time).between(1, 9999)


def _value(name: str) -> Column:
    return F.col(f"event.`{name}`")


def _first(faults: Iterable[tuple[str, Column]]) -> Column:
    """Return the first reason that applies, null for none."""
    return F.coalesce(*(F.when(holds, F.lit(reason)) for reason, holds in faults))
