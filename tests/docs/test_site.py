"""What the site's own code does; ``make docs`` fails where a link or a name leads nowhere."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from tests.support.documents import DOCS, PUBLIC

SITE = DOCS / "site"


def site_module(name: str) -> ModuleType:
    """A module of the site, whose generator only ``make docs`` installs."""
    pytest.importorskip("mkdocs", reason="NOT TESTED: the site's generator is not installed")
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1> <a href="examples/a.html#one">1</a> <a class="y" href="#top">2</a>'
        '<a href="https://example.org/x">3</a> <a href="#gone">4</a> <img src="no.png">'
    )
    (tmp_path / "examples" / "a.html").write_text(
        '<p id="one"></p> <a href="../index.html#top">5</a> <a href="reference/Window.html">6</a>'
        '<a href="../index.html#gone">7</a> <a href="b%20c.html">8</a>'
    )
    assert site_module("links").broken_links(tmp_path) == [
        "examples/a.html: reference/Window.html",
        "examples/a.html: ../index.html#gone",
        "examples/a.html: b%20c.html",
        "index.html: #gone",
        "index.html: no.png",
    ]


def test_every_public_name_has_a_group_in_the_reference() -> None:
    source = (SITE / "reference.py").read_text().partition("GROUPS = {")[2].partition("\n}")[0]
    homes = tuple(f"{home}." for home in re.findall(r'"([a-z_.]+)"', source))
    assert all(f'"{name}"' in (SITE / "reference.py").read_text() for name in PUBLIC)
    for module in map(import_module, PUBLIC):
        for name, item in ((name, getattr(module, name)) for name in module.__all__):
            if not isinstance(item, type | FunctionType):
                continue  # a type alias has no module
            home = item.__module__
            assert f"{home}.".startswith(homes) or home.endswith("errors"), (name, home)
