"""Mistakes that the driver finds before a query starts, each with the advice it gives."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mta import (
    ArgMax,
    Collect,
    Count,
    CountWindow,
    Max,
    Mean,
    Monoid,
    Product,
    Sum,
    TimeWindow,
    Window,
)
from mta.algorithms import FiBA
from mta.frames import BoundWindow
from mta.keyed.standalone import INNER_BYTES, small_groups
from spark_integration import recommended_conf, save_history, sliding, sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.options import SETTINGS, Options
from spark_integration.plan import Plan
from spark_integration.request import make_request
from spark_integration.runners.bucket import ENCODING
from spark_integration.versions import INSTALLED
from stores.errors import WindowStoreError, pip_install
from stores.memory import MemoryStore
from tests.support.spark.jobs import Job


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    schema = "device string, ts timestamp, watts double, note string, tags array<string>"
    return spark.createDataFrame([], schema)


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    reader = spark.readStream.schema("device string, ts timestamp, watts double, PEAK_X string")
    rows = reader.parquet(str(tmp_path_factory.mktemp("input")))
    return rows.withWatermark("ts", "0 seconds")


def ask(df: DataFrame, **changes: Any) -> DataFrame:
    settings: dict[str, Any] = {
        "by": "device",
        "on": "ts",
        "aggregations": {"peak": ("watts", Max())},
        "window": CountWindow(5),
        "store": "file:///tmp/never-opened",
    }
    return sliding_aggregate(df, **{**settings, **changes})


EVERY: dict[str, Any] = {"window": TimeWindow(9), "emit_every": "1 day"}
IDLE: dict[str, Any] = {"window": TimeWindow(60), "idle": "emit"}
LATE: dict[str, Any] = {"window": TimeWindow(60), "allowed_lateness": 30, "emit_updates": True}
TWO: dict[str, Any] = {"one": TimeWindow(5), "two": TimeWindow(9)}
NAMES: dict[str, Any] = {"a": ("watts", Max()), "a_b": ("watts", Max())}


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"by": "devise"}, "by names column 'devise'.*it has device, ts, watts"),
        ({"by": []}, "by is empty"),
        ({"by": "tags"}, "a key must be an atomic value"),
        ({"on": "when"}, "on names column 'when'"),
        ({"on": "note"}, "cast it to timestamp"),
        ({"carry": ["gone"]}, "carry names column 'gone'"),
        ({"aggregations": {}}, "name at least one"),
        ({"aggregations": {"peak": Max()}}, "names 0 column"),
        ({"aggregations": {"s": ("watts", Max(), "note")}}, "filter 'note' is string, not boolean"),
        ({"aggregations": {"peak": ("watts", max)}}, "give a pair of column and aggregation"),
        ({"aggregations": {"peak": ("volts", Max())}}, "aggregations names column 'volts'"),
        ({"aggregations": {"peak": ("note", Sum())}}, "Sum cannot read column 'note'"),
        ({"aggregations": {"p": ("watts", "maxx")}}, "'p': there is no aggregation 'maxx'.*'max'"),
        ({"aggregations": {"m": ("note", "median")}}, "cannot read column 'note'"),
        ({"aggregations": {"peak": ("note", Max("f8"))}}, "Max cannot read column 'note'"),
        ({"aggregations": {"peak": ("ts", Mean())}}, "Mean cannot read column 'ts'"),
        ({"aggregations": {"all": ("tags", Collect())}}, "Collect cannot read column 'tags'"),
        ({"aggregations": {"at": ("watts", ArgMax())}}, "reads 2; write"),
        ({"aggregations": {"watts": ("watts", Max())}}, "column 'watts': choose another name"),
        ({"aggregations": {"Watts": ("watts", Max())}}, "column 'watts': choose another name"),
        ({"aggregations": {"a": ("watts", Max()), "A": ("watts", Sum())}}, "choose another name"),
        ({"carry": ["note"], "aggregations": {"note": ("watts", Max())}}, "choose another name"),
        ({"types": {"gone": "int"}}, "no aggregation has that name"),
        ({"window": None}, "a frame is one of mta.s"),
        ({"emit": "update"}, "emit is 'update'.*'all' or 'last'"),
        ({"on_late": "accept"}, "'raise' or 'drop' or 'side'"),
        ({"on_invalid": None}, "'raise' or 'drop'"),
        ({"buckets": 0}, "between 1 and 65536"),
        ({"arity": 1}, "arity is a number from 2"),
        ({"leaf_arity": 1}, "arity is a number from 2"),
        ({"retain": 1}, "at least 2"),
        ({"name": "a name"}, "use 1 to 40 letters"),
        ({"name": "n" * 41}, "use 1 to 40 letters"),
        ({"store": "memory://"}, "workers are processes without shared memory"),
        ({"store": object()}, "give its URL"),
        ({"on_ahead": "drop"}, "max_ahead is not given"),
        ({"max_ahead": "soon"}, "max_ahead is 'soon': cannot read 'soon'"),
        ({"retractions": "undo"}, "set allowed_lateness"),
        ({"retractions": "ts", "allowed_lateness": 0}, "a separate column of booleans"),
        ({"retractions": "note", "allowed_lateness": 0}, "it must be boolean"),
        ({"on_duplicate": "add", "allowed_lateness": 0}, "on_duplicate is 'add'"),
        (
            {"on_duplicate": "combine", "aggregations": {"mean": ("watts", Mean())}},
            "cannot combine two values into one",
        ),
        (EVERY | {"retractions": "undo", "allowed_lateness": 0}, "leave emit_every out"),
        (EVERY | {"emit_every": 0}, "emit_every is 0"),
        (EVERY | {"emit_every": "soon"}, "emit_every is 'soon'"),
        (EVERY | {"allowed_lateness": "1 minute"}, "a number of events, such as emit_every"),
        (EVERY | {"idle": "emit"}, "when a window is empty: set idle='expire'$"),
        (EVERY | {"emit_every": 2, "idle": "emit"}, "emit_every='1 minute' with idle='expire'"),
        (EVERY | LATE | {"emit_every": 2}, "leave one of the two out"),
        (EVERY | {"on": "watts"}, "cast it to timestamp"),
    ],
)
def test_mistakes(df: DataFrame, changes: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidRequest, match=advice):
        ask(df, **changes)


def shifted(df: DataFrame) -> DataFrame:
    return df.withColumn("ts", F.col("ts") + F.expr("interval 1 second"))


@pytest.mark.parametrize(
    ("change", "changes", "advice"),
    [
        (None, IDLE | {"idle": "forget"}, "'keep' or 'expire' or 'emit'"),
        (None, IDLE | {"window": CountWindow(5)}, "never empties a .*use a TimeWindow"),
        (None, IDLE | {"window": TimeWindow(5) & CountWindow(5)}, "never empties"),
        (lambda df: df.withColumn("ts", F.col("ts").cast("long")), IDLE, "cast it to timestamp"),
        (shifted, IDLE | {"idle": "expire"}, "no watermark on 'ts'.*df.withWatermark"),
        (
            lambda df: df.withColumnRenamed("PEAK_X", "Late"),
            IDLE | {"on_late": "side", "carry": ["Late"]},
            "on_late='side' adds a column 'late'.*has 'Late': rename",
        ),
        (
            None,
            IDLE | {"on_late": "side", "aggregations": {"late": ("watts", Max())}},
            "'late': choose another name",
        ),
        (None, LATE | {"allowed_lateness": "soon"}, "'soon': cannot read 'soon'"),
        (None, LATE | {"allowed_lateness": -1}, "allowed_lateness must be 0 or longer"),
        (None, LATE | {"emit_updates": "maybe"}, "'maybe': it must be True or False"),
        (None, LATE | {"allowed_lateness": None}, "no event may be late: set allowed_lateness"),
        (None, LATE | {"carry": ["PEAK_X"]}, "do not store PEAK_X of earlier .*: leave carry out"),
        (None, LATE | {"window": TWO}, "multiple windows: call sliding_aggregate for each"),
        (
            None,
            LATE | {"window": BoundWindow(("watts", Sum()), at_most=9)},
            "BoundWindow.*depends on values",
        ),
        (
            None,
            LATE | {"aggregations": {"Corrected": ("watts", Max())}},
            "'Corrected' has the same name as the result's column 'corrected'",
        ),
        (None, {"window": {}}, "window is empty: name at least one"),
        (None, {"window": {"": TimeWindow(5)}}, "a window is called ''"),
        (None, {"window": {"5 minutes": TimeWindow(5)}}, "'5 minutes': use 1 to 40 letters"),
        (None, {"window": {3: TimeWindow(5)}}, "a window is called 3"),
        (None, {"window": {"a": None}}, "a frame is one of mta's"),
        (
            None,
            {"window": {"c": TimeWindow(5), "b_c": TimeWindow(6)}, "aggregations": NAMES},
            "'a_b_c' has the same name as the result's column 'a_b_c'",
        ),
        (
            None,
            {"window": {"x": CountWindow(5)}, "carry": ["PEAK_X"]},
            "'peak_x' has the same name as the result's column 'PEAK_X'",
        ),
        (
            None,
            {"window": {"a": TimeWindow(5), "b": CountWindow(5)}, "idle": "expire"},
            "time alone never empties a CountWindow",
        ),
    ],
)
def test_mistakes_with_streams(
    stream: DataFrame, change: Any, changes: dict[str, Any], advice: str
) -> None:
    with pytest.raises(InvalidRequest, match=advice):
        ask(change(stream) if change else stream, **changes)


def test_an_unknown_store_is_named(df: DataFrame) -> None:
    with pytest.raises(WindowStoreError, match="ftp://"):
        ask(df, store="ftp://host/pages")


def test_two_columns_of_one_name(df: DataFrame) -> None:
    twice = df.select("*", df.watts)
    with pytest.raises(InvalidRequest, match="more than one such column"):
        ask(twice)


#: Names of columns that are hard to write, or that are used on the way.
HOSTILE = [
    "__bucket", "__blob", "__time", "__run", "c0", "c1", "0", "state", "key", "page", "value",
    "rows_read", "rows_late", "late", "corrected", "de.vice", "t`s", "`", "``", "wa tts", " ", "é",
    "select", "a.b.c", "*", "x[0]", "{}", "%s", "'", '"', "a\nb",
]  # fmt: skip


def test_a_column_may_have_any_name(spark: SparkSession, store: str) -> None:
    """In any role, among rows with equal times, beside columns of all other such names."""
    df = spark.range(6).select(
        *((F.col("id") % (2 + i % 3)).alias(name) for i, name in enumerate(HOSTILE)),
        F.col("id").cast("double").alias("watts"),
    )
    for at in (0, 4, 15):
        key, time, value, alias = HOSTILE[at : at + 4]
        done = ask(
            df,
            by=key,
            on=time,
            carry=[name for name in HOSTILE if name != alias],
            aggregations={alias: (value, Sum()), "n of all": (None, Count())},
            store=store,
            buckets=1,
        )
        rows = done.collect()
        assert done.columns.count(alias) == 1
        assert len(rows) == 6
        for row in rows:
            mine = [other for other in rows if other[key] == row[key]]
            assert {other["n of all"] for other in mine} == set(range(1, len(mine) + 1))
            before = [other for other in mine if other["n of all"] <= row["n of all"]]
            assert all(other[time] <= row[time] for other in before)
            assert row[alias] == sum(other[value] for other in before)


def test_columns_that_differ_in_case_alone(spark: SparkSession, store: str) -> None:
    df = spark.range(3).select(F.lit("a").alias("device"), F.col("id").alias("ts"),
                               F.col("id").alias("Ts"), F.col("id").alias("watts"))  # fmt: skip
    with pytest.raises(InvalidRequest, match=r"on names column 'ts'.*more than one such column"):
        ask(df, store=store)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = ask(df, carry=["Ts"], store=store).collect()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [row.asDict()["peak"] for row in rows] == [0.0, 1.0, 2.0]


def test_a_folder_of_one_machine_on_a_cluster_is_warned_of(
    df: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.conf import RuntimeConfig

    get = RuntimeConfig.get
    master = {"spark.master": "spark://head:7077"}
    monkeypatch.setattr(RuntimeConfig, "get", lambda *a: master.get(a[1]) or get(*a))
    with pytest.warns(RuntimeWarning, match="its pages are missing there") as caught:
        ask(df)
    assert caught[0].filename == __file__


def test_given_sizes_of_pages_are_those_of_all_windows(df: DataFrame) -> None:
    def plan(**sizes: int) -> Plan:
        given = {"by": "device", "on": "ts", "aggregations": {"peak": ("watts", Max())}}
        options = Options.of(**given, window=CountWindow(10), store="file:///pages", **sizes)
        return make_request(df, options).plan

    assert not plan().options.settings.is_sized
    for sizes in ({"arity": 8}, {"leaf_arity": 8}):
        assert plan(**sizes).options.settings.is_sized and plan(**sizes).sizes[0] == 8


def test_the_input_is_not_read_before_the_query_runs(df: DataFrame) -> None:
    assert ask(df, carry=["note"]).columns == ["device", "ts", "watts", "note", "peak"]


@pytest.mark.parametrize(
    "aggregations",
    [
        {"peak": ("watts", Max())},
        {"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": (None, Count())},
        {"n": (None, Count())},
    ],
)
def test_default_pages_fit_a_disk_page_and_snapshots_stay_small(aggregations: Any) -> None:
    product, frame = Product(aggregations), TimeWindow("1 hour")
    leaf_arity, arity = small_groups(product, frame)
    store = MemoryStore()
    window = Window(product, frame, store, "n" * 100, arity=arity, leaf_arity=leaf_arity)
    count = leaf_arity * (arity * (arity + 1) + 1)  # every tail is full
    times = (np.arange(count) // 1000).astype("M8[s]")
    window.extend({"watts": np.arange(count, dtype=float)}, times, "last")
    window_snapshot = window.checkpoint()
    pages = [page for page in store.get_many(list(store.keys())) if page is not None]
    assert len(pages) > arity
    assert max(map(len, pages)) <= 4080
    # Two levels of full inner tails here, at most five at 2**25 events.
    assert len(window_snapshot) + 3 * INNER_BYTES <= 10_000


@pytest.mark.parametrize(
    ("identity", "read", "kind"),
    [
        (None, "note", "string"),
        (None, "watts", "double"),
        (0, "watts", "double"),
        (0, "note", "bigint"),
        (0.0, "note", "double"),
        (False, "watts", "boolean"),
        ("", "watts", "string"),
        ((), "watts", "array<double>"),
        (b"", "watts", "string"),
    ],
)
def test_types_of_plain_python_results(df: DataFrame, identity: Any, read: str, kind: str) -> None:
    monoid = Monoid(identity=identity, combine=lambda a, b: b, name="any")
    assert dict(ask(df, aggregations={"x": (read, monoid)}).dtypes)["x"] == kind


def test_recommended_conf() -> None:
    conf = recommended_conf(partitions=8)
    assert conf["spark.sql.shuffle.partitions"] == "8"
    assert conf["spark.sql.streaming.stateStore.checkpointFormatVersion"] == "1"
    assert "spark.sql.shuffle.partitions" not in recommended_conf()


def test_checkpoints_on_a_local_disk_are_written_by_a_class_that_there_is(
    spark: SparkSession,
) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    assert name not in recommended_conf()
    assert spark._jvm.java.lang.Class.forName(recommended_conf(local_disk=True)[name])
    assert spark.conf.get(name) == recommended_conf(local_disk=True)[name]


@pytest.mark.skipif(INSTALLED < (4, 1), reason="Spark connects to workers by TCP only")
def test_a_local_session_reaches_its_workers_through_unix_sockets(spark: SparkSession) -> None:
    def socket_of_worker(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            by_unix = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"
            yield pa.record_batch({"by_unix": [by_unix] * batch.num_rows})

    assert spark.range(1).mapInArrow(socket_of_worker, "by_unix boolean").first()[0]


def test_without_pyspark_the_error_names_the_extra() -> None:
    code = (
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *rest: None if name == 'pyspark' else "
        "find(name, *rest)\n"
        "import spark_integration\n"
        "try:\n"
        "    from spark_integration import sliding_aggregate\n"
        "except ImportError as error:\n"
        "    assert type(error).__name__ == 'MissingDependency', repr(error)\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert pip_install("spark") in done.stdout


def test_corrections_need_no_lateness(df: DataFrame) -> None:
    given: dict[str, Any] = {"by": "device", "on": "ts", "aggregations": "count"}
    options = Options.of(**given, window=CountWindow(3), on_duplicate="replace")
    assert options.settings.lateness == 0


@pytest.fixture(params=["file", "spark://state"])
def windows(job: Job, request: pytest.FixtureRequest) -> DataFrame:
    """Behind something else, as a query may do more with what comes out."""
    changes: dict[str, Any] = {} if request.param == "file" else {"store": request.param}
    return sliding_aggregate(job.source(), **job.settings(**changes)).where("n > 1")


@pytest.mark.parametrize("mode", ["update", "Complete"])
def test_an_output_mode_that_gives_rows_again(windows: DataFrame, job: Job, mode: str) -> None:
    advice = rf"output mode is '{mode}'.* leave the mode unset \('append'\).*emit_updates=True"
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.outputMode(mode)
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.format("noop").start(outputMode=mode)
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.toTable("never", outputMode=mode)
    assert not job.spark.streams.active
    windows.writeStream.outputMode("append")


@pytest.mark.parametrize("name", ["realTime", "continuous"])
def test_a_trigger_without_micro_batches(windows: DataFrame, name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"trigger is {name}='5 minutes'.*processingTime="):
        windows.writeStream.trigger(**{name: "5 minutes"})
    windows.writeStream.trigger(processingTime="1 second")


def test_streams_without_windows_are_as_they_were(windows: DataFrame, job: Job) -> None:
    assert windows.isStreaming
    counts = job.source().groupBy("device").count()
    counts.writeStream.outputMode("update").trigger(continuous="5 minutes")


def test_an_encoding_of_states(job: Job) -> None:
    job.spark.conf.set(ENCODING, "avro")
    try:
        with pytest.raises(InvalidRequest, match=rf"{ENCODING} is 'avro'.*'unsaferow'"):
            sliding_aggregate(job.source(), **job.settings())
        sliding_aggregate(job.source(), **job.settings(store="spark://state"))
    finally:
        job.spark.conf.unset(ENCODING)


def test_a_stream_needs_a_store_and_a_batch_none(job: Job, tmp_path: Path) -> None:
    """A batch's pages, of which there are thousands here, are nowhere afterwards."""
    settings = {name: value for name, value in job.settings().items() if name != "store"}
    with pytest.raises(InvalidRequest, match=r"is a stream, but store is not given.*file:///path"):
        sliding_aggregate(job.source(), **settings)
    before = everything_near(tmp_path)
    rows = job.spark.range(20_000).selectExpr(
        "concat('d', id % 3) device", "timestamp_seconds(id) ts", "double(id % 7) watts"
    )
    done = sliding_aggregate(rows, **{**settings, "window": CountWindow(3000)})
    assert done.agg({"peak": "min", "n": "max"}).first() == (0.0, 3000)
    assert everything_near(tmp_path) == before


