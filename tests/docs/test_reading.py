"""The pages are easy to read: short sentences of common words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import DOCS, README, ROOT, name_of, prose

#: Left out: the report, which is made of the settings of experiments.
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.glob("*.md")) if page.name != "report.md"),
]
_NO_PROSE = re.compile(r"^(\||#|:::|    options|!\[|<).*$", re.MULTILINE)
_END = re.compile(r"(?<=[.:?!])\s+|\n\s*\n|\n- ")


def sentences(page: Path) -> list[list[str]]:
    """The words of each sentence, with code as one word, without tables and headings."""
    text = re.sub(r"`[^`\n]*`", "code", _NO_PROSE.sub("\n", prose(page)))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    found = [re.findall(r"[A-Za-z0-9'^.,%-]+", each) for each in _END.split(text)]
    return [words for words in found if len(words) > 2]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_sentence_is_long(page: Path) -> None:
    assert not [" ".join(words) for words in sentences(page) if len(words) > 38]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_reads_easily(page: Path) -> None:
    """By the automated readability index: the years of school that a text asks for."""
    found = sentences(page)
    words = [word for sentence in found for word in sentence]
    letters = sum(map(len, words)) / len(words)
    assert 4.71 * letters + 0.5 * len(words) / len(found) - 21.43 < 8
