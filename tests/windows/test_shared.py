"""Several windows over one stream against as many plain lists, step by step; costs, counted."""

from __future__ import annotations

import gc
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import mta.windows.feed
import mta.windows.shared
from mta import (
    BoundWindow,
    ColumnarMonoid,
    Count,
    CountWindow,
    Max,
    Mean,
    Monoid,
    Policy,
    Product,
    Sum,
    TimeWindow,
    Window,
)
from mta.audit.walk import audit
from mta.cursors.ordered import Hand
from mta.errors import (
    CorruptHandle,
    EventsGone,
    HandleMismatch,
    InvalidTime,
    LateEvent,
    NotPageable,
    StoreUnavailable,
)
from mta.monoids.base import AbstractMonoid
from mta.policies.base import AbstractPolicy
from mta.windows.shared import SharedWindows
from mta.windows.shared_handle import SharedHandle
from stores import MemoryStore, PageStore, open_store
from stores.testing.counting import CountingStore
from stores.wrapper import WrapperStore
from tests.support.counted import Counted, rolling_hash
from tests.support.naive import (
    Event,
    FailingStore,
    Rule,
    any_rule,
    both_rule,
    bound_rule,
    count_rule,
    first_half,
    joined,
    keep_letters,
    letters,
    pages_of,
    text_of,
    time_rule,
)

SECOND = 1_000_000
VALUES = st.sampled_from(["a", "b", "c", "dd", "eee", ""])
GAPS = st.sampled_from([0, 0, 1, 250_000, SECOND, SECOND, 2 * SECOND, 60 * SECOND])
BATCHES = st.lists(st.tuples(VALUES, GAPS), max_size=40)
NAMES = ["five", "hour", "day", "month"]


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


@dataclass
class Lists:
    """All events there have been, and those in each window."""

    events: list[Event] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)
    windows: dict[str, list[Event]] = field(default_factory=dict)

    def copy(self) -> Lists:
        windows = {name: list(events) for name, events in self.windows.items()}
        return Lists(list(self.events), dict(self.rules), windows)

    def add(self, event: Event) -> dict[str, str]:
        """Take in an event: the result of each window."""
        self.events.append(event)
        for name, events in self.windows.items():
            events.append(event)
            self.rules[name].apply(events)
        return self.results()

    def results(self) -> dict[str, str]:
        """The result of each window."""
        return {name: text_of(events) for name, events in self.windows.items()}

    def set(self, name: str, policy: Rule, kept: int) -> None:
        """A window anew, out of the events that are kept."""
        self.rules[name], self.windows[name] = policy, self.events[kept:]
        policy.apply(self.windows[name]) if self.windows[name] else None


