"""Adds the examples to the site: a page each, with what it shows, its output, plot and source.

A script's page is its README, its plot from ``docs/gallery`` if there is one, and its source. A
notebook's page is its cells with their outputs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
_LINK = re.compile(r"\]\(([^)\s:]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the examples where the navigation has the gallery."""
    assert config.nav is not None
    for entry in config.nav:
        if "Examples" in entry:
            entry["Examples"] = [{"Gallery": "examples/index.md"}, *map(_path, _names())]
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Make the gallery, and a page for each example."""
    pages = {"examples/index.md": _gallery()}
    pages |= {_path(name): _page(name) for name in _names()}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def _names() -> list[str]:
    """The examples in the order of their list."""
    text = (EXAMPLES / "README.md").read_text()
    links = re.findall(r"^\| \[`[^`]*`\]\(([^)]*)\)", text, re.MULTILINE)
    return [_name(link) for link in links]


def _name(link: str) -> str:
    path = Path(link)
    return path.stem if path.suffix == ".ipynb" else path.parent.name


def _path(name: str) -> str:
    return f"examples/{name}.md"


def _gallery() -> str:
    text = (EXAMPLES / "README.md").read_text()
    text = _LINK.sub(lambda link: f"]({_name(link[1])}.md)", text)
    shown = [name for name in _names() if _plot(name)]
    plots = [f"[![{name}](../gallery/{name}.svg)]({name}.md)" for name in shown]
    return "\n\n".join([text, *plots, ""])


def _plot(name: str) -> list[str]:
    found = (ROOT / "docs" / "gallery" / f"{name}.svg").exists()
    return [f"![What {name} shows](../gallery/{name}.svg)"] if found else []


def _page(name: str) -> str:
    notebook = EXAMPLES / "notebooks" / f"{name}.ipynb"
    if notebook.exists():
        title, *cells = _cells(json.loads(notebook.read_text()))
        return "\n\n".join([title, *_plot(name), *cells, ""])
    text = (EXAMPLES / name / "README.md").read_text()
    title, _, rest = text.partition("\n\n")
    rest = _LINK.sub(_on_site, rest)
    parts = [title, *_plot(name), rest]
    for script in sorted((EXAMPLES / name).glob("*.py")):
        parts += [f"## {script.name}", f"```python\n{script.read_text()}```"]
    return "\n\n".join([*parts, ""])


def _on_site(link: re.Match[str]) -> str:
    """A link of a README as the site has it: to a page, to a script below, or to the gallery."""
    target = Path(link[1])
    if target.suffix == ".py":
        return f"](#{target.name.replace('.', '')})"
    return f"](../{target.name})" if "docs" in target.parts else "](index.md)"


def _cells(notebook: dict[str, Any]) -> list[str]:
    """The cells of a notebook as Markdown, each followed by its outputs."""
    found = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        found.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            found.append(f"```text\n{''.join(text).rstrip()}\n```")
    return found
