"""``mta run --sql``, against DuckDB; and missing values of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from tests.support.console import Done, mta
from tests.support.sampling import some

QUERY = """
    SELECT card, ts,
           sum(amount) FILTER (WHERE status = 'declined') OVER last AS declined,
           count(*) FILTER (WHERE hour(ts) < 6 OR status IS NULL) OVER last AS early,
           max(amount) FILTER (WHERE amount > 50 AND card = 'a') OVER last AS large,
           count(amount) OVER last AS amounts, count(status) OVER last AS states,
           count(DISTINCT status) OVER last AS kinds, median(amount) OVER last AS usual,
           amount - lag(amount) OVER (PARTITION BY card ORDER BY ts) AS step
    FROM {} WHERE amount < 90 OR amount IS NULL
    WINDOW last AS (PARTITION BY card ORDER BY ts ROWS BETWEEN 19 PRECEDING AND CURRENT ROW)
"""


def payments(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(41)
    amount = rng.integers(1, 100, rows).astype(float)
    amount[rng.random(rows) < 0.2] = np.nan
    status = rng.choice(["ok", "declined", "filter (where", None], rows)
    return pd.DataFrame({
        "ts": pd.date_range("2025-01-01", periods=rows, freq="7min").as_unit("us"),
        "card": rng.choice(["a", "b"], rows), "amount": amount, "status": status,
    })  # fmt: skip


def results(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "results").sort_values("ts", ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the payments as two files, and what a run has made of them."""
    folder = tmp_path_factory.mktemp("queries")
    rows = payments()
    rows[:4000].to_csv(folder / "1.csv", index=False)
    rows[4000:].to_csv(folder / "2.csv", index=False)
    mta("run", "--sql", QUERY.format(f"'{folder}/*.csv'"), "--output", folder / "out")
    yield folder


def test_a_query_of_files_gives_the_rows_of_duckdb(folder: Path) -> None:
    con = duckdb.connect()
    con.register("given", payments())
    cleaned = "SELECT * REPLACE (if(isnan(amount), NULL, amount) AS amount) FROM given"
    wanted = con.execute(f"SELECT * FROM ({QUERY.format(f'({cleaned})')}) ORDER BY ts").df()
    found = results(folder / "out")
    found["ts"] = found.ts.dt.tz_localize(None) if found.ts.dt.tz else found.ts
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_its_windows_are_found_by_the_other_commands(folder: Path) -> None:
    mta("inspect", folder / "out")
    mta("check", folder / "out")


WINDOW = "OVER (PARTITION BY card ORDER BY ts ROWS 3 PRECEDING)"


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (f"SELECT maxx(amount) {WINDOW} FROM t", (), "line 1, column 8: MAXX(amount) is not"),
        (f"SELECT max(much) {WINDOW} FROM t", (), "no column 'much'; there are ts, card, amount"),
        (f"SELECT max(amount) {WINDOW} FROM t JOIN u ON true", (), "the files of one FROM"),
        ("SELECT max(amount) OVER (ORDER BY card) FROM t", (), 'write ROWS, or EXCLUDE GROUP'),
        ("SELECT max(amount) OVER (ORDER BY upper(card) ROWS 1 PRECEDING) FROM t", (), "ordered"),
        (f"SELECT max(amount) {WINDOW} FROM t", ("--key", "card"), "--sql and --key are both"),
        (f"SELECT max(amount) {WINDOW} FROM t", ("--nulls", "accept"), "--sql skips nulls"),
        ("SELECT 1", (), "no FROM"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_before_spark_starts_and_anything_is_deleted(
    folder: Path, query: str, options: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    before = results(folder / "out")
    command = ("run", folder / "1.csv", "--sql", query, "--output", folder / "out", "--overwrite")
    captured = mta(*command, *options, code=2)
    assert message in captured.err
    assert "starting Spark" not in captured.out and "Traceback" not in captured.err
    pd.testing.assert_frame_equal(results(folder / "out"), before)


@pytest.mark.parametrize(
    ("condition", "message"),
    [("amount", "the filter"), ("nosuch(amount) > 3", "NOSUCH"), ("status", "is string")],
)
def test_an_expression_that_spark_refuses_deletes_nothing(
    folder: Path, condition: str, message: str
) -> None:
    before = results(folder / "out")
    query = f"SELECT sum(amount) FILTER (WHERE {condition}) {WINDOW} AS s FROM t"
    command = ("run", folder / "1.csv", "--sql", query, "--output", folder / "out", "--overwrite")
    assert message in mta(*command, code=2).err
    pd.testing.assert_frame_equal(results(folder / "out"), before)


def test_no_file_matches(tmp_path: Path) -> None:
    done = mta("run", "--sql", f"SELECT max(x) {WINDOW} FROM '{tmp_path}/*.csv'", code=2)
    assert "no file matches" in done.err


def run(source: Path, out: Path, *asked: str, code: int = 0) -> Done:
    command = ("run", source, "--key", "card", "--output", out, "--window", "20 events")
    return mta(*command, "--no-plot", *asked, code=code)


def test_rows_without_any_value_are_counted(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ts,card\n2025-01-01,a\n2025-01-02,a\n")
    run(tmp_path / "in.csv", tmp_path / "out", "--agg", "n=count", "--plot")
    assert results(tmp_path / "out")["n"].tolist() == [1, 2]


NAN = float("nan")


@pytest.mark.parametrize(
    ("missing", "options", "wanted"),
    some(
        [
            ("nan", ("--nan", "propagate"), [1.0, NAN, NAN]),
            ("", ("--nulls", "drop_row"), [1.0, 4.0]),
            ("", ("--nulls", "accept", "--nan", "propagate"), [1.0, NAN, NAN]),
            ("nan", ("--nan", "skip"), [1.0, 1.0, 4.0]),
            ("", ("--nulls", "skip", "--window", "9d"), [1.0, 1.0, 4.0]),
        ],
        by_default=3,
    ),
)
def test_a_missing_value_is_skipped_dropped_with_its_row_or_makes_results_nan(
    tmp_path: Path, missing: str, options: tuple[str, ...], wanted: list[float]
) -> None:
    lines = f"ts,card,amount\n2025-01-01,a,1\n2025-01-02,a,{missing}\n2025-01-03,a,3\n"
    (tmp_path / "in.csv").write_text(lines)
    run(tmp_path / "in.csv", tmp_path / "out", *options, "--agg", "s=amount:sum")
    np.testing.assert_array_equal(results(tmp_path / "out")["s"].to_numpy(), wanted)


def test_a_nan_that_is_refused_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ts,card,amount\n2025-01-01,a,1\n2025-01-02,a,nan\n")
    done = run(tmp_path / "in.csv", tmp_path / "out", "--nan", "raise", code=2)
    assert "in.csv, line 3: amount is not a number: 'nan'" in done.err
