"""Runs every example of docs/monoids.md."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[2] / "docs" / "monoids.md"
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
