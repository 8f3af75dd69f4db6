"""The exit codes of all commands, and which error causes which code.

The name of an error's class, or of one of its bases, determines the exit code. Errors in workers of
Spark reach the command only as text, and get the same codes. ``docs/commands.md`` says what a
script should do about each code.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from enum import IntEnum

from stores.errors import WindowStoreError


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
