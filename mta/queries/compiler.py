"""The passes of a query, and what is computed before and after them.

    SELECT upper(city), max(a - b) OVER w AS peak FROM r WHERE ok WINDOW w AS (PARTITION BY k ...)

    computed      "a - b", and the rows that WHERE passes        by Spark or DuckDB
    pass          by k: MAX(a - b)                               windows, and nothing else
    items         upper(city), MAX(a - b) AS peak                by Spark or DuckDB

Windows of one PARTITION BY and ORDER BY share a pass; passes follow each other. Results have the
names of their calls in SQL until the end, so that errors about them name the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlglot import exp

from mta.frames.base import Frame, Ties
from mta.frames.windows import UNBOUNDED, CountWindow, TimeWindow, is_unbounded
from mta.monoids.product import result_name
from mta.queries.frames import Axis, Frames, merged
from mta.queries.functions import Aggregate, Functions
from mta.queries.text import Text

_NAME = re.compile(r"[A-Za-z0-9_]{1,30}")
#: The column of the key if there is no PARTITION BY, for callers that need a key.
ALL = "all rows"


class Item(NamedTuple):
    """One item of the SELECT list."""

    name: str
    expression: exp.Expr | None
    """Over columns and results; None for a star."""
    column: str | None
    """The column or result, if the item is nothing else."""


class _Call(NamedTuple):
    node: exp.Window
    aggregate: Aggregate
    columns: tuple[str, ...]
    condition: str | None
    by: tuple[str, ...]
    on: str
    spec: exp.WindowSpec | None
    window: str
    """The name of the window, if it has one."""


@dataclass
class Pass:
    """Windows of one partition and order: the arguments of ``rolling`` or ``sliding_aggregate``."""

    by: tuple[str, ...]
    on: str
    is_unbounded: bool
    """Whether all frames start with the first row of the partition and end with the current row."""
    windows: dict[str, Frame] = field(default_factory=dict)
    aggregations: dict[str, Any] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)
    """The column that an aggregation's results have the type of."""
    _places: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add(self, call: _Call, frame: Frame, taken: Collection[str]) -> None:
        """Add an aggregation over a frame, unless another call has added it."""
        known = {each.fingerprint: name for name, each in self.windows.items()}
        window = known.get(frame.fingerprint)
        if window is None:
            window = call.window if _NAME.fullmatch(call.window) else ""
            if not window or window in self.windows:
                window = f"w{len(self.windows)}"
            self.windows[window] = frame
        alias, aggregate = call.aggregate.text, call.aggregate
        while alias in taken:  # by another pass
            alias += " again"
        columns = (call.on, *call.columns) if aggregate.reads_time else call.columns
        filters = () if call.condition is None else (call.condition,)
        self.aggregations[alias] = (columns or None, aggregate.monoid, *filters)
        if aggregate.follows:
            self.following[alias] = call.columns[0]
        self._places[id(call.node)] = alias, window

    @property
    def window(self) -> Frame | dict[str, Frame]:
        """Return the frames by name; one alone has no name."""
        return next(iter(self.windows.values())) if len(self.windows) == 1 else self.windows

    def result_names(self) -> dict[int, str]:
        """Return the column of the result of each call, by the identity of its window."""
        one = len(self.windows) == 1
        return {
            key: alias if one else result_name(alias, window)
            for key, (alias, window) in self._places.items()
        }

    def types(self) -> dict[str, str]:
        """Return the columns whose types results have, by the names of the results."""
        names = self.result_names()
        return {
            names[key]: self.following[alias]
            for key, (alias, _) in self._places.items() if alias in self.following
        }  # fmt: skip


