"""The format of a root: all of some keyed windows that is not in pages, at most 64 KiB.

root     = body digest                                    (as a handle: ``mta.pages.handle``)
body     = msgpack array [magic, version, window, kind, monoid, policies, timed, lateness,
           number, counts, expired, runs, young, doomed, changed]
magic    = "mta-keyed"
version  = 1
window   = text, the name of the windows
kind     = of keys, one of those of ``mta.keyed.key_types``, or nil while there is no key
monoid   = [text, 16-byte fingerprint]
policies = array of [name, text, 16-byte fingerprint]; a single policy has the name ""
timed    = whether pages keep times
lateness = microseconds, or nil where events come in order; where it was less before
           [microseconds, [microseconds then, up to which moment], ...]
number   = of the newest run there ever was
counts   = [keys, keys with a window by itself, accepted, late, invalid events]
expired = nil, or the latest moment at which the windows of an expired key became empty
runs     = array of [number, weight, keys, events, height, index], the oldest first
young    = nil, or a table that weighs too little for pages, as a page of run 0
           (``mta.keyed.leaves``)
doomed   = what is to be deleted with later roots (``mta.keyed.doomed``)
changed  = [columns, changes, starts]
columns  = array of [name, kind]: what is stored of an event, in the order of pages; the name is ""
           where events are no mappings. A name that begins with a zero byte is of marks, which
           tell whether an event has a value in some other column (``mta.monoids.missing_columns``)
kind     = text, as "Array('<f8')"
changes  = how often the windows or what is computed have been changed
starts   = array of [name, moment, known]: what misses some events since a change, a window or
           marks: at most those up to a moment in microseconds (nil: any that came before), but for
           so many of each key that came right before any event that it still accepted
index    = [count, columns]; columns as in a page (``mta.keyed.pages``)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mta.errors import CorruptPage
from mta.keyed import doomed, leaves, pages
from mta.keyed.doomed import Doomed
from mta.keyed.key_types import KINDS
from mta.keyed.leaves import Leaves, TableLayout
from mta.keyed.pages import MAX_HEIGHT, Index
from mta.keyed.table import Table
from mta.keyed.tiers import Run
from mta.pages.handle import NAME, corrupt, seal, unseal

MAGIC = "mta-keyed"
VERSION = 1
MAX_BYTES = 1 << 16
#: The longest name, so that those of windows by themselves fit behind it.
NAME_LENGTH = 60
FINGERPRINT_BYTES = 16
#: The number of the run that a table in a root is of, as no run has it.
_YOUNG = 0
#: Times and durations are below this, in microseconds, and so are all other numbers.
_FAR = 1 << 62
#: Windows are not changed so often: the number is in the names of pages.
_MOST_CHANGES = 1_000_000


class Start(NamedTuple):
    """What a window, or a column, misses since a change."""

    moment: int | None
    """No later event is missing, in microseconds; None where that is not known."""
    known: int
    """Nor any of so many of each key, the last ones before any event that it accepted then."""


@dataclass(slots=True)
class Root:
    """A root's fields, in their order; see the module for what they mean."""

    window: str
    kind: str | None
    monoid: tuple[str, bytes]
    policies: list[tuple[str, str, bytes]]
    timed: bool
    lateness: int | None
    kept: Sequence[tuple[int, int]]
    number: int
    counts: list[int]
    expired: int | None
    runs: list[Run]
    young: Table | None
    doomed: Doomed
    columns: list[tuple[str, str]]
    changes: int
    starts: dict[str, Start]

    def encode(self) -> bytes:
        """The root as bytes. Raises NotPageable for values that are no plain data."""
        runs = [
            [r.number, r.weight, r.keys, r.events, r.height, pages.dump(r.top)] for r in self.runs
        ]
        young = None
        if self.young is not None:
            assert self.kind is not None
            layout = TableLayout(self.window, self.kind, self.young.schema, self.timed)
            young = leaves.encode(layout, _YOUNG, self.young)
        lateness = [self.lateness, *self.kept] if self.kept else self.lateness
        groups = [[roots, doomed.dump(entries)] for roots, entries in self.doomed.groups]
        return seal(
            MAGIC, VERSION,
            [
                self.window, self.kind, self.monoid, self.policies, self.timed,
                lateness, self.number, self.counts, self.expired, runs, young, groups,
                [self.columns, self.changes, [[n, *s] for n, s in self.starts.items()]],
            ]
        )  # fmt: skip


@dataclass(slots=True)
class Unread:
    """A root whose tables are still columns, as their layout is not known yet."""

    root: Root
    runs: list[Any]
    young: bytes | None

    @classmethod
    def decode(cls, data: bytes) -> Unread:
        """Bytes as a root. Raises CorruptSnapshot for damaged bytes or an unknown format."""
        return unseal(data, MAGIC, VERSION, "a root of keyed windows", _validated)

    def read(self, layout: TableLayout) -> Root:
        """The root. Raises CorruptSnapshot."""
        root = self.root
        try:
            for number, weight, keys, events, height, index in self.runs:
                top = pages.load(layout, 1, *index)
                assert isinstance(top, Index)
                root.runs.append(Run(number, weight, keys, events, height, top))
            if self.young is not None:
                root.young = Leaves(layout, [_YOUNG], [self.young]).table()
        except (CorruptPage, ValueError, TypeError) as error:
            raise corrupt(str(error)) from error
        return root


