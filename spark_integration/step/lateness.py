"""Which rows are too late for their key, and what a key remembers to tell.

Where events must come in order, late is what is older than the key's newest event. Where they may
be late (``Plan.lateness``), a key has a *floor*, the time before which it takes nothing:

- its newest event before the micro-batch, less the lateness, as the plan has it now or as it was
  after any batch before: what was let go of then is gone, though a greater lateness is allowed now;
- for a key that began anew after a silence, also the moment up to which silent keys were forgotten
  then, as its earlier life may have had events in such a window (``silence.py``).

So every result is of all events that its window had, or the row is late.
"""

from __future__ import annotations

import numpy as np

from mta.errors import LateEvent
from mta.times import clock
from spark_integration.plan import Plan
from spark_integration.step.rows import Sorted
from spark_integration.step.states import Saved


def floor_of(before: Saved | None, forgotten: int | None, plan: Plan) -> int | None:
    """The time before which a key's rows are late; None if none are."""
    if before is None:
        return forgotten
    floor = before.last_time - plan.patience
    return floor if before.floor is None else max(floor, before.floor)


def saved_after(
    last: int, handle: bytes, before: Saved | None, floor: int | None, plan: Plan
) -> Saved:
    """A key's window after its rows, of which the newest that entered is at ``last``."""
    if plan.lateness is None:
        return Saved(last, handle)
    last = last if before is None else max(last, before.last_time)
    gone = last - plan.lateness
    return Saved(last, handle, gone if floor is None else max(gone, floor))


def first_on_time(
    group: Sorted, i: int, before: Saved | None, floor: int | None, plan: Plan
) -> int:
    """Where the rows of key ``i`` begin that are not late. Raises LateEvent."""
    first, end = group.bounds[i], group.bounds[i + 1]
    if floor is None or group.times[first] >= floor:
        return first
    late = int(np.searchsorted(group.times[first:end], floor))
    if plan.late == "error":
        old, remedy = _why(before, floor, plan)
        counts = late, end - first
        raise late_event(group.names[i], counts, old, remedy, int(group.times[first]), plan)
    return first + late


def late_event(
    key: str, counts: tuple[int, int], old: str, remedy: str, oldest: int, plan: Plan
) -> LateEvent:
    """The error for so many of so many events of a key, that are too old in some way."""
    return LateEvent(
        f"{counts[0]} of {counts[1]} events of key {key} are {old}, the oldest by {plan.time!r} at "
        f"{clock(oldest)}; {remedy}, or set late='drop' to drop and count them, or late='side' to "
        "have them marked among the results"
    )


def remedy_of(plan: Plan) -> str:
    """What helps against events that are older than their key's last one."""
    if plan.lateness is None:
        return "let the source deliver in order, or set allowed_lateness"
    return "let the source deliver sooner, or set a greater allowed_lateness"


def _why(before: Saved | None, floor: int, plan: Plan) -> tuple[str, str]:
    """In which way rows are too old, and what helps."""
    if before is None:
        return (
            "older than what silent keys, of which it may be one, were forgotten for, at "
            f"{clock(floor)}",
            "let the source deliver sooner, or the watermark wait longer",
        )
    last, old = before.last_time, f"older than {clock(floor)}, before which no event is kept"
    if floor == last - plan.patience:
        by = f"more than {plan.patience / 1e6} s " if plan.patience else ""
        old = f"{by}older than its last one, at {clock(last)}"
    return old, remedy_of(plan)
