"""The format of a snapshot of keyed windows: everything that is not in pages, at most 64 KiB.

snapshot = body digest                              (as for a window: ``mta.pages``)
body     = msgpack array [magic, version, window, kind, monoid, policies, timed, lateness,
           number, counts, expired, runs, memtable, pending, changed]
magic    = "mta-keyed"
version  = 1
window   = text, the name of the windows
kind     = type of the keys, one of those in ``mta.keyed.key_types``, or nil if there are no keys
monoid   = [text, 16-byte fingerprint]
policies = array of [name, text, 16-byte fingerprint]; a single policy has the name ""
timed    = whether pages contain times
lateness = microseconds, or nil if events must come in order; [late, asked] if events are retained
           for questions, or if one of the two settings had a smaller value earlier
late     = [lateness, [earlier value in microseconds, last moment at which it applied], ...]
asked    = [retain_for, [earlier value in microseconds, last moment at which it applied], ...]
number   = number of the newest run so far
counts   = [keys, keys with a standalone window, accepted events, late events, invalid events,
           events ahead of the clock]
expired = nil, or the latest moment at which the windows of an expired key became empty
runs     = array of [number, weight, keys, events, height, index], the oldest first
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
index    = [count, columns]; columns as in a page (``mta.keyed.leaves``)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple

from mta.columns.schemas import Schema
from mta.errors import CorruptPage
from mta.keyed import leaves
from mta.keyed.key_types import KINDS
from mta.keyed.leaves import MAX_HEIGHT, Index, Leaves, TableLayout
from mta.keyed.lsm import LSMTree, PageSize, PendingDeletions, Run, RunPages
from mta.keyed.table import Table
from mta.monoids.base import same_value
from mta.pages import NAME, corrupt, seal, unseal
from stores import PageStore

MAGIC = "mta-keyed"
VERSION = 1
MAX_BYTES = 1 << 16
#: The maximum length of a name, so that the names of standalone windows can append to it.
NAME_LENGTH = 60
FINGERPRINT_BYTES = 16
#: The run number of a table in a snapshot; no run has it.
_MEMTABLE = 0
#: An upper bound for times and durations in microseconds, and for all other numbers.
_FAR = 1 << 62
#: The maximum number of changes of windows; this number is in the names of pages.
_MOST_CHANGES = 1_000_000


class Start(NamedTuple):
    """What a window or a column misses since a change."""

    moment: int | None
    """In microseconds; no later event is missing. None if unknown."""
    known: int
    """How many events right before the oldest one that a key still accepts are not missing."""


@dataclass(slots=True)
class Counts:
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
    policies: list[tuple[str, str, bytes]]
    timed: bool
    lateness: int | None
    retain_for: int
    earlier: Sequence[tuple[int, int]]
    earlier_asked: Sequence[tuple[int, int]]
    number: int
    counts: Counts
    expired: int | None
    runs: list[Run]
    memtable: Table | None
    pending: PendingDeletions
    columns: list[tuple[str, str]]
    changes: int
    starts: dict[str, Start]

    def encode(self) -> bytes:
        """Encode the snapshot as bytes. Raises NotPageable for values that are not plain data."""
        runs = [
            [r.number, r.weight, r.keys, r.events, r.height, leaves.dump(r.top)] for r in self.runs
        ]
        memtable = None
        if self.memtable is not None:
            assert self.kind is not None
            layout = TableLayout(self.window, self.kind, self.memtable.schema, self.timed)
            memtable = leaves.encode_table(layout, _MEMTABLE, self.memtable)
        lateness: Any = self.lateness
        if self.retain_for or self.earlier or self.earlier_asked:
            lateness = [[lateness, *self.earlier], [self.retain_for, *self.earlier_asked]]
        groups = [
            [snapshots, leaves.dump_entries(entries)] for snapshots, entries in self.pending.groups
        ]
        return seal(
            MAGIC, VERSION,
            [
                self.window, self.kind, self.monoid, self.policies, self.timed,
                lateness, self.number, astuple(self.counts), self.expired, runs, memtable, groups,
                [self.columns, self.changes, [[n, *s] for n, s in self.starts.items()]],
            ]
        )  # fmt: skip


@dataclass(slots=True)
class UnreadSnapshot:
    """A snapshot whose tables are still encoded, because their layout is not known yet."""

    snapshot: KeyedSnapshot
    runs: list[Any]
    memtable: bytes | None

    @classmethod
    def decode(cls, data: bytes) -> UnreadSnapshot:
        """Decode a snapshot. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "a snapshot of keyed windows", _validated)

    def layout(self, schema: Schema) -> TableLayout:
        """Return the layout of tables for a schema; with integer keys if there are no keys."""
        found = self.snapshot
        return TableLayout(found.window, found.kind or "int", schema, found.timed)

    def tree(
        self, store: PageStore, schema: Schema, cached: int,
        trim: Callable[[Table], Table] = same_value,
    ) -> LSMTree:  # fmt: skip
        """Return a tree for reading, with a cache of ``cached`` bytes. Raises CorruptSnapshot."""
        layout = self.layout(schema)
        pages, found = RunPages(store, layout, PageSize(1, cached)), self.read(layout)
        tree = LSMTree(layout, pages, found.lateness is not None, trim)
        return tree.load(found.runs, found.memtable)

    def read(self, layout: TableLayout) -> KeyedSnapshot:
        """Return the snapshot with decoded tables. Raises CorruptSnapshot."""
        snapshot = self.snapshot
        try:
            for number, weight, keys, events, height, index in self.runs:
                top = leaves.load(layout, 1, *index)
                assert isinstance(top, Index)
                snapshot.runs.append(Run(number, weight, keys, events, height, top))
            if self.memtable is not None:
                snapshot.memtable = Leaves(layout, [_MEMTABLE], [self.memtable]).table()
        except (CorruptPage, ValueError, TypeError) as error:
            raise corrupt(str(error)) from error
        return snapshot


