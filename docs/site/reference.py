"""Adds the reference to the site: a page for each package, made from its docstrings.

A package's page begins with what its ``__init__`` says, and with a list of the names that it
offers; then come its modules. In all other pages a name such as ``mta.pages.page`` becomes a link
to its place in the reference.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, cast

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PACKAGES = ("mta", "stores", "spark_integration")
_NAME = re.compile(r"(?<![`\[])`((?:mta|stores|spark_integration)(?:\.\w+)+)`(?!`)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference behind the others."""
    assert config.nav is not None
    config.nav.append({"Reference": [{package: _page_of(package)} for package in packages()]})
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Make a page for each package."""
    for package in packages():
        lines = [
            "---",
            "search: {boost: 0.5}",
            "---",
            f"# {package}",
            "",
            *_directive(package, "show_root_heading: false"),
            "",
        ]
        lines += [*_names(package), ""]
        for module in modules(package):
            lines += [*_directive(module), ""]
        files.append(File.generated(config, _page_of(package), content="\n".join(lines)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Link the names of modules and classes to the reference; those in code stay as they are."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    parts, at = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_NAME.sub(r"[`\1`][\1]", markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _NAME.sub(r"[`\1`][\1]", markdown[at:])])


def packages() -> list[str]:
    """The packages and their folders, as names to import."""
    found = []
    for package in PACKAGES:
        folders = [path.parent for path in (ROOT / package).rglob("__init__.py")]
        found += [".".join(folder.relative_to(ROOT).parts) for folder in sorted(folders)]
    return found


def modules(package: str) -> list[str]:
    """The modules of a package."""
    files = sorted((ROOT / package.replace(".", "/")).glob("*.py"))
    return [f"{package}.{file.stem}" for file in files if not file.stem.startswith("_")]


def _page_of(package: str) -> str:
    return f"reference/{package}.md"


def _names(package: str) -> list[str]:
    """What can be imported from a package itself, each with the first line that it says."""
    package, _, inner = package.partition(".")
    found = loaded(package)[inner] if inner else loaded(package)
    lines = []
    for name in found.exports or ():
        item = found[str(name)]
        if item.is_class or item.is_function:
            says = item.docstring.value.partition("\n")[0] if item.docstring else ""
            lines.append(f"- [`{name}`][{item.canonical_path}]: {says}")
    return lines


@cache
def loaded(package: str) -> griffe.Object:
    """A package as its source says, without importing it."""
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    for each in PACKAGES:
        loader.load(each)
    loader.resolve_aliases(implicit=False, external=False)
    return cast(griffe.Object, loader.modules_collection[package])


def _directive(name: str, *options: str) -> list[str]:
    lines = [f"::: {name}"]
    if options:
        lines += ["    options:", "      members: false", *(f"      {each}" for each in options)]
    return lines
