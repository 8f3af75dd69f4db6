"""One micro-batch of one bucket of keys, by whole columns: a root and rows in, the same out.

As ``step`` it is a pure function of its arguments and the pages in the store. What differs is that
no key costs anything by itself: the windows of all keys are one structure, ``mta.keyed``, of which
Spark's state holds a root of at most 64 KiB. New events are written, and little else.

    rows of the bucket -> sorted by key and time -> KeyedWindows -> results beside the rows

Windows are swept that go by count and time, under monoids of columns (``is_swept``); for the others
``step`` goes key by key.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from mta.errors import HandleMismatch, InvalidValue, LateEvent
from mta.keyed.bucket import Advance, Batch, Bucket, Want
from mta.keyed.keys import of_packed, ranked
from mta.keyed.root import Unread
from mta.keyed.sweep import is_swept
from mta.keyed.table import Table
from mta.keyed.windows import KeyedWindows
from mta.triggers.rules import EveryCount
from spark_integration.errors import StateMismatch
from spark_integration.plan import Plan, column_name
from spark_integration.step.columns import Ints, to_arrow, to_numpy
from spark_integration.step.lateness import late_event, remedy_of
from spark_integration.step.results import Counts, marked, with_emptied
from spark_integration.step.rows import Sorted
from spark_integration.step.states import Bucket as Handles
from stores.base import PageStore

#: Keys as the state knows them: each key's values as msgpack.
_KIND = "bytes"


def sweeps(plan: Plan) -> bool:
    """Whether a plan's windows are swept by columns."""
    by_rows = not plan.by_boundaries and not (plan.appends and plan.lateness is not None)
    return by_rows and is_swept(plan.monoid, list(plan.policies.values()))


def may_carry_over(handles: Handles, plan: Plan) -> bool:
    """Whether all that keys remember of late rows is their newest event, as roots have no more.

    So it is, but for some time after a greater lateness was allowed, or a silent key spoke again.
    """
    each = handles.keys.values()
    return all(s.floor is None or s.floor <= s.last_time - plan.patience for s in each)


class Sweep:
    """The windows of one bucket, out of a root or as they begin, and a micro-batch of theirs."""

    def __init__(self, plan: Plan, store: PageStore, before: bytes | Handles | None) -> None:
        self.plan = plan
        settings: dict[str, Any] = {
            "arity": plan.arity, "leaf_arity": plan.leaf_arity, "late": "drop",
            "invalid": "drop", "retain": plan.retain, "timed": True,
        }  # fmt: skip
        if plan.by_time:
            settings["lateness"] = (plan.lateness or 0) / 1e6
        if isinstance(before, bytes):
            self.windows = _restored(before, plan, store, settings)
        else:
            # With all rows in hand, and no more to come, a batch query needs no pages.
            most = 1 << 24 if plan.temporary else 1024
            name = f"{plan.name}.{plan.fingerprint()[:4].hex()}"
            settings |= {"promote_at": most, "store": None if plan.temporary else store}
            self.windows = KeyedWindows(plan.monoid, plan.policy, name=name, **settings)
        self.bucket = self.windows.bucket_of(_KIND)
        if isinstance(before, Handles):
            _carry_over(before, self.bucket)

    def advance(self, group: Sorted) -> Advance:
        """Take in sorted rows. Raises InvalidValue and LateEvent, as the plan says."""
        plan = self.plan
        keys, ranks = ranked(group.keys, _KIND)
        codes = np.repeat(ranks, np.diff(group.bounds))
        columns = {name: to_numpy(group.rows.column(name)) for name in plan.values}
        count = group.rows.num_rows
        rows, _ = plan.monoid.rows(columns or range(count), count)
        invalid = plan.monoid.invalid(rows, count) if count else None
        if invalid is not None and plan.invalid == "error":
            raise InvalidValue(
                f"bad value: {int(invalid.sum())} of {count} rows of a bucket hold a NaN, or what "
                "no aggregation takes; filter them out, or set invalid='drop' to drop and count "
                "them"
            )
        each = plan.output == "event" or plan.every is not None
        want: Want = "each" if each else "last"
        done = self.bucket.advance(
            Batch(keys, codes, rows, group.times, invalid, late_first=True), want
        )
        if done.late is not None and plan.late == "error":
            raise _late(done.late, group, plan)
        return done

    def forget(self, watermark: int | None) -> Table | None:
        """Forget the keys whose windows are empty by the watermark."""
        lifetime = self.plan.lifetime
        if watermark is None or lifetime is None or self.plan.temporary:
            return None
        return self.bucket.forget(watermark - self.plan.patience - lifetime - 1, lifetime)

    def timer(self, watermark: int | None) -> int | None:
        """Once the watermark is later than this, the bucket must be called; None for never."""
        lifetime = self.plan.lifetime
        if lifetime is None:
            return None
        if self.bucket.is_deleting:
            return watermark or 0
        earliest = self.bucket.earliest()
        return None if earliest is None else earliest + lifetime + self.plan.patience


def _restored(root: bytes, plan: Plan, store: PageStore, settings: dict[str, Any]) -> KeyedWindows:
    try:
        return KeyedWindows.restore(root, plan.monoid, plan.policy, store, **settings)
    except HandleMismatch as error:
        # The state is of this plan, whose fingerprint leaves out how late events may be.
        kept = (Unread.decode(root).root.lateness or 0) / 1e6
        raise StateMismatch(
            f"this checkpoint keeps events for an allowed_lateness of {kept} s, and the query asks "
            f"for {plan.patience / 1e6} s, for which some are gone: set allowed_lateness={kept}, "
            "or start with a new checkpoint folder"
        ) from error


