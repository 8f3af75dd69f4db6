"""A parsed query, and errors with a position in its text.

line 2, column 53: a frame ends with the current row or before it: a stream does not know later
rows; end it with CURRENT ROW
    max(watts) OVER (PARTITION BY device ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
                                                                                    ^
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mta.errors import InvalidQuery

#: The longest part of a line that an error shows before and after the position.
_SHOWN = 70
#: Clauses of a SELECT that windows do not support, with what to write instead.
_ELSEWHERE = {
    "distinct": ("DISTINCT", "apply it to the result"),
    "group": ("GROUP BY", "group in a subquery in FROM, or group the result"),
    "having": ("HAVING", "filter in a subquery in FROM"),
    "qualify": ("QUALIFY", "filter the result"),
    "order": ("ORDER BY", "sort the result"),
    "limit": ("LIMIT", "apply it to the result"),
    "offset": ("OFFSET", "apply it to the result"),
    "cluster": ("CLUSTER BY", "apply it to the result"),
    "distribute": ("DISTRIBUTE BY", "apply it to the result"),
    "sort": ("SORT BY", "sort the result"),
    "into": ("INTO", "write the result"),
}
_CALL = "write SELECT ..., max(x) OVER (PARTITION BY k ORDER BY t ROWS 9 PRECEDING) FROM t"


@dataclass(frozen=True)
class Text:
    """The text of a query and the dialect in which it is written."""

    text: str
    dialect: str

    def error(self, node: Any, problem: str, remedy: str, word: str = "") -> InvalidQuery:
        """Return an error at a node of the query, or at the first such word from there on."""
        start: int | None = None
        while start is None and node is not None:
            found = [each.meta["start"] for each in node.walk() if "start" in each.meta]
            start, node = min(found, default=None), node.parent
        if word:
            tokens = sqlglot.tokenize(self.text, self.dialect)
            starts = [token.start for token in tokens if token.text.upper() == word]
            start = next((each for each in starts if each >= (start or 0)), start)
        return self.error_at(start or 0, problem, remedy)

    def error_at(self, start: int, problem: str, remedy: str) -> InvalidQuery:
        """Return an error at a position of the text, with its line."""
        before, line = self.text[:start], self.text.split("\n")[self.text.count("\n", 0, start)]
        column = start - (before.rfind("\n") + 1)
        shown = line[max(0, column - _SHOWN) : column + _SHOWN]
        return InvalidQuery(
            f"line {before.count(chr(10)) + 1}, column {column + 1}: {problem}; {remedy}\n"
            f"    {shown}\n    {' ' * min(column, _SHOWN)}^"
        )

    def parse(self) -> exp.Select:
        """Return the SELECT. Raises InvalidQuery for anything else."""
        if not isinstance(self.text, str):
            raise TypeError(f"a query is text, not {type(self.text).__name__}")
        try:
            statements = sqlglot.parse(self.text, dialect=self.dialect)
        except SqlglotError as error:
            raise self._syntax(error) from None
        except ValueError as error:  # an unknown dialect
            raise InvalidQuery(f"dialect={self.dialect!r}: {error}") from None
        if len(statements) != 1 or not isinstance(statements[0], exp.Select):
            second = statements[1] if len(statements) > 1 else statements[0]
            raise self.error(second, "a query is one SELECT with window functions", _CALL)
        select = statements[0]
        for clause, (word, remedy) in _ELSEWHERE.items():
            if select.args.get(clause):
                node = select.args[clause]
                at = node if isinstance(node, exp.Expr) else select
                problem = f"{word} around window functions is not supported"
                raise self.error(at, problem, remedy)
        if select.args.get("from_") is None:
            raise self.error(select, "the query has no FROM", "name a table")
        return select

    def _syntax(self, error: SqlglotError) -> InvalidQuery:
        details = getattr(error, "errors", None)
        if not details:
            return InvalidQuery(f"the query cannot be read ({error}): check its quotes")
        found, lines = details[0], self.text.split("\n")
        start = sum(len(line) + 1 for line in lines[: found["line"] - 1]) + found["col"]
        start -= len(found["highlight"] or "")  # the column is that of the last character
        problem = f"this is not SQL of {self.dialect}: {found['description'].rstrip('.')}"
        return self.error_at(max(start, 0), problem, "correct it")
