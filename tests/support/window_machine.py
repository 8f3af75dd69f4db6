"""A window against a plain list, step by step, with an operation that shows every mistake in order.

Each machine draws its sizes and its frame again, does what a user can do, and after each step asks
the window for its result, its length and its invariants.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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

from mta import AmortizedMTA, Window
from mta.errors import EmptyWindow
from stores import PageStore, open_store
from tests.support.naive import (
    Event,
    Rule,
    any_rule,
    both_rule,
    bound_rule,
    count_rule,
    first_half,
    joined,
    keep_letters,
    text_of,
    time_rule,
)

ARITIES = [(2, 2), (3, 3), (8, 8), (5, 2), (2, 5)]
SECOND = 1_000_000


def rules(n: int) -> list[Rule]:
    return [
        count_rule(n),
        time_rule(n * SECOND),
        any_rule(count_rule(n), time_rule(2 * n * SECOND)),
        both_rule(count_rule(n), time_rule(n * SECOND // 2)),
        both_rule(any_rule(count_rule(n), time_rule(SECOND)), time_rule(SECOND // 2)),
        bound_rule(n),
        bound_rule(n, checked=True),
        keep_letters(n),
        keep_letters(n, checked=True),
        first_half(checked=True),
        any_rule(bound_rule(2 * n), count_rule(n)),
        both_rule(bound_rule(n), time_rule(n * SECOND)),
        count_rule(10**6),
    ]


VALUES = st.sampled_from(["a", "b", "c", "dd", "eee", ""])
GAPS = st.sampled_from([0, 0, 1, 250_000, SECOND, SECOND, 2 * SECOND, 60 * SECOND])
BATCHES = st.lists(st.tuples(VALUES, GAPS), max_size=40)
TIME_FORMS: list[Callable[[int], Any]] = [
    lambda micros: micros / 1e6,
    lambda micros: np.datetime64(micros, "us"),
    lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros),
]
BATCH_FORMS: list[Callable[[list[str], list[int]], tuple[Any, Any]]] = [
    lambda values, micros: (values, [time / 1e6 for time in micros]),
    lambda values, micros: (np.array(values, dtype=object), np.array(micros, dtype="M8[us]")),
    lambda values, micros: (tuple(values), np.array(micros) / 1e6),
]


class WindowMachine(RuleBasedStateMachine):
    """A window and a list side by side; journals hold what happened since each snapshot."""

    aggregator: type = AmortizedMTA
    scheme: str | None = "memory"

    @initialize(
        arities=st.sampled_from(ARITIES),
        n=st.sampled_from([1, 2, 3, 7, 20, 60]),
        which=st.integers(0, len(rules(1)) - 1),
    )
    def begin(self, arities: tuple[int, int], n: int, which: int) -> None:
        self.folder: str | None = None
        self.rule = rules(n)[which]
        self.leaf_arity, self.arity = arities
        self.store = self.open()
        self.window = Window(
            joined(),
            self.rule.frame(),
            store=self.store,
            name="machine",
            arity=self.arity,
            leaf_arity=self.leaf_arity,
            aggregator=self.aggregator,
        )
        self.events: list[Event] = []
        self.now = 1_700_000_000 * SECOND
        #: Per snapshot that must be restorable: the snapshot, the list then, what happened since.
        self.kept: list[tuple[bytes, list[Event], list[tuple[str, Any]]]] = []

    def open(self) -> PageStore | None:
        if self.scheme is None:
            return None
        if self.scheme == "memory":
            return open_store("memory://")
        self.folder = self.folder or tempfile.mkdtemp()
        return open_store(f"file://{self.folder}", write_buffer=2000, cache=1000)

    def note(self, what: str, detail: Any) -> None:
        for _, _, journal in self.kept:
            journal.append((what, detail))

    def take(self, batch: list[tuple[str, int]]) -> tuple[list[str], list[int], list[str]]:
        """Bring events into the list: values, times, and the result after each."""
        values, times, results = [], [], []
        for value, gap in batch:
            self.now += gap
            values.append(value)
            times.append(self.now)
            self.events.append((value, self.now))
            self.rule.apply(self.events)
            results.append(text_of(self.events))
        return values, times, results

    @rule(value=VALUES, gap=GAPS, form=st.sampled_from(TIME_FORMS))
    def insert(self, value: str, gap: int, form: Callable[[int], Any]) -> None:
        self.take([(value, gap)])
        self.window.insert(value, form(self.now))
        self.note("events", [(value, self.now)])

    @rule(
        batch=BATCHES,
        form=st.sampled_from(BATCH_FORMS),
        wanted=st.sampled_from(["all", "last"]),
    )
    def extend(self, batch: list[tuple[str, int]], form: Callable[..., Any], wanted: Any) -> None:
        values, times, expected = self.take(batch)
        results = self.window.extend(*form(values, times), emit=wanted)
        assert list(results) == (expected if wanted == "all" else expected[-1:])
        self.note("events", list(zip(values, times, strict=True)))

    @precondition(lambda self: self.events)
    @rule()
    def evict_one(self) -> None:
        self.window.evict()
        del self.events[0]
        self.note("evict", 1)

    @rule(part=st.floats(0, 1))
    def evict_many(self, part: float) -> None:
        count = round(part * len(self.events))
        self.window.evict(count)
        del self.events[:count]
        self.note("evict", count)

    @rule()
    def evict_too_many(self) -> None:
        with pytest.raises(EmptyWindow):
            self.window.evict(len(self.events) + 1)

    @precondition(lambda self: self.store is not None)
    @rule()
    def checkpoint(self) -> None:
        snapshot = self.window.checkpoint()
        self.kept = [*self.kept, (snapshot, list(self.events), [])][-2:]

    @precondition(lambda self: self.kept)
    @rule(back=st.integers(0, 1), reopen=st.booleans(), at_once=st.booleans())
    def restore(self, back: int, reopen: bool, at_once: bool) -> None:
        """A crash: go back to a snapshot, then do again what came after it, in other batches."""
        assert self.store is not None
        del self.kept[len(self.kept) - min(back, len(self.kept) - 1) :]
        snapshot, then, journal = self.kept[-1]
        if reopen and self.folder:
            self.store.close()
            self.store = self.open()
        assert self.store is not None
        self.window = Window.restore(
            snapshot, joined(), self.rule.frame(), store=self.store, aggregator=self.aggregator
        )
        assert self.window.query() == text_of(then)
        assert len(self.window) == len(then)
        for what, group in itertools.groupby(journal, key=lambda entry: entry[0]):
            self.do_again(what, [detail for _, detail in group], at_once)
        # Of the snapshots only this one and those before it are still on this line of history.
        self.kept = [self.kept[-1]]

    def do_again(self, what: str, details: list[Any], at_once: bool) -> None:
        """Repeat steps of one kind that followed each other."""
        if what == "evict":
            self.window.evict(sum(details))
            return
        events = [event for some in details for event in some]
        if at_once and events:
            times = np.array([time for _, time in events], dtype="M8[us]")
            self.window.extend([value for value, _ in events], times, emit="last")
        else:
            for value, time in events:
                self.window.insert(value, time / 1e6)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "window"):
            return
        assert self.window.query() == text_of(self.events)
        assert len(self.window) == self.window.stats().events == len(self.events)
        self.window.check()

    def teardown(self) -> None:
        if getattr(self, "folder", None):
            self.store.close()
            shutil.rmtree(self.folder, ignore_errors=True)
