"""``mta run`` with filters, counts of values and of rows, and NaN, against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from mta.cli import main
from tests.support.sampling import some

#: Each aggregation as the command line and as DuckDB have it.
ASKED = {
    "declined": "sum(amount) filter (where status = 'declined')",
    "early": "count(*) filter (where hour(ts) < 6 or status is null)",
    "large": "max(amount) filter (where amount > 50 and card = 'a')",
    "amounts": "count(amount)",
    "states": "count(status)",
    "n": "count(*)",
}


def payments(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(41)
    amount = rng.integers(1, 100, rows).astype(float)
    amount[rng.random(rows) < 0.2] = np.nan
    status = rng.choice(["ok", "declined", "filter (where", None], rows)
    return pd.DataFrame({
        "ts": pd.date_range("2025-01-01", periods=rows, freq="7min").as_unit("us"),
        "card": rng.choice(["a", "b"], rows), "amount": amount, "status": status,
    })  # fmt: skip


def run(source: Path, out: Path, *asked: str) -> int:
    command = ["run", source, "--key", "card", "--output", out, "--window", "20 events"]
    return main([str(each) for each in [*command, "--no-plot", *asked]])


def results(out: Path) -> pd.DataFrame:
    return pd.read_parquet(out / "results").sort_values("ts", ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the payments, and what a run has made of them."""
    folder = tmp_path_factory.mktemp("filters")
    payments().to_csv(folder / "in.csv", index=False)
    options = [part for name, text in ASKED.items() for part in ("--agg", f"{name}={text}")]
    assert run(folder / "in.csv", folder / "out", *options) == 0
    yield folder


def test_filters_and_counts_are_those_of_sql(folder: Path) -> None:
    rows = payments()
    over = "over (partition by card order by ts rows 19 preceding)"
    columns = ", ".join(f"{text} {over} as {name}" for name, text in ASKED.items())
    con = duckdb.connect()
    con.register("given", rows)
    cleaned = "select * replace (if(isnan(amount), null, amount) as amount) from given"
    wanted = con.execute(f"select {columns} from ({cleaned}) order by ts").df()
    found = results(folder / "out")[list(ASKED)]
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_the_windows_of_a_filter_are_found_by_the_other_commands(folder: Path) -> None:
    assert main(["inspect", str(folder / "out")]) == 0
    assert main(["check", str(folder / "out")]) == 0


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("amount", "the filter is double, not boolean"),
        ("stat = 'x'", "`stat` cannot be resolved"),
        ("status =", "Syntax error"),
        ("sum(amount) > 3", "GROUP BY"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_before_anything_is_deleted(
    folder: Path, capsys: pytest.CaptureFixture[str], condition: str, message: str
) -> None:
    before = results(folder / "out")
    asked = f"d=sum(amount) filter (where {condition})"
    assert run(folder / "in.csv", folder / "out", "--overwrite", "--agg", asked) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "filter (where" in error
    assert "Traceback" not in error
    pd.testing.assert_frame_equal(results(folder / "out"), before)


def test_rows_without_any_value_are_counted(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ts,card\n2025-01-01,a\n2025-01-02,a\n")
    assert run(tmp_path / "in.csv", tmp_path / "out", "--agg", "n=count", "--plot") == 0
    assert results(tmp_path / "out")["n"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("nan", "wanted"), some([("propagate", [1.0]), ("skip", [1.0, 1.0, 4.0])], by_default=1)
)
def test_a_nan_is_null_or_a_value(tmp_path: Path, nan: str, wanted: list[float]) -> None:
    lines = "ts,card,amount\n2025-01-01,a,1\n2025-01-02,a,nan\n2025-01-03,a,3\n"
    (tmp_path / "in.csv").write_text(lines)
    options = ("--nan", nan, "--agg", "s=sum(amount)")
    assert run(tmp_path / "in.csv", tmp_path / "out", *options) == 0
    assert results(tmp_path / "out")["s"].dropna().tolist() == wanted


@pytest.mark.parametrize("nulls", some(["drop_row", "accept", "skip"], by_default=2))
def test_a_missing_value_is_skipped_dropped_with_its_row_or_makes_results_nan(
    tmp_path: Path, nulls: str
) -> None:
    wanted = {"skip": [1.0, 1.0, 4.0], "drop_row": [1.0, 4.0], "accept": [1.0, np.nan, np.nan]}
    lines = "ts,card,amount\n2025-01-01,a,1\n2025-01-02,a,\n2025-01-03,a,3\n"
    (tmp_path / "in.csv").write_text(lines)
    options = ("--nulls", nulls, "--nan", "propagate", "--agg", "s=sum(amount)", "--window", "9d")
    assert run(tmp_path / "in.csv", tmp_path / "out", *options) == 0
    found = results(tmp_path / "out")["s"].to_numpy()
    np.testing.assert_array_equal(found, wanted[nulls])


def test_a_nan_that_is_refused_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("ts,card,amount\n2025-01-01,a,1\n2025-01-02,a,nan\n")
    assert run(tmp_path / "in.csv", tmp_path / "out", "--nan", "raise") == 2
    assert "in.csv, line 3: amount is not a number: 'nan'" in capsys.readouterr().err