def is_root(data: bytes) -> bool:
    """Whether bytes begin as a root does."""
    head = bytes(data[:16])
    return head[1:11] == bytes([0xA0 | len(MAGIC)]) + MAGIC.encode()


def _validated(values: list[Any]) -> Unread:
    match values:
        case [
            str(window), str() | None as kind, [str(name), bytes(fingerprint)],
            list(policies), bool(timed), (int() | None | [int(), *_]) as lateness, int(number),
            list(counts),
            int() | None as expired, list(runs), (bytes() | None) as young, list(groups),
            [list(columns), changes, list(starts)],
        ]:  # fmt: skip
            lateness, *kept = lateness if isinstance(lateness, list) else [lateness]
            root = Root(
                window, kind, (name, fingerprint), [_policy(p) for p in policies], timed,
                lateness, [_kept(each) for each in kept], number, counts, expired, [], None,
                Doomed([], [_group(group) for group in groups]), [_column(c) for c in columns],
                changes, dict(map(_start, starts)),
            )  # fmt: skip
        case _:
            raise corrupt("its fields are of the wrong number or types")
    _require_possible(root)
    for run in runs:
        _require(run)
    return Unread(root, runs, young)


def _require_possible(root: Root) -> None:
    """Raises CorruptSnapshot for a root of fields of the right types that no windows have."""
    if not NAME.fullmatch(root.window) or len(root.window) > NAME_LENGTH:
        raise corrupt("its name cannot be")
    if root.kind not in (None, *KINDS):
        raise corrupt("its kind of keys cannot be")
    names = [name for name, _, _ in root.policies]
    if not names or len({*names}) < len(names) or ("" in names and len(names) > 1):
        raise corrupt("its windows are not one, or several of different names")
    if len(root.monoid[1]) != FINGERPRINT_BYTES:
        raise corrupt("its fingerprints are of the wrong length")
    if root.lateness is not None and not _is_number(root.lateness):
        raise corrupt("its lateness cannot be")
    if root.lateness is None and root.kept:
        raise corrupt("it has no lateness, and had one before")
    if root.expired is not None and not (root.timed and _is_time(root.expired)):
        raise corrupt("the moment up to which it has expired keys cannot be")
    _require_possible_counts(root)


def _require_possible_counts(root: Root) -> None:
    if len(root.counts) != 5 or not all(map(_is_number, root.counts)):
        raise corrupt("its counts cannot be")
    if root.counts[1] > root.counts[0]:
        raise corrupt("more keys are by themselves than there are")
    if not _is_number(root.number) or not _is_number(root.changes, _MOST_CHANGES):
        raise corrupt("its numbers cannot be")


def _is_number(value: Any, most: int = _FAR) -> bool:
    return type(value) is int and 0 <= value < most


def _is_time(value: Any) -> bool:
    return type(value) is int and abs(value) < _FAR


def _policy(entry: Any) -> tuple[str, str, bytes]:
    match entry:
        case [str(name), str(text), bytes(fingerprint)] if len(fingerprint) == FINGERPRINT_BYTES:
            return name, text, fingerprint
    raise corrupt("its policies are of the wrong types")


def _kept(entry: Any) -> tuple[int, int]:
    match entry:
        case [lateness, until] if _is_number(lateness) and _is_time(until):
            return lateness, until
    raise corrupt("what it says of lateness is of the wrong types")


def _column(entry: Any) -> tuple[str, str]:
    match entry:
        case [str(name), str(kind)] if not name.startswith("\0") or name.count("\0") >= 2:
            return name, kind
    raise corrupt("its columns are of the wrong types")


def _start(entry: Any) -> tuple[str, Start]:
    match entry:
        case [str(name), moment, known] if _is_number(known) and (
            moment is None or _is_time(moment)
        ):
            return name, Start(moment, known)
    raise corrupt("what its windows miss is of the wrong types")


def _group(entry: Any) -> tuple[int, list[doomed.Entry]]:
    match entry:
        case [roots, list(entries)] if type(roots) is int and abs(roots) < _MOST_CHANGES:
            return roots, doomed.load(entries, MAX_HEIGHT)
    raise corrupt("what is to be deleted is of the wrong types")


def _require(run: Any) -> None:
    if not isinstance(run, list) or len(run) != 6 or not all(map(_is_number, run[:5])):
        raise corrupt("its runs are of the wrong types")
    if run[4] > MAX_HEIGHT:
        raise corrupt("its runs cannot be")
    match run[-1]:
        case [int(), list()]:
            return
    raise corrupt("its runs are of the wrong types")
