"""The log has few records of each kind per minute, and says how many it left out."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("starlette", reason="NOT TESTED: mta serve, as the extra serve is missing")

from mta.serve import logs


def record(line: int, level: int, text: str = "client %s") -> logging.LogRecord:
    return logging.LogRecord("mta.serve", level, "guard.py", line, text, (line,), None)


def test_each_line_of_code_has_its_own_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: clock)
    bounded = logs.Bounded()
    passed = [bounded.filter(record(1, logging.WARNING)) for _ in range(500)]
    assert passed == [True] * 10 + [False] * 490
    assert bounded.filter(record(2, logging.ERROR))
    assert sum(bounded.filter(record(3, logging.INFO)) for _ in range(5000)) == 1000
    clock += 61
    later = record(1, logging.WARNING)
    assert bounded.filter(later)
    assert later.getMessage() == "client 1 (490 more like this were left out of the log)"
    again = record(1, logging.WARNING)
    assert bounded.filter(again) and again.getMessage() == "client 1"