def is_keyed_snapshot(data: bytes) -> bool:
    """Return whether bytes start like a snapshot of keyed windows."""
    head = bytes(data[:16])
    return head[1:11] == bytes([0xA0 | len(MAGIC)]) + MAGIC.encode()


def _validated(values: list[Any]) -> UnreadSnapshot:
    match values:
        case [
            str(window), str() | None as kind, [str(name), bytes(fingerprint)],
            list(policies), bool(timed), (int() | None | [[int(), *_], [int(), *_]]) as lateness,
            int(number), list(counts),
            int() | None as expired, list(runs), (bytes() | None) as memtable, list(groups),
            [list(columns), changes, list(starts)],
        ]:  # fmt: skip
            late: Any
            asked: Any
            late, asked = lateness if isinstance(lateness, list) else [[lateness], [0]]
            earlier, earlier_asked = ([_earlier(each) for each in e[1:]] for e in (late, asked))
            snapshot = KeyedSnapshot(
                window, kind, (name, fingerprint), [_policy(p) for p in policies], timed,
                late[0], asked[0], earlier, earlier_asked, number, _counts(counts), expired,
                [], None, PendingDeletions([], [_group(group) for group in groups]), [_column(c)
                for c in columns], changes, dict(map(_start, starts)),
            )  # fmt: skip
        case _:
            raise corrupt("its fields are of the wrong number or types")
    _require_possible(snapshot)
    for run in runs:
        _require(run)
    return UnreadSnapshot(snapshot, runs, memtable)


def _require_possible(snapshot: KeyedSnapshot) -> None:
    """Raise CorruptSnapshot for fields of the right types with impossible values."""
    if not NAME.fullmatch(snapshot.window) or len(snapshot.window) > NAME_LENGTH:
        raise corrupt("its name is invalid")
    if snapshot.kind not in (None, *KINDS):
        raise corrupt("its type of keys is invalid")
    names = [name for name, _, _ in snapshot.policies]
    if not names or len({*names}) < len(names) or ("" in names and len(names) > 1):
        raise corrupt("its windows do not have distinct names")
    if len(snapshot.monoid[1]) != FINGERPRINT_BYTES:
        raise corrupt("its fingerprints are of the wrong length")
    if snapshot.lateness is not None and not _is_number(snapshot.lateness):
        raise corrupt("its lateness is invalid")
    if not _is_number(snapshot.retain_for) or (snapshot.lateness is None and snapshot.earlier):
        raise corrupt("its retention for questions is invalid")
    if snapshot.expired is not None and not (snapshot.timed and _is_time(snapshot.expired)):
        raise corrupt("its time of expiry is invalid")
    _require_possible_counts(snapshot)


def _require_possible_counts(snapshot: KeyedSnapshot) -> None:
    if snapshot.counts.standalone > snapshot.counts.keys:
        raise corrupt("it counts more standalone windows than keys")
    if not _is_number(snapshot.number) or not _is_number(snapshot.changes, _MOST_CHANGES):
        raise corrupt("its numbers are invalid")


def _is_number(value: Any, most: int = _FAR) -> bool:
    return type(value) is int and 0 <= value < most


def _is_time(value: Any) -> bool:
    return type(value) is int and abs(value) < _FAR


def _counts(entry: list[Any]) -> Counts:
    if len(entry) != len(fields(Counts)) or not all(map(_is_number, entry)):
        raise corrupt("its counts are invalid")
    return Counts(*entry)


def _policy(entry: Any) -> tuple[str, str, bytes]:
    match entry:
        case [str(name), str(text), bytes(fingerprint)] if len(fingerprint) == FINGERPRINT_BYTES:
            return name, text, fingerprint
    raise corrupt("its policies have the wrong types")


def _earlier(entry: Any) -> tuple[int, int]:
    match entry:
        case [lateness, until] if _is_number(lateness) and _is_time(until):
            return lateness, until
    raise corrupt("its lateness has the wrong types")


def _column(entry: Any) -> tuple[str, str]:
    match entry:
        case [str(name), str(kind)] if not name.startswith("\0") or name.count("\0") >= 2:
            return name, kind
    raise corrupt("its columns have the wrong types")


def _start(entry: Any) -> tuple[str, Start]:
    match entry:
        case [str(name), moment, known] if _is_number(known) and (
            moment is None or _is_time(moment)
        ):
            return name, Start(moment, known)
    raise corrupt("its record of incomplete windows has the wrong types")


def _group(entry: Any) -> tuple[int, list[leaves.Entry]]:
    match entry:
        case [snapshots, list(entries)] if (
            type(snapshots) is int and abs(snapshots) < _MOST_CHANGES
        ):
            return snapshots, leaves.load_entries(entries, MAX_HEIGHT)
    raise corrupt("its pending deletions have the wrong types")


def _require(run: Any) -> None:
    if not isinstance(run, list) or len(run) != 6 or not all(map(_is_number, run[:5])):
        raise corrupt("its runs have the wrong types")
    if run[4] > MAX_HEIGHT:
        raise corrupt("its runs are invalid")
    match run[-1]:
        case [int(), list()]:
            return
    raise corrupt("its runs have the wrong types")
