"""Snapshots of windows: all of their state except pages, in a few kilobytes.

You can restore a snapshot as long as the store has the pages that it names:

    snapshot = body digest
    digest   = xxh3_128 of the body, 16 bytes
    body     = msgpack array [magic, version, name, algorithm, monoid, leaf_arity, arity, timed,
               front, back, front_time, last_time, counts, levels, pages, windows, state, recipe]
    magic    = "mta-snapshot"
    version  = 2
    name     = text, the name of the window, or of the windows that share the events
    algorithm = the log's name, such as "Amortized MTA"
    monoid   = [text, 16-byte fingerprint]
    leaf_arity, arity = group sizes at level 0 and above
    timed    = whether pages contain times
    front, back = position of the oldest event, and position after the newest event
    front_time, last_time = microseconds since 1970 of the oldest and the newest event, or nil
    counts   = [late, invalid, ahead]: numbers of events dropped because they were late, invalid,
               or ahead of the clock
    levels, pages = number of levels of the log, and approximate number of pages
    windows  = array of [name, frame, fingerprint, front], in the order of the names: a single
               window has the name "", windows that share events have names of 1 to 200 bytes
    frame, fingerprint = text and 16 bytes, which describe the frame of a window
    state    = array, the state of the log, which the log's module describes
               (``evaluators.amortized_mta`` for Log MTA and Amortized MTA)

    recipe   = how the windows were made (``mta.descriptions``); nil for the window of one key of
               keyed windows, whose snapshot has the recipe

All other state of a window follows from the events. Snapshots of other kinds have their own magic
and fields in the same envelope of body and digest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

import msgpack
import xxhash

from mta.descriptions import Recipe, load_recipe
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.frames.base import Frame
from mta.pages import MAX_ARITY, NAME, corrupt

MAGIC = "mta-snapshot"
VERSION = 2
FINGERPRINT_BYTES = 16
MAX_NAME_BYTES = 200
#: An upper bound for times and durations in microseconds, and for all other numbers.
FAR = 1 << 62
_DIGEST_BYTES = 16
_Kind = TypeVar("_Kind")


class WindowState(NamedTuple):
    """One window of a snapshot."""

    name: str
    frame: str
    fingerprint: bytes
    front: int
    """The position of the window's oldest event."""


@dataclass(slots=True)
class Snapshot:
    """The fields of a snapshot, in order; the module's docstring describes them."""

    window: str
    algorithm: str
    monoid: tuple[str, bytes]
    leaf_arity: int
    arity: int
    timed: bool
    front: int
    back: int
    front_time: int | None
    last_time: int | None
    counts: list[int]
    levels: int
    pages: int
    windows: list[WindowState]
    state: list[Any]
    recipe: Recipe | None

    def encode(self) -> bytes:
        *values, recipe = [getattr(self, field.name) for field in fields(self)]
        return seal(MAGIC, VERSION, [*values, None if recipe is None else recipe.dump()])

    @staticmethod
    def decode(data: bytes) -> Snapshot:
        """Decode a snapshot. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "a window's snapshot", _validated)

    @staticmethod
    def decode_single(data: bytes) -> Snapshot:
        """Decode the snapshot of a single window. Raises SnapshotMismatch for one of several."""
        found = Snapshot.decode(data)
        if found.is_shared:
            raise SnapshotMismatch("the snapshot has multiple windows: use SharedWindows.restore")
        return found

    @staticmethod
    def decode_shared(data: bytes) -> Snapshot:
        """Decode the snapshot of windows that share events. Raises SnapshotMismatch for others."""
        found = Snapshot.decode(data)
        if not found.is_shared:
            raise SnapshotMismatch("the snapshot has a single window: use Window.restore")
        return found

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of leaf and inner groups."""
        return self.leaf_arity, self.arity

    @property
    def is_shared(self) -> bool:
        """Whether windows with names share the events."""
        return [window.name for window in self.windows] != [""]

    def made(self) -> Recipe:
        """Return how the windows were made. Raises SnapshotMismatch for the window of one key."""
        if self.recipe is None:
            raise SnapshotMismatch(
                "the snapshot is of one key of keyed windows: restore these with "
                "KeyedWindows.restore, and take the key's window from them"
            )
        return self.recipe

    def made_frames(self) -> dict[str, Frame]:
        """Return the frame of each window. Raises SnapshotMismatch for functions of the user."""
        return self.made().made_frames((w.name, w.frame, w.fingerprint) for w in self.windows)

    def fronts_for(self, frames: Mapping[str, Frame]) -> dict[str, int]:
        """Return the front of each window. Raises SnapshotMismatch if the windows differ."""
        names = [window.name for window in self.windows]
        if names != sorted(frames):
            raise SnapshotMismatch(
                f"the snapshot has the windows {names}, not {sorted(frames)}; use "
                "SharedWindows.restore for other windows"
            )
        for window in self.windows:
            frame = frames[window.name]
            if frame.fingerprint != window.fingerprint:
                raise SnapshotMismatch(
                    f"the snapshot's window {window.name!r} has the frame {window.frame}, not "
                    f"{frame.describe()}; use SharedWindows.restore for other windows"
                )
        return {window.name: window.front for window in self.windows}

    def fronts_of(self, frames: Mapping[str, Frame]) -> dict[str, int]:
        """Return the front of each window with the same name and frame."""
        same = (w for w in self.windows if w.name in frames)
        return {w.name: w.front for w in same if frames[w.name].fingerprint == w.fingerprint}


