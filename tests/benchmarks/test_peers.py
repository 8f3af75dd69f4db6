"""The sides of the experiment ``peers``: what each answers, is given, and is compared with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from benchmarks.ours import peers

VALUES = np.random.default_rng(3).normal(100, 10, 60)


@pytest.mark.parametrize("function", peers.MONOIDS)
@pytest.mark.parametrize("size", [2, 7, 100])
@pytest.mark.parametrize("name", peers.SINGLES)
def test_every_result_one_by_one(name: str, size: int, function: str) -> None:
    module, rolling = peers.SINGLES[name]
    pytest.importorskip(module)
    found, expected = rolling(function, size, VALUES), peers.with_pandas(function, size, VALUES)
    assert len(found) == len(VALUES)
    assert np.allclose(found[1:], expected[1:], rtol=1e-9)
