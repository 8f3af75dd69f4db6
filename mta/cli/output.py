"""How much the commands print, and in which form; one setting for the whole command.

``say`` prints a line for people. ``note`` and ``note_item`` give the same facts to programs: with
``--json`` no lines are printed, and at the end one JSON document has all of them.
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
    """What is printed by the commands inside: no lines if ``quiet``, one document if ``as_json``.

    Of the loggers, warnings are shown on stderr, if ``quiet`` errors, if ``verbose`` everything. A
    command that raises prints no document.
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
    """Whether ``say`` prints anything."""
    return _lines.get()


def say(text: str = "") -> None:
    """Print one line, at once, if lines are wanted."""
    if prints_lines():
        _print(text)


def note(**facts: Any) -> None:
    """Put facts into the document, if one is wanted; plain data that JSON has."""
    document = _document.get()
    if document is not None:
        document.update(facts)


def note_item(name: str, **facts: Any) -> None:
    """Append an item to a list in the document; ``note`` it empty first, so that it is there."""
    document = _document.get()
    if document is not None:
        document.setdefault(name, []).append(facts)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
