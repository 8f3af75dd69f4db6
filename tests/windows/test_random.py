"""Random operations on every kind of window, against plain lists; see ``support.random_windows``.

Every life is lived twice, watched and not: ``check()`` between its steps must change no answer and
no handle, and no fault may hide behind it. All warnings are errors. In every other life open leaf
groups are in parts.
"""

from __future__ import annotations

from random import Random

import pytest

from mta.levels import parts
from tests.support import oracle
from tests.support.random_windows.kinds import KINDS, Kind
from tests.support.random_windows.lives import ORDERS, SORTS, live, live_twice

STEPS = 40
#: How many lives one test lives, and how many of them are hostile.
LIVES, HOSTILE = 5, 4
#: Bytes of a part of an open leaf group: of one event or three, and of more than any group has.
PARTS = 24, parts.PART_BYTES

everything = pytest.mark.parametrize(
    ("sort", "order", "kind"),
    [
        pytest.param(sort, order, kind, id=f"{sort}-{order}-{kind.name}")
        for sort in SORTS
        for order in ORDERS
        for kind in KINDS
    ],
)


@everything
def test_windows_are_lists(
    sort: str, order: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(LIVES):
        monkeypatch.setattr(parts, "PART_BYTES", PARTS[seed % 2])
        live_twice(sort, order, kind, seed, STEPS)


@everything
def test_what_nobody_should_give_harms_nothing(
    sort: str, order: str, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(HOSTILE):
        monkeypatch.setattr(parts, "PART_BYTES", PARTS[seed // 2 % 2])
        live(sort, order, kind, seed, STEPS, watched=bool(seed % 2), is_hostile=True)


@pytest.mark.parametrize(
    ("name", "seed", "steps"), [("mixed", 2885026469, 40), ("collected", 466624073, 150)]
)
def test_looking_at_shared_windows_keeps_no_pages(name: str, seed: int, steps: int) -> None:
    """Lives that the soak found: what had been read by looking was written in another order."""
    kind = next(kind for kind in KINDS if kind.name == name)
    live_twice("shared", ORDERS[1], kind, seed, steps)


@pytest.mark.soak
@pytest.mark.parametrize("sort", SORTS)
def test_lives_without_number(sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many lives of each sort as the other long forms kill writers."""
    random = Random(oracle.seed(f"random windows, {sort}"))
    for _ in range(oracle.kills(2000)):
        order, kind, seed = random.choice(ORDERS), random.choice(KINDS), random.randrange(1 << 32)
        steps, is_hostile = random.choice([20, 40, 150]), random.random() < 0.3
        monkeypatch.setattr(parts, "PART_BYTES", random.choice(PARTS))
        live_twice(sort, order, kind, seed, steps, is_hostile)
