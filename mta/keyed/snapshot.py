"""The format of a snapshot of keyed windows: everything that is not in pages, at most 64 KiB.

snapshot = body digest                              (as for a window: ``mta.pages``)
body     = msgpack array [magic, version, window, kind, monoid, frames, timed, spans,
           number, counts, moments, runs, memtable, pending, changed, recipe]
magic    = "mta-keyed"
version  = 3
window   = text, the name of the windows
kind     = type of the keys, one of those in ``mta.keyed.key_types``, or nil if there are no keys
monoid   = [text, 16-byte fingerprint]
frames = array of [name, text, 16-byte fingerprint]; a single frame has the name ""
timed    = whether pages contain times
spans    = [late, asked]
late     = [lateness in microseconds, or nil if events must come in order; earlier ...]
asked    = [span for questions in microseconds, earlier ...]
earlier  = [a smaller value in microseconds, the last moment at which it applied]
number   = number of the newest run so far
counts   = [keys, keys with a standalone window, accepted events, late events, invalid events,
           events ahead of the clock]
moments  = [expired, newest]; both are nil if there is none
expired  = the latest moment at which the windows of an expired key became empty
newest   = the newest time of any event so far, in microseconds
runs     = array of [number, weight, height, index], the oldest first
memtable = nil, or a table that is too small for pages, encoded as a page of run 0
           (``mta.keyed.leaves``)
pending  = pages to delete with later snapshots (``mta.keyed.lsm``)
changed  = [columns, changes, starts]
columns  = array of [name, kind]: the stored columns of an event, in the order of pages; the name is
           "" if events are not mappings. A name that begins with a zero byte belongs to a column of
           marks, which say whether an event has a value in another column
           (``mta.monoids.product``)
kind     = text, such as "Array('<f8')"
changes  = how often the windows or the aggregations have been changed
starts   = array of [name, moment, known]: a window or a column of marks that misses events since a
           change. No event after ``moment`` (microseconds, nil if unknown) is missing, nor any of
           the last ``known`` events of a key before those that it still accepted at the change
recipe   = how the windows were made (``mta.descriptions``)
index    = [count, columns]; columns as in a page (``mta.keyed.leaves``)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple

from mta.columns.kinds import schema_of_kind
from mta.columns.schemas import Schema
from mta.descriptions import Recipe, load_recipe
from mta.frames.base import Frame
from mta.frames.known import frame_from_text
from mta.keyed import leaves
from mta.keyed.key_types import KINDS
from mta.keyed.leaves import MAX_HEIGHT, Index, TableLayout
from mta.keyed.lsm import LSMTree, PendingDeletions, Run, RunPages, untrimmed
from mta.keyed.table import Table
from mta.pages import NAME, corrupt, key_of
from mta.snapshots import (
    FINGERPRINT_BYTES,
    entries,
    is_number,
    is_time,
    is_time_or_nil,
    seal,
    unseal,
)
from stores import PageStore

MAGIC = "mta-keyed"
VERSION = 3
MAX_BYTES = 1 << 16
#: The maximum length of a name, so that the names of standalone windows can append to it.
NAME_LENGTH = 60
#: The maximum number of changes of windows; this number is in the names of pages.
_MOST_CHANGES = 1_000_000


class Start(NamedTuple):
    """What a window or a column misses since a change."""

    moment: int | None
    """In microseconds; no later event is missing. None if unknown."""
    known: int
    """How many events right before the oldest one that a key still accepts are not missing."""


@dataclass(slots=True)
class KeyCounts:
    """The numbers of keys and of standalone windows, and of events since the beginning."""

    keys: int = 0
    standalone: int = 0
    inserted: int = 0
    late: int = 0
    invalid: int = 0
    ahead: int = 0


@dataclass(slots=True)
class KeyedSnapshot:
    """The fields of a snapshot, which the docstring of the module describes."""

    window: str
    kind: str | None
    monoid: tuple[str, bytes]
    frames: list[tuple[str, str, bytes]]
    timed: bool
    lateness: int | None
    retained: int
    earlier: Sequence[tuple[int, int]]
    earlier_asked: Sequence[tuple[int, int]]
    number: int
    counts: KeyCounts
    expired: int | None
    newest: int | None
    runs: list[Run]
    memtable: bytes | None
    """A page, which is decoded once the schema of the events is known."""
    pending: PendingDeletions
    columns: list[tuple[str, str]]
    changes: int
    starts: dict[str, Start]
    recipe: Recipe

    @classmethod
    def decode(cls, data: bytes) -> KeyedSnapshot:
        """Decode a snapshot. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "a snapshot of keyed windows", _validated)

    def layout(self, schema: Schema) -> TableLayout:
        """Return the layout of tables for a schema; with integer keys if there are no keys."""
        return TableLayout(self.window, self.kind or "int", schema, self.timed)

    def tree(
        self, store: PageStore, schema: Schema, cached: int,
        trim: Callable[[Table, bool], Table] = untrimmed,
    ) -> LSMTree:  # fmt: skip
        """Return a tree for reading, with a cache of ``cached`` bytes. Raises CorruptSnapshot."""
        layout = self.layout(schema)
        tree = LSMTree(layout, RunPages(store, layout, 1, cached), self.lateness is not None, trim)
        return tree.load(self.runs, self.memtable)

    def known_frames(self) -> dict[str, Frame]:
        """Return the frames that depend on counts and times only, by window."""
        found = {name: frame_from_text(text, mark) for name, text, mark in sorted(self.frames)}
        return {name: frame for name, frame in found.items() if frame is not None}

    def made_frames(self) -> dict[str, Frame]:
        """Return the frame of each window. Raises SnapshotMismatch for functions of the user."""
        return self.recipe.made_frames(self.frames)

    def encode(self) -> bytes:
        """Encode the snapshot as bytes."""
        runs = [[run.number, run.weight, run.height, leaves.dump(run.top)] for run in self.runs]
        spans = [[self.lateness, *self.earlier], [self.retained, *self.earlier_asked]]
        groups = [
            [snapshots, leaves.dump_entries(entries)] for snapshots, entries in self.pending.groups
        ]
        return seal(
            MAGIC, VERSION,
            [
                self.window, self.kind, self.monoid, self.frames, self.timed,
                spans, self.number, astuple(self.counts), [self.expired, self.newest], runs,
                self.memtable, groups,
                [self.columns, self.changes, [[n, *s] for n, s in self.starts.items()]],
                self.recipe.dump(),
            ]
        )  # fmt: skip

    def first_page(self) -> str | None:
        """Return the key of a page of a run; None if there is none."""
        for run in self.runs:
            if len(run.top):
                return key_of(self.window, run.height, run.number, bytes(run.top.names[0]))
        return None


