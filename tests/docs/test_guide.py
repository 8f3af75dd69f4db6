"""Runs every example of docs/monoids.md, and those of the README that need no Spark."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GUIDE, README = ROOT / "docs" / "monoids.md", ROOT / "README.md"
#: Where the README keeps pages.
PLACE = re.compile("file:///tmp/")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_guide() -> None:
    blocks = BLOCK.findall(GUIDE.read_text())
    sessions = [block for block in blocks if ">>>" in block]
    test = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, GUIDE.name, None, 0)
    assert len(sessions) == 7 and len(test.examples) > 20
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.failures == 0


def test_the_tests_of_the_guide() -> None:
    (script,) = (block for block in BLOCK.findall(GUIDE.read_text()) if ">>>" not in block)
    space: dict[str, Any] = {}
    exec(compile(script, GUIDE.name, "exec"), space)
    tests = [item for name, item in space.items() if name.startswith("test_")]
    assert len(tests) == 2
    for function in tests:
        if not inspect.signature(function).parameters:
            function()
            continue
        (mark,) = function.pytestmark
        for law in mark.args[1]:
            function(law)


def test_the_examples_of_the_readme(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    scripts = [compile(block, README.name, "exec") for block in blocks]
    run = [
        exec(compile(PLACE.sub(f"file://{tmp_path}/", block), README.name, "exec"), {})
        for block in blocks
        if not re.search(r"\bspark\b|^results = ", block, re.MULTILINE)
    ]
    assert (len(scripts), len(run)) == (6, 4)
    assert capsys.readouterr().out.endswith(" 1000000\n")
