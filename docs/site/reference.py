"""Adds the reference of the public API to the site: a page for each public class and function.

What is public is what the modules in ``PUBLIC`` export. Each page has the signature, the parameters
as a table, examples, and links to what belongs with it. All errors are on one page. In other pages
a name such as ``mta.Window`` or ``Window`` becomes a link to its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import griffe
from docstrings import is_record
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "mta", "mta.aggregations", "mta.frames", "mta.algorithms", "mta.results", "mta.published",
    "mta.audit", "mta.client", "mta.testing", "mta.datasets", "stores", "spark_integration",
)  # fmt: skip
#: The groups of the reference, by where their names are defined; the first that fits counts.
GROUPS = {
    "Windows": ("mta.windows", "mta.keyed", "mta.triggers", "mta.evaluators.coverage"),
    "Frames": ("mta.frames",),
    "Aggregations": ("mta.monoids", "mta.columns"),
    "Queries in SQL": ("mta.queries",),
    "Spark": ("spark_integration",),
    "Published windows": ("mta.published", "mta.publishing"),
    "Declared windows": ("mta.service", "mta.client"),
    "Snapshots and checks": ("mta.audit", "mta.testing"),
    "Datasets": ("mta.datasets",),
    "Algorithms": ("mta.evaluators", "mta.logs", "mta.in_order", "mta.algorithms"),
    "Stores": ("stores",),
}
#: Where inherited methods are shown too; elsewhere they implement a base that has its own page.
WITH_INHERITED = ("Windows", "Published windows")
#: What other packages of the project call on windows, and nobody else.
INTERNAL = {
    "engine", "structure", "read", "batch", "answers", "as_columns", "as_stored", "reader",
    "snapshot", "take_over",
}  # fmt: skip
#: How many guides mention a name that the navigation shows before the alphabet.
IMPORTANT = 4
#: What people search for, by the guide that answers it; the titles do not have these words first.
SEARCHED = {
    "late": ["late", "lateness", "out of order", "corrections"],
    "moments": ["as of", "point in time", "training set"],
    "frames": ["exclude current", "leakage", "shift"],
    "keyed": ["keys", "group by"],
    "triggers": ["every minute", "periodic"],
    "monoids": ["top", "top k", "largest"],
    "nulls": ["null", "nan", "filter", "where"],
    "serving": ["http", "rest", "online"],
}
ERRORS = ("stores.errors", "mta.errors", "spark_integration.errors")
_NAME = re.compile(r"(?<![`\[])`((?:(?:mta|stores|spark_integration)\.)?(\w+))(?:\(\))?`(?![`\]])")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#.*$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the public names at the end of the reference."""
    assert config.nav is not None
    groups = [
        {group: [{name: _page_of(name)} for name in _in_order(names)]}
        for group, names in grouped().items()
    ]
    overview = [{"All names": "reference/index.md"}, {"Errors": "reference/errors.md"}]
    (reference,) = (entry["Reference"] for entry in config.nav if "Reference" in entry)
    reference.append({"Python": [*overview, *groups]})
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Make a page for each public name."""
    pages = {"reference/index.md": _overview(), "reference/errors.md": _errors()}
    guides = _guides()
    for group, names in grouped().items():
        for name in names:
            pages[_page_of(name)] = _page(name, group, guides)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Link public names to their pages; those in code, headings and links stay as they are.

    Sessions become blocks of their own kind, which are copied without prompts and results.
    """
    if page.file.src_uri.startswith("reference/"):
        return markdown
    page.meta["search"] = {"boost": 2}
    if tags := SEARCHED.get(page.file.src_uri.removesuffix(".md")):
        page.meta["tags"] = tags
    up = "../" * page.file.src_uri.count("/")
    link = partial(_link, up=up)
    markdown = _TABLE_ROW.sub(lambda row: _CODE.sub(_without_escapes, row[0]), markdown)
    kept = sorted([*_FENCE.finditer(markdown), *_HEADING.finditer(markdown)], key=re.Match.start)
    parts, at = [], 0
    for piece in kept:
        if piece.start() >= at:
            text = piece[0].replace("```python\n>>>", "```pycon\n>>>", 1)
            parts += [_NAME.sub(link, markdown[at : piece.start()]), text]
            at = piece.end()
    return "".join([*parts, _NAME.sub(link, markdown[at:])])


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Require that the page of a name describes all members that it should describe."""
    name = page.file.src_uri.removeprefix("reference/").removesuffix(".md")
    if module := page.meta.get("import"):
        shown = f"<pre><code>from {module} import {name}</code></pre>"
        html = html.replace("</h1>", f'</h1><div class="highlight">{shown}</div>', 1)
    for group, names in grouped().items():
        if name in names:
            shown = {member for members in _members(public()[name], group) for member in members}
            missing = [
                member for member in shown if f'.{member}" class="doc doc-heading"' not in html
            ]
            if missing:
                raise PluginError(
                    f"the page of {name} does not describe {', '.join(sorted(missing))}"
                )
    return html


def _without_escapes(code: re.Match[str]) -> str:
    """Code in a table, where GitHub wants a backslash before each bar, and the site none."""
    return code[0].replace("\\|", "|")


def _link(match: re.Match[str], up: str) -> str:
    return f"[{match[0]}]({up}{_page_of(match[2])})" if match[2] in public() else match[0]


@cache
def public() -> dict[str, griffe.Object | griffe.Alias]:
    """What the public modules export, by name, without the errors."""
    found = {}
    for path in PUBLIC:
        module = loaded(path)
        for name in map(str, module.exports or ()):
            if not _is_error(module[name]):
                found.setdefault(name, module[name])
    return found


@cache
def grouped() -> dict[str, list[str]]:
    """The public names of each group."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name, item in public().items():
        home = item.canonical_path
        group = next(
            group
            for group, beginnings in GROUPS.items()
            if any(_in(home, beginning) for beginning in beginnings)
        )
        groups[group].append(name)
    return groups


