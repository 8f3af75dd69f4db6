"""One run at a time in an output folder: Spark's checkpoint and results bear no second writer."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_integration.errors import InvalidRequest

CLAIM = ".running"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made if need be; raises InvalidRequest where another one holds it.

    The lock is the kernel's and ends with the process, however it dies; the file stays. On a file
    system without locks nothing is held.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / CLAIM).open("a+")
    except OSError as error:
        raise InvalidRequest(f"--output {folder}: {error.strerror}") from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InvalidRequest(
                f"another 'mta run' (process {file.read().strip()}) works in {folder}: "
                "wait for its end, or choose another --output"
            ) from None
        except OSError:
            pass  # a file system without locks: nothing can be told there, and nothing is refused
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
