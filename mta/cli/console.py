"""Output and input of the commands: lines, tables, progress, types of options, and exit codes.

``say`` prints a line for people. ``note`` and ``note_item`` record the same facts for programs.
With ``--json``, the command prints no lines, but ends with one JSON document of all facts. How much
is printed, and in which form, is one setting for the whole command (``printing``).

The name of an error's class, or of one of its bases, determines the exit code. Errors in workers of
Spark reach the command only as text, and get the same codes. ``docs/commands.md`` says what a
script should do about each code.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from math import inf
from shlex import quote
from shutil import which
from typing import Any

from mta.times import to_duration
from stores.errors import WindowStoreError


class InvalidCommand(WindowStoreError, ValueError):
    """The arguments of a command contradict each other or name something wrong: correct them."""


class ProgressLine:
    """A line that is rewritten in place on a terminal, and printed at intervals elsewhere."""

    def __init__(self) -> None:
        self._on_terminal = sys.stdout.isatty()
        self._next = 0.0
        self._width = 0
        self._last = ""

    def show(self, text: str, now: float) -> None:
        """Show ``text``; ``now`` is the caller's clock, in seconds."""
        if not prints_lines():
            return
        if self._on_terminal:
            sys.stdout.write("\r" + text.ljust(self._width))
            sys.stdout.flush()
            self._width = max(self._width, len(text))
        elif now >= self._next and text != self._last:
            say(text)
            self._next = now + 10
            self._last = text

    def end(self) -> None:
        """End the line; the next output starts on a new line."""
        if self._width:
            say()
            self._width = 0


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a header; the first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())
    return "\n".join(lines)


#: Options of the command line whose arguments in Python have other names.
_RENAMED = {"by": "key", "on": "time"}


def as_options(text: str, options: Collection[str]) -> str:
    """Return an error's text with Python arguments written as options of a command.

    >>> as_options("idle is 'expire': set emit_every='1 minute'", ["idle", "emit_every"])
    "--idle expire: set --emit-every '1 minute'"
    """
    arguments = "|".join([*options, *(name for name in _RENAMED if _RENAMED[name] in options)])
    text = re.sub(
        rf"\b({arguments})(?:=| is )(['\"])(.*?)\2",
        lambda found: f"{_option(found[1])} {quote(found[3])}",
        text,
    )
    text = re.sub(r"\bemit_every(?:=| is )(\d+)", r"--emit-every '\1 events'", text)
    text = re.sub(r"\bemit_updates(?:=| is )True\b", "--emit-updates", text)
    text = re.sub(rf"\b({arguments})(?= names column )", lambda found: _option(found[1]), text)
    long = "|".join(name for name in options if "_" in name)  # one word may mean something else
    return re.sub(rf"\b({long})\b", lambda found: _option(found[1]), text) if long else text


def _option(argument: str) -> str:
    return f"--{_RENAMED.get(argument, argument).replace('_', '-')}"


def own_command() -> str:
    """Return how to call this command: its name, or its path if it is not on the shell's path."""
    by_path = sys.argv[0].endswith("mta") and which("mta") is None
    return quote(sys.argv[0]) if by_path else "mta"


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 batch``, ``2,000 batches``."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


def whole(what: str, least: int, most: float = inf) -> Callable[[str], int]:
    """Return what parses an option that is an integer in a range, which ``what`` describes."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"give {what}, not {text!r}")
        return int(text)

    return parse


at_least_one = whole("a whole number of at least 1", 1)


def seconds(text: str) -> float:
    """Parse an option that is a duration, in seconds."""
    try:
        return to_duration(text, "a duration") / 1e6
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


# --- what is printed ------------------------------------------------------------------------------


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


# --- exit codes -----------------------------------------------------------------------------------


class Exit(IntEnum):
    """The exit codes; 130 is the usual code after Ctrl-C."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DAMAGED = 3
    DENIED = 4
    UNAVAILABLE = 5
    NO_SPACE = 6
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed for a reason that no other code names, or a bug",
    Exit.USAGE: "options, settings or data that you can correct, or a library to install",
    Exit.DAMAGED: "damaged or missing pages, snapshots or files",
    Exit.DENIED: "access denied: credentials or rights",
    Exit.UNAVAILABLE: "the store does not answer: try again later",
    Exit.NO_SPACE: "no space on disk or in the store: make room, then try again",
    Exit.INTERRUPTED: "interrupted by Ctrl-C before the end",
}
#: The names of errors, by their exit codes; the code of an error is that of its nearest base here.
_CLASSES = {
    Exit.FAILED: "RunFailed DemoFailed InvariantViolation PartialBatch StoreClosed WindowBusy",
    Exit.USAGE: "WindowStoreError",
    Exit.DAMAGED: "StoreDamaged CorruptPage CorruptSnapshot CorruptState MissingPage",
    Exit.DENIED: "StoreAccessDenied InputDenied",
    Exit.UNAVAILABLE: "StoreUnavailable BrokerUnavailable",
    Exit.NO_SPACE: "StoreFull",
}
_BY_CLASS = {name: code for code, names in _CLASSES.items() for name in names.split()}
_BY_NUMBER = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Exit.DENIED),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Exit.NO_SPACE),
}
#: What Python's and Java's errors say about a full disk.
FULL_DISK = ("No space left on device", "Disk quota exceeded")


def exit_code(error: Exception) -> Exit | None:
    """Return the exit code of an error; None for a bug, which is shown with its traceback."""
    if not isinstance(error, WindowStoreError):
        return _BY_NUMBER.get(error.errno or 0) if isinstance(error, OSError) else None
    code = _of_class(type(error))
    if code is Exit.USAGE and isinstance(error.__cause__, OSError):
        return _BY_NUMBER.get(error.__cause__.errno or 0, code)
    return _of_text(str(error)) if code is Exit.FAILED else code


def _of_class(kind: type[BaseException]) -> Exit:
    return next(_BY_CLASS[each.__name__] for each in kind.__mro__ if each.__name__ in _BY_CLASS)


def _of_text(text: str) -> Exit:
    """Return the code of an error whose class a failed query's text names: ``StoreFull: ...``."""
    if any(words in text for words in FULL_DISK):
        return Exit.NO_SPACE
    known = {each.__name__: each for each in _below(WindowStoreError)}
    named = (known.get(name) for name in re.findall(r"(?:^|\s)([A-Z]\w+): ", text))
    return next((_of_class(kind) for kind in named if kind is not None), Exit.FAILED)


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