def _in(path: str, beginning: str) -> bool:
    return path.startswith(f"{beginning}.")


def _is_error(item: griffe.Object | griffe.Alias) -> bool:
    return any(_in(item.canonical_path, module) for module in ERRORS)


@cache
def loaded(path: str) -> griffe.Object | griffe.Alias:
    """A module as its source says, without importing it."""
    return _loader().modules_collection[path]


@cache
def _loader() -> griffe.GriffeLoader:
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    for package in ("stores", "mta", "spark_integration"):
        loader.load(package)
    loader.resolve_aliases(implicit=False, external=False)
    return loader


# --- pages ----------------------------------------------------------------------------------------


def _page_of(name: str) -> str:
    return f"reference/{name}.md"


def _in_order(names: Iterable[str]) -> list[str]:
    """The names that many guides mention, most mentioned first, then the others by alphabet."""
    texts = _guides().values()
    counts = {name: sum(bool(re.search(rf"\b{name}\b", text)) for text in texts) for name in names}
    important = {name: count for name, count in counts.items() if count >= IMPORTANT}
    return sorted(names, key=lambda name: (-important.get(name, 0), name.lower()))


def _page(name: str, group: str, guides: dict[str, str]) -> str:
    item = public()[name]
    module = item.path.rpartition(".")[0]
    lines = ["---", f"search: {{boost: {_boost(name, group)}}}", f"import: {module}", "---", ""]
    lines += [f"::: {item.path}", "    options:"]
    own, inherited = _members(item, group)
    # In the order of the page: those that are not listed as members are left out.
    members = sorted([*own, *inherited], key=lambda member: member != "insert")
    lines += [
        f"      members: {members or 'false'}",
        f"      inherited_members: {inherited or 'false'}",
    ]
    return "\n".join([*lines, "", *_see_also(name, group, guides), ""])


def _boost(name: str, group: str) -> float:
    """How much earlier a search lists the page of a name; pages that explain have a boost of 2.

    A search for "Max" finds "MaxText" too: the shorter name comes first.
    """
    item = public()[name]
    is_result = item.is_class and is_record(item)
    base = 3 if group in ("Windows", "Frames", "Aggregations") and not is_result else 1.5
    return base * sum(other.startswith(name) for other in public())


def _members(item: griffe.Object | griffe.Alias, group: str) -> tuple[list[str], list[str]]:
    """The methods and properties that a page describes: the own ones and the inherited ones."""
    if not item.is_class or group == "Algorithms":
        return [], []
    own = [name for name, member in item.members.items() if _is_shown(member, item)]
    if group not in WITH_INHERITED:
        return own, []
    inherited = item.inherited_members.items()
    return own, [name for name, member in inherited if _is_shown(member, item)]


def _is_shown(member: griffe.Object | griffe.Alias, item: griffe.Object | griffe.Alias) -> bool:
    """Whether a page describes a member; fields and properties of records are in its table."""
    is_property = "property" in member.labels and not is_record(item)
    is_public = not member.name.startswith("_") and member.name not in INTERNAL
    return is_public and member.has_docstring and (member.is_function or is_property)


def _see_also(name: str, group: str, guides: dict[str, str]) -> list[str]:
    """Names of the same module, and the pages that speak of the name most."""
    home = public()[name].canonical_path.rpartition(".")[0]
    near = [
        other
        for other in grouped()[group]
        if other != name and public()[other].canonical_path.rpartition(".")[0] == home
    ]
    word = re.compile(rf"\b{name}\b")
    counts = {page: len(word.findall(text)) for page, text in guides.items()}
    most = sorted((page for page in counts if counts[page]), key=lambda page: -counts[page])[:3]
    links = [f"[{_title(guides[page])}](../{page})" for page in most]
    links += [f"[`{other}`]({other}.md)" for other in near[:8]]
    return ["## See also", "", ", ".join(links)] if links else []


def _guides() -> dict[str, str]:
    """The pages that explain, by name; not those about figures and formats."""
    others = {"figures", "report", "formats", "architecture", "support", "index", "papers"}
    paths = sorted((ROOT / "docs").glob("*.md"))
    return {path.name: path.read_text() for path in paths if path.stem not in others}


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _overview() -> str:
    lines = ["# All names", "", "Every public class and function. The errors are on [one page]"]
    lines[-1] += "(errors.md)."
    for group, names in grouped().items():
        lines += ["", f"## {group}", "", "| | |", "|---|---|"]
        lines += [
            f"| [`{name}`]({name}.md) | {_first_line(public()[name])} |"
            for name in _in_order(names)
        ]
    return "\n".join([*lines, ""])


def _errors() -> str:
    lines = ["# Errors", "", "[Operations](../operations.md#errors) says what to do about each."]
    for path in ERRORS:
        lines += ["", f"## {path}", "", "| error | what it says | also a |", "|---|---|---|"]
        for name, item in loaded(path).members.items():
            if not item.is_alias and item.is_class and not name.startswith("_"):
                bases = ", ".join(f"`{base}`" for base in item.bases)
                lines.append(f"| `{name}` | {_first_line(item)} | {bases} |")
    return "\n".join([*lines, ""])


def _first_line(item: griffe.Object | griffe.Alias) -> str:
    text = item.docstring.value.partition("\n\n")[0] if item.docstring else ""
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")
