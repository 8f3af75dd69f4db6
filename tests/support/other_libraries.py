"""The catalogue beside other libraries: a page made of what they have, and of what it is here.

Each function of theirs has an entry below: a name by which the aggregation is given here, with a
remark where the two differ, or after a dash the reason why there is none. ``functions_of`` lists
what an installed library has, so that one without an entry is found.
``python -m tests.support.other_libraries`` writes the page.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from mta.monoids.catalogue import AGGREGATIONS
from tests.support.documents import DOCS

PAGE = DOCS / "catalogue.md"

_COMBINED = "- combines stored sketches or states, which windows do internally"
_GROUPING = "- distinguishes GROUPING SETS, which windows do not have"
_LATER_ROWS = "- needs later rows, but a window ends at the current row"
_BY_ORDER = "- numbers the rows of a whole partition; `rank` ranks values in a window"
_OWN = "- write a [monoid](monoids.md#a-monoid-from-plain-functions)"
_SKETCH = "- returns a binary format of Spark; `approx_count_distinct` returns the count"
_BITMAP = "- returns a bitmap of small numbers; `count_distinct` returns the count"
_WIDER = "sum; adds doubles along a tree, with an error of O(log n)"
_TIE = "mode; the smallest value wins a tie"

SPARK: dict[str, str] = {
    **{name: name for name in (
        "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and",
        "bit_or", "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set", "corr",
        "count_distinct", "count_if", "covar_pop", "covar_samp", "every", "first", "first_value",
        "kurtosis", "lag", "last", "last_value", "listagg", "listagg_distinct", "max", "mean",
        "median", "min", "nth_value", "percentile", "percentile_approx", "product", "regr_avgx",
        "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
        "regr_sxy", "regr_syy", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp",
        "string_agg", "string_agg_distinct", "sum", "sum_distinct", "var_pop", "var_samp",
        "variance",
    )},
    "approxCountDistinct": "approx_count_distinct", "countDistinct": "count_distinct",
    "sumDistinct": "sum_distinct",
    "count": "count; counts rows",
    "count_min_sketch": "count_min_sketch; returns another format",
    "max_by": "max_by", "min_by": "min_by",
    "mode": f"{_TIE}, as with `deterministic=True`",
    "try_avg": "avg; never overflows",
    "try_sum": "sum; a sum of integers that is out of range raises ResultOutOfRange",
    "collect_union": "- reads a column of lists; explode the column first, and use `collect_set`",
    "histogram_numeric": "- returns a histogram; `quantile([0.1, ...])` returns exact bounds",
    "grouping": _GROUPING, "grouping_id": _GROUPING,
    "bitmap_construct_agg": _BITMAP, "bitmap_or_agg": _BITMAP, "bitmap_and_agg": _BITMAP,
    **dict.fromkeys((
        "hll_sketch_agg", "theta_sketch_agg", "tuple_sketch_agg_double", "tuple_sketch_agg_integer",
    ), _SKETCH),
    **dict.fromkeys(
        ("kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float"),
        "- returns a binary format of Spark; `approx_quantile` returns the quantiles",
    ),
    **dict.fromkeys((
        "hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float",
        "theta_intersection_agg", "theta_union_agg", "tuple_intersection_agg_double",
        "tuple_intersection_agg_integer", "tuple_union_agg_double", "tuple_union_agg_integer",
    ), _COMBINED),
    **dict.fromkeys(
        ("vector_avg", "vector_sum"),
        "- reads arrays of numbers; use one aggregation per element",
    ),
    "counter_diff": "increase; the sum over the window; after a reset, growth counts from 0",
    "cume_dist": _BY_ORDER, "dense_rank": _BY_ORDER, "ntile": _BY_ORDER, "percent_rank": _BY_ORDER,
    "rank": "rank; ranks the newest value among the values of the window, as in pandas",
    "row_number": "count; use a window of all rows so far", "lead": _LATER_ROWS,
}  # fmt: skip

PANDAS: dict[str, str] = {
    **{name: name for name in (
        "corr", "cov", "count", "kurt", "max", "mean", "median", "min", "quantile", "rank", "skew",
        "std", "sum", "var",
    )},
    "kurt": "kurt; NaN if all values are equal, where pandas returns -3",
    "skew": "skew; NaN if all values are equal, where pandas returns 0",
    "sem": "sem; divides by sqrt(n), as `sem` of a series does; windows in pandas use sqrt(n - 1)",
    "nunique": "nunique", "first": "first", "last": "last",
    "agg": "- pass several aggregations as a dictionary", "aggregate": "- see `agg`",
    "apply": _OWN, "pipe": "- calls a function on the window object",
    "ewm.mean": "decayed_mean; as with `halflife=` and `times=`",
    "ewm.sum": "decayed_sum; as with `halflife=` and `times=`",
    "ewm.std": "- use `decayed_mean` of the values and of their squares",
    "ewm.var": "- see `ewm.std`", "ewm.cov": "- see `ewm.std`", "ewm.corr": "- see `ewm.std`",
    "ewm.online": "- not needed: a window continues from batch to batch",
    "ewm.agg": "- pass several aggregations as a dictionary", "ewm.aggregate": "- see `agg`",
}  # fmt: skip

_BY_TIME = "; use `on=` and a window by time"
_ONE_OF = "nth_value; returns one value, not a list"
_NAN = 'NaN is refused; with `nulls="accept"`, the result is NaN'
_OF_TYPE = "- a property of the type, not of the values"
POLARS: dict[str, str] = {
    **{f"rolling_{name}": name for name in (
        "max", "mean", "median", "min", "quantile", "rank", "sum", "std", "var",
    )},
    **{f"rolling_{name}_by": name + _BY_TIME for name in (
        "max", "mean", "median", "min", "quantile", "rank", "sum", "std", "var",
    )},
    "rolling_kurtosis": "kurtosis; for `bias=False`, use `kurt`",
    "rolling_skew": "skewness; for `bias=False`, use `skew`",
    "rolling_map": _OWN, "rolling": "- use `mta.rolling`, which takes any aggregation",
    **{name: name for name in (
        "all", "any", "approx_n_unique", "approx_quantile", "bitwise_and", "bitwise_or",
        "bitwise_xor", "first", "implode", "last", "len", "max", "max_by", "mean", "median",
        "min", "min_by", "n_unique", "product", "quantile", "std", "sum", "top_k", "bottom_k",
        "var",
    )},
    "entropy": "- reads values as probabilities; `entropy` uses the frequencies of values",
    "count": "count; counts rows",
    "kurtosis": "kurtosis", "skew": "skewness; for `bias=False`, use `skew`",
    "mode": "mode; returns only the smallest of equally frequent values",
    "arg_max": "max_by; use a column of row numbers",
    "arg_min": "min_by; use a column of row numbers",
    "dot": "sum; use a column of the products", "gather": "nth_value", "get": "nth_value",
    "nan_max": f"max; {_NAN}", "nan_min": f"min; {_NAN}",
    "has_nulls": "- nulls are refused by default", "null_count": "- see `has_nulls`",
    "is_empty": "count; the window is empty if the count is 0",
    "head": _ONE_OF, "limit": _ONE_OF, "tail": "lag; returns one value, not a list",
    "unique": "collect_set",
    "index_of": "- the position of a value changes with every row",
    "is_sorted": "longest_increasing_run; the window is sorted if the run includes all events",
    "sample": "- returns random values; results of windows are exact",
    "search_sorted": "- needs a sorted column",
    "lower_bound": _OF_TYPE, "upper_bound": _OF_TYPE,
}  # fmt: skip

DUCKDB: dict[str, str] = {
    **{name: name for name in (
        "any_value", "approx_count_distinct", "approx_quantile", "arbitrary", "arg_max", "arg_min",
        "argmax", "argmin", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bool_and",
        "bool_or", "corr", "count_if", "countif", "covar_pop", "covar_samp", "entropy", "first",
        "group_concat", "kurtosis_pop", "last", "list", "listagg", "max_by", "mean", "median",
        "min_by", "product", "quantile", "quantile_cont", "quantile_disc", "regr_avgx", "regr_avgy",
        "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
        "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "var_pop", "var_samp",
        "variance",
    )},
    "count": "count; counts rows", "count_star": "count",
    "max": "max; `max(x, k)` is `top_k(k)`", "min": "min; `min(x, k)` is `bottom_k(k)`",
    "arg_max_null": "max_by; with `nulls=\"accept\"`, a null is a value like any other",
    "arg_min_null": "min_by; see `arg_max_null`",
    "arg_max_nulls_last": "max_by; see `arg_max_null`",
    "arg_min_nulls_last": "min_by; see `arg_max_null`",
    "approx_top_k": "most_frequent; exact; for bounded space, use `frequent_items`",
    "kurtosis": "kurt", "skewness": "skew",
    "mode": f"{_TIE}; in DuckDB, the first value does",
    "sem": "sem; uses the deviation of the sample; DuckDB uses that of the population",
    "quantile": "quantile_disc",
    "favg": "avg; see `fsum`", "fsum": _WIDER, "kahan_sum": _WIDER, "sumkahan": _WIDER,
    "sum_no_overflow": "sum", "decimal_average": "avg; returns a double",
    "reservoir_quantile": "approx_quantile; for exact results, use `quantile`",
    "mad": "- needs two medians, one after the other; `quantile([0.25, 0.75])` also measures the "
           "spread",
    "histogram": "most_frequent; use a k of at least the number of distinct values",
    "histogram_exact": "- use one `count_if` per bin",
    "bitstring_agg": _BITMAP,
    "lttb": "- selects points of a finished series for a chart",
    "variant_group_object": "- creates an object; `collect_list` returns the values",
    "combine_aggr": _COMBINED,
}  # fmt: skip

LIBRARIES: dict[str, dict[str, str]] = {
    "Spark": SPARK, "pandas": PANDAS, "polars": POLARS, "DuckDB": DUCKDB,
}  # fmt: skip
_WHAT = {
    "Spark": "The aggregate and window functions of `pyspark.sql.functions`.",
    "pandas": "The methods of `rolling`, `expanding` and `ewm`.",
    "polars": "The `rolling_...` methods of an expression, and the methods that return one value.",
    "DuckDB": "The aggregates that `duckdb_functions()` lists.",
}


def split(entry: str) -> tuple[str | None, str]:
    """An entry as the name here and a remark; without a name the remark is the reason."""
    if entry.startswith("- "):
        return None, entry[2:]
    name, _, remark = entry.partition("; ")
    return name, remark


# --- what installed libraries have ----------------------------------------------------------------


def functions_of(library: str) -> set[str]:
    """The aggregations that an installed library has. Raises ImportError."""
    return set(_LISTED[library]())


def _of_spark() -> Iterator[str]:
    import pyspark.sql.functions as functions

    source = inspect.getsource(functions)
    sections = re.split(r"^    # (.*)$", source, flags=re.MULTILINE)
    for title, names in zip(sections[1::2], sections[2::2], strict=True):
        if title.lower() in ("aggregate functions", "window functions"):
            yield from re.findall(r'^    "(\w+)",$', names, re.MULTILINE)
    for name in dir(functions):  # older versions have no sections
        text = inspect.getdoc(getattr(functions, name)) or ""
        if text.startswith(("Aggregate function", "Window function")):
            yield name


def _of_pandas() -> Iterator[str]:
    from pandas.api.typing import Expanding, ExponentialMovingWindow, Rolling

    for kind, prefix in ((Rolling, ""), (Expanding, ""), (ExponentialMovingWindow, "ewm.")):
        for name, _ in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield prefix + name


def _of_polars() -> Iterator[str]:
    import polars as pl

    values = {"x": [3.0, 1.0, 2.0], "n": [3, 1, 2], "b": [True, False, True], "s": ["b", "a", "c"]}
    frame = pl.DataFrame(values)
    for name, method in inspect.getmembers(pl.Expr, inspect.isfunction):
        if name.startswith("rolling"):
            yield name
        elif not name.startswith("_") and name != "inspect":
            heights = {
                _height(frame, method, column, arguments)
                for column in values
                for arguments in ((), (1,), (0.5,), (pl.col("n"),))
            }
            if heights - {None} and heights <= {1, None}:
                yield name


def _height(frame: object, method: Callable[..., object], column: str, arguments: object) -> object:
    """How many rows a method makes of three; None where it takes no such arguments."""
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return frame.select(method(pl.col(column), *arguments)).height  # type: ignore
        except BaseException:  # a panic of Rust is none of Python's exceptions
            return None


def _of_duckdb() -> Iterator[str]:
    import duckdb

    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type='aggregate'"
    for (name,) in duckdb.sql(query).fetchall():
        yield name


_LISTED: dict[str, Callable[[], Iterator[str]]] = {
    "Spark": _of_spark, "pandas": _of_pandas, "polars": _of_polars, "DuckDB": _of_duckdb,
}  # fmt: skip

# --- the page -------------------------------------------------------------------------------------


def page() -> str:
    """The page, with the tables in the place of their marks."""
    head, _, rest = (DOCS / "catalogue.md").read_text().partition("<!-- names -->\n")
    middle = rest.partition("<!-- end of names -->\n")[2].partition("<!-- libraries -->\n")[0]
    return "".join([
        head, "<!-- names -->\n", *_names(), "<!-- end of names -->\n", middle,
        "<!-- libraries -->\n", *(line for each in LIBRARIES for line in _table(each)),
    ])  # fmt: skip


def _names() -> Iterator[str]:
    yield "| names | aggregation | |\n|---|---|---|\n"
    for factory, names in AGGREGATIONS:
        kind = getattr(factory, "func", factory)
        arguments = [*getattr(factory, "args", ()), *getattr(factory, "keywords", {}).values()]
        given = ", ".join(map(repr, arguments)).replace("True", "distinct=True")
        about = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
        shown = ", ".join(f"`{name}`" for name in names.split())
        yield f"| {shown} | `{kind.__name__}({given})` | {about.replace('``', '`')} |\n"


def _table(library: str) -> Iterator[str]:
    yield f"\n### {library}\n\n{_WHAT[library]}\n\n| {library} | here | |\n|---|---|---|\n"
    for function, entry in sorted(LIBRARIES[library].items()):
        name, remark = split(entry)
        yield f"| `{function}` | {f'`{name}`' if name else 'no'} | {remark} |\n"


if __name__ == "__main__":
    Path(PAGE).write_text(page())
