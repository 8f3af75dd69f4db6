"""Converts plain data to bytes and back, exactly and safely, with msgpack.

msgpack alone turns tuples into lists, and refuses integers of more than 64 bits. But a partial
aggregate must be read back unchanged, so both have an extension type here. Reading never runs code,
whatever the bytes are.

    >>> unpack(pack([(1, "a"), {"n": 2**80}, None, [b"x", 1.5]]))
    [(1, 'a'), {'n': 1208925819614629174706176}, None, [b'x', 1.5]]
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from mta.errors import CorruptPage, NotPageable

_TUPLE, _LONG = 1, 2
_SCALARS = frozenset({int, float, bool, bytes, str})
#: The types whose values can all be packed.
ALWAYS_PLAIN = frozenset({int, float, bool, bytes, type(None)})
_MAX_DEPTH = 64


def pack(data: Any, depth: int = 0) -> bytes:
    """Return data, inside ``depth`` tuples, as bytes. Raises NotPageable for non-plain data."""

    def extend(value: Any) -> Any:
        if type(value) is tuple:
            if depth == _MAX_DEPTH:
                raise NotPageable(f"tuples are nested more than {_MAX_DEPTH} levels deep")
            return msgpack.ExtType(_TUPLE, pack(list(value), depth + 1))
        return _extend(value)

    try:
        packed: bytes = msgpack.packb(data, default=extend, strict_types=True)
    except NotPageable:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotPageable(f"a value cannot be written to a page: {error}") from error
    return packed


def is_plain(value: Any) -> bool:
    """Return whether ``pack`` accepts a value; for common values cheaper than packing."""
    if _is_usual(value, 8):
        return True
    try:
        pack(value)
    except NotPageable:
        return False
    return True


def _is_usual(value: Any, depth: int) -> bool:
    """Return whether a value is certainly plain; False if only ``pack`` can tell."""
    kind = type(value)
    if kind in ALWAYS_PLAIN:
        return True
    if kind is str:
        return bool(value.isascii())
    if (kind is tuple or kind is list) and depth:
        return all(_is_usual(item, depth - 1) for item in value)
    return False


def _extend(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        length = value.bit_length() // 8 + 1
        return msgpack.ExtType(_LONG, value.to_bytes(length, "little", signed=True))
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
        plain = value.item()
        if type(plain) in _SCALARS:  # false for a long double
            return plain
    raise NotPageable(
        f"{type(value).__name__} cannot be written to a page; convert it in lift to numbers, text, "
        "bytes, lists, tuples or dictionaries, or use store=None to keep the window in memory"
    )


def unpack(data: bytes | memoryview, depth: int = 0) -> Any:
    """Return the data of bytes, the inverse of ``pack``. Raises CorruptPage for other bytes."""

    def restore(code: int, body: bytes) -> Any:
        if code == _TUPLE and depth < _MAX_DEPTH:
            items = unpack(body, depth + 1)
            if isinstance(items, list):
                return tuple(items)
        if code == _LONG:
            return int.from_bytes(body, "little", signed=True)
        raise ValueError(f"unknown extension {code}")

    try:
        return msgpack.unpackb(data, ext_hook=restore, strict_map_key=False)
    except CorruptPage:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise CorruptPage(f"the bytes are not plain data: {error}") from error
