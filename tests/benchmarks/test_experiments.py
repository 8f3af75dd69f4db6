"""Every experiment at its tiniest: CSV, PNG and SVG, and findings of the rows."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

pytest.importorskip("redis")

import redis

from benchmarks import running
from benchmarks.ours import late, pauses, peers, slow
from benchmarks.papers import server
from benchmarks.papers.daba import break_even as in_order_break_even
from benchmarks.papers.daba import experiments as in_order
from benchmarks.papers.fiba import experiments as fiba
from benchmarks.papers.mta import memory as mta_memory
from benchmarks.papers.mta.algorithms import (
    ALGORITHMS,
    left_out,
    measurable,
)
from benchmarks.papers.mta.streams import memory_usage
from benchmarks.papers.reactive import experiments as reactive
from benchmarks.registry import EXPERIMENTS
from benchmarks.report import plots
from benchmarks.report.tables import read_rows
from tests.support.sampling import REST

SIZES = {
    "mta_bulk": 2**-12,
    "mta_latency": 2**-16,
    "mta_streams": 1e-4,
    "shared": 0.02,
    "key_counts": 1e-5,
    "kernels": 1e-4,
    "pba_count": 1e-4,
    "pba_latency": 1e-5,
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a share of the events does not make small; and no time goes into placing labels."""
    monkeypatch.setitem(plots.STYLE, "figure.constrained_layout.use", False)
    monkeypatch.setattr(mta_memory, "LIMITS", (16, 24))
    kept = ("Two-Stacks", "Amortized MTA, on disk")
    chosen = {name: mta_memory.ALGORITHMS[name] for name in kept}
    monkeypatch.setattr(mta_memory, "ALGORITHMS", chosen)
    monkeypatch.setattr(in_order, "LARGEST", 18)
    monkeypatch.setattr(in_order_break_even, "LARGEST", 7)
    monkeypatch.setattr(reactive, "TABLE_3", 8)
    monkeypatch.setattr(fiba, "OPERATORS", ("Sum",))
    monkeypatch.setattr(fiba, "ROUNDS", 20)
    monkeypatch.setattr(fiba, "scaled", lambda exponent, size, least=8: least)
    monkeypatch.setattr(fiba, "MIN_ARITIES", (2, 4))
    monkeypatch.setattr(slow, "WINDOW", 2**10)
    monkeypatch.setattr(slow, "TIMES", 1)
    monkeypatch.setattr(pauses, "TIMES", 1)
    monkeypatch.setattr(peers, "TIMES", 1)
    monkeypatch.setattr(peers, "LIMITS", {name: peers.Limit(100, 256) for name in peers.LIMITS})
    monkeypatch.setattr(late, "EVENTS", 2**20)


ON_SPARK = (
    "spark",
    "spark_keys",
    "spark_small",
    "spark_public",
    "payments",
    "over_few",
    "over_many",
    "asof",
    "flink",
    "objects",
    "pba_engine",
    "state_40mb",
    "state_1gb",
    "state_keys",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.soak if name in ON_SPARK else [REST] if at % 9 else [])
        for at, name in enumerate(EXPERIMENTS)
    ],
)
def test_every_experiment_writes_its_files(name: str, tmp_path: Path) -> None:
    if name == "flink" and find_spec("pyflink") is None:
        pytest.skip("NOT TESTED: Flink is missing: pip install apache-flink-libraries")
    done = running.Bench(tmp_path, SIZES.get(name, 1e-3)).run(name)
    assert read_rows(tmp_path / f"{name}.csv") == done.rows
    assert done.rows and done.findings and done.plots
    for path in done.plots:
        assert path.read_text().count("<svg") == 1
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert done.experiment.paper and done.experiment.setting
    assert all(bool(f.reason) is (f.agrees is False) for f in done.findings)
    assert set(done.experiment.columns) <= set(done.rows[0])


def test_a_peer_that_answers_wrongly_is_not_timed() -> None:
    one = memory_usage(100)
    with pytest.raises(AssertionError, match="other answers other than ours"):
        peers.require_alike({"ours": one, "other": one + 1}, "max")


def test_a_store_on_the_network_is_a_server_of_our_own() -> None:
    if (missing := server.missing()) is not None:
        pytest.skip(f"NOT TESTED: {missing}")
    with server.redis_server() as url, redis.from_url(url) as ours:
        assert ours.dbsize() == 0
        process = ours.info("server")["process_id"]
        with pytest.raises(redis.exceptions.AuthenticationError):
            redis.from_url(re.sub(":[0-9a-f]+@", "", url)).ping()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_where_no_server_can_be_started_its_rows_are_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "PROGRAM", "no-such-server")
    left = [name for name in ALGORITHMS if name.endswith("over Redis")]
    assert [name for name in ALGORITHMS if name not in measurable()] == left
    reported = {one.what: one.seen for one in left_out(measurable())}
    assert reported == dict.fromkeys(left, "not measured: no no-such-server on the PATH")
