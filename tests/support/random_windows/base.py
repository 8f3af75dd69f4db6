"""A life: random operations on windows, each with what a plain list says at its side.

A life draws everything from one seed, so it can be lived again.
"""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from mta.audit.walk import live_keys
from mta.errors import EventsGone, InvalidTime, InvalidValue
from stores import MemoryStore, PageStore, open_store
from tests.support.random_windows import hostile
from tests.support.random_windows.kinds import Kind, rows
from tests.support.random_windows.lists import Stream
from tests.support.random_windows.rules import SECOND, Event

#: How far one event is from the one before it.
GAPS = [0, 0, 1, 250_000, SECOND, SECOND, 2 * SECOND, 5 * SECOND, 40 * SECOND]
_BACK = [-SECOND, -2 * SECOND, -7 * SECOND, -30 * SECOND]
#: When streams begin: nowadays, around 1970.
STARTS = [1_700_000_000 * SECOND, 0, -10 * SECOND]
#: The same, and near the least and the greatest time that there is.
ALL_STARTS = [*STARTS, -(2**62) + 10**9, 2**62 - 10**12]


class Life(ABC):
    """A window, or several, and their lists."""

    #: The steps that may be drawn, each as often as it stands here.
    steps: tuple[str, ...]
    #: The same of what nobody should do.
    hostile_steps: tuple[str, ...]
    #: The window, or the windows, and all events.
    window: Any
    stream: Stream
    monoid: Any
    frame: Any

    def __init__(self, random: Random, kind: Kind) -> None:
        self.random, self.kind = random, kind
        self.number = 0
        self.folder: str | None = None
        self.store = self._open(random.choice(["none", "memory", "memory", "memory", "file"]))
        self.retain = random.choice([2, 2, 3])
        self.now = random.choice(ALL_STARTS if random.random() < 0.4 else STARTS)
        #: Snapshots that can be restored, and what was then.
        self.kept: list[tuple[bytes, Any]] = []
        self.strayed = False
        #: What was answered, for those who live the same life again.
        self.answers: list[str] = []
        #: What was done, for those who look for the fault.
        self.done: list[str] = []

    def _open(self, scheme: str) -> PageStore | None:
        if scheme == "none":
            return None
        if scheme == "memory":
            return MemoryStore()
        self.folder = self.folder or tempfile.mkdtemp()
        return open_store(f"file://{self.folder}", write_buffer=2000, cache=1000)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.store is not None:
            self.store.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def reopened(self) -> bool:
        """Whether the store is on disk, opened again as after the end of the process."""
        if self.folder and self.store is not None:
            self.store.close()
            self.store = self._open("file")
        return bool(self.folder)

    def step(self) -> None:
        """Do something."""
        name = self.random.choice(self.steps)
        self.done.append(name)
        getattr(self, name)()

    def one_by_one(self) -> None:
        """Many single events, with a question after each."""
        for _ in range(40):
            self.insert()
            self.ask()

    def insert(self) -> None:
        """Add up to three events, one by one."""
        for time, _ in self.batch(3)[:3]:
            batch = self.renumber([(time, self.value())])
            value, given = batch[0][1], self.form(time) if self.stream.timed else None
            self.note(f"{value!r} at {given!r}")
            self.insert_one(batch, value, given)

    @abstractmethod
    def insert_one(self, batch: list[Event], value: Any, given: Any) -> None:
        """Add one event."""

    @abstractmethod
    def ask(self) -> None:
        """Ask for what is in the window, or in all of them."""

    def note(self, what: str) -> None:
        """Say more of what is being done."""
        self.done[-1] += f" {what}"

    def answered(self, answer: Any) -> None:
        """Note an answer."""
        self.answers.append(repr(answer))

    @abstractmethod
    def watch(self) -> None:
        """Look at everything that only looks."""

    def sizes(self) -> dict[str, int]:
        """Small groups, so that levels are many."""
        arity = self.random.choice([2, 2, 3, 8])
        return {"arity": arity, "leaf_arity": self.random.choice([arity, arity, 2, 5])}

    # --- events -----------------------------------------------------------------------------------

    def batch(self, most: int = 25) -> list[Event]:
        """Events to come, some of them late where that may be."""
        stream = self.stream
        count, events = self.random.choice([0, 1, 1, 2, 4, most]), []
        for _ in range(count):
            late = stream.timed and self.random.random() < (0.4 if stream.is_late else 0.05)
            time = self.now + self.random.choice(_BACK if late else GAPS)
            self.now = max(self.now, time)
            events.append((time, self.value()))
        return events

    def serial(self) -> int:
        """A number that grows."""
        self.number += 1
        return self.number

    def value(self) -> Any:
        """The next event's value."""
        return self.kind.draw(self.random, self.serial())

    def renumber(self, batch: list[Event]) -> list[Event]:
        """Give neighbours in order the numbers of their positions, as only the accepted ones count.

        Where events are late, they are numbered in the order in which they will lie, as far as that
        is known: by time, and then as they came.
        """
        stream = self.stream
        if self.kind.name != "neighbours":
            return batch
        if stream.is_late:
            scale = 1 << 40
            return [
                (time, f"{time * scale + self.serial()}:{value.partition(':')[2]}")
                for time, value in batch
            ]
        place = {index: at for at, index in enumerate(stream.accepted([t for t, _ in batch]))}
        base = len(stream.events)
        return [
            (time, f"{base + place.get(index, -1 << 60)}:{value.partition(':')[2]}")
            for index, (time, value) in enumerate(batch)
        ]

    def form(self, time: int) -> Any:
        """A time as users give it."""
        forms: list[Any] = [np.datetime64(time, "us")] * 3
        if time % SECOND == 0:
            forms += [time // SECOND, np.int64(time // SECOND)]
        if abs(time) < 2**52:
            forms.append(time / SECOND)
        return self.random.choice(forms)

    def times(self, batch: list[Event]) -> Any:
        """The times of a batch, as users give them."""
        return np.array([time for time, _ in batch], "M8[us]")

    def values(self, batch: list[Event]) -> Any:
        """The values of a batch, as users give them."""
        return self.kind.batch([value for _, value in batch])

    # --- what must be -----------------------------------------------------------------------------

    def assert_is(self, found: Any, values: list[Any]) -> None:
        """A result is that of some values."""
        self.answered(found)
        assert self.kind.agrees(found, values), (
            f"{found!r} where {self.kind.expect(values)!r} is right"
        )

    def assert_all(self, results: Any, expected: list[list[Any]]) -> None:
        """The results of a batch are those of some windows."""
        found = rows(results)
        assert len(found) == len(expected), f"{len(found)} results of {len(expected)} events"
        for one, values in zip(found, expected, strict=True):
            self.assert_is(one, values)

    @property
    def needed(self) -> int:
        """From which position on events are kept."""
        return 0

    def assert_part(
        self, ask: Callable[[bool], Any], start: int, stop: int, needed: int | None = None
    ) -> None:
        """A range is answered where its events are kept from a position on, and never in part.

        With ``partial=True`` it is answered from some position on that is not after ``kept``.
        """
        stream, kept = self.stream, self.needed if needed is None else needed
        whole, least = stream.values(start, stop), min(max(start, kept), max(stop, start))
        try:
            self.assert_is(ask(False), whole)
        except EventsGone:
            assert start < kept, f"positions {start} to {stop} are held from {kept} on"
            self.answered("gone")
        found = ask(True)
        assert any(
            self.kind.agrees(found, stream.values(first, stop)) for first in range(start, least + 1)
        ), f"{found!r} is no part of {whole!r}"

    def refused(self, call: Callable[[], Any]) -> bool:
        """Whether a call is refused; then nothing may have changed, which later steps show."""
        error = hostile.refusal(call)
        self.answered(type(error).__name__)
        return error is not None

    def assert_refused(self, call: Callable[[], Any], kind: type[Exception], what: str) -> None:
        """A call must be refused."""
        error = hostile.refusal(call)
        assert isinstance(error, kind), f"{what} was answered with {error!r}"

    # --- what nobody should give ------------------------------------------------------------------

    def insert_or_extend(self, value: Any, batch: Any, times: Any) -> tuple[Callable[[], Any], str]:
        """A call with one event, alone or as a batch, and which of both it is."""
        window = self.window
        if self.random.random() < 0.5:
            return lambda: window.insert(value, None if times is None else times[0]), "alone"
        return lambda: window.extend(batch, times), "in a batch"

    def with_hole(self, null: Any) -> Any:
        """A value that is null, or has a null."""
        if not self.kind.columns:
            return null
        column = self.random.choice([c for c in self.kind.columns if c != "w"])
        return {**self.value(), column: null}

    def give_null(self) -> None:
        null = self.random.choice(hostile.NULLS)
        value = self.with_hole(null)
        times = self.times([(self.now, None)]) if self.stream.timed else None
        self.note(repr(null))
        call, how = self.insert_or_extend(value, self.kind.batch([value]), times)
        self.assert_refused(call, InvalidValue, f"{null!r} {how}")

    def give_no_time(self) -> None:
        if not self.stream.timed:
            return
        time, value = self.random.choice(hostile.NO_TIMES), self.value()
        call, how = self.insert_or_extend(value, self.kind.batch([value]), [time])
        self.note(f"{time!r} {how}")
        self.assert_refused(call, InvalidTime, f"the time {time!r} {how}")

    # --- snapshots --------------------------------------------------------------------------------

    @abstractmethod
    def _save(self) -> bytes: ...

    @abstractmethod
    def _copy(self) -> Any: ...

    @abstractmethod
    def _go_back(self, snapshot: bytes, then: Any) -> None: ...

    def checkpoint(self) -> None:
        if self.store is None:
            return
        snapshot = self._save()
        self.answers.append(snapshot.hex())
        if isinstance(self.store, MemoryStore) and not self.strayed:
            with np.errstate(all="ignore"):
                left, named = set(self.store.keys()), set(live_keys(self.window))
            assert left == named, f"{left - named} are named by no snapshot, {named - left} missing"
        self.kept = [*self.kept, (snapshot, (self._copy(), self.now))][-self.retain :]

    def crash(self) -> None:
        """Go back to a snapshot, the latest or an earlier one."""
        if not self.kept:
            return
        back = self.random.randrange(len(self.kept)) if self.random.random() < 0.5 else -1
        snapshot, (then, now) = self.kept[back]
        self.kept = [(snapshot, (then, now))]
        self.note(f"to {back}")
        self.strayed = True  # what was written since may stay for a while
        self._go_back(snapshot, then)
        # What was late for those who knew more may be in order now.
        self.now = max(now, self.now - 10 * SECOND)
