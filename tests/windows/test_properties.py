"""Windows against a plain list, step by step, with an operation that shows mistakes in order."""

from __future__ import annotations

import pytest

from tests.support.machines import run_machine
from tests.support.naive import AGGREGATORS
from tests.support.sampling import some
from tests.support.window_machine import WindowMachine


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    ("scheme", "examples"),
    [(None, 2), ("memory", 4), ("file", 2), *some([("memory", 100)], by_default=0)],
)
def test_a_window_is_a_list(aggregator: type, scheme: str | None, examples: int) -> None:
    run_machine(WindowMachine, examples, aggregator=aggregator, scheme=scheme)
