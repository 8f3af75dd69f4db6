"""Parameters that stand in several signatures mean the same in each."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import pytest

from mta import SharedWindows, SlicedWindow, Window


def options(call: Any) -> dict[str, Parameter]:
    return {
        name: parameter
        for name, parameter in signature(call).parameters.items()
        if parameter.default is not Parameter.empty
    }


#: What a handle has, and restoring need not be told.
IN_THE_HANDLE = {"name", "arity", "leaf_arity", "timed"}


@pytest.mark.parametrize("kind", [Window, SlicedWindow, SharedWindows])
def test_restoring_takes_what_making_takes(kind: type) -> None:
    made, restored = options(kind), options(kind.restore)  # type: ignore[attr-defined]
    assert set(made) - set(restored) <= IN_THE_HANDLE
    for name, parameter in restored.items():
        assert parameter.default == made[name].default, name


@pytest.mark.parametrize("kind", [SlicedWindow, SharedWindows])
def test_all_windows_have_the_defaults_of_one(kind: type) -> None:
    window, other = options(Window), options(kind)
    # Their name says what they are, and without a lateness several windows take
    # events in order, which of one its aggregator says.
    for name in window.keys() & other.keys() - {"name", "lateness"}:
        assert other[name].default == window[name].default, name
