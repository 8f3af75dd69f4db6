"""The log of the service's processes, which strangers cannot fill.

Few records per minute come from one line of code, so that malformed requests or failing clients do
not fill a disk. The next record after such a minute says how many were left out.
"""

from __future__ import annotations

import logging
import time
from typing import Any

_MINUTE = 60.0
#: How many records a line of code may write per minute: warnings and errors, and other records.
_WARNINGS, _OTHERS = 10, 1000
_LOGGERS = ("mta", "stores", "uvicorn")


class Bounded(logging.Filter):
    """Passes a limited number of records per minute from each line of code."""

    def __init__(self) -> None:
        super().__init__()
        #: For each line of code, when its minute began, and its records since then.
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line, now = (record.pathname, record.lineno), time.monotonic()
        most = _WARNINGS if record.levelno >= logging.WARNING else _OTHERS
        began, count = self._seen.get(line, (now, 0))
        if now - began >= _MINUTE:
            if count > most:
                left_out = f"{count - most} more like this were left out of the log"
                record.msg, record.args = f"{record.getMessage()} ({left_out})", ()
            began, count = now, 0
        self._seen[line] = began, count + 1
        return count < most


def config(level: str) -> dict[str, Any]:
    """Return the configuration of ``logging.config``: one bounded handler that writes to stderr."""
    handler = {
        "class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "plain",
        "filters": ["bounded"],
    }  # fmt: skip
    logger = {"handlers": ["shown"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"bounded": {"()": Bounded}},
        "formatters": {"plain": {"format": "mta: %(message)s"}},
        "handlers": {"shown": handler},
        "loggers": dict.fromkeys(_LOGGERS, logger),
        "root": {"handlers": ["shown"], "level": "WARNING"},
    }