class SharedMachine(RuleBasedStateMachine):
    """Windows and lists side by side; they may crash and go back to a handle."""

    scheme: str | None = "memory"

    @initialize(
        arities=st.sampled_from([(2, 2), (3, 3), (8, 8), (5, 2), (2, 5)]),
        drawn=st.lists(RULES, min_size=1, max_size=4),
        hand=st.sampled_from([1, 3, 7, 100]),
        keep=st.sampled_from([None, 3, 30]),
    )
    def begin(
        self, arities: tuple[int, int], drawn: list[Rule], hand: int, keep: int | None
    ) -> None:
        self.folder: str | None = None
        self.before, mta.windows.feed._HAND = mta.windows.feed._HAND, hand
        self.lists = Lists()
        self.policies = {}
        for name, policy in zip(NAMES, drawn, strict=False):
            self.lists.set(name, policy, 0)
            self.policies[name] = policy.policy()
        self.keep = None if keep is None else CountWindow(keep)
        self.kept_events = keep or 0
        self.store = self.open()
        self.shared = SharedWindows(
            joined(),
            self.policies,
            store=self.store,
            leaf_arity=arities[0],
            arity=arities[1],
            keep=self.keep,
            timed=True,
        )
        self.now = 1_700_000_000 * SECOND
        #: Handles that must be restorable, newest last, and what was then.
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
        results = self.shared.extend(values, times, results=wanted)
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
            assert self.shared.range_of_positions(start, stop) == text_of(events[start:stop])
        else:
            with pytest.raises(EventsGone):
                self.shared.range_of_positions(start, stop)
        found = self.shared.range_of_positions(start, stop, partial=True)
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
        policy = time_rule(n * SECOND) if by_time else count_rule(n)
        whole, left = list(self.lists.events), self.lists.events[self.kept :]
        if whole:
            policy.apply(whole)
            policy.apply(left)
        assert self.shared.query(policy.policy(), partial=True) == text_of(left)
        try:
            assert self.shared.query(policy.policy()) == text_of(whole)
        except EventsGone:
            assert self.kept

    @rule(name=st.sampled_from(NAMES), policy=RULES)
    def set(self, name: str, policy: Rule) -> None:
        """Add a window, or make one longer or shorter."""
        known = {
            observer.fingerprint for p in self.policies.values() for _, _, observer in p.observers
        }
        others = [p for other, p in self.shared.windows.items() if other != name]
        made = policy.policy()
        left = {o.fingerprint for p in [*others, made] for _, _, o in p.observers}
        change = self.shared.resize if name in self.shared.windows else self.shared.add
        if left != known:
            with pytest.raises(ValueError, match=r"which is (not )?kept"):
                change(name, made)
            return
        reach, kept = change(name, made), self.kept
        self.lists.set(name, policy, kept)
        whole = list(self.lists.events)
        if whole:
            policy.apply(whole)
        missing = len(whole) - len(self.lists.windows[name])
        assert reach.missing_at_least <= missing <= reach.missing_at_most
        assert reach.events == len(self.lists.windows[name])
        if type(made) is CountWindow:
            assert reach.missing_at_least == missing == reach.missing_at_most

    @precondition(lambda self: len(self.lists.windows) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.lists.windows)))
        others = [p for other, p in self.shared.windows.items() if other != name]
        known = {o.fingerprint for p in self.policies.values() for _, _, o in p.observers}
        if {o.fingerprint for p in others for _, _, o in p.observers} != known:
            with pytest.raises(ValueError, match="which is kept with every event"):
                self.shared.remove(name)
            return
        self.shared.remove(name)
        del self.lists.windows[name], self.lists.rules[name]

    @precondition(lambda self: self.store is not None)
    @rule()
    def checkpoint(self) -> None:
        handle = self.shared.checkpoint()
        saved = handle, self.lists.copy(), self.shared.windows
        self.saved = [*self.saved, saved][-2:]

    @precondition(lambda self: self.saved)
    @rule(back=st.integers(0, 1), reopen=st.booleans(), sibling=st.booleans())
    def crash(self, back: int, reopen: bool, sibling: bool) -> None:
        """Go on from a handle, as though nothing had happened since."""
        assert self.store is not None
        del self.saved[len(self.saved) - min(back, len(self.saved) - 1) :]
        handle, lists, policies = self.saved[-1]
        if reopen and self.folder:
            self.store.close()
            self.store = self.open()
        assert self.store is not None
        if (
            sibling
            and not reopen
            and policies.keys() == self.shared.windows.keys()
            and all(
                policies[name].fingerprint == policy.fingerprint
                for name, policy in self.shared.windows.items()
            )
        ):
            self.shared = self.shared.sibling(handle)
        else:
            self.shared = SharedWindows.restore(
                handle, joined(), policies, self.store, keep=self.keep
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
        assert stats.kept >= max([min(self.kept_events, stats.inserted), *stats.windows.values()])
        self.shared.check()

    def teardown(self) -> None:
        if hasattr(self, "before"):
            mta.windows.feed._HAND = self.before
        if getattr(self, "folder", None):
            self.store.close()
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.parametrize(("scheme", "examples"), [(None, 25), ("memory", 50), ("file", 8)])
def test_windows_are_lists(scheme: str | None, examples: int) -> None:
    machine = type("Machine", (SharedMachine,), {"scheme": scheme})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


# --- costs ----------------------------------------------------------------------------------------

LEAF, ARITY, N = 64, 8, 20_000
FOUR = {
    "five": CountWindow(50),
    "hour": CountWindow(400),
    "day": CountWindow(3_000),
    "month": CountWindow(9_000),
}


def counted_windows(
    policies: dict[str, Any], **options: Any
) -> tuple[SharedWindows, CountingStore]:
    store = CountingStore(MemoryStore())
    sizes = {"leaf_arity": LEAF, "arity": ARITY}
    return SharedWindows(Max(), policies, store=store, **sizes, **options), store


def values(count: int) -> np.ndarray:
    return np.random.default_rng(3).random(count)


def test_four_windows_write_the_pages_of_one_and_keep_those_of_the_longest() -> None:
    four, shared = counted_windows(FOUR)
    four.extend(values(N))
    four.checkpoint()
    store = CountingStore(MemoryStore())
    one = Window(Max(), FOUR["month"], store=store, leaf_arity=LEAF, arity=ARITY)
    one.extend(values(N))
    one.checkpoint()
    assert shared.counts.put.pages == store.counts.put.pages
    assert shared.counts.put.bytes == pytest.approx(store.counts.put.bytes, rel=0.01)
    assert len(pages_of(shared)) <= len(pages_of(store)) + 2 * 3  # one more a level at either end


class LeafReads(WrapperStore):
    """Counts how often leaf pages are read, and inner ones."""

    leaves = inner = 0

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        leaves = sum(key.split("/")[1] == "0" for key in keys)
        self.leaves += leaves
        self.inner += len(keys) - leaves
        return super().get_many(keys)


def test_a_window_reads_a_page_a_leaf_once_it_is_longer_than_what_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mta.levels.kept._RECENT_BYTES", 8 * 8 * LEAF)  # eight leaf groups
    monkeypatch.setattr("mta.levels.kept._FETCHED_BYTES", 1)
    monkeypatch.setattr("mta.windows.feed._HAND", 2 * LEAF)
    half, leaves = N // 2, N // 2 // LEAF
    for policies in [{name: policy} for name, policy in FOUR.items()] + [FOUR]:
        store = LeafReads(MemoryStore())
        windows = SharedWindows(Max(), policies, store=store, leaf_arity=LEAF, arity=ARITY)
        windows.extend(values(half))
        store.leaves = store.inner = 0
        windows.extend(values(half))
        longer = [policy for policy in policies.values() if policy.size > 7 * LEAF]
        assert (leaves - 1) * len(longer) <= store.leaves <= (leaves + 1) * len(longer)
        # One for every eight leaves that are deleted, and as many for each window to fold.
        assert store.inner <= (1 + len(policies)) * (leaves // ARITY + 8)


def test_a_range_reads_at_most_two_pages_a_level() -> None:
    windows, store = counted_windows(FOUR, keep=CountWindow(N))
    windows.extend(values(N), results="last")
    levels = windows.stats().levels
    handle = windows.checkpoint()
    for start, stop in [(0, N), (1, N - 1), (7_777, 7_780), (63, 64), (63, 65), (5_000, 15_001)]:
        windows = SharedWindows.restore(handle, Max(), FOUR, store, keep=CountWindow(N))
        store.reset()
        assert windows.range_of_positions(start, stop) == values(N)[start:stop].max()
        assert store.counts.get.pages <= 2 * (levels - 1)


def test_ranges_and_windows_by_time_read_at_most_two_pages_a_level() -> None:
    store = CountingStore(MemoryStore())
    policies = {"day": TimeWindow(5_000)}
    windows = SharedWindows(
        Max(), policies, store=store, leaf_arity=LEAF, arity=ARITY, keep=TimeWindow(N)
    )
    windows.extend(values(N), np.arange(N), results="last")
    levels = windows.stats().levels
    handle = windows.checkpoint()
    for after, until in [(-1, N), (3_000, 3_100), (5_000, 15_000)]:
        windows = SharedWindows.restore(handle, Max(), policies, store)
        store.reset()
        assert windows.range(after, until) == values(N)[after + 1 : until + 1].max()
        assert store.counts.get.pages <= 4 * (levels - 1)  # two searches and a fold
        store.reset()
        assert windows.query(TimeWindow(777)) == values(N)[-777:].max()
        assert store.counts.get.pages <= 4 * (levels - 1)


def test_each_window_takes_a_constant_number_of_combines() -> None:
    """In batches and one by one: about three an event and window, whatever the window's length."""
    counted = Counted()
    for sizes in [(50,), (5_000,), (50, 500, 5_000, 9_000)]:
        policies = {str(size): CountWindow(size) for size in sizes}
        windows = SharedWindows(counted.max, policies, store=None, leaf_arity=256, arity=16)
        windows.extend(values(10_000).tolist(), results="last")
        assert counted.combines <= 2 * 10_000
        counted.combines = 0
        windows.extend(values(10_000).tolist())
        assert counted.combines <= (2.5 + 3.5 * len(sizes)) * 10_000
        counted.combines = 0
        for value in values(3_000).tolist():
            windows.insert(value)
            windows.query()
        assert counted.combines <= (2 + 6 * len(sizes)) * 3_000
        counted.combines = 0


def test_another_window_adds_its_name_policy_and_front_to_the_handle() -> None:
    one, _ = counted_windows({"month": FOUR["month"]})
    four, _ = counted_windows(FOUR)
    for windows in (one, four):
        windows.extend(values(N), results="last")
    assert len(four.checkpoint()) <= len(one.checkpoint()) + 3 * 64


def test_pages_leave_with_the_longest_window(monkeypatch: pytest.MonkeyPatch) -> None:
    for checkpoints in (False, True):
        windows, store = counted_windows(FOUR)
        for start in range(0, 4 * N, 1_000):
            windows.extend(values(1_000) + start)
            if checkpoints:
                windows.checkpoint()
        needed = FOUR["month"].size / LEAF * 1.2
        spare = 10 if checkpoints else 2 * mta.windows.shared._TRIM_GROUPS + 8
        assert needed - 10 <= len(pages_of(store)) <= needed + 2 * 1_000 / LEAF + spare
    windows.remove("month")
    for _ in range(3):
        windows.checkpoint()
    assert len(pages_of(store)) <= FOUR["day"].size / LEAF * 1.2 + 10
    windows.delete_pages()
    assert not pages_of(store)


# --- windows coming and going ---------------------------------------------------------------------


def test_a_longer_window_reaches_as_far_as_events_are_kept() -> None:
    windows, _ = counted_windows({"hour": CountWindow(1_000)}, timed=True)
    windows.extend(values(5_000), np.arange(5_000), results="last")
    windows.checkpoint()
    kept = 5_000 - windows.stats().kept
    assert 3_936 <= kept <= 4_000
    reach = windows.resize("hour", CountWindow(3_000))
    assert (reach.events, reach.front) == (5_000 - kept, kept)
    assert reach.missing_at_least == reach.missing_at_most == kept - 2_000
    assert not reach.complete
    assert reach.oldest_time == np.datetime64(kept, "s")
    assert windows.query("hour") == values(5_000)[kept:].max()
    windows.extend(values(2_000), np.arange(5_000, 7_000), results="last")
    assert windows.reach("hour").complete
    assert windows.reach("hour").events == 3_000
    assert windows.resize("hour", CountWindow(10)).events == 10


def test_a_longer_window_by_time_knows_when_it_lacks_nothing() -> None:
    windows, _ = counted_windows({"hour": TimeWindow(1_000)})
    times = np.concatenate((np.arange(3_968), np.arange(9_000, 10_000)))  # a gap where a leaf ends
    windows.extend(values(len(times)), times, results="last")
    windows.checkpoint()
    kept = windows.reach("hour").front
    assert kept == 3_968 == len(times) - windows.stats().kept
    assert windows.resize("hour", TimeWindow(5_000)).complete  # the last to leave were too early
    reach = windows.resize("hour", TimeWindow(7_000))
    assert (reach.missing_at_least, reach.missing_at_most) == (1, kept)
    with pytest.raises(EventsGone, match="partial=True"):
        windows.query(TimeWindow(7_000))
    assert windows.query(TimeWindow(7_000), partial=True) == values(len(times))[kept:].max()
    with pytest.raises(EventsGone, match="keep"):
        windows.range(3_000, 9_500)
    assert windows.range(3_000, 9_500, partial=True) == values(len(times))[kept : kept + 501].max()
    assert windows.range(4_000, 9_500) == values(len(times))[kept : kept + 501].max()
    assert np.isnan(windows.range(5_000, 6_000))


def test_what_is_kept_beside_the_windows() -> None:
    windows, store = counted_windows({"five": CountWindow(50)}, keep=CountWindow(2_000))
    windows.extend(values(N), results="last")
    windows.checkpoint()
    assert windows.query(CountWindow(2_000)) == values(N)[-2_000:].max()
    assert windows.add("more", CountWindow(2_000)).complete
    assert windows.add("most", CountWindow(4_000)).missing_at_least > 1_900
    handle = windows.checkpoint()
    again = SharedWindows.restore(handle, Max(), windows.windows, store, keep=CountWindow(2_000))
    assert again.query() == windows.query()
    assert again.stats() == windows.stats()


def test_results_of_products_and_of_windows_without_events() -> None:
    power = Product({"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": Count()})
    policies = {
        "two": CountWindow(2),
        "within": BoundWindow(("watts", Sum()), at_most=10),
        "all": CountWindow(100),
    }
    windows = SharedWindows(power, policies)
    empty = {"peak": pytest.approx(np.nan, nan_ok=True), "mean": pytest.approx(np.nan, nan_ok=True)}
    assert windows.query("two") == {**empty, "n": 0}
    results = windows.extend({"watts": [3.0, 5.0, 4.0, 11.0]})
    assert results["two"]["peak"].tolist() == [3, 5, 5, 11]
    assert results["within"]["n"].tolist() == [1, 2, 2, 0]
    assert results["within"]["mean"].tolist()[:3] == [3, 4, 4.5]
    assert results["all"]["mean"].tolist() == [3, 4, 4, 5.75]
    last = windows.extend({"watts": [2.0]}, results="last")
    assert {name: found["n"].tolist() for name, found in last.items()} == {
        "two": [2], "within": [1], "all": [5],
    }  # fmt: skip
    windows.insert({"watts": 7.0})
    assert windows.query("within")["n"] == 2
    assert windows.query(BoundWindow(("watts", Sum()), at_most=13))["n"] == 2
    with pytest.raises(ValueError, match="which is not kept here"):
        windows.query(BoundWindow(("watts", Max()), at_most=13))


def test_a_policy_of_the_users_own_goes_event_by_event() -> None:
    policies = {
        "own": Policy(lambda prefix, total: total - prefix >= 5, name="five"),
        "two": CountWindow(2),
    }
    letters = Monoid(0, lambda a, b: a + b, lift=len, name="letters")
    windows = SharedWindows(letters, policies, arity=2)
    results = windows.extend(["aa", "bbb", "c", "dddd", "e"])
    assert results["own"].tolist() == [2, 5, 6, 5, 5]
    assert results["two"].tolist() == [2, 5, 4, 5, 5]
    windows.check()


# --- errors ---------------------------------------------------------------------------------------


def test_what_cannot_be_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="name"):
        SharedWindows(Max(), {"": CountWindow(2)})
    with pytest.raises(ValueError, match="by count or time"):
        SharedWindows(Max(), {"a": CountWindow(2)}, keep=BoundWindow(Sum(), at_most=1))
    windows = SharedWindows(Max(), {"a": CountWindow(2)})
    with pytest.raises(ValueError, match="already"):
        windows.add("a", CountWindow(3))
    with pytest.raises(ValueError, match=r"no window is called 'b'; there are \['a'\]"):
        windows.query("b")
    with pytest.raises(ValueError, match="needs times"):
        windows.add("b", TimeWindow(3))
    with pytest.raises(InvalidTime, match="timed=True"):
        windows.range(1, 2)
    with pytest.raises(ValueError, match="no range"):
        windows.range_of_positions(1, 2)
    with pytest.raises(ValueError, match="results is"):
        windows.extend([1.0], results="some")  # type: ignore[arg-type]
    with pytest.raises(NotPageable):
        SharedWindows(Max(), {"a": CountWindow(2)}, store=None).checkpoint()
    timed = SharedWindows(Max(), {"a": TimeWindow(2)})
    with pytest.raises(InvalidTime, match="ends before it begins"):
        timed.range(2, 1)
    timed.insert(1.0, 5)
    with pytest.raises(LateEvent):
        timed.extend([1.0, 2.0], [4, 5])
    assert timed.query() == {"a": 1.0}


def test_dropped_events_are_counted_once() -> None:
    windows = SharedWindows(
        Max(), {"a": TimeWindow(2), "b": CountWindow(3)}, late="drop", invalid="drop"
    )
    results = windows.extend([1.0, np.nan, 3.0, 2.0], [5, 6, 7, 6])
    assert results["b"].tolist() == [1.0, 3.0]
    assert windows.last_accepted is not None
    assert windows.last_accepted.tolist() == [True, False, True, False]
    stats = windows.stats()
    assert (stats.late, stats.invalid, stats.inserted, stats.windows) == (1, 1, 2, {"a": 1, "b": 2})


def test_restored_only_with_the_same_windows() -> None:
    windows, store = counted_windows(FOUR)
    windows.extend(values(1_000), results="last")
    handle = windows.checkpoint()
    with pytest.raises(HandleMismatch, match="then add, remove or resize"):
        SharedWindows.restore(handle, Max(), {"five": CountWindow(50)}, store)
    with pytest.raises(HandleMismatch, match=r"'five' has the policy CountWindow\(50\)"):
        SharedWindows.restore(handle, Max(), {**FOUR, "five": CountWindow(51)}, store)
    with pytest.raises(HandleMismatch, match="monoid"):
        SharedWindows.restore(handle, Sum(), FOUR, store)
    with pytest.raises(CorruptHandle, match="not one of several windows"):
        SharedWindows.restore(windows.engine.checkpoint(), Max(), FOUR, store)
    with pytest.raises(CorruptHandle, match="not a window's handle"):
        Window.restore(handle, Max(), CountWindow(50), store)


def test_damaged_handles_are_noticed() -> None:
    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": CountWindow(5)}, arity=2)
    windows.extend(list("abcdefg"), results="last")
    handle = windows.checkpoint()
    for at in range(len(handle)):
        with pytest.raises(CorruptHandle):
            SharedHandle.decode(handle[:at])
        for bit in (1, 128):
            damaged = bytearray(handle)
            damaged[at] ^= bit
            with pytest.raises(CorruptHandle):
                SharedHandle.decode(bytes(damaged))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, "mta-handle"),
        (1, 2),
        (2, "text"),
        (2, b"no handle"),
        (3, {}),
        (3, [["a", ["p", bytes(16)], 0], ["a", ["p", bytes(16)], 0]]),
        (3, [["b", ["p", bytes(16)], 0], ["a", ["p", bytes(16)], 0]]),
        (3, [["a", ["p", bytes(15)], 0]]),
        (3, [["a", ["p", "text"], 0]]),
        (3, [["a", ["p", bytes(16)], -1]]),
        (3, [["a", ["p", bytes(16)], 8]]),
        (3, [["a", ["p", bytes(16)], 1.0]]),
        (3, [["", ["p", bytes(16)], 0]]),
        (3, [["a" * 201, ["p", bytes(16)], 0]]),
        (3, [["a", ["p", bytes(16)]]]),
        (3, [1]),
    ],
)
def test_rightly_digested_handles_that_cannot_be(at: int, value: Any) -> None:
    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": CountWindow(5)}, arity=2)
    windows.extend(list("abcdefg"), results="last")
    fields = msgpack.unpackb(windows.checkpoint()[:-16])
    fields[at] = value
    body = msgpack.packb(fields)
    with pytest.raises(CorruptHandle):
        SharedHandle.decode(body + xxhash.xxh3_128_digest(body))


