"""Shows windows to people: tables in notebooks, and sizes in readable units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mta.errors import WindowStoreError


def human_bytes(count: float) -> str:
    """Format ``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def result_rows(query: Callable[[], Any]) -> list[tuple[str, Any]]:
    """Return one row per current result, or a row with the error if the store fails."""
    try:
        result = query()
    except WindowStoreError as error:
        return [("result", f"not available: {error}")]
    if isinstance(result, Mapping):
        return [(str(name), value) for name, value in result.items()]
    return [("result", result)]


def html_table(caption: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values for a notebook, with its caption on one line."""
    from html import escape  # slow to import, and few processes need it

    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_text(value))}</td></tr>" for name, value in rows
    )
    title = f'<caption style="white-space: nowrap"><code>{escape(caption)}</code></caption>'
    return f"<table>{title}{cells}</table>"


def _text(value: Any) -> str:
    """Format a number with separators, a mapping item by item, and other values with ``str``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
