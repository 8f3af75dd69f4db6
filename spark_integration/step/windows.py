"""The windows of one bucket of keys, from Spark's state, and a micro-batch of their rows.

The windows are one ``KeyedWindows`` structure, whose snapshot of at most 64 KiB is in the state.

Idle keys are expired. A window is empty once its newest event is as old as the window is long
(``lifetime``), and this moment has passed when the stream's watermark is later. In a micro-batch
with rows of the key, the rows are added first: the key is expired only if its window is empty after
that. The key's pages are deleted once no state that Spark may restore has the key. Rows of keys
without a window are late if they are older than the last moment at which an expired key's window
became empty, because their key may be an expired one. So rows older than the watermark may be late;
other rows never are.

If events may be late, the watermark must be later than that moment by the lateness too (the
``patience``): then no event within the lateness of the watermark can belong to the window.

If results belong to boundaries (``Options.period``), a key is expired once the watermark is later
than the first boundary at which its window is empty. Then all results up to this boundary are
emitted, as they would be with the key's next event, and events up to the boundary are late.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from mta.errors import InvalidValue
from mta.frames.base import Frame, by_rows
from mta.keyed.bucket import Advance
from mta.keyed.table import Table, is_vectorized
from mta.keyed.windows import KeyedWindows
from mta.keyed.work import Boundaries, Found, Want
from mta.triggers.rules import EveryCount
from spark_integration.plan import Plan
from spark_integration.step.columns import DAY, Ints, to_values
from spark_integration.step.rows import Sorted
from stores.base import PageStore

#: The number of events of a window above which it has separate pages.
PROMOTE_AT = 1024


class Expired(NamedTuple):
    """Keys that were expired."""

    table: Table
    moments: Ints
    """The time at which the window of each became empty."""
    due: Found | None
    """With a period, their results up to that time."""


class Windows:
    """The windows of one bucket, restored from a snapshot or new.

    ``now`` is the time of the micro-batch, in microseconds.
    """

    def __init__(
        self,
        plan: Plan,
        store: PageStore,
        before: bytes | None,
        start: tuple[bytes, PageStore] | None = None,
        now: int | None = None,
    ) -> None:
        self.plan = plan
        settings = _settings(plan, now)
        if before is not None:
            self.keyed = KeyedWindows.restore(
                before, store, aggregations=plan.monoid, window=plan.options.window, **settings
            )
        else:
            # A batch query has all rows in memory, so it needs no pages.
            of_rows = {"promote_at": 1 << 24, "store": None} if plan.temporary else {"store": store}
            name = f"{plan.name}.{plan.fingerprint()[:4].hex()}"
            given: dict[str, Any] = {**settings, **of_rows, "name": name, "timed": True}
            self.keyed = KeyedWindows(plan.monoid, _rowwise(plan), **given)
            if start is not None:
                self.keyed.take_over(*start)
        self.bucket = self.keyed.bucket
        self._standalone, self._runs = self.bucket.counts.standalone, self._numbers()

    def _numbers(self) -> set[int]:
        return {run.number for run in self.bucket.tree.runs}

    @property
    def promotions(self) -> int:
        """Return how many windows became standalone, minus expired standalone windows."""
        return max(0, self.bucket.counts.standalone - self._standalone)

    @property
    def merges(self) -> int:
        """Return how many runs of pages were merged; valid after a checkpoint."""
        return len(self._runs - self._numbers())

    def incomplete(self, times: Ints) -> int:
        """Return how many events of these times may have incomplete results after a change.

        These are all events if it is unknown when results are complete, as with count windows.
        """
        moments = [each.complete_from for each in self.keyed.coverage().incomplete]
        whole = [moment for moment in moments if moment is not None]
        if len(whole) < len(moments):
            return len(times)
        return int((times < max(whole).astype("i8")).sum()) if whole else 0

    def advance(self, group: Sorted) -> Advance:
        """Add sorted rows.

        Raises InvalidValue, LateEvent, AheadEvent and NoSuchEvent if the plan says so.
        """
        plan, options = self.plan, self.plan.options
        codes = np.repeat(np.arange(len(group.keys)), np.diff(group.bounds))
        nulls = options.settings.nulls
        columns = {
            name: to_values(group.rows.column(name), name, nulls, options.nan)
            for name in plan.values
        }
        count, marks = group.rows.num_rows, None
        if options.without_values is not None and count:
            marked = pc.fill_null(group.rows.column(options.without_values), False).to_numpy()
            marks = marked if marked.any() else None
        asks, retracts = (marks, None) if options.asks is not None else (None, marks)
        batch = self.keyed.batch(
            group.keys, codes, columns or range(count), group.times, retracts, asks
        )
        batch.late_first = batch.unordered = True
        done = self.bucket.advance(batch, _wanted(plan))
        require_valid(plan, done.invalid, count)
        return done

    def expire(self, watermark: int | None) -> Expired | None:
        """Expire the keys whose windows are empty at the watermark; None if there are none."""
        options, lifetime = self.plan.options, self.plan.options.lifetime
        if watermark is None or lifetime is None or options.idle == "keep" or self.plan.temporary:
            return None
        past, period = watermark - options.patience - 1, options.period
        if period is not None:  # the last boundary for which all events have arrived
            past = period.last_boundary(past)
        # An event at a boundary belongs to it, and so is late once its result is emitted.
        table = self.bucket.expire(
            past - lifetime, lambda newest: self._end_of(newest) + (period is not None)
        )
        if not len(table):
            return None
        due = None if period is None else self.bucket.due(table, period)
        return Expired(table, self._end_of(table.newest()), due)

    def _end_of(self, newest: Any) -> Any:
        """Return when windows with these newest events become empty, or the next boundaries."""
        options = self.plan.options
        assert options.lifetime is not None
        end, period = newest + options.lifetime, options.period
        return end if period is None else period.boundary(end)

    def timer(self, watermark: int | None) -> int | None:
        """Return the watermark after which the bucket must be called; None for never.

        Pages with a pending deletion are checked again at the next watermark. If idle keys are
        kept, the timer is for a later query that expires them.
        """
        options = self.plan.options
        if self.bucket.is_deleting:
            return watermark or 0
        if options.idle == "keep":
            return (watermark or 0) + (options.lifetime or DAY)
        earliest = self.bucket.earliest()
        return None if earliest is None else int(self._end_of(earliest)) + options.patience


def _settings(plan: Plan, now: int | None) -> dict[str, Any]:
    """Return the settings of a plan, all of them: the previous query may have had others."""
    options, settings = plan.options, plan.options.settings
    is_accepted = settings.nulls == "accept" or options.nan == "propagate"
    found = replace(
        settings if plan.by_time else settings.in_order(),
        nulls="accept" if is_accepted else "drop_row",
        min_samples=None,  # the plan's monoid applies it
        promote_at=PROMOTE_AT,
        clock=None if now is None else lambda: now / 1e6,
    )
    if settings.is_sized or not vectorizes(plan):
        found = found.sized(*plan.sizes)
    if now is None:
        found = replace(found, max_ahead=None, on_ahead="raise")
    return found.keywords(KeyedWindows)


def _rowwise(plan: Plan) -> Frame | dict[str, Frame]:
    """Return the windows without ties; ``step.step`` then repeats the last peer's result."""
    options = plan.options
    if isinstance(options.window, Frame):
        return by_rows(options.window)
    return {name: by_rows(frame) for name, frame in options.windows.items()}


def require_valid(plan: Plan, invalid: int, count: int) -> None:
    """Raise InvalidValue if rows are invalid and the plan does not drop them."""
    if invalid and plan.options.settings.nulls != "drop_row":
        raise InvalidValue(
            f"bad value: {invalid} of {count} rows of a bucket contain a NaN, or a value "
            "that an aggregation does not accept; filter them out, or set nulls='drop_row' to "
            "drop and count them, or for NaN set nan='skip' or nan='propagate'"
        )


def vectorizes(plan: Plan) -> bool:
    """Return whether windows are vectorized."""
    return is_vectorized(plan.monoid, list(plan.options.windows.values()))


def _wanted(plan: Plan) -> Want:
    options = plan.options
    if options.period is not None:
        return Boundaries(options.period, ends=plan.temporary)
    if isinstance(options.trigger, EveryCount):
        return options.trigger
    if options.emit_updates and plan.by_time:
        return "changed" if options.emit == "all" else "newest"
    return "each" if options.emit == "all" else "last"
