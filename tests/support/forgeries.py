"""Snapshots and pages with one thing changed each, under digests that fit: what a forger may write.

>>> changes = list(forged([1, b"ab"]))
>>> [-1, b"ab"] in changes, [b"ab"] in changes, [1, b""] in changes
(True, True, True)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgpack
import numpy as np
import xxhash

from mta.errors import WindowStoreError
from mta.keyed.leaves import MAGIC, is_leaf

#: What may stand in any place.
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 15, 1 << 20, (1 << 20) + 1, 1 << 31, 1 << 61, -(1 << 61),
    (1 << 62) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1.5, float("nan"), "", "x",
    "\0", "key", b"", b"x", bytes(16), b"x" * 16, [], [[]], [0], [0, 0], [None], {}, {1: 2},
    {"a": []}, [b""], ["", b""],
]  # fmt: skip
#: Kinds of columns that no column has; some of them numpy would evaluate.
IMPOSSIBLE = [
    "Array('(,8')", "Array('<,8')", "Array('(f)')", "Array('{f8')", "Array('O')", "Array('<U7')",
    "Array('f8,(99999999,)i8')", "Array('<f0')", "Array('<f99')", "Array('<M8[xy]')",
    "Nullable(Array('(,8'))", "Vector('<f8', 0)", "Vector('<f8', 999999999999999999)",
    "Vector('(,8', 3)", "Decimals(999999999)",
]  # fmt: skip
#: What may stand in place of any text: kinds of columns and keys, frames, names of classes.
TEXTS = [
    *IMPOSSIBLE, "Array('<f8')", "Array('<i8')", "Array('|b1')", "Array('<M8[us]')",
    "Array('<M8[7us]')", "Array('<f16')", "Nullable(Array('<f8'))", "Nullable(Objects())",
    "Nullable(Nullable(Array('|b1')))", "Nullable(" * 900, "Objects()", "Presence()",
    "Vector('<f8', 3)", "Decimals(2)", f"Decimals({'9' * 5000})", "Times('ms')", "Times('(')",
    "<f8", "<i8", "(,8", "<f8*3", "bits", "msgpack", "name",
    "int", "text", "tuple", "date", "datetime", "time", "decimal", "uuid", "float",
    "CountWindow(0)", "CountWindow(7)", "CountWindow(999999999999999999)",
    "TimeWindow(999999999999999999 us)", "CalendarWindow(1 day, Nowhere/Else)",
    "CalendarWindow(1 day, ../../etc/passwd)", "CalendarWindow(to date month, /etc/passwd)",
    "CalendarWindow(99999 month, UTC)", "(" * 900, "(CountWindow(7) | CountWindow(0))",
    "\0v\0", "\0v\0Array('(,8')", "\0\0\0", "Max", "Product", "Window", "keys", "window",
    "windows", "fiba", "a/b", "../x", "é" * 50, "n" * 61,
]  # fmt: skip
_DIGEST = 16


def forged(value: Any, values: list[Any] = VALUES, texts: list[str] = TEXTS) -> Iterator[Any]:
    """A value with one thing changed, in every place and by everything that may stand there."""
    yield from (other for other in values if not _same(other, value))
    if isinstance(value, list):
        for at, part in enumerate(value):
            for other in forged(part, values, texts):
                yield [*value[:at], other, *value[at + 1 :]]
            yield value[:at] + value[at + 1 :]
            yield [*value[: at + 1], part, *value[at + 1 :]]
            if at:
                yield [*value[: at - 1], part, value[at - 1], *value[at + 1 :]]
        yield value[::-1]
    elif isinstance(value, bytes):
        yield from _bytes(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            rest = {name: other for name, other in value.items() if name != key}
            yield rest
            yield from ({**rest, other: part} for other in ("", "x", 7, *texts) if other != key)
            yield from ({**value, key: other} for other in forged(part, values, texts))
    elif isinstance(value, str):
        yield from (value + "x", value[1:], value * 400)
        yield from (text for text in texts if text != value)
    elif type(value) is int:
        yield from (value + 1, value - 1, -value, 2 * value)


def _bytes(value: bytes) -> Iterator[bytes]:
    yield from (value[:-1], value + b"\0", value[:-8], value + bytes(8), value[::-1], value * 2)
    if is_sealed(value):
        yield from snapshots(value)
        return
    if is_leaf(value):
        yield from pages(value)
        return
    for number in (0, 1, -1, 1 << 40, -(1 << 63), (1 << 63) - 1):
        if len(value) >= 8:
            yield np.int64(number).tobytes() + value[8:]
            yield value[:-8] + np.int64(number).tobytes()
    try:
        inner = msgpack.unpackb(value)
    except Exception:
        return
    if isinstance(inner, list):
        for other in forged(inner):
            with_fits = packed(other)
            if with_fits is not None:
                yield with_fits


def is_sealed(value: bytes) -> bool:
    """Whether bytes end with the digest of the rest, as those of a snapshot and a record do."""
    return len(value) > _DIGEST and xxhash.xxh3_128_digest(value[:-_DIGEST]) == value[-_DIGEST:]


def packed(value: Any) -> bytes | None:
    """A value as msgpack; None where it cannot be."""
    try:
        data: bytes = msgpack.packb(value)
    except (OverflowError, ValueError, TypeError):
        return None
    return data


def snapshots(snapshot: bytes) -> Iterator[bytes]:
    """A snapshot of any kind with one thing changed each, and a digest that fits."""
    for body in forged(msgpack.unpackb(snapshot[:-_DIGEST], strict_map_key=False)):
        data = packed(body)
        if data:
            yield data + xxhash.xxh3_128_digest(data)


def pages(page: bytes) -> Iterator[bytes]:
    """A page, or a record in its place, with one thing changed each."""
    if is_sealed(page):
        yield from snapshots(page)
        return
    if not is_leaf(page):
        for body in forged(msgpack.unpackb(page)):
            data = packed(body)
            if data is not None:
                yield data
        return
    start = len(MAGIC)
    for at in range(start, len(page) - 8, 8):
        for number in (0, 1, -1, 2, 7, 1 << 20, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63)):
            yield page[:at] + np.int64(number).tobytes() + page[at + 8 :]
    for at in range(start, len(page)):
        yield page[:at] + bytes([page[at] ^ 0x81]) + page[at + 1 :]
        yield page[:at] + page[at + 1 :]


class TooLong(BaseException):
    """A call did not end."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TooLong where a block does not end in time."""

    def stop(number: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bare_error(use: Callable[[], Any]) -> BaseException | None:
    """The error of a use that is none of ours, if there is one."""
    try:
        with at_most(10):
            use()
    except WindowStoreError:
        return None
    except (Exception, TooLong) as error:
        return error
    return None


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other
