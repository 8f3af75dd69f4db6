"""Ad hoc ranges of a single window's events; several windows answer them themselves (``shared``).

>>> from mta import Max, TimeWindow, Window
>>> window = Window(Max(), TimeWindow("1 hour"), name="demo")
>>> _ = window.extend([3.0, 1.0, 4.0, 1.0, 5.0], [0, 600, 1200, 1800, 2400])
>>> range_query(window, 0, 1800), range_query_of_positions(window, 1, 2)
(4.0, 1.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.reading import plain
from mta.cursors.reach import RememberedEvents, fold_between, fold_positions
from mta.errors import InvalidTime, UnsupportedOperation
from mta.fiba.pages import TreePages
from mta.levels.leaves import Lookup
from mta.levels.tree import MonoidTree
from mta.monoids.base import Partial
from mta.times import to_time
from mta.windows.window import Window


def range_query(window: Window, after: Any, until: Any, partial: bool = False) -> Any:
    """The result of the events with after < t <= until, the monoid's ``empty`` without any.

    O(arity * log n) combines and at most two page reads a level. Raises InvalidTime, EventsGone
    where events of the range have left (unless ``partial``), and UnsupportedOperation for an
    aggregator whose events cannot be read by position.
    """
    if not window.timed:
        raise InvalidTime(f"{window!r} keeps no times: ask for positions")
    with np.errstate(all="ignore"):
        times = to_time(after), to_time(until)
        return _lowered(window, *fold_between(_events_of(window), *times, partial))


def range_query_of_positions(window: Window, start: int, stop: int, partial: bool = False) -> Any:
    """The result of the events from position ``start`` to ``stop``; costs and errors as above.

    Positions count accepted events from 0 on, in the order of the window.
    """
    with np.errstate(all="ignore"):
        return _lowered(window, *fold_positions(_events_of(window), start, stop, partial))


def _events_of(window: Window) -> RememberedEvents:
    tree = window.structure
    if isinstance(tree, MonoidTree):
        return Lookup(tree)
    if isinstance(tree, TreePages):
        return tree.stored
    raise UnsupportedOperation(
        f"{tree.name} does not answer ranges: take AmortizedMTA, LogMTA or FiBA"
    )


def _lowered(window: Window, fold: Partial, count: int) -> Any:
    return plain(window.monoid.lower(fold)) if count else window.monoid.empty
