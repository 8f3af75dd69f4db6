"""What Spark itself notes of a query over files: its logs of files, of offsets and of commits."""

from __future__ import annotations

import json
from pathlib import Path


def entries(checkpoint: Path, log: str) -> list[int]:
    """The numbers of the batches in one of the query's logs ("offsets", "commits")."""
    return sorted(int(p.name) for p in (checkpoint / log).glob("[0-9]*") if p.name.isdigit())


def remove_commit(checkpoint: Path, batch: int | None = None) -> None:
    """As if the driver had died after a batch's work (the last one's) and before its commit."""
    batch = entries(checkpoint, "commits")[-1] if batch is None else batch
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def files_of_batches(checkpoint: Path) -> list[list[str]]:
    """The names of the files that each micro-batch that has started has read, or is to read again.

    The source numbers the files that it finds, in a log of its own, and writes a number there
    before Spark writes the batch that goes up to it into the log of offsets. So a driver that dies
    between both leaves a file that is found and in no batch, and that the next one reads as well.
    """
    found: dict[str, int] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[Path(entry["path"]).name] = entry["batchId"]
    batches, before = [], -1
    for batch in entries(checkpoint, "offsets"):
        last = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        upto = json.loads(last)["logOffset"]
        batches.append(sorted(name for name, number in found.items() if before < number <= upto))
        before = upto
    return batches


def find_a_file(checkpoint: Path, name: str) -> None:
    """As if the driver had died when its source had found a file and no batch had it yet."""
    log = checkpoint / "sources" / "0"
    last = max(int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit())
    version, line = (log / str(last)).read_text().splitlines()
    entry = json.loads(line)
    entry["path"] = entry["path"].rpartition("/")[0] + "/" + name
    entry["batchId"] = last + 1
    (log / str(last + 1)).write_text(f"{version}\n{json.dumps(entry)}")
