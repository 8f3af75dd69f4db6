"""The errors of windows. They share a base class with the errors of stores, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    from stores import PageStore  # an editable install finds our modules in any ``stores``
    from stores.errors import *  # noqa: F403
    from stores.errors import WindowStoreError as WindowStoreError

    del PageStore
except ImportError as error:
    # Every package imports this module first, so this check runs before any other use of
    # ``stores``.
    import stores

    found = Path(stores.__file__ or stores.__path__[0])
    if Path(__file__).parents[1] in found.parents:
        raise
    raise ImportError(
        f"the package 'stores', which mta needs, is hidden by {found}, because "
        "Python uses the first one on sys.path: rename that file or folder, or start Python "
        "elsewhere"
    ) from error


class InvalidValue(WindowStoreError, ValueError):
    """A value is null, NaN or of the wrong type: correct it, or choose nulls="skip"."""


class InvalidTime(WindowStoreError, ValueError):
    """An event's time is missing or cannot be read: correct it."""


class InvalidQuery(WindowStoreError, ValueError):
    """A query in SQL cannot be answered: change what the message shows."""


class LateEvent(WindowStoreError, ValueError):
    """An event is too old: sort the events, set allowed_lateness, or choose on_late="drop"."""


class AheadEvent(WindowStoreError, ValueError):
    """An event is ahead of the clock: correct its time, or choose on_ahead="drop"."""


class EmptyWindow(WindowStoreError, IndexError):
    """More events were to be evicted than are in the window: evict fewer."""


class EventsGone(WindowStoreError, LookupError):
    """Events of a range have already left: query a later range, or the part that is retained."""


class NoSuchEvent(WindowStoreError, LookupError):
    """No event has the time of a retraction: give the time of an existing event."""


class PartialBatch(WindowStoreError, RuntimeError):
    """An earlier call failed in the middle of a batch: restore the last snapshot, and continue."""


class FrameNotMonotone(WindowStoreError, ValueError):
    """The frame retains a prefix but evicts a longer part of the same window: correct it."""


class NotRevisable(WindowStoreError, TypeError):
    """The window cannot return earlier results again: use a count, time or session window."""


class NotPageable(WindowStoreError, TypeError):
    """A value cannot be written to a page: use plain data, or keep the window in memory."""


class ResultOutOfRange(WindowStoreError, OverflowError):
    """A result does not fit its type: choose a larger type, or a monoid of doubles."""


class UnsuitableKey(WindowStoreError, ValueError):
    """A key is null, too long or of another kind than the others: correct or convert it."""


class UnsuitableMonoid(WindowStoreError, TypeError):
    """The monoid misses a property that the algorithm needs: declare it, or use another one."""


class SnapshotMismatch(WindowStoreError, ValueError):
    """The snapshot has another monoid, frame or arity: restore with the same ones."""


class CorruptSnapshot(WindowStoreError, ValueError):
    """The snapshot's bytes are damaged or of an unknown format: use an earlier snapshot."""


class CorruptPage(WindowStoreError, ValueError):
    """A page does not match its name: restore from an earlier snapshot or another copy."""


class MissingPage(WindowStoreError, LookupError):
    """A page that the window needs is not in the store: open the store that has it."""

    @classmethod
    def of(cls, key: str, store: Any) -> MissingPage:
        """Return the error for a page that a window needs, with likely causes."""
        written = f" (pages here are written by host {store.origin})" if store.origin else ""
        cause = store.explain_missing()
        return cls(
            f"page {key} is not in {store.url}{written}: open the store that the window was "
            "written to, or restore a snapshot whose pages are all there"
            f"{'; ' if cause else ''}{cause}"
        )


class NotPublished(WindowStoreError, LookupError):
    """Nothing is published under the name: check the name and the store, or publish it."""


class PublishConflict(WindowStoreError, RuntimeError):
    """Another program publishes under the name: stop one of them, or choose another name."""


class WindowBusy(WindowStoreError, RuntimeError):
    """A window was called in the middle of another call: lock it, or use one window per thread."""


class InvariantViolation(WindowStoreError, AssertionError):
    """The structure broke one of its own invariants: report this as a bug."""


class LawBroken(WindowStoreError, AssertionError):
    """A monoid or a frame breaks a law that windows rely on: correct it, or its declaration.

    ``law`` is the law's name, ``example`` is the tested input, ``sides`` should be the same.
    """

    def __init__(
        self, message: str, law: str = "", example: Any = None, sides: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message)
        self.law, self.example, self.sides = law, example, sides
