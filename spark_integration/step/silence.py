"""Keys that fall silent: when time alone has emptied a window, its key is forgotten.

A window is empty once its newest event is as old as the window is long (``lifetime``). A stream
knows that this moment has passed when its watermark is later: no event up to there will come any
more. Until then, and in any micro-batch that brings rows of the key itself, rows go first: a key
is forgotten only if its window is empty after them. What is forgotten:

- its handle, at once: the key is no longer in the state;
- its pages, ``retain`` - 1 calls of its bucket later, when no state that Spark may still go back to
  has the key. Until then the last handle, which names the pages, stays in the state as *doomed*.
  A key without pages, as a short window's is, leaves nothing.

An event that comes later begins the key anew, with the same name, while pages of its earlier life
may be waiting for their deletion. They cannot be confused: whoever forgets keys keeps times in all
pages, and those of the new life are all later than those of the old one, so no page of one has the
content, and with it the name, of a page of the other. For that and for exact results, a row of a
key without a window is late if it is older than the last moment at which a forgotten key's window
became empty (``Bucket.forgotten``, one number for all keys of a bucket). Rows older than the
watermark may thus be late or may not; rows that are not older never are.

Where events may come late, the watermark must be past that moment by the lateness too (the
``patience``): then no event that is late by no more than that, even from the watermark, can have
belonged into the window. A key that begins anew must not take late events from before
``forgotten`` either; it remembers that moment as the floor of what it takes (``Saved.floor``).

Where results belong to boundaries (``Plan.period``), a key is forgotten once the watermark is past
the first one at which its window is empty: then all up to it are given, as they would be with the
key's next event, and events up to it are late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mta import describe_handle
from spark_integration.plan import Plan
from spark_integration.step.columns import Ints
from spark_integration.step.states import Bucket, Doomed, Saved


class Gap(NamedTuple):
    """Time has emptied a window between two events."""

    at: int
    """The place of the later event in its batch."""
    moment: int


class Forgotten(NamedTuple):
    """A key that was taken out of its bucket."""

    key: bytes
    moment: int
    """When its window became empty."""
    saved: Saved


def end_of(last_time: int, plan: Plan) -> int:
    """When a window becomes empty after its newest event, or the first boundary then."""
    assert plan.lifetime is not None
    end, period = last_time + plan.lifetime, plan.period
    return end if period is None else -(-end // period) * period


def forget(bucket: Bucket, plan: Plan, watermark: int) -> list[Forgotten]:
    """Take the keys whose windows are empty out of the bucket; which, and since when.

    Linear in the keys; no store call. Raises CorruptHandle.
    """
    assert plan.lifetime is not None
    past, period = watermark - plan.patience, plan.period
    if period is not None:  # the first moment that is after all boundaries before ``past``
        past = (past - 1) // period * period + 1
    empty = past - plan.lifetime
    found = sorted(key for key, saved in bucket.keys.items() if saved.last_time < empty)
    gone = []
    for key in found:
        saved = bucket.keys.pop(key)
        gone.append(Forgotten(key, end_of(saved.last_time, plan), saved))
        if describe_handle(saved.handle).pages:
            bucket.doomed.append(Doomed(plan.retain - 1, saved.handle))
    if gone:
        # Not before the last time: what was kept then was not empty at that watermark. An event
        # at a boundary belongs to it, and so is late once it is given.
        latest = max(each.moment for each in gone) + (period is not None)
        before = bucket.forgotten
        bucket.forgotten = latest if before is None else max(before, latest)
    return gone


def take_doomed(bucket: Bucket) -> Iterator[bytes]:
    """The handles of the windows whose pages are to go in this call; the others come nearer."""
    doomed, bucket.doomed = bucket.doomed, []
    for calls, handle in doomed:
        if calls > 1:
            bucket.doomed.append(Doomed(calls - 1, handle))
        else:
            yield handle


def next_call(bucket: Bucket, plan: Plan, watermark: int | None) -> int | None:
    """Once the watermark is later than this, the bucket must be called, with rows or without.

    None for never. Doomed windows are looked at again with the watermark's next move.
    """
    if bucket.doomed:
        return watermark or 0
    if not bucket.keys:
        return None
    oldest = min(saved.last_time for saved in bucket.keys.values())
    return end_of(oldest, plan) + plan.patience


def silences(times: Ints, saved: Saved | None, plan: Plan) -> list[Gap]:
    """Where a key's window became empty between two events; ``times`` are in order."""
    assert plan.lifetime is not None
    last = times[0] if saved is None else saved.last_time
    ends: Ints = np.concatenate(([last], times[:-1])) + plan.lifetime
    return [Gap(index, int(ends[index])) for index in np.flatnonzero(times > ends).tolist()]
