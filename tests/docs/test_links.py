"""What documents point at is there: links, headings, names of modules and classes, paths."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from pathlib import Path

import pytest

from tests.support.documents import DOCS, README, ROOT, anchors, documents, name_of, prose

PACKAGES = ("mta", "stores", "spark_integration")
FOLDERS = (*PACKAGES, "benchmarks", "tests", "docs", "docker", "examples", ".ci")
OURS = [README, *sorted(DOCS.glob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
#: Classes of others that documents speak of.
FOREIGN = {"DataFrame", "Observation", "StreamingQueryException"}


def ticks(page: Path) -> set[str]:
    return set(_TICKS.findall(prose(page)))


@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    astray = []
    for link in _LINK.findall(prose(page)):
        place, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", place):
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            astray.append(link)
        elif DOCS in page.parents and target != DOCS and DOCS not in target.parents:
            astray.append(f"{link} is outside docs/, where the site has nothing")
    assert not astray


def test_every_page_is_linked() -> None:
    start = DOCS / "index.md"
    found = {(start.parent / link.partition("#")[0]).resolve() for link in links(start)}
    missing = set(DOCS.glob("*.md")) - found - {start}
    assert not missing, f"{start.name} does not link {sorted(map(name_of, missing))}"


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if path.with_suffix(".py").exists() or path.is_dir():
            found = parts[length:]
            break
    else:
        return False
    if not found:
        return True
    item = importlib.import_module(".".join(parts[:length]))
    for part in found:
        if not hasattr(item, part):
            return False
        item = getattr(item, part)
    return True


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_names_of_modules_exist(page: Path) -> None:
    dotted = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
    names = {name for text in ticks(page) for name in dotted.findall(text)}
    directives = set(re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE))
    assert not {name for name in names | directives if not is_there(name)}


@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_paths_exist(page: Path) -> None:
    paths = {
        text for text in ticks(page) if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]*", text)
    }
    assert not {path for path in paths if not (ROOT / path).exists()}


@pytest.fixture(scope="module")
def classes() -> set[str]:
    """Every class and function of the packages, every built-in, and every problem over HTTP."""
    found = {*dir(builtins), *FOREIGN}
    problems = (ROOT / "mta" / "serve" / "answers.py").read_text()
    found |= set(re.findall(r'^    "([A-Z]\w+)": \(\d{3}, ', problems, re.MULTILINE))
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    found.add(node.name)
    return found


@pytest.mark.parametrize("page", OURS, ids=name_of)
def test_classes_exist(page: Path, classes: set[str]) -> None:
    name = re.compile(r"([A-Z]+[a-z]+\w*)(?:\.\w+)*(?:\(.*\))?")
    named = {match[1] for text in ticks(page) if (match := name.fullmatch(text))}
    assert not named - classes


def test_the_tests_can_fail() -> None:
    assert is_there("mta.Window.checkpoint") and is_there("mta.logs.finger_tree")
    assert not is_there("mta.windows.nothing") and not is_there("mta.Window.nothing")
    assert not is_there("nothing.at.all")
    assert {"ten-lines-of-python", "read-on"} <= anchors(README)
