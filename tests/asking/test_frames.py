"""Frames that end before the row, by closed=, delay=, exclude_current= and ties=, everywhere.

The oracle is the definition, event by event; DuckDB, pandas and polars say the same of theirs.
"""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mta
from mta import (
    CalendarWindow,
    Count,
    CountWindow,
    EveryPeriod,
    KeyedWindows,
    Max,
    Mean,
    Median,
    Monoid,
    Product,
    SampleStdDev,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.algorithms import FiBA, LogMTA, PagedFlatFAT, SteadyMTA
from mta.descriptions import CLASSES
from mta.evaluators import runs
from mta.frames import Frame
from mta.frames.known import frame_from_text
from mta.recipes import rebuilt, recipe_of
from mta.testing import check_frame
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.support.key_by_key import KeyByKey
from tests.support.naive import window_of
from tests.support.spark.states import make_plan

DAY = 86_400_000_000
FRAMES = [
    TimeWindow("5us", closed="left"),
    TimeWindow("5us", closed="both"),
    TimeWindow("5us", closed="neither"),
    TimeWindow("1us", closed="neither"),
    TimeWindow("4us", delay="3us"),
    TimeWindow("4us", closed="left", delay="2us"),
    CountWindow(1, exclude_current=True),
    CountWindow(4, exclude_current=True),
    TimeWindow("9us", closed="left") | TimeWindow("4us", closed="left"),
    CountWindow(2, exclude_current=True) & CountWindow(5, exclude_current=True),
    CalendarWindow("1 day", closed="left", delay="2us"),
    CalendarWindow.to_date("day", closed="left"),
]
IDS = [repr(frame) for frame in FRAMES]
AGGREGATIONS = {
    "sum": ("x", Sum()),
    "most": ("x", Max()),
    "mean": ("x", Mean()),
    "n": ("x", SampleStdDev()),
}


def in_frame(frame: Frame, times: list[int], row: int, last: int | None = None) -> list[int]:
    """The events of the frame of a row: by its definition, of those up to ``last``."""
    last = row if last is None else last
    here, text = times[row], repr(frame)
    if hasattr(frame, "one"):
        one, other = (set(in_frame(side, times, row, last)) for side in (frame.one, frame.other))
        return sorted(one & other if frame.any_of else one | other)
    if isinstance(frame, CountWindow):
        stop = last + 1 - ("exclude_current" in text)
        return list(range(max(0, stop - frame.size), max(0, stop)))
    moment = here - frame.delay
    if isinstance(frame, TimeWindow):
        start, start_in = moment - frame.size, frame.closed in ("left", "both")
    elif frame.is_to_date:
        start, start_in = moment - moment % DAY, True
    else:
        start, start_in = moment - DAY, frame.closed in ("left", "both")
    end_in = frame.closed in ("right", "both")
    return [
        at
        for at in range(last + 1)
        if (start < times[at] or (start_in and start == times[at]))
        and (times[at] < moment or (end_in and times[at] == moment))
    ]


def same(one: Any, other: Any) -> bool:
    """Whether results are the same, as near as may be."""
    return bool(one == (other if isinstance(other, str) else pytest.approx(other, nan_ok=True)))


def at_moment(frame: Frame, times: list[int], moment: int) -> list[int]:
    """The events of the frame of a moment at which there may be no event."""
    known = [time for time in times if time <= moment]
    if "CountWindow" in repr(frame):
        return in_frame(frame, known, len(known) - 1)
    rows = in_frame(frame, [*known, moment], len(known))
    return [row for row in rows if row < len(known)]


def expected(monoid: Any, values: list[float], places: list[int]) -> Any:
    if not places:
        return monoid.empty
    fold = monoid.identity
    for at in places:
        fold = monoid.combine(fold, monoid.lift(values[at]))
    return monoid.lower(fold)


def drawn_times(rng: random.Random, count: int) -> list[int]:
    """Times with ties and gaps, around a midnight."""
    times, now = [], DAY - 20
    for _ in range(count):
        now += rng.choice([0, 0, 1, 1, 2, 3, 9])
        times.append(now)
    return times


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "KeyedWindows")
def test_keyed_windows_fold_what_is_in_the_frame(frame: Frame) -> None:
    """Of several keys, in batches of any size, after a restore as well."""
    rng = random.Random(repr(frame))
    keys = [rng.choice("abc") for _ in range(120)]
    times = drawn_times(rng, 120)
    values = [float(rng.randint(-9, 9)) for _ in keys]
    monoid = Product(AGGREGATIONS)
    windows = KeyedWindows(monoid, frame, "memory://", name="frames")
    found: dict[str, list[Any]] = {name: [] for name in AGGREGATIONS}
    at = 0
    while at < len(keys):
        end = at + rng.choice([1, 2, 30])
        moments = np.array(times[at:end], "M8[us]")
        results = windows.extend(keys[at:end], {"x": values[at:end]}, moments)
        for name, column in results.items():
            found[name] += column.tolist()
        if rng.random() < 0.3:
            snapshot, store = windows.checkpoint(), windows.store
            windows = KeyedWindows.restore(snapshot, store, aggregations=monoid, window=frame)
        at = end
    for key in "abc":
        mine = [at for at, each in enumerate(keys) if each == key]
        of_key, of_values = [times[at] for at in mine], [values[at] for at in mine]
        for place, row in enumerate(mine):
            places = in_frame(frame, of_key, place)
            for name, (_, part) in AGGREGATIONS.items():
                want = expected(part, of_values, places)
                assert found[name][row] == pytest.approx(want, nan_ok=True), (key, place, name)


