"""A window whose writer was killed is back after a handful of page reads, whatever its size."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mta import CountWindow, Max, Window
from stores import open_store
from stores.testing import CountingStore
from tests.support.writers import start

_PIECE = 1 << 20


def values(start: int, stop: int) -> np.ndarray:
    """Events that rise and fall, so that the largest of a window is not its first or last."""
    at = np.arange(start, stop, dtype="f8")
    return at % 8191 + at % 127


def write_until_killed(folder: str, n: int, arity: int | None, leaf_arity: int | None) -> None:
    """Fill a window, save a snapshot, and go on."""
    store = open_store(f"file://{folder}/pages?map_size=1GiB")
    window = Window(Max(), CountWindow(n), store, arity=arity, leaf_arity=leaf_arity)
    back = n + n // 3
    for at in range(0, back, _PIECE):
        window.extend(values(at, min(at + _PIECE, back)), emit="last")
    draft = Path(folder, "draft")
    draft.write_bytes(window.checkpoint())
    draft.rename(Path(folder, "snapshot"))
    while True:
        window.extend(values(window.structure().back, window.structure().back + 10_000))


@pytest.mark.parametrize(
    ("n", "leaf_arity", "arity"),
    [
        (1 << 16, 8, 8),
        (1 << 20, 512, 16),
        pytest.param(1 << 25, None, None, marks=pytest.mark.soak),
    ],
)
def test_at_most_a_page_a_level_and_one_is_read(
    n: int, leaf_arity: int | None, arity: int | None, tmp_path: Path
) -> None:
    writer = start(write_until_killed, str(tmp_path), n, arity, leaf_arity)
    snapshot = tmp_path / "snapshot"
    while not snapshot.exists():
        assert writer.exitcode is None, "the writer ended by itself"
        writer.join(0.01)
    writer.kill()
    writer.join()
    address = f"file://{tmp_path}/pages?map_size=1GiB&write_buffer=0"
    with CountingStore(open_store(address)) as store:
        window = Window.restore(
            snapshot.read_bytes(), store, aggregations=Max(), window=CountWindow(n)
        )
        levels, back = window.structure().levels, n + n // 3
        assert window.query() == values(back - n, back).max()
        assert store.counts.get.pages == 0  # the snapshot is enough for the result
        log_n = 1 + math.log(n / levels.leaf_arity, levels.arity)
        # The first insertion needs what is of the open group in parts, the first eviction the
        # front's pages.
        parts = len(window.structure().parts)
        window.insert(0.0)
        assert window.query() == values(back + 1 - n, back).max()
        assert 1 <= store.reset().get.pages <= log_n + 1 + parts
        window.evict(n // 2)
        assert window.query() == values(back + 1 - n // 2, back).max()
        assert store.counts.get.pages <= log_n + 1
