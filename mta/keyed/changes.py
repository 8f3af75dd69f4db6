"""Restore windows of many keys with other windows or other aggregations.

A vectorized key is stored as its events, column by column, without aggregates. So an aggregation
of stored columns continues exactly from the retained events. A restore with other windows or
aggregations *carries over* the whole snapshot once:

    tables of the snapshot -> the events of its windows -> current columns -> one run, new pages
    standalone windows -> their events, in order -> vectorized again, or standalone windows

- Each key retains exactly the events that its previous windows retained, including those that late
  events may need (``Retention``). Other stored events may have gaps, because a merge has trimmed
  newer tables but not yet an older table.
- A column that was not stored has no values in older events. From now on it is stored with *marks*
  (``mta.monoids.product``), and aggregations that read the column start empty.
- A window that no previous window contained may miss events that have left.
- Pages of windows that depend on values alone have no times. If they are replaced by windows whose
  events have times, their keys start again.

``coverage`` reports what a window misses, and when it is complete.

A carry-over reads and writes all retained events. Earlier pages stay as long as the snapshots that
name them. The name of a new standalone window includes the number of the change, because its pages
may have the content and place of old pages, which are deleted later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat, zip_longest
from typing import Any

import numpy as np

from mta.columns.kinds import schema_of_kind
from mta.columns.reading import as_objects, read_column
from mta.columns.schemas import (
    Nullable,
    NullableColumn,
    Objects,
    Record,
    Rows,
    Schema,
    nullable,
)
from mta.errors import InvalidValue, SnapshotMismatch
from mta.frames.base import Frame
from mta.keyed.bucket import Bucket
from mta.keyed.coverage import Losses
from mta.keyed.keys import Keys
from mta.keyed.kind import Column, Columns, Retention, columns_of
from mta.keyed.leaves import Entry
from mta.keyed.snapshot import KeyedSnapshot, Start
from mta.keyed.standalone import extend, keys_in, table_of
from mta.keyed.table import ALL, STANDALONE, Lanes, Table, join
from mta.logs.base import Leaf
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import MARKS, column_names, mark_of, with_missing
from mta.windows.opaque import Opaque, restore_opaque
from stores import PageStore

_CACHED = 1 << 22
_NUMBERS = re.compile(r"Array\('[<|][biuf]\d'\)")


# --- columns ------------------------------------------------------------------------------------


def with_marks(monoid: AbstractMonoid, snapshot: KeyedSnapshot) -> AbstractMonoid:
    """Return a monoid that reads events with the columns that a snapshot stores."""
    marked = {name for name, _ in snapshot.columns if name.startswith("\0")}
    return _marked(monoid, lambda column: mark_of(column) in marked)


def stored_after(monoid: AbstractMonoid, columns: Columns) -> AbstractMonoid:
    """Return the monoid with marks for columns that may be missing from events with ``columns``."""
    marked = {name for name, _ in columns}

    def is_missing(column: tuple[str, str]) -> bool:
        origin = _origin(column, columns)
        return origin is None or mark_of(origin) in marked

    return _marked(monoid, is_missing)


def require_observed(reader: AbstractMonoid, frames: Mapping[str, Frame], columns: Columns) -> None:
    """Raise SnapshotMismatch if a frame reads a column that some events do not have."""
    observed = [names for frame in frames.values() for _, names, _ in frame.observers]
    looked_at = {name for names in observed for name in column_names(names)}
    stored = columns_of(reader)
    for column in stored:
        is_missing = _origin(column, columns) is None or (mark_of(column), repr(MARKS)) in stored
        if column[0] in looked_at and is_missing:
            raise SnapshotMismatch(
                f"a frame reads {column[0]!r}, which the events of the snapshot do not have: "
                "restore it with another frame"
            )


def _origin(column: tuple[str, str], columns: Columns) -> tuple[str, str] | None:
    """Return the stored column to read a column from: the same, or one of another kind."""
    if column in columns:
        return column
    name, kind = column
    if (name, without_nulls(kind)) in columns:
        return name, without_nulls(kind)
    if kind == "Objects()" or kind.startswith("Array('<f"):
        return next((c for c in columns if c[0] == name and _NUMBERS.fullmatch(c[1])), None)
    return None


def without_nulls(kind: str) -> str:
    """Return the kind of the same column without nulls."""
    return kind.removeprefix("Nullable(").removesuffix(")") if "Nullable(" in kind else kind


def _marked(
    monoid: AbstractMonoid, is_missing: Callable[[tuple[str, str]], bool]
) -> AbstractMonoid:
    missing = [column for column in columns_of(monoid) if column[0] and is_missing(column)]
    return with_missing(monoid, missing) if missing else monoid


def schemas_of(columns: Columns, like: AbstractMonoid | None = None) -> list[Schema]:
    """Return the schemas of stored columns. Raises SnapshotMismatch for an unknown kind."""
    stored = {} if like is None else like.stored
    known = {repr(schema): schema for schema in stored.values()}
    found: list[Schema] = []
    for name, kind in columns:
        # Another column of the same kind may have objects of another type.
        schema = stored.get((name, kind)) or schema_of_kind(kind) or known.get(kind)
        if schema is None and kind == f"Nullable({(plain := without_nulls(kind))})":
            schema = nullable(known[plain]) if plain in known else None
        if schema is None:
            raise SnapshotMismatch(
                f"the snapshot stores {name!r} as {kind}, which only the aggregation that wrote it "
                "can read: restore the snapshot with that aggregation"
            )
        found.append(schema)
    return found


def are_bare(columns: Columns) -> bool:
    """Return whether events are bare values, not mappings."""
    return [name for name, _ in columns] == [""]


def schema_of(columns: Columns, like: AbstractMonoid | None = None) -> Schema:
    """Return the schema of stored events. Raises SnapshotMismatch for an unknown kind."""
    schemas = schemas_of(columns, like)
    return schemas[0] if are_bare(columns) else Record(schemas)


# --- reading a snapshot -------------------------------------------------------------------------


@dataclass
class SnapshotSource:
    """The keys of a snapshot with the events that their windows retained; read-only."""

    snapshot: KeyedSnapshot
    store: PageStore
    like: AbstractMonoid
    """Provides the schemas of some of the columns."""
    replaces: bool
    """Whether an event is compared with existing events of its key and time."""
    nulls: Collection[Column] = ()
    """The columns in which no event may have a value."""
    #: The pages of the standalone windows that were read.
    pages: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        snapshot = self.snapshot
        self.columns = snapshot.columns
        #: Whether events are bare values, not mappings.
        self.bare = are_bare(self.columns)
        schema = schema_of(self.columns, self.like)
        self.is_record = isinstance(schema, Record)
        self.schemas = schema.columns
        frames = snapshot.known_frames()
        #: Whether all windows depend on counts and times only.
        self._are_known = len(frames) == len(snapshot.frames)
        self._retention = Retention(frames, snapshot.lateness, self.replaces, snapshot.retained)
        self._retention.read(snapshot.earlier, snapshot.earlier_asked)
        self.losses = Losses(self._retention, snapshot.starts)
        if snapshot.expired is not None:
            self.losses.add(Start(snapshot.expired, 0))
        self._tree = snapshot.tree(self.store, schema, _CACHED, self._trimmed)

    def _trimmed(self, table: Table, whole: bool) -> Table:
        """Return a table without the events that no previous window needs, which may have gaps."""
        return self._retention.trimmed(table, whole) if self._are_known else table

    def tables(self) -> Iterator[Table]:
        """Yield all keys in order, range by range. Reads every page once or twice."""
        for table in self._tree.everything():
            some = np.flatnonzero((table.marks != STANDALONE) & (table.left > 0))
            if len(some):
                lost = table.take(some)
                clocks = lost.newest() if lost.times is not None and lost.events else None
                self.losses.note(lost.lanes, clocks)
            yield table

    def _opaque(self, snapshot: bytes) -> Opaque:
        return restore_opaque(snapshot, self.store, self.schemas)

    def events(self, snapshot: bytes, left: int, last: int | None) -> tuple[int, list[Leaf]]:
        """Return a standalone window's events, and how many precede them; ``last`` is its clock."""
        events = self._opaque(snapshot)
        self.pages += keys_in(events.engine)
        clocks = None if last is None else np.array([last])
        leaves = self._needed([*events.events()], clocks)
        before = left + (leaves[0].first if leaves else events.engine.structure().back)
        if before:
            self.losses.note(_lane(leaves), clocks)
        return before, leaves

    def _needed(self, leaves: list[Leaf], clocks: np.ndarray | None) -> list[Leaf]:
        """Return leaves without the events that no previous window needs."""
        if not self._are_known or not leaves:
            return leaves
        first = leaves[0].first + int(self._retention.needed(_lane(leaves), clocks)[0])
        schema = Record([*self.schemas, Objects()])
        kept = (leaf for leaf in leaves if first < leaf.stop)
        return [leaf.between(max(leaf.first, first), leaf.stop, schema) for leaf in kept]

    def rows(self, rows: Rows, count: int, columns: Columns) -> Rows:
        """Convert stored rows to rows of other columns. Raises InvalidValue (``nulls``)."""
        if self.bare and not self.nulls:
            return rows
        found = dict(zip(self.columns, (rows,) if self.bare else rows, strict=False))
        for each in self.nulls:
            self._require_nulls(found, each)
        made = [self._column(found, column, count) for column in columns]
        return made[0] if self.bare else tuple(made)

    @staticmethod
    def _require_nulls(found: Mapping[Column, Rows], column: Column) -> None:
        """Raise InvalidValue if a column has a value, except in events from before a change."""
        values = as_objects(found[column])
        marks = found.get((mark_of(column), repr(MARKS)), repeat(True))
        if any(value is not None and here for value, here in zip(values, marks, strict=False)):
            raise InvalidValue(f"the column {column[0]!r} already has values of another type")

    def _column(self, found: Mapping[Column, Rows], wanted: Any, count: int) -> Rows:
        if wanted[0].startswith("\0"):
            origin = self.origin_of_marks(wanted[0])
            if origin is None:
                return np.zeros(count, bool)
            marks = mark_of(origin), repr(MARKS)
            return found[marks] if marks in found else np.ones(count, bool)
        origin = _origin(wanted, self.columns)
        schema = schemas_of([wanted], self.like)[0]
        is_typed = isinstance(schema, Objects) and schema.only is not None
        if origin is None or (is_typed and origin != wanted):
            return schema.blank(count)  # a column without values has taken another type
        if origin == wanted:
            return found[origin]
        if isinstance(schema, Nullable) and origin[1] == without_nulls(wanted[1]):
            return NullableColumn(found[origin])
        return read_column(found[origin], schema)

    def origin_of_marks(self, name: str) -> tuple[str, str] | None:
        """Return the stored column from which a column of marks is read."""
        _, column, kind = name.split("\0", 2)
        return _origin((column, kind), self.columns)

    def of_window(self, leaf: Leaf, columns: Columns) -> Rows:
        """Return the rows of a leaf of a standalone window, without the columns of frames."""
        rows = leaf.rows[: len(self.schemas)]
        return self.rows(rows if self.is_record else rows[0], leaf.count, columns)


