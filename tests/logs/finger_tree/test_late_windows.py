"""Windows whose events come late: lateness, pages, holes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mta import CountWindow, KeyedWindows, SharedWindows, Sum, TimeWindow, Window  # fmt: skip
from mta.algorithms import AmortizedMTA, FiBA
from mta.errors import EventsGone, LateEvent, NotRevisable
from mta.frames import BoundWindow, CustomFrame
from mta.logs.finger_tree.log import FingerTreeLog
from stores import MemoryStore
from tests.support.naive import joined, letters


def test_what_is_later_than_allowed_is_refused_or_dropped() -> None:
    options: dict[str, Any] = {"arity": 2, "aggregator": FiBA, "allowed_lateness": "5 seconds"}
    window = Window(joined(), TimeWindow(100), **options)
    window.extend(["a", "b"], [10, 20])
    with pytest.raises(LateEvent, match=r"by more than 5.0 s older .* larger allowed_lateness"):
        window.insert("c", 14.9)
    with pytest.raises(LateEvent, match=r"1 events of the batch .* at index 1"):
        window.extend(["d", "e"], [30, 14])
    assert window.query() == "ab"
    window.insert("c", 15)
    assert window.query() == "acb"
    dropping = Window(joined(), TimeWindow(100), on_late="drop", **options)
    dropping.extend(["a", "b"], [10, 20])
    assert list(dropping.extend(["c", "d"], [14, 16])) == ["ad"]
    assert dropping.stats().late == 1 and dropping.last_accepted.tolist() == [False, True]


def test_a_batch_is_taken_in_order_of_time_and_answered_in_its_own() -> None:
    window = Window(joined(), CountWindow(2), arity=2, aggregator=FiBA)
    assert list(window.extend(["c", "a", "b", "d"], [3, 1, 2, 4])) == ["bc", "a", "ab", "cd"]


def test_what_cannot_be_revised_says_so() -> None:
    with pytest.raises(NotRevisable, match="Amortized MTA takes events in order"):
        Window(joined(), CountWindow(2)).revise(["a"], [1])


@pytest.mark.parametrize("settings", [{"allowed_lateness": 0}, {"on_duplicate": "replace"}])
def test_settings_that_need_times_select_the_structure(settings: dict[str, Any]) -> None:
    frame = TimeWindow(60)
    window = Window(Sum(), frame, store := MemoryStore(), **settings)
    windows = SharedWindows(Sum(), {"w": frame}, store, "shared", **settings)
    keys = KeyedWindows(Sum(), frame, store, "keys", **settings)
    snapshots = [each.checkpoint() for each in (window, windows)]
    again = Window.restore(snapshots[0], store, aggregations=Sum(), window=frame, **settings)
    shared = SharedWindows.restore(
        snapshots[1], store, aggregations=Sum(), window={"w": frame}, **settings
    )
    assert isinstance(again.structure(), FiBA)
    assert isinstance(shared.structure(), FingerTreeLog)
    for each in (window, windows, again, shared):
        each.extend([1.0, 4.0], [30, 10])
    keys.extend(["a", "a"], [1.0, 4.0], [30, 10])
    each_result = [window.query(), again.query(), windows.query("w"), keys.query("a")]
    assert [*each_result, shared.query("w")] == [5.0] * 5
    assert isinstance(Window(Sum(), frame, on_duplicate="append").structure(), AmortizedMTA)
    with pytest.raises(ValueError, match="choose aggregator=FiBA"):
        Window(Sum(), frame, aggregator=AmortizedMTA, **settings)
    assert isinstance(Window.restore(snapshots[0], store).structure(), FiBA)


@pytest.mark.parametrize("scheme", ["memory://", None])
def test_an_event_older_than_one_that_has_left_for_good_has_left_as_well(scheme: Any) -> None:
    """Between it and the window there would be a hole."""
    frame, settings = (
        BoundWindow(letters(), at_most=2),
        {"aggregator": FiBA, "allowed_lateness": 100},
    )
    window = Window(joined(), frame, scheme, **settings)
    window.extend(["a", "bbb", "c"], [10, 20, 30])
    window.insert("d", 15)
    assert window.query() == "c" and window.stats().inserted == 4
    assert window.extend(["e", "f", ""], [12, 40, 19]).tolist() == ["c", "cf", "c"]
    assert window.extend(["g"], [20], "last").tolist() == ["cf"]
    assert window.range_by_position(6, 8) == "cf"
    with pytest.raises(EventsGone):
        window.range_by_position(5, 8)
    with pytest.raises(EventsGone):
        window.range(15, 40)
    window.check()
    if scheme:
        window = window.restore_like(window.checkpoint())
        window.insert("h", 19)
        assert window.query() == "cf" and window.stats().inserted == 9


def test_an_event_that_left_at_once_is_taken_back_when_the_frame_fails() -> None:
    fails: list[int] = []

    def evicts(prefix: int, total: int) -> bool:
        if fails:
            raise ZeroDivisionError
        return total - prefix >= 2

    frame = CustomFrame(evicts, on=letters(), name="last two", checked=True)
    window = Window(joined(), frame, aggregator=FiBA, allowed_lateness=100)
    window.extend(["a", "b", "c"], [10, 20, 30])
    fails.append(1)
    with pytest.raises(ZeroDivisionError):
        window.insert("d", 5)
    fails.clear()
    assert window.stats().inserted == 3 and window.query() == "bc"
    window.check()
    window.insert("d", 5)
    window.insert("e", 40)
    assert window.query() == "ce" and window.range_by_position(3, 5) == "ce"


@pytest.mark.parametrize("counts", [[2], [1, 1]], ids=str)
def test_what_a_user_has_evicted_leaves_no_hole_either(counts: list[int]) -> None:
    window = Window(joined(), CountWindow(4), aggregator=FiBA, allowed_lateness=100)
    window.extend("abc", [10, 20, 30])
    for count in counts:
        window.evict(count)
    assert window.extend("de", [15, 40]).tolist() == ["c", "ce"]
    assert window.extend("fg", [12, 25], "last").tolist() == ["gce"]
    window.check()


class OwnCount(CountWindow):
    """A user's own count window, which need not cut as ours does."""


