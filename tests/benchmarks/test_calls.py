"""Calls of functions an update, which the report gives as reasons, against the profiler."""

from __future__ import annotations

import sys

import pytest

from benchmarks.papers.mta.streams import CALLED, CALLS, Operation, calls_of, operations
from tests.support.sampling import some


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later Pythons call less: comprehensions")
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("one", some(operations(), by_default=3), ids=lambda one: one.name)
def test_calls_of_an_update_are_about_what_is_reported(one: Operation, name: str) -> None:
    """In a smaller window: a tree has fewer levels there, and frames evict more often."""
    reported = CALLS[one.name][CALLED.index(name)]
    assert 0.7 * reported <= calls_of(one, name, 5000) <= 2.5 * reported
