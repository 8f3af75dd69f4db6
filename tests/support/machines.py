"""State machines of hypothesis, run alike by every suite."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(
    base: type[RuleBasedStateMachine], examples: int, steps: int = 30, **attributes: Any
) -> None:
    """Run a machine with these class attributes; ``examples`` times at most so many steps."""
    run_state_machine_as_test(
        type("Machine", (base,), attributes),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