# --- carrying over ------------------------------------------------------------------------------


def carry(source: SnapshotSource, bucket: Bucket) -> None:
    """Add everything in a snapshot to a new bucket, as one run.

    If a store call fails, nothing has changed except for pages that no snapshot names, and a
    second attempt writes the same pages.
    """
    tree, snapshot = bucket.tree, source.snapshot
    found = [0, 0]

    def fed() -> Iterator[Table]:
        for table in source.tables():
            made = _fed(source, table, bucket)
            found[0] += len(made)
            found[1] += len(made.standalone)
            yield made

    run = tree.pages.write(tree.number + 1, fed())
    tree.number += 1
    tree.runs = [] if run is None else [run]
    bucket.counts = replace(snapshot.counts, keys=found[0], standalone=found[1])


def _fed(source: SnapshotSource, table: Table, bucket: Bucket) -> Table:
    """Return the keys of a table as a bucket stores them."""
    kind, schema = bucket.kind, bucket.tree.layout.schema
    columns = columns_of(kind.reader)
    plain = table.take(np.flatnonzero(table.marks != STANDALONE))
    rows = source.rows(plain.rows, plain.events, columns)
    plain = kind.trimmed(replace(plain, schema=schema, rows=rows))
    plain.marks[:] = ALL
    grown = plain.counts > (kind.settings.promote_at if kind.vectorized else -1)
    if (unsteady := kind.unsteady(plain)) is not None:
        grown |= unsteady
    tables = [plain.take(np.flatnonzero(~grown))]
    for place in np.flatnonzero(grown).tolist():
        events = plain.events_between(*plain.bounds[place : place + 2].tolist())
        last = None if events.times is None else int(events.times[-1])
        keys, leaves = plain.keys.cut(place, place + 1), [Leaf(0, *events)]
        tables.append(_standalone(bucket, keys, int(plain.left[place]), last, leaves))
    for place in table.standalone.tolist():
        keys = table.keys.cut(place, place + 1)
        last = None if table.times is None else int(table.newest()[place])
        snapshot = table.snapshot_of(place)
        left, leaves = source.events(snapshot, int(table.left[place]), last)
        leaves = [Leaf(0, source.of_window(f, columns), f.times, f.count) for f in leaves]
        if leaves and leaves[0].times is None and bucket.standalone.pattern.timed:
            source.losses.give_up(last)
            left, leaves = left + sum(leaf.count for leaf in leaves), []
        elif _fits(bucket, last, leaves):
            found = kind.trimmed(table_of(schema, keys, left, leaves, kind.timed))
            if kind.unsteady(found) is None:
                tables.append(found)
                continue
        tables.append(_standalone(bucket, keys, left, last, leaves))
    return join(tables, late=False)


