"""The sides of the experiment ``peers``: what each answers, is given, and is compared with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from benchmarks.ours import peers
from benchmarks.report.experiment import Row

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


def test_a_slow_peer_is_given_less(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []

    def side(name: str) -> peers.Rolling:
        def rolling(function: str, size: int, values: peers.Values) -> peers.Values:
            seen.append((name, size, len(values)))
            return values

        return rolling

    monkeypatch.setattr(peers, "TIMES", 1)
    monkeypatch.setattr(peers, "LIMITS", {"slow": peers.Limit(values=10, window=4)})
    sides = {name: side(name) for name in ("ours", "slow")}
    assert peers.measured(sides, "max", 4, VALUES).keys() == {"ours", "slow"}
    assert seen == [("ours", 4, 60), ("slow", 4, 10)] * 2
    assert peers.measured(sides, "max", 5, VALUES).keys() == {"ours"}
    assert seen[4:] == [("ours", 5, 60)] * 2
    wrong = VALUES[:10].copy()
    wrong[-1] += 1
    with pytest.raises(AssertionError, match="slow answers other than ours"):
        peers.require_alike({"ours": VALUES, "slow": wrong}, "max")


def test_a_peer_is_compared_in_its_largest_window_with_ours_of_its_kind() -> None:
    ns = {
        ("ours, one by one", 16): 10.0,
        ("ours, one by one", 256): 20.0,
        ("ours, one by one", 4096): 30.0,
        ("ours, one by one, on disk", 256): 40.0,
        ("ours, one by one, on disk", 16): 50.0,
        ("river", 4096): 15.0,
        ("river", 16): 1.0,
        ("quix-streams", 16): 4000.0,
        ("quix-streams", 256): 80_000.0,
    }
    rows: list[Row] = [
        {"kind": "single", "function": f, "algorithm": name, "window": n, "ns": time, "events": 9}
        for f in peers.MONOIDS
        for (name, n), time in ns.items()
    ]
    found = [one for one in peers.found(rows) if one.what.startswith("single, sum")]
    assert [(one.what, one.paper, one.seen) for one in found] == [
        ("single, sum, window 4,096: ours, one by one", "river: 15.0 ns", "30.0 ns, 2 times"),
        (
            "single, sum, window 256: ours, one by one, on disk",
            "quix-streams: 80,000.0 ns",
            "40.0 ns, 0.0005 times",
        ),
    ]