def is_keyed_snapshot(data: bytes) -> bool:
    """Return whether bytes start like a snapshot of keyed windows."""
    magic = bytes([0xA0 | len(MAGIC)]) + MAGIC.encode()
    return bytes(data[:16]).find(magic) in (1, 3)  # after the header of an array


def _validated(values: list[Any]) -> KeyedSnapshot:
    match values:
        case [
            str(window), str() | None as kind, [str(name), bytes(fingerprint)],
            list(frames), bool(timed), [[lateness, *earlier], [retained, *earlier_asked]],
            number, counts, [expired, newest], list(runs), (bytes() | None) as memtable,
            list(groups), [list(columns), changes, list(starts)], recipe,
        ]:  # fmt: skip
            pass
        case _:
            raise corrupt("its fields are of the wrong number or types")
    (of_counts,) = entries("counts", [counts], *[is_number] * len(fields(KeyCounts)))
    of_runs = [
        Run(of, weight, height, leaves.load(Index.load, *top))
        for of, weight, height, top in entries("runs", runs, *[is_number] * 3, list)
    ]
    of_starts = entries("starts", starts, str, is_time_or_nil, is_number)
    of_groups = entries("pending deletions", groups, is_number, list)
    snapshot = KeyedSnapshot(
        window, kind, (name, fingerprint), entries("frames", frames, str, str, bytes), timed,
        lateness, retained, entries("lateness", earlier, is_number, is_time),
        entries("retention", earlier_asked, is_number, is_time), number, KeyCounts(*of_counts),
        expired, newest, of_runs, memtable,
        PendingDeletions([], [(count, leaves.load_entries(each)) for count, each in of_groups]),
        entries("columns", columns, str, str), changes,
        {name: Start(moment, known) for name, moment, known in of_starts},
        load_recipe(recipe),
    )  # fmt: skip
    _require_possible(snapshot)
    if kind is None and (runs or memtable is not None or snapshot.counts.keys):
        raise corrupt("it has keys, but not their type")
    return snapshot


def _require_possible(snapshot: KeyedSnapshot) -> None:
    """Raise CorruptSnapshot or ValueError for fields with impossible values."""
    names = [name for name, _, _ in snapshot.frames]
    marks = [snapshot.monoid[1], *(mark for _, _, mark in snapshot.frames)]
    columns = [name for name, _ in snapshot.columns]
    for _, kind in snapshot.columns:
        schema_of_kind(kind)
    lateness, moments = snapshot.lateness, (snapshot.expired, snapshot.newest)
    possible = {
        "name": NAME.fullmatch(snapshot.window) and len(snapshot.window) <= NAME_LENGTH,
        "type of keys": snapshot.kind in (None, *KINDS),
        "list of windows": len({*names}) == len(names) > 0 and ("" not in names or names == [""]),
        "fingerprint": all(len(mark) == FINGERPRINT_BYTES for mark in marks),
        "lateness": is_number(lateness) or (lateness is None and not snapshot.earlier),
        "retention for questions": is_number(snapshot.retained),
        "number": is_number(snapshot.number) and is_number(snapshot.changes, _MOST_CHANGES),
        "number of standalone windows": snapshot.counts.standalone <= snapshot.counts.keys,
        "moment": all(is_time_or_nil(m) and (m is None or snapshot.timed) for m in moments),
        "run": all(run.height <= MAX_HEIGHT for run in snapshot.runs),
        "column": all(not name.startswith("\0") or name.count("\0") >= 2 for name in columns),
    }
    for what, holds in possible.items():
        if not holds:
            raise corrupt(f"it has an invalid {what}")
