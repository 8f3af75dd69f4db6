"""The shards that this process owns, and the way of events to the owners of the others.

Several times per ``takeover_after``, each process looks at who lives, and at the heads of all
shards. It claims shards without a living owner, up to its share, and gives up shards beyond its
share. Events of other shards are forwarded.

An event is sent again to a new owner only if it was not judged, or has an id: otherwise it might be
added twice. Without an id, the client gets the problem ``OutcomeUnknown``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import shuffle
from typing import Any

from mta.errors import WindowStoreError
from mta.pages import name_of
from mta.publishing.publisher import delete_keys, read_head, replace_head
from mta.publishing.records import Bucket, PublishedHead, snapshot_key, what_of
from mta.serve.answers import Problem
from mta.service.commits import (
    Committer,
    Interrupted,
    Job,
    Moved,
    Task,
    can_repeat,
    failure_of,
    outcome_unknown,
)
from mta.service.declaration import Declaration
from mta.service.forwarding import Link, Receiver, expire
from mta.service.garbage import unneeded_snapshots
from mta.service.log import Head as ShardHead
from mta.service.log import LostRecords, NotOwner, OtherWindows, ShardLog, decoded_head
from mta.service.members import Members
from mta.service.rows import RowReader, Rows
from mta.service.shard import Outcome, Shard, require_same
from stores import PageStore, open_store

logger = logging.getLogger(__name__)
#: How often a process looks, and puts its beat, per ``takeover_after``.
LOOKS = 4
#: How many seconds pass between two tries to reach the owner of a shard.
_AGAIN = 0.05
#: How many earlier snapshots of a shard readers may still read.
_RETAIN = 4


class Owners:
    """The shards of declared windows, as one process sees them.

    Args:
        declared: The windows.
        host: The address on which other processes reach this one.
        time_limit: How many seconds a request may take.
    """

    def __init__(self, declared: Declaration, host: str, time_limit: float) -> None:
        self.declared, self._host, self._time_limit = declared, host, time_limit
        self.rows = RowReader(declared)
        self.store: PageStore = open_store(declared.store)
        self._own, self._secret = secrets.token_hex(8), secrets.token_hex(16)
        self._period = declared.takeover_after / 1e6 / LOOKS
        self._members = Members(self.store, declared.name, self._own, declared.takeover_after / 1e6)
        self._receiver = Receiver(self._secret, self._forwarded)
        self._address = ""
        self._committers: dict[int, Committer] = {}
        self._heads: dict[int, ShardHead] = {}
        self._links: dict[str, Link] = {}
        self._snapshots: dict[int, bytes] = {}
        #: The shards of which the store may still have pages of erased keys.
        self._erasing = set[int]()
        self._publishing = threading.Lock()
        self._stops, self._threads = threading.Event(), list[threading.Thread]()
        #: Why all shards, or some, cannot be served, as far as this is known.
        self.problem: Problem | None = None
        self._problems: dict[int, Problem] = {}
        #: How many events had which outcome here: "accepted", or the name of a problem or limit.
        self.outcomes: Counter[str] = Counter()

    async def start(self) -> None:
        """Start listening, looking for shards, and publishing."""
        self._loop = asyncio.get_running_loop()
        port = await self._receiver.start(self._host)
        self._address = f"{self._host}:{port}"
        for work, period in ((self._members.beat, self._period), (self._look, self._period),
                             (self._publish, 1.0)):  # fmt: skip
            thread = threading.Thread(target=self._repeat, args=[work, period], daemon=True)
            thread.start()
            self._threads.append(thread)

    async def stop(self) -> None:
        """Commit what waits, and give all shards up."""
        await asyncio.to_thread(self._stop)
        await self._receiver.stop()
        self._close_links(set())
        await asyncio.to_thread(self.store.close)

    def _stop(self) -> None:
        self._stops.set()
        for committer in [*self._committers.values()]:
            committer.stop()
        for thread in self._threads:  # one may be claiming a shard
            thread.join()
        for committer in self._committers.values():
            committer.stop()
            committer.join()
        with suppress(WindowStoreError):
            self._publish()
            self._members.leave()

    def _repeat(self, work: Callable[[], None], period: float) -> None:
        """Do some work again and again; the store may fail."""
        while not self._stops.wait(period):
            try:
                work()
            except BaseException as error:  # also panics of libraries: this goes on
                if work == self._look:
                    self.problem = failure_of(error, "looking for shards")
                elif not isinstance(error, WindowStoreError):
                    logger.exception("looking after the shards failed")

    # --- owning -----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at the heads; claim shards without a living owner, or give one up."""
        living, name, count = self._members.look(), self.declared.name, self.declared.shards
        keys = [ShardLog(self.store, name, shard).key("head") for shard in range(count)]
        found = self.store.get_records(keys)
        heads = [decoded_head(data, name, shard) for shard, data in enumerate(found)]
        self._heads = dict(enumerate(heads))
        needed = living | {head.owner for head in heads}
        self._loop.call_soon_threadsafe(self._close_links, needed)
        for shard, committer in [*self._committers.items()]:
            if not committer.is_open:
                del self._committers[shard]
                self._snapshots.pop(shard, None)
                continue
            committer.sharing = len(self._committers)
            if heads[shard].owner != self._own:
                committer.check_owner()
        share, mine = -(-count // len(living)), [*self._committers]
        if len(mine) > share:
            self._committers[mine[-1]].stop()
        others = living - {self._own}
        free = [
            shard for shard, head in enumerate(heads)
            if shard not in self._committers and head.owner not in others
        ]  # fmt: skip
        shuffle(free)
        # No other process claims a shard of this one, not even if it has failed here.
        failed_here = [shard for shard in free if heads[shard].owner == self._own]
        left = [shard for shard in free if shard not in failed_here]
        room = max(0, share - len(mine) - len(failed_here))
        self.problem, failed = None, dict[int, Problem]()
        for shard in failed_here + left[:room]:
            try:
                if not self._stops.is_set():
                    self._claim(shard, heads[shard])
            except NotOwner:
                continue  # another process was faster
            except Exception as error:
                failed[shard] = failure_of(error, f"claiming shard {shard}")
        self._problems = failed

    def _claim(self, number: int, head: ShardHead) -> None:
        shard = Shard(
            self.declared, self.rows, self.store, number, head, self._own, self._address,
            self._secret,
        )  # fmt: skip
        assert shard.log.head is not None
        self._heads[number] = shard.log.head
        self._committers[number] = Committer(shard, self.declared, self._note)
        logger.info("serves shard %s, epoch %s", number, shard.log.head.epoch)

    def _note(self, shard: Shard, snapshot: bytes) -> None:
        self._snapshots[shard.number] = snapshot
        if shard.is_erasing or shard.number in self._erasing:
            # Publish each, so that none with erased keys is kept.
            self._publish()
            with self._publishing:
                states = {shard.number: snapshot}
                name = self.declared.name
                gone = unneeded_snapshots(self.store, name, states, shard.number)
                delete_keys(self.store, {*gone})
            (self._erasing.add if shard.is_erasing else self._erasing.discard)(shard.number)

    # --- publishing -------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Publish the newest snapshots, as far as readers do not have them.

        Processes may overwrite each other's heads; then the next call publishes again. Until then,
        readers see the snapshot before, which is retained.
        """
        with self._publishing:
            snapshots = dict(self._snapshots)
            head = read_head(self.store, self.declared.name) if snapshots else None
            if head is None or head.source != self.declared.source:
                return
            buckets = [*head.buckets]
            for shard, snapshot in snapshots.items():
                digest, known = name_of(snapshot), buckets[shard] or []
                if not known or known[0][1] != digest:
                    self.store.put_many({snapshot_key(head.name, shard, digest): snapshot})
                    older = [each for each in known if each[1] != digest]
                    buckets[shard] = [(head.batch + 1, digest), *older[:_RETAIN]]
            if buckets != head.buckets:
                self.store.flush()
                published = published_head(self.declared, buckets, head.batch + 1)
                replace_head(self.store, head, published)

    # --- events -----------------------------------------------------------------------------------

    async def send(self, rows: Rows, task: Task) -> list[Outcome]:
        """Return the outcomes of events, from the owners of their shards. Raises Problem."""
        shard_of, places = self.rows.shard_of, dict[int, list[int]]()
        for at, key in enumerate(self.rows.keys_of(rows.keys)):
            places.setdefault(shard_of(key), []).append(at)
        if len(places) == 1:
            return await self._sent(next(iter(places)), rows, task)
        parts = [self._sent(shard, rows.take(of), task) for shard, of in places.items()]
        outcomes: dict[int, Outcome] = {}
        # All parts are sent, even if one fails.
        found = await asyncio.gather(*parts, return_exceptions=True)
        for of, part in zip(places.values(), found, strict=True):
            if isinstance(part, BaseException):
                raise part
            outcomes.update(zip(of, part, strict=True))
        return [outcomes[at] for at in range(len(rows))]

    async def _sent(self, shard: int, rows: Rows, task: Task) -> list[Outcome]:
        """Return the outcomes of events of one shard, wherever its owner is by now."""
        deadline = time.monotonic() + self._time_limit
        may_repeat = can_repeat(rows, task)
        while True:
            try:
                found = await self._try(shard, rows, task, deadline - time.monotonic())
                if task != "check":
                    self.outcomes.update(each.what for each in found)
                return found
            except (Moved, Interrupted) as error:
                if not (may_repeat or isinstance(error, Moved)):
                    raise outcome_unknown() from None
                again = type(error).__name__
                logger.info("%d rows for shard %d are sent again: %s", len(rows), shard, again)
            except TimeoutError:
                raise (self._absent(shard) if may_repeat else outcome_unknown()) from None
            if self._known(shard) is not None or time.monotonic() + _AGAIN > deadline:
                raise self._absent(shard)
            await asyncio.sleep(_AGAIN)

    def _known(self, shard: int) -> Problem | None:
        return self.problem or self._problems.get(shard)

    def _absent(self, shard: int) -> Problem:
        detail = "No process has answered for the shard of this key in time."
        return self._known(shard) or Problem("StoreUnavailable", detail, retry_after="1")

    async def _try(self, shard: int, rows: Rows, task: Task, seconds: float) -> list[Outcome]:
        if shard in self._committers:
            return await self._local(shard, rows, task, seconds)
        head = self._heads.get(shard)
        if head is None or not head.owner or head.owner == self._own:
            raise Moved
        link = self._links.get(head.owner)
        if link is None:
            link = self._links[head.owner] = Link(head.address, head.secret)
        return await link.send(shard, rows, task, seconds)

    def _close_links(self, needed: set[str]) -> None:
        """Close the connections to processes that are dead and own no shard any more."""
        for owner in self._links.keys() - needed:
            self._links.pop(owner).close()

    def _local(
        self, shard: int, rows: Rows, task: Task, seconds: float
    ) -> asyncio.Future[list[Outcome]]:
        """Return what will be the outcomes of events of a shard of this process.

        Raises Moved and Problem; the future also raises Interrupted and TimeoutError.
        """
        committer = self._committers.get(shard)
        if committer is None:
            raise Moved
        job = Job(rows, task)
        committer.add(job)
        expire(job.done, seconds)
        return job.done

    def _forwarded(self, shard: int, rows: Rows, task: Task) -> asyncio.Future[list[Outcome]]:
        """Do the same for events that another process forwards, and waits for as long."""
        return self._local(shard, rows, task, self._time_limit)

    # --- status -----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return which shards are served where, and what waits here."""
        owners = {shard: head.address for shard, head in sorted(self._heads.items())}
        committers = dict(self._committers)
        problems = (self.problem, *self._problems.values())
        return {
            "shards": self.declared.shards,
            "own_shards": sorted(s for s, each in committers.items() if each.is_open),
            "owners": [owners.get(shard, "") for shard in range(self.declared.shards)],
            "waiting": sum(each.waiting for each in committers.values()),
            "problems": sorted({each.name for each in problems if each is not None}),
        }


def published_head(declared: Declaration, buckets: Iterable[Bucket], batch: int) -> PublishedHead:
    """Return what readers of declared windows read first."""
    what = what_of("keys", declared.aggregations, declared.frames)
    what.keys.extend(declared.keys)
    return PublishedHead(
        declared.name, declared.source, batch, time.time_ns() // 1000, what, [*buckets]
    )


def require_created(declared: Declaration) -> None:
    """Raise NotCreated or OtherWindows unless the store has the declared windows."""
    with open_store(declared.store) as store:
        for shard in range(declared.shards):
            require_same(ShardLog(store, declared.name, shard).read_head(), declared)


def create(declared: Declaration) -> None:
    """Create declared windows without events; harmless if they exist.

    Raises OtherWindows if something else is published under the name, or the windows were declared
    otherwise, and LostRecords if only some of the shards exist.
    """
    with open_store(declared.store) as store:
        logs = [ShardLog(store, declared.name, shard) for shard in range(declared.shards)]
        data = store.get_records([log.key("head") for log in logs])
        heads = [ShardHead.decode(each) for each in data if each is not None]
        before = read_head(store, declared.name)
        if before is not None and before.source != declared.source:
            raise OtherWindows(
                f"{declared.name!r} is what {before.source!r} publishes: a key has one writer, so "
                "choose another name"
            )
        for head in heads:
            require_same(head, declared)
        if heads and len(heads) < len(logs) and any(head.epoch for head in heads):
            raise LostRecords(
                f"some shards of {declared.name} are missing: restore a copy of the store"
            )
        if before is None:
            empty: list[Bucket] = [[] for _ in logs]
            replace_head(store, None, published_head(declared, empty, 0))
        for log, each in zip(logs, data, strict=True):
            if each is None:
                log.create(declared.fingerprint)
        store.flush()
