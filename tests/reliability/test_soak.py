"""Mixed faults under one printed seed, and an auditor who knows the total at any time."""

from __future__ import annotations

import pytest

from tests.support import oracle
from tests.support.sampling import some
from tests.support.soaks import Soak, run, run_long


@pytest.mark.parametrize("seed", some(range(10), by_default=4))
def test_mixed_faults(seed: int) -> None:
    soak = run(Soak, seed, 300)
    assert soak.answers > 50
    assert soak.failures


@pytest.mark.soak
def test_mixed_faults_for_long() -> None:
    run_long(Soak, "mixed faults", 10 * oracle.kills(2000))
