"""Requests as an OpenAPI document says, and others, by schemathesis."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings


def check_operation(operation: Any, mode: Any, headers: dict[str, str]) -> set[int]:
    """The answers to a few requests, as the document says or not, are those that it says.

    Returns the statuses of the answers.
    """
    import schemathesis
    from schemathesis.specs.openapi import checks

    statuses = set[int]()

    @settings(max_examples=8, deadline=None, database=None, derandomize=True,
              suppress_health_check=[*HealthCheck])  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        # Whether a moment is retained, or a text is a moment, no document can say.
        passed_over = [checks.positive_data_acceptance]
        answer = case.call(headers=headers)
        statuses.add(answer.status_code)
        if answer.status_code == 413:  # refused, which schemathesis does not take for it
            passed_over.append(checks.negative_data_rejection)
        if mode is schemathesis.GenerationMode.POSITIVE:
            assert b'"InvalidTime"' not in answer.content, "the document allows this moment"
        case.validate_response(answer, headers=headers, excluded_checks=passed_over)

    run()
    return statuses
