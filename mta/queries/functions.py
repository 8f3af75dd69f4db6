"""Aggregate functions of SQL as aggregations of the package, with SQL's nulls.

Functions whose meaning differs from the aggregation of the same name are refused. Functions that
SQL does not know, such as ``decayed_mean``, are those of the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NamedTuple

from sqlglot import exp

from mta.columns.schemas import Times
from mta.monoids.base import AbstractMonoid
from mta.monoids.basic import Count, First, Last
from mta.monoids.catalogue import NAMES
from mta.monoids.distinct import ExactDistinctCount, SumDistinct
from mta.monoids.positional import Lag, NthValue
from mta.monoids.quantiles import Quantile
from mta.queries.text import Text

#: Functions that are the aggregation of the same or of another name, by their names in sqlglot.
_SAME = {
    "sum": "sum", "avg": "mean", "mean": "mean", "min": "min", "max": "max", "median": "median",
    "stddev": "stddev", "std": "stddev", "stddev_samp": "stddev", "stddev_pop": "stddev_pop",
    "variance": "variance", "variance_pop": "var_pop", "covar_samp": "covar_samp",
    "covar_pop": "covar_pop", "count_if": "count_if", "logical_and": "bool_and",
    "logical_or": "bool_or", "every": "bool_and", "some": "bool_or",
    "approx_distinct": "approx_count_distinct", "product": "product",
}  # fmt: skip
#: Names of the catalogue with another meaning in SQL.
_OTHERS = {"sem", "skew", "kurt", "mode", "rank", "any", "all", "list", "collect", "entropy"}
#: Functions whose results have the type of their column.
_FOLLOWS = {"min", "max", "first", "first_value", "last", "last_value", "nth_value", "lag"}
_REMEDIES = {
    "count_if": "write count(*) FILTER (WHERE ...), which is 0 without rows in every database",
    "lead": "no later row is known when a row arrives: write lag, and shift the result",
    "rank": "count the rows before: count(*) OVER (... RANGE ... EXCLUDE GROUP) + 1",
    "any_value": "write first_value(x) IGNORE NULLS",
    "arg_max": "databases differ in its nulls: call rolling or sliding_aggregate with ArgMax",
    "arg_min": "databases differ in its nulls: call rolling or sliding_aggregate with ArgMin",
    "quantile": "databases differ in its meaning: write percentile_cont(0.9) WITHIN GROUP (ORDER "
    "BY x)",
}
#: An aggregation, the columns that it reads, and ``Aggregate.rows``.
_Found = tuple[AbstractMonoid, list[exp.Expr], int | None]
_SPARK = ("spark", "databricks", "spark2")


class Aggregate(NamedTuple):
    """One aggregation of SQL."""

    monoid: AbstractMonoid
    columns: list[exp.Expr]
    condition: exp.Expr | None
    """The condition of FILTER."""
    text: str
    """The call in SQL, without OVER."""
    follows: bool
    """Whether results have the type of the column."""
    reads_time: bool
    """Whether the time column comes before the columns."""
    rows: int | None
    """The number of rows of a function that has no frame of its own, -1 for all; else None."""


class Functions:
    """Reads the calls of window functions. Raises InvalidQuery for calls that are not supported."""

    def __init__(self, text: Text) -> None:
        self.text, self.is_spark = text, text.dialect.lower() in _SPARK

    def read(self, window: exp.Window) -> Aggregate:
        """Return the aggregation of a window."""
        call, condition, skips = window.this, None, False
        while isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(call, exp.Filter):
                condition = call.expression.this
            skips = skips or isinstance(call, exp.IgnoreNulls)
            call = call.this
        if isinstance(call.this, exp.IgnoreNulls | exp.RespectNulls):  # first_value(x IGNORE NULLS)
            skips = skips or isinstance(call.this, exp.IgnoreNulls)
            call.this.replace(call.this.this)
        name = _name_of(call)
        monoid, columns, rows = self._resolve(name, call, skips)
        if condition is not None and isinstance(monoid, Lag):
            raise self.text.error(window, "lag has no FILTER", "write lag(CASE WHEN ... END)")
        text = window.this.sql(self.text.dialect)
        reads_time, expected = _inputs_of(monoid)
        if expected is not None and len(columns) != expected:
            problem = f"{name} reads {expected} column(s), not {len(columns)}"
            raise self.text.error(call, problem, f"correct the arguments of {name}")
        follows = name in _FOLLOWS
        return Aggregate(monoid, columns, condition, text, follows, reads_time, rows)

    def _resolve(self, name: str, call: exp.Expr, skips: bool) -> _Found:
        special: dict[str, Callable[[exp.Expr, bool], _Found]] = {
            "count": self._count, "row_number": self._row_number, "lag": self._lag,
            "withingroup": self._within, "quantile": self._quantile,
            "percentile_cont": self._quantile, "quantile_cont": self._quantile,
            "array_agg": self._list,
        }  # fmt: skip
        if name in special:
            return special[name](call, skips)
        arguments = _arguments(call)
        if name in ("first", "first_value", "last", "last_value"):
            kind: Any = First if name.startswith("first") else Last
            return kind(skip_nulls=skips), arguments, None
        if name == "nth_value":
            return NthValue(self._whole(call, "offset"), skip_nulls=skips), [call.this], None
        if skips:
            remedy = "leave it out: aggregations skip nulls"
            raise self.text.error(call, f"{name} has no IGNORE NULLS", remedy)
        return self._of_catalogue(name, call, arguments), self._columns(arguments), None

    def _of_catalogue(self, name: str, call: exp.Expr, arguments: list[exp.Expr]) -> AbstractMonoid:
        distinct = isinstance(call.this, exp.Distinct)
        if distinct and name not in ("sum", "min", "max"):
            remedy = "only count, sum, min and max take DISTINCT"
            raise self.text.error(call, f"{name}(DISTINCT ...) is not supported", remedy)
        if distinct and name == "sum":
            return SumDistinct()
        known = _SAME.get(name)
        if name == "count_if" and not self.is_spark:
            raise self._unknown(name, call)
        if known is None and isinstance(call, exp.Anonymous) and name not in _OTHERS:
            known = name if name in NAMES else None
        if known is None:
            raise self._unknown(name, call)
        literals = [self._literal(each) for each in arguments[len(self._columns(arguments)) :]]
        try:
            return NAMES[known](*literals)
        except (TypeError, ValueError) as error:
            raise self.text.error(call, f"{name}: {error}", "correct its arguments") from None

    def _unknown(self, name: str, call: exp.Expr) -> Exception:
        close = get_close_matches(name, [*_SAME, *NAMES], n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else "see docs/sql.md for the list"
        remedy = _REMEDIES.get(name, hint)
        problem = f"{call.sql(self.text.dialect)} is not supported over a window"
        return self.text.error(call, problem, remedy)

    def _count(self, call: exp.Expr, skips: bool) -> _Found:
        read = call.this
        if isinstance(read, exp.Distinct):
            if len(read.expressions) != 1:
                remedy = "count one column, such as a concatenation"
                raise self.text.error(call, "count(DISTINCT ...) of several columns", remedy)
            return ExactDistinctCount(), list(read.expressions), None
        if isinstance(read, exp.Star | exp.Literal):
            return Count(), [], None
        return Count(), [read], None

    def _row_number(self, call: exp.Expr, skips: bool) -> _Found:
        return Count(), [], -1

    def _lag(self, call: exp.Expr, skips: bool) -> _Found:
        if call.args.get("default") is not None:
            remedy = "leave the third argument out, and write coalesce(lag(x, 2) OVER ..., 0)"
            raise self.text.error(call, "lag with a default is not supported", remedy)
        n = self._whole(call, "offset") if call.args.get("offset") else 1
        return Lag(n, skip_nulls=skips), [call.this], -1 if skips else n + 1

    def _within(self, call: exp.Expr, skips: bool) -> _Found:
        name, order = _name_of(call.this), call.expression.expressions
        if name not in ("percentile_cont", "percentile_disc") or len(order) != 1:
            raise self._unknown(name, call.this)
        if order[0].args.get("desc"):
            remedy = "write percentile_cont(1 - p) with ORDER BY x"
            raise self.text.error(order[0], "the order of a percentile ascends", remedy, "DESC")
        rule: Any = "linear" if name == "percentile_cont" else "discrete"
        share = self._literal(call.this.this)
        return Quantile(share, interpolation=rule), [order[0].this], None

    def _quantile(self, call: exp.Expr, skips: bool) -> _Found:
        """Return an interpolated quantile: percentile of Spark, quantile_cont of DuckDB."""
        if _name_of(call) == "quantile" and not self.is_spark:
            raise self._unknown("quantile", call)
        column, share, *_ = [*_arguments(call), None]
        if share is None:
            raise self._unknown("quantile", call)
        return Quantile(self._literal(share)), [column], None

    def _list(self, call: exp.Expr, skips: bool) -> _Found:
        if not call.args.get("nulls_excluded"):
            remedy = "write collect_list(x) with dialect='spark', which skips nulls"
            raise self.text.error(call, "lists with nulls are not supported", remedy)
        return NAMES["collect_list"](), [call.this], None

    def _columns(self, arguments: list[exp.Expr]) -> list[exp.Expr]:
        """Return the arguments before the first literal that is not the first argument."""
        literal = [at for at, each in enumerate(arguments) if at and _is_literal(each)]
        return arguments[: literal[0]] if literal else arguments

    def _whole(self, call: exp.Expr, argument: str) -> int:
        value = call.args.get(argument)
        if not (isinstance(value, exp.Literal) and value.is_int and int(value.name) > 0):
            remedy = f"write a whole number from 1 on, such as {_name_of(call)}(x, 2)"
            raise self.text.error(call, f"{_name_of(call)} needs a number of rows", remedy)
        return int(value.name)

    def _literal(self, node: exp.Expr) -> Any:
        if not _is_literal(node):
            sql = node.sql(self.text.dialect)
            remedy = "arguments after the columns are numbers or texts"
            raise self.text.error(node, f"{sql} is not a literal", remedy)
        value = node.to_py()
        return float(value) if isinstance(value, Decimal) else value


def _is_literal(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, exp.Literal | exp.Boolean)


def _name_of(call: exp.Expr) -> str:
    """Return the name of a function in lower case, of one name if there are several."""
    if isinstance(call, exp.Anonymous):
        return call.name.lower()
    return call.sql_name().lower() if isinstance(call, exp.Func) else call.key


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a call in their order."""
    found: list[exp.Expr] = []
    for value in call.args.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, exp.Distinct):
                found += each.expressions
            elif isinstance(each, exp.Expr):
                found.append(each)
    return found


def _inputs_of(monoid: AbstractMonoid) -> tuple[bool, int | None]:
    """Return whether a monoid reads the time first, and how many other columns it reads."""
    if isinstance(monoid, Count):  # of rows, or of the values of a column
        return False, None
    schemas = monoid.inputs.columns
    times = isinstance(schemas[0], Times)
    return times, len(schemas) - times
