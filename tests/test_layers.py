"""Imports run one way, and what is an extra of the package is imported only where it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

ROOT = Path(__file__).parents[1]
#: What each package may import of the others.
BELOW: dict[str, set[str]] = {
    "stores": set(),
    "mta": {"stores"},
    "spark_integration": {"stores", "mta"},
    "benchmarks": {"stores", "mta", "spark_integration"},
}
#: Where each library may be imported; nowhere what could run bytes of a store.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "couchbase": ("stores/couchbase.py",),
    "redis": (
        "stores/redis.py",
        "stores/redis_connections.py",
        "benchmarks/ours/serving.py",
        "benchmarks/ours/limits.py",
    ),
    "obstore": ("stores/object_store.py",),
    "lmdb": ("stores/",),
    "datasketches": ("mta/monoids/sketches.py",),
    "zstandard": ("stores/compression.py",),
    "shtab": ("mta/cli/commands.py",),
    "starlette": ("mta/serve/", "mta/service/"),
    "uvicorn": ("mta/serve/",),
    "orjson": ("mta/serve/", "mta/service/"),
    "httpx": ("mta/client.py",),
    "prometheus_client": ("mta/serve/metrics.py",),
    "msgpack": ("mta/", "stores/", "spark_integration/"),
    "pandas": (
        "spark_integration/",
        "benchmarks/",
        "mta/dataframes/of_pandas.py",
        "mta/feast.py",
    ),
    "polars": ("benchmarks/", "mta/dataframes/of_polars.py"),
    "pyarrow": (
        "spark_integration/",
        "benchmarks/",
        "mta/dataframes/of_arrow.py",
        "mta/feast.py",
        "mta/serve/answers.py",
        "mta/service/rows.py",
    ),
    "pyspark": ("spark_integration/", "benchmarks/spark/"),
    "sqlglot": ("mta/queries/",),
    "duckdb": ("mta/queries/duck.py", "benchmarks/"),
    "matplotlib": ("spark_integration/", "benchmarks/"),
    "feast": ("mta/feast.py",),
    "paho": ("mta/device/links.py",),
    "pickle": (),
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


MODULES = {package: sorted((ROOT / package).rglob("*.py")) for package in BELOW}


@pytest.mark.parametrize("package", MODULES)
def test_imports_run_one_way(package: str) -> None:
    assert len(MODULES[package]) > 20
    for path in MODULES[package]:
        place, found = path.relative_to(ROOT).as_posix(), imports(path)
        upwards = (found & BELOW.keys()) - {package} - BELOW[package]
        assert not upwards, f"{place} imports {upwards}"
        astray = {name for name in found & ONLY_IN.keys() if not place.startswith(ONLY_IN[name])}
        assert not astray, f"{place} imports {astray}"


def test_no_object_has_its_methods_replaced() -> None:
    """What a call does is in its class; mypy names each assignment to a method."""
    assert not [
        path
        for package in MODULES.keys() - {"benchmarks"}
        for path in MODULES[package]
        if "method-assign" in path.read_text()
    ]


def test_the_core_needs_no_extra() -> None:
    code = "import sys, mta, mta.testing, mta.algorithms, spark_integration, stores; "
    code += "print(*sorted(name.partition('.')[0] for name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert {"numpy", "mta"} <= loaded
    assert not loaded & (ONLY_IN.keys() - {"lmdb", "msgpack", "pickle", "marshal"})


# --- packages ------------------------------------------------------------------------------------

#: The packages of each package from the ground up: each may import those before it.
LAYERS: dict[str, tuple[str, ...]] = {
    "mta": (
        "minimal", "errors", "client", "times", "datasets", "kernels", "columns", "recipes",
        "dataframes",
        "monoids", "aggregations", "in_order", "folds", "frames", "descriptions", "pages",
        "snapshots", "logs",
        "evaluators", "algorithms", "publishing", "windows", "triggers", "keyed", "results",
        "declarations", "queries", "audit", "published", "testing", "serve", "service", "device",
        "feast", "cli", "__main__",
    ),
    "spark_integration": (
        "errors", "versions", "options", "plan", "java", "interpreter", "kafka", "step", "runners",
        "checkpoint", "request", "starting", "publishing", "sliding", "queries",
        "history", "migration", "inspection", "session", "cli",
    ),
    "benchmarks": (
        "report", "papers", "public", "ours", "spark", "registry", "running", "__main__",
    ),
}  # fmt: skip
#: Which packages may import what their package shows to users.
BEFORE_THE_API = {"mta": ("cli",), "spark_integration": ("cli",), "benchmarks": ()}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: Container[str]) -> Iterator[str]:
    """Which of the modules one imports, wherever in it, also for the sake of types alone."""
    here = name_of(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found = [(base, alias.name) for alias in node.names]
        else:
            continue
        for base, part in found:
            name = f"{base}.{part}" if f"{base}.{part}" in modules else base
            if name in modules:
                yield name


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Each module and what it imports of ours."""
    paths = {name_of(path): path for p in BELOW for path in (ROOT / p).rglob("*.py")}
    return {name: set(imported(path, paths)) for name, path in paths.items()}


