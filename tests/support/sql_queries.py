"""Random tables, and random queries of the grammar that ``docs/sql.md`` describes.

A query is text that DuckDB reads too. Times are distinct where a result depends on the order of
rows of one time, because SQL leaves that order open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa

START = datetime(2024, 3, 30, tzinfo=UTC)  # a day before clocks change in Europe
ZONES = (None, "UTC", "Europe/Berlin", "Asia/Kolkata")


@dataclass(frozen=True)
class Case:
    """A table ``t`` and a query of it."""

    table: pa.Table
    query: str
    has_ties: bool


def table_of(rng: np.random.Generator, rows: int, has_ties: bool, zone: str | None) -> pa.Table:
    """A table in order of time, with nulls in all columns of values."""

    def nullable(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        missing = rng.random(rows) < rng.choice([0, 0.2, 0.7])
        return pa.array([None if m else v for m, v in zip(missing, values, strict=True)], kind)

    if has_ties:
        seconds = np.sort(rng.integers(0, max(rows // 3, 2), rows))
    else:
        seconds = np.cumsum(rng.integers(1, 30, rows))
    spread = int(rng.choice([1, 60, 3600]))
    times = [START + timedelta(seconds=int(each) * spread) for each in seconds]
    kind = pa.timestamp("us", zone)
    if zone is None:
        times = [each.replace(tzinfo=None) for each in times]
    elif zone != "UTC":
        times = [each.astimezone(ZoneInfo(zone)) for each in times]
    amounts = [Decimal(int(each)).scaleb(-2) for each in rng.integers(-9999, 9999, rows)]
    return pa.table({
        "k": pa.array(rng.integers(0, 4, rows)),
        "g": pa.array(rng.choice(["a", "b", "c d"], rows).tolist()),
        "ts": pa.array(times, kind),
        "n": pa.array(seconds, pa.int64()),
        "x": nullable(rng.normal(size=rows).round(3).tolist(), pa.float64()),
        "i": nullable(rng.integers(-50, 50, rows).tolist(), pa.int64()),
        "d": nullable(amounts, pa.decimal128(9, 2)),
        "s": nullable(rng.choice(["u", "v", "W", "é"], rows).tolist(), pa.string()),
        "b": nullable((rng.random(rows) < 0.5).tolist(), pa.bool_()),
    })  # fmt: skip


NUMBERS = ("x", "i", "d")
#: Aggregates whose results do not depend on the order of rows.
UNORDERED = (
    "count(*)", "count({any})", "count(DISTINCT {any})", "sum({number})", "sum(DISTINCT i)",
    "avg({number})", "min({value})", "max({value})", "stddev({number})", "stddev_pop({number})",
    "var_samp({number})", "var_pop({number})", "median({real})", "quantile_cont({real}, 0.9)",
    "bool_and(b)", "bool_or(b)", "covar_pop(x, i)", "sum(i * 2 + 1)",
    "max(coalesce(x, 0))",
)  # fmt: skip
ORDERED = (
    "first_value({value})", "last_value({value})", "first_value({value} IGNORE NULLS)",
    "last_value({value} IGNORE NULLS)", "nth_value({value}, 2)",
)  # fmt: skip
#: Functions that have no frame.
WITHOUT_FRAME = ("lag({value})", "lag({value}, 3)", "lag({value} IGNORE NULLS)", "row_number()")
FILTERS = ("b", "i > 0", "s = 'u'", "x IS NOT NULL AND i < 10", "NOT b")
UNITS = ("SECONDS", "MINUTES", "HOURS")


def case_of(rng: np.random.Generator, rows: int = 60, streams: bool = False) -> Case:
    """A random table, and a random query of one to four windows."""
    zone, has_ties = rng.choice(np.array(ZONES, object)), bool(rng.random() < 0.5)
    table = table_of(rng, int(rng.integers(1, rows)), has_ties, zone)
    names = ["w", "v"]
    windows = {name: _window(rng, has_ties, streams) for name in names}
    items = [_item(rng, has_ties, windows, streams) for _ in range(rng.integers(1, 5))]
    plain = ["*"] if rng.random() < 0.6 else ["k", "ts", "upper(g) AS big"]
    shown = [*plain, *(f"{item} AS r{at}" for at, item in enumerate(items))]
    condition = rng.choice(["i > -40", "g <> chr(97)", "k < 3"])
    where = f" WHERE {condition}" if rng.random() < 0.3 else ""
    used = [name for name in names if any(f"OVER {name}" in item for item in items)]
    named = [f"{name} AS ({windows[name]})" for name in used]
    clause = f" WINDOW {', '.join(named)}" if named else ""
    return Case(table, f"SELECT {', '.join(shown)} FROM t{where}{clause}", has_ties)


def _call(rng: np.random.Generator, templates: Sequence[str]) -> str:
    return str(rng.choice(np.array(templates, object))).format(
        any=rng.choice(["x", "i", "d", "s", "b"]), number=rng.choice(NUMBERS),
        value=rng.choice(["x", "i", "d", "s", "b"]), real=rng.choice(["x", "i"]),
    )  # fmt: skip


def _partition(rng: np.random.Generator) -> str:
    return str(rng.choice(["PARTITION BY k ", "PARTITION BY k ", "PARTITION BY k, g ", ""]))


def _interval(rng: np.random.Generator, least: int = 1) -> tuple[str, int]:
    unit = int(rng.integers(0, 3))
    count = int(rng.integers(least, 20))
    return f"INTERVAL '{count}' {UNITS[unit]}", count * 60**unit


def _window(rng: np.random.Generator, has_ties: bool, streams: bool) -> str:
    """A window with a frame."""
    if not has_ties and rng.random() < 0.4:
        last = int(rng.integers(0, 4))
        first = int(rng.integers(last, last + 12))
        start = "UNBOUNDED" if rng.random() < 0.2 and not (streams and last) else str(first)
        end = f"{last} PRECEDING" if last else "CURRENT ROW"
        excludes = not last and start not in ("0", "UNBOUNDED") and rng.random() < 0.3
        exclude = " EXCLUDE CURRENT ROW" if excludes else ""
        frame = f"ROWS BETWEEN {start} PRECEDING AND {end}{exclude}"
        return f"{_partition(rng)}ORDER BY ts {frame}"
    if rng.random() < 0.2:
        first, last = int(rng.integers(1, 20)), int(rng.choice([0, 1, 2]))
        last = max(min(first, last), int(streams and has_ties))
        ends = f"{last} PRECEDING" if last else "CURRENT ROW"
        return f"{_partition(rng)}ORDER BY n RANGE BETWEEN {first} PRECEDING AND {ends}"
    kind = rng.random()
    if kind < 0.15 and not (streams and has_ties):
        return f"{_partition(rng)}ORDER BY ts"  # RANGE UNBOUNDED PRECEDING
    (start, length), (other, distance) = _interval(rng), _interval(rng)
    if kind < 0.35:
        if distance > length:
            start, other = other, start
        return f"{_partition(rng)}ORDER BY ts RANGE BETWEEN {start} PRECEDING AND {other} PRECEDING"
    exclude = " EXCLUDE GROUP" if rng.random() < 0.3 or (streams and has_ties) else ""
    start = "UNBOUNDED" if rng.random() < 0.15 and not (streams and exclude) else start
    return f"{_partition(rng)}ORDER BY ts RANGE BETWEEN {start} PRECEDING AND CURRENT ROW{exclude}"


def _item(rng: np.random.Generator, has_ties: bool, windows: dict[str, str], streams: bool) -> str:
    if not has_ties and rng.random() < 0.2:
        return f"{_call(rng, WITHOUT_FRAME)} OVER ({_partition(rng)}ORDER BY ts)"
    templates = UNORDERED if has_ties else UNORDERED + ORDERED * 2
    call = _call(rng, templates)
    if rng.random() < 0.3 and "value(" not in call:
        call += f" FILTER (WHERE {rng.choice(FILTERS)})"
    if rng.random() < 0.6:
        over = str(rng.choice([*windows]))
    else:
        over = f"({_window(rng, has_ties, streams)})"
    item = f"{call} OVER {over}"
    wraps = rng.random() < 0.15 and call.startswith(("sum", "avg", "count"))
    return f"coalesce({item}, 7) + 1" if wraps else item


# --- results --------------------------------------------------------------------------------------


def by_duckdb(case: Case) -> list[dict[str, Any]]:
    """The rows of DuckDB, in any order."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", case.table)
        return connection.sql(case.query).to_arrow_table().to_pylist()


def in_form(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows in order, with values that can be compared."""
    found = [tuple(map(_plain, row.values())) for row in rows]
    return sorted(found, key=lambda row: tuple((v is None, str(_rounded(v))) for v in row))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, Decimal):
        return value.normalize() + 0
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, float | Decimal | int) and not isinstance(value, bool):
        return f"{float(value):020.5f}"
    return value


def require_equal(found: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> None:
    """Compare rows in any order; floats may differ in their last digits."""
    assert [*found[0]] == [*wanted[0]] if found and wanted else len(found) == len(wanted)
    ours, theirs = in_form(found), in_form(wanted)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            assert _same(a, b), f"{a!r} is not {b!r}\n{one}\n{other}"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float | Decimal) and isinstance(b, float | Decimal | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-7)
    if {type(a), type(b)} <= {int, Decimal}:  # DuckDB adds integers as numbers of 128 bits
        return bool(a == b)
    return type(a) is type(b) and bool(a == b)
