"""The exit codes of every command, and which error ends with which.

This is the one place that knows. The name of an error's class decides, by itself or that of a base;
so an error that was raised in a worker of Spark, of which only a text arrives, ends the command
with the same code. ``docs/commands.md`` tells what a script is to do about each.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from enum import IntEnum

from stores.errors import WindowStoreError


class Exit(IntEnum):
    """The exit codes; 130 is what shells use after Ctrl-C."""

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
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}
_BY_CLASS = {
    "WindowStoreError": Exit.USAGE,
    "StoreUnavailable": Exit.UNAVAILABLE,
    "BrokerUnavailable": Exit.UNAVAILABLE,
    "StoreAccessDenied": Exit.DENIED,
    "InputDenied": Exit.DENIED,
    "StoreFull": Exit.NO_SPACE,
    "StoreDamaged": Exit.DAMAGED,
    "CorruptPage": Exit.DAMAGED,
    "CorruptSnapshot": Exit.DAMAGED,
    "CorruptState": Exit.DAMAGED,
    "MissingPage": Exit.DAMAGED,
    "RunFailed": Exit.FAILED,
    "DemoFailed": Exit.FAILED,
    "InvariantViolation": Exit.FAILED,
    "PartialBatch": Exit.FAILED,
    "StoreClosed": Exit.FAILED,
    "WindowBusy": Exit.FAILED,
}
_BY_NUMBER = {
    errno.EACCES: Exit.DENIED,
    errno.EPERM: Exit.DENIED,
    errno.EROFS: Exit.DENIED,
    errno.ENOSPC: Exit.NO_SPACE,
    errno.EDQUOT: Exit.NO_SPACE,
}
#: What the system says of a full disk, in Java's errors as in ours.
FULL_DISK = ("No space left on device", "Disk quota exceeded")


def exit_code(error: Exception) -> Exit | None:
    """With which code an error ends a command; None of one that is a bug, and has a traceback."""
    if not isinstance(error, WindowStoreError):
        return _BY_NUMBER.get(error.errno or 0) if isinstance(error, OSError) else None
    code = _of_class(type(error))
    if code is Exit.USAGE and isinstance(error.__cause__, OSError):
        return _BY_NUMBER.get(error.__cause__.errno or 0, code)
    return _of_text(str(error)) if code is Exit.FAILED else code


def _of_class(kind: type[BaseException]) -> Exit:
    return next(_BY_CLASS[each.__name__] for each in kind.__mro__ if each.__name__ in _BY_CLASS)


def _of_text(text: str) -> Exit:
    """That of the error whose name a failed query tells, as in ``StoreFull: the disk of ...``."""
    if any(words in text for words in FULL_DISK):
        return Exit.NO_SPACE
    known = {each.__name__: each for each in _below(WindowStoreError)}
    named = (known.get(name) for name in re.findall(r"(?:^|\s)([A-Z]\w+): ", text))
    return next((_of_class(kind) for kind in named if kind is not None), Exit.FAILED)


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
