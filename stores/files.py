"""Safe access to files in folders that others may write to: links are not followed.

A user with write access to a folder could create a link under a name that a program is about to
write. The program would then write to the target of the link, with its own rights.
"""

from __future__ import annotations

import os
from uuid import uuid4


def open_no_link(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file like ``os.open``; raises OSError if the path is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)


def replace_file(path: str | os.PathLike[str], text: str, mode: int = 0o666) -> None:
    """Write a file atomically and sync it to disk; it has this mode minus the umask."""
    draft = f"{os.fspath(path)}.{uuid4().hex}"
    descriptor = open_no_link(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