TEXTS: Monoid[str, str, str] = Monoid("", lambda a, b: a + b, name="texts")


@pytest.mark.sample(1)
@pytest.mark.parametrize("values_are", ["numbers", "texts"])
@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "Window", "SharedWindows")
def test_a_window_folds_what_is_in_the_frame(
    frame: Frame, values_are: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By single events, batches of any size and after a restore; a window of its own and shared."""
    rng = random.Random(f"{frame!r} {values_are}")
    # Frames that are far from each other are folded in halves.
    monkeypatch.setattr(runs, "_MOST", rng.choice([7, runs._MOST]))
    times = drawn_times(rng, 150)
    values: list[Any] = [rng.choice("abcdef") for _ in times]
    monoid: Any = TEXTS
    if values_are == "numbers":
        values = [float(rng.randint(-9, 9)) for _ in times]
        monoid = rng.choice([Sum(), Max(), Mean(), SampleStdDev(), Median()])
    other = TimeWindow("7us")
    kind = rng.choice([None, FiBA if frame.needs_times else None, LogMTA, SteadyMTA])
    one = Window(monoid, frame, "memory://", name="own", arity=3, aggregator=kind)
    many = SharedWindows(monoid, {"it": frame, "other": other}, "memory://", name="shared", arity=3)
    at = 0
    while at < len(times):
        end = min(at + rng.choice([1, 2, 40]), len(times))
        moments = np.array(times[at:end], "M8[us]")
        found: list[list[Any]] = [[], []]
        if rng.random() < 0.5:
            found[0] = list(one.extend(values[at:end], moments))
            found[1] = list(many.extend(values[at:end], moments)["it"])
        else:
            for row in range(at, end):
                one.insert(values[row], moments[row - at])
                many.insert(values[row], moments[row - at])
                found[0].append(one.query())
                found[1].append(many.query("it"))
        for row in range(at, end):
            want = expected(monoid, values, in_frame(frame, times, row))
            assert all(same(each[row - at], want) for each in found), row
        assert len(one) == many.stats().windows["it"] == len(in_frame(frame, times, end - 1))
        want = expected(monoid, values, in_frame(other, times, end - 1))
        assert same(many.query("other"), want)
        if rng.random() < 0.3:
            one.check()
            many.check()
            store, shared = one.store, many.store
            one = Window.restore(
                one.checkpoint(), store, aggregations=monoid, window=frame, aggregator=kind
            )
            many = SharedWindows.restore(
                many.checkpoint(), shared, aggregations=monoid, window={"it": frame, "other": other}
            )
        at = end


@pytest.mark.parametrize("size", [3, 12])
@pytest.mark.parametrize(
    "make",
    [CountWindow, partial(CountWindow, delay=2), TimeWindow, partial(TimeWindow, closed="left")],
)
def test_a_batch_that_cannot_be_folded_leaves_every_frame_where_it_was(
    make: Any, size: int
) -> None:
    """Also if some of its results were computed, and the folds are those of a later front."""

    def join(older: str, newer: str) -> str:
        if "p" in older and "q" in newer:
            raise ArithmeticError
        return older + newer

    monoid, frames = Monoid("", join, name="joined"), {"it": make(size), "other": TimeWindow(4)}
    failed = 0
    for stored, place in itertools.product(range(size, size + 12), range(0, 9, 2)):
        windows = SharedWindows(monoid, frames, None, arity=2, leaf_arity=4)
        letters = list("abcdefghijklmnorstuvw"[: stored - 2] + "pz")
        windows.extend(letters, range(stored))
        before = windows.query()
        try:
            windows.extend(list("A" * place + "q"), range(stored, stored + place + 1))
        except ArithmeticError:
            failed += 1
        else:
            continue  # no frame has both letters
        assert windows.query() == before
        for letter in "XYZ":
            letters.append(letter)
            windows.insert(letter, len(letters) - 1)
            for name, frame in frames.items():
                held = window_of(frame, range(len(letters)), len(letters) - 1)
                assert windows.query(name) == "".join(letters[held])
    assert failed, "no batch failed"


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_late_events_are_in_the_frames_that_have_their_times(frame: Frame) -> None:
    """The result of each event is that of its own frame, with all that is known by then."""
    rng = random.Random(repr(frame))
    times = [time + rng.choice([0, 0, -6, -3]) for time in drawn_times(rng, 120)]
    given = [(time, float(rng.randint(-9, 9))) for time in times]
    monoid = Product({"x": ("x", Sum())})
    settings: dict[str, Any] = {"allowed_lateness": 1.0}
    one = Window(monoid, frame, "memory://", name="own", arity=4, **settings)
    many = SharedWindows(monoid, {"it": frame}, "memory://", name="shared", arity=4, **settings)
    keyed = KeyedWindows(monoid, frame, "memory://", name="keyed", promote_at=20, **settings)
    known: list[tuple[int, float]] = []
    at = 0
    while at < len(given):
        batch = given[at : at + rng.choice([1, 3, 30])]
        at += len(batch)
        moments = np.array([time for time, _ in batch], "M8[us]")
        values = {"x": [value for _, value in batch]}
        for event in sorted(batch, key=lambda event: event[0]):
            before = sum(time <= event[0] for time, _ in known)
            known.insert(before, event)
        found = one.extend(values, moments), many.extend(values, moments)
        of_key = keyed.extend(["k"] * len(batch), values, moments)
        places: dict[int, int] = {}
        for row, (time, _) in enumerate(batch):  # equal times stay as they came
            first = sum(other < time for other, _ in known)
            there = sum(other == time for other, _ in known)
            here = sum(other == time for other, _ in batch)
            place = first + there - here + places.get(time, 0)
            places[time] = places.get(time, 0) + 1
            rows = in_frame(frame, [time for time, _ in known], place)
            want = expected(Sum(), [value for _, value in known], rows)
            assert [found[0]["x"][row], found[1]["x_it"][row], of_key["x"][row]] == [want] * 3, row
    one.check()
    many.check()


CHANGES = [
    (TimeWindow("9us"), TimeWindow("9us", closed="left")),
    (TimeWindow("9us"), TimeWindow("4us", delay="5us")),
    (TimeWindow("9us"), TimeWindow("9us", delay="5us")),
    (TimeWindow("9us", delay="5us"), TimeWindow("14us")),
    (TimeWindow("9us", closed="left"), TimeWindow("9us", closed="both")),
    (CountWindow(4), CountWindow(4, exclude_current=True)),
    (CountWindow(4, exclude_current=True), CountWindow(5)),
]


@pytest.mark.parametrize("promote_at", [2, 1000], ids=["standalone", "vectorized"])
@pytest.mark.parametrize(("old", "new"), CHANGES, ids=map(repr, CHANGES))
def test_coverage_says_from_when_on_another_frame_is_whole(
    old: Frame, new: Frame, promote_at: int
) -> None:
    for seed in range(10):
        rng = random.Random(f"{old!r} {new!r} {seed}")
        times = sorted(set(drawn_times(rng, 60)))
        values = [float(rng.randint(1, 99)) for _ in times]
        windows = KeyedWindows(Sum(), old, "memory://", name="w", promote_at=promote_at)
        moments, half = np.array(times, "M8[us]"), len(times) // 2
        windows.extend(["a"] * half, values[:half], moments[:half])
        restored = KeyedWindows.restore(
            windows.checkpoint(),
            windows.store,
            aggregations=Sum(),
            window=new,
            promote_at=promote_at,
        )
        incomplete = restored.coverage().incomplete
        rest = len(times) - half
        found = restored.extend(["a"] * rest, values[half:], moments[half:]).tolist()
        wanted = [
            expected(Sum(), values, in_frame(new, times, row)) for row in range(half, len(times))
        ]
        whole = 0
        for at, (result, want) in enumerate(zip(found, wanted, strict=True)):
            if all(
                (each.complete_from is not None and moments[half + at] >= each.complete_from)
                or (each.complete_after_events is not None and at + 1 >= each.complete_after_events)
                for each in incomplete
            ):
                assert result == want, at
                whole += 1
        assert whole > 10


def drawn_table(seed: str, count: int = 300) -> pd.DataFrame:
    """Rows of some keys in order of time, with ties; values are whole numbers."""
    rng = random.Random(seed)
    times = pd.to_datetime(drawn_times(rng, count), unit="us")
    keys = [rng.choice("abc") for _ in range(count)]
    return pd.DataFrame({"k": keys, "t": times, "x": [float(rng.randint(-9, 9)) for _ in keys]})


def aggregated(table: pd.DataFrame, frame: Frame) -> pd.DataFrame:
    aggregations = {"n": Count(), "total": ("x", Sum()), "most": ("x", Max())}
    return mta.rolling(table, by="k", on="t", window=frame, aggregations=aggregations)


def assert_same(found: pd.DataFrame, count: Any, total: Any, most: Any) -> None:
    """The same counts everywhere, and results wherever there are events."""
    assert found["n"].tolist() == [int(each) for each in count]
    some = np.flatnonzero(found["n"])
    assert found["total"].to_numpy()[some].tolist() == np.asarray(total)[some].tolist()
    assert found["most"].to_numpy()[some].tolist() == np.asarray(most)[some].tolist()


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
def test_closed_is_that_of_pandas(closed: Any) -> None:
    """Which takes of rows of one time those up to each; "left" and "neither" leave all out."""
    table = drawn_table(closed)
    found = aggregated(table, TimeWindow("5us", closed=closed))
    for _, rows in table.groupby("k"):
        window = rows.set_index("t")["x"].rolling("5us", closed=closed, min_periods=1)
        mine = found.loc[rows.index]
        assert_same(mine, window.count().fillna(0), window.sum(), window.max())


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.proves("asking", '`ties="peers"`', "rolling")
def test_peers_are_those_of_polars(closed: Any) -> None:
    table = drawn_table(closed)
    frame = pl.from_pandas(table)
    theirs = "none" if closed == "neither" else closed
    windows = frame.rolling("t", period="5us", closed=theirs, group_by="k")
    wanted = windows.agg(n=pl.len(), total=pl.col("x").sum(), most=pl.col("x").max()).to_pandas()
    found = aggregated(table, TimeWindow("5us", closed=closed, ties="peers"))
    for key, rows in table.groupby("k"):
        mine = wanted[wanted["k"] == key]
        assert_same(found.loc[rows.index], mine["n"], mine["total"], mine["most"])


SQL = [
    (CountWindow(4, exclude_current=True), "rows between 4 preceding and 1 preceding"),
    (
        TimeWindow("5us", ties="peers"),
        "range between interval 4 microsecond preceding and current row",
    ),
    (
        TimeWindow("5us", closed="both", ties="peers"),
        "range between interval 5 microsecond preceding and current row",
    ),
    (
        TimeWindow("5us", closed="left"),
        "range between interval 5 microsecond preceding and interval 1 microsecond preceding",
    ),
    (
        TimeWindow("4us", delay="3us"),
        "range between interval 6 microsecond preceding and interval 3 microsecond preceding",
    ),
    (
        TimeWindow("5us", closed="left", ties="peers"),
        "range between interval 5 microsecond preceding and current row exclude group",
    ),
    (
        CountWindow(4, exclude_current=True),
        "rows between 4 preceding and current row exclude current row",
    ),
]


@pytest.mark.parametrize(("frame", "sql"), SQL, ids=[sql for _, sql in SQL])
@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "rolling")
def test_frames_are_those_of_sql(frame: Frame, sql: str) -> None:
    table = drawn_table(sql)
    table["nr"] = range(len(table))
    over = f"over (partition by k order by {'nr' if 'rows' in sql else 't'} {sql})"
    query = f"""select count(*) {over} as n, sum(x) {over} as total, max(x) {over} as most
        from events order by nr"""
    wanted = duckdb.connect().register("events", table).sql(query).df()
    found = aggregated(table, frame)
    assert_same(found, wanted["n"], wanted["total"], wanted["most"])


def test_peers_are_the_same_out_of_core() -> None:
    """Keys that have pages of their own, and aggregations of plain Python."""
    table, frame = drawn_table("store", 4000), TimeWindow("500us", ties="peers")
    table["k"] = ["a" if key < "c" else "b" for key in table["k"]]
    wanted = aggregated(table, frame)
    aggregations: Any = {"n": Count(), "total": ("x", Sum()), "most": ("x", Max())}
    found = mta.rolling(
        table, by="k", on="t", window=frame, aggregations=aggregations, store="memory://"
    )
    assert found.equals(wanted)
    plain: Any = {"most": ("x", Monoid(float("-inf"), max, name="plain"))}
    found = mta.rolling(table, by="k", on="t", window=frame, aggregations=plain)
    assert found["most"].tolist() == wanted["most"].tolist()


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "periodic")
@pytest.mark.parametrize("ends_at_1970", [False, True])
def test_results_at_boundaries_are_as_of_them(frame: Frame, ends_at_1970: bool) -> None:
    """Also where no event comes: one that is delayed enters the frame after it came."""
    rng = random.Random(repr(frame))
    times = drawn_times(rng, 80)
    if ends_at_1970:
        times = [time - times[-1] for time in times]
    values = [float(rng.randint(-9, 9)) for _ in times]
    settings: dict[str, Any] = {"store": "memory://"}
    one = TriggeredWindow(Window(Sum(), frame, name="own", arity=3, **settings), EveryPeriod("4us"))
    found: dict[int, float] = {}
    at = 0
    while at < len(times):
        end = at + rng.choice([1, 5, 20])
        due = one.extend(values[at:end], np.array(times[at:end], "M8[us]"))
        found |= dict(zip(due.moments.astype("i8").tolist(), due.results.tolist(), strict=True))
        at = end
    last = one.advance(np.datetime64(times[-1] + 40, "us"))
    found |= dict(zip(last.moments.astype("i8").tolist(), last.results.tolist(), strict=True))
    assert len(found) > 20
    for moment, result in found.items():
        assert result == expected(Sum(), values, at_moment(frame, times, moment)), moment


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["vectorized", "standalone", "shared"])
@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_a_step_of_spark_has_results_at_boundaries(frame: Frame, kind: str) -> None:
    """As of each boundary, until time has emptied the window."""
    rng = random.Random(f"{frame!r} {kind}")
    times = sorted(set(drawn_times(rng, 80)))
    values = [float(rng.randint(-9, 9)) for _ in times]
    total: Any = Sum() if kind == "vectorized" else KeyByKey(0.0, lambda a, b: a + b, "sum")
    window: Any = {"it": frame, "other": CountWindow(3)} if kind == "shared" else frame
    name = "sum_it" if kind == "shared" else "sum"
    names = [name, "sum_other"] if kind == "shared" else [name]
    schema = {"device": pa.string(), "ts": pa.timestamp("us", "UTC"), "watts": pa.float64()}
    plan = make_plan(
        window=window, columns=tuple(schema), schema=pa.schema(schema), emit_every="4us",
        monoid=Product({"sum": ("watts", total)}), results={each: pa.float64() for each in names},
    )  # fmt: skip
    rows = pa.table(
        {"device": ["a"] * len(times), "ts": times, "watts": values}, schema=plan.schema
    )
    store, state, found = MemoryStore(), None, {}
    for at in range(0, len(times), 9):
        done = step(state, rows.slice(at, 9), plan, store)
        state, moments = done.state, done.rows.column("ts").cast(pa.int64()).to_pylist()
        found |= dict(zip(moments, done.rows.column(name).to_pylist(), strict=True))
    assert len(found) > 20
    for moment, result in found.items():
        assert result == expected(total, values, at_moment(frame, times, moment)), moment


@pytest.mark.proves("asking", '`ties="peers"`', "a batch")
def test_peers_in_a_batch_query() -> None:
    """Rows of one time have the result of the last of them."""
    plan = make_plan(window=TimeWindow("1 second", ties="peers"), temporary=True)
    rows = pa.table({
        "device": ["a", "a", "b", "a"],
        "ts": pa.array([0, 0, 0, 1], pa.timestamp("us", "UTC")),
        "watts": [1.0, 2.0, 5.0, 4.0],
    })  # fmt: skip
    found = step(None, rows, plan, MemoryStore()).rows
    results = zip(found.column("watts").to_pylist(), found.column("sum").to_pylist(), strict=True)
    assert sorted(results) == [(1.0, 3.0), (2.0, 3.0), (4.0, 7.0), (5.0, 5.0)]


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_questions_about_any_moment(frame: Frame) -> None:
    """The frame as of a moment at which there may be no event, with what was known by then."""
    rng = random.Random(repr(frame))
    times = drawn_times(rng, 60)
    values = [float(rng.randint(-9, 9)) for _ in times]
    given: dict[str, Any] = {"allowed_lateness": 0, "retain_for": "1 day"}
    one = Window(Sum(), frame, "memory://", name="own", arity=3, **given)
    many = SharedWindows(Sum(), {"it": frame}, "memory://", name="shared", arity=3, **given)
    for promote_at in (2, 1000):
        keyed = KeyedWindows(Sum(), frame, "memory://", name="k", promote_at=promote_at, **given)
        keyed.extend(["a"] * len(times), values, np.array(times, "M8[us]"))
        for _ in range(20):
            moment = rng.randint(times[0], times[-1] + 20)
            want = expected(Sum(), values, at_moment(frame, times, moment))
            assert keyed.query("a", at=np.datetime64(moment, "us")) == want
    for engine in (one, many):
        engine.extend(values, np.array(times, "M8[us]"))
    for _ in range(40):
        moment = rng.randint(times[0], times[-1] + 20)
        want, at = (
            expected(Sum(), values, at_moment(frame, times, moment)),
            np.datetime64(moment, "us"),
        )
        assert one.query(at=at) == want
        assert many.query("it", at=at) == want
    now = expected(Sum(), values, in_frame(frame, times, len(times) - 1))
    assert one.query() == many.query("it") == keyed.query("a") == now


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_the_laws_of_frames_hold(frame: Frame) -> None:
    times = drawn_times(random.Random(1), 20)
    moments = np.array(times, "M8[us]") if frame.needs_times else None
    check_frame(frame, [float(time % 7) for time in times], times=moments, on=Sum())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TimeWindow(60, closed="start"), "closed is one of right, left, both, neither"),  # type: ignore[arg-type]
        (lambda: TimeWindow(60, ties="all"), "ties is 'rows' or 'peers'"),  # type: ignore[arg-type]
        (lambda: TimeWindow(60, delay=-1), "a delay"),
        (lambda: CalendarWindow.to_date("day", closed="right"), "'both' or 'left'"),  # type: ignore[arg-type]
        (lambda: TimeWindow(60, closed="left") | CountWindow(5), "end at different events"),
        (lambda: Window(Sum(), TimeWindow(60, ties="peers")), "may still come"),
        (lambda: KeyedWindows(Sum(), TimeWindow(60, ties="peers")), "may still come"),
        (lambda: SlicedWindow(Sum(), TimeWindow(60, closed="left"), 10), "use TriggeredWindow"),
        (
            lambda: Window(Sum(), TimeWindow(60, delay=1), aggregator=PagedFlatFAT),
            "leave aggregator= out",
        ),
    ],
)
@pytest.mark.refuses("asking", '`ties="peers"`', "Window", "KeyedWindows")
def test_what_cannot_be_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_frames_survive_their_descriptions_and_recipes(frame: Frame) -> None:
    """Snapshots and published records say where a frame ends, so that it can be made again."""
    assert repr(frame_from_text(frame.describe(), frame.fingerprint)) == repr(frame)
    assert frame.fingerprint not in {CountWindow(4).fingerprint, TimeWindow("5us").fingerprint}
    if not hasattr(frame, "one"):
        assert rebuilt(recipe_of(frame, CLASSES), CLASSES).fingerprint == frame.fingerprint


@pytest.mark.sample(1)
@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_a_late_event_corrects_the_rows_whose_frames_have_it(
    frame: Frame, vectorized: bool
) -> None:
    """As a stream with updates emits them: in the end each row has the result of its own frame."""
    rng = random.Random(f"{frame!r} {vectorized}")
    times = sorted(set(drawn_times(rng, 120)))
    values = [float(rng.randint(-9, 9)) for _ in times]
    order = sorted(range(len(times)), key=lambda row: times[row] + rng.choice([0, 0, 8]))
    total: Any = Sum() if vectorized else KeyByKey(0.0, lambda a, b: a + b, "sum")
    columns = ("device", "ts", "watts")
    plan = make_plan(
        window=frame, columns=columns, monoid=Product({"sum": ("watts", total)}),
        results={"sum": pa.float64()}, allowed_lateness="1 second", emit_updates=True,
    )  # fmt: skip
    store, state, found = MemoryStore(), None, {}
    for at in range(0, len(order), 7):
        some = order[at : at + 7]
        rows = pa.table({
            "device": ["a"] * len(some),
            "ts": pa.array([times[row] for row in some], pa.timestamp("us", "UTC")),
            "watts": [values[row] for row in some],
        })  # fmt: skip
        done = step(state, rows, plan, store)
        state, moments = done.state, done.rows.column("ts").cast(pa.int64()).to_pylist()
        found |= dict(zip(moments, done.rows.column("sum").to_pylist(), strict=True))
    wanted = [expected(total, values, in_frame(frame, times, row)) for row in range(len(times))]
    assert [found[time] for time in times] == wanted
