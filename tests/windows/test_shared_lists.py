"""Multiple windows over one stream against as many plain lists, step by step."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import mta.windows.shared_engine
from mta import CountWindow
from mta.errors import EventsGone
from mta.windows.shared import SharedWindows
from stores import PageStore, open_store
from tests.support.machines import run_machine
from tests.support.naive import (
    Rule,
    any_rule,
    both_rule,
    bound_rule,
    count_rule,
    joined,
    keep_letters,
    text_of,
    time_rule,
)
from tests.support.sampling import some
from tests.support.shared_windows import NAMES, SECOND, Lists

VALUES = st.sampled_from(["a", "b", "c", "dd", "eee", ""])
GAPS = st.sampled_from([0, 0, 1, 250_000, SECOND, SECOND, 2 * SECOND, 60 * SECOND])
BATCHES = st.lists(st.tuples(VALUES, GAPS), max_size=40)


def rules(n: int) -> list[Rule]:
    return [
        count_rule(n),
        time_rule(n * SECOND),
        any_rule(count_rule(n), time_rule(2 * n * SECOND)),
        both_rule(count_rule(n), time_rule(n * SECOND // 2)),
        count_rule(10**6),
        bound_rule(n),
        keep_letters(n),
        both_rule(bound_rule(n), time_rule(n * SECOND)),
    ]


RULES = st.builds(
    lambda n, which: rules(n)[which],
    st.sampled_from([1, 2, 3, 7, 20, 60]),
    st.integers(0, 7),
)


class SharedMachine(RuleBasedStateMachine):
    """Windows and lists side by side; they may crash and go back to a snapshot."""

    scheme: str | None = "memory"

    @initialize(
        arities=st.sampled_from([(2, 2), (3, 3), (8, 8), (5, 2), (2, 5)]),
        drawn=st.lists(RULES, min_size=1, max_size=4),
        chunk=st.sampled_from([1, 3, 7, 100]),
        keep=st.sampled_from([None, 3, 30]),
    )
    def begin(
        self, arities: tuple[int, int], drawn: list[Rule], chunk: int, keep: int | None
    ) -> None:
        self.folder: str | None = None
        self.before, mta.windows.shared_engine._CHUNK = mta.windows.shared_engine._CHUNK, chunk
        self.lists = Lists()
        self.frames = {}
        for name, frame in zip(NAMES, drawn, strict=False):
            self.lists.set(name, frame, 0)
            self.frames[name] = frame.frame()
        self.keep = None if keep is None else CountWindow(keep)
        self.event_log = keep or 0
        self.store = self.open()
        self.shared = SharedWindows(
            joined(),
            self.frames,
            store=self.store,
            leaf_arity=arities[0],
            arity=arities[1],
            retain_for=self.keep,
            timed=True,
        )
        self.now = 1_700_000_000 * SECOND
        #: Snapshots that must be restorable, newest last, and what was then.
        self.saved: list[tuple[bytes, Lists, dict[str, Any]]] = []

    def open(self) -> PageStore | None:
        if self.scheme is None:
            return None
        if self.scheme == "memory":
            return open_store("memory://")
        self.folder = self.folder or tempfile.mkdtemp()
        return open_store(f"file://{self.folder}", write_buffer=2000, cache=1000)

    def take(self, batch: list[tuple[str, int]]) -> tuple[list[str], Any, dict[str, list[str]]]:
        values, times = [], []
        results: dict[str, list[str]] = {name: [] for name in self.lists.windows}
        for value, gap in batch:
            self.now += gap
            values.append(value)
            times.append(self.now)
            for name, result in self.lists.add((value, self.now)).items():
                results[name].append(result)
        return values, np.array(times, dtype="M8[us]"), results

    @rule(value=VALUES, gap=GAPS)
    def insert(self, value: str, gap: int) -> None:
        self.take([(value, gap)])
        self.shared.insert(value, np.datetime64(self.now, "us"))

    @rule(batch=BATCHES, wanted=st.sampled_from(["all", "last"]))
    def extend(self, batch: list[tuple[str, int]], wanted: Any) -> None:
        values, times, expected = self.take(batch)
        results = self.shared.extend(values, times, emit=wanted)
        assert results.keys() == expected.keys()
        for name, found in results.items():
            assert list(found) == (expected[name] if wanted == "all" else expected[name][-1:])

    @property
    def kept(self) -> int:
        """The position from which on events are kept."""
        return len(self.lists.events) - self.shared.stats().kept

    @rule(data=st.data())
    def ask_for_ranges(self, data: st.DataObject) -> None:
        events, kept = self.lists.events, self.kept
        start = data.draw(st.integers(0, len(events)))
        stop = data.draw(st.integers(start, len(events)))
        if start >= kept:
            assert self.shared.range_by_position(start, stop) == text_of(events[start:stop])
        else:
            with pytest.raises(EventsGone):
                self.shared.range_by_position(start, stop)
        found = self.shared.range_by_position(start, stop, partial=True)
        assert found == text_of(events[max(kept, start) : stop])
        after = self.now - data.draw(st.integers(0, 20)) * SECOND
        until = after + data.draw(st.integers(0, 20)) * SECOND
        ask = np.datetime64(after, "us"), np.datetime64(until, "us")
        left = text_of([event for event in events[kept:] if after < event[1] <= until])
        assert self.shared.range(*ask, partial=True) == left
        gone = any(after < time for _, time in events[:kept])
        try:
            assert self.shared.range(*ask) == left
            assert not gone
        except EventsGone:
            assert kept  # where nobody knows the time of the last one that left, it may be early

    @rule(n=st.sampled_from([1, 2, 5, 30]), by_time=st.booleans())
    def ask_for_a_window(self, n: int, by_time: bool) -> None:
        """A sub-window, or any other, of what is kept."""
        frame = time_rule(n * SECOND) if by_time else count_rule(n)
        whole, left = list(self.lists.events), self.lists.events[self.kept :]
        if whole:
            frame.apply(whole)
            frame.apply(left)
        assert self.shared.query(frame.frame(), partial=True) == text_of(left)
        try:
            assert self.shared.query(frame.frame()) == text_of(whole)
        except EventsGone:
            assert self.kept

    @rule(name=st.sampled_from(NAMES), frame=RULES)
    def set(self, name: str, frame: Rule) -> None:
        """Add a window, or make one longer or shorter."""
        known = {
            observer.fingerprint for p in self.frames.values() for _, _, observer in p.observers
        }
        others = [p for other, p in self.shared.windows.items() if other != name]
        made = frame.frame()
        left = {o.fingerprint for p in [*others, made] for _, _, o in p.observers}
        change = self.shared.resize if name in self.shared.windows else self.shared.add
        if left != known:
            with pytest.raises(ValueError, match=r"which is (not )?kept"):
                change(name, made)
            return
        coverage, kept = change(name, made), self.kept
        self.lists.set(name, frame, kept)
        whole = list(self.lists.events)
        if whole:
            frame.apply(whole)
        missing = len(whole) - len(self.lists.windows[name])
        assert coverage.missing_at_least <= missing <= coverage.missing_at_most
        assert coverage.events == len(self.lists.windows[name])
        if type(made) is CountWindow:
            assert coverage.missing_at_least == missing == coverage.missing_at_most

    @precondition(lambda self: len(self.lists.windows) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.lists.windows)))
        others = [p for other, p in self.shared.windows.items() if other != name]
        known = {o.fingerprint for p in self.frames.values() for _, _, o in p.observers}
        if {o.fingerprint for p in others for _, _, o in p.observers} != known:
            with pytest.raises(ValueError, match="which is kept with every event"):
                self.shared.remove(name)
            return
        self.shared.remove(name)
        del self.lists.windows[name], self.lists.rules[name]

    @precondition(lambda self: self.store is not None)
    @rule()
    def checkpoint(self) -> None:
        snapshot = self.shared.checkpoint()
        saved = snapshot, self.lists.copy(), self.shared.windows
        self.saved = [*self.saved, saved][-2:]

    @precondition(lambda self: self.saved)
    @rule(back=st.integers(0, 1), reopen=st.booleans(), restore_like=st.booleans())
    def crash(self, back: int, reopen: bool, restore_like: bool) -> None:
        """Go on from a snapshot, as though nothing had happened since."""
        assert self.store is not None
        del self.saved[len(self.saved) - min(back, len(self.saved) - 1) :]
        snapshot, lists, frames = self.saved[-1]
        if reopen and self.folder:
            self.store.close()
            self.store = self.open()
        assert self.store is not None
        if (
            restore_like
            and not reopen
            and frames.keys() == self.shared.windows.keys()
            and all(
                frames[name].fingerprint == frame.fingerprint
                for name, frame in self.shared.windows.items()
            )
        ):
            self.shared = self.shared.restore_like(snapshot)
        else:
            self.shared = SharedWindows.restore(
                snapshot, joined(), frames, self.store, retain_for=self.keep
            )
        self.lists = lists.copy()
        self.now = lists.events[-1][1] if lists.events else self.now

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "shared"):
            return
        windows = self.lists.windows
        assert self.shared.query() == self.lists.results()
        stats = self.shared.stats()
        assert stats.windows == {name: len(events) for name, events in windows.items()}
        assert stats.kept >= max([min(self.event_log, stats.inserted), *stats.windows.values()])
        self.shared.check()

    def teardown(self) -> None:
        if hasattr(self, "before"):
            mta.windows.shared_engine._CHUNK = self.before
        if getattr(self, "folder", None):
            self.store.close()
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("scheme", "examples"),
    [(None, 8), ("memory", 15), ("file", 5), *some([("memory", 200)], by_default=0)],
)
def test_windows_are_lists(scheme: str | None, examples: int) -> None:
    run_machine(SharedMachine, examples, steps=25, scheme=scheme)
