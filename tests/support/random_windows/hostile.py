"""What nobody should give to a window, and somebody will."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from mta.errors import WindowStoreError

#: Nulls and NaN of every kind; each is refused or dropped, by single events and by batches alike.
NULLS: list[Any] = [
    None, float("nan"), np.float64("nan"), np.float32("nan"), Decimal("NaN"), pd.NA, pd.NaT,
    np.datetime64("NaT"),
]  # fmt: skip

#: What is not plain data: refused at the entry, or pageable.
UNPAGEABLE: list[Any] = [
    datetime(2026, 1, 1, tzinfo=UTC), pd.Timestamp("2026-01-01"), np.datetime64("2026-01-01"),
    {1, 2}, 1 + 2j, Decimal("1.5"), object(), range(3), [datetime(2026, 1, 1, tzinfo=UTC)],
    {"k": {1}}, np.arange(3),
]  # fmt: skip

#: No times, or times that 64 bits of microseconds do not hold.
NO_TIMES: list[Any] = [
    float("nan"), float("inf"), -1e300, 2**63, -(2**63), 2**62, np.datetime64("NaT"),
    np.datetime64(300_000, "Y"), np.datetime64(-300_000, "Y"), np.datetime64(2**63 - 1, "us"),
    np.datetime64(-(2**63) + 1, "us"), np.datetime64(2**62, "s"), "2026-01-01", b"now", 1j, [1],
    pd.NaT,
]  # fmt: skip

#: No numbers of events, and no positions.
NO_COUNTS: list[Any] = [1.0, np.float64(1), 0.5, float("nan"), "1", None, -1, [1], Decimal(1)]

#: How bad input may be refused: by errors that callers of any Python function know.
REFUSALS = (ValueError, TypeError, LookupError, WindowStoreError)


def refusal(call: Callable[[], Any]) -> Exception | None:
    """The error with which a call is refused; None where it is taken."""
    try:
        call()
    except REFUSALS as error:
        return error
    return None
