"""A process without Spark that asks for published cards, and compares each answer with lists."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from mta import open_published
from mta.errors import NotPublished
from mta.published import PublishedWindows
from tests.support.patience import LONG
from tests.support.published import agrees
from tests.support.spark.checkpoints import files_of_batches

ROOT = Path(__file__).parents[3]
START = datetime(2024, 1, 1, tzinfo=UTC)
KEYS = [(f"card {n % 7}", n) for n in range(12)]


class Asking:
    """The process, which asks until the context is left and once more; ``seen`` says of what.

    ``answers`` are those of lists as of each file (``CardFiles.as_of``).
    """

    def __init__(self, folder: Path, store: str, answers: list[dict[str, Any]]) -> None:
        (folder / "as_of.json").write_text(json.dumps(answers))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark.asking", str(folder), store],
            cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        #: The batches that were seen, in order; how often all keys were compared.
        self.seen: list[int] = []
        self.checks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        out, errors = self._process.communicate(timeout=LONG)  # closes its input
        assert self._process.returncode == 0, errors
        self.seen, self.checks = json.loads(out)


def main(folder: Path, store: str) -> None:
    """Ask until the input is closed."""
    expected, ended = json.loads((folder / "as_of.json").read_text()), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while (reader := _opened(store)) is None:
        assert not ended.is_set(), "nothing was published"
        time.sleep(0.01)
    seen: list[int] = []
    checks, is_last = 0, False
    while not is_last:
        is_last = ended.is_set()
        reader.refresh()
        batch = reader.status().batch
        last = files_of_batches(folder / "checkpoint")[batch][-1].removesuffix(".parquet")
        if not _compare(reader, expected[int(last)], batch):
            continue  # pages of the batch were deleted meanwhile, and a newer one answered
        checks += 1
        if batch not in seen[-1:]:
            seen.append(batch)
        time.sleep(0.01)
    json.dump([seen, checks], sys.stdout)


def _opened(store: str) -> PublishedWindows | None:
    try:
        return open_published(store, "cards", refresh=None)
    except NotPublished:
        return None


def _compare(reader: PublishedWindows, expected: dict[str, Any], batch: int) -> bool:
    """Compare all answers with those of lists; False where they are not of the batch."""
    later = START + timedelta(seconds=expected["later"])
    found = [
        ("at newest", _rows(reader.query(KEYS))),
        ("at newest", [reader.query(key) for key in KEYS]),
        ("at later", _rows(reader.query(KEYS, at=later))),
    ]
    if reader.status().batch != batch:
        return False
    for moment, rows in found:
        for key, row, answer in zip(KEYS, rows, expected[moment], strict=True):
            assert agrees(row, answer), (batch, key, moment, row, answer)
    return True


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: column[at] for name, column in columns.items()} for at in range(len(KEYS))]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
