"""What users may set or type is described, and every module is named where one looks."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mta import KeyedWindows, SharedWindows, SlicedWindow, TriggeredWindow, Window
from mta.cli.commands import command_line
from mta.windows.settings import Changes, Settings
from stores.errors import SOURCE, WindowStoreError
from tests.support.documents import DOCS, PUBLIC, README, ROOT, documents, name_of

TEXT = {page: page.read_text() for page in [README, *sorted(DOCS.glob("*.md"))]}
ALL = "\n".join(TEXT.values())
PACKAGES = ("mta", "stores", "spark_integration")


def undescribed(names: set[str], page: Path | None = None) -> list[str]:
    """The names that stand in no ticks, alone or with what follows ``=``, ``(`` or a blank."""
    text = ALL if page is None else TEXT[page]
    return sorted(
        name
        for name in names
        if not re.search(rf"`[^`\n]*(?<![\w-]){re.escape(name)}(?![\w-])[^`\n]*`", text)
    )


def keywords(path: Path, function: str) -> set[str]:
    """The keyword arguments of a function, read from its source."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return {argument.arg for argument in node.args.kwonlyargs}
    raise AssertionError(f"{name_of(path)} has no {function}")


def test_options_of_sliding_aggregate() -> None:
    options = keywords(ROOT / "spark_integration" / "sliding.py", "sliding_aggregate")
    assert len(options) > 15
    table = TEXT[DOCS / "spark.md"].partition("## All options")[2].partition("\n## ")[0]
    described = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*)", table, re.M))))
    assert described == options


def parameters(kind: type) -> set[str]:
    """What a kind of window is made with."""
    return set(inspect.signature(kind).parameters)


