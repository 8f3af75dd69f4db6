"""Runs every Python example of README.md and of docs/, and looks at what it comes to."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest

from mta import open_published
from stores import open_store
from tests.support.documents import DOCS, README, ROOT, blocks, documents, name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGES = [README, *sorted(DOCS.glob("*.md"))]
#: The address of a server, in whose place the tests have a folder.
SERVER = "redis://pages:6379/0"
Space = dict[str, Any]


def is_session(block: str) -> bool:
    return block.startswith(">>>")


def is_suite(block: str) -> bool:
    return "\ndef test_" in block


def needs_spark(block: str) -> bool:
    return bool(re.search(r"\bsliding_aggregate\(", block))


def is_query(block: str) -> bool:
    """Whether it runs a query in SQL on Spark."""
    return "sql(spark, query)" in block


#: Pages whose blocks are one script together.
WHOLE = tuple(DOCS / f"{name}.md" for name in ("for-spark", "for-sql", "own", "change", "history"))
#: Pages whose blocks need a service, with which tests/service runs them.
ELSEWHERE = (DOCS / "limits.md",)
#: Pages whose blocks are parts of an example, which tests run as a whole.
EXCERPTS = {
    DOCS / "kafka.md": "kafka",
    DOCS / "tables.md": "tables",
}


def run(block: str, page: Path, space: Space, folder: Path) -> Space:
    """What an example leaves, run in an empty folder with nothing replaced but a server."""
    code = block.replace(SERVER, f"file://{folder}/pages")
    with contextlib.chdir(folder):
        exec(compile(code, page.name, "exec"), space)
    return space


def of_kind(kind: Callable[[str], bool]) -> list[Any]:
    pages = [page for page in PAGES if page not in (*WHOLE, *EXCERPTS, *ELSEWHERE)]
    found = [(page, block) for page in pages for block in blocks(page, "python") if kind(block)]
    return [
        pytest.param(page, block, id=f"{name_of(page)}-{number}")
        for number, (page, block) in enumerate(found)
    ]


def test_no_example_is_left_out() -> None:
    elsewhere = {path for path in documents() if path not in PAGES and blocks(path, "python")}
    assert not elsewhere
    pages = [page for page in PAGES if page not in (*WHOLE, *EXCERPTS, *ELSEWHERE)]
    everywhere = sum(len(blocks(page, "python")) for page in pages)
    of_scripts = [block for page in SCRIPTS for block in scripts(page)]
    kinds = (is_session, is_suite, needs_spark, is_query)
    assert everywhere == sum(len(of_kind(kind)) for kind in kinds) + len(of_scripts)


SESSIONS = [page for page in PAGES if any(map(is_session, blocks(page, "python")))]


@pytest.mark.parametrize("page", SESSIONS, ids=name_of)
def test_sessions(page: Path, tmp_path: Path) -> None:
    sessions = "\n".join(block for block in blocks(page, "python") if is_session(block))
    test = doctest.DocTestParser().get_doctest(sessions, {}, page.name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert len(test.examples) >= 3
    with contextlib.chdir(tmp_path):
        for _ in range(2):  # whoever reads a page runs it more than once
            space = dict(test.globs)
            assert runner.run(test, clear_globs=False).failed == 0
            test.globs = space


@pytest.mark.parametrize(("page", "block"), of_kind(is_suite))
def test_suites(page: Path, block: str, tmp_path: Path) -> None:
    space = run(block, page, {}, tmp_path)
    tests = [item for name, item in space.items() if name.startswith("test_")]
    assert len(tests) == 2
    for function in tests:
        if not inspect.signature(function).parameters:
            function()
            continue
        (mark,) = function.pytestmark
        for law in mark.args[1]:
            function(law)


def ten_lines(space: Space, printed: str) -> None:
    assert len(space["peaks"]) == 2_000_000
    assert printed == f"{max(space['values'][-999_999:].max(), 3.14)} 1000000\n"


def late(space: Space, printed: str) -> None:
    revision = space["revision"]
    assert revision.results.tolist() == [9.0, 9.0, 9.0]  # of the times 200, 300 and 600
    assert revision.values.tolist() == [9.0, 7.0, 5.0]
    assert space["window"].query() == 9.0 and not printed


def several(space: Space, printed: str) -> None:
    values, windows = space["values"], space["windows"]
    assert windows.query("hour") == values[-2 * 86400 :].max()
    assert windows.query("last") == values[-100:].max()
    assert windows.range(700_000, 790_000) == values[700_001:790_001].max()
    assert {name: len(found) for name, found in space["peaks"].items()} == dict.fromkeys(
        space["lengths"], 1_000_000
    )
    assert not printed


def triggers(space: Space, printed: str) -> None:
    moments, results = space["moments"], space["results"]
    assert moments.astype("M8[us]").astype("M8[m]").astype(int).tolist() == [3]
    assert results.tolist() == [5.0]
    space["hourly"].extend([1.0, 2.0], [0, 3599])
    assert not printed


def keyed(space: Space, printed: str) -> None:
    keys, values, times = space["keys"], space["values"], space["times"]
    meters, day = space["meters"], 86_400
    for key in keys[-2:]:
        of_key = keys == key
        recent = of_key & (times > times[of_key].max() - day)
        assert meters.query(key) == values[recent].max()
        assert space["peaks"][of_key][-1] == values[recent].max()
    assert len(space["snapshot"]) < 1 << 16
    last = dict(zip(keys.tolist(), times.tolist(), strict=True))
    assert sorted(space["gone"]) == sorted(k for k, time in last.items() if time <= 400_000 - day)
    assert len(space["gone"]) > 0 and not printed


def serving(space: Space, printed: str) -> None:
    features = open_published(space["cards"].store, "card-features")
    found = features.query(space["keys"], at=datetime(2024, 5, 1, 11))
    assert found["payments_hour"].tolist() == [0, 1, 0]
    assert found["largest_day"].tolist() == [20.0, 7.5, 20.0]
    assert features.query("4711")["largest_hour"] == 5.0 and not printed


SCRIPTS: dict[Path, Callable[[Space, str], None]] = {
    README: ten_lines,
    DOCS / "keyed.md": keyed,
    DOCS / "late.md": late,
    DOCS / "serving.md": serving,
    DOCS / "several.md": several,
    DOCS / "triggers.md": triggers,
}


def scripts(page: Path) -> list[str]:
    others = (is_session, is_suite, needs_spark, is_query)
    return [block for block in blocks(page, "python") if not any(kind(block) for kind in others)]


@pytest.mark.parametrize("page", SCRIPTS, ids=name_of)
def test_scripts(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # a second time in the same folder
        space: Space = {}
        for block in scripts(page):
            space = run(block, page, space, tmp_path)
        SCRIPTS[page](space, capsys.readouterr().out)
        for item in space.values():
            if callable(close := getattr(item, "close", None)) and not isinstance(item, type):
                close()


def test_the_block_about_event_loops_stands_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "serving.md"
    publishes, *_ = scripts(page)
    (block,) = (block for block in scripts(page) if "asyncio.run" in block)
    space = run(publishes, page, {}, tmp_path)
    run(block.replace("asyncio.run(", "print(asyncio.run(").rstrip() + ")", page, {}, tmp_path)
    assert "largest_hour" in capsys.readouterr().out
    space["cards"].close()


HOURS = 30


@pytest.fixture(scope="module")
def incoming(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an event an hour of two devices."""
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2024-01-01", periods=HOURS, freq="h", tz="UTC").as_unit("us")
    frames = [
        pd.DataFrame(
            {"device": name, "ts": times, "watts": [float((7 * i + k) % 29) for i in range(HOURS)]}
        )
        for k, name in enumerate("ab")
    ]
    folder = tmp_path_factory.mktemp("events")
    (folder / "incoming").mkdir()
    pd.concat(frames).to_parquet(folder / "incoming" / "events.parquet", index=False)
    return folder / "incoming"