def _fits(bucket: Bucket, clock: int | None, leaves: Sequence[Leaf]) -> bool:
    """Return whether a key can be vectorized: few events, the newest of them at its clock."""
    kind, times = bucket.kind, leaves[-1].times if leaves else None
    few = 0 < sum(leaf.count for leaf in leaves) <= kind.settings.promote_at
    is_newest = not kind.timed or (times is not None and int(times[-1]) == clock)
    return kind.vectorized and few and is_newest


def _lane(leaves: Sequence[Leaf]) -> Lanes:
    """Return the events of one key as a lane."""
    times = [leaf.times for leaf in leaves if leaf.times is not None]
    bounds = np.array([0, sum(leaf.count for leaf in leaves)])
    return Lanes(bounds, np.concatenate(times) if times else None)


def _standalone(
    bucket: Bucket, keys: Keys, left: int, last: int | None, leaves: Sequence[Leaf]
) -> Table:
    """Start the window of a key with its events, which follow ``left`` others; return its entry."""
    layout, events = bucket.tree.layout, sum(leaf.count for leaf in leaves)
    engine = bucket.standalone.begin(keys.packed(0), events, bucket.generation)
    for leaf in leaves:
        extend(bucket.kind, engine, leaf.events)
    if bucket.kind.settings.lateness is not None:
        engine.intake.advance(last)  # after a retraction, later than the newest event
        if engine.is_single:
            engine.pass_to(last)
    newest = np.array([last], "<i8") if layout.timed else None
    snapshots = [engine.snapshot()]
    return Table.entries(layout.schema, keys, np.array([left], "<i8"), newest, snapshots)


