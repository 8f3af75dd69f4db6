"""The windows of one bucket's keys: which kind a plan asks for, new ones, and those of handles.

one policy                 ``Window``, by FiBA where events may come late
a policy for each name     ``SharedWindows``: one structure, and its pages, for all windows
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mta import AmortizedMTA, FiBA, Window
from mta.monoids.base import AbstractMonoid
from mta.policies.base import AbstractPolicy
from mta.windows.shared import SharedWindows
from spark_integration.plan import Plan, column_name
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
        lateness = timedelta(microseconds=plan.lateness or 0)
        shared: dict[str, Any] = {
            "store": self._store,
            "name": self._prefix + name,
            "arity": plan.arity,
            "leaf_arity": plan.leaf_arity,
            "invalid": plan.invalid,
            "retain": plan.retain,
        }
        if isinstance(plan.policy, Mapping):
            if plan.by_time:
                shared["lateness"] = lateness or 0
            return SharedWindows(plan.monoid, plan.policy, **shared)
        if plan.by_time:
            shared |= {"aggregator": FiBA, "lateness": lateness or 0}
        return Window(plan.monoid, plan.policy, **shared)

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
    if not isinstance(policy, Mapping):
        return Window.restore(
            handle, monoid, policy, store, aggregator=FiBA if by_time else AmortizedMTA
        )
    late: dict[str, Any] = {"lateness": 0} if by_time else {}
    return SharedWindows.restore(handle, monoid, policy, store, **late)
