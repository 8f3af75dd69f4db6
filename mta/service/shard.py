"""A shard: the windows of some keys, which one process owns, adds to, and asks.

    commit   retries are answered; the other events are judged and added in memory
             -> one record in the log -> answers
    compact  the windows write their pages -> a new state -> the head names it
    erase    keys are erased in memory -> a fence in the log -> compact

After any error between these steps, memory may be ahead of the store: the owner drops the shard,
and claims it again. Then the log decides which events were added.

The server's clock is the wall clock when the process started, and goes on with the monotonic clock.
So it does not jump. It also never runs behind the newest event of the shard, even if another
process with a later clock has added that event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from mta.errors import CorruptSnapshot, InvalidValue, StoreUnavailable
from mta.frames.base import lifetime_of
from mta.keyed.admission import Admission, Limits
from mta.keyed.bucket import KeyedBatch
from mta.keyed.keys import read_keys
from mta.keyed.windows import KeyedWindows
from mta.publishing.publisher import delete_keys
from mta.serve.answers import Problem, to_json
from mta.service.declaration import RETAIN, Declaration
from mta.service.garbage import unneeded_pages
from mta.service.log import NEVER, Head, Ids, NotOwner, OtherWindows, ShardLog
from mta.service.retries import NO_ID, Retries
from mta.service.rows import RowReader, Rows, columns_of
from stores import PageStore

#: The most events of one commit, and of one step of a replay.
MOST_ROWS = 4096
#: For how many keys of a commit the moments at which refused events fit are computed.
_FITS = 64
#: Idle keys are deleted this long, in microseconds, after their windows became empty.
_IDLE = 3_600_000_000
_LATE = "The event is older than the newest event of its key, or than is allowed."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The end of the year 9999, in microseconds since 1970: no answer can show a later time.
_LATEST = 253_402_300_799_999_999
_STARTED = time.time_ns() // 1000 - time.monotonic_ns() // 1000


def now() -> int:
    """Return the time of this process in microseconds since 1970, which never jumps."""
    return _STARTED + time.monotonic_ns() // 1000


class Outcome(NamedTuple):
    """The answer to one event."""

    status: int
    body: bytes
    """JSON: the aggregates, or a problem."""
    what: str = "accepted"
    """"accepted", the name of the limit, or the name of another problem."""


class Shard:
    """A shard that this process owns. One thread at a time; raises the errors of the store.

    Claims the shard in place of the owner in a head: reads the state and the log. Raises NotOwner,
    OtherWindows, LostRecords and CorruptSnapshot.
    """

    def __init__(
        self, declared: Declaration, rows: RowReader, store: PageStore, number: int, head: Head,
        owner: str, address: str, secret: str,
    ) -> None:  # fmt: skip
        require_same(head, declared)
        self.number, self._declared, self._rows, self._store = number, declared, rows, store
        self.log = ShardLog(store, declared.name, number)
        self.log.claim(head, owner, address, secret)
        self.log.delete_unnamed()
        windows, state = declared.windows(number, store), self.log.state()
        self.windows: KeyedWindows = windows if state is None else windows.restore_like(state)
        self._retries = Retries(self.log)
        self.newest, self._confirmed = head.newest, now()
        self._lifetime = lifetime_of(declared.frames.values())
        #: How many events were added since the last state.
        self.fresh = 0
        for part in _joined(self.log.replay()):
            self._replay(*part)
        self._limits = Limits(self.windows, declared.limits)

    def _replay(
        self, times: list[int], keys: list[Any], values: list[Any], digests: list[bytes],
        answers: list[bytes],
    ) -> None:  # fmt: skip
        batch = self._batch(keys, times, values)
        self.windows.bucket.advance(batch, "last")
        if self.windows.stats().late:
            raise CorruptSnapshot(f"the log of shard {self.number} has events in another order")
        self._note(times, keys, digests, answers)

    def _note(
        self, times: Sequence[int], keys: Sequence[Any], digests: Sequence[bytes],
        answers: Sequence[bytes],
    ) -> None:  # fmt: skip
        self.fresh += len(times)
        self.newest = max(self.newest, *times)
        self._retries.add(digests, answers, keys)

    def _batch(
        self, keys: Sequence[Any], times: Sequence[int], values: Sequence[Any]
    ) -> KeyedBatch:
        columns: Any = columns_of(self._declared, values) or range(len(keys))
        distinct = read_keys(self._rows.keys_of(keys), self.windows.bucket.key_kind)
        return self.windows.batch(*distinct, columns, np.array(times, np.int64))

    # --- events -----------------------------------------------------------------------------------

    def commit(self, rows: Rows, *, add: bool = True) -> list[Outcome | None]:
        """Add events; return the outcome of each, None for those that the next commit judges.

        When this returns, every accepted event is durable. With ``add=False``, the outcomes are the
        same, and nothing is added.
        """
        digests, outcomes = rows.digests, list[Outcome | None]([None] * len(rows))
        known = self._retries.answers([each for each in digests if each != NO_ID])
        first, again = dict[bytes, int](), dict[int, int]()
        for at, digest in enumerate(digests):
            if digest in known:
                outcomes[at] = Outcome(200, known[digest])
            elif digest != NO_ID and first.setdefault(digest, at) != at:
                again[at] = first[digest]
        fresh = [at for at in range(len(rows)) if outcomes[at] is None and at not in again]
        self._judge(rows, fresh, outcomes, add)
        for at, before in again.items():
            outcomes[at] = outcomes[before]
        self._confirm()
        return outcomes

    def _confirm(self) -> None:
        """Raise NotOwner if this process may have been paused, and the shard was claimed meanwhile.

        Otherwise answers that write nothing would not notice. Rarely a store call.
        """
        if not 0 <= now() - self._confirmed <= self._declared.takeover_after // 2:
            moment = now()
            self.log.require_owner()
            self._confirmed = moment

    def _judge(
        self, rows: Rows, places: list[int], outcomes: list[Outcome | None], add: bool
    ) -> None:
        """Judge events, set their outcomes, and with ``add`` write the accepted ones to the log."""
        clock = max(now(), self.newest)
        ahead, horizon = clock + self._declared.max_ahead, self._horizon(clock)
        times = [clock if each is None else each for each in rows.times]
        for at in places:
            if times[at] > ahead:
                outcomes[at] = _problem("AheadEvent", "The time is ahead of the server's clock.")
            elif times[at] <= horizon:
                outcomes[at] = _problem("LateEvent", _LATE)
        places = [at for at in places if outcomes[at] is None]
        places.sort(key=times.__getitem__)  # stable
        if not places:
            return
        part = rows.take(places)
        moments = [times[at] for at in places]
        values = [*zip(*part.values, strict=True)]
        try:
            batch = self._batch(part.keys, moments, values)
        except InvalidValue:
            if not self._refuse_unreadable(part, moments, places, outcomes):
                raise
            self._judge(rows, [at for at in places if outcomes[at] is None], outcomes, add)
            return
        found = self._limits.admit(batch, add=add)
        self._set(found, batch, places, moments, outcomes)
        chosen = np.flatnonzero(found.accepted).tolist()
        if not add or not chosen:
            return
        kept = part.take(chosen)
        answers = [
            b"" if digest == NO_ID else outcomes[places[at]].body  # type: ignore[union-attr]
            for at, digest in zip(chosen, kept.digests, strict=True)
        ]
        moments = [moments[at] for at in chosen]
        columns = [[*column] for column in zip(*kept.values, strict=True)]
        began = now()
        self.log.append([moments, kept.keys, columns, kept.digests, answers])
        self._confirmed = began
        self._note(moments, kept.keys, kept.digests, answers)

    def _refuse_unreadable(
        self, part: Rows, times: list[int], places: list[int], outcomes: list[Outcome | None]
    ) -> bool:
        """Refuse the events with values that the aggregations cannot read; return if there are any.

        Their values have the declared types, but are no times or whole numbers, for example.
        """
        count = 0
        rows = zip(places, part.keys, times, part.values, strict=True)
        for at, key, time_, values in rows:
            try:
                self._batch([key], [time_], [[value] for value in values])
            except InvalidValue as error:
                outcomes[at] = _problem("InvalidRequest", f"{error}.")
                count += 1
        return count > 0

    def _set(
        self, found: Admission, batch: KeyedBatch, places: list[int], times: list[int],
        outcomes: list[Outcome | None],
    ) -> None:  # fmt: skip
        """Set the outcomes of judged events."""
        names = [*found.columns]
        results = [*zip(*map(_listed, found.columns.values()), strict=True)]
        fits, shown = self._fits(found, batch), {each: _iso(each) for each in set(times)}
        for row, at in enumerate(places):
            if found.deferred[row]:
                continue
            if found.late[row]:
                outcomes[at] = _problem("LateEvent", _LATE)
                continue
            if row in found.out_of_range:
                outcomes[at] = _problem("ResultOutOfRange", f"{found.out_of_range[row]}.")
                continue
            values = dict(zip(names, results[row], strict=True))
            answer: dict[str, Any] = {"time": shown[times[row]], "values": values}
            limit = found.refused.get(row)
            if limit is None:
                outcomes[at] = Outcome(200, to_json(answer))
                continue
            aggregate, most = self._declared.limits[limit]
            fit: int | None = fits.get(row)
            answer["limit"], answer["aggregate"], answer["at_most"] = limit, aggregate, most
            answer["fits_at"] = None if fit is None or fit > _LATEST else _iso(fit)
            outcomes[at] = _problem(
                "LimitExceeded", f"The event would raise {aggregate} above {most:g}.", **answer
            )

    def _fits(self, found: Admission, batch: KeyedBatch) -> dict[int, int | None]:
        """Return when refused events fit, of each key only for the first event and equal ones."""
        first = dict[int, int]()
        for row in sorted(found.refused):
            if len(first) < _FITS:
                first.setdefault(int(batch.codes[row]), row)
        fits = dict(zip(first, self._limits.fit_times(batch, [*first.values()]), strict=True))
        return {
            row: fits[int(batch.codes[row])]
            for row in found.refused
            if int(batch.codes[row]) in first
            and self._limits.are_equal(batch, first[int(batch.codes[row])], row)
        }

    def _horizon(self, moment: int) -> int:
        """Return until when windows must have been empty for their key to be deleted.

        With times of events, clients may send old ones: events up to the horizon are refused, as
        their key may have been deleted.
        """
        if self._lifetime is None:
            return NEVER
        if self._declared.time is not None:
            moment = self.newest - self._lifetime
        return moment - _IDLE - (self._declared.allowed_lateness or 0)

    # --- the state --------------------------------------------------------------------------------

    @property
    def needs_compaction(self) -> bool:
        """Return whether there are new events, or pages of erased keys may be left."""
        return self.fresh > 0 or self.is_erasing

    @property
    def is_erasing(self) -> bool:
        """Return whether the store may still have pages of erased keys."""
        assert self.log.head is not None
        return self.log.head.erasing > 0

    def erase(self, rows: Rows) -> bytes:
        """Erase the keys of some rows; return the snapshot of the windows.

        When this returns, it is durable: no later owner has anything of the keys. ``retain``
        compactions later, nothing of them is in the store.
        """
        keys = self._rows.keys_of(rows.keys)
        self.windows.erase([*dict.fromkeys(keys)])
        changed = self._retries.erase(rows.keys)
        if not self.log.append(None):
            raise NotOwner(f"another process writes to shard {self.number}")
        return self.compact(changed, erasing=RETAIN)

    def merge(self, between: Callable[[], None]) -> None:
        """Merge the runs of the windows that are due, before a compaction; call ``between`` often.

        It may commit events. So they do not wait for the merge, which may take seconds.
        """
        self.windows.bucket.tree.merge(between)

    def compact(self, changed: Mapping[int, Ids] | None = None, erasing: int = 0) -> bytes:
        """Write a new state, which replaces the log so far; return the snapshot of the windows."""
        assert self.log.head is not None
        was_erasing = self.is_erasing
        erasing = max(erasing, self.log.head.erasing - 1)
        moment = max(now(), self.newest)
        horizon, earliest = self._horizon(moment), self.windows.earliest()
        if self._lifetime and earliest is not None and earliest + self._lifetime <= horizon:
            self.windows.expire(before=np.datetime64(horizon, "us"))
        snapshot = self.windows.checkpoint()
        until = moment + self._declared.retry_for + self._declared.snapshot_every
        self.log.advance(
            snapshot, self.newest, self._retries.packed(), until, moment, changed or {}, erasing
        )
        self._retries.renew()
        self.fresh = 0
        if self.log.head.erasing < 2 and was_erasing:
            self._sweep(snapshot)
        return snapshot

    def _sweep(self, snapshot: bytes) -> None:
        """Delete the pages that killed owners of the shard have left, and compact the store.

        Lists the keys of the windows. The pages that ``snapshot`` still names are deleted, and the
        store is compacted once more, by the last compaction of the erasure.
        """
        gone = unneeded_pages(self._store, self.windows.name, snapshot)
        if gone:
            delete_keys(self._store, set(gone))
            self._store.flush()
            with suppress(StoreUnavailable):  # another process has the folder open
                self._store.compact()


def require_same(head: Head, declared: Declaration) -> None:
    """Raise OtherWindows unless a shard was created for windows as they are declared."""
    if head.fingerprint != declared.fingerprint:
        raise OtherWindows(
            f"{declared.name} was created with other keys, values, frames, aggregations or "
            "shards: choose another name, or declare what it was created with"
        )


def _joined(records: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Yield the rows of records of the log, joined to about ``MOST_ROWS`` each."""
    joined: list[Any] = []
    for record in records:
        if not joined:
            joined = record
            continue
        for name in (0, 1, 3, 4):
            joined[name] += record[name]
        for column, more in zip(joined[2], record[2], strict=True):
            column += more
        if len(joined[0]) >= MOST_ROWS:
            yield joined
            joined = []
    if joined:
        yield joined


def _listed(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _iso(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def _problem(name: str, detail: str, **members: Any) -> Outcome:
    fields = Problem(name, detail).fields() | members
    return Outcome(fields["status"], to_json(fields), members.get("limit", name))