def everything_near(folder: Path) -> set[Path]:
    """All files where pages could be left: among the test's, here, and ours for a while."""
    return {
        *folder.rglob("*"),
        *Path.cwd().glob("*"),
        *Path(tempfile.gettempdir()).glob("mta-pages-*"),
    }


def test_no_option_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        name: (f"<{name}>",) if name == "carry" else f"<{name}>"
        for name in signature(sliding_aggregate).parameters
    }
    given["aggregations"] = {"peak": ("watts", "max")}  # those of them with filters add columns
    given["at"] = None  # another DataFrame, which is no option
    given["df"] = stream = SimpleNamespace(isStreaming=True, sparkSession="<session>")
    unchecked = SimpleNamespace(of=lambda **options: SimpleNamespace(**options))
    monkeypatch.setattr(sliding, "Options", unchecked)
    request = SimpleNamespace(plan=SimpleNamespace(store="<store>"))

    def make_request(*arguments: Any) -> Any:
        request.arguments = arguments
        return request

    monkeypatch.setattr(sliding, "make_request", make_request)
    monkeypatch.setattr(sliding, "run_request", lambda *arguments: arguments)
    for name in ("check_chain", "check_starts", "follow", "warn_of_buckets"):
        monkeypatch.setattr(sliding, name, lambda *arguments: None)
    df, made, step, metrics = sliding_aggregate(**given)
    same, options = made.arguments
    assert (df, same, step, metrics) == (stream, stream, sliding.step, "<metrics>")
    assert {"df": df, "at": None, "metrics": metrics, **vars(options)} == given


