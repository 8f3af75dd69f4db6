"""The options of ``sliding_aggregate`` that can be judged without its DataFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from mta import FiBA
from mta.policies.base import AbstractPolicy
from mta.windows.settings import to_lateness

from .errors import InvalidRequest
from .plan import CORRECTED, LATE, Corrections, OnBadRow, OnLate, Output, Silent, policies_of

Lateness = float | str | timedelta | None
MAX_BUCKETS = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_WINDOW = re.compile(r"[A-Za-z0-9_]{1,40}")
_ZERO = re.compile(r"\s*0+(\.0+)?\s*[a-z]+\s*")


def check_options(
    *,
    output: Output,
    name: str | None,
    buckets: int,
    arity: int | None,
    leaf_arity: int | None,
    late: OnLate,
    invalid: OnBadRow,
    retain: int,
    silent: Silent = "keep",
    corrections: Corrections = "onward",
) -> None:
    """Raises InvalidRequest for an option outside its range."""
    choices: dict[str, tuple[str, Any]] = {
        "output": (output, Output),
        "late": (late, OnLate),
        "invalid": (invalid, OnBadRow),
        "silent": (silent, Silent),
        "corrections": (corrections, Corrections),
    }
    for argument, (value, literal) in choices.items():
        if value not in get_args(literal):
            known = " or ".join(map(repr, get_args(literal)))
            raise InvalidRequest(f"{argument} is {value!r}: it must be {known}")
    if name is not None and not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"name is {name!r}: use 1 to 40 letters, digits, dots, colons, dashes or underscores"
        )
    if not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidRequest(f"buckets is {buckets}: it must be between 1 and {MAX_BUCKETS}")
    for argument, size in (("arity", arity), ("leaf_arity", leaf_arity)):
        if size is not None and size < 2:
            raise InvalidRequest(f"{argument} is {size}: it must be at least 2")
    if retain < 2:
        raise InvalidRequest(
            f"retain is {retain}: it must be at least 2, as a replay needs the state before"
        )


def check_windows(
    policy: AbstractPolicy | Mapping[str, AbstractPolicy],
) -> dict[str, AbstractPolicy]:
    """The policy of each window by its name, '' for a single one. Raises InvalidRequest."""
    several = isinstance(policy, Mapping)
    windows = policies_of(policy)
    if not windows:
        raise InvalidRequest('policy is empty: name at least one window, as {"1h": TimeWindow(..)}')
    for name, one in windows.items():
        if several and not (isinstance(name, str) and _WINDOW.fullmatch(name)):
            raise InvalidRequest(
                f"a window is called {name!r}: use 1 to 40 letters, digits or underscores, as the "
                "columns of its results end with it"
            )
        if not isinstance(one, AbstractPolicy):
            raise InvalidRequest(
                f'policy is {one!r}: give one, as CountWindow(1000) or TimeWindow("24 hours"), or '
                'several by name, as {"1h": TimeWindow("1 hour"), "1d": TimeWindow("1 day")}'
            )
    return windows


def read_lateness(lateness: Lateness) -> int | None:
    """An allowed lateness in microseconds; None for none at all. Raises InvalidRequest."""
    try:
        if lateness == timedelta(0) or (isinstance(lateness, str) and _ZERO.fullmatch(lateness)):
            return 0
        return None if lateness is None else to_lateness(lateness, FiBA)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"allowed_lateness is {lateness!r}: give a time, as '10 minutes', a timedelta or a "
            "number of seconds, or leave it out"
        ) from error


def check_corrections(
    windows: Mapping[str, AbstractPolicy],
    keep: Sequence[str],
    lateness: int | None,
    corrections: Corrections = "onward",
    **_: Any,
) -> None:
    """Raises InvalidRequest where rows cannot be given again."""
    if corrections == "onward":
        return
    what = "corrections is 'append', but "
    if lateness is None:
        raise InvalidRequest(
            what + "no event may come late: set allowed_lateness, as '10 minutes', or leave "
            "corrections out"
        )
    if keep:
        raise InvalidRequest(
            f"{what}windows do not store {', '.join(keep)} of earlier events: leave keep empty, or "
            "join the results with the events"
        )
    if "" not in windows:
        raise InvalidRequest(
            f"{what}there are several windows: call sliding_aggregate for each window, or leave "
            "corrections as it is ('onward')"
        )
    if not windows[""].positional:
        raise InvalidRequest(
            f"{what}a {windows['']!r} looks at values, and cannot be asked for earlier results: "
            "give a count or a time window, or leave corrections as it is ('onward')"
        )


def marks_of(late: OnLate, corrections: Corrections = "onward", **_: Any) -> list[str]:
    """The columns that mark rows, in the order of the result."""
    return [CORRECTED] * (corrections == "append") + [LATE] * (late == "side")
