"""Shows examples and grammars in docstrings as code, which Markdown would take for text."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> ")
_GRAMMAR = re.compile(r"^\w[\w, ]* += ")


class Docstrings(griffe.Extension):
    """Puts a fence around each paragraph that is an example or a grammar."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, a class or a function, once it is read."""
        if obj.docstring is not None:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(map(_fenced, paragraphs))


def _fenced(paragraph: str) -> str:
    if _EXAMPLE.match(paragraph):
        return f"```pycon\n{paragraph}\n```"
    if _GRAMMAR.match(paragraph):
        return f"```\n{paragraph}\n```"
    return paragraph