def settings(call: Any) -> dict[str, Any]:
    """The defaults of a call's settings."""
    found = inspect.signature(call).parameters.values()
    return {p.name: p.default for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def test_settings_are_written_out() -> None:
    """Each constructor names its settings, so that ``help()`` shows them; ``restore`` has them."""
    checked = {each.name: each.default for each in fields(Settings)}
    assert get_type_hints(Changes).keys() == checked.keys()
    for kind in (Window, SharedWindows, SlicedWindow, KeyedWindows):
        own = settings(kind)
        assert own and all(own[name] == checked[name] for name in own.keys() - {"timed"})
    for kind in (Window, SharedWindows, SlicedWindow, TriggeredWindow, KeyedWindows):
        found = inspect.signature(kind).parameters.values()
        assert inspect.Parameter.VAR_KEYWORD not in [p.kind for p in found]
        given = settings(kind.restore)
        assert given.keys() >= {"aggregations", "window"} and {*given.values()} == {None}
        assert "changes" in inspect.signature(kind.restore).parameters


@pytest.mark.parametrize(
    "kind", [Window, SharedWindows, SlicedWindow, TriggeredWindow, KeyedWindows]
)
def test_parameters(kind: type) -> None:
    assert "name" in parameters(kind) or kind is TriggeredWindow
    assert not undescribed(parameters(kind) - {"windows", "monoid"})


def test_parameters_of_a_window() -> None:
    table = TEXT[DOCS / "tutorial.md"].partition("## The parameters of a window")[2]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == parameters(Window)


def test_options_of_the_command_line() -> None:
    line = command_line()
    options = {
        option
        for parser in (line.parser, *line.commands.values())
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and not option.startswith("--no-")
    }
    assert len(options) > 30
    assert not undescribed(options - {"--help"}, DOCS / "commands.md")


def test_options_of_stores() -> None:
    options = {"write_buffer", "cache", "deadline"}
    for path in (ROOT / "stores").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "OPTIONS":
                assert isinstance(node.value, ast.Dict)
                options |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    assert len(options) > 12
    elsewhere = undescribed(options, DOCS / "operations.md")
    assert not undescribed(set(elsewhere), DOCS / "object-stores.md")


def test_public_names() -> None:
    names = {
        name for path in PUBLIC if path.startswith("mta") for name in import_module(path).__all__
    }
    assert not undescribed(names - INNER)


#: Names of results and bases, which the pages describe by what they hold; the reference has them.
INNER = {
    "AbstractMonoid", "Frame", "Due", "SnapshotSummary", "KeyedStats", "Latest",
    "SharedStats", "Stats", "SubWindow", "Trigger", "Audit", "Damage", "is_garbage", "live_keys",
    "Law",
    "BoundaryAggregator", "InOrderAggregator", "IN_ORDER", "count_chunk_size", "time_chunk_size",
    "frame_laws", "monoid_laws", "panes",
}  # fmt: skip


def test_every_error_is_in_the_table_once() -> None:
    named = [
        node.name
        for package in PACKAGES
        for node in ast.parse((ROOT / package / "errors.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    table = TEXT[DOCS / "operations.md"].partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    described = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(named) > 20
    assert len(described) == len({*described})
    assert {*named} - {WindowStoreError.__name__} <= {*described}


def test_extras_and_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not undescribed(set(project["optional-dependencies"]), DOCS / "install.md")
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    commands = {f"make {target}" for target in targets[1].split()}
    assert not undescribed(commands - {"make help"}, DOCS / "install.md")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^make [a-z-]+", done.stdout, re.MULTILINE)) == commands


def test_every_command_that_installs_extras_names_what_can_be_installed() -> None:
    """That is a checkout or a wheel, until ``stores.errors`` says otherwise."""
    commands = [
        (name_of(path), package)
        for path in documents()
        if path.name != "CHANGELOG.md"
        for line in re.findall(r"pip install (.*)", path.read_text())
        for package in re.findall(r"([^\s\"'`]+?)\[[\w,]+\]", line)
    ]
    assert len(commands) > 5
    known = {SOURCE, "./mta-windows", "mta_windows-*.whl)", "pyspark"}
    assert not [command for command in commands if command[1] not in known]
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert not [name_of(path) for path in sources if "install 'mta-windows" in path.read_text()]


def packages() -> list[Path]:
    """The folders of the packages."""
    inits = [path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")]
    return sorted(path.parent for path in inits)


def test_every_package_is_drawn_and_described() -> None:
    drawing = (DOCS / "packages.svg").read_text()
    page = TEXT[DOCS / "architecture.md"]
    inner = [folder for folder in packages() if folder.parent != ROOT]
    assert len(inner) > 15
    assert not [folder.name for folder in inner if f">{folder.name}<" not in drawing]
    dotted = [".".join(folder.relative_to(ROOT).parts) for folder in inner]
    assert not [name for name in dotted if f"`{name}`" not in page]


@pytest.mark.parametrize("package", packages(), ids=name_of)
def test_the_head_of_a_package_names_its_modules(package: Path) -> None:
    head = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    modules |= {path.parent.name for path in package.glob("*/__init__.py")}
    named = set(re.findall(r"``([a-z]\w*)``", head))
    assert modules <= named, "name them in the package's head"
    assert named - modules <= OTHERS, "these are no modules of the package"


#: What heads of packages speak of that is no module of theirs.
OTHERS = {"mta", "gc", "check", "inspect", "sliding_aggregate"}


def test_every_grammar_is_shown() -> None:
    grammar = re.compile(r"^ *(?:page|body|state) +=", re.MULTILINE)
    found = set()
    for folder in packages():
        for path in folder.glob("*.py"):
            if grammar.search(ast.get_docstring(ast.parse(path.read_text())) or ""):
                found.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    shown = set(re.findall(r"^::: (\S+)", TEXT[DOCS / "formats.md"], re.MULTILINE))
    assert len(found) > 5 and found <= shown


def test_every_option_says_what_it_does_and_its_default() -> None:
    line = command_line()
    for name, parser in line.commands.items():
        for action in parser._actions:
            assert action.help, f"mta {name} {action.dest}"
            optional = action.option_strings and not action.required
            switch = action.dest in ("help", "quiet", "verbose", "carry")
            said = re.search(
                r"; default: \S|^instead of files|the store of the published", action.help
            )
            assert not optional or switch or said, f"mta {name} {action.option_strings}"