class Query:
    """A query, not yet bound to columns. Raises InvalidQuery for what is not supported."""

    def __init__(self, text: str, dialect: str = "spark") -> None:
        self.text = Text(text, dialect)
        self.select = select = self.text.parse()
        #: The tables that the query reads, without names of WITH.
        self.tables = _tables(select)
        self.named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or []:
            self.named[window.this.name.lower()] = window
        calls = [node for item in select.expressions for node in item.find_all(exp.Window)]
        for node in select.find_all(exp.Window):
            below = node.find_ancestor(exp.Select) is not select or node.find_ancestor(
                exp.Where, exp.Join, exp.Window
            )
            if below and node not in self.named.values():
                remedy = "windows are in the SELECT list of the outermost query: call sql twice"
                raise self.text.error(node, "a window function below the windows", remedy)
        if not calls:
            problem = "the query has no window function"
            raise self.text.error(select, problem, "without one, run it by Spark or DuckDB")

    @property
    def table(self) -> exp.Table | None:
        """Return the table if FROM is one table and nothing else; WHERE may follow."""
        source, rest = self.select.args["from_"].this, ("joins", "laterals", "with_")
        plain = isinstance(source, exp.Table) and not any(map(self.select.args.get, rest))
        of_itself = plain and not any(source.args.get(each) for each in ("sample", "pivots"))
        return source if of_itself and source in self.tables and len(self.tables) == 1 else None

    @property
    def where(self) -> exp.Expr | None:
        """Return the condition of WHERE."""
        where = self.select.args.get("where")
        return None if where is None else where.this

    def columns_of(self, columns: Sequence[str]) -> list[str]:
        """Return which of a table's columns the query reads."""
        if any(_star_of(item) for item in self.select.expressions):
            return list(columns)
        read = {column.name.lower() for column in self.select.find_all(exp.Column)}
        return [name for name in columns if name.lower() in read]

    def before(self, bound: Bound, dialect: str, names: Mapping[str, str] | None = None) -> str:
        """Return the query for the rows before the windows, with other names of its tables."""
        whole = self.select.copy()
        computed = [exp.alias_(node.copy(), n, quoted=True) for n, node in bound.computed.items()]
        star = [exp.Star()] if bound.has_star or self.table is not None else []
        whole.set("expressions", [*star, *computed])
        whole.set("windows", None)
        for table in _tables(whole):
            if names and table.name.lower() in names:
                table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this))
                table.set("this", exp.to_identifier(names[table.name.lower()], quoted=False))
        return whole.sql(dialect)

    def bind(self, columns: Sequence[str] | None) -> Bound:
        """Return the query for the columns of its table, or None if they are not known yet."""
        return Bound(self, columns)


