"""From a window to its handle and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mta.errors import CorruptHandle, CorruptPage, HandleMismatch
from mta.pages.handle import Handle

if TYPE_CHECKING:
    from mta.windows.window import Window


def make_handle(window: Window) -> bytes:
    """The handle of a window; reads a page only where the oldest event's time is not at hand."""
    tree, setting = window.structure, window.structure.setting
    return Handle(
        window=setting.window,
        algorithm=tree.name,
        monoid=(window.monoid.name, window.monoid.fingerprint),
        policy=(window.policy.describe(), window.policy.fingerprint),
        leaf_arity=setting.leaf_arity,
        arity=setting.arity,
        timed=setting.timed,
        front=tree.front,
        back=tree.back,
        front_time=tree.oldest_time() if setting.timed else None,
        last_time=window.intake.last_time,
        counts=[window.intake.late_count, window.intake.invalid_count],
        levels=tree.height,
        pages=tree.page_count,
        state=tree.write_state(),
    ).encode()


def take_up(handle: Handle, window: Window) -> None:
    """Make an empty window what the handle says. Raises HandleMismatch or CorruptHandle."""
    monoid, policy, tree = window.monoid, window.policy, window.structure
    if handle.monoid[1] != monoid.fingerprint:
        raise _mismatch("monoid", handle.monoid[0], monoid.name)
    if handle.policy[1] != policy.fingerprint:
        raise _mismatch("policy", handle.policy[0], policy.describe())
    if handle.algorithm != tree.name or handle.timed != tree.setting.timed:
        raise _mismatch("aggregator", handle.algorithm, tree.name)
    try:
        tree.take_up_state(handle)
    except (CorruptPage, ValueError, TypeError) as error:
        if isinstance(error, CorruptHandle):
            raise
        raise CorruptHandle(f"the handle cannot be read: {error}; use an earlier one") from error
    window.intake.last_time = handle.last_time
    window.intake.late_count, window.intake.invalid_count = handle.counts
    tree.hold(window.retain)


def _mismatch(what: str, in_handle: str, given: str) -> HandleMismatch:
    return HandleMismatch(
        f"the handle was made with the {what} {in_handle}, not with {given}; restore with the same "
        "one, or start a new window"
    )