def expected(incoming: Path) -> Any:
    """The events with their results, by pandas."""
    pd = pytest.importorskip("pandas")
    events = pd.read_parquet(incoming).sort_values(["device", "ts"])
    events["ts"] = events.ts.dt.tz_localize(None).astype("M8[ns]")  # as Spark hands them out
    rolling = events.set_index("ts").groupby("device").watts.rolling("24h")
    return events.assign(peak=rolling.max().to_numpy(), mean=rolling.mean().to_numpy())


def compare(found: Any, incoming: Path) -> None:
    """Rows of the peak, and of the mean where it is there, as pandas has them."""
    wanted = expected(incoming)
    found = found.rename(columns={"peak_day": "peak"})
    found = found[found.watts.notna()] if "watts" in found else found
    found = found.sort_values(["device", "ts"])
    assert found.watts.tolist() == wanted.watts.tolist()
    for column in {"peak", "mean"} & set(found):
        assert found[column].tolist() == pytest.approx(wanted[column].tolist(), abs=1e-9)
    if "peak_5min" in found:
        assert found.peak_5min.tolist() == wanted.watts.tolist()


@pytest.mark.parametrize(
    ("page", "block"), [case for case in of_kind(needs_spark) if case.values[0] != README]
)
def test_spark(page: Path, block: str, spark: SparkSession, incoming: Path, tmp_path: Path) -> None:
    from mta import Max, Mean, TimeWindow
    from spark_integration import sliding_aggregate

    session = spark.newSession()
    space: Space = {
        "events": session.read.parquet(str(incoming)),
        "Max": Max, "Mean": Mean, "TimeWindow": TimeWindow,
        "sliding_aggregate": sliding_aggregate,
    }  # fmt: skip
    results = run(block, page, space, tmp_path)["results"]
    said = re.search(r"^\)  # ([^(\n]*)$", block, re.MULTILINE)
    if said:
        assert ", ".join(results.columns) == said[1]
    found = results.toPandas()
    if "emit_every=" not in block:
        compare(found, incoming)
        return
    assert found.watts.isna().all() and (found.ts.dt.second == 0).all()
    assert len(found) > 2 * 60 * (HOURS - 1)
    at_events = found.merge(expected(incoming), on=["device", "ts"], suffixes=("", "_wanted"))
    assert len(at_events) == 2 * HOURS and at_events.peak.equals(at_events.peak_wanted)


