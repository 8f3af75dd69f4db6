"""The errors of windows; like those of the stores they share one base and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    from stores import PageStore  # an editable install finds modules of ours in any ``stores``
    from stores.errors import *  # noqa: F403
    from stores.errors import WindowStoreError as WindowStoreError

    del PageStore
except ImportError as error:
    # Each package imports this one first, or one that does: what they need of ``stores`` is ours.
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


class LateEvent(WindowStoreError, ValueError):
    """An event is older than the last one: sort the events, or choose on_late="drop"."""


class AheadEvent(WindowStoreError, ValueError):
    """An event is ahead of the clock: correct its time, or choose on_ahead="drop"."""


class EmptyWindow(WindowStoreError, IndexError):
    """More events were to be evicted than the window holds: evict fewer."""


class EventsGone(WindowStoreError, LookupError):
    """Events of a range have left already: ask for a later range, or for what is left of it."""


class NoSuchEvent(WindowStoreError, LookupError):
    """There is no event at a time that is to be retracted: give the time of one that is there."""


class PartialBatch(WindowStoreError, RuntimeError):
    """An earlier call failed in the middle of a batch: restore from the last root, and go on."""


class PolicyNotMonotone(WindowStoreError, ValueError):
    """The policy keeps a prefix but evicts a longer part of the same window: correct the policy."""


class NotRevisable(WindowStoreError, TypeError):
    """The window cannot tell earlier results again: use a count or a time window over FiBA."""


class NotPageable(WindowStoreError, TypeError):
    """A value cannot be written to a page: use plain data, or keep the window in memory."""


class ResultOutOfRange(WindowStoreError, OverflowError):
    """A result does not fit its type: choose a larger type, or a monoid of doubles."""


class UnsuitableKey(WindowStoreError, ValueError):
    """A key is null, too long or of another kind than the others: correct or convert it."""


class UnsuitableMonoid(WindowStoreError, TypeError):
    """The monoid has no property that the algorithm needs: declare it, or take another one."""


class SnapshotMismatch(WindowStoreError, ValueError):
    """The snapshot was made by another monoid, policy or arity: restore with the same ones."""


class CorruptSnapshot(WindowStoreError, ValueError):
    """The snapshot's bytes are damaged or of an unknown format: use an earlier snapshot."""


class CorruptPage(WindowStoreError, ValueError):
    """A page is not what its name says: restore from an earlier snapshot or another copy."""


class MissingPage(WindowStoreError, LookupError):
    """A page that the window needs is not in the store: open the store that holds it."""

    @classmethod
    def of(cls, key: str, store: Any) -> MissingPage:
        """The error for a page that a window expects in a ``PageStore``, with likely causes."""
        written = f" (pages here are written by host {store.origin})" if store.origin else ""
        cause = store.explain_missing()
        return cls(
            f"page {key} is not in {store.url}{written}: open the store that the window was "
            "written to, or restore a snapshot whose pages are all there"
            f"{'; ' if cause else ''}{cause}"
        )


class NotPublished(WindowStoreError, LookupError):
    """Nothing is published under the name: check the name and the store, or publish it."""


class WindowBusy(WindowStoreError, RuntimeError):
    """A window was called in the middle of another call: lock it, or give each thread its own."""


class InvariantViolation(WindowStoreError, AssertionError):
    """The structure broke one of its own invariants: report this as a bug."""


class LawBroken(WindowStoreError, AssertionError):
    """A monoid or a policy is not what windows rely on: correct it, or what it declares.

    ``law`` is the law's name, ``example`` what it was tried on, ``sides`` what should be the same.
    """

    def __init__(
        self, message: str, law: str = "", example: Any = None, sides: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message)
        self.law, self.example, self.sides = law, example, sides
