"""Files in folders that others may write to: no link is followed, and no file of a known name.

Whoever may write to a folder can put a link under a name that a program is about to write, and so
have it write elsewhere with its own rights.
"""

from __future__ import annotations

import os
from uuid import uuid4


def open_no_link(path: str, flags: int, mode: int = 0o666) -> int:
    """As ``os.open``, an opener for ``open``; OSError where the path is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)


def replace_file(path: str | os.PathLike[str], text: str, mode: int = 0o666) -> None:
    """Write a file whole or not at all, with this mode less the umask; synced to disk."""
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
