"""The version is stated once, and the changelog agrees with it."""

import re
import tomllib

import mta
from tests.support.documents import ROOT


def test_the_top_entry_of_the_changelog_has_the_version() -> None:
    top = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert top
    number, date = top.groups()
    assert mta.__version__ == (f"{number}.dev0" if date == "unreleased" else number)


def test_the_package_takes_its_version_from_the_code() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "mta.__version__"}