def starts_after(
    source: SnapshotSource, monoid: AbstractMonoid, frames: Mapping[str, Frame]
) -> dict[str, Start]:
    """Return what the new windows and columns miss after a carry-over."""
    found, starts = dict[str, Start](), source.snapshot.starts
    for name, frame in frames.items():
        same = [n for n, _, mark in source.snapshot.frames if mark == frame.fingerprint]
        start = source.losses.of(frame, same)
        if start is not None:
            found[name] = start
    for name, _ in columns_of(monoid):
        if name.startswith("\0"):
            origin = source.origin_of_marks(name)
            if origin is None:
                found[name] = Start(source.snapshot.newest, 0)
            elif mark_of(origin) in starts:
                found[name] = starts[mark_of(origin)]
    return found


# --- differences --------------------------------------------------------------------------------


def require_suitable(found: KeyedSnapshot, wanted: KeyedSnapshot, monoid: AbstractMonoid) -> None:
    """Raise SnapshotMismatch if ``found`` does not suit windows that would write ``wanted``."""
    why = None
    named = all(name for name, _ in (*found.columns, *columns_of(monoid)))
    suits = named or found.columns == columns_of(monoid)
    if found.monoid[1] == wanted.monoid[1]:  # there may be columns of marks and of frames too
        suits = dict(columns_of(monoid)).keys() <= dict(found.columns).keys()
    if not suits:
        why = "the monoid reads other values: give a Product of stored columns"
    if (found.lateness is None) != (wanted.lateness is None):
        why = "its events are in order of " + (
            "arrival: leave out allowed_lateness"
            if found.lateness is None
            else "time: set allowed_lateness"
        )
    if found.timed != wanted.timed:
        why = "its events have " + (
            "times: set timed=True" if found.timed else "no times: take windows by count alone"
        )
    for name, read in columns_of(monoid):
        if (name, f"Nullable({read})") in found.columns and (name, read) not in found.columns:
            why = f"its events may have nulls in {name!r}: set nulls='skip'"
    if why is not None:
        titles = "the snapshot has", "requested"
        shown = side_by_side(_described(found), _described(wanted), titles)
        raise SnapshotMismatch(f"the snapshot does not match these windows, as {why}\n{shown}")