def test_the_worked_example_of_a_handle() -> None:
    windows = SharedWindows(Max(), {"b": CountWindow(2), "a": CountWindow(1)}, name="w")
    windows.extend([1.0, 2.0, 3.0])
    body = msgpack.unpackb(windows.checkpoint()[:-16])
    assert body[:2] == ["mta-shared", 1]
    assert body[3] == [
        ["a", ["CountWindow(1)", CountWindow(1).fingerprint], 2],
        ["b", ["CountWindow(2)", CountWindow(2).fingerprint], 1],
    ]
    assert audit(windows).pages == 0


def test_an_event_in_place_of_one_that_was_taken_back() -> None:
    """A policy refuses an event after its leaf has been looked at; the next one stands there."""
    refused = ["c"]

    def evicts(prefix: str, total: str) -> bool:
        if total.endswith(refused[0]):
            raise RuntimeError("refused")
        return False

    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": Policy(evicts, name="all")})
    for value in "ab":
        windows.insert(value)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            windows.insert("c")
    windows.insert("d")
    assert windows.query() == {"a": "bd", "b": "abd"}
    windows.check()


# --- long batches -------------------------------------------------------------------------------


def span() -> AbstractMonoid:
    """How far apart the largest and the smallest are."""
    ufuncs = (np.minimum, np.maximum)
    return ColumnarMonoid(
        "Span", inputs="f8", partials=("f8", "f8"), identity=(np.inf, -np.inf), ufuncs=ufuncs,
        lift=lambda value: (value, value), lower=lambda partial: partial[1] - partial[0],
    )  # fmt: skip


