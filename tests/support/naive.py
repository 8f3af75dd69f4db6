"""What the tests compare with: a list and a fold, rules in plain Python, and stores that fail."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from mta import CountWindow, Monoid, SessionWindow, TimeWindow
from mta.algorithms import AmortizedMTA, FiBA, LogMTA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.frames import Frame
from mta.frames.base import Both
from mta.logs.base import Aggregator
from stores import PageStore

#: The aggregators that keep events in the order in which they come.
IN_ORDER: list[type[Aggregator]] = [AmortizedMTA, LogMTA, PagedFlatFAT, PagedReactiveAggregator]


class CrowdedFiBA(FiBA):
    """FiBA with room for hardly any node in memory."""

    resident_nodes = 3


AGGREGATORS: list[type[Aggregator]] = [*IN_ORDER, CrowdedFiBA]

#: (value, time in microseconds)
Event = tuple[str, int]


def joined() -> Monoid:
    """Concatenation: order matters and nothing can be subtracted."""
    return Monoid(identity="", combine=lambda left, right: left + right, name="joined")


def letters() -> Monoid:
    """How many letters the values have."""
    return Monoid(identity=0, combine=lambda a, b: a + b, lift=len, name="letters")


def window_of(frame: Frame, times: Sequence[float], now: float) -> slice:
    """Which of some events in order of time, in seconds, a frame holds when asked at a time."""
    if isinstance(frame, Both):
        one, other = (window_of(side, times, now) for side in (frame.one, frame.other))
        assert one.stop == other.stop
        return slice((max if frame.any_of else min)(one.start, other.start), one.stop)
    if isinstance(frame, CountWindow):
        stop = max(0, len(times) - frame.end.rows)
        return slice(max(0, stop - frame.size), stop)
    if isinstance(frame, SessionWindow):
        start = len(times)
        while start and (now if start == len(times) else times[start]) - times[start - 1] < (
            frame.gap / 1e6
        ):
            start -= 1
        return slice(start, len(times))
    assert isinstance(frame, TimeWindow)
    end = now - frame.delay / 1e6
    has_end, has_start = frame.closed in ("right", "both"), frame.closed in ("left", "both")
    stop = (bisect_right if has_end else bisect_left)(times, end)
    return slice((bisect_left if has_start else bisect_right)(times, end - frame.size / 1e6), stop)


def pages_of(store: PageStore) -> dict[str, bytes]:
    """Every page of a store by its key."""
    keys = sorted(store.keys())
    return dict(zip(keys, store.get_many(keys), strict=True))  # type: ignore[arg-type]


def text_of(events: list[Event]) -> str:
    return "".join(value for value, _ in events)


def error_of(action: Callable[[], Any]) -> BaseException | None:
    """What an action raises."""
    try:
        action()
    except Exception as error:
        return error
    return None