def _described(snapshot: KeyedSnapshot) -> list[tuple[str, str]]:
    """Return a name and a text for each setting of a snapshot."""
    lateness = "in order" if snapshot.lateness is None else f"{snapshot.lateness / 1e6} s"
    return [
        ("monoid", snapshot.monoid[0]),
        *((f"window {name}".rstrip(), text) for name, text, _ in sorted(snapshot.frames)),
        ("allowed lateness", lateness),
        ("retained for questions", f"{snapshot.retained / 1e6} s"),
        ("timed", str(snapshot.timed)),
    ]


def side_by_side(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]], titles: tuple[str, str]
) -> str:
    """Format two descriptions side by side, with an asterisk before lines that differ.

    >>> print(side_by_side([("window", "3")], [("window", "5")], ("saved", "asked")))
                saved  asked
    * window    3      5
    """
    names = dict.fromkeys(name for name, _ in [*old, *new])
    lines = [("  ", "", *titles)]
    for name in names:
        texts = [[text for each, text in side if each == name] for side in (old, new)]
        for one, other in zip_longest(*texts, fillvalue="-"):
            lines.append(("  " if one == other else "* ", name, one, other))
    widths = [max(len(line[at]) for line in lines) for at in (1, 2)]
    widths[0] = max(widths[0], 8)
    return "\n".join(
        f"{mark}{name:{widths[0]}}  {one:{widths[1]}}  {other}".rstrip()
        for mark, name, one, other in lines
    )
