"""Item 9 for windows that share a stream: ``kill -9`` of the one writer of all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.reliability.test_item_09_kills import Killer, run
from tests.support import oracle
from tests.support.shared_lives import SharedLife


class SharedKiller(Killer):
    """Writers of four windows over one stream, in order or with late events."""

    def _born(self, random: Random) -> SharedLife:
        sizes = [random.choice((1, 30, 400, 3000)) for _ in range(4)]
        return SharedLife(
            str(self.folder),
            f"s{len(self.lives)}",
            random.choice(self.stores),
            (min(sizes[:2]), max(sizes[:2]), min(sizes[2:]), max(sizes[2:])),
            random.choice((2, 3, 8, 64)),
            random.choice((2, 3, 8, 64)),
            random.random() < 0.3,
        )


def test_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), 10)


@pytest.mark.soak
def test_many_kills_of_the_writer_of_several_windows(tmp_path: Path, redis_url: str) -> None:
    run(SharedKiller(tmp_path, redis_url, oracle.seed("shared kills")), oracle.kills(2000) // 2)
