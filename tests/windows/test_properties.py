"""Windows against a plain list, step by step, with an operation that shows mistakes in order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.naive import AGGREGATORS
from tests.support.sampling import some
from tests.support.window_machine import WindowMachine


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    ("scheme", "examples"),
    [(None, 3), ("memory", 6), ("file", 3), *some([("memory", 100)], by_default=0)],
)
def test_a_window_is_a_list(aggregator: type, scheme: str | None, examples: int) -> None:
    machine = type("Machine", (WindowMachine,), {"aggregator": aggregator, "scheme": scheme})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
