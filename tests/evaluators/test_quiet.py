"""No warning of numpy's leaves a structure over levels, and none, made an error, breaks it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Mean, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, LogMTA, PagedFlatFAT
from mta.audit.walk import audit
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.logs.base import Aggregator
from mta.windows.shared import SharedWindows

#: Sums of these overflow, in whatever order they are added.
HOSTILE = [1e308, 1e308, 1.5e308, np.inf, 1.0, 5e-324, 0.0, -0.0, 1e308, 1e308] * 9
FRAMES = [
    TimeWindow(2),
    TimeWindow(40),
    TimeWindow(9) | CountWindow(5),
    TimeWindow(3) & CountWindow(8),
]


def results_of(window: Any, aggregator: type[Aggregator] | None) -> list[Any]:
    """Everything that a window is asked for while hostile numbers pass through it."""
    times = np.arange(len(HOSTILE)).astype("M8[s]")
    found: list[Any] = [window.extend(HOSTILE[:50], times[:50])]
    for value, time in zip(HOSTILE[50:70], times[50:70], strict=True):
        window.insert(value, time)
        found.append(window.query())
    window.checkpoint()
    window.check()
    assert not audit(window).damaged
    if aggregator in (AmortizedMTA, LogMTA):
        found.append(window.range(60, 69, partial=True))
    found.append(window.extend(HOSTILE[70:], times[70:], emit="last"))
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "aggregator", [AmortizedMTA, LogMTA, PagedFlatFAT, PagedReactiveAggregator]
)
@pytest.mark.parametrize("arity", [2, 64])
def test_a_window_is_quiet(aggregator: type[Aggregator], arity: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for frame in FRAMES:
            for kind in (Sum(), Mean(), Max()):
                results_of(Window(kind, frame, arity=arity, aggregator=aggregator), aggregator)


def test_several_windows_are_quiet() -> None:
    windows = {f"w{i}": frame for i, frame in enumerate(FRAMES)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (Sum(), Mean(), Max()):
            results_of(SharedWindows(kind, windows, arity=2), None)
