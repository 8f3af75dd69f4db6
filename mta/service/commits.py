"""One thread for each shard that this process owns: it commits together whatever waits.

Requests that arrive during a commit wait for the next one, which begins at the earliest the
declared ``delay`` after the one before began: so events share the cost of a commit, and a store
gets only so many writes. If small commits of all shards of a process take more than half of a
processor, which they share, they begin up to four times as late. An event that finds nothing
running is committed at once. The delay of an event is bounded by four times ``delay``, the commit
that is running, and the next one.

Whatever error a commit raises, memory may be ahead of the store afterwards. So the thread gives the
shard up, its events are answered by a problem with the status 503, and the shard is claimed again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgpack

from mta.errors import WindowStoreError
from mta.serve.answers import Problem, problem_of
from mta.service.declaration import Declaration
from mta.service.log import LostRecords, NotCreated, NotOwner, OtherWindows
from mta.service.retries import NO_ID
from mta.service.rows import Rows
from mta.service.shard import MOST_ROWS, Outcome, Shard

logger = logging.getLogger(__name__)
#: What is done with the rows of a request.
Task = Literal["add", "check", "erase"]
#: How many events may wait for a shard; further ones are refused.
MOST_WAITING = 32_768
#: How many checks of one key a commit judges; the others wait for the next commits.
_CHECKS = 8
#: How many events the log may have before a new state is written early.
_MOST_FRESH = 50_000


class Moved(Exception):
    """The shard has another owner now, and no event was judged: look for it and try again."""


class Interrupted(Exception):
    """The owner lost the shard, or died, before it answered: the events may have been added."""


def failure_of(error: BaseException, what: str) -> Problem:
    """Return why a shard cannot be served, with the status 503; logs the error.

    Other problems are of a single request, so they would be wrong for those of other clients.
    """
    if isinstance(error, NotCreated | LostRecords | OtherWindows):
        logger.error("%s", error)
        return Problem("LostRecords", "The server's log has the cause.")
    if isinstance(error, WindowStoreError) and (known := problem_of(error)).status == 503:
        return known
    logger.error("%s failed", what, exc_info=error)
    return Problem("ShardFailed", "The server's log has the cause.", retry_after="1")


def can_repeat(rows: Rows, task: Task) -> bool:
    """Return whether rows may be judged again, although they may have been added."""
    return task != "add" or NO_ID not in rows.digests


class Job:
    """Events, or keys, of one request for one shard, and where their outcomes go."""

    def __init__(self, rows: Rows, task: Task) -> None:
        self.rows, self.task = rows, task
        self.outcomes: list[Outcome | None] = [None] * len(rows)
        #: Whether a commit may have added events of this request.
        self.is_judged = False
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def places(self) -> list[int]:
        """Return which rows to judge: also the accepted ones of a check, which no window has."""
        return [
            at for at, found in enumerate(self.outcomes)
            if found is None or (self.task == "check" and found.status == 200)
        ]  # fmt: skip


def outcome_unknown() -> Problem:
    """Return the problem of events without ids that may have been added."""
    return Problem(
        "OutcomeUnknown", "The events may have been added: send ids, so that a retry is safe."
    )


def _without_common_keys(jobs: Sequence[Job]) -> list[list[Job]]:
    """Divide checks so that none sees the events of another one."""
    groups, depth = defaultdict[int, list[Job]](list), defaultdict[bytes, int](int)
    for job in jobs:
        keys = {msgpack.packb(key) for key in job.rows.keys}
        at = max(depth[key] for key in keys)
        depth.update(dict.fromkeys(keys, at + 1))
        groups[at].append(job)
    return [*groups.values()]


def resolve(jobs: Sequence[Job], error: Exception | None = None) -> None:
    """Give the requests of one event loop their outcomes, or an error; from any thread."""

    def resolve_all() -> None:
        for job in jobs:
            if job.done.done():  # the request has timed out
                continue
            if error is None:
                job.done.set_result(job.outcomes)
            else:
                job.done.set_exception(error)

    if jobs:  # one call, as each wakes the loop up
        jobs[0].done.get_loop().call_soon_threadsafe(resolve_all)


class Committer:
    """Commits the events of a shard, one commit after the other.

    ``published`` is called with the shard and the snapshot of its windows after each new state.
    """

    def __init__(
        self, shard: Shard, declared: Declaration, published: Callable[[Shard, bytes], None]
    ) -> None:
        self.shard, self._declared, self._published = shard, declared, published
        self._jobs: deque[Job] = deque()
        #: The jobs of the last commit; those that it did not answer wait again.
        self._taken: list[Job] = []
        #: How many events wait, and how many shards share this process.
        self.waiting, self.sharing = 0, 1
        self._stops, self._doubts = False, False
        #: Whether the shard is owned; False once the thread has ended, whatever ended it.
        self.is_open = True
        self._wake = threading.Condition()
        #: When the last commit began, its processor time, and when the last state was written.
        self._began, self._worked, self._compacted = 0.0, 0.0, time.monotonic()
        #: Whether readers get the state; an earlier owner may have ended before they did.
        self._is_published = False
        name = f"shard-{shard.number}"
        # A process that is ended by force does not wait for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Add a job. Raises Problem if too much waits, and Moved if the shard is given up."""
        with self._wake:
            if self._stops or not self.is_open:
                raise Moved
            if self.waiting + len(job.rows) > MOST_WAITING:
                raise Problem("TooManyEvents", "Retry in a second.", retry_after="1")
            self._jobs.append(job)
            self.waiting += len(job.rows)
            self._wake.notify()

    def check_owner(self) -> None:
        """Let the thread find out whether the shard is still owned; returns at once."""
        with self._wake:
            self._doubts = True
            self._wake.notify()

    def stop(self) -> None:
        """Commit what waits, write the state, and give the shard up; returns at once."""
        with self._wake:
            self._stops = True
            self._wake.notify()

    def join(self) -> None:
        """Wait until the shard is given up."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while (jobs := self._next()) or not self._stops:
                if jobs:
                    self._commit(jobs)
                self._compact_when_due()
                if self._doubts:
                    self._doubts = False
                    self.shard.log.require_owner()
            if self.shard.fresh:
                self._note(self.shard.compact())
            self.shard.log.release()
            self._close(Moved(), Moved())
        except NotOwner as error:
            logger.warning("%s", error)
            self._close(Interrupted(), Moved())
        except BaseException as error:  # also panics of libraries: the shard must not hang
            problem = failure_of(error, f"shard {self.shard.number}")
            self._close(problem, problem)

    def _close(self, judged: Exception, waiting: Exception) -> None:
        """Answer all jobs: those of which a commit may have judged events, and the others."""
        with self._wake:
            self.is_open = False
            jobs, self._jobs = [*self._taken, *self._jobs], deque()
        for job in jobs:
            if not job.is_judged:
                resolve([job], waiting)
            else:
                resolve([job], judged if can_repeat(job.rows, job.task) else outcome_unknown())

    def _next(self) -> list[Job]:
        """Return the jobs of the next commit; none if there are none for a while."""
        with self._wake:
            if not (self._jobs or self._stops or self._doubts):
                self._wake.wait(0.2)
            if not self._jobs:
                return []
        delay = self._declared.delay / 1e6
        begin = self._began + min(max(delay, 2 * self._worked * self.sharing), 4 * delay)
        time.sleep(max(0.0, begin - time.monotonic()))
        self._began, self._worked = time.monotonic(), time.thread_time()
        jobs, count = list[Job](), 0
        with self._wake:
            while self._jobs and (not jobs or count + len(self._jobs[0].rows) <= MOST_ROWS):
                job = self._jobs.popleft()
                self.waiting -= len(job.rows)
                if not job.done.done():  # otherwise, its request has timed out
                    jobs.append(job)
                    count += len(job.rows)
        return jobs

    def _commit_between(self) -> None:
        """Commit what waits, except erasures, between the parts of a merge."""
        if self._jobs:
            self._commit(self._next(), erase=False)

    def _commit(self, jobs: list[Job], erase: bool = True) -> None:
        """Judge the events of some jobs: add first, then check, then erase."""
        self._taken = jobs
        of: dict[Task, list[Job]] = {"add": [], "check": [], "erase": []}
        for job in jobs:
            job.is_judged = True
            of[job.task].append(job)
        self._judge(of["add"], self.shard.commit)
        for group in _without_common_keys(of["check"])[:_CHECKS]:
            self._judge(group, partial(self.shard.commit, add=False))
        if erase:
            self._judge(of["erase"], self._erase)
        self._settle(jobs)
        self._worked = time.thread_time() - self._worked

    @staticmethod
    def _judge(jobs: list[Job], judge: Callable[[Rows], Sequence[Outcome | None]]) -> None:
        """Judge the events that have no outcome yet, after those that a check has accepted."""
        if not jobs:
            return
        rows, places = Rows(), [job.places for job in jobs]
        for job, some in zip(jobs, places, strict=True):
            rows.extend(job.rows if len(some) == len(job.rows) else job.rows.take(some))
        outcomes = iter(judge(rows))
        for job, some in zip(jobs, places, strict=True):
            for at, outcome in zip(some, outcomes, strict=False):
                job.outcomes[at] = outcome or job.outcomes[at]

    def _settle(self, jobs: list[Job]) -> None:
        """Answer the jobs that are complete; the others wait again, behind those of others."""
        resolve([job for job in jobs if None not in job.outcomes])
        left = [job for job in jobs if None in job.outcomes]
        with self._wake:
            self._jobs.extend(left)
            self.waiting += sum(len(job.rows) for job in left)

    def _compact_when_due(self) -> None:
        age = time.monotonic() - self._compacted
        due = age >= self._declared.snapshot_every / 1e6 or self.shard.fresh >= _MOST_FRESH
        if due and (self.shard.needs_compaction or not self._is_published):
            self.shard.merge(self._commit_between)
            self._note(self.shard.compact())

    def _erase(self, rows: Rows) -> list[Outcome]:
        self._note(self.shard.erase(rows))
        return [Outcome(200, b"", "erased")] * len(rows)

    def _note(self, snapshot: bytes) -> None:
        self._compacted = time.monotonic()
        self._published(self.shard, snapshot)
        self._is_published = True
