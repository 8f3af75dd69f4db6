"""What is supported where: a page made of the marks on the tests that prove it.

    @pytest.mark.proves("stores", "streams, restarts", "file", "redis")
    @pytest.mark.refuses("PySpark", "pages in Spark's own state", "3.5")

A mark names a table, a row and columns. In the table of PySpark the columns follow from where the
test is: those of ``tests/spark/test_versions.py`` run with every version that the noxfile names,
all others with the newest alone. ``python -m tests.support.supported`` writes the page.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.documents import DOCS, ROOT

PAGE = DOCS / "support.md"
VERSIONS = "tests/spark/test_versions.py"
PYSPARK = "PySpark"
#: The tables with their columns, and what stands above each.
TABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "stores": (
        ("memory", "file", "redis", "couchbase", "s3", "spark://state"),
        "If no Couchbase server is available, the tests use the mock servers CouchbaseMock and "
        "gocaves. S3 is tested against moto's server and gofakes3. `gs://` and `az://` use the "
        "same code as `s3://`.",
    ),
    PYSPARK: (
        (),
        "The older versions run only the most important tests (`nox -s spark`). The newest "
        "version runs all tests.",
    ),
    "options": (
        ("vectorized", "key by key", "late events", "a batch"),
        "The options of `sliding_aggregate` are tested with vectorized windows, with windows that "
        "are processed key by key, with `allowed_lateness`, and in a batch query.",
    ),
    "asking": (
        ("Window", "SharedWindows", "KeyedWindows", "rolling", "a batch", "a stream", "periodic"),
        "Nulls, filters, frames and moments are tested with windows, with `rolling`, with batch "
        "and streaming queries of `sliding_aggregate`, and with periodic results.",
    ),
    "platforms": (
        ("Linux", "others, simulated"),
        "Other systems are simulated on Linux, by removing the features that they lack. The tests "
        "have not run on macOS or Windows.",
    ),
}


class Claim(NamedTuple):
    """What one test shows."""

    table: str
    row: str
    column: str
    word: str
    test: str


def spark_versions() -> tuple[str, ...]:
    """The versions that the noxfile names, and the newest one."""
    found = re.search(r"^OLDEST_SPARKS = (.*)$", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    assert found
    return (*(".".join(each.split(".")[:2]) for each in ast.literal_eval(found[1])), "newest")


@cache
def claims() -> tuple[Claim, ...]:
    """All that the marks say, in the order of files and lines."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found += list(_of_test(place, node))
    return tuple(found)


def _of_test(place: str, node: ast.FunctionDef | ast.ClassDef) -> Iterator[Claim]:
    words = {"pytest.mark.proves": "yes", "pytest.mark.refuses": "refused"}
    marks = [each for each in node.decorator_list if isinstance(each, ast.Call)]
    marks = [each for each in marks if ast.unparse(each.func) in words]
    refused = {tuple(map(ast.literal_eval, m.args)) for m in marks if "refuses" in ast.unparse(m)}
    for mark in marks:
        table, row, *columns = map(ast.literal_eval, mark.args)
        if table == PYSPARK and not columns:
            columns = list(spark_versions() if place == VERSIONS else spark_versions()[-1:])
            columns = [c for c in columns if (table, row, c) not in refused]
        known = spark_versions() if table == PYSPARK else TABLES[table][0]
        assert node.name.lower().startswith("test") and {*columns} <= {*known}, (place, node.name)
        for column in columns:
            word = words[ast.unparse(mark.func)]
            yield Claim(table, row, column, word, f"{place}::{node.name}")


def page() -> str:
    """Return the page as the marks define it."""
    lines = [
        "# What is supported where", "",
        "This page is generated from the tests. `yes` means that a test covers the combination. "
        "`refused` means that the combination raises an error that says what to do instead, and "
        "that a test checks this error. Combinations with an empty field are not tested.",
    ]  # fmt: skip
    cells: defaultdict[str, defaultdict[str, dict[str, Claim]]]
    cells = defaultdict(lambda: defaultdict(dict))
    tests: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for claim in claims():
        cells[claim.table][claim.row].setdefault(claim.column, claim)
        tests[claim.table, claim.row].add(claim.test)
    for table, (columns, above) in TABLES.items():
        columns = columns or spark_versions()
        lines += ["", f"## {table[0].upper()}{table[1:]}", "", above, ""]
        lines += [f"| | {' | '.join(columns)} | tests |", "|---" * (len(columns) + 2) + "|"]
        for row, found in cells[table].items():
            words = [found[column].word if column in found else "" for column in columns]
            shown = ", ".join(f"`{test}`" for test in sorted(tests[table, row]))
            lines.append(f"| {row} | {' | '.join(words)} | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(PAGE).write_text(page())
