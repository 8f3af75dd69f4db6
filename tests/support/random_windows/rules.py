"""Frames, and the same in plain Python: from which of all events on a window begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from mta import CountWindow, SessionWindow, TimeWindow
from mta.frames import BoundWindow, CustomFrame, Frame
from tests.support.random_windows.kinds import Kind

SECOND = 1_000_000

#: (time in microseconds, value)
Event = tuple[int, Any]
#: From which of some events on a window begins, that began at a position and is asked at a time.
Cut = Callable[[list[Event], int, int], int]


@dataclass(frozen=True)
class Rule:
    """A frame and its cut."""

    name: str
    frame: Callable[[], Frame]
    cut: Cut
    #: By positions and times alone.
    positional: bool = True
    needs_times: bool = False
    lifetime: int | None = None
    #: Whether it cuts where it does whatever left before, so that it can be set at any time.
    settled: bool = True
    #: Whether a late event may bring back events that have left.
    merges: bool = False

    @property
    def looks_back(self) -> bool:
        """Whether a late event has the result of the window that ends with it."""
        return self.positional or self.merges

    def __repr__(self) -> str:
        return self.name


def count(size: int) -> Rule:
    return Rule(
        f"count {size}", lambda: CountWindow(size), lambda events, front, now: len(events) - size
    )


def span(micros: int) -> Rule:
    def cut(events: list[Event], front: int, now: int) -> int:
        return sum(time <= now - micros for time, _ in events)

    frame = lambda: TimeWindow(timedelta(microseconds=micros))  # noqa: E731
    return Rule(f"time {micros} us", frame, cut, needs_times=True, lifetime=micros)


def session(micros: int) -> Rule:
    """Since the last gap of so long."""

    def cut(events: list[Event], front: int, now: int) -> int:
        if len(events) > front and now - events[-1][0] >= micros:
            return len(events)
        at = len(events) - 1
        while at > front and events[at][0] - events[at - 1][0] < micros:
            at -= 1
        return max(at, front)

    frame = lambda: SessionWindow(timedelta(microseconds=micros))  # noqa: E731
    return Rule(
        f"session {micros} us",
        frame,
        cut,
        positional=False,
        needs_times=True,
        lifetime=micros,
        merges=True,
    )


def bound(kind: Kind, most: int, checked: bool = False) -> Rule:
    """At most so much weight."""

    def cut(events: list[Event], front: int, now: int) -> int:
        weight, at = 0, len(events)
        while at > front:
            weight += kind.weight(events[at - 1][1])
            if weight > most:
                break
            at -= 1
        return at

    assert kind.on is not None
    on = kind.on
    frame = lambda: BoundWindow(on(), at_most=most, checked=checked)  # noqa: E731
    return Rule(f"bound {most}", frame, cut, positional=False)


def _by_prefix(
    kind: Kind, evicts: Callable[[int, int], bool], name: str, checked: bool, settled: bool
) -> Rule:
    def cut(events: list[Event], front: int, now: int) -> int:
        weights = [kind.weight(value) for _, value in events[front:]]
        total, prefix = sum(weights), 0
        for at, weight in enumerate(weights):
            prefix += weight
            if not evicts(prefix, total):
                return front + at
        return len(events)

    assert kind.on is not None
    on = kind.on
    frame = lambda: CustomFrame(evicts, on=on(), name=name, checked=checked)  # noqa: E731
    return Rule(name, frame, cut, positional=False, settled=settled)


def keep(kind: Kind, least: int, checked: bool = False) -> Rule:
    """Evict a prefix while at least so much weight remains."""
    return _by_prefix(
        kind, lambda prefix, total: total - prefix >= least, f"keep {least}", checked, True
    )


def half(kind: Kind) -> Rule:
    """Evict less than half of the weight: asking twice evicts more."""
    return _by_prefix(kind, lambda prefix, total: 2 * prefix < total, "half", True, False)


def either(one: Rule, other: Rule) -> Rule:
    known = [rule.lifetime for rule in (one, other) if rule.lifetime is not None]
    return _joined(
        f"({one} | {other})", one, other, lambda a, b: a | b, max, min(known, default=None)
    )


def both(one: Rule, other: Rule) -> Rule:
    known = [rule.lifetime for rule in (one, other) if rule.lifetime is not None]
    lifetime = max(known) if len(known) == 2 else None
    return _joined(f"({one} & {other})", one, other, lambda a, b: a & b, min, lifetime)


def _joined(
    name: str,
    one: Rule,
    other: Rule,
    join: Callable[[Frame, Frame], Frame],
    choose: Callable[[int, int], int],
    lifetime: int | None,
) -> Rule:
    return Rule(
        name,
        lambda: join(one.frame(), other.frame()),
        lambda events, front, now: choose(
            one.cut(events, front, now), other.cut(events, front, now)
        ),
        one.positional and other.positional,
        one.needs_times or other.needs_times,
        lifetime,
        one.settled and other.settled,
        merges=all(rule.positional or rule.merges for rule in (one, other))
        and (one.merges or other.merges),
    )


def draw_rule(
    random: Random,
    kind: Kind,
    settled: bool = False,
    positional: bool = False,
    depth: int = 2,
    sessions: bool = True,
) -> Rule:
    """A frame, from time to time of two or three joined by | and &."""
    size = random.choice([1, 2, 3, 5, 8, 20, 45])
    made = [
        count(size),
        span(random.choice([size * SECOND, size * SECOND // 2, 250_000, 2_500_001])),
    ]
    if sessions and not positional:
        made.append(session(random.choice([SECOND, 2 * SECOND, 6 * SECOND])))
    if kind.on is not None and not positional:
        checked = random.random() < 0.3
        made += [bound(kind, size, checked), keep(kind, size, checked)]
        if not settled:
            made.append(half(kind))
    if depth and random.random() < 0.35:
        parts = [
            draw_rule(random, kind, settled, positional, depth - 1, sessions) for _ in range(2)
        ]
        return random.choice([either, both])(*parts)
    return random.choice(made)
