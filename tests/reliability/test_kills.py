"""``kill -9`` of a writer at random times: of one window, and of several over one stream."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.support import oracle
from tests.support.killers import Killer, SharedKiller, run
from tests.support.s3_server import S3Server


def test_kills_at_random_times(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), 6)


@pytest.mark.soak
def test_thousands_of_kills(tmp_path: Path, redis_url: str) -> None:
    run(Killer(tmp_path, redis_url, oracle.seed("kills")), oracle.kills(2000))


def test_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), 6)


@pytest.mark.parametrize("cached", [True, False])
def test_kills_of_a_writer_to_an_object_store(
    tmp_path: Path, s3_server: S3Server, cached: bool
) -> None:
    killer = Killer(tmp_path, "redis://unused", oracle.seed("s3 kills"))
    options = (f"cache_dir={tmp_path}/cache",) if cached else ()
    killer.stores = [s3_server.url(uuid4().hex, *options)]
    run(killer, 5)


@pytest.mark.soak
def test_many_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), oracle.kills(2000) // 2)
