"""Sums of whole numbers that are refused where they leave their type."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mta import CountWindow, Window
from mta.aggregations import CheckedSum
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, PagedFlatFAT
from mta.errors import ResultOutOfRange
from mta.testing import check_monoid

TYPES = ["int64", "int32", "int8", "uint64", "uint16"]
ENDS = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in TYPES}


@pytest.mark.parametrize("dtype", TYPES)
def test_the_laws(dtype: str) -> None:
    least, most = ENDS[dtype]
    check_monoid(CheckedSum(dtype), examples=[0, 1, 2, most // 8, least // 8, 7, 3])


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("aggregator", [AmortizedMTA, LogMTA, PagedFlatFAT, FiBA])
def test_sums_are_exact_or_refused(dtype: str, aggregator: type) -> None:
    """At both ends of the type, one by one and in batches, restored between."""
    random, (least, most), refused = Random(dtype), ENDS[dtype], 0
    near = [least, least + 1, -1, 0, 1, most - 1, most, most // 2, least // 2]
    values = [random.choice([v for v in near if least <= v <= most]) for _ in range(300)]
    window = Window(CheckedSum(dtype), CountWindow(3), arity=2, leaf_arity=2, aggregator=aggregator)
    for end in range(1, len(values) + 1):
        window.insert(values[end - 1], end if aggregator is FiBA else None)
        right = sum(values[max(0, end - 3) : end])
        if least <= right <= most:
            assert window.query() == right
        else:
            refused += 1
            with pytest.raises(ResultOutOfRange, match=f"a sum of {dtype} is beyond"):
                window.query()
        if end % 50 == 0:
            window = window.restore_like(window.checkpoint())
    assert 0 < refused < len(values)


def test_a_batch_says_which_sum_is_too_large_and_how_many_events_are_in() -> None:
    window = Window(CheckedSum("int64", "the bytes"), CountWindow(2))
    with pytest.raises(ResultOutOfRange, match="the bytes is beyond") as caught:
        window.extend([1, 2**63 - 1, 5, 6])
    assert caught.value.__notes__ == [f"{len(window)} of 4 events of the batch were accepted"]
    assert window.extend([7, 8]).tolist()[-1] == 15
    window.check()
    assert window.extend(np.array([], "i8")).tolist() == []
