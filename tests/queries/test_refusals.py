"""What is not supported is refused with its position in the text and what to write instead."""

from __future__ import annotations

import re
import time
from typing import Any

import pandas as pd
import pytest

from mta import sql
from mta.errors import InvalidQuery, InvalidValue
from mta.queries.compiler import Query

OVER = "OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING)"
FRAME = pd.DataFrame({
    "k": ["a", "a", "b"], "ts": pd.to_datetime([1, 2, 3], unit="s"), "n": [1, 2, 3],
    "x": [1.0, 2.0, 3.0], "f": [1.5, 2.5, 3.5],
})  # fmt: skip

#: A query; the words before which the error points; what it says.
REFUSALS = [
    ("SELECT max(x) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t",
     "FOLLOWING)", "write AND CURRENT ROW"),
    ("SELECT max(x) OVER (ORDER BY ts DESC ROWS 1 PRECEDING) FROM t", "DESC", "write ORDER BY ts"),
    ("SELECT max(x) OVER (ORDER BY k, ts ROWS 1 PRECEDING) FROM t", "max(x)", "one ORDER BY col"),
    ("SELECT max(x) OVER (PARTITION BY k) FROM t", "max(x)", "one ORDER BY column, not 0"),
    ("SELECT max(x) OVER (ORDER BY ts GROUPS 1 PRECEDING) FROM t", "max(x)|GROUPS", "GROUPS|read"),
    ("SELECT max(x) OVER (ORDER BY ts ROWS 1 PRECEDING EXCLUDE TIES) FROM t",
     "EXCLUDE", "EXCLUDE TIES is not supported with ROWS; use RANGE ... EXCLUDE GROUP"),
    ("SELECT max(x) OVER (ORDER BY ts RANGE INTERVAL 1 DAY PRECEDING EXCLUDE CURRENT ROW) FROM t",
     "EXCLUDE", "use EXCLUDE GROUP"),
    ("SELECT max(x) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING) FROM t",
     "max(x)", "contains no rows"),
    ("SELECT max(x) OVER (ORDER BY ts ROWS 1.5 PRECEDING) FROM t", "1.5", "a whole number"),
    ("SELECT max(x) OVER (ORDER BY ts RANGE INTERVAL 2 MONTHS PRECEDING) FROM t",
     "INTERVAL", "not a fixed length .* such as INTERVAL 30 DAYS"),
    ("SELECT max(x) OVER (ORDER BY ts RANGE 10 PRECEDING) FROM t", "10 PREC", "INTERVAL 10 MIN"),
    ("SELECT max(x) OVER (ORDER BY n RANGE INTERVAL 1 DAY PRECEDING) FROM t",
     "INTERVAL", 'time_unit="s"'),
    ("SELECT max(x) OVER w FROM t", "w FROM", "there is no window 'w'.*no WINDOW clause"),
    ("SELECT max(x) OVER w FROM t WINDOW v AS (ORDER BY ts)", "w FROM", "the query has v"),
    (f"SELECT lead(x) {OVER} FROM t", "lead", "write lag"),
    ("SELECT lag(x, 1, 0) OVER (ORDER BY ts) FROM t", "lag", "coalesce"),
    (f"SELECT lag(x) {OVER} FROM t", "lag", "has no frame; leave the frame out"),
    (f"SELECT maximum(x) {OVER} FROM t", "", None),
    (f"SELECT maxx(x) {OVER} FROM t", "maxx", "did you mean max"),
    (f"SELECT avg(DISTINCT x) {OVER} FROM t", "avg", "only count, sum, min and max"),
    (f"SELECT count(DISTINCT k, x) {OVER} FROM t", "count", "count one column"),
    (f"SELECT max(x) IGNORE NULLS {OVER} FROM t", "max", "aggregations skip nulls"),
    (f"SELECT nth_value(x, 0) {OVER} FROM t", "nth_value", "a whole number from 1 on"),
    (f"SELECT max_by(x, n) {OVER} FROM t", "x, n", "ArgMax"),
    (f"SELECT rank() {OVER} FROM t", "rank|OVER|SELECT", "EXCLUDE GROUP"),
    (f"SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY x DESC) {OVER} FROM t",
     "DESC|x DESC", r"write percentile_cont\(1 - p\)"),
    (f"SELECT sum(max(x) {OVER}) {OVER} FROM t", "max", "below the windows|within a window"),
    (f"SELECT max(x) {OVER} FROM t GROUP BY k", "k$", "GROUP BY around window functions"),
    (f"SELECT DISTINCT max(x) {OVER} FROM t", "max|SELECT|DISTINCT", "DISTINCT around"),
    (f"SELECT max(x) {OVER} FROM t ORDER BY ts", "ts$", "sort the result"),
    (f"SELECT max(x) {OVER} FROM t LIMIT 3", "3$", "apply it to the result"),
    (f"SELECT * FROM t WHERE max(x) {OVER} > 3", "max", "SELECT list"),
    (f"SELECT * FROM (SELECT max(x) {OVER} AS m FROM t) WHERE m > 3", "max", "call sql twice"),
    ("SELECT x FROM t", "x FROM", "has no window function"),
    ("SELECT 1", "1", "no FROM|no window function"),
    ("INSERT INTO t VALUES (1)", "", "one SELECT"),
    (f"SELECT max(x) {OVER} FROM t; SELECT 2", "2", "one SELECT"),
    (f"SELECT max(x {OVER} FROM t", "OVER", r"not SQL of spark: Expecting \)"),
    (f"SELECT max(y) {OVER} FROM t", "y", "no column 'y'; there are k, ts, n, x, f"),
    (f"SELECT max(x) {OVER} AS m, min(x) {OVER} AS M FROM t", "", "two columns 'M'"),
    (f"SELECT max(x) {OVER} FROM u", "u$", r"no table 'u'.*sql\(query, u=frame\)"),
    ("SELECT max(x) OVER (ORDER BY f ROWS 1 PRECEDING) FROM t", "", "floats"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "at", "says"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusals_show_where_and_what_to_write(query: str, at: str, says: str | None) -> None:
    if says is None:  # a name of ours is no name of SQL's, but harmless
        assert len(sql(query, t=FRAME)) == 3
        return
    with pytest.raises(InvalidQuery, match=f"(?s){says}") as caught:
        sql(query, t=FRAME)
    found = re.match(r"line (\d+), column (\d+): ", str(caught.value))
    if at:
        assert found is not None, caught.value
        assert re.match(at if "|" in at or at.endswith("$") else re.escape(at),
                        query[int(found[2]) - 1 :]), caught.value  # fmt: skip


def test_the_line_is_shown_with_a_mark() -> None:
    query = "SELECT k,\n  max(x) OVER (ORDER BY ts DESC)\nFROM t"
    with pytest.raises(InvalidQuery) as caught:
        sql(query, t=FRAME)
    first, line, mark = str(caught.value).split("\n")
    assert first.startswith("line 2, column 28: ORDER BY ... DESC is not supported; ")
    assert line.strip() == "max(x) OVER (ORDER BY ts DESC)"
    assert line[mark.index("^") :].startswith("DESC")


def test_nan_is_refused_where_it_is_no_null() -> None:
    import polars as pl

    table = pl.DataFrame({"n": [1, 2], "x": [1.0, float("nan")]})
    query = "SELECT max(x) OVER (ORDER BY n ROWS 1 PRECEDING) AS m FROM t"
    with pytest.raises(InvalidValue, match="1 NaN"):
        sql(query, t=table)
    assert sql(query, t=table, nan="skip")["m"].to_list() == [1.0, 1.0]


STREAMS = [
    ("ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", "ends with CURRENT ROW"),
    ("RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW", 'write ROWS.*ties="rows"'),
    ("", 'write ROWS.*ties="rows"'),
]


@pytest.mark.parametrize(("frame", "says"), STREAMS)
def test_in_streams_later_peers_are_refused(frame: str, says: str) -> None:
    query = Query(f"SELECT max(x) OVER (ORDER BY ts {frame}) FROM t")
    bound = query.bind(["ts", "x"])
    assert bound.passes(lambda _: "time", None, None, streaming=False)
    with pytest.raises(InvalidQuery, match=says):
        bound.passes(lambda _: "time", None, None, streaming=True)


def test_windows_of_one_order_share_a_pass() -> None:
    bound = Query(
        "SELECT max(x) OVER day, min(x) OVER day, sum(x) OVER hour, max(x) OVER other FROM t "
        "WINDOW day AS (PARTITION BY k ORDER BY ts RANGE INTERVAL 1 DAY PRECEDING), "
        "hour AS (PARTITION BY k ORDER BY ts RANGE INTERVAL 1 HOUR PRECEDING), "
        "other AS (PARTITION BY k, n ORDER BY ts ROWS 3 PRECEDING)"
    ).bind(["k", "n", "ts", "x"])
    passes = bound.passes(lambda _: "time", None, "rows", streaming=True)
    assert [(each.by, [*each.windows]) for each in passes] == [
        (("k",), ["day", "hour"]), (("k", "n"), ["other"]),
    ]  # fmt: skip
    assert [*passes[0].result_names().values()] == ["MAX(x)_day", "MIN(x)_day", "SUM(x)_hour"]


def test_compilation_takes_less_than_20_ms() -> None:
    items = ", ".join(
        f"sum(x) FILTER (WHERE n > {at}) OVER (PARTITION BY k ORDER BY ts ROWS {at} PRECEDING)"
        for at in range(1, 6)
    )
    query = f"SELECT *, {items} FROM t WHERE x > 0"
    durations = []
    for _ in range(6):  # the first call also builds tables of the parser
        begin = time.process_time()
        bound = Query(query).bind(["k", "ts", "n", "x"])
        bound.items(bound.passes(lambda _: "time", None, None, streaming=True), ["k", "ts", "x"])
        durations.append(time.process_time() - begin)
    assert min(durations) < 0.02


def results(query: str, **options: Any) -> list[Any]:
    found: pd.DataFrame = sql(query, t=FRAME, **options)
    return found.iloc[:, -1].tolist()


def test_ties_may_count_by_row() -> None:
    frame = FRAME.assign(n=1)
    query = "SELECT sum(x) OVER (ORDER BY n RANGE 5 PRECEDING) AS s FROM t"
    assert sql(query, t=frame)["s"].tolist() == [6.0, 6.0, 6.0]
    assert sql(query, t=frame, ties="rows")["s"].tolist() == [1.0, 3.0, 6.0]


def test_numbers_may_be_times() -> None:
    query = "SELECT sum(x) OVER (ORDER BY n RANGE INTERVAL 1 SECOND PRECEDING) AS s FROM t"
    assert results(query, time_unit="s") == [1.0, 3.0, 5.0]
    assert results(query, time_unit="ms") == [1.0, 3.0, 6.0]


def test_functions_of_the_catalogue_are_known() -> None:
    query = "SELECT decayed_sum(x, '1 second') OVER (ORDER BY ts ROWS 9 PRECEDING) AS s FROM t"
    assert results(query) == [1.0, 2.5, 4.25]
