"""Random operations on every kind of window, against plain lists; see ``support.random_windows``.

Every life is lived twice, watched and not: ``check()`` between its steps must change no answer and
no snapshot, nor must ranges and queries of level queues, and no fault may hide behind them.
All warnings are errors. In most lives open leaf groups are in parts.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mta import pages
from mta.evaluators import amortized_mta as chunks
from mta.logs import base as logs
from mta.windows import engine
from tests.support import oracle
from tests.support.random_windows.base import Life
from tests.support.random_windows.kinds import KINDS, Kind
from tests.support.random_windows.scenarios import ORDERS, SORTS, begin, live, live_twice
from tests.support.sampling import some

STEPS = 40
#: Sizes take turns, from kind to kind and from seed to seed.
SEEDS = range(2)
#: How many events of a batch go into shared windows at once, and after how many leaf groups these
#: release what no window needs.
CHUNKS, TRIMS = (1 << 16, 3), (32, 1)
#: How far a window follows its front, and how many events are searched with one read, or alone.
NEAR = 1024, 1
#: Bytes of a part of an open leaf group: of one event or a few, and of more than any group has.
PARTS = 24, 72, 216, pages.PART_BYTES
#: Events of a bulk, and bytes of its values: batches may be longer than a window of several bulks.
BULKS = (chunks._EVENTS, chunks._BYTES), (4, 1)


def everything(test: Any) -> Any:
    """Each sort beside each kind by default; orders, seeds and structures take turns."""
    for name, values in (("sort", SORTS), ("order", ORDERS), ("kind", KINDS), ("seed", SEEDS)):
        ids = [kind.name for kind in KINDS] if name == "kind" else None
        test = pytest.mark.parametrize(name, values, ids=ids)(test)
    return pytest.mark.sample(test)


def set_bulks(monkeypatch: pytest.MonkeyPatch, bulks: tuple[int, int]) -> None:
    """How many events come at once where many come."""
    monkeypatch.setattr(chunks, "_EVENTS", bulks[0])
    monkeypatch.setattr(chunks, "_BYTES", bulks[1])


@everything
def test_windows_are_lists(
    sort: str, order: str, kind: Kind, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    turn = KINDS.index(kind) + seed + SORTS.index(sort)
    monkeypatch.setattr(pages, "PART_BYTES", PARTS[turn % 4])
    monkeypatch.setattr(logs, "_CHUNK", CHUNKS[turn % 2])
    monkeypatch.setattr(engine, "_TRIM_GROUPS", TRIMS[turn % 2])
    monkeypatch.setattr(logs, "_FEW", NEAR[turn % 2])
    monkeypatch.setattr(logs, "_MANY", 4 * NEAR[turn % 2])
    set_bulks(monkeypatch, BULKS[turn // 2 % 2])
    live_twice(sort, order, kind, seed, STEPS, turn=turn)


@everything
def test_what_nobody_should_give_harms_nothing(
    sort: str, order: str, kind: Kind, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    turn = KINDS.index(kind) + seed + SORTS.index(sort)
    monkeypatch.setattr(pages, "PART_BYTES", PARTS[turn % 4])
    live(sort, order, kind, seed, STEPS, bool(turn % 2), is_hostile=True, turn=turn)


@pytest.mark.sample
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sort", SORTS)
def test_single_events_are_those_of_lists(sort: str, order: str, kind: Kind, seed: int) -> None:
    """In groups so large that nearly all events go the quick way."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"arity": 4, "leaf_arity": [16, 64][seed % 2]}
        patch.setattr(Life, "sizes", lambda life: sizes)
        life = begin(sort, order, kind, seed, turn=seed)
    life.steps = (*["one_by_one"] * 4, "extend", "checkpoint", "crash")
    for _ in range(14):
        life.step()
    life.watch()
    life.close()


@pytest.mark.parametrize(
    ("sort", "order", "name", "seed", "steps"),
    some(
        [
            ("shared", "by time", "mixed", 2885026469, 40),
            ("single", "by time", "mixed", 2114125573, 150),
            ("triggered", "as they come", "mixed", 1938545856, 150),
            ("triggered", "as they come", "huge", 2285170578, 150),
            ("shared", "by time", "collected", 466624073, 150),
            ("shared", "by time", "huge", 2834743040, 150),
        ],
        by_default=4,
    ),
)
def test_looking_leaves_nothing_behind(
    sort: str, order: str, name: str, seed: int, steps: int
) -> None:
    """Lives that the soak found: looking kept what it had read, and later folds were others."""
    kind = next(kind for kind in KINDS if kind.name == name)
    live_twice(sort, order, kind, seed, steps)


@pytest.mark.soak
@pytest.mark.parametrize("sort", SORTS)
def test_scenarios_without_number(sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many lives of each sort as the other long forms kill writers."""
    random = Random(oracle.seed(f"random windows, {sort}"))
    for _ in range(oracle.kills(2000)):
        order, kind, seed = random.choice(ORDERS), random.choice(KINDS), random.randrange(1 << 32)
        steps, is_hostile = random.choice([20, 40, 150]), random.random() < 0.3
        monkeypatch.setattr(pages, "PART_BYTES", random.choice(PARTS))
        monkeypatch.setattr(logs, "_CHUNK", random.choice(CHUNKS))
        monkeypatch.setattr(engine, "_TRIM_GROUPS", random.choice(TRIMS))
        set_bulks(monkeypatch, random.choice(BULKS))
        live_twice(sort, order, kind, seed, steps, is_hostile)
