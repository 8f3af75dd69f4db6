"""Identifiers and prose use the terms of the field, and none of the project's former dialect.

The left column of ``WORDS`` is refused, the right one says what to write. Where a word has an
ordinary meaning too, only the former use is matched: ``swept`` alone is fine in garbage collection,
``handle`` is fine as a verb.
"""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Refused in identifiers and in prose alike.
WORDS: dict[str, str] = {
    r"houses?|wings?": "architecture, package",
    r"lent|lends?": "native buffer",
    r"doomed": "pending deletion",
    r"torn": "partially applied",
    r"stood": "previous count",
    r"foreseen": "predictable",
    r"undisturbed": "preserving_state",
    r"tidy|tidied": "prepare",
    r"lacking|lacks": "incomplete",
    r"seams?": "cutover",
    r"anew": "again",
    r"dealing|deals? out|dealt": "repartitioning",
    r"told": "reported",
    r"tiers?": "levels of an LSM tree",
    r"carriers?": "runners",
    r"kept (?:events|tree)": "the event log",
}
#: Refused in identifiers: in prose they are ordinary words.
NAMES: dict[str, str] = {
    r"handles?": "snapshot",
    r"hands?(?<!by hand)": "chunk",
    r"apart": "standalone",
    r"begun": "column added later",
    r"young": "memtable",
    r"silent": "idle",
    r"forgets?": "expire",
    r"meets?|standing|play": "resolve, existing, simulate",
    r"doors?|lives": "inputs, scenarios",
    r"faces?": "public API",
    r"lay|laid": "load",
}
#: Refused in prose.
PHRASES: dict[str, str] = {
    r"(?:a|the|each|every|this|that|its|whose) handles?|of handles": "snapshot",
    r"at hand": "prefetched, in memory",
    r"(?:takes?|taken|taking) up\b(?! to\b)": "acquire",
    r"puts? back": "flush",
    r"stands? in line": "inlined",
    r"let(?:s|ting)? go": "release",
    r"now and then": "periodic results",
    r"windows behind windows": "chained windows",
    r"of before": "previous, earlier",
    r"as ever": "as in the base class",
    r"though it be": "even",
    r"from when on": "since when",
    r"a (?:page|call|read|put) a \w+": "one page per level, one call per key",
    r"(?:us|ns|ms|bytes|combines?) an? (?:event|key|row|page)": "per event",
    r"several windows": "multiple windows",
    r"swept keys|keys? (?:is|are) swept": "vectorized",
}
#: What reads like dialect and is not: names of other projects, and of the standard library.
ALLOWED = re.compile(
    r"StatefulProcessorHandle|TimerHandle|handle_error|handleInputRows|handleExpiredTimer|get_legend_handles_labels"
)
FOLDERS = ("mta", "stores", "spark_integration", "tests", "benchmarks", "examples", "docs")
FILES: dict[str, list[Path]] = {
    folder: [
        path
        for kind in ("*.py", "*.md")
        for path in sorted((ROOT / folder).rglob(kind))
        if path != Path(__file__) and "golden" not in path.parts
    ]
    for folder in FOLDERS
} | {"itself": [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]}


def _pattern(*tables: dict[str, str]) -> re.Pattern[str]:
    words = "|".join(words for table in tables for words in table)
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


IN_NAMES, IN_PROSE = _pattern(WORDS, NAMES), _pattern(WORDS, PHRASES)
#: Most files have none of them in any place, and need not be read token by token.
ANYWHERE = _pattern(WORDS, NAMES, PHRASES)


def words_of(name: str) -> str:
    """An identifier as words: ``_asWords`` and ``as_words`` are "as words"."""
    return re.sub(r"_+|(?<=[a-z0-9])(?=[A-Z])", " ", name)


def pieces(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, text, and whether it is an identifier, of all that a reader reads."""
    text = path.read_text()
    if path.suffix == ".md":
        yield from ((n, line, False) for n, line in enumerate(text.splitlines(), 1))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            if not ALLOWED.fullmatch(token.string):
                yield token.start[0], words_of(token.string), True
        elif token.type in (tokenize.STRING, tokenize.COMMENT) or token.type == FSTRING:
            for n, line in enumerate(token.string.splitlines(), token.start[0]):
                yield n, line, False


#: From Python 3.12 on f-strings are tokens of their own.
FSTRING = getattr(tokenize, "FSTRING_MIDDLE", None)


@pytest.mark.parametrize("folder", FILES)
def test_no_dialect(folder: str) -> None:
    assert FILES[folder]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text.strip()[:70]!r}"
        for path in FILES[folder]
        if ANYWHERE.search(words_of(path.read_text()))
        for line, text, is_name in pieces(path)
        for match in (IN_NAMES if is_name else IN_PROSE).finditer(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["_at_hand", "lentEvents", "golden_handle", "is_torn"])
def test_identifiers_are_read_word_by_word(name: str) -> None:
    assert IN_NAMES.search(words_of(name)) or IN_PROSE.search(words_of(name))
