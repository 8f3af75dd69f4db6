"""``mta check``: verify every page that the windows of a run need, and repair what can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mta.audit.walk import Audit, audit
from mta.cli.console import plural, say
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.cli.expressions import parse_aggregation, parse_windows
from spark_integration.cli.failures import spark_errors
from spark_integration.cli.inspection import locate, saved_handles
from spark_integration.cli.job import read_job, without_credentials
from spark_integration.cli.state_checkpoint import open_pages
from spark_integration.errors import InvalidRequest
from spark_integration.request import make_product
from spark_integration.step.windows import AnyWindow, restore_any
from stores import PageStore


@spark_errors()
def check(
    folder: Path, store_url: str | None, repair: bool, spark: Callable[[], SparkSession]
) -> int:
    """Print the damage by page and a summary; 1 if any is left, else 0.

    Reads every page of every window once.
    """
    checkpoint, address = locate(folder, store_url)
    _require_job(folder)
    if repair and is_state_url(address):
        raise InvalidRequest(
            f"--repair: the pages are in Spark's own state ({address}), which nobody but the query "
            "can write: leave --repair out, and if a page is damaged, take the query back to an "
            "older batch of its checkpoint"
        )
    session = spark()
    handles = saved_handles(session, checkpoint, address)
    total = Audit()
    with open_pages(session, checkpoint, address) as store:
        for key, window in windows_of(folder, handles, store):
            add_up(total, audit(window, repair), key)
    say(f"windows   {plural(len(handles), 'key')}")
    say(f"store     {without_credentials(address)}")
    sum_up(total, repair)
    if total.left and not repair and not is_state_url(address):
        say("what can be rebuilt, --repair does")
    return 1 if total.left else 0


def add_up(total: Audit, found: Audit, whose: str) -> None:
    """Print the damage that an audit has found, and add it to what others have."""
    total.pages += found.pages
    total.gone += found.gone
    total.damaged += found.damaged
    for damage in found.damaged:
        say(f"damaged   {whose}: {damage}")


def sum_up(total: Audit, repair: bool = False) -> None:
    """Print how many pages were verified, and how many of them are damaged."""
    gone, damaged = total.gone, len(total.damaged)
    left = f", {gone:,} of events that left are gone" if gone else ""
    say(f"pages     {total.pages:,} verified{left}")
    repaired = f", {len(total.repaired):,} repaired" if repair else ""
    say(f"damaged   {plural(damaged, 'page')}{repaired}" if damaged else "damaged   none")


def windows_of(
    folder: Path, handles: list[tuple[str, bytes]], store: PageStore
) -> Iterator[tuple[str, AnyWindow]]:
    """Every key's window, or windows, of the aggregations and policies that the job's note tells.

    No store call. Raises CorruptHandle, and HandleMismatch where the note is not the run's.
    """
    job = _require_job(folder)
    parsed = [parse_aggregation(text, job["value"]) for text in job["agg"]]
    monoid = make_product({agg.name: (agg.input, agg.monoid()) for agg in parsed})
    policy, by_time = parse_windows(job["window"]), job.get("allowed_lateness") is not None
    kind: AnyWindow | None = None
    for key, handle in handles:
        if kind is None:
            kind = restore_any(handle, monoid, policy, store, by_time)
        yield key, kind.sibling(handle)


def _require_job(folder: Path) -> dict[str, Any]:
    job = read_job(folder)
    if job is None:
        raise InvalidRequest(
            f"{folder} has no job.json, which tells the aggregations: name an output folder of "
            "'mta run'"
        )
    return job
