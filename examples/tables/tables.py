"""Runs a job between tables of Delta or Iceberg, and kills it while it works.

Power meters report once a minute, up to half an hour out of order. The job of ``job.py`` reads them
out of one table, appends each with its window to a second one, and keeps a third one in which late
readings correct earlier results. It is killed while it works and started again. Then both tables
have each result once, and equal those of pandas.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

START = pd.Timestamp("2025-06-02", tz="UTC")
ORDER = ["device", "ts"]


def make_readings(count: int, meters: int, files: int, seed: int = 1) -> pd.DataFrame:
    """Return one reading per minute and meter in order of arrival; ``part`` is the file number."""
    random = np.random.default_rng(seed)
    minute, meter = np.divmod(np.arange(count), meters)
    frame = pd.DataFrame({
        "device": np.char.add("meter-", meter.astype(str)),
        "ts": (START + pd.to_timedelta(minute, unit="min")).astype("datetime64[us, UTC]"),
        "watts": np.round(random.lognormal(5, 0.5, count), 1),
    })  # fmt: skip
    frame = frame.iloc[np.argsort(minute + random.integers(0, 30, count), kind="stable")]
    return frame.assign(part=(np.arange(count) * files // count).astype(np.int32))


def run_job(options: argparse.Namespace, folder: Path) -> None:
    """Start the job, kill it several times while it works, and let it finish."""
    command = [sys.executable, str(Path(__file__).with_name("job.py")), "--format", options.format]
    command += ["--folder", str(folder)]
    command += ["--by-batch"] if options.by_batch else []
    command += ["--jars", options.jars] if options.jars else []
    commits = [folder / f"checkpoint-{table}" / "commits" for table in ("peaks", "newest")]
    for life in range(options.kills + 1):
        # A process group of its own, so that Spark's Java dies with it.
        job = subprocess.Popen(command, start_new_session=True)
        if life < options.kills:
            done = sum(map(batches, commits))
            while sum(map(batches, commits)) == done and job.poll() is None:
                time.sleep(0.01)
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                print(f"killed after {batches(commits[0])} and {batches(commits[1])} batches")
        if job.wait() > 0:
            raise SystemExit("the job failed")


def batches(log: Path) -> int:
    """Return the number of micro-batches in one of Spark's logs."""
    return len([*log.glob("[0-9]*")])


def as_of(frame: pd.DataFrame, part: int) -> pd.DataFrame:
    """Return the readings of the first files with their windows, by pandas."""
    known = frame[frame.part <= part].sort_values(ORDER)
    rolling = known.set_index("ts").groupby("device").watts.rolling("24h")
    return known.assign(peak=rolling.max().to_numpy(), n=rolling.count().to_numpy())


def compare(frame: pd.DataFrame, folder: Path) -> None:
    """Compare both tables with pandas; raises AssertionError if they differ."""
    parts = int(frame.part.max()) + 1
    each = (as_of(frame, part).query(f"part == {part}") for part in range(parts))
    for table, wanted in (("peaks", pd.concat(each)), ("newest", as_of(frame, parts))):
        wanted = wanted.sort_values(ORDER, ignore_index=True)
        found = pd.read_parquet(folder / f"{table}.parquet")
        found = found.assign(ts=pd.to_datetime(found.ts, utc=True))
        found = found.sort_values(ORDER, ignore_index=True)
        assert found.ts.tolist() == wanted.ts.tolist(), f"{table}: {len(found)} of {len(wanted)}"
        columns = ["device", "watts", "peak", "n"]
        np.testing.assert_array_equal(found[columns], wanted[columns])
        print(f"{table}: all {len(found):,} results equal pandas, each once")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--meters", type=int, default=20)
    parser.add_argument("--files", type=int, default=8, help="commits of the source")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--by-batch", action="store_true", help="append to Delta by foreachBatch")
    parser.add_argument("--jars", help="the format's package, in place of a download")
    options = parser.parse_args()
    frame = make_readings(options.events, options.meters, options.files)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "incoming").mkdir()
        for part, rows in frame.groupby("part"):
            rows.to_parquet(folder / "incoming" / f"{part:04d}.parquet", index=False)
        run_job(options, folder)
        compare(frame, folder)


if __name__ == "__main__":
    main()
