"""How much the commands print, and in which form; one setting for the whole command.

``say`` prints a line for people. ``note`` and ``note_item`` record the same facts for programs.
With ``--json``, the command prints no lines, but ends with one JSON document of all facts.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_LOGGERS = ("mta", "stores", "spark_integration")


_lines: ContextVar[bool] = ContextVar("_lines", default=True)
_document: ContextVar[dict[str, Any] | None] = ContextVar("_document", default=None)


@contextmanager
def printing(
    *, quiet: bool = False, verbose: bool = False, as_json: bool = False
) -> Iterator[None]:
    """Set what the commands in this context print: no lines if ``quiet``, JSON if ``as_json``.

    Loggers write warnings to stderr; with ``quiet`` only errors, and with ``verbose`` everything.
    A command that raises an error prints no document.
    """
    facts: dict[str, Any] | None = {} if as_json else None
    tokens = _lines.set(not (quiet or as_json)), _document.set(facts)
    level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(logging.Formatter("mta: %(message)s"))
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).addHandler(shown)
    try:
        yield
    finally:
        _lines.reset(tokens[0])
        _document.reset(tokens[1])
        for name, earlier in before.items():
            logging.getLogger(name).removeHandler(shown)
            logging.getLogger(name).setLevel(earlier)
    if facts is not None:
        _print(json.dumps(facts, indent=1))


def prints_lines() -> bool:
    """Return whether ``say`` prints anything."""
    return _lines.get()


def say(text: str = "") -> None:
    """Print one line and flush it, unless lines are suppressed."""
    if prints_lines():
        _print(text)


def note(**facts: Any) -> None:
    """Add facts to the JSON document, if there is one; JSON types only."""
    document = _document.get()
    if document is not None:
        document.update(facts)


def note_item(name: str, **facts: Any) -> None:
    """Append an item to a list in the document; call ``note`` with an empty list first."""
    document = _document.get()
    if document is not None:
        document.setdefault(name, []).append(facts)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