def _carry_over(handles: Handles, bucket: Bucket) -> None:
    """The windows of a state of handles, each a window by itself from now on."""
    packed = sorted(handles.keys)
    if packed:
        keys = of_packed(_KIND, packed)
        saved = [handles.keys[keys.packed(at)] for at in range(len(keys))]
        bucket.carry_over(keys, [each.last_time for each in saved], [s.handle for s in saved])
    bucket.forgotten = handles.forgotten
    for doomed in handles.doomed:
        bucket.doom(doomed.handle, doomed.calls - 1)


def _late(late: np.ndarray, group: Sorted, plan: Plan) -> LateEvent:
    place = int(np.argmax(late))
    number = int(np.searchsorted(group.bounds, place, side="right")) - 1
    first, end = group.bounds[number], group.bounds[number + 1]
    key = ", ".join(map(str, msgpack.unpackb(group.keys[number])))
    by = f"more than {plan.patience / 1e6} s " if plan.patience else ""
    old = f"{by}older than its last one"
    counts = int(late[first:end].sum()), end - first
    return late_event(key, counts, old, remedy_of(plan), int(group.times[place]), plan)


# --- results --------------------------------------------------------------------------------------


def results_of(sweep: Sweep, group: Sorted, done: Advance, gone: Table | None) -> pa.Table:
    """All rows that come out: those that have results, and what ``silent`` and ``late`` add."""
    plan = sweep.plan
    places, picked = _picked(plan, done)
    emptied = None
    if plan.silent == "emit":
        emptied = _emptied(plan, done, group, gone)
        if gone is not None and len(gone) and plan.output == "last":
            of_gone = done.keys.find(gone.keys)
            kept = ~np.isin(_keys_of(done, picked, plan), of_gone[of_gone >= 0])
            places, picked = places[kept], picked[kept]
    rows = group.rows
    if len(places) < rows.num_rows or (places[1:] < places[:-1]).any():
        rows = rows.take(pa.array(places))
    for window, outputs in zip(plan.policies, done.results, strict=True):
        for alias, column in plan.monoid.results(outputs).items():
            name = column_name(alias, window)
            rows = rows.append_column(name, to_arrow([column[picked]], plan.results[name], name))
    rows = rows.select([*group.rows.column_names, *plan.results])
    if emptied is not None and len(emptied[0]):
        keys, moments, before = emptied
        at = np.searchsorted(picked, before) if plan.every is not None else before
        rows = with_emptied(rows, plan, keys, moments, at)
    late = None if done.late is None else group.rows.filter(pa.array(done.late))
    return marked(plan, rows, None, late)


def counts_of(plan: Plan, read: int, done: Advance) -> Counts:
    """What became of the rows."""
    late = 0 if done.late is None else int(done.late.sum())
    invalid = read - len(done.line) - late
    return Counts(read, invalid if plan.late == "side" else invalid + late, late, invalid)


def _picked(plan: Plan, done: Advance) -> tuple[Ints, Ints]:
    """The rows that have results, and which of the results are theirs."""
    every = plan.every
    if isinstance(every, EveryCount):
        counts = np.diff(done.bounds)
        nth = np.arange(1, len(done.line) + 1) + np.repeat(done.before - done.bounds[:-1], counts)
        picked = np.flatnonzero(nth % every.count == 0)
        if plan.output == "last":
            keys = np.repeat(np.arange(len(counts)), counts)[picked]
            picked = picked[np.append(keys[1:] != keys[:-1], True)[: len(picked)]]
        return done.line[picked], picked
    if plan.output == "last":
        return done.line[done.bounds[1:] - 1], np.arange(len(done.keys))
    return done.line, np.arange(len(done.line))


def _keys_of(done: Advance, picked: Ints, plan: Plan) -> Ints:
    """The key of each result that was picked."""
    if plan.every is None:
        return picked  # the last one of each key
    found: Ints = np.searchsorted(done.bounds, picked, side="right") - 1
    return found


def _emptied(
    plan: Plan, done: Advance, group: Sorted, gone: Table | None
) -> tuple[list[bytes], list[int], list[int]]:
    """Key and moment of windows that became empty, and the result before which that is told."""
    keys: list[bytes] = []
    moments: list[int] = []
    before: list[int] = []
    lifetime = plan.lifetime
    assert lifetime is not None
    if plan.lateness is None and plan.output != "last" and done.last is not None:
        times = group.times[done.line]
        previous = np.empty_like(times)
        previous[1:] = times[:-1]
        previous[done.bounds[:-1]] = done.last
        at = np.flatnonzero(times > previous + lifetime)
        of = np.searchsorted(done.bounds, at, side="right") - 1
        keys += [done.keys.packed(key) for key in of.tolist()]
        moments += (previous[at] + lifetime).tolist()
        before += at.tolist()
    if gone is not None and len(gone):
        order = sorted(range(len(gone)), key=gone.keys.packed)
        keys += [gone.keys.packed(place) for place in order]
        moments += (gone.newest()[order] + lifetime).tolist()
        before += [len(done.line)] * len(gone)
    return keys, moments, before