class Bound:
    """A query bound to columns: what to compute, and the items."""

    def __init__(self, query: Query, columns: Sequence[str] | None) -> None:
        self.query, self.text, self.columns = query, query.text, columns
        self.computed: dict[str, exp.Expr] = {}
        """What is computed before the windows, by name."""
        self.has_star = any(_star_of(item) for item in query.select.expressions)
        functions, self._calls = Functions(self.text), list[_Call]()
        for item in query.select.expressions:
            for node in item.find_all(exp.Window):
                self._calls.append(self._call(node, functions.read(node)))
        self.plain = [self.name_of(each) for each in self._columns_of_items()]
        """The columns that items read besides results."""

    def _columns_of_items(self) -> list[exp.Expr]:
        found: list[exp.Expr] = []
        for item in self.query.select.expressions:
            columns = [item] if _star_of(item) else item.find_all(exp.Column)
            found += [
                each for each in columns
                if not _star_of(each) and each.find_ancestor(exp.Window) is None
            ]  # fmt: skip
        return found

    # --- columns ----------------------------------------------------------------------------------

    def name_of(self, node: exp.Expr) -> str:
        """Return the column of an expression, which may have to be computed."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column) and self._is_own(node):
            if self.columns is None and not self.has_star:
                self.computed.setdefault(node.name, node)
            return self._resolved(node)
        name = node.sql(self.text.dialect)
        self.computed.setdefault(name, node)
        return name

    def _is_own(self, node: exp.Column) -> bool:
        """Return whether a column is one of the table, by its plain name."""
        if isinstance(node.this, exp.Star) or isinstance(node.parent, exp.Dot):
            return False
        table = self.query.table
        if not node.table:
            return True
        return table is not None and node.table.lower() == table.alias_or_name.lower()

    def _resolved(self, node: exp.Column) -> str:
        """Return a column's name as the table has it; names are compared without case."""
        if self.columns is None or node.name in self.columns:
            return node.name
        same = [name for name in self.columns if name.lower() == node.name.lower()]
        if len(same) != 1:
            problem = f"there is {'more than one' if same else 'no'} column {node.name!r}"
            raise self.text.error(node, problem, f"there are {', '.join(self.columns)}")
        return same[0]

    # --- windows ----------------------------------------------------------------------------------

    def _call(self, node: exp.Window, aggregate: Aggregate) -> _Call:
        text, named = self.text, self.query.named
        partition, order, spec = merged(text, node, named)
        ordered = [] if order is None else order.expressions
        if len(ordered) != 1:
            remedy = "order by the time of the rows, such as ORDER BY ts"
            raise text.error(node, f"a window has one ORDER BY column, not {len(ordered)}", remedy)
        if ordered[0].args.get("desc"):
            remedy = "windows follow time: write ORDER BY ts, and a frame that is PRECEDING"
            raise text.error(ordered[0], "ORDER BY ... DESC is not supported", remedy, "DESC")
        if aggregate.rows is not None and spec is not None:
            remedy = "leave the frame out, or use a window without one"
            raise text.error(node, f"{aggregate.text} has no frame", remedy)
        columns = tuple(map(self.name_of, aggregate.columns))
        condition = None if aggregate.condition is None else self.name_of(aggregate.condition)
        by, on = tuple(map(self.name_of, partition)), self.name_of(ordered[0].this)
        alias = node.args.get("alias")
        name = alias.name if alias is not None and not node.args.get("spec") else ""
        return _Call(node, aggregate, columns, condition, by, on, spec, name)

    def passes(
        self, axis: Callable[[str], Axis], unit: str | None, ties: Ties | None, streaming: bool
    ) -> list[Pass]:
        """Return the passes in order; ``axis`` says what a column of ORDER BY contains."""
        found: dict[Any, Pass] = {}
        for call in self._calls:
            frames = Frames(self.text, axis(call.on), unit, ties or "peers")
            rows = call.aggregate.rows
            if rows is None:
                frame = frames.read(call.node, call.spec)
            else:
                frame = CountWindow(UNBOUNDED if rows < 0 else rows)
            if streaming:
                self._check_stream(call, frame)
            place = call.by, call.on, streaming and is_unbounded(frame)
            others = {n for key, p in found.items() if key != place for n in p.aggregations}
            found.setdefault(place, Pass(*place)).add(call, frame, others)
        return list(found.values())

    def _check_stream(self, call: _Call, frame: CountWindow | TimeWindow) -> None:
        """Check that rows of later micro-batches cannot change a result."""
        if frame.ties == "peers":
            raise self.text.error(
                call.node,
                "in a stream, later rows may have the time of this row, and RANGE ... CURRENT ROW "
                "(the default of a window with ORDER BY) would include them",
                'write ROWS, or EXCLUDE GROUP, or give ties="rows": then a window '
                "includes the rows of its time that arrived before its row",
            )
        if frame.size >= UNBOUNDED and not is_unbounded(frame):
            raise self.text.error(
                call.node, "in a stream, a frame from UNBOUNDED PRECEDING ends with CURRENT ROW",
                "let it end there, or give it a length, such as INTERVAL 30 DAYS PRECEDING",
                "UNBOUNDED",
            )  # fmt: skip

    # --- items ------------------------------------------------------------------------------------

    def items(self, passes: Sequence[Pass], columns: Sequence[str]) -> list[Item]:
        """Return the items of the SELECT list over the columns before the windows and results."""
        results = {key: name for each in passes for key, name in each.result_names().items()}
        hidden, found = set(self.computed) | {ALL}, list[Item]()
        for item in self.query.select.expressions:
            if (star := _star_of(item)) is not None:
                but = {each.name.lower() for each in star.args.get("except_") or []}
                shown = [n for n in columns if n not in hidden and n.lower() not in but]
                found += [Item(name, exp.column(name, quoted=True), name) for name in shown]
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            whole = exp.Paren(this=inner.copy())
            windows = zip(list(inner.find_all(exp.Window)), list(whole.find_all(exp.Window)),
                          strict=True)  # fmt: skip
            for window, copied in windows:
                copied.replace(exp.column(results[id(window)], quoted=True))
            for column in list(whole.find_all(exp.Column)):
                if column.name not in results.values():
                    column.replace(exp.column(self.name_of(column), quoted=True))
            over = whole.this
            plain = over.name if isinstance(over, exp.Column) else None
            name = item.alias or (inner.name if isinstance(inner, exp.Column) else "")
            found.append(Item(name or item.sql(self.text.dialect), over, plain))
        self._require_distinct(found)
        return found

    def _require_distinct(self, items: Sequence[Item]) -> None:
        seen = set[str]()
        for item in items:
            if item.name.lower() in seen:
                raise self.text.error(
                    self.query.select, f"the result has two columns {item.name!r}",
                    "give one another name with AS",
                )  # fmt: skip
            seen.add(item.name.lower())


def _tables(select: exp.Select) -> list[exp.Table]:
    own = {each.alias.lower() for each in select.find_all(exp.CTE)}
    return [each for each in select.find_all(exp.Table) if each.name.lower() not in own or each.db]


def _star_of(item: exp.Expr) -> exp.Star | None:
    """Return the star of an item that is all columns."""
    found = item.this if isinstance(item, exp.Column) else item
    return found if isinstance(found, exp.Star) else None
