"""Functions without a name of their own are distinguished by their code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Monoid, SharedWindows, Sum, Window
from mta.errors import SnapshotMismatch
from mta.frames import BoundWindow, CustomFrame
from mta.recipes import name_of


def at_least(bound: Any) -> Callable[[Any, Any], bool]:
    def evicts(prefix: Any, total: Any) -> bool:
        return bool(total - prefix >= bound)

    return evicts


def powers(steps: int) -> Callable[[int], int]:
    def power(value: int) -> int:
        return power(value - 1) * 2 if value > steps else 1

    return power


def counting(calls: list[int]) -> Callable[[Any, Any], Any]:
    return lambda a, b: calls.append(1) or a + b  # type: ignore[func-returns-value]


def keywords(*, a: int = 1) -> Callable[[int], int]:
    return lambda b, *, c=a: b + c


DIFFERENT: list[Callable[..., Any]] = [
    lambda a, b: a + b, lambda a, b: b + a, lambda a, b: a + b + 1, lambda a, b: a + b + 1.0,
    lambda a, b: max(a, b), lambda a, b: min(a, b), lambda a, b: a.peak, lambda a, b: a.mean,
    lambda a, b=1: a + b, lambda a, b=2: a + b, lambda a, b: a if a in {"x", "y"} else b,
    lambda a, b: a if a in {"x", "z"} else b, lambda a, b: [c + 1 for c in a],
    lambda a, b: [c + 2 for c in a], at_least(4), at_least(5), at_least((4, (5,))),
    at_least((4, (6,))), at_least(timedelta(minutes=1)), at_least(timedelta(minutes=2)),
    at_least(np.float64(3.5)), at_least(at_least(4)), at_least(at_least(5)), at_least(add),
    at_least(reduce), powers(3), powers(4), keywords(a=1), keywords(a=2), partial(add, 1),
    partial(add, 2), partial(reduce, add), partial(int, base=8), partial(int, base=16),
]  # fmt: skip


def test_other_code_has_another_name() -> None:
    names = list(map(name_of, DIFFERENT))
    assert len(set(names)) == len(names)


def test_the_same_code_has_the_same_name() -> None:
    assert name_of(lambda a, b: a + b) == name_of(lambda x, y: x + y)
    assert name_of(at_least(4)) == name_of(at_least(4))
    assert name_of(powers(3)) == name_of(powers(3))
    assert name_of(partial(add, 1)) == name_of(partial(add, 1))
    assert name_of(at_least(np.float64(4))) == name_of(at_least(4.0))


def test_a_name_lasts_while_what_is_around_changes() -> None:
    calls: list[int] = []
    combine = counting(calls)
    before = name_of(combine)
    combine(1, 2)
    assert calls
    assert name_of(combine) == before


def test_a_function_that_is_not_all_there_has_a_name() -> None:
    def outer() -> Callable[[], int]:
        def early() -> int:
            return late

        name_of(early)  # before there is a ``late``
        late = 1
        return early

    assert outer()() == 1
    assert "#" in name_of(outer())


def test_names_are_the_same_in_another_process() -> None:
    code = "import tests.monoids.test_naming as t; print([t.name_of(f) for f in t.DIFFERENT])"
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == str([name_of(function) for function in DIFFERENT])


def test_a_snapshot_of_another_lambda_is_refused() -> None:
    window = Window(Monoid("", lambda a, b: a + b), CountWindow(3))
    window.extend(list("abcd"))
    snapshot = window.checkpoint()
    assert window.store is not None
    back = Window.restore(
        snapshot, window.store, aggregations=Monoid("", lambda a, b: a + b), window=CountWindow(3)
    )
    assert back.query() == "bcd"
    other = Monoid("", lambda a, b: a if len(a) >= len(b) else b)
    with pytest.raises(SnapshotMismatch, match="lambda>#"):
        Window.restore(snapshot, window.store, aggregations=other, window=CountWindow(3))
    # The way out for the same function in another version of Python: the name in the error.
    named = Monoid("", lambda a, b: b"".join([a, b]), name=window.monoid.name)
    assert (
        len(Window.restore(snapshot, window.store, aggregations=named, window=CountWindow(3))) == 3
    )


def test_a_snapshot_of_another_frame_is_refused() -> None:
    window = Window(Sum(), CustomFrame(at_least(4)))
    window.extend([1.0, 2.0, 3.0])
    snapshot = window.checkpoint()
    assert window.store is not None
    assert len(
        Window.restore(snapshot, window.store, aggregations=Sum(), window=CustomFrame(at_least(4)))
    ) == len(window)
    with pytest.raises(SnapshotMismatch, match="frame"):
        Window.restore(snapshot, window.store, aggregations=Sum(), window=CustomFrame(at_least(5)))


def test_two_windows_that_look_at_other_lambdas() -> None:
    """They share what they look at only where it is the same."""

    def add_up(a: float, b: float) -> float:
        return a + b

    total = Monoid(0.0, lambda a, b: a + b)
    peak = Monoid(0.0, lambda a, b: max(a, b))
    windows = SharedWindows(
        Monoid(0.0, add_up, name="sum"),
        {"total": BoundWindow(total, at_most=6), "peak": BoundWindow(peak, at_most=6)},
    )
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    results = windows.extend(values)
    assert results["total"].tolist() == [1.0, 3.0, 6.0, 4.0, 5.0]
    assert results["peak"].tolist() == [1.0, 3.0, 6.0, 10.0, 15.0]
