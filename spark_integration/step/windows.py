"""The windows of one bucket's keys, and what a step asks of each.

one policy                 ``Window``, by FiBA where events may come late
a policy for each name     ``SharedWindows``: one structure, and its pages, for all windows

With ``every``, results come now and then:

every k events     the row of each k-th event of a key, in the order in which micro-batches bring
                   events, those of one micro-batch by time
every period       a row for each boundary: key, time, results, and nulls for all else

That adds nothing to the state. How many events a key has had is in its handle, and a boundary is
due with the first event later than it, so all up to the key's last event have been given. Of a key
that is forgotten (``silence.py``) also those up to where its windows are empty are given then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from mta import AmortizedMTA, EveryCount, EveryPeriod, FiBA, TriggeredWindow, Window
from mta.monoids.base import AbstractMonoid
from mta.policies.base import AbstractPolicy
from mta.triggers.rules import Progress
from mta.triggers.triggered import Due, SharedDue
from mta.windows.shared import SharedWindows
from spark_integration.plan import Plan, column_name
from spark_integration.step.columns import Ints
from spark_integration.step.silence import end_of
from spark_integration.step.states import Saved
from stores.base import PageStore

AnyWindow = Window | SharedWindows


class Windows:
    """The windows of one bucket, opened from their handles."""

    def __init__(self, plan: Plan, store: PageStore) -> None:
        self._plan = plan
        self._store = store
        self._prefix = f"{plan.name}.{plan.fingerprint()[:4].hex()}:"
        self._temporary: list[AnyWindow] = []
        self._kind: AnyWindow | None = None

    def open(self, name: str, saved: Saved | None) -> AnyWindow:
        """The key's window as it was saved, or a new one."""
        if saved is not None:
            return self.restore(saved.handle)
        window = self._empty(name)
        if self._plan.temporary:
            self._temporary.append(window)
        else:
            # To begin anew is what a retry of this batch does, and a twin of this attempt right
            # now: their pages are the same, so none may go before the batch is committed.
            window.engine.hold()
        return window

    def restore(self, handle: bytes) -> AnyWindow:
        """The window of a handle."""
        # What all windows have in common is made once, in a window that takes no events.
        if self._kind is None:
            self._kind = self._empty("any")
        return self._kind.sibling(handle)

    def _empty(self, name: str) -> AnyWindow:
        plan = self._plan
        settings: dict[str, Any] = {
            "store": self._store,
            "name": self._prefix + name,
            "arity": plan.arity,
            "leaf_arity": plan.leaf_arity,
            "invalid": plan.invalid,
            "retain": plan.retain,
        }
        if plan.by_time:
            settings["lateness"] = timedelta(microseconds=plan.lateness or 0)
        if isinstance(plan.policy, Mapping):
            return SharedWindows(plan.monoid, plan.policy, **settings)
        aggregator = FiBA if plan.by_time else AmortizedMTA
        return Window(plan.monoid, plan.policy, aggregator=aggregator, **settings)

    def discard_temporary(self) -> None:
        """Delete the pages of a batch query's windows, also when the batch failed."""
        for window in self._temporary:
            window.delete_pages()
        self._temporary.clear()


def events_of(window: AnyWindow) -> int:
    """How many events a window has taken in since its beginning; no store call."""
    return window.engine.structure.back


def by_column(found: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """What ``extend`` returned, by the names of the plan's columns."""
    if not isinstance(plan.policy, Mapping):
        return found
    return {
        column_name(alias, window): column
        for window, results in found.items()
        for alias, column in results.items()
    }


# --- results now and then -------------------------------------------------------------------------


def _triggered(window: AnyWindow, plan: Plan, before: Saved | None) -> TriggeredWindow | SharedDue:
    """A key's window, or several, with results at boundaries, where it has come to."""
    due: TriggeredWindow | SharedDue
    assert isinstance(plan.every, EveryPeriod)
    if isinstance(window, SharedWindows):
        due = SharedDue(window, plan.every)
    else:
        due = TriggeredWindow(window, plan.every)
    due.progress = Progress(newest=before and before.last_time)
    return due


def results_due(
    window: AnyWindow, plan: Plan, before: Saved | None, values: Any, moments: Any
) -> list[Due]:
    """A key's rows into its window, and the results at the boundaries that they make due.

    In a batch query also that of the period in which the rows end, as no more will come.
    """
    triggered = _triggered(window, plan, before)
    due = triggered.extend(values, moments)
    return [due, triggered.flush()] if plan.temporary else [due]


def results_of_silence(window: AnyWindow, plan: Plan, before: Saved) -> list[Due]:
    """The results up to the first boundary at which the window of a silent key is empty."""
    end = np.datetime64(end_of(before.last_time, plan), "us")
    return [_triggered(window, plan, before).advance(end)]


def places_due(every: EveryCount, before: int, count: int) -> Ints:
    """Which of the next ``count`` events of a key are due, after ``before`` of them.

    >>> places_due(EveryCount(3), 4, 7).tolist()
    [1, 4]
    """
    return np.arange(-(before + 1) % every.count, count, every.count)


def restore_any(
    handle: bytes,
    monoid: AbstractMonoid,
    policy: AbstractPolicy | Mapping[str, AbstractPolicy],
    store: PageStore,
    by_time: bool,
) -> AnyWindow:
    """The window of a handle, or the several that share their events; no store call.

    Raises CorruptHandle, HandleMismatch.
    """
    late: dict[str, Any] = {"lateness": 0} if by_time else {}
    if isinstance(policy, Mapping):
        return SharedWindows.restore(handle, monoid, policy, store, **late)
    aggregator = FiBA if by_time else AmortizedMTA
    return Window.restore(handle, monoid, policy, store, aggregator=aggregator, **late)