@pytest.fixture
def run_page(spark: SparkSession, tmp_path: Path) -> Callable[[Path], str]:
    """Runs the blocks of a page as one script, with nothing replaced; returns what it prints."""
    from tests.support.spark.scripts import as_a_users, run_script

    def run_blocks(page: Path) -> str:
        script = tmp_path / "page.py"
        code = [block for block in blocks(page, "python") if not is_session(block)]
        script.write_text("\n".join(code))
        with as_a_users(spark, tmp_path):
            return run_script(script)

    return run_blocks


def with_results(readings: Any, window: str) -> Any:
    """Readings with the results of each, by pandas."""
    ordered = readings.sort_values(["device", "ts"])
    rolling = ordered.set_index("ts").groupby("device").watts.rolling(window)
    return ordered.assign(peak=rolling.max().to_numpy(), mean=rolling.mean().to_numpy())


def add_later_readings(folder: Path, window: str) -> Any:
    """Put the same readings a day later into the folder that a page reads; all with results."""
    pd = pytest.importorskip("pandas")
    first = pd.read_parquet(folder / "incoming" / "readings.parquet")
    later = first.assign(ts=(first.ts + pd.Timedelta("36 hours")).dt.as_unit("us"))
    later.to_parquet(folder / "incoming" / "later.parquet", index=False)
    return with_results(pd.concat([first, later]), window)


def results_in(folder: Path) -> Any:
    """All rows that a query has written, in order."""
    pd = pytest.importorskip("pandas")
    return pd.read_parquet(folder).sort_values(["device", "ts"])


