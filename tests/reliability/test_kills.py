"""``kill -9`` of a writer at random times: of one window, and of several over one stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import oracle
from tests.support.killers import Killer, SharedKiller, run


def test_kills_at_random_times(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), 10)


@pytest.mark.soak
def test_thousands_of_kills(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), oracle.kills(2000))


def test_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), 10)


@pytest.mark.soak
def test_many_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), oracle.kills(2000) // 2)
