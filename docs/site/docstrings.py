"""Prepares docstrings for the reference: code in fences, and tables of all parameters."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> ")
_GRAMMAR = re.compile(r"^\w[\w, ]* += ")
_PARAMETERS = griffe.DocstringSectionKind.parameters
_OURS = ("mta.", "stores.", "spark_integration.")
_Object = griffe.Object | griffe.Alias


class Docstrings(griffe.Extension):
    """Shows examples and grammars as code, and each parameter with its type and default.

    A method that does not describe a parameter gets the description of the constructor's
    parameter of the same name. Names of types such as ``OnLate`` are shown as what they stand for.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change all docstrings of a package, once it is read."""
        for item in _inside(pkg):
            if item.docstring is not None:
                paragraphs = item.docstring.value.split("\n\n")
                item.docstring.value = "\n\n".join(map(_fenced, paragraphs))
        for item in _inside(pkg):
            if item.is_class and is_record(item):
                _list_fields(item)
            elif item.is_class:
                described = _complete(item, {})
                for method in item.functions.values():
                    if not method.is_alias and method.name != "__init__":
                        _complete(method, described)
            elif item.is_function and item.parent.is_module:
                _complete(item, {})


def _fenced(paragraph: str) -> str:
    if _EXAMPLE.match(paragraph):
        return f"```pycon\n{paragraph}\n```"
    if _GRAMMAR.match(paragraph):
        return f"```\n{paragraph}\n```"
    return paragraph


def _inside(item: _Object) -> Iterator[_Object]:
    """An object and what it defines, itself first."""
    yield item
    for member in item.members.values():
        if not member.is_alias:
            yield from _inside(member)


def _complete(item: _Object, known: dict[str, str]) -> dict[str, str]:
    """Describe all parameters of a callable as one section; return their descriptions."""
    parameters = [each for each in item.parameters if each.name not in ("self", "cls")]
    for each in parameters:
        each.annotation = _spelled_out(each.annotation, item)
    if item.docstring is None or not parameters:
        return {}
    described = _described(item.docstring)
    rows = [
        griffe.DocstringParameter(
            each.name,
            description=described.get(each.name, known.get(each.name, "")),
            annotation=each.annotation,
            value=str(each.default) if each.default is not None else None,
        )
        for each in parameters
    ]
    _put(item.docstring, griffe.DocstringSectionParameters(rows))
    return described


def is_record(item: _Object) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    return "dataclass" in item.labels or any("NamedTuple" in str(base) for base in item.bases)


def _list_fields(item: _Object) -> None:
    """Put the fields of a record into one table: parameters where it is made by users."""
    fields = [each for each in item.attributes.values() if not each.name.startswith("_")]
    if item.docstring is None or not fields:
        return
    described = _described(item.docstring)
    kind = griffe.DocstringParameter if described else griffe.DocstringAttribute
    rows: list[Any] = [
        kind(
            each.name,
            description=described.get(each.name, each.docstring.value if each.docstring else ""),
            annotation=_spelled_out(each.annotation, item),
            value=str(each.value) if each.value is not None else None,
        )
        for each in fields
        if each.name in described or not described
    ]
    of = griffe.DocstringSectionParameters if described else griffe.DocstringSectionAttributes
    _put(item.docstring, of(rows))


def _described(docstring: griffe.Docstring) -> dict[str, str]:
    """The descriptions of parameters in a docstring, by name."""
    sections = docstring.parse("google", warnings=False)
    given = [each for section in sections if section.kind is _PARAMETERS for each in section.value]
    return {each.name.lstrip("*"): each.description for each in given}


def _put(docstring: griffe.Docstring, section: griffe.DocstringSection) -> None:
    """Have a section in place of the one that describes parameters, or as the last one."""
    sections = docstring.parse("google", warnings=False)
    places = [at for at, each in enumerate(sections) if each.kind is _PARAMETERS]
    at = places[0] if places else len(sections)
    docstring.__dict__["parsed"] = [*sections[:at], section, *sections[at + len(places) :]]


def _operands(annotation: Any) -> list[Any]:
    """The members of a union."""
    if isinstance(annotation, griffe.ExprBinOp):
        return [*_operands(annotation.left), *_operands(annotation.right)]
    return [annotation]


def _spelled_out(annotation: Any, item: _Object) -> Any:
    """A type with the project's names for literals and unions replaced by what they stand for."""
    if isinstance(annotation, griffe.ExprBinOp):
        left, right = (_spelled_out(each, item) for each in (annotation.left, annotation.right))
        for operand in _operands(right):  # a union in a union needs no parentheses
            left = dataclasses.replace(annotation, left=left, right=operand)
        return left
    if isinstance(annotation, griffe.ExprName) and annotation.canonical_path.startswith(_OURS):
        try:
            found = item.modules_collection[annotation.canonical_path]
        except (KeyError, griffe.AliasResolutionError):
            return annotation
        is_type = found.is_attribute and not isinstance(found.value, griffe.ExprCall)
        if is_type and found.name not in ("Aggregations", "StoreLike"):
            return _spelled_out(found.value, found)
    return annotation