# --- envelopes ------------------------------------------------------------------------------------


def seal(magic: str, version: int, values: list[Any]) -> bytes:
    """Encode a snapshot of any kind: its body, followed by the digest of the body."""
    packed: bytes = msgpack.packb([magic, version, *values])
    return packed + xxhash.xxh3_128_digest(packed)


def unseal(
    data: bytes, magic: str, version: int, what: str, validated: Callable[[list[Any]], _Kind]
) -> _Kind:
    """Decode a snapshot of any kind: return ``validated(values)`` for the values in its body.

    Raises CorruptSnapshot for damaged bytes, for another kind or format, and for values that
    ``validated`` rejects with CorruptSnapshot, ValueError or TypeError.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise corrupt(f"it is {type(data).__name__}, not the bytes of a checkpoint")
    packed, digest = bytes(data[:-_DIGEST_BYTES]), bytes(data[-_DIGEST_BYTES:])
    if not packed or xxhash.xxh3_128_digest(packed) != digest:
        raise corrupt("its bytes do not match their digest")
    try:
        body = msgpack.unpackb(packed)
        if not isinstance(body, list) or body[:1] != [magic]:
            raise corrupt(f"it is not {what}")
        if body[1:2] != [version]:
            raise corrupt(f"its format is {body[1:2]}, but this release reads format {version}")
        return validated(body[2:])
    except CorruptSnapshot:
        raise
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise corrupt(str(error)) from error


_ANY_SNAPSHOT = re.compile(rb"(?:[\x90-\x9f]|\xdc..)[\xa0-\xbf]mta-[a-z]", re.DOTALL)


def is_snapshot(data: bytes) -> bool:
    """Return whether bytes start like a snapshot of any kind, damaged or not."""
    return _ANY_SNAPSHOT.match(data) is not None


# --- validation -----------------------------------------------------------------------------------

#: What a field must be: a type, or a function that says whether a value fits.
Fit = type | Callable[[Any], bool]


def is_number(value: Any, most: int = FAR) -> bool:
    """Return whether a value is an integer from 0 to below ``most``."""
    return type(value) is int and 0 <= value < most


def is_time(value: Any) -> bool:
    """Return whether a value is a time in microseconds."""
    return type(value) is int and abs(value) < FAR


def is_time_or_nil(value: Any) -> bool:
    """Return whether a value is a time in microseconds, or nil."""
    return value is None or is_time(value)


def is_mark(value: Any) -> bool:
    """Return whether a value is a fingerprint."""
    return type(value) is bytes and len(value) == FINGERPRINT_BYTES


def entry(what: str, given: Any, *fits: Fit) -> tuple[Any, ...]:
    """Return a list of values as a tuple. Raises CorruptSnapshot unless every value fits."""
    if not isinstance(given, list) or len(given) != len(fits):
        raise corrupt(f"its {what} have the wrong types")
    for item, fit in zip(given, fits, strict=True):
        if not (type(item) is fit if isinstance(fit, type) else fit(item)):
            raise corrupt(f"its {what} have the wrong types")
    return tuple(given)


def entries(what: str, given: list[Any], *fits: Fit) -> list[Any]:
    """Return lists of values as tuples; each must be like ``entry``."""
    return [entry(what, each, *fits) for each in given]


def _is_arity(value: Any) -> bool:
    return is_number(value, MAX_ARITY + 1) and value >= 2


def _is_any(value: Any) -> bool:
    return True


#: The types of the fields of a snapshot, in order.
_FIELDS: tuple[Fit, ...] = (
    str, str, list, _is_arity, _is_arity, bool, is_number, is_number, is_time_or_nil,
    is_time_or_nil, list, int, int, list, list, _is_any,
)  # fmt: skip


def _validated(values: list[Any]) -> Snapshot:
    """Return the fields as a snapshot. Raises CorruptSnapshot or TypeError for invalid fields."""
    found = Snapshot(*entry("fields", values, *_FIELDS))
    found.monoid = entry("fingerprints", found.monoid, str, is_mark)
    entry("counts", found.counts, int, int, int)
    states = entries("windows", found.windows, str, str, is_mark, is_number)
    found.windows = [WindowState(*state) for state in states]
    found.recipe = None if found.recipe is None else load_recipe(found.recipe)
    if not found.front <= found.back:
        raise corrupt("its positions are out of order")
    if not NAME.fullmatch(found.window):
        raise corrupt("the name of its window is invalid")
    names = [window.name for window in found.windows]
    if names != sorted(set(names)):
        raise corrupt("the names of its windows are not unique and in order")
    for window in found.windows if found.is_shared else ():
        if not 0 < len(window.name.encode()) <= MAX_NAME_BYTES:
            raise corrupt("the name of a window is invalid")
    for window in found.windows:
        if not found.front <= window.front <= found.back:
            raise corrupt(f"the front of window {window.name!r} is not among the events")
    return found
