"""Which values stand for none: one rule for single events and batches.

None, NaN of any kind of number (numpy's and Decimal's too), NaT, pandas' NA and Arrow's nulls.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

#: Types of which no value is a null.
NEVER_NULL = frozenset({int, bool, str, bytes, tuple, list, dict, set, frozenset})


def is_null(value: Any) -> bool:
    """Whether a value stands for none.

    >>> [is_null(value) for value in (None, float("nan"), Decimal("NaN"), np.datetime64("NaT"), 0)]
    [True, True, True, True, False]
    """
    kind = type(value)
    if kind is float:
        return bool(value != value)
    if kind in NEVER_NULL:
        return False
    if value is None or kind.__name__ in ("NAType", "NaTType"):  # pandas', without importing it
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, complex, np.number, np.datetime64)):
        return bool(value != value)
    return hasattr(value, "as_py") and is_null(value.as_py())  # a scalar of Arrow's


def any_null(values: Iterable[Any]) -> bool:
    """Whether one of several values stands for none."""
    kinds = set(map(type, values)) - NEVER_NULL
    if not kinds:
        return False
    return any(is_null(value) for value in values if type(value) in kinds)
