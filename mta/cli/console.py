"""Output and input of the commands: progress, tables, and the types of options."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from shlex import quote
from shutil import which

from mta.cli.output import prints_lines, say
from mta.times import to_duration
from stores.errors import WindowStoreError

__all__ = [
    "InvalidCommand", "ProgressLine", "as_options", "at_least_one", "human_duration",
    "own_command", "plural", "say", "seconds", "table",
]  # fmt: skip


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
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


#: Options of the command line whose arguments in Python have other names.
_RENAMED = {"by": "key", "on": "time"}
_VALUED = (
    "by|on|window|carry|emit|emit_every|idle|on_late|on_ahead|on_invalid|nulls|allowed_lateness"
    "|max_ahead"
)


def as_options(text: str) -> str:
    """Return an error's text with Python arguments written as command-line options.

    >>> as_options("idle is 'expire': set emit_every='1 minute', or allowed_lateness")
    "--idle expire: set --emit-every '1 minute', or --allowed-lateness"
    """
    text = re.sub(
        rf"\b({_VALUED})(?:=| is )(['\"])(.*?)\2",
        lambda found: f"{_option(found[1])} {quote(found[3])}",
        text,
    )
    text = re.sub(r"\bemit_every(?:=| is )(\d+)", r"--emit-every '\1 events'", text)
    text = re.sub(r"\bemit_updates(?:=| is )True\b", "--emit-updates", text)
    text = re.sub(rf"\b({_VALUED})(?= names column )", lambda found: _option(found[1]), text)
    return re.sub(
        r"\b(emit_every|emit_updates|on_late|on_ahead|on_invalid|allowed_lateness|max_ahead)\b",
        lambda found: _option(found[1]),
        text,
    )


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


def human_duration(micros: int) -> str:
    """Return a duration in the largest unit without a fraction, or in seconds.

    >>> human_duration(5_400_000_000), human_duration(1_500_000)
    ('90 minutes', '1.5 seconds')
    """
    for unit, size in (("hour", 3_600_000_000), ("minute", 60_000_000)):
        if micros and micros % size == 0:
            return plural(micros // size, unit)
    if micros % 1_000_000 == 0:
        return plural(micros // 1_000_000, "second")
    return f"{micros // 1_000_000:,}.{micros % 1_000_000:06d}".rstrip("0") + " seconds"


def at_least_one(text: str) -> int:
    """Parse an option that is an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"give a whole number of at least 1, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Parse an option that is a duration, in seconds."""
    try:
        return to_duration(text) / 1e6
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