def test_the_readme_runs_as_written(run_page: Callable[[Path], str], tmp_path: Path) -> None:
    """Its second block is a stream of Spark; the first has a test above, too."""
    for _ in range(2):  # the second run continues from the checkpoint, and finds nothing new
        assert "|  3.0| 3.0| 1.5|" in run_page(README)
    found = results_in(tmp_path / "out")
    wanted = with_results(found[["device", "ts", "watts"]], "24h")
    assert len(found) == 9_000
    assert found.peak.tolist() == wanted.peak.tolist()
    assert found["mean"].tolist() == pytest.approx(wanted["mean"].tolist(), abs=1e-9)


def test_the_page_on_spark_runs_as_written_and_goes_on(
    run_page: Callable[[Path], str], tmp_path: Path
) -> None:
    page = DOCS / "for-spark.md"
    printed = run_page(page)
    assert "|meter-2|2024-01-01 00:01:00|  2.5| 2.5|1.25|" in printed
    assert printed.endswith("4320 rows\n")
    wanted = add_later_readings(tmp_path, "6h")
    assert run_page(page).endswith("8640 rows\n")
    found = results_in(tmp_path / "out")
    for column in ("watts", "peak", "mean"):
        assert found[column].tolist() == pytest.approx(wanted[column].tolist(), abs=1e-9)


def test_the_page_on_own_functions_runs_as_written_and_goes_on(
    run_page: Callable[[Path], str], tmp_path: Path
) -> None:
    page = DOCS / "own.md"
    run_page(page)
    wanted = add_later_readings(tmp_path, "24h")
    run_page(page)
    outputs = ("peaks_by_key", "peaks_by_partition", "peaks_of_stream", "peaks_of_batches")
    for output in outputs:
        found = results_in(tmp_path / output)
        assert (output, found.peak.tolist()) == (output, wanted.peak.tolist())
    with open_store(f"file://{tmp_path}/windows") as pages:
        assert all(
            key.startswith("peaks") for key in [*pages.keys()]
        )  # of ended tasks none is left


@pytest.mark.parametrize(("page", "block"), of_kind(is_query))
def test_queries(
    page: Path, block: str, spark: SparkSession, incoming: Path, tmp_path: Path
) -> None:
    """Spark gives the same rows for the same text."""
    session = spark.newSession()
    space: Space = {"spark": session, "events": session.read.parquet(str(incoming))}
    space = run(block, page, space, tmp_path)
    theirs, ours = (
        space[name].toPandas().sort_values(["device", "ts"], ignore_index=True)
        for name in ("theirs", "results")
    )
    assert len(ours) == 2 * HOURS and ours.equals(theirs)


def test_the_page_on_sql_runs_as_written(run_page: Callable[[Path], str]) -> None:
    printed = run_page(DOCS / "for-sql.md")
    assert 'give ties="rows"' in printed


def test_the_page_on_changes_runs_as_written(
    run_page: Callable[[Path], str], tmp_path: Path
) -> None:
    printed = run_page(DOCS / "change.md")
    assert run_page(DOCS / "change.md") == printed
    readings = pytest.importorskip("pandas").read_parquet(tmp_path / "incoming")
    for meter, of_meter in readings.set_index("ts").groupby("meter").watts:
        newest = of_meter.rolling("12h")
        row = f"{meter} +72 +{newest.max().iloc[-1]} +{newest.min().iloc[-1]}"
        assert re.search(row, printed)
    assert "datetime64('2024-01-02T05:50:00.000000')" in printed


def test_the_page_on_history_runs_as_written(run_page: Callable[[Path], str]) -> None:
    for _ in range(2):
        printed = run_page(DOCS / "history.md")
        assert printed.endswith("864 results since the cutover\nTrue\n")


def block_with(page: Path, text: str) -> str:
    (block,) = (block for block in blocks(page, "") if text in block)
    return block


