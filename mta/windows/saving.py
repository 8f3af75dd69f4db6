"""What an engine writes to its snapshots, and what it requires of one that it restores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mta.descriptions import Recipe
from mta.errors import CorruptPage, CorruptSnapshot, SnapshotMismatch
from mta.evaluators.cursor import Cursor
from mta.frames.base import Frame
from mta.frames.known import frame_from_text
from mta.logs.base import EventLog
from mta.monoids.base import AbstractMonoid
from mta.pages import NO_NAME, corrupt, key_of, require_here
from mta.snapshots import Snapshot, WindowState
from mta.windows.settings import Settings
from stores import PageStore


def states_of(windows: Mapping[str, Cursor]) -> list[WindowState]:
    """Return windows as a snapshot has them, in the order of their names."""
    return sorted(
        WindowState(name, w.frame.describe(), w.frame.fingerprint, w.front)
        for name, w in windows.items()
    )


def snapshot_of(
    log: EventLog, windows: Mapping[str, Cursor], newest: int | None, counts: list[int],
    recipe: Recipe | None,
) -> Snapshot:  # fmt: skip
    """Return the snapshot of a prepared log and its windows; ``newest`` is the newest time."""
    setting, monoid = log.setting, log.monoid
    return Snapshot(
        window=setting.window,
        algorithm=log.name,
        monoid=(monoid.name, monoid.fingerprint),
        leaf_arity=setting.leaf_arity,
        arity=setting.arity,
        timed=setting.timed,
        front=log.front,
        back=log.back,
        front_time=log.oldest_time() if setting.timed else None,
        last_time=newest,
        counts=counts,
        levels=log.height,
        pages=log.page_count,
        windows=states_of(windows),
        state=log.write_state(),
        recipe=recipe,
    )


def recipe_for(
    given: AbstractMonoid, frames: Sequence[Frame], settings: Settings, types: Mapping[str, str]
) -> Recipe:
    """Return how windows were made; the sizes of groups are fields of the snapshot."""
    return Recipe.of(given, list(frames), settings.sized(None, None).given(), types)


def has_other_frame(snapshot: Snapshot, frame: Frame, timed: bool, others: bool) -> bool:
    """Return whether the only window of a snapshot had another frame.

    Raises SnapshotMismatch unless ``others`` are allowed, and both depend on counts and times only.
    ``timed`` says whether the events of the new frame have times.
    """
    (window,) = snapshot.windows
    if window.fingerprint == frame.fingerprint:
        return False
    is_known = frame.positional and frame_from_text(window.frame, window.fingerprint) is not None
    if not (others and is_known):
        raise mismatch("frame", window.frame, frame.describe())
    if snapshot.timed != timed:
        times = {True: "events have times", False: "events have no times"}
        was, now = times[snapshot.timed], times[timed]
        raise mismatch("frame", f"{window.frame}, so {was}", f"{frame!r}, so {now}")
    return True


def load_state(log: EventLog, snapshot: Snapshot) -> None:
    """Load the events of a snapshot. Raises SnapshotMismatch and CorruptSnapshot."""
    if snapshot.algorithm != log.name or snapshot.timed != log.setting.timed:
        raise mismatch("aggregator", snapshot.algorithm, log.name)
    try:
        with np.errstate(all="ignore"):  # LogMTA folds its left branch
            log.restore_state(snapshot)
    except CorruptSnapshot:
        raise
    except (CorruptPage, ValueError, TypeError) as error:
        raise corrupt(str(error)) from error


def require_first_page(log: EventLog, name: str, store: PageStore | None) -> None:
    """Raise MissingPage if the first needed page is in the memory of another process."""
    needed = (page for page in log.pages() if page.needed and page.name != NO_NAME)
    first = next(needed, None)
    if first is not None:
        require_here(store, key_of(name, first.level, first.number, first.name))


def mismatch(what: str, in_snapshot: str, given: str) -> SnapshotMismatch:
    """Return the error for a snapshot of another kind of window."""
    return SnapshotMismatch(
        f"the snapshot was made with the {what} {in_snapshot}, not with {given}; restore with the "
        "same one, or start a new window"
    )
