"""Windows vectorized by columns beside standalone windows: the same rows out of the step."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from mta import Count, CountWindow, Last, Max, Mean, Product, Sum, TimeWindow
from mta.frames import BoundWindow
from mta.keyed import kind
from mta.keyed.table import is_vectorized
from spark_integration.plan import Plan
from spark_integration.step import windows
from spark_integration.step.step import Advanced, step
from stores import MemoryStore
from tests.support.sampling import some
from tests.support.spark.states import make_plan

SECOND = 1_000_000
SCHEMA = pa.schema(
    [("device", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("watts", pa.float64())]
)
FRAMES: list[Any] = [
    CountWindow(3),
    CountWindow(10),
    TimeWindow(20),
    TimeWindow(60),
    CountWindow(4) | TimeWindow(30),
    CountWindow(4) & TimeWindow(30),
    {"a": TimeWindow(10), "b": TimeWindow(50)},
    {"a": CountWindow(4), "b": TimeWindow(50)},
]
AGGREGATIONS: list[dict[str, Any]] = [
    {"peak": ("watts", Max()), "n": Count()},
    {"peak": ("watts", Last()), "total": ("watts", Sum("int64"))},
    {"peak": ("watts", Mean())},
    {"n": Count()},
]
WHOLE = {"n": pa.int64(), "total": pa.int64()}


def some_plan(rng: random.Random) -> Plan:
    frame, aggregations = rng.choice(FRAMES), rng.choice(AGGREGATIONS)
    frames = frame if isinstance(frame, dict) else {"": frame}
    results = {
        f"{alias}_{name}" if name else alias: WHOLE.get(alias, pa.float64())
        for name in frames
        for alias in aggregations
    }
    lateness = rng.choice([None, None, 0, 5, 30])
    idle = "keep"
    if all(each.lifetime is not None for each in frames.values()):
        idle = rng.choice(["keep", "keep", "expire", "emit"])
    if idle != "keep":
        # Which late rows a key takes that has started again may differ, if they are older than the
        # watermark.
        lateness = None
    emit_updates = False
    reads = "peak" in aggregations  # else nothing is kept of an event that could come again
    if lateness is not None and not isinstance(frame, dict) and reads:
        emit_updates = rng.choice([False, True, True])
    every = None
    if lateness is None and idle != "emit":
        every = rng.choice([None, "1 second", "7 seconds", "25 seconds"])
    if idle == "keep" and every is None and not emit_updates:
        every = rng.choice([None, 1, 3])
    on_invalid = rng.choice(["drop", "drop", "raise"])
    return make_plan(
        monoid=Product(aggregations), window=frame, results=results, allowed_lateness=lateness,
        idle=idle, emit_every=every, emit_updates=emit_updates, on_invalid=on_invalid,
        nulls="drop_row" if on_invalid == "drop" else "raise", schema=SCHEMA,
        on_late=rng.choice(["drop", "side", "raise"]), emit=rng.choice(["all", "last"]),
        arity=rng.choice([2, 4, None]), leaf_arity=rng.choice([2, 4, None]),
        temporary=rng.random() < 0.15,
    )  # fmt: skip


class Clock:
    """Rows of a stream whose time goes on, with some that are late, null or NaN."""

    def __init__(self, rng: random.Random, plan: Plan) -> None:
        self._rng, self._plan, self.now = rng, plan, 1000
        self._keys = rng.choice([1, 4, 20])
        self._late = 0.4 if plan.options.settings.lateness is not None else 0.03

    def rows(self, count: int) -> pa.Table:
        rng, columns = self._rng, [[], [], []]
        for _ in range(count):
            self.now += rng.choice([0, 0, 1, 2, 9])
            late = rng.choice([0, 0, 2, 7, 40]) if rng.random() < self._late else 0
            columns[0].append(None if rng.random() < 0.01 else f"d{rng.randrange(self._keys)}")
            columns[1].append((self.now - late) * SECOND)
            whole = "total" in self._plan.monoid.aliases
            nan = not whole and rng.random() < 0.02
            columns[2].append(float("nan") if nan else float(rng.randrange(9)))
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        return pa.table(arrays, schema=SCHEMA)


def outcome(state: bytes | None, rows: pa.Table, *rest: Any) -> Advanced | str:
    """What a step returns; of an error that it is one, as the first of two may be either."""
    try:
        return step(state, rows, *rest)
    except ValueError:
        return "an error"


def of_each_key(rows: pa.Table) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["device"], []).append(str(row))
    return found


@pytest.mark.parametrize("seed", some(range(40), by_default=8))
@pytest.mark.proves("options", "`emit_every`", "vectorized", "a batch")
def test_both_ways_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    plan = some_plan(rng)
    clock, stores = Clock(rng, plan), (MemoryStore(), MemoryStore())
    states: list[bytes | None] = [None, None]
    # Small windows are promoted too, and some come back.
    promote_at = rng.choice([1, 4, 16, 1024])
    monkeypatch.setattr(windows, "PROMOTE_AT", promote_at)
    watermark: int | None = None
    for _ in range(rng.choice([1, 8, 25])):
        rows = clock.rows(rng.choice([0, 1, 3, 20, 60]))
        if plan.options.idle != "keep" and rng.random() < 0.6:
            watermark = max(watermark or 0, (clock.now - rng.choice([5, 40, 90])) * SECOND)
        found = []
        for way, state, store in zip((False, True), states, stores, strict=True):
            monkeypatch.setattr(kind, "is_vectorized", is_vectorized if way else lambda *_: False)
            found.append(outcome(state, rows, plan, store, watermark))
            again = outcome(state, shuffled(rows, rng), plan, store, watermark)
            if isinstance(again, Advanced) and isinstance(found[-1], Advanced):
                assert again.state == found[-1].state
                assert of_each_key(again.rows) == of_each_key(found[-1].rows)
        by_key, by_columns = found
        if isinstance(by_key, str) or isinstance(by_columns, str):
            assert by_key == by_columns
            continue
        assert by_columns.rows.schema == by_key.rows.schema
        assert of_each_key(by_columns.rows) == of_each_key(by_key.rows)
        assert by_columns.counts == by_key.counts
        if not plan.temporary:
            states = [by_key.state, by_columns.state]
    assert plan.temporary or states[1] is None or len(states[1]) < 1 << 16


def shuffled(rows: pa.Table, rng: random.Random) -> pa.Table:
    order = list(range(rows.num_rows))
    rng.shuffle(order)
    return rows.take(pa.array(order, pa.int64()))


@pytest.mark.parametrize("leaf_arity", [None, 100])
def test_a_key_of_many_rows_has_larger_pages_unless_sizes_are_given(leaf_arity: int | None) -> None:
    """Of a window on values each key has one by itself from its first row on, of one size."""
    product = Product({"peak": ("watts", Max())})
    shares: list[float] = []
    for frame in (TimeWindow(10_000), BoundWindow(("watts", Sum()), at_most=1e6)):
        store = MemoryStore()
        plan = make_plan(
            monoid=product, window=frame, results={"peak": pa.float64()}, arity=None,
            leaf_arity=leaf_arity, schema=SCHEMA,
        )  # fmt: skip
        times = pa.array([at * SECOND for at in range(8_000)], SCHEMA.field("ts").type)
        watts = pa.array([float(at % 991) for at in range(8_000)])
        rows = pa.table([pa.array(["a"] * 8_000), times, watts], schema=SCHEMA)
        done = step(None, rows, plan, store)
        assert done.rows.column("peak").to_pylist()[-1] == 990.0
        again = step(done.state, rows.slice(0, 0), plan, store)
        assert len(again.rows) == 0
        places = [key.split("/") for key in store.keys("")]
        leaves = sum(":" in window and level == "0" for window, level, *_ in places)
        shares.append(leaves * plan.sizes[0] / 8_000)
    assert shares[1] > 0.5
    assert shares[0] > 0.5 if leaf_arity else shares[0] < 0.3


def test_a_state_of_other_settings_is_refused() -> None:
    """Also where one of both is a snapshot and the other one is not."""
    store, plan = MemoryStore(), make_plan()
    rows = Clock(random.Random(0), plan).rows(10).drop_null()
    state = step(None, rows, plan, store).state
    with pytest.raises(ValueError, match="buckets=1"):
        step(state, rows, replace(plan, buckets=2), store)