class OwnTime(TimeWindow):
    """The same by time."""


@pytest.mark.parametrize(("own", "ours"), [(OwnCount, CountWindow), (OwnTime, TimeWindow)])
def test_a_users_own_kind_of_window_takes_late_events(own: type, ours: type) -> None:
    """What a late event may ask for is known from its cuts, one at a time."""
    mine, known = (
        Window(joined(), kind(3), None, aggregator=FiBA, allowed_lateness=5) for kind in (own, ours)
    )
    for time in (0, 1, 2, 5, 6, 4, 7, 20, 16):
        for window in (mine, known):
            window.insert(chr(97 + time), time)
        assert mine.query() == known.query()
        mine.check()
    kept = [window.structure().remembered().kept_from for window in (mine, known)]
    assert kept[0] == kept[1] > 0


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_an_event_behind_a_retracted_one_has_the_window_of_its_own_time(
    again: bool, asked: bool
) -> None:
    """It is the newest that is left, and late all the same."""
    options: dict[str, Any] = {
        "aggregator": FiBA,
        "allowed_lateness": 80,
        "arity": 2,
        "leaf_arity": 2,
    }
    window = Window(joined(), TimeWindow(40), "memory://", **options)
    window.extend([*"abcde"], [261, 293, 299, 334, 352])
    window.retract(352)
    if again:
        window = window.restore_like(window.checkpoint())
    if asked:
        assert window.query() == "d"
    assert window.extend(["f", "g"], [336, 353]).tolist() == ["cdf", "dfg"]
    window.retract(353)
    if asked:
        assert window.query() == "df"
    assert window.revise(["h"], [340]).results.tolist() == ["dfh"]
    assert window.query() == "dfh"


@pytest.mark.parametrize("leaf_arity", [2, 3, 5, 8])
@pytest.mark.parametrize("shared", [False, True])
def test_a_window_begins_where_it_did_after_a_retraction_has_filled_up_its_nodes(
    leaf_arity: int, shared: bool
) -> None:
    for count in range(1, 3 * leaf_arity):
        times = [*range(count), *[count + 8] * 4, count + 9]
        settings: dict[str, Any] = {"arity": 2, "leaf_arity": leaf_arity, "allowed_lateness": 4}
        frame, asked = TimeWindow(3), ["w"] * shared
        window: Any = Window(joined(), frame, MemoryStore(), **settings)
        if shared:
            settings |= {"timed": True, "store": MemoryStore()}
            window = SharedWindows(joined(), {"w": frame}, **settings)
        window.extend([f"{at}." for at in range(len(times))], times)
        window.query(*asked)
        window.retract(count + 8)
        window.extend(["x"], [count + 9])
        expected = "".join(f"{count + at}." for at in (0, 1, 2, 4)) + "x"
        assert window.query(*asked) == expected