def breaches(graph: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Imports that go up the order of the packages."""
    for module, below in graph.items():
        package, _, rest = module.partition(".")
        if package not in LAYERS or not rest:
            continue
        order, own = LAYERS[package], rest.partition(".")[0]
        if own not in order:
            yield f"{module} is in no layer of {package}: {', '.join(order)}"
            continue
        for other in below:
            owner, _, part = other.partition(".")
            layer = part.partition(".")[0]
            if owner != package:
                continue
            if not layer and own not in BEFORE_THE_API[package]:
                yield f"{module} imports {other}, the public API of its own package"
            elif layer and order.index(layer) > order.index(own):
                yield f"{module} imports {other}, of a layer above its own"


def circles(graph: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Modules that import one another, over however many others."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        found, due = set[str](), [*graph[module]]
        while due:
            other = due.pop()
            if other not in found:
                found.add(other)
                due.extend(graph[other])
        reached[module] = found
    for module in sorted(graph):
        if module in reached[module]:
            others = {o for o in reached[module] if module in reached[o]}
            if module == min(others):
                yield f"circle of {', '.join(sorted(others))}"


def test_packages_import_only_what_is_beneath_them(graph: dict[str, set[str]]) -> None:
    assert not [*breaches(graph)]


def test_no_modules_import_one_another(graph: dict[str, set[str]]) -> None:
    assert not [*circles(graph)]


def test_what_breaks_the_order_is_named() -> None:
    bad = {
        "mta.kernels.ranks": ["mta.folds.blocks", "mta.errors"],
        "mta.folds.blocks": ["mta", "mta.folds.scans"],
        "mta.folds.scans": ["mta.folds.ranges"],
        "mta.folds.ranges": ["mta.folds.blocks"],
        "mta.drawer.things": [],
        "mta.errors": [],
        "mta": ["mta.folds.blocks"],
        "mta.cli.commands": ["mta"],
        "benchmarks.report.plots": ["benchmarks.ours.keys"],
        "benchmarks.ours.keys": [],
    }
    assert {text.partition(":")[0] for text in breaches(bad)} == {
        "mta.kernels.ranks imports mta.folds.blocks, of a layer above its own",
        "mta.folds.blocks imports mta, the public API of its own package",
        "mta.drawer.things is in no layer of mta",
        "benchmarks.report.plots imports benchmarks.ours.keys, of a layer above its own",
    }
    assert list(circles(bad)) == [
        "circle of mta, mta.folds.blocks, mta.folds.ranges, mta.folds.scans"
    ]


def test_imports_for_types_alone_count() -> None:
    path = ROOT / "mta" / "frames" / "some.py"
    source = "from typing import TYPE_CHECKING\nfrom .. import errors\nfrom .base import View\n"
    source += "if TYPE_CHECKING:\n    import mta.times\n"
    known = ("mta.errors", "mta.frames.base", "mta.times")
    with patch.object(Path, "read_text", return_value=source):
        assert set(imported(path, known)) == set(known)