@pytest.mark.parametrize("page", EXCERPTS, ids=name_of)
def test_excerpts_are_of_an_example(page: Path) -> None:
    files = (ROOT / "examples" / EXCERPTS[page]).glob("*.py")
    sources = "".join(path.read_text() for path in files)
    found = blocks(page, "python")
    assert len(found) > 2
    parts = [(block, indent(block, "    ")) for block in found]  # as it is, or of a function
    assert not [part for part, inside in parts if part not in sources and inside not in sources]


@pytest.mark.parametrize("page", EXCERPTS, ids=name_of)
def test_the_blocks_of_a_page_are_a_whole_job(page: Path) -> None:
    """Whoever has only the page can run it: the blocks in their order are the file."""
    source = (ROOT / "examples" / EXCERPTS[page] / "job.py").read_text()
    _, _, code = source.partition("from __future__ import annotations\n\n")
    parts = [block.strip("\n") for block in blocks(page, "python") if block.strip("\n") in code]
    assert "\n\n\n".join(parts) == code.strip("\n")
    assert "python job.py" in page.read_text()


def test_the_messages_of_the_page_on_kafka_are_answered_as_it_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    page = DOCS / "kafka.md"
    text = page.read_text()
    sent = re.findall(r'^\{"device": .*\}$', text, re.MULTILINE)
    answer = re.compile(r'^\{"(?:device|reason)":".*', re.MULTILINE)
    expected = [json.loads(line) for line in answer.findall(text)]
    assert len(sent) == len(expected) == 3
    rows = [(None, line.encode(), "readings", 0, at) for at, line in enumerate(sent)]
    columns = "key binary, value binary, topic string, partition int, offset bigint"
    spark.createDataFrame(rows, columns).write.parquet(str(tmp_path / "in"))
    space: Space = {"__name__": "job"}
    for block in blocks(page, "python"):
        if "class NewMessages" not in block:
            run(block, page, space, tmp_path)
    answers: list[Any] = []

    def write(batch: Any, _: int) -> None:
        answers.extend(json.loads(row.value) for row in batch.collect())

    stream = spark.readStream.schema(columns).parquet(str(tmp_path / "in"))
    results = space["peaks_and_rejected"](stream, f"file://{tmp_path}/pages")
    writer = results.writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    for row in [*answers, *expected]:
        row.pop("message", None)
    assert sorted(answers, key=str) == sorted(expected, key=str)


def test_counts_for_prometheus_and_opentelemetry(
    spark: SparkSession, incoming: Path, tmp_path: Path
) -> None:
    client = pytest.importorskip("prometheus_client")
    telemetry = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from mta import CountWindow, Max
    from spark_integration import sliding_aggregate

    block = block_with(DOCS / "spark.md", "prometheus_client")
    served: list[int] = []
    block = block.replace("from prometheus_client import Counter, start_http_server\n", "")
    space = {"spark": spark, "Counter": client.Counter, "start_http_server": served.append}
    run(block, DOCS / "spark.md", space, tmp_path)
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(telemetry.MeterProvider([reader]))
    block = block_with(DOCS / "spark.md", "opentelemetry")
    run(block, DOCS / "spark.md", {"spark": spark}, tmp_path)
    stream = spark.readStream.schema("device string, ts timestamp, watts double")
    results = sliding_aggregate(
        stream.parquet(str(incoming)), by="device", on="ts", window=CountWindow(3),
        aggregations={"peak": ("watts", Max())}, store=f"file://{tmp_path}/pages",
    )  # fmt: skip
    writer = results.writeStream.format("noop").queryName("shown").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    given, until = {"query": "shown", "count": "rows_read"}, time.monotonic() + 60
    while (found := reader.get_metrics_data()) is None or not (
        points := [
            point
            for resource in found.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if point.attributes == given
        ]
    ):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert [point.value for point in points] == [2 * HOURS]
    assert client.REGISTRY.get_sample_value("mta_total", given) == 2 * HOURS
    assert served == [9000]
