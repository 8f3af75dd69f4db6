"""The docstrings of the public API say what the site's reference shows."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

from mta import aggregations, algorithms, frames
from tests.support import documents

MODULES = [*map(import_module, documents.PUBLIC)]
PUBLIC = {name: getattr(module, name) for module in MODULES for name in module.__all__}


def is_record(item: Any) -> bool:
    """Whether it is a class of results, whose fields are described one by one."""
    return isinstance(item, type) and (
        hasattr(item, "__dataclass_fields__") or hasattr(item, "_fields")
    )


#: Bases, errors, and algorithms, which are given as ``aggregator`` and made by windows.
NOT_CALLED = {
    name
    for name, item in PUBLIC.items()
    if isinstance(item, type) and (inspect.isabstract(item) or issubclass(item, Exception))
} | {"AbstractMonoid", "Frame", "StoreLike", *algorithms.__all__}
CALLED = {
    name: item
    for name, item in PUBLIC.items()
    if name not in NOT_CALLED and not is_record(item) and callable(item)
}


def described(item: Any) -> set[str]:
    """The parameters that its docstring describes."""
    args = (inspect.getdoc(item) or "").partition("Args:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^    \*{0,2}(\w+): \S", args, re.MULTILINE))


@pytest.mark.parametrize("name", CALLED)
def test_every_parameter_is_described(name: str) -> None:
    parameters = set(inspect.signature(CALLED[name]).parameters) - {"self"}
    assert described(CALLED[name]) == parameters


@pytest.mark.parametrize("name", sorted(CALLED.keys() & {*aggregations.__all__, *frames.__all__}))
def test_every_aggregation_and_frame_has_an_example(name: str) -> None:
    assert name in NEEDS_A_LIBRARY or ">>>" in (inspect.getdoc(CALLED[name]) or "")


#: Sketches of Apache DataSketches, which the core goes without, and results of aggregations.
NEEDS_A_LIBRARY = {"CountMin", "DistinctCount", "FrequentItems", "Frequencies", "KLLQuantiles"}
