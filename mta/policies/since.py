"""The policies of Experiment 3 (MTA paper, 5.6), to be joined with a count or time window by ``|``.

What is older than the maximum, or than the longest run, can never be in a later result, for the
maximum (or the run) stays in the window longer than all that came before it:

    CountWindow(2**20) | SinceMax()
    CountWindow(2**20) | SinceLongestRun()       on a window of LongestIncreasingRun()
"""

from __future__ import annotations

from typing import Any

from mta.monoids.basic import Max
from mta.monoids.increasing_run import IncreasingRun, LongestIncreasingRun
from mta.monoids.product import Columns
from mta.policies.bounds import Policy


class SinceMax(Policy):
    """Keeps what follows the oldest maximum of a column, that event included.

    Evicts a prefix while its maximum is below the window's: "the older subwindow not containing the
    maximum". Monotone, as a shorter prefix has no larger maximum.
    """

    def __init__(self, column: Columns = None, checked: bool = False) -> None:
        super().__init__(_is_lower, on=(column, Max()), name="since the maximum", checked=checked)


class SinceLongestRun(Policy):
    """Keeps what follows the start of the longest increasing run, that event included.

    Evicts a prefix while it has no event of that run. Monotone, as a shorter prefix has fewer
    events. It reads the result of the window's own monoid, LongestIncreasingRun, or with
    ``columns`` (value and time) one beside it.
    """

    def __init__(self, columns: Columns = None, time: Any = "f8", checked: bool = False) -> None:
        on = None if columns is None else (columns, LongestIncreasingRun(time))
        super().__init__(_is_before, on=on, name="since the longest run", checked=checked)


def _is_lower(prefix: float, total: float) -> bool:
    return bool(prefix < total)


def _is_before(prefix: IncreasingRun, total: IncreasingRun) -> bool:
    return prefix.events <= total.before