def test_the_defaults_are_those_of_the_options() -> None:
    asked = signature(sliding_aggregate).parameters
    found = {n: p.default for n, p in signature(Options).parameters.items()}
    settings = found.pop("settings")
    of_windows = {name: getattr(settings, name) for name in SETTINGS}
    assert not found.pop("aside")
    found |= of_windows
    assert found.keys() == asked.keys() - {"df", "at", "metrics"}
    assert found == {name: asked[name].default for name in found}
    assert Parameter.empty in found.values()


def test_a_changed_option_leaves_the_others() -> None:
    given: dict[str, Any] = {
        "by": "k", "on": "t", "aggregations": "count", "window": CountWindow(1), "on_late": "side",
        "allowed_lateness": "1 minute",
    }  # fmt: skip
    options = Options.of(**given)
    assert options.marks == ["late"] and options.settings.on_late == "drop"
    for changes in ({"emit": "last"}, {"retain": 4}, {"on_late": "raise"}, {"max_ahead": "1 hour"}):
        assert options.changed(**changes) == Options.of(**given | changes)
    with pytest.raises(InvalidRequest, match="on_late is 'aside': it must be 'raise' or 'drop' or"):
        options.changed(on_late="aside")
    with pytest.raises(InvalidRequest, match="retain_for is CountWindow"):
        Options.of(**given, retain_for=CountWindow(5))
    with pytest.raises(TypeError, match="aggregator"):
        Options.of(**given, aggregator=FiBA)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    """Rows in order of their times, with ties; the values of one time are in order, too."""
    rows = spark.range(600).withColumn("device", F.concat(F.lit("d"), F.col("id") % 7))
    rows = rows.withColumn("ts", F.timestamp_seconds(F.floor(F.col("id") / 14) * 3))
    return rows.withColumn("watts", (F.col("id") * 1000 + F.col("id") * 37 % 101).cast("long"))


def run(df: DataFrame, **changes: Any) -> DataFrame:
    aggregations = {"n": Count(), "most": ("watts", Max()), "total": ("watts", Sum())}
    given = {"by": "device", "on": "ts", "aggregations": aggregations, "buckets": 2, **changes}
    return sliding_aggregate(df, **given)


@pytest.mark.refuses("asking", '`ties="peers"`', "a stream", "periodic")
def test_peers_of_a_stream_may_still_come(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    peers = TimeWindow(20, ties="peers")
    events.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    store = f"file://{tmp_path}/pages"
    with pytest.raises(InvalidRequest, match="later micro-batches may bring more rows with"):
        run(stream, window=peers, store=store)
    aggregations = {"n": Count()}
    with pytest.raises(InvalidRequest, match="leave ties= out"):
        save_history(
            events, "h", until=100, by="device", on="ts", window=peers, store=store,
            aggregations=aggregations,
        )  # fmt: skip
    with pytest.raises(InvalidRequest, match="emit_every"):
        run(events, window=peers, emit_every=10)
