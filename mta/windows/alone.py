"""``alone`` marks the public methods of windows.

An engine then serves one call at a time, and numpy prints no warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from mta.windows.single import busy

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class Busy(Protocol):
    """An object that serves one call at a time."""

    busy: bool


class _Serves(Protocol):
    """An object with an engine that serves one call at a time."""

    @property
    def engine(self) -> Busy:
        """Return the engine; multiple windows may share one."""


_Window = TypeVar("_Window", bound=_Serves)


def alone(
    method: Callable[Concatenate[_Window, _Args], _Result],
) -> Callable[Concatenate[_Window, _Args], _Result]:
    """Decorate a method of a window: it has the engine to itself, and numpy's warnings are off.

    A concurrent call raises WindowBusy, and changes nothing.
    """

    @wraps(method)
    def call(self: _Window, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        engine = self.engine
        if engine.busy:
            raise busy()
        engine.busy = True
        try:
            with np.errstate(all="ignore"):
                return method(self, *args, **kwargs)
        finally:
            engine.busy = False

    return call