@pytest.mark.parametrize("monoid", [Max(), span(), Mean(), rolling_hash()], ids=lambda m: m.name)
@pytest.mark.parametrize("pace", ["steady", "jittered", "at random", "in bursts"])
@pytest.mark.parametrize("changes", ["seldom", "always"])
@pytest.mark.parametrize("in_pages", [False, True])
def test_batches_of_many_hands(
    monoid: AbstractMonoid,
    pace: str,
    changes: str,
    in_pages: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows shorter than a hand, of a few hands and longer; tables and blocks of a few rows."""
    monkeypatch.setattr("mta.cursors.cursor._FEW", 16)
    monkeypatch.setattr("mta.folds.overlaps._LEAST_STEP", 1)
    monkeypatch.setattr("mta.windows.feed._HAND", 250)
    monkeypatch.setattr("mta.kernels.ranks._FEW", 16)
    monkeypatch.setattr("mta.kernels.ranks._FEW_FOR_A_TABLE", 16)
    monkeypatch.setattr("mta.folds.overlaps._LEAST_BITS", 3)
    monkeypatch.setattr("mta.levels.kept._RECENT_BYTES", 1)
    random, count = np.random.default_rng(1), 3_000
    gaps = {
        "steady": np.full(count, 10),
        "jittered": np.full(count, 10),
        "at random": random.exponential(10, count),
        "in bursts": np.where(random.random(count) < 0.03, 300, random.integers(0, 2, count)),
    }[pace]
    times = np.cumsum(gaps).astype("i8") + (random.integers(0, 9, count) * (pace == "jittered"))
    numbers = random.integers(0, 50, count) if changes == "seldom" else np.arange(count, 0, -1)
    ages = {"few": 30, "some": 900, "hands": 5_000, "many": 12_000}
    policies: dict[str, AbstractPolicy] = {name: TimeWindow(age) for name, age in ages.items()}
    policies["both"] = CountWindow(300) | TimeWindow(4_000)
    store = MemoryStore() if in_pages else None
    windows = SharedWindows(monoid, policies, store=store, arity=4, leaf_arity=32)
    for start, stop in ((0, 900), (900, 901), (901, count)):
        results = windows.extend(numbers[start:stop], times[start:stop])
        for name, found in results.items():
            for at in range(start, stop, 7):
                first = int(times.searchsorted(times[at] - ages.get(name, 4_000), "right"))
                first = max(first, at - 299) if name == "both" else first
                rows, held = monoid.rows(numbers[first : at + 1])
                expected = monoid.lower(monoid.fold(monoid.lift_rows(rows, held), held))
                assert found[at - start] == pytest.approx(expected), (name, at)
    windows.check()


def test_a_batch_after_a_late_event_is_cut_at_the_times_of_its_own_events() -> None:
    policy = TimeWindow(10) | BoundWindow(letters(), at_most=100)
    windows = SharedWindows(joined(), {"w": policy}, None, lateness=60)
    windows.extend("ab", [0, 20])
    windows.insert("c", 19)
    assert windows.extend("de", [29.5, 40])["w"].tolist() == ["bd", "e"]


@pytest.mark.parametrize("lateness", [None, 60])
def test_being_checked_changes_no_bit_of_a_later_result(lateness: int | None) -> None:
    values = np.random.default_rng(5).choice([1e17, -1e17, 1e9, 0.1, -0.3, 1e-9], 400)
    found = []
    for is_checked in (False, True):
        windows = SharedWindows(
            Sum(), {"w": CountWindow(30)}, None, leaf_arity=4, timed=True, lateness=lateness
        )
        sums: list[float] = []
        for at, value in enumerate(values):
            windows.insert(value, at)
            if is_checked:
                windows.check()
            if at % 7 == 0:
                sums.append(windows.query("w"))
        found.append(sums)
    assert found[0] == found[1]


def test_nothing_of_a_batch_is_kept_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mta.windows.feed._HAND", 64)
    windows, _ = counted_windows(FOUR)
    batch = values(1_000)
    windows.extend(batch)
    reference = weakref.ref(batch)
    assert not [held for held in gc.get_objects() if type(held) is Hand]
    del batch
    assert reference() is None


# --- a store that fails ---------------------------------------------------------------------------


def test_other_events_after_a_batch_that_was_not_stored() -> None:
    """As many as were refused: the windows had been run past those already."""
    store = FailingStore()
    windows = SharedWindows(joined(), {"a": CountWindow(4), "b": CountWindow(9)}, store, arity=2)
    windows.extend(list("abcd"))
    store.failing = lambda call: True
    with pytest.raises(StoreUnavailable) as raised:
        windows.extend(list("efghijk"))
    assert raised.value.__notes__ == ["0 of 7 events of the batch were accepted"]
    store.failing = lambda call: False
    for value in "EFGHIJK":
        windows.insert(value)
    assert windows.query() == {"a": "HIJK", "b": "cdEFGHIJK"}


@pytest.mark.parametrize("bound", [False, True], ids=["told ahead", "one asked every time"])
@pytest.mark.parametrize("for_ever", [False, True])
def test_every_call_fails_once(
    bound: bool, for_ever: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever call fails, what was accepted is in every window, and nothing else."""
    monkeypatch.setattr("mta.windows.feed._HAND", 7)
    monkeypatch.setattr("mta.levels.kept._RECENT_BYTES", 1)
    drawn = [
        count_rule(3),
        time_rule(12 * SECOND),
        count_rule(30),
        *([first_half()] if bound else []),
    ]
    for nth in range(1, 500):
        store = FailingStore()
        store.failing = lambda call, nth=nth: nth <= call < (nth + 4 if for_ever else nth + 1)
        lists = Lists()
        for name, policy in zip(NAMES, drawn, strict=False):
            lists.set(name, policy, 0)
        policies = {name: policy.policy() for name, policy in lists.rules.items()}
        windows = SharedWindows(joined(), policies, store=store, arity=2)
        attempts = 0
        while len(lists.events) < 48:
            done = len(lists.events)
            attempts += 1  # events that were refused do not come again
            places = range(done, done + 1 + done % 11)
            batch = [(f"{attempts % 7}{place % 3}", place * SECOND) for place in places]
            times = np.array([time for _, time in batch], dtype="M8[us]")
            try:
                if len(batch) == 1:
                    windows.insert(batch[0][0], times[0])
                else:
                    windows.extend([value for value, _ in batch], times)
                if done % 5 == 0:
                    windows.checkpoint()
            except StoreUnavailable:
                pass
            for event in batch[: windows.structure.back - done]:
                lists.add(event)
            if attempts % 3 == 0:
                with suppress(StoreUnavailable):
                    assert windows.query() == lists.results()
        calls, store.failing = store.calls, lambda call: False
        assert windows.query() == lists.results()
        windows.check()
        handle = windows.checkpoint()
        again = SharedWindows.restore(handle, joined(), policies, store)
        assert again.query() == windows.query()
        if calls < nth:
            break
    assert nth > 30
