"""The documents of the project, as the tests of ``tests/docs`` read them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The modules whose names are public, as the site's reference lists them.
PUBLIC = (
    "mta", "mta.aggregations", "mta.frames", "mta.algorithms", "mta.results", "mta.published",
    "mta.audit", "mta.client", "mta.testing", "mta.datasets", "stores", "spark_integration",
)  # fmt: skip
README, DOCS = ROOT / "README.md", ROOT / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@cache
def documents() -> list[Path]:
    """Every Markdown file of the project that people read."""
    found = [*ROOT.glob("*.md"), *DOCS.glob("*.md")]
    for folder in ("benchmarks", "docker", "examples", "tests"):
        found += (ROOT / folder).rglob("*.md")
    return sorted(found)


def name_of(path: Path) -> str:
    """A file's path inside the project."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    """The blocks of code of a language in a document."""
    return [text for kind, text in _BLOCK.findall(path.read_text()) if kind == language]


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return _BLOCK.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    """What a link may name after ``#``: the headings, as GitHub and the site write them."""
    headings = _HEADING.findall(prose(path))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.strip().replace(" ", "-") for text in plain}
