"""Lives of every sort, lived with or without somebody watching.

Whoever watches calls ``check()`` and what else only reads, between every two steps: that must
change nothing, so both lives give the same answers and the same snapshots.
"""

from __future__ import annotations

import warnings
from random import Random

from mta.algorithms import FiBA, SteadyMTA
from mta.logs.base import Aggregator
from tests.support.naive import IN_ORDER, CrowdedFiBA
from tests.support.random_windows.base import Life
from tests.support.random_windows.due import SlicedLife, TriggeredLife
from tests.support.random_windows.kinds import Kind
from tests.support.random_windows.windows import SharedLife, SingleLife

SORTS = ["single", "triggered", "sliced", "shared"]
#: Whether events are kept in order of time, so that they may come late.
ORDERS = ["as they come", "by time"]
BY_TIME: list[type[Aggregator]] = [CrowdedFiBA, FiBA]


def begin(
    sort: str, order: str, kind: Kind, seed: int, is_hostile: bool = False, turn: int | None = None
) -> Life:
    """A life of a sort over events of a kind, all else drawn; structures may take turns."""
    random = Random(f"{sort} {order} {kind.name} {seed}")
    structures = [*IN_ORDER, SteadyMTA] if order == ORDERS[0] else BY_TIME
    aggregator = random.choice(structures)
    if turn is not None:
        aggregator = structures[turn % len(structures)]
    life: Life
    if sort == "shared":
        life = SharedLife(random, kind, aggregator.by_time)
    else:
        sorts = {"single": SingleLife, "triggered": TriggeredLife, "sliced": SlicedLife}
        life = sorts[sort](random, kind, aggregator)
    if is_hostile:
        life.steps = life.steps + 2 * life.hostile_steps
    return life


def live(
    sort: str,
    order: str,
    kind: Kind,
    seed: int,
    steps: int,
    watched: bool = False,
    is_hostile: bool = False,
    turn: int | None = None,
) -> list[str]:
    """Live a life; all answers, snapshots among them. Fails with all that has been done."""
    life = begin(sort, order, kind, seed, is_hostile, turn)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(steps):
                life.step()
                if watched:
                    life.watch()
        return life.answers
    except Exception as error:
        done = "\n  ".join(life.done)
        where = f"{sort} life {seed} {order} ({watched=}, {is_hostile=}): {life!r}"
        raise AssertionError(f"{type(error).__name__}: {error}\n{where}\n  {done}") from error
    finally:
        life.close()


def live_twice(
    sort: str,
    order: str,
    kind: Kind,
    seed: int,
    steps: int,
    is_hostile: bool = False,
    turn: int | None = None,
) -> None:
    """Live a life unwatched and watched: nothing that only looks may change an answer."""
    alone = live(sort, order, kind, seed, steps, is_hostile=is_hostile, turn=turn)
    watched = live(sort, order, kind, seed, steps, True, is_hostile, turn)
    for at, (one, other) in enumerate(zip(alone, watched, strict=True)):
        assert one == other, (
            f"{sort} life {seed} {order} of {kind.name}: being watched changed answer {at}"
        )
