"""The notebooks of ``examples/``: each cell gives the output that is stored with it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pandas")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def output_of(cell: dict[str, Any]) -> str:
    """What a notebook shows below a cell, as text."""
    parts = [out.get("text") or out["data"]["text/plain"] for out in cell["outputs"]]
    return "\n".join("".join(part) for part in parts)


def run(source: str, space: dict[str, Any]) -> str:
    """What a cell prints, and the value of its last line."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), space)
    return "\n".join(filter(None, [printed.getvalue(), "" if value is None else repr(value)]))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_gives_its_stored_output(path: Path) -> None:
    space: dict[str, Any] = {}
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert len(cells) > 4
    for cell in cells:
        assert run("".join(cell["source"]), space) == output_of(cell)
