"""Imports run one way, and what is an extra of the package is imported only where it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What each package may import of the others.
BELOW: dict[str, set[str]] = {
    "stores": set(),
    "mta": {"stores"},
    "spark_integration": {"stores", "mta"},
}
#: Where each library may be imported; nowhere what could run bytes of a store.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "couchbase": ("stores/couchbase.py",),
    "redis": ("stores/redis.py",),
    "lmdb": ("stores/",),
    "datasketches": ("mta/monoids/sketches.py",),
    "msgpack": ("mta/", "spark_integration/"),
    "pandas": ("spark_integration/", "mta/bench/"),
    "pyarrow": ("spark_integration/", "mta/bench/"),
    "pyspark": ("spark_integration/",),
    "matplotlib": ("spark_integration/", "mta/bench/"),
    "pickle": ("stores/testing/conformance.py",),  # which sends an open store to another process
    "marshal": (),
    "shelve": (),
}


def imports(path: Path) -> set[str]:
    """The packages and libraries that a module imports; relative imports stay in its package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


MODULES = [
    pytest.param(path, id=str(path.relative_to(ROOT)))
    for package in BELOW
    for path in sorted((ROOT / package).rglob("*.py"))
]


def test_there_are_modules() -> None:
    assert len(MODULES) > 100


@pytest.mark.parametrize("path", MODULES)
def test_imports_run_one_way(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    package = place.partition("/")[0]
    found = imports(path)
    assert (found & BELOW.keys()) - {package} <= BELOW[package]
    astray = {name for name in found & ONLY_IN.keys() if not place.startswith(ONLY_IN[name])}
    assert not astray, f"{place} imports {astray}"


def test_the_core_needs_no_extra() -> None:
    code = "import sys, mta, mta.laws, mta.in_order, spark_integration, stores; "
    code += "print(*sorted(name.partition('.')[0] for name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert {"numpy", "mta"} <= loaded
    assert not loaded & (ONLY_IN.keys() - {"lmdb", "msgpack", "pickle", "marshal"})
